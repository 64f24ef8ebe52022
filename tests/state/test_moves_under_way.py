"""Moves that take time: both nodes reserve capacity, only the target counts."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest
from hypothesis import given

from plb import (
    ConflictError,
    Metric,
    MoveKind,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.testing import all_clusters, configuration_of
from tests.engine.oracle import placement_of
from tests.engine.stories import add_partition, engine_on, engine_with
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


@examples(100)
@given(all_clusters())
def test_loads_are_conserved_from_replica_to_node_to_cluster(cluster):
    """Node loads are the sums of the loads of their replicas, by metric; leaving replicas are counted separately."""
    engine = cluster.engine()
    for verb in ("place", "balance"):
        engine.apply(getattr(engine, verb)(budget=240), leaving=True)
        configuration = configuration_of(engine)
        problem, table = configuration.problem, engine._state.rows
        placed = [i for i, r in placement_of(engine, cluster).items() if r.node is not None]
        standing = [i for i in placed if not table.leaving[i]]
        leaving_rows = [i for i in placed if table.leaving[i]]
        expected = table.load[standing].sum(axis=0).tolist()
        assert configuration.solution.node_load.sum(axis=0).tolist() == expected
        assert problem.leaving_load.sum(axis=0).tolist() == table.load[leaving_rows].sum(axis=0).tolist()
        counted = (configuration.solution.node_load * problem.counted_for).sum(axis=0)
        assert counted.tolist() == configuration.solution.total.tolist()


@examples(100)
@given(all_clusters())
def test_vacating_every_leaving_replica_equals_immediate_moves(cluster):
    """Moves in two steps and immediate moves lead to the same placement and the same state of the search."""
    slow, immediate = cluster.engine(), cluster.engine()
    plan = slow.balance(budget=240)
    slow.apply(plan, leaving=True)
    immediate.apply(plan)
    ends = Counter((r.partition, r.node) for r in placement_of(slow, cluster).values() if r.leaving)
    before = Counter((r.partition, r.node) for r in placement_of(immediate, cluster).values() if r.leaving)
    begun = [(m.partition, m.source) for m in plan.moves if m.kind is MoveKind.MOVE]
    assert ends - before == Counter(begun)
    for partition, node in begun:
        slow.vacate(partition, node)
    assert placement_of(slow, cluster) == placement_of(immediate, cluster)
    assert_equal_loads(slow, immediate)


@examples(100)
@given(all_clusters())
def test_moves_that_are_taken_back_have_not_begun(cluster):
    """A move to the departing end of its replica ends both: placement, loads and the next plan are as without it."""
    engine, reference = cluster.engine(), cluster.engine()
    plan = engine.balance(budget=240)
    reference.balance(budget=240)
    begun = tuple(move for move in plan.moves if move.kind is MoveKind.MOVE)
    engine.apply(attrs.evolve(plan, moves=begun), leaving=True)
    back = [attrs.evolve(move, source=move.target, target=move.source) for move in reversed(begun)]
    engine.apply(attrs.evolve(plan, moves=tuple(back)))
    assert placement_of(engine, cluster) == placement_of(reference, cluster)
    assert_equal_loads(engine, reference)
    assert engine.balance(budget=240).moves == reference.balance(budget=240).moves


def assert_equal_loads(engine: PlacementAndLoadBalancing, expected: PlacementAndLoadBalancing) -> None:
    """Assert that nodes have equal loads, also of leaving replicas."""
    configuration, reference = configuration_of(engine), configuration_of(expected)
    assert configuration.solution.node_load.tolist() == reference.solution.node_load.tolist()
    assert configuration.problem.leaving_load.tolist() == reference.problem.leaving_load.tolist()


def moving() -> PlacementAndLoadBalancing:
    """Return two nodes of capacity 20 with two instances of load 8 on the first, one of which should move."""
    return engine_with({"a": 20, "b": 20}, {"web/0": ("a", 8), "web/1": ("a", 8)}, w_imbalance=100.0)


def test_both_ends_reserve_capacity_until_the_source_is_vacated():
    engine = moving()
    plan = engine.balance()
    (move,) = plan.moves
    engine.apply(plan, leaving=True)
    assert [(r.node, r.leaving) for r in engine.replicas(move.partition)] == [("b", False), ("a", True)]
    engine.update_service(Service("new", stateful=False, default_load={Role.INSTANCE: {"cpu": 8}}))
    engine.update_partition(Partition("new/0", service="new"))
    assert [m.target for m in engine.place().moves] == ["b"]
    engine.update_node(Node("b", capacities={"cpu": 10}))
    assert dict(engine.place().unplaced[0].ruled_out) == {"capacity": 2}
    engine.vacate(move.partition, "a")
    assert [m.target for m in engine.place().moves] == ["a"]
    assert [(r.node, r.leaving) for r in engine.replicas(move.partition)] == [("b", False)]


def test_leaving_replica_is_excluded_from_statistics_and_violations():
    engine = moving()
    assert configuration_of(engine).solution.node_load.ravel().tolist() == [16, 0]
    engine.apply(engine.balance(), leaving=True)
    assert configuration_of(engine).solution.node_load.ravel().tolist() == [8, 8]
    assert engine.balance().energy_before.imbalance == 0
    engine.update_node(Node("a", capacities={"cpu": 16}))
    assert engine.violations() == ()


def test_node_of_a_leaving_replica_excludes_its_partition():
    engine = moving()
    engine.apply(engine.balance(), leaving=True)
    leaving = next(f"web/{i}" for i in range(2) if any(r.leaving for r in engine.replicas(f"web/{i}")))
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    standing = [replica for replica in engine.replicas(leaving) if replica.node is not None]
    ends = [Replica(r.role, r.node, leaving=r.leaving) for r in standing]
    engine.update_partition(Partition(leaving, service="web", replicas=ends))
    assert dict(engine.place(leaving).unplaced[0].ruled_out) == {"exclusion": 2}


def test_leaving_replica_is_vacated_once():
    engine = moving()
    plan = engine.balance()
    engine.apply(plan, leaving=True)
    engine.vacate(plan.moves[0].partition, "a")
    with pytest.raises(ConflictError, match="no replica is leaving node a"):
        engine.vacate(plan.moves[0].partition, "a")


def test_host_may_report_the_move_itself():
    described, applied = moving(), moving()
    plan = applied.balance()
    name = plan.moves[0].partition
    applied.apply(plan, leaving=True)
    ends = [Replica(Role.INSTANCE, "b"), Replica(Role.INSTANCE, "a", leaving=True)]
    described.update_partition(Partition(name, service="web", replicas=ends))
    assert [(r.node, r.leaving) for r in described.replicas(name)] == [
        (r.node, r.leaving) for r in applied.replicas(name)
    ]
    assert_equal_loads(described, applied)


def test_removed_partition_frees_its_rows():
    engine = moving()
    before = configuration_of(engine).solution.node_load.copy()
    engine.update_partition(Partition("web/2", service="web", replicas=[Replica(Role.INSTANCE, "b")]))
    engine.report_load("web/2", "b", {"cpu": 5})
    index = engine.replicas("web/2")[0].index
    engine.remove_partition("web/2")
    assert configuration_of(engine).solution.node_load.tolist() == before.tolist()
    engine.update_partition(Partition("web/3", service="web"))
    assert engine.replicas("web/3")[0].index == index
    assert engine._state.rows.load[index].tolist() == [0]
    assert engine._state.rows.largest_demand[index].tolist() == [0.0]


def test_arrays_grow_with_hundreds_of_replicas():
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("web", stateful=False))
    for index in range(300):
        add_partition(engine, f"web/{index}", Replica(Role.INSTANCE, f"n{index % 4}"))
    indices = [engine.replicas(f"web/{index}")[0].index for index in range(300)]
    assert len(set(indices)) == 300
    engine.report_loads(indices, [[float(index)] for index in range(300)])
    quanta = 1 / engine._state.quanta.quanta[0]
    expected = [sum(range(node, 300, 4)) * quanta for node in range(4)]
    assert configuration_of(engine).solution.node_load.ravel().tolist() == expected


def test_repeated_report_of_a_move_under_way_changes_nothing():
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
    for index in range(6):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("db", target_replicas=3))
    engine.update_service(Service("other"))
    standing = Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n2")
    add_partition(engine, "db/0", standing[0], Replica(Role.SECONDARY, "n1"), standing[1])
    for node, load in (("n0", 5), ("n1", 50), ("n2", 5)):
        engine.report_load("db/0", node, {"cpu": load})
    engine.update_partition(Partition("x", service="other", replicas=[Replica(Role.PRIMARY, "n1", pinned=True)]))
    engine.report_load("x", "n1", {"cpu": 60})
    plan = engine.repair()
    (move,) = plan.moves
    assert (move.partition, move.source) == ("db/0", "n1")
    engine.apply(plan, leaving=True)
    before = engine.replicas("db/0")
    load = configuration_of(engine).problem.leaving_load.copy()
    ends = Replica(Role.SECONDARY, move.target), Replica(Role.SECONDARY, "n1", leaving=True)
    add_partition(engine, "db/0", standing[0], ends[0], standing[1], ends[1])
    assert engine.replicas("db/0") == before
    assert configuration_of(engine).problem.leaving_load.tolist() == load.tolist()
    engine.update_partition(Partition("y", service="other", replicas=[Replica(Role.PRIMARY, move.target, pinned=True)]))
    engine.report_load("y", move.target, {"cpu": 60})
    assert engine.repair().moves == ()
    engine.vacate("db/0", "n1")
    assert [one.source for one in engine.repair().moves] == [move.target]
