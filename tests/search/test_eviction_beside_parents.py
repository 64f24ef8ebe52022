"""A child that fits nowhere beside its parent: the parent moves to where both fit, if there is such a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Node, Partition, Replica, Role, Service
from tests.engine.stories import engine_on
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

ROOM = 10
PARENT, CHILD = 3, 4


@examples(60)
@given(st.lists(st.integers(0, ROOM), min_size=1, max_size=4), st.booleans())
def test_a_parent_moves_if_that_lets_its_child_be_placed(others: list[int], moves: bool):
    """Where both fit beside the loads that stay; nothing moves if they fit nowhere, or if nothing may move."""
    others[0] = min(others[0], ROOM - PARENT)  # where the parent stands
    names = [f"n{number}" for number in range(len(others))]
    nodes = [Node(name, capacities={"cpu": ROOM}) for name in names]
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
    home, place = (engine.replicas(name)[0].node for name in ("parent", "child"))
    fitting = {name for name, load in zip(names, others, strict=True) if load + PARENT + CHILD <= ROOM}
    reachable = fitting if moves else fitting & {"n0"}
    if "n0" in reachable:
        assert (home, place) == ("n0", "n0")
    elif reachable:
        assert home == place
        assert home in reachable
    else:
        assert (home, place) == ("n0", None)
