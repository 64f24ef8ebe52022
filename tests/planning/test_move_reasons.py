"""Reasons of moves: the broken rule, the parent that the child joins, or the metric with the imbalance."""

from __future__ import annotations

import pytest

from plb import Metric, Node, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.risk import DemandHistory
from tests.engine.stories import add_partition, engine_on

pytestmark = pytest.mark.kernels

PRIMARY, SECONDARY, INSTANCE = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE


def test_replica_on_a_blocked_node_is_misplaced_and_immovable():
    """Such a replica may not move, as in Service Fabric; the engine reports both."""
    engine = engine_on("a", "b")
    engine.update_service(Service("web", stateful=False, blocked_nodes=frozenset({"a"})))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"))
    assert [str(one) for one in engine.violations()] == [
        "instance of web/0 is on node a, which is blocked for service web"
    ]
    assert (
        engine.repair()
        .explain("web/0")
        .endswith("1 replica of it may not move: 1 on a node that is blocked for the service.")
    )


@pytest.mark.parametrize("kind", ["fault", "upgrade"])
def test_move_out_of_a_crowded_domain(kind):
    """The reason names the domain, its number of replicas and the allowed number."""
    names = {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    domains = {"fault": lambda of: {"fault_domain": f"fd:/{of}"}, "upgrade": lambda of: {"upgrade_domain": of}}
    engine = engine_on(*(Node(name, **domains[kind](of)) for name, of in names.items()))
    engine.update_service(Service("db", target_replicas=2))
    add_partition(engine, "db/0", Replica(PRIMARY, "a0", pinned=True), Replica(SECONDARY, "a1"))
    prefix = "fd:/" if kind == "fault" else ""
    expected = [
        f"{kind} domain {prefix}a holds 2 replicas of db/0; at most 1 allowed",
        f"{kind} domain {prefix}b holds no replica of db/0; at least 1 required",
    ]
    assert [str(one) for one in engine.violations(soft=True)] == expected
    assert [str(one) for one in engine.violations()] == (expected if kind == "fault" else [])
    (move,) = engine.repair().moves
    assert (move.reason.rule, move.reason.node, move.reason.domain) == (f"{kind}_domain", "a1", f"{prefix}a")
    assert dict(move.reason.numbers) == {"replicas": 2, "least": 1, "most": 1}
    assert str(move.reason) == expected[0]


def test_child_that_joins_its_parent_gives_the_reason():
    """The parent must leave a node that its constraint forbids; the child joins it."""
    engine = engine_on("a", Node("b", properties={"ssd": "true"}))
    engine.update_service(Service("db", placement_constraint="ssd == true"))
    engine.update_service(Service("kid", affinity_to="db"))
    add_partition(engine, "db/0", Replica(PRIMARY, "a"))
    add_partition(engine, "kid/0", Replica(PRIMARY, "a"))
    assert engine.repair().explain("kid/0") == "Move primary of kid/0 from a to b: joins its parent db/0."


def test_surplus_names_present_and_target_number():
    """The service wants one replica and has two."""
    engine = engine_on("a", "b")
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"), Replica(INSTANCE, "b", pinned=True))
    assert engine.place().explain("web/0") == "Drop instance of web/0 from a: 2 replicas where 1 should be."


def test_balancing_names_the_failovers_that_it_prevents():
    """With failovers weighted far above imbalance, the move reduces failovers."""
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["a"],
        role=[PRIMARY],
        lifetime=[100],
        level=[[8]],
        initial=[[8]],
        growth=[[0]],
        maximum=[[8]],
    )
    config = PlbConfig(metrics=[Metric("cpu")], w_failovers=1000.0, w_imbalance=0.001, replay="as_recorded")
    engine = PlacementAndLoadBalancing(config, history=history)
    for name in ("a", "b"):
        engine.update_node(Node(name, capacities={"cpu": 10}))
    engine.update_service(Service("db", tenant_class="a"))
    for index in range(2):
        add_partition(engine, f"db/{index}", Replica(PRIMARY, "a", pinned=index == 0))
        engine.report_load(f"db/{index}", "a", {"cpu": 2})
    (move,) = engine.balance().moves
    assert str(move.reason) == "lowers the energy: expected failovers goes from 1 to 0"
    assert move.reason.term == "expected_failovers"
