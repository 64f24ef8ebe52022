"""Explanations: the rule, the domain and the numbers behind each verdict, as values and in words."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Apart,
    Held,
    Idle,
    Metric,
    Misplaced,
    Node,
    NodeViolation,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnevenSpread,
    UnknownNameError,
)
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState
from plb.risk import DemandHistory

from .oracle import after_plan, domain_groups, fits, node_loads, placement_of
from .strategies import CONSTRAINTS, Cluster, all_clusters, examples

PRIMARY, SECONDARY, INSTANCE = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE


def engine_with(*nodes: Node | str, metrics: str = "cpu", **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine that knows these nodes; a name alone is a node without limits."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric(name) for name in metrics.split()], **settings))
    for node in nodes:
        engine.update_node(Node(node) if isinstance(node, str) else node)
    return engine


def stand(engine: PlacementAndLoadBalancing, name: str, *replicas: Replica, **fields: Any) -> None:
    """Tell the engine of a partition; its service is what stands before the slash."""
    engine.update_partition(Partition(name, service=name.partition("/")[0], replicas=replicas, **fields))


# a replica that found no place: one story a rule


def test_node_state_says_what_the_nodes_are():
    """Nodes that are down or deactivated are told apart."""
    engine = engine_with(
        Node("a", up=False),
        Node("b", deactivation_intent="restart", deactivation_status="safety_check_complete"),
        Node("c", deactivation_intent="remove_node"),
    )
    engine.update_service(Service("web", stateful=False))
    stand(engine, "web/0")
    assert engine.place().explain("web/0") == (
        "Instance of web/0 fits on none of 3 nodes: ruled out 3 by node (1 down, "
        "1 deactivated (restart, safety_check_complete), 1 deactivated (remove_node, none))."
    )


def test_exclusion_names_the_nodes_that_are_taken():
    """Two instances on one node: the second finds it taken."""
    engine = engine_with("a")
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    stand(engine, "web/0", Replica(INSTANCE, "a"))
    assert str(engine.place().unplaced[0]) == (
        "instance of web/0 fits on none of 1 nodes: ruled out 1 by exclusion (another replica of the partition is on a)"
    )


def test_placement_tells_blocked_nodes_from_unfit_ones():
    """One node is in the block list, two fail the expression."""
    engine = engine_with(Node("a", properties={"zone": "z0"}), Node("b", properties={"zone": "z1"}), "c")
    engine.update_service(
        Service("web", stateful=False, placement_constraint="zone == z1", blocked_nodes=frozenset({"b"}))
    )
    stand(engine, "web/0")
    assert str(engine.place().unplaced[0]) == (
        "instance of web/0 fits on none of 3 nodes: ruled out 3 by placement "
        "(1 blocked for the service, 2 not satisfying 'zone == z1')"
    )


def test_preferred_location_names_the_standbys():
    """As a hard rule it leaves the node of the standby only, which is down."""
    engine = engine_with(Node("a", up=False), "b", "c", preferred_location_constraint_priority=0)
    engine.update_service(Service("db", target_replicas=2))
    stand(engine, "db/0", Replica(PRIMARY, "b"), Replica(SECONDARY, "a", state="standby"))
    assert str(engine.place().unplaced[0]) == (
        "secondary of db/0 fits on none of 3 nodes: ruled out 1 by node (1 down), 1 by exclusion "
        "(another replica of the partition is on b), 1 by preferred location (its partition has standbys on a)"
    )


def test_fault_domain_names_the_full_domains():
    """The rack of the primary may hold one of two replicas, and the other rack has no room."""
    engine = engine_with(
        Node("a0", fault_domain="fd:/dc/a"),
        Node("a1", fault_domain="fd:/dc/a"),
        Node("b0", fault_domain="fd:/dc/b", capacities={"cpu": 3}),
    )
    engine.update_service(Service("db", target_replicas=2, default_load={SECONDARY: {"cpu": 5}}))
    stand(engine, "db/0", Replica(PRIMARY, "a0"))
    assert str(engine.place().unplaced[0]) == (
        "secondary of db/0 fits on none of 3 nodes: ruled out 1 by exclusion "
        "(another replica of the partition is on a0), 1 by fault domain (fd:/dc/a holds 1 and may hold 1), "
        "1 by capacity (5 cpu needed, at most 2.85 free, on b0)"
    )


def test_soft_rule_that_was_given_up_rules_out_nothing_but_is_named():
    """The upgrade domain was given up; what keeps the replica out is the room."""
    small = {"cpu": 3}
    engine = engine_with(
        Node("a", upgrade_domain="u0"),
        Node("b", upgrade_domain="u0", capacities=small),
        Node("c", upgrade_domain="u1", capacities=small),
    )
    engine.update_service(Service("db", target_replicas=2, default_load={SECONDARY: {"cpu": 5}}))
    stand(engine, "db/0", Replica(PRIMARY, "a"))
    refusal = engine.place().unplaced[0]
    assert (refusal.ruled_out, refusal.given_up) == ({"exclusion": 1, "capacity": 2}, ("upgrade_domain",))
    assert str(refusal) == (
        "secondary of db/0 fits on none of 3 nodes: ruled out 1 by exclusion "
        "(another replica of the partition is on a), 2 by capacity (5 cpu needed, at most 2.85 free, on b); "
        "even without the upgrade domain rule"
    )


def test_soft_rule_that_is_kept_rules_out_nodes():
    """Where soft rules are not relaxed, the upgrade domain is what keeps the replica out."""
    engine = engine_with(
        Node("a", upgrade_domain="u0"),
        Node("b", upgrade_domain="u0"),
        Node("c", upgrade_domain="u1", capacities={"cpu": 3}),
        relax_constraint_for_placement=False,
    )
    engine.update_service(Service("db", target_replicas=2, default_load={SECONDARY: {"cpu": 5}}))
    stand(engine, "db/0", Replica(PRIMARY, "a"))
    refusal = engine.place().unplaced[0]
    assert (refusal.ruled_out, refusal.given_up) == ({"exclusion": 1, "upgrade_domain": 1, "capacity": 1}, ())
    assert "1 by upgrade domain (u0 holds 1 and may hold 1)" in str(refusal)


def test_capacity_names_every_metric_that_is_short_and_the_roomiest_node():
    """Of two nodes one lacks memory, both lack cpu; departing load is no free room."""
    engine = engine_with(
        Node("a", capacities={"cpu": 10, "memory": 100}),
        Node("b", capacities={"cpu": 8, "memory": 4}),
        metrics="cpu memory",
        capacity_limit="capacity",
    )
    engine.update_service(
        Service("web", stateful=False, default_load={INSTANCE: {"cpu": 9, "memory": 5}}, target_replicas=1)
    )
    stand(engine, "web/0", Replica(INSTANCE, "a", pinned=True))
    engine.report_load("web/0", "a", {"cpu": 7, "memory": 1})
    stand(engine, "web/1")
    refusal = engine.place().unplaced[0]
    assert str(refusal) == (
        "instance of web/1 fits on none of 2 nodes: ruled out 2 by capacity "
        "(9 cpu needed, at most 8 free, on b; 5 memory needed, at most 4 free, on b)"
    )
    assert [(one.metric, one.nodes) for one in refusal.eliminated[0].shortages] == [("cpu", 2), ("memory", 1)]


def test_affinity_says_where_the_parent_stands():
    """A child's primary belongs beside the parent's, whose node is full."""
    engine = engine_with(Node("a", capacities={"cpu": 3}), "b")
    engine.update_service(Service("db"))
    engine.update_service(Service("kid", affinity_to="db", default_load={PRIMARY: {"cpu": 5}}))
    stand(engine, "db/0", Replica(PRIMARY, "a", pinned=True))
    stand(engine, "kid/0")
    assert str(engine.place().unplaced[0]) == (
        "primary of kid/0 fits on none of 2 nodes: ruled out 1 by capacity (5 cpu needed, at most 2.85 free, on a), "
        "1 by affinity (it belongs beside its parent db, on a)"
    )


def test_affinity_says_if_the_parent_cannot_be_followed():
    """A parent with two partitions, or one that has no replica yet where that matters, holds its children back."""
    engine = engine_with("a", place_child_without_parent=False)
    engine.update_service(Service("db", default_load={PRIMARY: {"cpu": 5}}))
    engine.update_service(Service("kid", affinity_to="db"))
    stand(engine, "db/0")
    stand(engine, "kid/0")
    assert "1 by affinity (its parent db has no replica that it could stand beside)" in engine.place("kid/0").explain(
        "kid/0"
    )
    stand(engine, "db/1")
    assert "1 by affinity (its parent db has 2 partitions, and only a single one can be followed)" in engine.place(
        "kid/0"
    ).explain("kid/0")


def test_range_is_named_where_the_peaks_add_up_to_too_much():
    """Sampled peaks that would outgrow 32 bits keep a replica out, whatever the room."""
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["a"],
        role=[PRIMARY],
        lifetime=[1e9],
        level=[[3e4]],
        initial=[[3e4]],
        growth=[[0.0]],
        maximum=[[3e4]],
    )
    config = PlbConfig(metrics=[Metric("cpu", step=2.0**-15)], repetitions=2, replay="as_recorded")
    engine = PlacementAndLoadBalancing(config, history=history)
    engine.update_node(Node("a"))
    engine.update_service(Service("db", tenant_class="a"))
    for index in range(3):
        stand(engine, f"db/{index}", *([Replica(PRIMARY, "a")] if index < 2 else []))
    assert engine.place().explain("db/2") == (
        "Primary of db/2 fits on none of 1 nodes: ruled out 1 by range "
        "(its peaks and those there add up to too many steps; give a coarser Metric(step=...))."
    )


def test_partition_placed_wholly_or_not_at_all_says_so():
    """Three of four replicas found a node; all four wait, and the fourth says why."""
    engine = engine_with("a", "b", "c", partially_place_services=False)
    engine.update_service(Service("web", stateful=False, target_replicas=4))
    stand(engine, "web/0")
    plan = engine.place()
    assert plan.moves == ()
    words = "its partition is placed wholly or not at all, and only 3 of 4 replicas found a node"
    assert Counter(str(one) for one in plan.unplaced) == {
        f"instance of web/0 fits on 3 of 3 nodes; {words}": 3,
        "instance of web/0 fits on none of 3 nodes: ruled out 3 by exclusion "
        f"(another replica of the partition is on a, b, c); {words}": 1,
    }


# moves: one story a reason


def test_move_off_a_node_that_the_service_does_not_want():
    """The reason quotes the placement constraint; the same sentence is a violation before."""
    engine = engine_with(Node("a", properties={"z": "1"}), Node("b", properties={"z": "2"}))
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
    engine = engine_with("a", "b")
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
    engine = engine_with(*(Node(name, **domains[kind](of)) for name, of in names.items()))
    engine.update_service(Service("db", target_replicas=2))
    stand(engine, "db/0", Replica(PRIMARY, "a0", pinned=True), Replica(SECONDARY, "a1"))
    prefix = "fd:/" if kind == "fault" else ""
    words = [
        f"{kind} domain {prefix}a holds 2 replicas of db/0, at most 1 may stand there",
        f"{kind} domain {prefix}b holds no replica of db/0, at least 1 must stand there",
    ]
    assert [str(one) for one in engine.violations(soft=True)] == words
    assert [str(one) for one in engine.violations()] == (words if kind == "fault" else [])
    (move,) = engine.repair().moves
    assert (move.reason.rule, move.reason.node, move.reason.domain) == (f"{kind}_domain", "a1", f"{prefix}a")
    assert dict(move.reason.numbers) == {"replicas": 2, "least": 1, "most": 1}
    assert str(move.reason) == words[0]


def test_child_goes_back_to_its_parent():
    """The reason says where the child belongs."""
    engine = engine_with("a", "b")
    engine.update_service(Service("db"))
    engine.update_service(Service("kid", affinity_to="db"))
    stand(engine, "db/0", Replica(PRIMARY, "a", pinned=True))
    stand(engine, "kid/0", Replica(PRIMARY, "b"))
    words = "affinity of primary of kid/0 on node b is broken: it belongs beside its parent db, on a"
    assert [str(one) for one in engine.violations()] == [words]
    assert engine.repair().explain("kid/0") == f"Move primary of kid/0 from b to a: {words}."


def test_child_that_follows_its_parent_says_so():
    """The parent must leave a node that its constraint forbids; the child goes along."""
    engine = engine_with("a", Node("b", properties={"ssd": "true"}))
    engine.update_service(Service("db", placement_constraint="ssd == true"))
    engine.update_service(Service("kid", affinity_to="db"))
    stand(engine, "db/0", Replica(PRIMARY, "a"))
    stand(engine, "kid/0", Replica(PRIMARY, "a"))
    assert engine.repair().explain("kid/0") == "Move primary of kid/0 from a to b: follows its parent db/0."


def test_surplus_says_how_many_there_are_and_should_be():
    """Two replicas where the service wants one."""
    engine = engine_with("a", "b")
    engine.update_service(Service("web", stateful=False))
    stand(engine, "web/0", Replica(INSTANCE, "a"), Replica(INSTANCE, "b", pinned=True))
    assert engine.place().explain("web/0") == "Drop instance of web/0 from a: 2 replicas where 1 should be."


def test_balancing_names_the_metric_that_it_evens_out():
    """Memory is even already; cpu goes from 1 to 0."""
    engine = engine_with("a", "b", metrics="memory cpu", w_imbalance=100.0)
    engine.update_service(Service("web", stateful=False))
    for index in range(2):
        stand(engine, f"web/{index}", Replica(INSTANCE, "a", pinned=index == 0))
        engine.report_load(f"web/{index}", "a", {"cpu": 8})
    plan = engine.balance()
    assert plan.explain("web/1") == (
        "Move instance of web/1 from a to b: lowers the energy, as imbalance of cpu goes from 1 to 0."
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
    assert str(move.reason) == "lowers the energy, as expected failovers goes from 1 to 0"
    assert move.reason.term == "expected_failovers"


# partitions that stay


def test_phases_that_did_not_run_say_why():
    """Each phase of a refresh names what kept it; refreshing again within the interval names that."""
    engine = engine_with("a", "b", min_placement_interval=60.0)
    engine.update_service(Service("web", stateful=False))
    stand(engine, "web/0", Replica(INSTANCE, "a"))
    assert engine.refresh(0.0).explain("web/0") == (
        "The plan leaves web/0 where it is: placement did not run, as no replica is missing or one too many; "
        "repair did not run, as no constraint is broken that it may mend; "
        "balancing did not run, as no metric is out of balance."
    )
    plan = engine.refresh(1.0)
    assert plan.outcomes[0].idle == {
        Phase.PLACEMENT: Idle.NOT_DUE,
        Phase.REPAIR: Idle.NOTHING_BROKEN,
        Phase.BALANCING: Idle.BALANCED,
    }


def test_replicas_that_may_not_move_are_counted_by_why():
    """Pinned, in build, on a deactivated node; a partition in transition holds all of its replicas."""
    engine = engine_with("a", "b", "c", Node("d", deactivation_intent="pause"))
    engine.update_service(Service("web", stateful=False, target_replicas=4))
    replicas = [
        Replica(INSTANCE, "a", pinned=True),
        Replica(INSTANCE, "b", state="in_build"),
        Replica(INSTANCE, "c"),
        Replica(INSTANCE, "d"),
    ]
    stand(engine, "web/0", *replicas)
    stand(engine, "web/1", Replica(INSTANCE, "a"), in_transition=True, missing=0)
    plan = engine.refresh(0.0)
    assert plan.outcomes[0].held == {
        "web/0": {Held.PINNED: 1, Held.NOT_READY: 1, Held.NODE_OUT_OF_SERVICE: 1},
        "web/1": {Held.IN_TRANSITION: 1},
    }
    assert plan.explain("web/1").endswith(
        "1 replica of it may not move: 1 in a partition in transition or quorum loss."
    )


def test_search_that_ran_says_what_refused_its_proposals():
    """Both nodes are too small for anything to move: every proposal is refused by capacity."""
    engine = engine_with(
        Node("a", capacities={"cpu": 20}), Node("b", capacities={"cpu": 4}), swap_primary_probability=0.0,
        exchange_probability=0.0,
    )  # fmt: skip
    engine.update_service(Service("web", stateful=False))
    for index in range(2):
        stand(engine, f"web/{index}", Replica(INSTANCE, "a"))
        engine.report_load(f"web/{index}", "a", {"cpu": 8})
    plan = engine.balance()
    refused = plan.proposals.refused_by_rule
    assert plan.explain("web/0").startswith("The plan leaves web/0 where it is: balancing ran and ended as ")
    assert f"{refused['capacity']} by capacity" in plan.explain("web/0")


def test_refresh_of_service_domains_says_what_each_did():
    """One domain has nothing to do; the other places, and is passed over while that is under way."""
    config = PlbConfig.from_service_fabric({}, metrics=[Metric("cpu"), Metric("disk")])
    engine = PlacementAndLoadBalancing(config)
    for name in "ab":
        engine.update_node(Node(name))
    engine.update_service(Service("x", stateful=False, metrics={"cpu": 1}))
    engine.update_service(Service("y", stateful=False, metrics={"disk": 1}))
    stand(engine, "x/0", Replica(INSTANCE, "a"))
    stand(engine, "y/0")
    plan = engine.refresh(0.0)
    assert [(one.domain, one.action) for one in plan.outcomes] == [
        ("x", "NoActionNeeded"),
        ("y", "NewReplicaPlacement"),
    ]
    assert plan.explain("x/0") == (
        "The plan leaves x/0 where it is (NoActionNeeded for service domain x): "
        "placement did not run, as no replica is missing or one too many; "
        "repair did not run, as no constraint is broken that it may mend; "
        "balancing did not run, as its interval has not passed."
    )
    assert engine.refresh(1.0).explain("y/0") == (
        "The plan leaves y/0 where it is (ActionSkipped for service domain y): "
        "placement, repair and balancing did not run, as moves of an earlier plan are under way."
    )


def test_balancing_held_back_by_a_new_node_says_so():
    """Within the delay after a node came, balancing names it."""
    config = PlbConfig.from_service_fabric({}, metrics=[Metric("cpu")])
    engine = PlacementAndLoadBalancing(config)
    engine.update_service(Service("x", stateful=False))
    engine.update_node(Node("a"), now=0.0)
    stand(engine, "x/0", Replica(INSTANCE, "a"))
    assert engine.refresh(0.0).outcomes[0].idle[Phase.BALANCING] is Idle.NOT_DUE
    plan = engine.refresh(10.0)
    assert plan.outcomes[0].idle[Phase.BALANCING] is Idle.NODE_EVENT
    assert "balancing did not run, as a node came or went too recently" in plan.explain("x/0")


def test_partition_that_the_plan_does_not_know_is_refused():
    """A slip of the pen is no partition that stays."""
    engine = engine_with("a")
    engine.update_service(Service("web", stateful=False))
    stand(engine, "web/0", Replica(INSTANCE, "a"))
    with pytest.raises(UnknownNameError, match="plan: unknown partition 'web/1'; did you mean 'web/0'"):
        engine.refresh(0.0).explain("web/1")


# properties over random clusters

TESTS = {
    **CONSTRAINTS,
    "FDPolicy ~ Nonpacking": lambda _: True,
    "FDPolicy ~ Ignore && zone == z0": CONSTRAINTS["zone == z0"],
}
"""Placement constraints, policies included, and what they mean for a node."""


@st.composite
def odd_clusters(draw: st.DrawFn) -> Cluster:
    """Clusters with deactivated nodes, block lists, domain policies, quorum rules, children, standbys and builds."""
    cluster = draw(all_clusters())
    if draw(st.booleans()):
        cluster = with_one_partition(cluster, "s0")
    intents = st.sampled_from([*[DeactivationIntent.NONE] * 8, *DeactivationIntent])
    nodes = tuple(
        attrs.evolve(
            node, deactivation_intent=draw(intents), deactivation_status=draw(st.sampled_from(DeactivationStatus))
        )
        for node in cluster.nodes
    )
    names = st.sampled_from([node.name for node in nodes])
    services = tuple(
        attrs.evolve(
            service,
            placement_constraint=draw(st.sampled_from(["", "", *TESTS])),
            blocked_nodes=draw(st.frozensets(names, max_size=1)),
            on_every_node=draw(st.sampled_from([False, False, False, True])),
            affinity_to="s0" if index and draw(st.booleans()) else None,
            aligned=draw(st.booleans()),
        )
        for index, service in enumerate(cluster.services)
    )
    states = st.sampled_from([*[ReplicaState.READY] * 3, ReplicaState.STANDBY, ReplicaState.IN_BUILD])
    partitions = tuple(
        attrs.evolve(
            partition,
            replicas=[
                r if r.leaving or r.role is PRIMARY else attrs.evolve(r, state=draw(states)) for r in partition.replicas
            ],
        )
        for partition in cluster.partitions
    )
    quorum = {f"quorum_based_replica_distribution_per_{kind}_domains": draw(st.booleans()) for kind in KINDS}
    config = {**cluster.config, **quorum, "upgrade_domain_constraint_priority": draw(st.sampled_from([0, 1, -1]))}
    return attrs.evolve(cluster, nodes=nodes, services=services, partitions=partitions, config=config)


def with_one_partition(cluster: Cluster, service: str) -> Cluster:
    """Return the cluster with the first partition of a service alone, so that children can follow it."""
    others = [p.name for p in cluster.partitions if p.service == service][1:]
    return attrs.evolve(
        cluster,
        partitions=tuple(p for p in cluster.partitions if p.name not in others),
        loads={(name, node): load for (name, node), load in cluster.loads.items() if name not in others},
    )


KINDS = ("fault", "upgrade")


def standing(partition: Partition) -> list[Replica]:
    """Return the replicas that count for constraints: neither on their way out nor a standby."""
    return [r for r in partition.replicas if not r.leaving and r.state is not ReplicaState.STANDBY]


def suits(service: Service, node: Node) -> bool:
    """Tell whether a service may stand on a node, up or not."""
    return node.name not in service.blocked_nodes and TESTS[service.placement_constraint](node.properties)


def takes_new(node: Node) -> bool:
    """Tell whether a node takes new replicas (semantics.md section 4, deactivated nodes)."""
    checking = node.deactivation_status is DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
    comes_back = node.deactivation_intent in (DeactivationIntent.PAUSE, DeactivationIntent.RESTART)
    return node.up and (node.deactivation_intent is DeactivationIntent.NONE or (comes_back and checking))


def overloads_by_hand(cluster: Cluster) -> list[tuple[str, str, Fraction]]:
    """Return node, metric and load where a node in service is at or above f·c."""
    found = []
    for node in cluster.nodes:
        if not node.up or node.deactivation_intent is not DeactivationIntent.NONE:
            continue
        for metric in cluster.metrics:
            load = sum(
                Fraction(cluster.loads[p.name, r.node].get(metric.name, 0))
                for p in cluster.partitions
                for r in p.replicas
                if r.node == node.name and not r.leaving
            )
            capacity = node.capacities.get(metric.name)
            if capacity is not None and 0 < load >= Fraction(str(metric.violation_threshold)) * Fraction(capacity):
                found.append((node.name, metric.name, load))
    return found


def misplaced_by_hand(cluster: Cluster) -> list[tuple[str, str, bool]]:
    """Return partition, node and whether it is the block list, for replicas that their service does not want there."""
    nodes = {node.name: node for node in cluster.nodes}
    return [
        (p.name, r.node, r.node in cluster.service_of(p.name).blocked_nodes)
        for p in cluster.partitions
        for r in standing(p)
        if not suits(cluster.service_of(p.name), nodes[r.node])
    ]


def uneven_by_hand(cluster: Cluster, kind: str) -> list[tuple[str, int, str, int, int, int]]:
    """Return partition, level, domain, count, least and most where a domain holds too many or too few."""
    found = []
    for partition in cluster.partitions:
        service = cluster.service_of(partition.name)
        usable = {node.name for node in cluster.nodes if takes_new(node) and suits(service, node)}
        levels = domain_groups(cluster, kind)
        counts = []
        for groups in levels:
            domains = dict.fromkeys((groups[name] for name in groups if name in usable), 0)
            for replica in standing(partition):
                if groups[replica.node] in domains:
                    domains[groups[replica.node]] += 1
            counts.append(domains)
        for level, most in limits_by_hand(cluster, kind, service, [len(domains) for domains in counts]):
            domains = counts[level]
            for parent in {above for above, _ in domains}:
                inside = {domain: count for (above, domain), count in domains.items() if above == parent}
                mean = Fraction(sum(inside.values()), len(inside))
                low, high = (math.floor(mean), math.ceil(mean)) if most is None else (0, most)
                found += [
                    (partition.name, level + 1, name_of(domain), count, low, high)
                    for domain, count in inside.items()
                    if not low <= count <= high and sum(inside.values())
                ]
    return found


def limits_by_hand(cluster: Cluster, kind: str, service: Service, domains: list[int]) -> list[tuple[int, int | None]]:
    """Return the levels that bind a service, with the most replicas of a domain, None: as even as can be."""
    if service.on_every_node or cluster.config[f"{kind}_domain_constraint_priority"] < 0 or not domains:
        return []
    if kind == "fault" and "Ignore" in service.placement_constraint:
        return []
    if kind == "fault" and "Nonpacking" in service.placement_constraint:
        return [(0, 1)]
    if not cluster.config[f"quorum_based_replica_distribution_per_{kind}_domains"]:
        return [(level, None) for level in range(len(domains))]
    first = next((level for level, count in enumerate(domains) if count >= 2), None)
    if first is None:
        return []
    target = service.target_replicas
    most = max(target - (target // 2 + 1), 1)
    return [(first, most + 1 if domains[first] * most < target else most)]


def name_of(domain: tuple[str, ...] | str) -> str:
    """Return the name of a domain as the engine gives it."""
    return domain if isinstance(domain, str) else "fd:/" + "/".join(domain)


def apart_by_hand(cluster: Cluster, engine: PlacementAndLoadBalancing) -> list[tuple[str, str]]:
    """Return partition and node of the children that do not stand beside their parent."""
    found = []
    for child in cluster.partitions:
        service = cluster.service_of(child.name)
        parents = [p for p in cluster.partitions if p.service == service.affinity_to]
        if not parents:
            continue
        if len(parents) > 1 or not engine.replicas(parents[0].name):
            found += [(child.name, r.node) for r in standing(child)]
            continue
        beside = {r.node: r.role for r in standing(parents[0])}
        slots = [engine.replicas(p.name) for p in (child, parents[0])]
        aligned = service.aligned and all(any(r.role is PRIMARY for r in of) for of in slots)
        larger = service.target_replicas > cluster.service_of(parents[0].name).target_replicas
        for replica in standing(child):
            others = {r.node for r in standing(child) if r is not replica}
            if replica.node in beside:
                wrong = aligned and (replica.role is PRIMARY) != (beside[replica.node] is PRIMARY)
            else:
                wrong = not (larger and beside.keys() <= others)
            if wrong:
                found.append((child.name, replica.node))
    return found


@examples(400)
@given(odd_clusters())
def test_violations_are_those_that_a_plain_look_finds(cluster):
    """Nodes, replicas, domains and children: exactly those that the rules in plain Python call broken."""
    engine = cluster.engine()
    found = engine.violations(soft=True)
    of = {kind: [one for one in found if isinstance(one, kind)] for kind in (NodeViolation, Misplaced, Apart)}
    assert [(v.node, v.metric, Fraction(v.load)) for v in of[NodeViolation]] == overloads_by_hand(cluster)
    misplaced = sorted((m.partition, m.node, m.constraint is None) for m in of[Misplaced])
    assert misplaced == sorted(misplaced_by_hand(cluster))
    for kind in KINDS:
        uneven = sorted(
            (u.partition, u.level, u.domain, u.replicas, u.least, u.most)
            for u in found
            if isinstance(u, UnevenSpread) and u.rule == f"{kind}_domain"
        )
        assert uneven == sorted(uneven_by_hand(cluster, kind))
    assert sorted((a.partition, a.node) for a in of[Apart]) == sorted(apart_by_hand(cluster, engine))


@examples(100)
@given(odd_clusters())
def test_soft_rules_are_told_only_when_asked_for(cluster):
    """By default only hard rules and overloaded nodes are violations."""
    engine = cluster.engine()
    everything = engine.violations(soft=True)
    hard = tuple(one for one in everything if isinstance(one, NodeViolation) or one.priority == 0)
    assert engine.violations() == hard
    assert all(str(one) and one.rule and dict(one.numbers) is not None for one in everything)


CALLS = {
    "place": lambda engine: engine.place(budget=120),
    "repair": lambda engine: engine.repair(budget=120),
    "balance": lambda engine: engine.balance(budget=120),
    "refresh": lambda engine: engine.refresh(0.0, budget=120),
}


@pytest.mark.parametrize("domains", [False, True], ids=["all at once", "one action a domain"])
@pytest.mark.parametrize("call", CALLS)
@examples(60)
@given(cluster=st.one_of(all_clusters(), odd_clusters()))
def test_every_partition_of_every_cluster_has_an_explanation(call, domains, cluster):
    """Never an error, never an empty one; every node and domain that the data names is there."""
    engine = cluster.engine(one_action_per_refresh=domains)
    plan = CALLS[call](engine)
    for partition in cluster.partitions:
        text = plan.explain(partition.name)
        assert partition.name in text
        assert text.endswith(".")
    names = {node.name for node in cluster.nodes}
    known = {
        name_of(domain[1]) for kind in KINDS for groups in domain_groups(cluster, kind) for domain in groups.values()
    }
    for move in plan.moves:
        assert move.reason.node is None or move.reason.node in names
        assert move.reason.domain is None or move.reason.domain in known
    for refusal in plan.unplaced:
        assert refusal.fitting + sum(refusal.ruled_out.values()) == len(names)
        assert refusal.fitting >= 0
        assert len({one.rule for one in refusal.eliminated}) == len(refusal.eliminated)
        for one in refusal.eliminated:
            check_elimination(one, names, known)
    assert {name for one in plan.outcomes for name in one.partitions} == {p.name for p in cluster.partitions}
    assert all({*one.phases, *one.idle} == set(Phase) for one in plan.outcomes)


@examples(200)
@given(all_clusters())
def test_numbers_of_a_refusal_are_those_of_the_cluster_after_the_plan(cluster):
    """What is needed, free and held agrees with loads and places counted by hand."""
    engine = cluster.engine(move_existing_replica_for_placement=False)
    before = placement_of(engine, cluster)
    plan = engine.place(budget=120)
    after = after_plan(before, plan)
    loads = node_loads(cluster, before, after, leaving=True)
    nodes = {node.name: node for node in cluster.nodes}
    for refusal in plan.unplaced:
        needed = cluster.load_of(refusal.partition, refusal.role, None)
        held = [r.node for r in after.values() if r.partition == refusal.partition and r.node and not r.leaving]
        for one in refusal.eliminated:
            for short in one.shortages if one.rule == "capacity" else ():
                node, load = nodes[short.roomiest], loads[short.roomiest][short.metric]
                assert Fraction(short.needed) == needed[short.metric]
                assert not fits(cluster, engine.config, node, short.metric, load + needed[short.metric])
                assert short.free == 0 or fits(cluster, engine.config, node, short.metric, load + Fraction(short.free))
            for full in one.domains if one.rule in ("fault_domain", "upgrade_domain") else ():
                groups = domain_groups(cluster, one.rule.partition("_")[0])
                of_domain = [{n for n, (_, d) in level.items() if name_of(d) == full.domain} for level in groups]
                assert full.replicas in {sum(node in inside for node in held) for inside in of_domain}


def check_elimination(one: Any, nodes: set[str], domains: set[str]) -> None:
    """Assert that what one rule says agrees with its count and names what exists."""
    assert 0 < one.nodes <= len(nodes)
    if one.rule == "node":
        assert sum(one.states.values()) == one.nodes
        assert "up" not in one.states
    elif one.rule == "exclusion":
        assert len(one.names) == one.nodes
        assert set(one.names) <= nodes
    elif one.rule == "placement":
        assert one.blocked + one.unfit == one.nodes
    elif one.rule in ("fault_domain", "upgrade_domain"):
        assert one.domains
        assert all(full.domain in domains and full.replicas >= full.most for full in one.domains)
    elif one.rule == "capacity":
        assert sum(short.nodes for short in one.shortages) >= one.nodes
        assert all(short.free < short.needed and short.roomiest in nodes for short in one.shortages)
    elif one.rule == "affinity":
        assert set(one.together_on) <= nodes
