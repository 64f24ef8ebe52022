"""Reasons of moves, and of replicas without a place: the broken rule with its numbers, the parent, or the term."""

from __future__ import annotations

import pytest

from plb import Metric, Node, Phase, PlacementAndLoadBalancing, PlbConfig, Reason, Replica, Role, Service, Unplaced
from plb.constraints.exclusion import Taken
from plb.constraints.node import OutOfService
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


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (
            Unplaced("db/0", Role.PRIMARY, 3, [OutOfService(1, {"down": 1}), Taken(2, ("n1", "n2"))]),
            "primary of db/0 fits on none of 3 nodes: ruled out 1 by node (1 down), "
            "2 by exclusion (another replica of the partition is on n1, n2)",
        ),
        (
            Unplaced("db/0", Role.SECONDARY, 9, [Taken(7, tuple(f"n{index}" for index in range(7)))]),
            "secondary of db/0 fits on 2 of 9 nodes: ruled out 7 by exclusion "
            "(another replica of the partition is on n0, n1, n2, n3, n4 and 2 more)",
        ),
        (Unplaced("web/0", Role.INSTANCE, 2), "instance of web/0 fits on 2 of 2 nodes"),
    ],
    ids=["on no node", "on some nodes", "on every node"],
)
def test_refusal_reads_as_a_sentence(refusal, text):
    """A refusal is a value; its text has numbers and rules."""
    assert str(refusal) == text


def test_reasons_have_a_text():
    numbers = {"load": 21.0, "limit": 19.0}
    phrases = [
        (Reason(Phase.REPAIR, "capacity", "n0", "cpu", numbers), "cpu of node n0 is 21, above its limit of 19"),
        (Reason(Phase.REPAIR, "fault_domain", "n0"), "fault domain rule broken on node n0"),
        (Reason(Phase.BALANCING, "energy"), "lowers the energy"),
        (Reason(Phase.PLACEMENT, "new replica"), "a replica is missing"),
        (Reason(Phase.PLACEMENT, "eviction"), "frees capacity"),
        (Reason(Phase.PLACEMENT, "eviction", "n0", other="web/0"), "frees capacity on node n0 for web/0"),
        (Reason(Phase.PLACEMENT, "surplus"), "surplus replica"),
    ]
    for reason, phrase in phrases:
        assert str(reason) == phrase
