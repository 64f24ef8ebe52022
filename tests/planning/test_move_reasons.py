"""Reasons of moves: the rule that was broken, the replica that was followed, the metric that was evened out."""

from __future__ import annotations

import pytest

from plb import (
    Metric,
    Node,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.risk import DemandHistory
from tests.engine.stories import engine_on, stand

PRIMARY, SECONDARY, INSTANCE = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE


def test_move_off_a_node_that_the_service_does_not_want():
    """The reason quotes the placement constraint; the same sentence is a violation before."""
    engine = engine_on(Node("a", properties={"z": "1"}), Node("b", properties={"z": "2"}))
    engine.update_service(Service("web", stateful=False, placement_constraint="z == 2"))
    stand(engine, "web/0", Replica(INSTANCE, "a"))
    words = "instance of web/0 is on node a, which does not satisfy the placement constraint 'z == 2' of service web"
    assert [str(one) for one in engine.violations()] == [words]
    plan = engine.repair()
    assert plan.moves[0].reason.rule == "placement"
    assert plan.explain("web/0") == f"Move instance of web/0 from a to b: {words}."
    engine.apply(plan)
    assert engine.violations() == ()


def test_replica_on_a_blocked_node_is_a_violation_and_held():
    """It may not be moved, as in Service Fabric; the engine says both."""
    engine = engine_on("a", "b")
    engine.update_service(Service("web", stateful=False, blocked_nodes=frozenset({"a"})))
    stand(engine, "web/0", Replica(INSTANCE, "a"))
    assert [str(one) for one in engine.violations()] == [
        "instance of web/0 is on node a, which is blocked for service web"
    ]
    assert (
        engine.repair()
        .explain("web/0")
        .endswith("1 replica of it may not move: 1 on a node that is blocked for the service.")
    )


@pytest.mark.parametrize("kind", ["fault", "upgrade"])
def test_move_out_of_a_domain_that_holds_too_many(kind):
    """The reason names the domain, how many stand there and how many may."""
    names = {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    domains = {"fault": lambda of: {"fault_domain": f"fd:/{of}"}, "upgrade": lambda of: {"upgrade_domain": of}}
    engine = engine_on(*(Node(name, **domains[kind](of)) for name, of in names.items()))
    engine.update_service(Service("db", target_replicas=2))
    stand(engine, "db/0", Replica(PRIMARY, "a0", pinned=True), Replica(SECONDARY, "a1"))
    prefix = "fd:/" if kind == "fault" else ""
    words = [
        f"{kind} domain {prefix}a holds 2 replicas of db/0; at most 1 allowed",
        f"{kind} domain {prefix}b holds no replica of db/0; at least 1 required",
    ]
    assert [str(one) for one in engine.violations(soft=True)] == words
    assert [str(one) for one in engine.violations()] == (words if kind == "fault" else [])
    (move,) = engine.repair().moves
    assert (move.reason.rule, move.reason.node, move.reason.domain) == (f"{kind}_domain", "a1", f"{prefix}a")
    assert dict(move.reason.numbers) == {"replicas": 2, "least": 1, "most": 1}
    assert str(move.reason) == words[0]


def test_child_goes_back_to_its_parent():
    """The reason says where the child belongs."""
    engine = engine_on("a", "b")
    engine.update_service(Service("db"))
    engine.update_service(Service("kid", affinity_to="db"))
    stand(engine, "db/0", Replica(PRIMARY, "a", pinned=True))
    stand(engine, "kid/0", Replica(PRIMARY, "b"))
    words = "affinity of primary of kid/0 on node b is broken: it belongs on a node of its parent db: a"
    assert [str(one) for one in engine.violations()] == [words]
    assert engine.repair().explain("kid/0") == f"Move primary of kid/0 from b to a: {words}."


def test_child_that_follows_its_parent_says_so():
    """The parent must leave a node that its constraint forbids; the child goes along."""
    engine = engine_on("a", Node("b", properties={"ssd": "true"}))
    engine.update_service(Service("db", placement_constraint="ssd == true"))
    engine.update_service(Service("kid", affinity_to="db"))
    stand(engine, "db/0", Replica(PRIMARY, "a"))
    stand(engine, "kid/0", Replica(PRIMARY, "a"))
    assert engine.repair().explain("kid/0") == "Move primary of kid/0 from a to b: joins its parent db/0."


def test_surplus_says_how_many_there_are_and_should_be():
    """Two replicas where the service wants one."""
    engine = engine_on("a", "b")
    engine.update_service(Service("web", stateful=False))
    stand(engine, "web/0", Replica(INSTANCE, "a"), Replica(INSTANCE, "b", pinned=True))
    assert engine.place().explain("web/0") == "Drop instance of web/0 from a: 2 replicas where 1 should be."


def test_balancing_names_the_metric_that_it_evens_out():
    """Memory is even already; cpu goes from 1 to 0."""
    engine = engine_on("a", "b", metrics="memory cpu", w_imbalance=100.0)
    engine.update_service(Service("web", stateful=False))
    for index in range(2):
        stand(engine, f"web/{index}", Replica(INSTANCE, "a", pinned=index == 0))
        engine.report_load(f"web/{index}", "a", {"cpu": 8})
    plan = engine.balance()
    assert plan.explain("web/1") == (
        "Move instance of web/1 from a to b: lowers the energy: imbalance of cpu goes from 1 to 0."
    )
    assert plan.explain("web/0").endswith("1 replica of it may not move: 1 pinned.")


def test_balancing_names_the_failovers_that_it_prevents():
    """With failovers weighed far above imbalance the move is for their sake."""
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
        stand(engine, f"db/{index}", Replica(PRIMARY, "a", pinned=index == 0))
        engine.report_load(f"db/{index}", "a", {"cpu": 2})
    (move,) = engine.balance().moves
    assert str(move.reason) == "lowers the energy: expected failovers goes from 1 to 0"
    assert move.reason.term == "expected_failovers"
