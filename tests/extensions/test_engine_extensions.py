"""Extensions belong to their engine: objects of the host, and names that are resolved once."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Role,
    Service,
    UnknownNameError,
)
from plb.engine_extensions import among
from plb.testing import busy_clusters
from tests.engine.stories import places_of
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

CONFIG = PlbConfig(metrics=[Metric("cpu")])


class On:
    """The number of replicas that are not on a certain node, as a term; as a constraint, all have to be there."""

    def __init__(self, node, name="on"):
        self.node, self.name = node, name

    def total(self, configuration):
        return float(len(self.broken(configuration)))

    def refuses(self, configuration, proposal):
        return any(one.target != self.node for one in configuration.relocations(proposal))

    def broken(self, configuration):
        return [row for row in configuration.rows.tolist() if configuration.node_of(row) not in (-1, self.node)]


class Goes:
    """A policy that takes a certain node."""

    name = "goes"

    def __init__(self, node):
        self.node, self.asked = node, 0

    def choose(self, configuration, row, nodes):
        self.asked += 1
        return self.node if self.node in nodes else None


@attrs.define
class Optional(Goes):
    """The same as a class with options."""

    node: int = 0
    name: str = "optional"
    asked: int = 0


def engine_with(config=CONFIG, **extensions):
    """Return an engine with four nodes, five missing replicas and extensions of its own."""
    engine = PlacementAndLoadBalancing(attrs.evolve(config, max_percentage_to_move=1.0), seed=1, **extensions)
    for index in range(4):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 20}), now=-1e6)
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 3}}))
    for index in range(5):
        engine.update_partition(Partition(f"web/{index}", service="web"))
    return engine


def end(engine, verb):
    engine.apply(engine.place())
    engine.apply(getattr(engine, verb)())
    return set(places_of(engine))


# objects of an engine


@pytest.mark.parametrize("node", [0, 2])
def test_objects_of_the_host_decide(node):
    """A term that settings do not name has the weight 1; here the only other term is small."""
    config = attrs.evolve(CONFIG, w_imbalance=0.0, w_overload=0.0, w_failovers=0.0)
    term = engine_with(config, extension_terms=[On(node)])
    assert end(term, "balance") == {f"n{node}"}
    assert end(engine_with(extension_constraints=(On(node),)), "repair") == {f"n{node}"}
    assert end(engine_with(extension_policy=Goes(node)), "repair") == {f"n{node}"}
    assert term.balance(budget=0).energy_before.terms["on"] == 0.0


def test_settings_set_the_weight_of_an_object():

    def energy(config):
        engine = engine_with(config, extension_terms=[On(3)], extension_constraints=[On(0)])
        engine.apply(engine.place())
        return engine.balance(budget=0).energy_before

    plain, named, without = (energy(attrs.evolve(CONFIG, extension_terms=w)) for w in ({}, {"on": 4.0}, {"on": 0.0}))
    assert plain.terms["on"] == named.terms["on"] == 5.0
    assert plain.total == pytest.approx(without.total + 5.0)
    assert named.total == pytest.approx(without.total + 20.0)


def test_settings_name_the_objects_of_the_host():
    """The settings of an engine say all that it uses, also after others are set; an object never gets lost."""
    engine = engine_with(extension_terms=[On(0, "a"), On(1, "b")], extension_constraints=[On(0)])
    assert dict(engine.config.extension_terms) == {"a": 1.0, "b": 1.0}
    assert (engine.config.extension_constraints, engine.config.policy) == (("on",), "annealing")
    engine.configure(attrs.evolve(CONFIG, extension_terms={"b": 3.0}))
    assert dict(engine.config.extension_terms) == {"b": 3.0, "a": 1.0}
    assert engine_with(extension_policy=Goes(0)).config.policy == "goes"
    plain = attrs.evolve(CONFIG, chains=3)
    assert PlacementAndLoadBalancing(plain).config is plain


def test_options_apply_to_the_policy_of_the_host():
    """As to a registered one; the object itself is not changed, nor is the engine by later changes of it."""
    policy = Optional(node=1)
    config = attrs.evolve(CONFIG, policy_options={"node": 2}, policy="optional")
    engine = engine_with(config, extension_policy=policy)
    assert {move.target for move in engine.place().moves} == {"n2"}
    assert policy == Optional(node=1)
    plain = engine_with(extension_policy=policy)
    policy.node = 3
    assert {move.target for move in plain.place().moves} == {"n1"}


@pytest.mark.parametrize(
    ("extensions", "kind", "message"),
    [
        ({"extension_terms": [On(0), On(1)]}, ConflictError, "extension_terms has two objects with the name 'on'"),
        ({"extension_constraints": [On(0), On(1)]}, ConflictError, "extension_constraints has two .* name 'on'"),
        ({"extension_terms": [On(0, "imbalance")]}, ConflictError, "extension_terms: 'imbalance' .* built-in term"),
        ({"extension_constraints": [On(0, "capacity")]}, ConflictError, "constraints: 'capacity' .* built-in rule"),
        ({"extension_policy": Optional(name="random")}, ConflictError, "policy: 'random' .* built-in policy"),
        ({"extension_terms": {"on": 1.0}}, InvalidValueError, "extension_terms = .* a list of energy terms"),
        ({"extension_terms": On(0)}, InvalidValueError, "extension_terms = .* a list of energy terms"),
        ({"extension_terms": [Goes(0)]}, InvalidValueError, "extension_terms: term = .* `total"),
        ({"extension_constraints": [Goes(0)]}, InvalidValueError, "extension_constraints: constraint = .* `refuses"),
        ({"extension_constraints": None}, InvalidValueError, "extension_constraints = None .* a list of constraints"),
        ({"extension_policy": On}, InvalidValueError, "extension_policy: policy = .* `choose"),
        ({"extension_policy": On(0)}, InvalidValueError, "extension_policy: policy = .* `choose"),
    ],
)
def test_invalid_objects_are_refused_by_name(extensions, kind, message):
    with pytest.raises(kind, match=message):
        PlacementAndLoadBalancing(CONFIG, **extensions)
    snapshot = PlacementAndLoadBalancing(CONFIG).snapshot()
    with pytest.raises(kind, match=message):
        PlacementAndLoadBalancing.from_snapshot(snapshot, **extensions)


def test_settings_cannot_name_another_policy():
    config = attrs.evolve(CONFIG, policy="first_fit")
    with pytest.raises(ConflictError, match="its policy goes is given, but the settings name first_fit"):
        PlacementAndLoadBalancing(config, extension_policy=Goes(0))
    engine = engine_with(extension_policy=Goes(2))
    before = engine.config
    with pytest.raises(ConflictError, match="its policy goes is given, but the settings name first_fit"):
        engine.configure(config)
    assert engine.config is before
    engine.configure(CONFIG)
    assert {move.target for move in engine.place().moves} == {"n2"}


# names


@examples(20)
@given(cluster=busy_clusters(), nodes=st.permutations([0, 1]))
def test_engines_share_no_extension(cluster, nodes):
    """Each makes the plans that it makes alone, with objects of one name."""

    def extensions(node):
        return {"extension_terms": [On(node)], "extension_constraints": [], "extension_policy": None}

    alone = [cluster.engine(extensions=extensions(node)).balance(budget=200) for node in nodes]
    engines = [cluster.engine(extensions=extensions(node)) for node in nodes]
    assert [engine.balance(budget=200) for engine in engines] == alone


def test_settings_choose_among_the_objects_and_a_policy_keeps_its_memory():
    config = attrs.evolve(CONFIG, extension_terms={"on": 1e6})
    assert end(engine_with(config, extension_terms=[On(3)]), "balance") == {"n3"}
    walker = engine_with(CONFIG, extension_policy=Goes(1))
    assert {move.target for move in walker.place().moves} == {"n1"}
    walker.configure(attrs.evolve(walker.config, chains=3))
    assert walker._planner.extensions.policy.asked == 5, "the policy is the same object still"
    for settings in (config, attrs.evolve(CONFIG, extension_terms={"off": 1.0})):
        with pytest.raises(UnknownNameError, match="unknown energy term"):
            engine_with(settings)
    with pytest.raises(UnknownNameError, match="unknown placement policy 'goes'"):
        engine_with(attrs.evolve(CONFIG, policy="goes"))


def test_objects_of_a_list_are_chosen_by_kind_and_name():
    objects = [On(1), On(2, "at"), Goes(1)]
    config = attrs.evolve(CONFIG, extension_terms={"on": 1.0}, extension_constraints=["at"], policy="goes")
    assert among(objects, config) == {
        "extension_terms": [objects[0]],
        "extension_constraints": [objects[1]],
        "extension_neighbourhoods": [],
        "extension_policy": objects[2],
    }
    assert among(objects, CONFIG)["extension_policy"] is None
    with pytest.raises(ConflictError, match="2 objects of the kind energy term have the name 'on'"):
        among([On(1), On(2)], attrs.evolve(CONFIG, extension_terms={"on": 1.0}))
    with pytest.raises(ConflictError, match="2 objects of the kind policy have the name 'goes'"):
        among([Goes(1), Goes(2)], attrs.evolve(CONFIG, policy="goes"))


# snapshots


@examples(15)
@given(cluster=busy_clusters(), verb=st.sampled_from(["place", "repair", "balance"]))
def test_snapshots_continue_with_objects_of_the_host(cluster, verb):
    """The names are in the snapshot, the objects are given again; without them the names are unknown."""
    extensions = {"extension_terms": [On(0)], "extension_constraints": [On(1, "at")]}
    engine = cluster.engine(extensions=extensions)
    getattr(engine, verb)(budget=50)
    snapshot = engine.snapshot()
    history = engine._planner._history
    twin = PlacementAndLoadBalancing.from_snapshot(snapshot, history=history, **extensions)
    assert twin.config == engine.config
    engine._planner._fixed_point.forget()  # as its twin does
    assert [getattr(one, verb)(budget=50) for one in (twin, twin)] == [
        getattr(one, verb)(budget=50) for one in (engine, engine)
    ]
    with pytest.raises(UnknownNameError, match="unknown constraint 'at'"):
        PlacementAndLoadBalancing.from_snapshot(snapshot, history=history, extension_terms=[On(0)])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda engine: pickle.loads(pickle.dumps(engine))])
def test_copies_have_the_objects_and_what_the_policy_keeps(copied):
    config = attrs.evolve(CONFIG, extension_terms={"first": 0.5})
    own = {"extension_terms": [On(0, "first")], "extension_constraints": [On(2)], "extension_policy": Goes(2)}
    engine = engine_with(config, **own)
    engine.place()
    twin = copied(engine)
    assert (twin._planner.extensions.policy.asked, twin.config) == (5, engine.config)
    for one in (engine, twin):
        one.configure(attrs.evolve(one.config, chains=3))
    assert twin._planner.extensions.policy.asked == 5
    assert twin.place() == engine.place()
