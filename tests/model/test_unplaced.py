"""A replica without a place: the number of nodes that each rule excludes, and the text for it."""

from __future__ import annotations

import pytest

from plb import (
    Metric,
    Node,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    PlbConfig,
    Reason,
    Replica,
    Role,
    Service,
    Unplaced,
)
from plb.constraints.exclusion import Taken
from plb.constraints.node import OutOfService

pytestmark = pytest.mark.kernels


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


def test_service_with_more_replicas_than_nodes_has_unplaced_ones():
    """Three of five instances are placed on three nodes, two are excluded from every node."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=3)
    for index in range(3):
        engine.update_node(Node(f"n{index}"))
    engine.update_service(Service("web", stateful=False, target_replicas=5))
    engine.update_partition(Partition("web/0", service="web"))
    plan = engine.place()
    assert {move.target for move in plan.moves} == {"n0", "n1", "n2"}
    assert [dict(u.ruled_out) for u in plan.unplaced] == [{"exclusion": 3}] * 2
    assert plan.explain("web/0").count("Add instance of web/0 on") == 3
    assert plan.explain("web/0").endswith(
        "fits on none of 3 nodes: ruled out 3 by exclusion (another replica of the partition is on n0, n1, n2)."
    )


def test_each_rule_is_named_for_the_node_that_it_rules_out():
    """One node is down, one is taken, one has the wrong zone, one is in a crowded rack, one is full."""
    engine = PlacementAndLoadBalancing(
        PlbConfig(metrics=[Metric("cpu")], move_existing_replica_for_placement=False), seed=3
    )
    right = {"zone": "z1"}
    racks = {"down": "a", "taken": "b", "wrong": "a", "crowded": "b", "full": "c"}
    for name, rack in racks.items():
        engine.update_node(
            Node(
                name,
                capacities={"cpu": 1 if name == "full" else 100},
                fault_domain=f"fd:/{rack}",
                properties={"zone": "z0"} if name == "wrong" else right,
                up=name != "down",
            )
        )
    load = {Role.INSTANCE: {"cpu": 5}}
    engine.update_service(
        Service("web", stateful=False, target_replicas=2, placement_constraint="zone == z1", default_load=load)
    )
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "taken")]))
    plan = engine.place("web/0")
    assert dict(plan.unplaced[0].ruled_out) == {
        "node": 1,
        "exclusion": 1,
        "placement": 1,
        "fault_domain": 1,
        "capacity": 1,
    }


def test_reasons_have_a_text():
    """Each kind of reason has its phrase."""
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
