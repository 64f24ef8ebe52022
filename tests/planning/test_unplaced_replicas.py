"""A replica without a place names the rules that exclude each node, with their numbers: one example for each rule."""

from __future__ import annotations

import pytest

from plb import Node, Replica, Role, Service
from tests.engine.stories import add_partition, engine_on

pytestmark = pytest.mark.kernels

PRIMARY, SECONDARY = Role.PRIMARY, Role.SECONDARY


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
