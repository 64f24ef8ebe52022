"""What the constraint check repairs under the rules of Service Fabric, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from plb import Node
from tests.service_fabric.small import Fabric, limits, nodes

every_seed = pytest.mark.parametrize("seed", range(3))


# capacity


@every_seed
def test_overloaded_node_gives_away_no_more_than_its_excess(seed: int) -> None:
    fabric = Fabric(nodes(3, capacities=limits(6, 2, 5)), seed=seed)
    fabric.service("web", 3, stateful=False)
    fabric.partitions(web0="I0", web1="I0", web2="I0")
    (action,) = fabric.refresh()
    assert action.endswith("move I 0>2")
    assert fabric.last_actions() == {"ConstraintCheck"}


@every_seed
def test_swap_relieves_a_node_if_roles_differ_in_load(seed: int) -> None:
    """Preferred locations make swaps come before moves; with that rule off, a move may do as well."""
    fabric = Fabric(nodes(3, capacities=limits(5, 9, 9)), seed=seed)
    fabric.service("db", (7, 2))
    fabric.partitions(db0="P0 S1")
    assert fabric.refresh() == ["db0 swap P 0>1"]


@pytest.mark.parametrize(
    ("replica", "fields", "moves"),
    [
        ("I0", {}, True),
        ("I0+", {}, False),
        ("I0-", {}, False),
        ("I0=", {}, False),
        ("I0~", {}, False),
        ("I0!", {}, False),
        ("I0", {"in_transition": True}, False),
        ("I0", {"in_quorum_loss": True}, False),
        ("I0", {"upgrading": True}, True),
    ],
    ids=str,
)
def test_only_a_ready_replica_of_a_partition_at_rest_moves(replica: str, fields: dict[str, bool], moves: bool) -> None:
    """Others stay where their constraint fails. In an upgrade, repairs are allowed by default."""
    fabric = Fabric(nodes(2))
    fabric.service("web", stateful=False, placement_constraint="NodeName == 1")
    fabric.partition("web0", replica, **fields)
    assert fabric.refresh() == (["web0 move I 0>1"] if moves else [])


@pytest.mark.parametrize(("standing", "counts"), [("B0", True), ("S0~", False), ("S0!", False)])
def test_standbys_and_what_disappears_stay_where_they_are(standing: str, *, counts: bool) -> None:
    """The load of a standby makes others leave an overloaded node; what disappears overloads none."""
    fabric = Fabric(nodes(3, capacities=limits(2, 9, 9)))
    fabric.service("db", 3)
    fabric.partitions(db0=f"P1 {standing}")
    assert fabric.refresh() == []
    fabric.service("web", 1, stateful=False)
    fabric.partitions(web0="I0")
    assert [action[:13] for action in fabric.refresh(20.0)] == ["web0 move I 0"] * counts


# domains


@every_seed
def test_one_replica_leaves_a_crowded_fault_domain(seed: int) -> None:
    fabric = Fabric(nodes(6, racks="a a b b c c"), seed=seed)
    fabric.service("db")
    fabric.partitions(db0="P0 S1 S2")
    (action,) = fabric.refresh()
    assert action[action.index("move") + 7 :] in {"0>4", "0>5", "1>4", "1>5"}


@pytest.mark.parametrize(
    ("settings", "moves"),
    [
        ({}, 1),
        ({"UpgradeDomainConstraintPriority": -1}, 0),
        ({"UpgradeDomainEnabled": False}, 0),
        ({"ConstraintFixPartialDelayAfterNewNode": 60}, 0),
    ],
    ids=str,
)
def test_spread_is_repaired_while_its_rule_is_on_and_no_node_is_new(settings: dict[str, Any], moves: int) -> None:
    fabric = Fabric(nodes(4, upgrades="aabb"), **settings)
    fabric.service("db")
    fabric.partitions(db0="P0 S1")
    fabric.refresh(1.0)
    fabric.partitions(db0="P0 S1")
    fabric.engine.update_node(Node("new", upgrade_domain="b"), now=20.0)
    assert len(fabric.refresh(30.0)) == moves
    if "ConstraintFixPartialDelayAfterNewNode" in settings:
        assert len(fabric.refresh(100.0)) == 1


@every_seed
def test_domain_without_a_usable_node_asks_for_no_replica(seed: int) -> None:
    """Its nodes are down or blocked for the service, so two domains share three replicas."""
    fabric = Fabric(nodes(6, racks="a a b b c c", up=(True,) * 5 + (False,)), seed=seed)
    fabric.service("db", blocked_nodes={"4"})
    fabric.partitions(db0="P0 S1 S2")
    assert fabric.refresh() == []


# placement, exclusion and nodes


@every_seed
def test_replica_leaves_a_node_that_its_constraint_forbids_but_not_a_blocked_one(seed: int) -> None:
    """A replica on a node of the block list is not movable."""
    fabric = Fabric(nodes(3, properties=({"tier": "1"}, {"tier": "2"}, {"tier": "2"})), seed=seed)
    fabric.service("web", stateful=False, placement_constraint="tier == 2")
    fabric.service("old", stateful=False, blocked_nodes={"0"})
    fabric.partitions(web0="I0", old0="I0")
    assert fabric.refresh() in (["web0 move I 0>1"], ["web0 move I 0>2"])


def test_primary_swaps_to_the_node_that_its_constraint_asks_for() -> None:
    """The secondary is not bound, so nothing has to be copied."""
    fabric = Fabric(nodes(3, properties=({}, {"fast": "yes"}, {"fast": "yes"})))
    fabric.service("db", placement_constraint="^P fast == yes")
    fabric.partitions(db0="P0 S1")
    assert fabric.refresh() == ["db0 swap P 0>1"]


@pytest.mark.parametrize(
    ("status", "moves"), [("safety_check_in_progress", ["web0 move I 0>1"]), ("safety_check_complete", [])]
)
def test_repair_takes_replicas_off_a_restarting_node_before_its_check_has_ended(status: str, moves: list[str]) -> None:
    states = {"deactivation_intent": ("restart", "none"), "deactivation_status": (status, "none")}
    fabric = Fabric(nodes(2, **states))
    fabric.service("web", stateful=False, placement_constraint="NodeName == 1")
    fabric.service("other", stateful=False, placement_constraint="NodeName == 0")
    fabric.partitions(web0="I0", other0="I1")
    assert fabric.refresh() == moves


# affinity


@every_seed
def test_child_follows_its_parent(seed: int) -> None:
    fabric = Fabric(nodes(4), seed=seed)
    fabric.service("db")
    fabric.service("cache", affinity_to="db")
    fabric.partitions(db0="P1 S2", cache0="P0 S2")
    assert fabric.refresh() == ["cache0 move P 0>1"]


@every_seed
def test_aligned_primaries_swap_to_each_other(seed: int) -> None:
    """Not aligned, both partitions are as they should be."""
    for aligned, moves in ((True, ["cache0 swap P 1>0"]), (False, [])):
        fabric = Fabric(nodes(2), seed=seed)
        fabric.service("db")
        fabric.service("cache", affinity_to="db", aligned=aligned)
        fabric.partitions(db0="P0 S1", cache0="P1 S0")
        assert fabric.refresh() == moves


# what gives way


@every_seed
def test_softer_rule_gives_way_to_a_harder_one(seed: int) -> None:
    """The only node with room is in the upgrade domain of the other replica."""
    for priority, moves in ((1, ["web0 move I 0>1"]), (0, [])):
        settings = {"UpgradeDomainConstraintPriority": priority}
        fabric = Fabric(nodes(3, upgrades="abb", capacities=limits(2, 9, 9)), seed=seed, **settings)
        fabric.service("web", 3, stateful=False)
        fabric.partitions(web0="I0 I2")
        assert fabric.refresh() == moves


def test_overloaded_node_may_stay_as_full_as_it_is_but_gets_nothing() -> None:
    """The replica that balancing would bring goes elsewhere."""
    fabric = Fabric(nodes(3, capacities=limits(3, 99, 99)))
    fabric.service("fixed", 5, stateful=False)
    fabric.service("web", 2, stateful=False)
    fabric.partitions(fixed0="I0=")
    fabric.partitions(**{f"web{index}": "I1" for index in range(8)})
    assert {action.rpartition(">")[2] for action in fabric.settled()} == {"2"}
