"""Move costs as numbers: the cost of plans, reports by role, and snapshots."""

from __future__ import annotations

import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service


def engine_with(cost, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with two replicas on one of two nodes; a move that separates them lowers the imbalance by 1."""
    config = PlbConfig(metrics=[Metric("cpu")], max_percentage_to_move=1.0, use_move_cost_reports=True, **settings)
    engine = PlacementAndLoadBalancing(config, seed=1)
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 100}))
    engine.update_service(Service("s", stateful=False, move_cost=cost, default_load={Role.INSTANCE: {"cpu": 20}}))
    for name in ("a", "b"):
        engine.update_partition(Partition(name, service="s", replicas=[Replica(Role.INSTANCE, "n0")]))
    return engine


@pytest.mark.parametrize(("cost", "counted"), [(0, 0.0), (2.5, 2.5), (9.94, 9.9), ("low", 3.0), (10.1, None)])
def test_number_counts_as_it_is(cost, counted):
    """It is not changed by the value of a level, and is rounded to tenths; a move that costs too much is not made."""
    plan = engine_with(cost, move_cost_low_value=3.0).balance()
    assert [move.cost for move in plan.moves] == ([] if counted is None else [counted])


def test_report_of_a_number_counts_for_its_partition():
    """Also in an engine from a snapshot, and until another report."""
    engine = engine_with(50.0)
    assert engine.balance().moves == ()
    engine.report_move_cost("b", Role.INSTANCE, 1.5)
    twin = PlacementAndLoadBalancing.from_snapshot(engine.snapshot())
    for one in (engine, twin):
        assert [(move.partition, move.cost) for move in one.balance().moves] == [("b", 1.5)]
        one.report_move_cost("b", "instance", "high")
        assert one.balance().moves == ()
