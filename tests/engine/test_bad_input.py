"""Invalid input raises an error that names item, field and range, and leaves the engine unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    Energy,
    InvalidValueError,
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
    UnknownNameError,
)
from plb.testing import clusters

from .fingerprint import snapshot
from .strategies import examples

NAN, INF = math.nan, math.inf
PRIMARY, SECONDARY, INSTANCE = Role


Call = Callable[[PlacementAndLoadBalancing], object]


def db(*replicas: Replica, service: str = "db", name: str = "db/0") -> Partition:
    """Return the partition under test with the given replicas."""
    return Partition(name, service=service, replicas=replicas)


def swap(source: str, target: str, kind: MoveKind = MoveKind.SWAP, role: Role = PRIMARY, name: str = "db/0") -> Move:
    """Return a move of a plan that the engine did not make."""
    return Move(kind, name, role, source, target, Reason(Phase.BALANCING, "energy"), 1.0)


def apply(engine: PlacementAndLoadBalancing, *moves: Move, leaving: bool = False) -> None:
    """Apply a plan of the given moves."""
    engine.apply(attrs.evolve(empty_plan(), moves=moves), leaving=leaving)


def empty_plan() -> Plan:
    """Return an empty plan without a call of the engine."""
    nothing = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    return Plan((), nothing, nothing)


CALLS: list[tuple[str, Call, type[PlbError], str]] = [
    (
        "a load on an unknown node",
        lambda e: e.report_load("db/0", "n9", {"cpu": 1}),
        UnknownNameError,
        "partition db/0: unknown node 'n9'",
    ),
    (
        "a load of an unknown partition",
        lambda e: e.report_load("db/7", "n0", {"cpu": 1}),
        UnknownNameError,
        "unknown partition 'db/7'; did you mean 'db/0'?",
    ),
    (
        "a load of an unknown metric",
        lambda e: e.report_load("db/0", "n0", {"cpu": 2, "memroy": 1}),
        UnknownNameError,
        "partition db/0 on node n0: load: unknown metric 'memroy'; did you mean 'memory'?",
    ),
    (
        "a load where no replica is",
        lambda e: e.report_load("db/0", "n2", {"cpu": 1}),
        ConflictError,
        "partition db/0: has no replica on node n2",
    ),
    (
        "a negative load",
        lambda e: e.report_load("db/0", "n0", {"memory": 3, "cpu": -1}),
        InvalidValueError,
        "partition db/0 on node n0: load[cpu] = -1 is not allowed; expected a finite number >= 0",
    ),
    (
        "a load that is no number",
        lambda e: e.report_load("db/0", "n0", {"cpu": NAN}),
        InvalidValueError,
        "load[cpu] = nan is not allowed; expected a finite number >= 0",
    ),
    (
        "an infinite load",
        lambda e: e.report_load("db/0", "n0", {"cpu": INF}),
        InvalidValueError,
        "load[cpu] = inf is not allowed",
    ),
    (
        "a load that is text",
        lambda e: e.report_load("db/0", "n0", {"cpu": "much"}),
        InvalidValueError,
        "load[cpu] = 'much' is not allowed",
    ),
    (
        "a load too large for a float",
        lambda e: e.report_load("db/0", "n0", {"cpu": 10**400}),
        InvalidValueError,
        "partition db/0 on node n0: load[cpu] = 1000",
    ),
    (
        "a load of more than 2^31 quanta",
        lambda e: e.report_load("db/0", "n0", {"memory": 1, "cpu": 2.0**40}),
        InvalidValueError,
        "load[cpu] = 1099511627776.0 is not allowed; expected at most 65536 at a quantum of 3.05176e-05",
    ),
    (
        "a new node with an unknown metric",
        lambda e: e.update_node(Node("n3", capacities={"cpu": 1, "disc": 1})),
        UnknownNameError,
        "node n3: capacities: unknown metric 'disc'",
    ),
    (
        "a known node with an unknown metric",
        lambda e: e.update_node(Node("n0", capacities={"gpu": 1})),
        UnknownNameError,
        "node n0: capacities: unknown metric 'gpu'",
    ),
    (
        "a capacity that is too large for the quantum",
        lambda e: e.update_node(Node("n0", capacities={"cpu": 2.0**40})),
        InvalidValueError,
        "node n0: capacities[cpu] = 1099511627776.0 is not allowed; expected at most",
    ),
    (
        "a service with an unknown metric",
        lambda e: e.update_service(Service("new", default_load={PRIMARY: {"gpu": 1}})),
        UnknownNameError,
        "service new: default_load[PRIMARY]: unknown metric 'gpu'",
    ),
    (
        "a service with a broken constraint",
        lambda e: e.update_service(Service("new", placement_constraint="ssd = true")),
        InvalidValueError,
        "service new: placement_constraint = 'ssd = true' is not allowed; expected an operator among "
        "== != >= <= < > ^ !^ && || ! at character 5",
    ),
    (
        "a service that changes to stateless",
        lambda e: e.update_service(Service("db", stateful=False, placement_constraint="zone == z1")),
        ConflictError,
        "service db: stateful cannot change",
    ),
    (
        "a service with partitions is removed",
        lambda e: e.remove_service("db"),
        ConflictError,
        "service db: still has partition db/0; remove its partitions first",
    ),
    ("an unknown service is removed", lambda e: e.remove_service("dbs"), UnknownNameError, "unknown service 'dbs'"),
    (
        "an unknown partition is removed",
        lambda e: e.remove_partition("db/9"),
        UnknownNameError,
        "unknown partition 'db/9'",
    ),
    (
        "a partition of an unknown service",
        lambda e: e.update_partition(db(service="dbs")),
        UnknownNameError,
        "partition db/0: unknown service 'dbs'; did you mean 'db'?",
    ),
    (
        "a partition that changes its service",
        lambda e: e.update_partition(db(service="other")),
        ConflictError,
        "partition db/0: belongs to service db; it cannot change",
    ),
    (
        "a replica on an unknown node",
        lambda e: e.update_partition(db(Replica(PRIMARY, "n1"), Replica(SECONDARY, "m1"))),
        UnknownNameError,
        "partition db/0: unknown node 'm1'",
    ),
    (
        "an instance of a stateful service",
        lambda e: e.update_partition(db(Replica(PRIMARY, "n1"), Replica(INSTANCE, "n2"))),
        InvalidValueError,
        "partition db/0: replicas = <Role.INSTANCE: 2> is not allowed; expected PRIMARY or SECONDARY for service db",
    ),
    (
        "a primary of a stateless service",
        lambda e: e.update_partition(db(Replica(PRIMARY, "n1"), service="web", name="web/0")),
        InvalidValueError,
        "partition web/0: replicas = <Role.PRIMARY: 0> is not allowed; expected INSTANCE for service web",
    ),
    (
        "a bulk report of the wrong width",
        lambda e: e.report_loads([0, 1], [[1.0], [2.0]]),
        InvalidValueError,
        "report_loads: loads.shape = (2, 1) is not allowed; expected shape (2, 2)",
    ),
    (
        "a bulk report of the wrong length",
        lambda e: e.report_loads([0, 1], [[1.0, 2.0]]),
        InvalidValueError,
        "report_loads: loads.shape = (1, 2) is not allowed; expected shape (2, 2)",
    ),
    (
        "a bulk report on an index that is no array",
        lambda e: e.report_loads(0, [[1.0, 2.0]]),
        InvalidValueError,
        "report_loads: replica_index.shape = () is not allowed",
    ),
    (
        "a bulk report of nested indices",
        lambda e: e.report_loads([[0], [1]], [[1.0, 2.0]] * 2),
        InvalidValueError,
        "report_loads: replica_index.shape = (2, 1) is not allowed",
    ),
    (
        "a bulk report on a free row",
        lambda e: e.report_loads([0, 60], [[1.0, 2.0]] * 2),
        InvalidValueError,
        "report_loads: replica_index = 60 is not allowed; expected an index from replicas()",
    ),
    (
        "a bulk report on a negative row",
        lambda e: e.report_loads([-1, 0], [[1.0, 2.0]] * 2),
        InvalidValueError,
        "report_loads: replica_index = -1 is not allowed",
    ),
    (
        "a bulk report on a row out of range",
        lambda e: e.report_loads([10**9], [[1.0, 2.0]]),
        InvalidValueError,
        "report_loads: replica_index = 1000000000 is not allowed",
    ),
    (
        "a bulk report on one row twice",
        lambda e: e.report_loads([1, 0, 1], [[1.0, 2.0]] * 3),
        InvalidValueError,
        "report_loads: replica_index = 1 is not allowed; expected each index at most once",
    ),
    (
        "a bulk report on a fractional row",
        lambda e: e.report_loads([0.5], [[1.0, 2.0]]),
        InvalidValueError,
        "report_loads: replica_index = [0.5] is not allowed; expected whole numbers",
    ),
    (
        "a bulk report with a missing number",
        lambda e: e.report_loads([0, 1], [[1.0, 2.0], [3.0, NAN]]),
        InvalidValueError,
        "partition db/0: load[memory] = nan is not allowed; expected a finite number >= 0",
    ),
    (
        "a bulk report of a negative load",
        lambda e: e.report_loads([0, 1], [[1.0, 2.0], [-3.0, 2.0]]),
        InvalidValueError,
        "partition db/0: load[cpu] = -3.0 is not allowed",
    ),
    (
        "a bulk report that is text",
        lambda e: e.report_loads([0], [["a", "b"]]),
        InvalidValueError,
        "report_loads: loads = [['a', 'b']] is not allowed; expected numbers, one row a replica",
    ),
    (
        "a bulk report of rows of several lengths",
        lambda e: e.report_loads([0, 1], [[1.0, 2.0], [1.0]]),
        InvalidValueError,
        "report_loads: loads = [[1.0, 2.0], [1.0]] is not allowed",
    ),
    (
        "a bulk report that is too large",
        lambda e: e.report_loads([0, 1], [[1.0, 2.0], [2.0**40, 2.0]]),
        InvalidValueError,
        "report_loads: load[cpu] = 1099511627776.0 is not allowed; expected at most",
    ),
    (
        "a plan for an unknown partition",
        lambda e: e.place("db/9"),
        UnknownNameError,
        "unknown partition 'db/9'",
    ),
    ("a time that is no number", lambda e: e.refresh(NAN), InvalidValueError, "engine: now = nan is not allowed"),
    (
        "a budget below zero",
        lambda e: e.refresh(9.0, budget=-5),
        InvalidValueError,
        "budget: proposals = -5 is not allowed; expected a whole number >= 0",
    ),
    (
        "a vacated node without a leaving replica",
        lambda e: e.vacate("db/0", "n0"),
        ConflictError,
        "partition db/0: no replica is leaving node n0",
    ),
    (
        "a stale swap whose secondary is gone",
        lambda e: apply(e, swap("n0", "n2")),
        ConflictError,
        "swap primary of db/0 from n0 to n2: no secondary is on n2 any more; make a new plan",
    ),
    (
        "a stale move whose replica is gone",
        lambda e: apply(e, swap("n2", "n1", MoveKind.MOVE)),
        ConflictError,
        "move primary of db/0 from n2 to n1: there is no such replica any more; make a new plan",
    ),
    (
        "a stale move onto a replica of the partition",
        lambda e: apply(e, swap("n0", "n1", MoveKind.MOVE)),
        ConflictError,
        "move primary of db/0 from n0 to n1: a replica of the partition is on n1; make a new plan",
    ),
    (
        "a plan whose second move is stale",
        lambda e: apply(e, swap("n0", "n1"), swap("n2", "n0", MoveKind.MOVE, SECONDARY)),
        ConflictError,
        "move secondary of db/0 from n2 to n0: there is no such replica any more",
    ),
    (
        "a plan that adds a replica twice",
        lambda e: apply(
            e,
            swap(None, "n1", MoveKind.ADD, INSTANCE, "web/new"),
            swap(None, "n2", MoveKind.ADD, INSTANCE, "web/new"),
        ),
        ConflictError,
        "add instance of web/new on n2: there is no such replica any more",
    ),
    (
        "a plan that moves onto a leaving replica",
        lambda e: apply(e, swap("n0", "n2", MoveKind.MOVE), swap("n1", "n0", MoveKind.MOVE, SECONDARY), leaving=True),
        ConflictError,
        "move secondary of db/0 from n1 to n0: a replica of the partition is on n0",
    ),
    (
        "a plan with an unknown node",
        lambda e: apply(e, swap("n0", "n9", MoveKind.MOVE)),
        UnknownNameError,
        "unknown node 'n9'",
    ),
]


@pytest.fixture
def engine(small_cluster) -> PlacementAndLoadBalancing:
    """Return an engine after a refresh, with a second service and a replica to place."""
    made = small_cluster.engine()
    made.update_service(Service("other"))
    made.update_partition(Partition("web/new", service="web"))
    made.refresh(1.0, budget=100)
    return made


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_bad_call_is_refused_and_changes_nothing(call, error, message, engine):
    """The error names what is wrong and where; every array, every map and the next plan stay the same."""
    before = snapshot(engine)
    with pytest.raises(error, match=re.escape(message)):
        call(engine)
    assert snapshot(engine) == before


@pytest.mark.parametrize("length", [2, 3, 40])
@pytest.mark.parametrize("priority", [0, -1])
def test_circle_of_affinity_is_refused_and_changes_nothing(length, priority):
    """The error names the circle, whatever service closes it; a line of parents is allowed, also to an unknown one."""
    names = [f"s{index}" for index in range(length)]
    circle = [Service(name, affinity_to=parent) for name, parent in zip(names, [*names[1:], names[0]], strict=True)]
    config = PlbConfig(metrics=[Metric("cpu")], affinity_constraint_priority=priority)
    for last in {0, length - 1}:
        engine = PlacementAndLoadBalancing(config)
        engine.update_node(Node("n0"))
        engine.update_service(Service("other", affinity_to=names[0]))
        for service in [*circle[:last], *circle[last + 1 :]]:
            engine.update_service(service)
        before = snapshot(engine)
        words = " -> ".join([*names[last:], *names[:last], names[last]])
        with pytest.raises(ConflictError, match=f"service {names[last]}: affinity_to makes a circle: {words}$"):
            engine.update_service(circle[last])
        assert snapshot(engine) == before
        engine.update_service(Service(names[last]))
        with pytest.raises(ConflictError, match="makes a circle"):
            engine.update_service(circle[last])
        engine.update_service(Service(names[last], affinity_to="unknown"))


def test_default_loads_that_do_not_fit_together_are_refused_and_change_nothing():
    """Each load fits a quantum alone; the replicas give the metric one quantum for both."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0"))
    engine.update_service(Service("db", target_replicas=2))
    engine.update_partition(db(Replica(PRIMARY, "n0")))
    before = snapshot(engine)
    loads = {PRIMARY: {"cpu": 1e-6}, SECONDARY: {"cpu": 1e9}}
    with pytest.raises(InvalidValueError, match=re.escape("service db: default_load[SECONDARY][cpu] = 1000000000.0")):
        engine.update_service(Service("db", target_replicas=3, default_load=loads, placement_constraint="a == b"))
    assert snapshot(engine) == before


@pytest.mark.parametrize(
    ("metric", "remedy"),
    [
        (Metric("disk"), "give disk in a larger unit"),
        (Metric("disk", quantum=0.5), r"give Metric\('disk', quantum=...\)"),
    ],
)
def test_value_of_too_many_quanta_is_refused_with_a_remedy(metric, remedy):
    """A quantum may be at most 1; beyond that only another unit helps."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[metric]))
    with pytest.raises(InvalidValueError, match=remedy):
        engine.update_node(Node("n0", capacities={"disk": 4e9}))


def test_history_without_a_metric_of_the_engine_is_refused(small_cluster):
    """A history has every metric with a weight in the engine."""
    from plb.risk import DemandHistory

    history = DemandHistory.from_columns(
        ("cpu",), tenant_class=["a"], role=[0], lifetime=[1], level=[[1]], initial=[[0]], growth=[[0]], maximum=[[1]]
    )
    with pytest.raises(UnknownNameError, match="demand history: unknown metric 'memory'"):
        PlacementAndLoadBalancing(PlbConfig(metrics=small_cluster.metrics), history=history)
    gaussian = PlbConfig(metrics=small_cluster.metrics, estimator="gaussian")
    engine = PlacementAndLoadBalancing(gaussian, history=history)  # this estimator does not read it
    before = snapshot(engine)
    with pytest.raises(UnknownNameError, match="demand history: unknown metric 'memory'"):
        engine.configure(attrs.evolve(gaussian, estimator="monte-carlo"))
    assert snapshot(engine) == before


@examples(60)
@given(clusters(), st.sampled_from(range(len(CALLS))))
def test_plan_after_a_refused_call_is_the_plan_without_it(cluster, row):
    """A call that raises does not change the next plan, in any cluster."""
    interrupted, undisturbed = cluster.engine(), cluster.engine()
    before = snapshot(interrupted)
    try:
        CALLS[row][1](interrupted)
    except PlbError:
        assert snapshot(interrupted) == before
        assert interrupted.refresh(0.0, budget=120) == undisturbed.refresh(0.0, budget=120)
