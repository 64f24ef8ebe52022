"""A child without a feasible node next to its parent: the parent moves to a node for both, if there is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Node, Partition, Replica, Role, Service
from tests.engine.stories import engine_on
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

CAPACITY = 10
PARENT, CHILD = 3, 4


@examples(40)
@given(st.lists(st.integers(0, CAPACITY), min_size=1, max_size=4), st.booleans())
def test_parent_moves_if_its_child_can_then_be_placed(others: list[int], moves: bool):
    """It moves where both fit next to the other loads; nothing moves if there is no such node, or if moves are off."""
    others[0] = min(others[0], CAPACITY - PARENT)  # the node of the parent
    names = [f"n{number}" for number in range(len(others))]
    nodes = [Node(name, capacities={"cpu": CAPACITY}) for name in names]
    engine = engine_on(*nodes, capacity_limit="capacity", move_existing_replica_for_placement=moves)
    engine.update_service(Service("stays", stateful=False, max_moves=0))
    for name, load in zip(names, others, strict=True):
        engine.update_partition(Partition(f"on {name}", service="stays", replicas=[Replica(Role.INSTANCE, name)]))
        engine.report_load(f"on {name}", name, {"cpu": load})
    engine.update_service(Service("parent", stateful=False))
    engine.update_partition(Partition("parent", service="parent", replicas=[Replica(Role.INSTANCE, "n0")]))
    engine.report_load("parent", "n0", {"cpu": PARENT})
    load = {Role.INSTANCE: {"cpu": CHILD}}
    engine.update_service(Service("child", stateful=False, affinity_to="parent", default_load=load))
    engine.update_partition(Partition("child", service="child"))

    engine.apply(engine.place())
    parent_node, place = (engine.replicas(name)[0].node for name in ("parent", "child"))
    fitting = {name for name, load in zip(names, others, strict=True) if load + PARENT + CHILD <= CAPACITY}
    reachable = fitting if moves else fitting & {"n0"}
    if "n0" in reachable:
        assert (parent_node, place) == ("n0", "n0")
    elif reachable:
        assert parent_node == place
        assert parent_node in reachable
    else:
        assert (parent_node, place) == ("n0", None)
