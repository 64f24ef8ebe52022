"""Explanations give the rule, the domain and the numbers behind each result, as values and as text."""

from __future__ import annotations

from collections import Counter

import pytest

from plb import (
    Idle,
    Immovable,
    Metric,
    Node,
    Phase,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.risk import DemandHistory
from tests.engine.stories import add_instance, add_partition, engine_on, engine_with

PRIMARY, SECONDARY, INSTANCE = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE


# a replica without a place: one example for each rule


def test_node_rule_names_the_states_of_the_nodes():
    """Nodes that are down and deactivated nodes are separate."""
    engine = engine_on(
        Node("a", up=False),
        Node("b", deactivation_intent="restart", deactivation_status="safety_check_complete"),
        Node("c", deactivation_intent="remove_node"),
    )
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0")
    assert engine.place().explain("web/0") == (
        "Instance of web/0 fits on none of 3 nodes: ruled out 3 by node (1 down, "
        "1 deactivated (restart, safety_check_complete), 1 deactivated (remove_node, none))."
    )


def test_exclusion_names_the_nodes_that_are_taken():
    """Two instances have one node; the node of the first is taken."""
    engine = engine_on("a")
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"))
    assert str(engine.place().unplaced[0]) == (
        "instance of web/0 fits on none of 1 nodes: ruled out 1 by exclusion (another replica of the partition is on a)"
    )


def test_placement_distinguishes_blocked_nodes_from_infeasible_ones():
    """One node is in the block list, two fail the expression."""
    engine = engine_on(Node("a", properties={"zone": "z0"}), Node("b", properties={"zone": "z1"}), "c")
    engine.update_service(
        Service("web", stateful=False, placement_constraint="zone == z1", blocked_nodes=frozenset({"b"}))
    )
    add_partition(engine, "web/0")
    assert str(engine.place().unplaced[0]) == (
        "instance of web/0 fits on none of 3 nodes: ruled out 3 by placement "
        "(1 blocked for the service, 2 not satisfying 'zone == z1')"
    )


def test_preferred_location_names_the_standbys():
    """As a hard rule it leaves only the node of the standby, which is down."""
    engine = engine_on(Node("a", up=False), "b", "c", preferred_location_constraint_priority=0)
    engine.update_service(Service("db", target_replicas=2))
    add_partition(engine, "db/0", Replica(PRIMARY, "b"), Replica(SECONDARY, "a", state="standby"))
    assert str(engine.place().unplaced[0]) == (
        "secondary of db/0 fits on none of 3 nodes: ruled out 1 by node (1 down), 1 by exclusion "
        "(another replica of the partition is on b), 1 by preferred location (its partition has standbys on a)"
    )


def test_fault_domain_names_the_full_domains():
    """The rack of the primary may have one of two replicas, and the other rack has no free capacity."""
    engine = engine_on(
        Node("a0", fault_domain="fd:/dc/a"),
        Node("a1", fault_domain="fd:/dc/a"),
        Node("b0", fault_domain="fd:/dc/b", capacities={"cpu": 3}),
    )
    engine.update_service(Service("db", target_replicas=2, default_load={SECONDARY: {"cpu": 5}}))
    add_partition(engine, "db/0", Replica(PRIMARY, "a0"))
    assert str(engine.place().unplaced[0]) == (
        "secondary of db/0 fits on none of 3 nodes: ruled out 1 by exclusion "
        "(another replica of the partition is on a0), 1 by fault domain (fd:/dc/a holds 1 and may hold 1), "
        "1 by capacity (5 cpu needed, at most 2.85 free, on b0)"
    )


def test_relaxed_soft_rule_is_named_but_rules_out_no_node():
    """The upgrade domain rule is relaxed; the capacity excludes the replica."""
    small = {"cpu": 3}
    engine = engine_on(
        Node("a", upgrade_domain="u0"),
        Node("b", upgrade_domain="u0", capacities=small),
        Node("c", upgrade_domain="u1", capacities=small),
    )
    engine.update_service(Service("db", target_replicas=2, default_load={SECONDARY: {"cpu": 5}}))
    add_partition(engine, "db/0", Replica(PRIMARY, "a"))
    refusal = engine.place().unplaced[0]
    assert (refusal.ruled_out, refusal.given_up) == ({"exclusion": 1, "capacity": 2}, ("upgrade_domain",))
    assert str(refusal) == (
        "secondary of db/0 fits on none of 3 nodes: ruled out 1 by exclusion "
        "(another replica of the partition is on a), 2 by capacity (5 cpu needed, at most 2.85 free, on b); "
        "even without the upgrade domain rule"
    )


def test_enforced_soft_rule_rules_out_nodes():
    """If soft rules are not relaxed, the upgrade domain excludes the replica."""
    engine = engine_on(
        Node("a", upgrade_domain="u0"),
        Node("b", upgrade_domain="u0"),
        Node("c", upgrade_domain="u1", capacities={"cpu": 3}),
        relax_constraint_for_placement=False,
    )
    engine.update_service(Service("db", target_replicas=2, default_load={SECONDARY: {"cpu": 5}}))
    add_partition(engine, "db/0", Replica(PRIMARY, "a"))
    refusal = engine.place().unplaced[0]
    assert (refusal.ruled_out, refusal.given_up) == ({"exclusion": 1, "upgrade_domain": 1, "capacity": 1}, ())
    assert "1 by upgrade domain (u0 holds 1 and may hold 1)" in str(refusal)


def test_capacity_names_every_short_metric_and_the_emptiest_node():
    """One of two nodes lacks memory, both lack cpu; leaving load is not free capacity."""
    engine = engine_on(
        Node("a", capacities={"cpu": 10, "memory": 100}),
        Node("b", capacities={"cpu": 8, "memory": 4}),
        metrics="cpu memory",
        capacity_limit="capacity",
    )
    engine.update_service(
        Service("web", stateful=False, default_load={INSTANCE: {"cpu": 9, "memory": 5}}, target_replicas=1)
    )
    add_partition(engine, "web/0", Replica(INSTANCE, "a", pinned=True))
    engine.report_load("web/0", "a", {"cpu": 7, "memory": 1})
    add_partition(engine, "web/1")
    refusal = engine.place().unplaced[0]
    assert str(refusal) == (
        "instance of web/1 fits on none of 2 nodes: ruled out 2 by capacity "
        "(9 cpu needed, at most 8 free, on b; 5 memory needed, at most 4 free, on b)"
    )
    assert [(one.metric, one.nodes) for one in refusal.diagnosis[0].shortages] == [("cpu", 2), ("memory", 1)]


def test_affinity_names_the_node_of_the_parent():
    """The child's primary belongs on the node of the parent's primary, which is full."""
    engine = engine_on(Node("a", capacities={"cpu": 3}), "b")
    engine.update_service(Service("db"))
    engine.update_service(Service("kid", affinity_to="db", default_load={PRIMARY: {"cpu": 5}}))
    add_partition(engine, "db/0", Replica(PRIMARY, "a", pinned=True))
    add_partition(engine, "kid/0")
    assert str(engine.place().unplaced[0]) == (
        "primary of kid/0 fits on none of 2 nodes: ruled out 1 by capacity (5 cpu needed, at most 2.85 free, on a), "
        "1 by affinity (it belongs on a node of its parent db: a)"
    )


def test_affinity_names_a_parent_that_its_child_cannot_join():
    """A parent with two partitions, or without the replica that its child needs, leaves the child without a place."""
    engine = engine_on("a", place_child_without_parent=False)
    engine.update_service(Service("db", default_load={PRIMARY: {"cpu": 5}}))
    engine.update_service(Service("kid", affinity_to="db"))
    add_partition(engine, "db/0")
    add_partition(engine, "kid/0")
    assert "1 by affinity (its parent db has no replica that it can join)" in engine.place("kid/0").explain("kid/0")
    add_partition(engine, "db/1")
    assert "1 by affinity (its parent db has 2 partitions, and affinity requires exactly one)" in engine.place(
        "kid/0"
    ).explain("kid/0")


def test_range_is_named_if_the_sum_of_peaks_is_too_large():
    """Sampled peaks beyond 32 bits exclude a replica, even with enough free capacity."""
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
    config = PlbConfig(metrics=[Metric("cpu", quantum=2.0**-15)], repetitions=2, replay="as_recorded")
    engine = PlacementAndLoadBalancing(config, history=history)
    engine.update_node(Node("a"))
    engine.update_service(Service("db", tenant_class="a"))
    for index in range(3):
        add_partition(engine, f"db/{index}", *([Replica(PRIMARY, "a")] if index < 2 else []))
    assert engine.place().explain("db/2") == (
        "Primary of db/2 fits on none of 1 nodes: ruled out 1 by range "
        "(its peaks and those on the node exceed the range of quanta; give a coarser Metric(quantum=...))."
    )


def test_no_replica_is_evicted_for_an_incomplete_all_or_nothing_placement():
    """One of two new replicas would fit after an eviction; the second fits nowhere, so nothing moves."""
    engine = engine_with({"n0": 10, "n1": 4, "n2": 4}, {"old": ("n0", 4)}, partially_place_services=False)
    add_instance(engine, 8, instances=2)
    plan = engine.place()
    assert plan.moves == ()
    assert len(plan.unplaced) == 2
    add_instance(engine, 8, name="single")
    both = engine.place()
    assert [str(move) for move in both.moves][1:] == ["add instance of single on n0"]


def test_skipped_phase_does_not_set_the_end_reason():
    """Balancing is at its fixed point, and a repair runs for the first time; neither finds a move."""
    engine = engine_with({"n0": 5, "n1": 0}, {"web/0": ("n0", 6)})
    assert engine.balance().end_reason == "the energy no longer changes"
    plan = engine.refresh(0.0)
    assert (plan.phases, plan.outcomes[0].idle[Phase.BALANCING]) == ((Phase.REPAIR,), Idle.UNCHANGED)
    assert plan.end_reason == "nothing to do"
    assert engine.refresh(1.0).end_reason == "nothing has changed since the last search of this kind"


def test_phase_that_drops_and_adds_is_named_once():
    """Placement drops a surplus replica and adds a missing one."""
    engine = engine_on("a", "b", "c")
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"), Replica(INSTANCE, "b"))
    add_partition(engine, "web/1")
    add_partition(engine, "web/2", Replica(INSTANCE, "a"))
    plan = engine.place()
    assert plan.phases == (Phase.PLACEMENT,)
    assert "web/2 where it is: placement ran and ended (" in plan.explain("web/2")


def test_all_or_nothing_placement_is_reported():
    """Three of four replicas found a node; all four wait, and the fourth gives the reason."""
    engine = engine_on("a", "b", "c", partially_place_services=False)
    engine.update_service(Service("web", stateful=False, target_replicas=4))
    add_partition(engine, "web/0")
    plan = engine.place()
    assert plan.moves == ()
    words = "its placement is all-or-nothing, and only 3 of 4 replicas found a node"
    assert Counter(str(one) for one in plan.unplaced) == {
        f"instance of web/0 fits on 3 of 3 nodes; {words}": 3,
        "instance of web/0 fits on none of 3 nodes: ruled out 3 by exclusion "
        f"(another replica of the partition is on a, b, c); {words}": 1,
    }


# partitions that do not move


def test_phases_that_did_not_run_give_the_reason():
    """Each phase of a refresh names its reason; a second refresh within the interval names the interval."""
    engine = engine_on("a", "b", min_placement_interval=60.0)
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"))
    assert engine.refresh(0.0).explain("web/0") == (
        "The plan leaves web/0 where it is: placement did not run, because no replica is missing or surplus; "
        "repair did not run, because no constraint is broken that it may repair; "
        "balancing did not run, because no metric is out of balance."
    )
    plan = engine.refresh(1.0)
    assert plan.outcomes[0].idle == {
        Phase.PLACEMENT: Idle.NOT_DUE,
        Phase.REPAIR: Idle.NOTHING_BROKEN,
        Phase.BALANCING: Idle.BALANCED,
    }


def test_immovable_replicas_are_counted_by_reason():
    """They are pinned, in build, or on a deactivated node; a partition in transition has only immovable replicas."""
    engine = engine_on("a", "b", "c", Node("d", deactivation_intent="pause"))
    engine.update_service(Service("web", stateful=False, target_replicas=4))
    replicas = [
        Replica(INSTANCE, "a", pinned=True),
        Replica(INSTANCE, "b", state="in_build"),
        Replica(INSTANCE, "c"),
        Replica(INSTANCE, "d"),
    ]
    add_partition(engine, "web/0", *replicas)
    add_partition(engine, "web/1", Replica(INSTANCE, "a"), in_transition=True, missing=0)
    plan = engine.refresh(0.0)
    assert plan.outcomes[0].immovable == {
        "web/0": {Immovable.PINNED: 1, Immovable.NOT_READY: 1, Immovable.NODE_OUT_OF_SERVICE: 1},
        "web/1": {Immovable.IN_TRANSITION: 1},
    }
    assert plan.explain("web/1").endswith(
        "1 replica of it may not move: 1 in a partition in transition or quorum loss."
    )


def test_partition_that_moved_too_often_is_immovable():
    """Balancing does not move the partition after a move in the last ten minutes, and gives this reason."""
    settings = {"MovementPerPartitionThrottleThreshold": 1, "MovementThrottledPartitionsPercentageThreshold": 1.0}
    engine = PlacementAndLoadBalancing(PlbConfig.from_service_fabric(settings, metrics=[Metric("cpu")]))
    for name in "ab":
        engine.update_node(Node(name))
    engine.update_service(Service("web", stateful=False))
    for index in range(2):
        add_partition(engine, f"web/{index}", Replica(INSTANCE, "a"))
        engine.report_load(f"web/{index}", "a", {"cpu": 8})
    engine.refresh(0.0)
    (move,) = engine.refresh(200.0).moves
    add_partition(engine, move.partition, Replica(INSTANCE, "a"))
    plan = engine.refresh(300.0)
    assert plan.outcomes[0].immovable == {move.partition: {Immovable.THROTTLED: 1}}


def test_search_names_the_rules_that_refused_its_proposals():
    """Both nodes are too small for any move: capacity refuses every proposal."""
    engine = engine_on(
        Node("a", capacities={"cpu": 20}), Node("b", capacities={"cpu": 4}), swap_primary_probability=0.0,
        exchange_probability=0.0,
    )  # fmt: skip
    engine.update_service(Service("web", stateful=False))
    for index in range(2):
        add_partition(engine, f"web/{index}", Replica(INSTANCE, "a"))
        engine.report_load(f"web/{index}", "a", {"cpu": 8})
    plan = engine.balance()
    refused = plan.proposals.refused_by_rule
    assert plan.explain("web/0").startswith("The plan leaves web/0 where it is: balancing ran and ended (")
    assert f"{refused['capacity']} by capacity" in plan.explain("web/0")


def test_refresh_reports_the_action_of_each_service_domain():
    """One domain has nothing to do; the other places, and is skipped while its moves run."""
    config = PlbConfig.from_service_fabric({}, metrics=[Metric("cpu"), Metric("disk")])
    engine = PlacementAndLoadBalancing(config)
    for name in "ab":
        engine.update_node(Node(name))
    engine.update_service(Service("x", stateful=False, metrics={"cpu": 1}))
    engine.update_service(Service("y", stateful=False, metrics={"disk": 1}))
    add_partition(engine, "x/0", Replica(INSTANCE, "a"))
    add_partition(engine, "y/0")
    plan = engine.refresh(0.0)
    assert [(one.domain, one.action) for one in plan.outcomes] == [
        ("x", "NoActionNeeded"),
        ("y", "NewReplicaPlacement"),
    ]
    assert plan.explain("x/0") == (
        "The plan leaves x/0 where it is (NoActionNeeded for service domain x): "
        "placement did not run, because no replica is missing or surplus; "
        "repair did not run, because no constraint is broken that it may repair; "
        "balancing did not run, because its interval has not passed."
    )
    assert engine.refresh(1.0).explain("y/0") == (
        "The plan leaves y/0 where it is (ActionSkipped for service domain y): "
        "placement, repair and balancing did not run, because moves of an earlier plan are under way."
    )


def test_balancing_delayed_by_a_new_node_gives_the_reason():
    """Balancing names the new node during the delay after it."""
    config = PlbConfig.from_service_fabric({}, metrics=[Metric("cpu")])
    engine = PlacementAndLoadBalancing(config)
    engine.update_service(Service("x", stateful=False))
    engine.update_node(Node("a"), now=0.0)
    add_partition(engine, "x/0", Replica(INSTANCE, "a"))
    assert engine.refresh(0.0).outcomes[0].idle[Phase.BALANCING] is Idle.NOT_DUE
    plan = engine.refresh(10.0)
    assert plan.outcomes[0].idle[Phase.BALANCING] is Idle.NODE_EVENT
    assert "balancing did not run, because a node was added or removed too recently" in plan.explain("x/0")


def test_explain_refuses_an_unknown_partition():
    """The error suggests the nearest name."""
    engine = engine_on("a")
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"))
    with pytest.raises(UnknownNameError, match="plan: unknown partition 'web/1'; did you mean 'web/0'"):
        engine.refresh(0.0).explain("web/1")
