"""Children with more replicas than their parent: one of them stays with each replica of the parent."""

from __future__ import annotations

import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service

PRIMARY, SECONDARY = Role.PRIMARY, Role.SECONDARY


def engine_with_child(*nodes: str, loads: dict[str, float]) -> PlacementAndLoadBalancing:
    """Return a parent on ``n0``, and an aligned child with its primary on the first of `nodes`."""
    config = PlbConfig(
        metrics=[Metric("cpu")],
        w_imbalance=1000.0,
        max_percentage_to_move=1.0,
        allow_higher_child_target_replica_count_for_affinity=True,
    )
    engine = PlacementAndLoadBalancing(config, seed=3)
    for index in range(5):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("parent", target_replicas=1))
    engine.update_service(Service("child", target_replicas=len(nodes), affinity_to="parent", aligned=True))
    engine.update_partition(Partition("above", service="parent", replicas=[Replica(PRIMARY, "n0")]))
    copies = [Replica(SECONDARY if number else PRIMARY, node) for number, node in enumerate(nodes)]
    engine.update_partition(Partition("below", service="child", replicas=copies))
    for node in nodes:
        engine.report_load("below", node, {"cpu": loads[node]})
    engine.report_load("above", "n0", {"cpu": loads["n0"]})
    return engine


@pytest.mark.parametrize("seed", range(5))
def test_the_only_companion_of_a_parent_stays_with_it(seed):
    """The secondary beside the primary of the parent would be better elsewhere, and is apart; the others rely on it."""
    engine = engine_with_child("n1", "n0", loads={"n0": 40.0, "n1": 1.0})
    engine.seed = seed
    plan = engine.balance(budget=400)
    engine.apply(plan)
    places = {replica.node for replica in engine.replicas("below")}
    parent = {replica.node for replica in engine.replicas("above")}
    assert parent <= places


def test_another_companion_frees_the_first():
    """With two replicas of the child on nodes of their own, the third may go where there is capacity."""
    engine = engine_with_child("n0", "n1", "n2", loads={"n0": 30.0, "n1": 30.0, "n2": 1.0})
    engine.apply(engine.balance(budget=600))
    assert {replica.node for replica in engine.replicas("above")} <= {r.node for r in engine.replicas("below")}
