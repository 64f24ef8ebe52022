"""An engine after the removal of a node equals one that never had the node."""

from __future__ import annotations

import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import ConflictError, Node, Replica, Role, UnknownNameError
from plb.testing import all_clusters
from tests.engine.fingerprint import snapshot
from tests.engine.stories import add_partition, engine_on, four_nodes
from tests.engine.strategies import examples


@examples(40)
@given(all_clusters(), st.integers(0, 5))
def test_removed_node_does_not_change_plans(cluster, place):
    nodes = list(cluster.nodes)
    nodes.insert(place, Node("passing"))
    plain, other = cluster.engine(), attrs.evolve(cluster, nodes=tuple(nodes)).engine()
    other.remove_node("passing")
    assert other.node_loads() == plain.node_loads()
    assert other.violations(soft=True) == plain.violations(soft=True)
    assert other.refresh(1.0, budget=80) == plain.refresh(1.0, budget=80)


@pytest.mark.parametrize(
    "replica",
    [
        Replica(Role.INSTANCE, "n1"),
        Replica(Role.INSTANCE, "n1", leaving=True),
        Replica(Role.INSTANCE, "n1", state="standby"),
    ],
    ids=["a placed replica", "a leaving replica", "a standby"],
)
def test_node_with_a_replica_cannot_be_removed(replica):
    engine = engine_on("n0", "n1")
    engine.update_service(attrs.evolve(four_nodes()._state.services[0]))
    add_partition(engine, "web/0", replica)
    before = snapshot(engine)
    with pytest.raises(ConflictError, match=re.escape("node n1: holds replicas of web/0; move or remove them first")):
        engine.remove_node("n1")
    assert snapshot(engine) == before
    engine.remove_partition("web/0")
    engine.remove_node("n1")
    assert list(engine.node_loads()) == ["n0"]


def test_last_node_may_be_removed_and_others_added():
    engine = engine_on("n0")
    engine.remove_node("n0")
    assert engine.node_loads() == {}
    assert engine.violations() == ()
    assert engine.place().moves == ()
    with pytest.raises(UnknownNameError, match="unknown node 'n0'"):
        engine.remove_node("n0")
    engine.update_node(Node("n0", capacities={"cpu": 3}))
    assert list(engine.node_loads()) == ["n0"]


@pytest.mark.parametrize("up", [True, False])
def test_balancing_waits_after_a_removal(up):
    """Removal delays balancing as a failure does, if set; the removal of a node that is down does not."""
    engine = four_nodes(balancing_delay_after_node_down=100.0, w_imbalance=1000.0)
    engine.update_node(Node("spare", up=up), now=0.0)
    engine.refresh(1000.0, budget=0)
    engine.remove_node("spare", now=1000.0)
    noted = {event.value: at for (_, event), at in engine._planner.scheduler.node_events.items()}
    assert noted.get("down") == (1000.0 if up else None)
