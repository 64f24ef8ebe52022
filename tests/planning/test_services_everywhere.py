"""Services on every node: where replicas are missing, and when placement runs."""

from __future__ import annotations

import pytest

from plb import Node, PlacementAndLoadBalancing, Replica, Role, Service
from tests.engine.stories import add_partition, engine_on

SECONDS = 100.0


def engine_everywhere(*nodes: Node | str, stateful: bool = False, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with a service on every node, which has a replica on n0."""
    engine = engine_on("n0", *nodes, **settings)
    engine.update_service(Service("agent", stateful=stateful, on_every_node=True))
    add_partition(engine, "agent/0", Replica(Role.PRIMARY if stateful else Role.INSTANCE, "n0"))
    return engine


@pytest.mark.parametrize(
    ("intent", "status", "placed", "missed"),
    [
        ("restart", "safety_check_in_progress", True, True),
        ("pause", "safety_check_complete", True, True),
        ("restart", "complete", False, False),
        ("remove_node", "safety_check_in_progress", False, False),
    ],
)
@pytest.mark.parametrize("stateful", [False, True])
def test_nodes_that_come_back_miss_a_replica(intent, status, placed, missed, stateful):
    """Until they are down, those that pause or restart do; a stateful service gets none after the safety check."""
    node = Node("n1", deactivation_intent=intent, deactivation_status=status)
    plan = engine_everywhere(node, stateful=stateful).place()
    placed = placed and not (stateful and status == "safety_check_complete")
    assert [move.target for move in plan.moves] == ["n1"] * placed
    assert len(plan.unplaced) == (missed and not placed)


def test_placement_runs_in_turn_although_nothing_is_missing():
    """It leaves room for the other phases, and moves no replicas."""
    engine = engine_everywhere(one_action_per_refresh=True, plb_action_retry_times=1)
    actions = [engine.refresh(index * SECONDS).actions["agent"] for index in range(3)]
    assert actions == ["NewReplicaPlacement"] * 3
    engine.update_node(Node("n1", up=False))
    assert not engine.refresh(SECONDS * 4).moves
