"""A public method accepts any value or raises an error of plb, which changes nothing."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Application,
    Budget,
    Energy,
    Metric,
    Move,
    MoveKind,
    Node,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    Plan,
    PlbConfig,
    PlbError,
    Reason,
    Replica,
    Role,
    Service,
)
from plb.risk import DemandHistory

from .fingerprint import snapshot
from .stories import three_nodes
from .strategies import examples

NUMBERS = [True, -1, 0, 3, 10**400, 0.5, math.nan, -math.inf, 1j, Decimal("0.1")]
TEXTS = ["", "n0", "cpu", "primary", "ünheard of", b"n0"]
COLLECTIONS = [(), [], {}, set(), frozenset({"n0"}), ["n0"], ["n0", 3], [None], range(2)]
ROWS = [[[1.0, 2.0]], [[1.0], [2.0, 3.0]], [["1", "2"]]]
LOADS = [{"cpu": 1}, {"cpu": None}, {"cpu": -1}, {"cpu": "1"}, {1: 2}, {None: {}}]
BY_NODE = [{"n0": {"cpu": 1}}, {"n0": {"cpu": [1]}}, {"n0": 3}, {"n0": Replica(Role.PRIMARY, "n0")}]
BY_ROLE = [{Role.PRIMARY: {"cpu": 1}}, {"primary": {"cpu": 1}, Role.PRIMARY: {"cpu": 2}}, {"tertiary": {"cpu": 1}}]
ARRAYS = [np.array(3), np.array([1, 2]), np.zeros((2, 2)), np.array([None]), np.array(["a"])]
SCALARS = [np.int8(1), np.float32(0.5), np.bool_(True)]
OBJECTS = [None, object(), int, len, Role.SECONDARY, MoveKind.ADD, Phase.REPAIR, Budget(proposals=0), Metric("cpu")]
DESCRIPTIONS = [Node("n9"), Service("new"), Replica(Role.PRIMARY, "n0"), [Replica(Role.PRIMARY, "n0"), Node("n0")]]
OTHERS = [Partition("db/9", service="db"), PlbConfig(metrics=[Metric("cpu")])]
ODD = [*NUMBERS, *TEXTS, *COLLECTIONS, *ROWS, *LOADS, *BY_NODE, *BY_ROLE, *ARRAYS, *SCALARS, *OBJECTS]
ODD += [*DESCRIPTIONS, *OTHERS]
junk = st.sampled_from(ODD) | st.recursive(
    st.sampled_from(ODD).filter(lambda value: isinstance(value, str | int | float | None)),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["cpu", "n0", "x"]), inner, max_size=2),
    max_leaves=4,
)

NOTHING = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
MOVE = Move(MoveKind.SWAP, "db/0", Role.PRIMARY, "n0", "n1", Reason(Phase.BALANCING, "energy"), 1.0)

METHODS: dict[str, dict[str, Any]] = {
    "configure": {"config": PlbConfig(metrics=[Metric("cpu"), Metric("memory")])},
    "update_node": {"node": Node("n0"), "now": 1.0},
    "update_nodes": {"nodes": [Node("n0")], "now": 1.0},
    "drain_node": {"name": "n2", "now": 1.0},
    "undrain_node": {"name": "n2", "now": 1.0},
    "remove_node": {"name": "n2", "now": 1.0},
    "update_service": {"service": Service("db", target_replicas=2)},
    "update_application": {"application": Application("a", most_nodes=2)},
    "remove_application": {"name": "a"},
    "update_partition": {"partition": Partition("db/0", service="db")},
    "update_partitions": {"partitions": [Partition("db/0", service="db")]},
    "update_upgraded_domains": {"domains": ["u0"]},
    "remove_partition": {"name": "db/0"},
    "remove_service": {"name": "db"},
    "report_load": {"partition": "db/0", "node": "n0", "loads": {"cpu": 1}},
    "report_role_load": {"partition": "db/0", "role": Role.PRIMARY, "loads": {"cpu": 1}},
    "report_secondary_loads": {"partition": "web/0", "loads": {"n0": {"cpu": 1}}},
    "report_loads": {"replica_index": [0, 1], "loads": [[1.0, 2.0], [3.0, 4.0]]},
    "reset_load": {"partition": "db/0"},
    "report_move_cost": {"partition": "db/0", "role": Role.PRIMARY, "cost": "high"},
    "replicas": {"partition": "db/0"},
    "expected_load": {"partition": "db/0", "role": "secondary"},
    "alternatives": {"partition": "db/0", "now": 1.0},
    "score": {"partition": "db/0", "now": 1.0},
    "score_new": {"partition": Partition("db/9", service="db"), "loads": {"cpu": 1.0}, "now": 1.0},
    "violations": {"soft": True},
    "violation_probabilities": {"now": 1.0, "partition": "db/0"},
    "place": {"partition": ["db/0"], "now": 1.0, "budget": 0},
    "repair": {"now": 1.0, "budget": 0},
    "balance": {"now": 1.0, "budget": 0},
    "refresh": {"now": 1.0, "budget": 0},
    "advance": {"now": 1.0},
    "apply": {"plan": Plan((MOVE,), NOTHING, NOTHING), "leaving": True},
    "partitions_on": {"node": "n0"},
    "replica_indices": {"partitions": ["db/0"], "nodes": ["n0"]},
    "vacate": {"partition": "db/0", "node": "n0"},
}
"""Valid or nearly valid arguments of each method."""
KINDS: dict[type, dict[str, Any]] = {
    Metric: {"name": "cpu"},
    Node: {"name": "n0"},
    Application: {"name": "a"},
    Service: {"name": "db"},
    Replica: {"role": Role.PRIMARY, "node": "n0"},
    Partition: {"name": "db/0", "service": "db", "replicas": [Replica(Role.PRIMARY, "n1")]},
    Budget: {},
    PlbConfig: {"metrics": [Metric("cpu"), Metric("memory")]},
}
"""Classes that hosts create, with their required fields."""
FIELDS = [(kind, field.name) for kind in KINDS for field in attrs.fields(kind)]


def all_methods() -> set[str]:
    """Return the public methods of an engine that take arguments."""
    silent = {"node_loads", "service_domains", "snapshot", "total_capacities"}
    members = {name: inspect.getattr_static(PlacementAndLoadBalancing, name) for name in dir(PlacementAndLoadBalancing)}
    public = {name for name, member in members.items() if name[0] != "_" and callable(member)}
    return public - silent


def test_table_has_every_method():
    """A new method has to be tried as well."""
    assert set(METHODS) == all_methods()


def is_refused(call: Callable[[], object]) -> bool:
    """Make a call; return whether it raises an error of plb with a message. Other errors propagate."""
    try:
        call()
    except PlbError as error:
        return bool(str(error))
    return False


def refusals(engine: PlacementAndLoadBalancing, method: str, calls: Iterable[dict[str, Any]]) -> int:
    """Call a method with each of these arguments; return how often it refuses, which must change nothing."""
    refused, before = 0, snapshot(engine)
    for arguments in calls:
        is_unchanged = is_refused(lambda arguments=arguments: getattr(engine, method)(**arguments))
        after = snapshot(engine)
        assert not is_unchanged or after == before, method
        refused, before = refused + is_unchanged, after
    return refused


@pytest.mark.parametrize("method", METHODS)
def test_every_method_accepts_or_refuses_odd_values(method, small_cluster):
    """Each odd value takes the place of each argument in turn, on the same engine."""
    calls = ({**METHODS[method], field: value} for field in METHODS[method] for value in ODD)
    assert refusals(small_cluster.engine(), method, calls) > len(ODD) // 2


@examples(200)
@given(st.sampled_from(sorted(METHODS)), st.data())
def test_any_junk_is_refused_or_accepted(method, data):
    """Several arguments may be junk of any shape."""
    engine = three_nodes().engine()
    arguments = {field: data.draw(junk | st.just(value)) for field, value in METHODS[method].items()}
    refusals(engine, method, [arguments])


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_every_description_accepts_or_refuses_odd_values(kind, field):
    """A description or a setting refuses the value when it is created."""
    for value in ODD:
        is_refused(lambda value=value: kind(**{**KINDS[kind], field: value}))


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(Move) if field.name != "cost"])
def test_plan_with_junk_is_refused_as_a_whole(field, small_cluster):
    """A plan with an invalid move, or with junk in a field of one, is refused as a whole."""
    moves = [(attrs.evolve(MOVE, **{field: value}),) for value in ODD]
    refusals(small_cluster.engine(), "apply", ({"plan": Plan(of, NOTHING, NOTHING)} for of in (*moves, *ODD)))


@pytest.mark.parametrize("mapping", [None, "MaxPercentageToMove", [("MaxPercentageToMove", 0.5)], 3])
def test_service_fabric_settings_that_are_no_mapping_are_refused(mapping):
    """Metrics that are no list are refused as well."""
    with pytest.raises(PlbError, match="a mapping of names to values"):
        PlbConfig.from_service_fabric(mapping, metrics=[Metric("cpu")])
    with pytest.raises(PlbError, match="a list of Metric"):
        PlbConfig.from_service_fabric({}, metrics="cpu")


@pytest.mark.parametrize("arguments", [{"config": None}, {"seed": [1]}, {"history": {}}])
def test_engine_of_junk_is_refused(arguments):
    """The engine checks settings, seed and history first."""
    with pytest.raises(PlbError):
        PlacementAndLoadBalancing(**{"config": PlbConfig(metrics=[Metric("cpu")]), **arguments})


COLUMNS = {
    "tenant_class": ["gold"],
    "role": [Role.PRIMARY],
    "lifetime": [1],
    **{name: [[0, 0]] for name in ("level", "initial", "growth", "maximum")},
}
"""Columns of a demand history of one trace and two metrics."""


@pytest.mark.parametrize("names", ["n0", b"n0", {"n0": 1}, None, 3, ["n0", 3]])
def test_single_name_is_no_collection_of_names(names, small_cluster):
    """A string would be read as its letters; a mapping or a list with other values is refused as well."""
    engine = small_cluster.engine()
    takers = [lambda: Service("s", blocked_nodes=names), lambda: engine.update_upgraded_domains(names)]
    takers += [lambda: engine.place(names)] if names not in (None, "n0") else []
    takers += [lambda: DemandHistory.from_columns(names, **COLUMNS)] if names != ["n0", 3] else []
    for take in takers:
        with pytest.raises(PlbError, match="expected a collection of names"):
            take()


@pytest.mark.parametrize("names", [["n0"], ("n0",), {"n0"}, (name for name in ["n0"]), {"n0": 1}.keys()])
def test_any_collection_of_names_is_accepted(names):
    """It may be a list, tuple, set, generator or view."""
    assert Service("s", blocked_nodes=names).blocked_nodes == {"n0"}
