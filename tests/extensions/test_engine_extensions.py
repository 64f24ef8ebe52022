"""Extensions belong to their engine: objects of the host, and names that are resolved once."""

from __future__ import annotations

import copy
import pickle
import sys
from types import ModuleType

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
from plb.registry import register_constraint, register_policy, register_term
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
@given(cluster=busy_clusters(), nodes=st.permutations([0, 1]), later=st.booleans())
def test_engines_share_no_extension(cluster, nodes, later):
    """Each makes the plans that it makes alone, with objects of one name, and when another object is registered."""

    def extensions(node):
        return {"extension_terms": [On(node)], "extension_constraints": [], "extension_policy": None}

    alone = [cluster.engine(extensions=extensions(node)).balance(budget=200) for node in nodes]
    engines = [cluster.engine(extensions=extensions(node)) for node in nodes]
    if later:
        register_term(On(5, "on"))
    assert [engine.balance(budget=200) for engine in engines] == alone


@pytest.mark.usefixtures("registry")
def test_names_are_resolved_when_an_engine_is_made_or_configured():
    """What is registered later changes no engine until it gets settings, and a policy not its memory."""
    names = {"extension_terms": {"on": 1e6}, "extension_constraints": ("on",)}
    for register in (register_term, register_constraint):
        register(On(1))
    register_policy(Goes(1))
    config = attrs.evolve(CONFIG, **names)
    engine, walker = engine_with(config), engine_with(attrs.evolve(CONFIG, policy="goes"))
    for register in (register_term, register_constraint):
        register(On(2))
    register_policy(Goes(2))
    for one in (engine, walker):
        assert {move.target for move in one.place().moves} == {"n1"}
    assert walker._planner.extensions.policy.asked == 5
    for one in (engine, walker):
        one.configure(attrs.evolve(one.config, chains=2))
        assert {move.target for move in one.place().moves} == {"n2"}
    walker.configure(attrs.evolve(walker.config, chains=3))
    assert walker._planner.extensions.policy.asked == 5, "the policy is the same object still"


@pytest.mark.usefixtures("registry")
def test_new_objects_begin_new_searches():
    """The result of a balancing is no fixed point of another term of the same name."""
    register_term(On(1))
    engine = engine_with(attrs.evolve(CONFIG, extension_terms={"on": 1e6}))
    assert end(engine, "balance") == {"n1"}
    assert engine.balance().proposals.generated == 0
    engine.configure(engine.config)
    assert engine.balance().proposals.generated == 0
    register_term(On(2))
    engine.configure(engine.config)
    assert end(engine, "balance") == {"n2"}


@pytest.mark.usefixtures("registry")
def test_an_object_of_the_host_hides_a_registered_one():
    register_term(On(1))
    config = attrs.evolve(CONFIG, extension_terms={"on": 1e6})
    assert end(engine_with(config, extension_terms=[On(3)]), "balance") == {"n3"}
    assert end(engine_with(config), "balance") == {"n1"}
    with pytest.raises(UnknownNameError, match="unknown energy term 'off'"):
        engine_with(attrs.evolve(CONFIG, extension_terms={"off": 1.0}), extension_terms=[On(3)])


def same_named_class(file):
    """Return the class of another module of the same qualified name as `On`; `file` is where the module is."""
    module = ModuleType(f"module_of_{abs(hash(file))}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    return type("On", (On,), {"__module__": module.__name__, "__qualname__": "On"})


def test_classes_of_two_files_are_two_classes(registry):
    """The second one is refused under the name of the first; a file that is imported again is the same file."""
    register_term(On(0))
    with pytest.raises(ConflictError, match=r"register_term: On \(.*test_engine_extensions.py\) has the name 'on'"):
        register_term(same_named_class("/elsewhere/on.py")(0))
    again = same_named_class(__file__)(1)
    register_term(again)
    assert registry.registered("energy term", "on") is again
    register_constraint(same_named_class("/elsewhere/on.py")(0))
    with pytest.raises(ConflictError, match=r"register_constraint: On \(/elsewhere/on.py\) has the name 'on'"):
        register_constraint(again)


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
    register_term(On(0, "registered"))
    config = attrs.evolve(CONFIG, extension_terms={"registered": 0.5})
    engine = engine_with(config, extension_constraints=[On(2)], extension_policy=Goes(2))
    engine.place()
    twin = copied(engine)
    assert (twin._planner.extensions.policy.asked, twin.config) == (5, engine.config)
    for one in (engine, twin):
        one.configure(attrs.evolve(one.config, chains=3))
    assert twin._planner.extensions.policy.asked == 5
    assert twin.place() == engine.place()
