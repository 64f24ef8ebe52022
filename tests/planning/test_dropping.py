"""Which surplus replicas are dropped beside parents and children, and what replicas carry whose service changes."""

from __future__ import annotations

import pytest

from plb import Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from tests.engine.stories import engine_on, stand

pytestmark = pytest.mark.kernels

SECONDARIES = [Replica(Role.SECONDARY, f"n{index}") for index in (1, 2)]
THREE = (Replica(Role.PRIMARY, "n0"), *SECONDARIES)


def family(*, parent: int, child: int) -> PlacementAndLoadBalancing:
    """Return an engine with a parent and its child side by side on three nodes, both with fewer wanted."""
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("parent", target_replicas=parent))
    engine.update_service(Service("child", target_replicas=child, affinity_to="parent"))
    stand(engine, "parent/0", *THREE)
    stand(engine, "child/0", *THREE)
    return engine


def test_a_family_with_too_many_replicas_loses_the_same_ones() -> None:
    """The child goes first, and then its parent, that stands alone: each pair is whole afterwards."""
    moves = family(parent=2, child=2).place().moves
    assert {move.kind for move in moves} == {MoveKind.DROP}
    assert sorted(move.partition for move in moves) == ["child/0", "parent/0"]
    assert len({move.source for move in moves}) == 1


@pytest.mark.parametrize(("parent", "child", "dropped"), [(3, 2, ["child/0"]), (2, 3, ["parent/0"])])
def test_one_of_a_family_has_too_many(parent: int, child: int, dropped: list[str]) -> None:
    """A child leaves no one alone; a parent may go from beside a child that has more replicas than it."""
    assert [move.partition for move in family(parent=parent, child=child).place().moves] == dropped


def test_a_parent_stays_beside_its_child() -> None:
    """Where the child is to have as many replicas."""
    engine = family(parent=2, child=2)
    stand(engine, "child/0", *THREE, missing=0)
    assert not engine.place().moves


def test_replicas_of_a_service_whose_metrics_change_have_the_defaults_of_the_new_ones() -> None:
    """What they have not reported; the load of a metric that is gone goes, too."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu"), Metric("disk")]))
    engine.update_node(Node("n0"))
    for name, load in (("cpu", 3), ("disk", 5)):
        default = {Role.INSTANCE: {name: load}}
        engine.update_service(Service("web", stateful=False, metrics={name: 1.0}, default_load=default))
        if name == "cpu":
            engine.update_partition(Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
            assert engine.node_loads()["n0"] == {"cpu": 3.0, "disk": 0.0}
    assert engine.node_loads()["n0"] == {"cpu": 0.0, "disk": 5.0}


def test_a_drop_that_is_applied_late_leaves_a_replica_missing() -> None:
    """Since the plan was made, the service has come to want as many as there are."""
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("db", target_replicas=2))
    stand(engine, "db/0", *THREE)
    plan = engine.place()
    engine.update_service(Service("db", target_replicas=3))
    engine.apply(plan)
    assert [move.kind for move in engine.place().moves] == [MoveKind.ADD]
