"""Neighbourhoods of users: plans as in Python and with kernels, what is refused, and errors that name them."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    ExtensionError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.compiler import kernel
from plb.extensions.neighbourhoods import MOST_PROPOSED, CompiledNeighbourhood
from plb.settings.config import NEIGHBOURHOODS
from plb.testing import busy_clusters
from tests.engine.fingerprint import snapshot as fingerprint
from tests.engine.strategies import examples

from .proposing import Fixed, Rotation, SwiftAnything, SwiftFixed, SwiftRotation

pytestmark = pytest.mark.kernels

METRICS = [Metric("cpu", quantum=1.0)]


def engine_with(*neighbourhoods, **settings):
    """Return three nodes with four replicas, two of them on the first node; only steps of several moves are made."""
    settings = {"larger_neighbourhood_share": 1.0, "max_percentage_to_move": 1.0, "w_imbalance": 1000.0, **settings}
    config = PlbConfig(metrics=METRICS, **settings)
    engine = PlacementAndLoadBalancing(config, seed=2, extension_neighbourhoods=neighbourhoods)
    fill(engine)
    return engine


def fill(engine):
    for node in range(3):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 20}), now=-1e6)
    engine.update_service(Service("web", stateful=False))
    for index, node in enumerate(("n0", "n0", "n1", "n2")):
        replica = Replica(Role.INSTANCE, node)
        engine.update_partition(Partition(f"p{index}", service="web", replicas=[replica]))
        engine.report_load(f"p{index}", node, {"cpu": 6.0 - index})


def tried_by(engine):
    """Return the names of the neighbourhoods of which a plan of balancing makes steps."""
    return set(engine.balance(budget=20_000).proposals.tried_by_neighbourhood)


@examples(60)
@given(busy_clusters(), st.sampled_from([0.3, 1.0]), st.sampled_from([(), ("ejection_chain", "service")]))
def test_kernels_and_python_lead_to_the_same_plans(cluster, share, others):
    settings = {"larger_neighbourhood_share": share, "larger_neighbourhoods": (*others, "rotation")}
    both = [{"extension_neighbourhoods": [one]} for one in (SwiftRotation(), Rotation())]
    plans = [cluster.engine(extensions=extensions, **settings).balance(budget=600) for extensions in both]
    assert plans[0] == plans[1]
    assert set(plans[0].proposals.tried_by_neighbourhood) <= {"rotation", *others}


# which are searched


def test_setting_chooses_the_neighbourhoods():
    """The default is all built-in ones that apply; those that the host gives follow the named ones."""
    apply = {*NEIGHBOURHOODS} - {"partition"}  # no partition has several replicas
    assert tried_by(engine_with()) == apply
    assert tried_by(engine_with(larger_neighbourhoods=["node", "ejection_chain"])) == {"node", "ejection_chain"}
    assert tried_by(engine_with(Rotation())) == {*apply, "rotation"}
    only = engine_with(Rotation(), SwiftAnything(), larger_neighbourhoods=["rotation"])
    assert only.config.larger_neighbourhoods == ("rotation", "swift_anything")
    assert tried_by(only) == {"rotation", "swift_anything"}
    assert PlbConfig(metrics=METRICS).larger_neighbourhoods == NEIGHBOURHOODS


def test_naming_the_default_changes_no_plan():
    assert engine_with().balance() == engine_with(larger_neighbourhoods=NEIGHBOURHOODS).balance()


def test_other_settings_can_be_set():
    engine = engine_with(Rotation())
    engine.configure(attrs.evolve(engine.config, larger_neighbourhoods=("service",)))
    assert engine.config.larger_neighbourhoods == ("service", "rotation")
    assert tried_by(engine) == {"service", "rotation"}
    before = fingerprint(engine)
    with pytest.raises(ConflictError, match="larger_neighbourhoods names 'rotation', which has no effect"):
        engine.configure(PlbConfig(metrics=METRICS))
    assert fingerprint(engine) == before
    plain = engine_with(larger_neighbourhood_share=0.0)
    assert tried_by(plain) == set()


def test_copies_and_snapshots_keep_the_neighbourhood():
    engine = engine_with(Rotation())
    snapshot = engine.snapshot()
    copies = [copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))]
    copies.append(PlacementAndLoadBalancing.from_snapshot(snapshot, extension_neighbourhoods=[Rotation()]))
    plan = engine.balance()
    assert [one.balance() for one in copies] == [plan] * 3
    with pytest.raises(UnknownNameError, match="unknown neighbourhood 'rotation'"):
        PlacementAndLoadBalancing.from_snapshot(snapshot)


def test_a_neighbourhood_has_its_place_in_the_settings():
    named = PlbConfig(metrics=METRICS, larger_neighbourhood_share=1.0, larger_neighbourhoods=["rotation"])
    with pytest.raises(UnknownNameError, match="unknown neighbourhood 'rotation'"):
        PlacementAndLoadBalancing(named)
    engine = PlacementAndLoadBalancing(named, seed=2, extension_neighbourhoods=[Rotation()])
    fill(engine)
    assert tried_by(engine) == {"rotation"}
    engine.configure(named)
    assert tried_by(engine) == {"rotation"}


# what is refused


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"larger_neighbourhoods": ["mine"]}, ConflictError, "names 'mine', which has no effect: larger_.*_share is 0"),
        ({"larger_neighbourhoods": [], "larger_neighbourhood_share": 0.5}, ConflictError, "is 0.5, but .* is empty"),
        ({"larger_neighbourhoods": ["node", "node"]}, ConflictError, "larger_neighbourhoods has a name twice"),
        ({"larger_neighbourhoods": "node"}, InvalidValueError, "larger_neighbourhoods = 'node' .* a list of names"),
    ],
)
def test_settings_without_sense_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        PlbConfig(metrics=METRICS, **settings)


class WithSums(SwiftAnything):
    """A neighbourhood with sums, which nothing would bring up to date."""

    def new_sums(self, _configuration):
        return [0]


class Nothing(CompiledNeighbourhood):
    """A neighbourhood without a kernel."""

    name = "nothing"


class NamedLikeABuiltIn(Rotation):
    """One with the name of a built-in neighbourhood."""

    name = "service"


@pytest.mark.parametrize(
    ("neighbourhood", "error", "message"),
    [
        (Rotation, InvalidValueError, "neighbourhood = .* a kernel `propose`"),
        (Nothing(), InvalidValueError, "neighbourhood = .* a kernel `propose`"),
        (object(), InvalidValueError, "neighbourhood = .* an object with a `name`"),
        (WithSums(), InvalidValueError, "neighbourhood swift_anything = .* without `new_sums`"),
        (NamedLikeABuiltIn(), ConflictError, "'service' is the name of a built-in neighbourhood"),
    ],
)
def test_objects_that_are_no_neighbourhoods_are_refused(neighbourhood, error, message):
    with pytest.raises(error, match=f"engine: extension_neighbourhoods: {message}"):
        engine_with(neighbourhood)


def test_two_under_one_name_are_refused():
    with pytest.raises(ConflictError, match="extension_neighbourhoods has two objects with the name 'rotation'"):
        engine_with(Rotation(), SwiftRotation())


# errors

OUT_OF_RANGE = [
    ((1, -1, 0), "it has proposed to move row -1 to node 0; rows are 0 to "),
    ((1, 10**6, 0), "it has proposed to move row 1000000 to node 0; rows are 0 to "),
    ((1, 0, 3), r"it has proposed to move row 0 to node 3; rows are 0 to \d+, nodes 0 to 2"),
    ((1, 0, -1), "it has proposed to move row 0 to node -1; "),
]


@pytest.mark.parametrize(("wrong", "message"), OUT_OF_RANGE)
@pytest.mark.parametrize("compiled", [False, True])
def test_moves_out_of_range_are_an_error(wrong, message, compiled):
    one = SwiftFixed(*wrong) if compiled else Fixed([wrong[1:]])
    engine = engine_with(one, chains=2)
    engine.violations()
    before = fingerprint(engine)
    with pytest.raises(ExtensionError, match=f"neighbourhood fixed: propose has failed: {message}") as raised:
        engine.balance(budget=20_000)
    assert (raised.value.kind, raised.value.name, raised.value.method) == ("neighbourhood", "fixed", "propose")
    assert fingerprint(engine) == before


@pytest.mark.parametrize("count", [-1, MOST_PROPOSED + 1, 2**40])
def test_number_of_moves_out_of_range_is_an_error(count):
    with pytest.raises(ExtensionError, match=f"it has proposed {count} moves; expected 0 to {MOST_PROPOSED}"):
        engine_with(SwiftFixed(count, 0, 0)).balance(budget=20_000)


@pytest.mark.parametrize(
    ("proposed", "message"),
    [
        ([(0, 1)] * (MOST_PROPOSED + 1), f"it has proposed {MOST_PROPOSED + 1} moves; expected 0 to {MOST_PROPOSED}"),
        (None, "it has returned None; expected pairs of a row and a node"),
        ([3], "it has proposed 3; expected pairs"),
        ([(0, 1, 2)], r"it has proposed \(0, 1, 2\); expected pairs"),
        ([(0, 1.5)], r"it has proposed \(0, 1.5\); expected pairs"),
    ],
)
def test_what_is_no_list_of_moves_is_an_error(proposed, message):
    with pytest.raises(ExtensionError, match=f"neighbourhood fixed: propose has failed: {message}"):
        engine_with(Fixed(proposed)).balance(budget=20_000)


@kernel
def _fails(_problem, _solution, _data, row, _rng, _moves):
    if row >= 0:
        raise ValueError("no moves")
    return 0


@kernel
def _takes_too_few(_problem, _solution, _row):
    return 0


def test_errors_of_a_neighbourhood_name_it(monkeypatch):

    def fail(*_):
        yield 0, 1
        raise KeyError("moves")

    monkeypatch.setattr(Rotation, "propose", fail)
    with pytest.raises(ExtensionError, match="neighbourhood rotation: propose has failed: KeyError: 'moves'") as raised:
        engine_with(Rotation()).balance(budget=20_000)
    assert type(raised.value.__cause__) is KeyError
    monkeypatch.setattr(SwiftAnything, "propose", _fails)
    with pytest.raises(ExtensionError, match="neighbourhood swift_anything: propose has failed: ValueError: no moves"):
        engine_with(SwiftAnything()).balance(budget=20_000)


def test_other_kernels_are_refused(monkeypatch):
    monkeypatch.setattr(SwiftAnything, "propose", _takes_too_few)
    expected = "neighbourhood swift_anything: propose .* has to take problem, solution, data, row, rng, moves"
    with pytest.raises(ExtensionError, match=expected):
        engine_with(SwiftAnything()).balance()
    monkeypatch.setattr(SwiftRotation, "propose", Rotation.propose)
    with pytest.raises(InvalidValueError, match=r"rotation: propose = .*plb.compiler.kernel"):
        engine_with(SwiftRotation()).balance()
