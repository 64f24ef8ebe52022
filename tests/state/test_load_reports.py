"""Reports of loads: in bulk, of secondaries node by node (docs/service-fabric.md, Loads), and their reset."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    ReplicaState,
    Role,
    Service,
    UnknownNameError,
)
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

QUANTUM = 0.25
COUNT = 5
ROW_LOADS = st.lists(st.sampled_from([0.0, 0.1, 0.25, 3.0, 3.1]), min_size=2, max_size=2)
REPORTS = st.lists(st.dictionaries(st.integers(0, COUNT - 1), ROW_LOADS, max_size=COUNT), max_size=4)


def engine_with_replicas() -> PlacementAndLoadBalancing:
    """Return an engine with two metrics, of which the second service has only the first."""
    metrics = [Metric("cpu", quantum=QUANTUM), Metric("disk", quantum=QUANTUM)]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics))
    engine.update_node(Node("n"))
    engine.update_service(Service("all", stateful=False))
    engine.update_service(Service("some", stateful=False, metrics={"cpu": 1.0}))
    for number in range(COUNT):
        service = "some" if number % 2 else "all"
        engine.update_partition(Partition(f"p{number}", service=service, replicas=[Replica(Role.INSTANCE, "n")]))
    return engine


@examples(100)
@given(REPORTS)
def test_reports_in_any_order_change_what_differs(reports: list[dict[int, list[float]]]) -> None:
    """Loads are rounded up, the largest demand only rises, and replicas with equal loads are not changed.

    A report is no reason to describe a replica again.
    """
    engine = engine_with_replicas()
    table = engine._state.rows
    row_of = [engine.replicas(f"p{number}")[0].index for number in range(COUNT)]
    known = {number: ([0, 0], [0.0, 0.0], False) for number in range(COUNT)}
    for report in reports:
        table.changes.take()
        assert not len(table.changes.described)
        engine.report_loads([row_of[number] for number in report], list(report.values()))
        changed = []
        for number, given_loads in report.items():
            demand = [given_loads[0], 0.0 if number % 2 else given_loads[1]]
            loads = [math.ceil(value / QUANTUM) for value in demand]
            largest = [max(pair) for pair in zip(known[number][1], demand, strict=True)]
            if known[number] != (loads, largest, True):
                changed.append(row_of[number])
            known[number] = (loads, largest, True)
        assert not len(table.changes.described)
        assert table.changes.take().tolist() == sorted(changed)
        for number, row in enumerate(row_of):
            found = (table.load[row].tolist(), table.largest_demand[row].tolist(), bool(table.reported[row]))
            assert found == known[number]
    expected = np.sum([loads for loads, _, _ in known.values()], axis=0) * QUANTUM
    assert engine.node_loads() == {"n": {"cpu": expected[0], "disk": expected[1]}}


PLACES = ("n0", "n1", "n2", "n3")


def engine_with_secondaries(**settings) -> PlacementAndLoadBalancing:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu", quantum=0.25), Metric("disk")], **settings))
    for name in PLACES:
        engine.update_node(Node(name))
    engine.update_service(Service("db", target_replicas=5, default_load={Role.SECONDARY: {"cpu": 1, "disk": 7}}))
    roles = [Role.PRIMARY, *[Role.SECONDARY] * 3]
    replicas = [Replica(role, node) for role, node in zip(roles, PLACES, strict=True)]
    engine.update_partition(Partition("p", service="db", replicas=replicas))
    return engine


def loads_of(engine, metric: int = 0) -> dict[str | None, float]:
    """Return the load of each replica by its node, None for the replica without a node."""
    table, quanta = engine._state.rows, engine._state.quanta.quanta
    return {replica.node: float(table.load[replica.index, metric] * quanta[metric]) for replica in engine.replicas("p")}


reports = st.lists(st.dictionaries(st.sampled_from(PLACES[1:]), st.integers(0, 50), min_size=1), min_size=1, max_size=3)


@examples(60)
@given(reports, st.booleans())
def test_new_secondaries_have_the_rounded_mean(updates, separate):
    """A secondary has the last report for its node, or else its old load; a new one has the mean of present ones."""
    engine = engine_with_secondaries(use_separate_secondary_load=separate)
    said = {}
    for update in updates:
        engine.report_secondary_loads("p", {node: {"cpu": load} for node, load in update.items()})
        said.update(update)
    present = [said.get(node, 1) for node in PLACES[1:]] if separate else [*said.values()]
    average = math.floor(sum(present) / len(present) + 0.5)
    expected = {node: said.get(node, 1) if separate else average for node in PLACES[1:]}
    assert loads_of(engine) == {"n0": 0, **expected, None: average}
    assert loads_of(engine, 1) == {"n0": 0, "n1": 7, "n2": 7, "n3": 7, None: 7}, "the other metric does not change"


def test_later_secondary_has_the_mean():
    engine = engine_with_secondaries()
    engine.report_secondary_loads("p", {"n1": {"cpu": 4}, "n2": {"cpu": 7}})
    engine.update_service(Service("db", target_replicas=6))
    replicas = [Replica(Role.PRIMARY, "n0"), *(Replica(Role.SECONDARY, name) for name in PLACES[1:])]
    engine.update_partition(Partition("p", service="db", replicas=replicas))
    assert loads_of(engine) == {"n0": 0, "n1": 4, "n2": 7, "n3": 1, None: 4}


def test_primary_keeps_its_load():
    engine = engine_with_secondaries()
    engine.report_secondary_loads("p", {"n0": {"cpu": 8}, "n1": {"cpu": 2}})
    assert loads_of(engine) == {"n0": 0, "n1": 2, "n2": 1, "n3": 1, None: 1}


@pytest.mark.parametrize("everywhere", [False, True])
def test_instances_report_by_node_as_secondaries_do(*, everywhere: bool):
    metrics = [Metric("cpu", quantum=1)]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, use_default_load_for_service_on_every_node=True))
    for name in PLACES:
        engine.update_node(Node(name))
    service = Service("web", stateful=False, target_replicas=3, default_load={"instance": {"cpu": 1}})
    engine.update_service(attrs.evolve(service, on_every_node=everywhere))
    replicas = [Replica(Role.INSTANCE, name) for name in ("n0", "n1")]
    engine.update_partition(Partition("p", service="web", replicas=replicas))
    engine.report_secondary_loads("p", {"n0": {"cpu": 4}, "n1": {"cpu": 7}})
    engine.apply(engine.place())
    later = {load for node, load in loads_of(engine).items() if node in ("n2", "n3")}
    assert later == ({1} if everywhere else {6})


BAD = [
    ({"n9": {"cpu": 1}}, UnknownNameError, "unknown node 'n9'"),
    ({"n1": {"cpu": 1}, "n2": {"cp": 1}}, UnknownNameError, "unknown metric 'cp'"),
    ({"n1": {"cpu": 1}, "n2": {"cpu": -1}}, InvalidValueError, r"loads\[n2\]\[cpu\] = -1"),
]


@pytest.mark.parametrize(("loads", "error", "message"), BAD)
def test_bad_report_changes_nothing(loads, error, message):
    engine = engine_with_secondaries()
    before = loads_of(engine)
    with pytest.raises(error, match=message):
        engine.report_secondary_loads("p", loads)
    assert loads_of(engine) == before
    engine.report_secondary_loads("p", {"n3": {"cpu": 4}})
    assert loads_of(engine) == {"n0": 0, "n1": 1, "n2": 1, "n3": 4, None: 2}


NODES = ("n0", "n1", "n2", "n3", "n4")
REPLICAS = (
    Replica(Role.PRIMARY, "n0"),
    Replica(Role.SECONDARY, "n1"),
    Replica(Role.SECONDARY, "n2", leaving=True),
    Replica(Role.SECONDARY, "n3", state=ReplicaState.STANDBY),
    Replica(Role.SECONDARY, "n4", state=ReplicaState.DROPPED),
)


def engine_of(estimator: str) -> PlacementAndLoadBalancing:
    """Return an engine with a partition of all kinds of replicas that misses one, and another partition beside it."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu", quantum=1.0)], estimator=estimator), seed=1)
    for name in NODES:
        engine.update_node(Node(name, capacities={"cpu": 100}))
    load = {Role.PRIMARY: {"cpu": 7}, Role.SECONDARY: {"cpu": 3}}
    engine.update_service(Service("db", target_replicas=3, default_load=load))
    for number in range(2):
        engine.update_partition(Partition(f"db/{number}", service="db", replicas=REPLICAS))
    return engine


LOADS = st.fixed_dictionaries({"cpu": st.integers(0, 20)})
REPORT = st.one_of(
    st.tuples(st.just("report_load"), st.sampled_from(NODES[:4]), LOADS),
    st.tuples(st.just("report_role_load"), st.sampled_from([Role.PRIMARY, Role.SECONDARY]), LOADS),
    st.tuples(st.just("report_secondary_loads"), st.fixed_dictionaries({"n1": LOADS})),
)


@examples(40)
@given(st.lists(REPORT, max_size=5), st.sampled_from(["monte-carlo", "gaussian"]))
def test_reset_loads_are_those_of_an_engine_without_reports(reports, estimator):
    engine, fresh = engine_of(estimator), engine_of(estimator)
    for verb, *arguments in reports:
        getattr(engine, verb)("db/0", *arguments)
    engine.reset_load("db/0")
    for partition in ("db/0", "db/1"):
        assert engine.replicas(partition) == fresh.replicas(partition)
        assert engine.expected_load(partition, Role.SECONDARY) == fresh.expected_load(partition, Role.SECONDARY)
    assert engine.node_loads() == fresh.node_loads()
    assert engine.violation_probabilities(1.0) == fresh.violation_probabilities(1.0)
    assert engine.place(now=1.0).energy_before == fresh.place(now=1.0).energy_before


def test_reports_of_an_unknown_partition_cannot_be_reset():
    with pytest.raises(UnknownNameError, match="unknown partition 'none'"):
        engine_of("monte-carlo").reset_load("none")
