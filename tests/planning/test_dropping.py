"""Which surplus replicas of parents and children are dropped, and which loads replicas have after a service change."""

from __future__ import annotations

import pytest

from plb import MoveKind, PlacementAndLoadBalancing, Replica, ReplicaState, Role, Service
from tests.engine.stories import add_partition, engine_on

pytestmark = pytest.mark.kernels

SECONDARIES = [Replica(Role.SECONDARY, f"n{index}") for index in (1, 2)]
THREE = (Replica(Role.PRIMARY, "n0"), *SECONDARIES)


def parent_and_child(*, parent: int, child: int) -> PlacementAndLoadBalancing:
    """Return an engine with a parent and its child on the same three nodes, both with lower targets."""
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("parent", target_replicas=parent))
    engine.update_service(Service("child", target_replicas=child, affinity_to="parent"))
    add_partition(engine, "parent/0", *THREE)
    add_partition(engine, "child/0", *THREE)
    return engine


def test_parent_and_child_drop_replicas_on_the_same_node() -> None:
    """The child's replica goes first, then the parent's that is left alone; no pair is separated."""
    moves = parent_and_child(parent=2, child=2).place().moves
    assert {move.kind for move in moves} == {MoveKind.DROP}
    assert sorted(move.partition for move in moves) == ["child/0", "parent/0"]
    assert len({move.source for move in moves}) == 1


@pytest.mark.parametrize(("parent", "child", "dropped"), [(3, 2, ["child/0"]), (2, 3, ["parent/0"])])
def test_surplus_of_parent_or_child_is_dropped(parent: int, child: int, dropped: list[str]) -> None:
    """A drop of a child leaves no pair broken; a parent may drop a replica if its child has more replicas."""
    assert [move.partition for move in parent_and_child(parent=parent, child=child).place().moves] == dropped


def test_parent_stays_on_the_nodes_of_its_child() -> None:
    """The child is to have as many replicas as the parent has now."""
    engine = parent_and_child(parent=2, child=2)
    add_partition(engine, "child/0", *THREE, missing=0)
    assert not engine.place().moves


@pytest.mark.parametrize("target", [2, 3])
def test_parent_stays_on_the_nodes_of_children_on_their_way_out(target: int) -> None:
    """The child's replicas that are in build or leave keep their nodes; not those of a child with more replicas."""
    engine = parent_and_child(parent=2, child=target)
    leaving = Replica(Role.SECONDARY, "n2", leaving=True)
    building = Replica(Role.SECONDARY, "n1", state=ReplicaState.IN_BUILD)
    add_partition(engine, "child/0", Replica(Role.PRIMARY, "n0"), building, leaving, missing=0)
    assert [move.partition for move in engine.place().moves] == ["parent/0"] * (target > 2)


def test_late_drop_leaves_a_replica_missing() -> None:
    """The target of the service has risen to the present number since the plan was made."""
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("db", target_replicas=2))
    add_partition(engine, "db/0", *THREE)
    plan = engine.place()
    engine.update_service(Service("db", target_replicas=3))
    engine.apply(plan)
    assert [move.kind for move in engine.place().moves] == [MoveKind.ADD]
