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
from tests.engine.stories import add_instance, add_partition, engine_on, engine_with

PRIMARY, SECONDARY, INSTANCE = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE


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
    assert engine.balance().end_reason == "no moves were found that win twice what they cost (w_imbalance)"
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
        "web/0": {Immovable.PINNED: 1, Immovable.NOT_READY: 1, Immovable.NODE_DEACTIVATED: 1},
        "web/1": {Immovable.IN_TRANSITION: 1},
    }
    assert plan.explain("web/1").endswith(
        "1 replica of it may not move: 1 in a partition in transition or quorum loss."
    )


def test_partition_that_moved_too_often_is_immovable():
    """Balancing does not move the partition after a move in the last ten minutes, and gives this reason."""
    settings = {"MovementPerPartitionThrottleThreshold": 1, "MovementThrottledPartitionsPercentageThreshold": 1.0}
    engine = engine_with({"a": None, "b": None}, {"web/0": ("a", 8), "web/1": ("a", 8)}, original=settings)
    engine.refresh(0.0)
    (move,) = engine.refresh(200.0).moves
    add_partition(engine, move.partition, Replica(INSTANCE, "a"))
    plan = engine.refresh(300.0)
    assert plan.outcomes[0].immovable == {move.partition: {Immovable.THROTTLED: 1}}


def test_search_names_the_rules_that_refused_its_proposals():
    """Both nodes are too small for any move: capacity refuses every proposal."""
    nodes = Node("a", capacities={"cpu": 20}), Node("b", capacities={"cpu": 4})
    engine = engine_on(*nodes, swap_primary_probability=0.0, exchange_probability=0.0)
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
    engine = engine_on("a")
    engine.update_service(Service("web", stateful=False))
    add_partition(engine, "web/0", Replica(INSTANCE, "a"))
    with pytest.raises(UnknownNameError, match="plan: unknown partition 'web/1'; did you mean 'web/0'"):
        engine.refresh(0.0).explain("web/1")
