"""Invalid input raises an error that names item, field and range, and leaves the engine unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import attrs
import pytest

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
    Reason,
    Replica,
    Role,
    Service,
    UnknownNameError,
)

from .fingerprint import snapshot

NAN, INF = math.nan, math.inf
PRIMARY, SECONDARY, INSTANCE = Role


Call = Callable[[PlacementAndLoadBalancing], object]


def db(*replicas: Replica, service: str = "db", name: str = "db/0") -> Partition:
    return Partition(name, service=service, replicas=replicas)


def swap(source: str, target: str, kind: MoveKind = MoveKind.SWAP, role: Role = PRIMARY, name: str = "db/0") -> Move:
    """Return a move of a plan that the engine did not make."""
    return Move(kind, name, role, source, target, Reason(Phase.BALANCING, "energy"), 1.0)


def applied(*moves: Move, leaving: bool = False) -> Call:
    nothing = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    return lambda engine: engine.apply(Plan(moves, nothing, nothing), leaving=leaving)


def reported(loads: object) -> Call:
    return lambda engine: engine.report_load("db/0", "n0", loads)


def reported_at(rows: object, loads: object) -> Call:
    return lambda engine: engine.report_loads(rows, loads)


UNKNOWN: dict[str, Call] = {
    "partition db/0: unknown node 'n9'": lambda e: e.report_load("db/0", "n9", {"cpu": 1}),
    "unknown partition 'db/7'; did you mean 'db/0'?": lambda e: e.report_load("db/7", "n0", {"cpu": 1}),
    "partition db/0 on node n0: load: unknown metric 'memroy'; did you mean 'memory'?": reported(
        {"cpu": 2, "memroy": 1}
    ),
    "node n3: capacities: unknown metric 'disc'": lambda e: e.update_node(Node("n3", capacities={"cpu": 1, "disc": 1})),
    "node n0: capacities: unknown metric 'gpu'": lambda e: e.update_node(Node("n0", capacities={"gpu": 1})),
    "service new: default_load[PRIMARY]: unknown metric 'gpu'": lambda e: e.update_service(
        Service("new", default_load={PRIMARY: {"gpu": 1}})
    ),
    "unknown service 'dbs'": lambda e: e.remove_service("dbs"),
    "unknown partition 'db/9'": lambda e: e.remove_partition("db/9"),
    "partition db/0: unknown service 'dbs'; did you mean 'db'?": lambda e: e.update_partition(db(service="dbs")),
    "partition db/0: unknown node 'm1'": lambda e: e.update_partition(
        db(Replica(PRIMARY, "n1"), Replica(SECONDARY, "m1"))
    ),
    "unknown partition 'db/8'": lambda e: e.place("db/8"),
    "unknown node 'n9'": applied(swap("n0", "n9", MoveKind.MOVE)),
}
CONFLICTS: dict[str, Call] = {
    "partition db/0: has no replica on node n2": lambda e: e.report_load("db/0", "n2", {"cpu": 1}),
    "service db: stateful cannot change": lambda e: e.update_service(
        Service("db", stateful=False, placement_constraint="zone == z1")
    ),
    "service db: still has partition db/0; remove its partitions first": lambda e: e.remove_service("db"),
    "partition db/0: belongs to service db; it cannot change": lambda e: e.update_partition(db(service="other")),
    "quantum of metric cpu is None; it cannot change": lambda e: e.configure(
        PlbConfig(metrics=[Metric("cpu", quantum=0.5), Metric("memory")])
    ),
    "partition db/0: no replica is leaving node n0": lambda e: e.vacate("db/0", "n0"),
    "swap primary of db/0 from n0 to n2: no secondary is on n2 any more; make a new plan": applied(swap("n0", "n2")),
    "move primary of db/0 from n2 to n1: there is no such replica any more; make a new plan": applied(
        swap("n2", "n1", MoveKind.MOVE)
    ),
    "move primary of db/0 from n0 to n1: a replica of the partition is on n1; make a new plan": applied(
        swap("n0", "n1", MoveKind.MOVE)
    ),
    "move secondary of db/0 from n2 to n0: there is no such replica any more": applied(
        swap("n0", "n1"), swap("n2", "n0", MoveKind.MOVE, SECONDARY)
    ),
    "add instance of web/new on n2: there is no such replica any more": applied(
        swap(None, "n1", MoveKind.ADD, INSTANCE, "web/new"),
        swap(None, "n2", MoveKind.ADD, INSTANCE, "web/new"),
    ),
    "move secondary of db/0 from n1 to n0: a replica of the partition is on n0": applied(
        swap("n0", "n2", MoveKind.MOVE), swap("n1", "n0", MoveKind.MOVE, SECONDARY), leaving=True
    ),
}
INVALID: dict[str, Call] = {
    "partition db/0 on node n0: load[cpu] = -1 is not allowed; expected a finite number >= 0": reported(
        {"memory": 3, "cpu": -1}
    ),
    "load[cpu] = nan is not allowed; expected a finite number >= 0": reported({"cpu": NAN}),
    "load[cpu] = inf is not allowed": reported({"cpu": INF}),
    "load[cpu] = 'much' is not allowed": reported({"cpu": "much"}),
    "partition db/0 on node n0: load[cpu] = 1000": reported({"cpu": 10**400}),
    "load[cpu] = 1099511627776.0 is not allowed; expected at most 65536 at a quantum of 3.05176e-05": reported(
        {"memory": 1, "cpu": 2.0**40}
    ),
    "node n0: capacities[cpu] = 1099511627776.0 is not allowed; expected at most": lambda e: e.update_node(
        Node("n0", capacities={"cpu": 2.0**40})
    ),
    "service new: placement_constraint = 'ssd = true' is not allowed; expected an operator among "
    "== != >= <= < > ^ !^ && || ! at character 5": lambda e: e.update_service(
        Service("new", placement_constraint="ssd = true")
    ),
    "partition db/0: replicas = <Role.INSTANCE: 2> is not allowed; expected PRIMARY or SECONDARY": lambda e: (
        e.update_partition(db(Replica(PRIMARY, "n1"), Replica(INSTANCE, "n2")))
    ),
    "partition web/0: replicas = <Role.PRIMARY: 0> is not allowed; expected INSTANCE for service web": lambda e: (
        e.update_partition(db(Replica(PRIMARY, "n1"), service="web", name="web/0"))
    ),
    "report_loads: loads.shape = (2, 1) is not allowed; expected shape (2, 2)": reported_at([0, 1], [[1.0], [2.0]]),
    "report_loads: loads.shape = (1, 2) is not allowed; expected shape (2, 2)": reported_at([0, 1], [[1.0, 2.0]]),
    "report_loads: replica_index.shape = () is not allowed": reported_at(0, [[1.0, 2.0]]),
    "report_loads: replica_index.shape = (2, 1) is not allowed": reported_at([[0], [1]], [[1.0, 2.0]] * 2),
    "report_loads: replica_index = 60 is not allowed; expected an index from replicas()": reported_at(
        [0, 60], [[1.0, 2.0]] * 2
    ),
    "report_loads: replica_index = -1 is not allowed": reported_at([-1, 0], [[1.0, 2.0]] * 2),
    "report_loads: replica_index = 1000000000 is not allowed": reported_at([10**9], [[1.0, 2.0]]),
    "report_loads: replica_index = 1 is not allowed; expected each index at most once": reported_at(
        [1, 0, 1], [[1.0, 2.0]] * 3
    ),
    "report_loads: replica_index = [0.5] is not allowed; expected whole numbers": reported_at([0.5], [[1.0, 2.0]]),
    "partition db/0: load[memory] = nan is not allowed; expected a finite number >= 0": reported_at(
        [0, 1], [[1.0, 2.0], [3.0, NAN]]
    ),
    "partition db/0: load[cpu] = -3.0 is not allowed": reported_at([0, 1], [[1.0, 2.0], [-3.0, 2.0]]),
    "report_loads: loads = [['a', 'b']] is not allowed; expected numbers, one row a replica": reported_at(
        [0], [["a", "b"]]
    ),
    "report_loads: loads = [[1.0, 2.0], [1.0]] is not allowed": reported_at([0, 1], [[1.0, 2.0], [1.0]]),
    "report_loads: load[cpu] = 1099511627776.0 is not allowed; expected at most": reported_at(
        [0, 1], [[1.0, 2.0], [2.0**40, 2.0]]
    ),
    "engine: now = nan is not allowed": lambda e: e.refresh(NAN),
    "budget: proposals = -5 is not allowed; expected a whole number >= 0": lambda e: e.refresh(9.0, budget=-5),
    "partition web/new: move_cost = 'dear' is not allowed; expected one of zero": lambda e: e.report_move_cost(
        "web/new", INSTANCE, "dear"
    ),
    "web/new: role = <Role.PRIMARY: 0> is not allowed; expected INSTANCE": lambda e: e.report_role_load(
        "web/new", PRIMARY, {"cpu": 1}
    ),
    "web/0: role = <Role.PRIMARY: 0> is not allowed; expected INSTANCE": lambda e: e.report_move_cost(
        "web/0", PRIMARY, "low"
    ),
    "engine: now = inf is not allowed": lambda e: e.update_node(Node("n0", capacities={"cpu": 1}), now=INF),
}
BY_ERROR = {UnknownNameError: UNKNOWN, ConflictError: CONFLICTS, InvalidValueError: INVALID}
CALLS = [(error, *item) for error, calls in BY_ERROR.items() for item in calls.items()]


@pytest.fixture
def engine(small_cluster) -> PlacementAndLoadBalancing:
    """Return an engine after a refresh, with a second service and a replica to place."""
    made = small_cluster.engine()
    made.update_service(Service("other"))
    made.update_partition(Partition("web/new", service="web"))
    made.refresh(1.0, budget=100)
    return made


@pytest.mark.parametrize(("error", "message", "call"), CALLS, ids=[message for _, message, _ in CALLS])
def test_bad_call_is_refused_and_changes_nothing(error, message, call, engine):
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
