"""A replica without a place names the rules that exclude each node, with their numbers: one example for each rule."""

from __future__ import annotations

import pytest

from plb import Metric, Node, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.risk import DemandHistory
from tests.engine.stories import add_partition, engine_on

pytestmark = pytest.mark.kernels

PRIMARY, SECONDARY, INSTANCE = Role.PRIMARY, Role.SECONDARY, Role.INSTANCE


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


def test_placement_names_the_properties_that_no_node_has():
    """One property is on another node, two are misspelled; that of the name is on all."""
    engine = engine_on(Node("a", properties={"zone": "z0"}), "b")
    constraint = "zone == z1 || zoen == z0 && NodeName == b || rak == r"
    engine.update_service(Service("web", stateful=False, placement_constraint=constraint))
    add_partition(engine, "web/0")
    assert str(engine.place().unplaced[0]) == (
        f"instance of web/0 fits on none of 2 nodes: ruled out 2 by placement (2 not satisfying '{constraint}', "
        "and no node has zoen or rak)"
    )


@pytest.mark.parametrize(
    ("constraint", "nodes"),
    [("NodeName == b", ["b"]), ("NodeName != b", ["a", "c"]), ("NodeName ^ agent", ["c"]), ("!NodeName ^ a", ["b"])],
)
def test_placement_constraints_know_the_names_of_nodes(constraint, nodes):
    """A property that is given under this name overrides the name."""
    engine = engine_on("a", "b", Node("c", properties={"NodeName": "agent"}))
    engine.update_service(Service("web", stateful=False, placement_constraint=constraint))
    add_partition(engine, "web/0")
    (alternatives,) = engine.alternatives("web/0")
    assert sorted(place.node for place in alternatives.places) == nodes


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
