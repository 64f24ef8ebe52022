"""New and surplus replicas under the rules of Service Fabric, in clusters of a few nodes."""

from __future__ import annotations

from typing import Any

import pytest

from plb import Node
from tests.service_fabric.small import Fabric, limits, nodes, targets

every_seed = pytest.mark.parametrize("seed", range(3))


# roles and nodes


@pytest.mark.parametrize(
    ("present", "added"),
    [("", ["P", "S"]), ("P0", ["S", "S"]), ("P0~", ["S", "S"]), ("P0!", ["P", "S"]), ("S0", ["P", "S"])],
)
def test_first_missing_replica_is_the_primary_if_there_is_none(present: str, added: list[str]) -> None:
    """A primary that moves away is still the primary; one that is to be dropped is not."""
    fabric = Fabric(nodes(3))
    fabric.service("db")
    fabric.partition("db0", present, missing=2)
    assert sorted(action.split()[2] for action in fabric.refresh()) == added


@pytest.mark.parametrize(
    ("fields", "takes"),
    [
        ({"up": False}, False),
        ({"deactivation_intent": "remove_node"}, False),
        ({"deactivation_intent": "remove_data", "deactivation_status": "safety_check_in_progress"}, False),
        ({"deactivation_intent": "pause", "deactivation_status": "safety_check_complete"}, False),
        ({"deactivation_intent": "pause", "deactivation_status": "safety_check_in_progress"}, True),
        ({"deactivation_intent": "restart", "deactivation_status": "safety_check_in_progress"}, True),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_node_takes_new_replicas_until_its_safety_check_has_ended(fields: dict[str, Any], *, takes: bool) -> None:
    """A node that is down or to be removed takes none. A service of one replica waits for a node in service."""
    fabric = Fabric(nodes(1, **fields))
    fabric.service("web", stateful=False)
    fabric.service("one", stateful=False, target_replicas=1)
    fabric.partitions(1, web0="", one0="")
    assert fabric.refresh() == (["web0 add I >0"] if takes else [])


def test_service_on_every_node_fills_all_nodes_and_leaves_the_blocked_ones() -> None:
    """The difference that the host gives does not matter. A node that is down or blocked gets no instance."""
    fabric = Fabric(nodes(5, up=(True, True, True, True, False)))
    fabric.service("agent", stateful=False, on_every_node=True, blocked_nodes={"3"})
    fabric.partition("agent0", "I0", missing=None)
    assert fabric.settled() == ["agent0 add I >1", "agent0 add I >2"]
    fabric.service("agent", stateful=False, on_every_node=True, blocked_nodes={"3", "1"})
    assert fabric.settled(at=500.0) == ["agent0 drop I 1>"]


# placement constraints and block lists


@every_seed
def test_new_replicas_keep_off_the_block_list(seed: int) -> None:
    fabric = Fabric(nodes(4), seed=seed)
    fabric.service("web", stateful=False, blocked_nodes={"0", "1"})
    fabric.partitions(3, web0="")
    assert targets(fabric.refresh()) == ["2", "3"]
    fabric.service("web", stateful=False, blocked_nodes={"2", "3"})
    assert targets(fabric.refresh(20.0)) == ["0", "1"]


@every_seed
def test_constraint_of_the_primary_leaves_secondaries_free(seed: int) -> None:
    fabric = Fabric(nodes(3, properties=({"zone": "a"}, {"zone": "b"}, {"zone": "b"})), seed=seed)
    fabric.service("db", placement_constraint="^P zone == a")
    fabric.service("all", placement_constraint="zone == a")
    fabric.partitions(3, db0="", all0="")
    assert fabric.refresh() == ["all0 add P >0", "db0 add P >0", "db0 add S >1", "db0 add S >2"]


# fault and upgrade domains


@pytest.mark.parametrize(("policy", "placed"), [("", []), ("FDPolicy ~ Ignore", ["db0 add S >1"])])
def test_fault_domains_are_hard_unless_the_service_ignores_them(policy: str, placed: list[str]) -> None:
    fabric = Fabric(nodes(3, racks="a a b", capacities=limits(9, 9, 0)))
    fabric.service("db", placement_constraint=policy)
    fabric.partitions(1, db0="P0")
    assert fabric.settled(2) == placed


@pytest.mark.parametrize(("settings", "placed"), [({}, ["db0 add S >1"]), ({"UpgradeDomainConstraintPriority": 0}, [])])
def test_upgrade_domains_give_way_if_no_other_node_is_left(settings: dict[str, int], placed: list[str]) -> None:
    """They are soft by default; a hard rule does not give way."""
    fabric = Fabric(nodes(3, upgrades="aab", capacities=limits(9, 9, 0)), **settings)
    fabric.service("db")
    fabric.partitions(1, db0="P0")
    assert fabric.settled(2) == placed


@pytest.mark.parametrize(("quorum", "allowed"), [(False, ["2", "3"]), (True, ["1"])])
def test_quorum_rule_lets_a_domain_have_all_but_a_quorum(quorum: bool, allowed: list[str]) -> None:
    """Of five replicas two may share a domain, even while another domain has fewer."""
    fabric = Fabric(nodes(4, racks="a a b c"), QuorumBasedReplicaDistributionPerFaultDomains=quorum)
    fabric.service("db", target_replicas=5)
    fabric.service("web", 9, stateful=False)
    fabric.partitions(web0="I2", web1="I3")
    fabric.partitions(1, db0="P0")
    (target,) = targets(fabric.refresh())
    assert target in allowed


def test_standby_gives_its_share_to_the_replica_that_takes_its_place() -> None:
    """Only the difference to the load of the standby has to fit."""
    fabric = Fabric(nodes(3, capacities=limits(9, 5, 3)))
    fabric.service("db", 4)
    fabric.service("web", 1, stateful=False)
    fabric.partitions(1, db0="P0 B1")
    fabric.partitions(web0="I1")
    assert fabric.refresh() == ["db0 add S >1"]


# capacity


@pytest.mark.parametrize("partially", [True, False])
def test_partition_is_placed_wholly_or_not_at_all_if_the_setting_asks(*, partially: bool) -> None:
    fabric = Fabric(nodes(3, capacities=limits(5, 5, 1)), PartiallyPlaceServices=partially)
    fabric.service("db", 3)
    fabric.partitions(3, db0="")
    assert len(fabric.refresh()) == (2 if partially else 0)


@pytest.mark.parametrize(
    ("settings", "makes_room"),
    [({}, True), ({"MoveExistingReplicaForPlacement": False}, False), ({"PreventTransientOvercommit": True}, False)],
    ids=str,
)
def test_replicas_make_room_for_a_new_one_at_the_second_try(settings: dict[str, bool], *, makes_room: bool) -> None:
    """Only if existing replicas may move for it, and if the load that leaves does not count any more."""
    fabric = Fabric(nodes(2, capacities=limits(6, 6)), **settings)
    fabric.service("small", 2, stateful=False)
    fabric.service("big", 6, stateful=False)
    fabric.partitions(small0="I0", small1="I1")
    fabric.partitions(1, big0="")
    assert fabric.refresh() == []
    either = [["big0 add I >0", "small0 move I 0>1"], ["big0 add I >1", "small1 move I 1>0"]]
    assert fabric.refresh(20.0) in (either if makes_room else [[]])


def test_tries_with_and_without_moves_alternate_until_something_changes() -> None:
    """Each has as many tries as the setting says; a change starts with the first again."""
    fabric = Fabric(nodes(2, capacities=limits(6, 6)), PLBActionRetryTimes=2)
    fabric.service("big", 7, stateful=False)
    fabric.partitions(1, big0="")
    actions = []
    for turn in range(5):
        fabric.refresh(20.0 * turn)
        actions += fabric.last_actions()
    assert [action.endswith("WithMove") for action in actions] == [False, False, True, True, False]
    fabric.refresh(100.0)
    fabric.refresh(120.0)
    assert fabric.last_actions() == {"NewReplicaPlacementWithMove"}
    fabric.engine.update_node(Node("2", capacities={"load": 5}), now=130.0)
    fabric.refresh(140.0)
    assert fabric.last_actions() == {"NewReplicaPlacement"}


@pytest.mark.parametrize(("load", "moves"), [(5, ["app0 move I 0>1"]), (6, [])])
def test_node_buffer_is_for_new_replicas_only(load: float, moves: list[str]) -> None:
    """Of ten, seven are for moves. A new replica of four still fits on top of six."""
    fabric = Fabric(nodes(2, capacities=limits(10, 10)), NodeBufferPercentage={"load": 0.3})
    fabric.service("web", load, stateful=False)
    fabric.service("app", 2, stateful=False, placement_constraint="NodeName == 1")
    fabric.service("new", 4, stateful=False, blocked_nodes={"0"})
    fabric.partitions(web0="I1=", app0="I0")
    assert fabric.refresh() == moves
    fabric.partitions(1, new0="")
    assert fabric.refresh(20.0) == ["new0 add I >1"]


# affinity


@every_seed
def test_child_goes_to_a_node_of_its_parent(seed: int) -> None:
    """Aligned primaries go together; a child that is not aligned uses any node of its parent."""
    fabric = Fabric(nodes(5), seed=seed)
    fabric.service("db")
    fabric.service("cache", affinity_to="db")
    fabric.service("log", affinity_to="db", aligned=False)
    fabric.partitions(db0="P1 S2 S4")
    fabric.partitions(3, cache0="")
    fabric.partitions(2, log0="")
    actions = fabric.refresh()
    assert actions[:3] == ["cache0 add P >1", "cache0 add S >2", "cache0 add S >4"]
    assert len(actions) == 5
    assert set(targets(actions)) == {"1", "2", "4"}


@pytest.mark.parametrize(("setting", "placed"), [(True, 1), (False, 0)])
def test_child_without_a_parent_is_placed_if_the_setting_allows(setting: bool, placed: int) -> None:
    fabric = Fabric(nodes(2), PlaceChildWithoutParent=setting)
    fabric.service("db")
    fabric.service("cache", affinity_to="db")
    fabric.partitions(1, cache0="")
    assert len(fabric.refresh()) == placed


@pytest.mark.parametrize(("setting", "target"), [(True, ["1", "2"]), (False, ["1"])])
def test_larger_child_uses_further_nodes_once_every_parent_has_a_child(setting: bool, target: list[str]) -> None:
    fabric = Fabric(nodes(3), AllowHigherChildTargetReplicaCountForAffinity=setting)
    fabric.service("db", target_replicas=2)
    fabric.service("cache", target_replicas=3, affinity_to="db")
    fabric.partitions(db0="P0 S1")
    fabric.partitions(2, cache0="P0")
    assert targets(fabric.refresh()) == target


# surplus replicas


@every_seed
def test_surplus_leaves_the_primary_and_what_is_dropped_already(seed: int) -> None:
    """A mark to be dropped does not reduce the surplus either."""
    fabric = Fabric(nodes(4), seed=seed)
    fabric.service("db")
    fabric.partitions(-1, db0="P0 S1! S2")
    assert fabric.refresh() == ["db0 drop S 2>"]
    fabric.partitions(-3, db0="P0 S1! S2")
    assert fabric.refresh(20.0) == ["db0 drop S 2>"]


@every_seed
def test_replicas_that_move_go_before_blocked_ones_before_others(seed: int) -> None:
    for surplus, dropped in ((1, "2"), (2, "23"), (3, "123")):
        fabric = Fabric(nodes(4), seed=seed)
        fabric.service("web", stateful=False, blocked_nodes={"3"})
        fabric.service("heavy", 5, stateful=False)
        fabric.partitions(heavy0="I1")
        fabric.partitions(-surplus, web0="I0 I1 I2~ I3")
        assert "".join(action.split()[3][0] for action in fabric.refresh()) == dropped


@every_seed
def test_surplus_leaves_the_fullest_fault_domain(seed: int) -> None:
    """Its nodes have less load than the others."""
    fabric = Fabric(nodes(4, racks="a a b c"), seed=seed)
    fabric.service("web", stateful=False)
    fabric.service("heavy", 5, stateful=False)
    fabric.partitions(heavy0="I2", heavy1="I3")
    fabric.partitions(-1, web0="I0 I1 I2 I3")
    assert fabric.refresh() in (["web0 drop I 0>"], ["web0 drop I 1>"])


# standbys and throttles


@every_seed
def test_new_replica_returns_to_the_standby_of_its_partition(seed: int) -> None:
    """It needs no copy there; without the rule, the emptiest node is best."""
    fabric = Fabric(nodes(4), seed=seed)
    fabric.service("db", 3)
    fabric.service("web", 9, stateful=False)
    fabric.partitions(web0="I2")
    fabric.partitions(1, db0="P0 B2")
    assert fabric.refresh() == ["db0 add S >2"]
    free = Fabric(nodes(4), seed=seed, PreferredLocationConstraintPriority=-1)
    free.service("db", 3)
    free.service("web", 9, stateful=False)
    free.partitions(web0="I2")
    free.partitions(1, db0="P0 B2")
    assert free.refresh() != ["db0 add S >2"]
