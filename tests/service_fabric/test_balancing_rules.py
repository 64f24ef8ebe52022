"""When balancing runs under the rules of Service Fabric, what it moves, and what holds it back."""

from __future__ import annotations

from typing import Any

import pytest

from plb import Node
from tests.service_fabric.small import Fabric, nodes

every_seed = pytest.mark.parametrize("seed", range(3))


# thresholds


@pytest.mark.parametrize(
    ("loads", "settings", "balances"),
    [
        ((3, 4), {}, False),  # one more is no imbalance
        ((3, 5), {}, True),
        ((30, 50), {"MetricBalancingThresholds": {"load": 2}}, False),
        ((20, 50), {"MetricBalancingThresholds": {"load": 2}}, True),
        ((0, 50), {"MetricBalancingThresholds": {"load": 2}}, True),  # no ratio to an empty node
        ((20, 50), {"MetricBalancingThresholds": {"load": 0}}, False),  # never
        ((20, 50), {"MetricActivityThresholds": {"load": 50}}, False),
        ((20, 50), {"MetricActivityThresholds": {"load": 49}}, True),
    ],
    ids=str,
)
def test_metric_asks_for_balance_by_difference_ratio_and_activity(
    loads: tuple[float, float], settings: dict[str, Any], *, balances: bool
) -> None:
    """The activity is the load of the fullest node."""
    fabric = Fabric(nodes(2), **settings)
    for name, node, load in zip(("low", "high"), "01", loads, strict=True):
        fabric.service(name, load, stateful=False)
        fabric.partition(f"{name}0", f"I{node}")
    fabric.refresh()
    assert fabric.last_actions() == {"LoadBalancing" if balances else "NoActionNeeded"}


def test_metric_without_weight_asks_for_no_balance() -> None:
    """Its weight is that of its services, unless the cluster sets one."""
    for settings, actions in (({}, 0), ({"GlobalMetricWeights": {"load": 1}}, 1)):
        fabric = Fabric(nodes(2), **settings)
        fabric.service("web", 2, stateful=False, metrics={"load": 0})
        fabric.partitions(web0="I0", web1="I0")
        assert len(fabric.refresh()) == actions


@pytest.mark.parametrize("out", [{"up": False}, {"deactivation_intent": "restart"}], ids=str)
def test_nodes_out_of_service_do_not_count(out: dict[str, Any]) -> None:
    """The empty node is no imbalance while it is down or deactivated, and no target."""
    fabric = Fabric(nodes(2))
    fabric.service("web", stateful=False)
    fabric.partitions(web0="I0", web1="I0", web2="I1", web3="I1")
    fabric.engine.update_node(Node("2", **out), now=0.0)
    assert fabric.refresh() == []
    fabric.engine.update_node(Node("2"), now=20.0)
    assert [action.rpartition(">")[2] for action in fabric.refresh(40.0)] == ["2"]


def test_nodes_that_no_service_with_the_metric_may_use_do_not_count() -> None:
    """As soon as one may use it, the empty node counts."""
    fabric = Fabric(nodes(3))
    fabric.service("web", 2, stateful=False, placement_constraint="NodeName != 2")
    fabric.partitions(web0="I0", web1="I1")
    fabric.refresh()
    assert fabric.last_actions() == {"NoActionNeeded"}
    fabric.service("web", 2, stateful=False)
    fabric.refresh(20.0)
    assert fabric.last_actions() == {"LoadBalancing"}


# what moves


@every_seed
def test_balancing_makes_no_more_moves_than_it_needs(seed: int) -> None:
    fabric = Fabric(nodes(2), seed=seed)
    fabric.service("web", 3, stateful=False)
    fabric.partitions(**{f"web{index}": "I0" for index in range(4)})
    assert [action.split(" ", 1)[1] for action in fabric.refresh()] == ["move I 0>1"] * 2


@every_seed
def test_swap_of_roles_balances_where_primaries_have_more_load(seed: int) -> None:
    fabric = Fabric(nodes(2), seed=seed)
    fabric.service("db", (5, 1))
    fabric.partitions(db0="P0 S1", db1="P0 S1")
    (action,) = fabric.refresh()
    assert action.endswith("swap P 0>1")


@every_seed
def test_cheap_replicas_move_before_expensive_ones_if_costs_count(seed: int) -> None:
    """A report of the host replaces the default of the service."""
    fabric = Fabric(nodes(2), seed=seed, UseMoveCostReports=True)
    fabric.service("dear", 4, stateful=False, move_cost="high")
    fabric.service("cheap", 4, stateful=False, move_cost="low")
    fabric.partitions(dear0="I0", cheap0="I0")
    assert fabric.refresh() == ["cheap0 move I 0>1"]
    fabric.partitions(dear0="I0", cheap0="I0")
    fabric.engine.report_move_cost("cheap0", "instance", "high")
    fabric.engine.report_move_cost("dear0", "instance", "zero")
    assert fabric.refresh(20.0) == ["dear0 move I 0>1"]


def test_parent_that_moves_takes_its_child_along() -> None:
    """The child has no load, so nothing else asks for its move."""
    fabric = Fabric(nodes(2))
    fabric.service("db", 4)
    fabric.service("cache", 0, affinity_to="db")
    fabric.service("web", 4, stateful=False)
    fabric.partitions(db0="P0", cache0="P0", web0="I0=")
    assert fabric.refresh() == ["cache0 move P 0>1", "db0 move P 0>1"]


@pytest.mark.parametrize(("threshold", "actions"), [(0.0, 1), (1e9, 0)])
def test_result_has_to_improve_by_the_threshold(threshold: float, actions: int) -> None:
    fabric = Fabric(nodes(2), ScoreImprovementThreshold=threshold)
    fabric.service("web", 2, stateful=False)
    fabric.partitions(web0="I0", web1="I0")
    assert len(fabric.refresh()) == actions


# how much moves, and when


def crowd(count: int = 10, **settings: Any) -> Fabric:
    """Return a node with many instances beside four empty nodes."""
    fabric = Fabric(nodes(5), **settings)
    fabric.service("web", stateful=False)
    fabric.partitions(**{f"web{index}": "I0" for index in range(count)})
    return fabric


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"MaxPercentageToMove": 0.25}, 3),
        ({"MaxPercentageToMove": 0.0}, 0),
        ({"GlobalMovementThrottleThreshold": 4}, 4),
        ({"GlobalMovementThrottleThresholdForBalancing": 2}, 2),
        ({"GlobalMovementThrottleThresholdPercentage": 0.5}, 5),
        ({"GlobalMovementThrottleThreshold": 0}, 8),
    ],
    ids=str,
)
def test_refresh_moves_no_more_than_the_limits_allow(settings: dict[str, float], most: int) -> None:
    """Eight of ten are to move; a share is rounded up, and a limit of 0 means none."""
    assert len(crowd(**settings).refresh()) == most


def test_moves_of_the_last_interval_count_for_the_limit() -> None:
    limit = {"GlobalMovementThrottleThreshold": 3, "GlobalMovementThrottleCountingInterval": 100}
    fabric = crowd(**limit)
    moved = []
    for at in (10.0, 50.0, 105.0, 150.0):
        moved.append(len(fabric.refresh(at)))
        fabric.engine.apply(fabric.plan)
    assert moved == [3, 0, 0, 3]


def test_partition_that_moved_too_often_rests() -> None:
    """Its replica comes back by the hand of the host, and only after the interval it moves again."""
    limit = {"MovementPerPartitionThrottleThreshold": 2, "MovementPerPartitionThrottleCountingInterval": 100}
    fabric = Fabric(nodes(2), **limit)
    fabric.service("web", 2, stateful=False)
    fabric.service("fixed", 2, stateful=False)
    fabric.partitions(fixed0="I0=")
    moved = []
    for at in (10.0, 30.0, 50.0, 140.0):
        fabric.partitions(web0="I0")
        moved.append(len(fabric.refresh(at)))
    assert moved == [1, 1, 0, 1]


@pytest.mark.parametrize("event", ["new node", "node down"])
def test_balancing_waits_after_a_change_of_the_nodes(event: str) -> None:
    fabric = Fabric(nodes(4), BalancingDelayAfterNewNode=50, BalancingDelayAfterNodeDown=50)
    fabric.service("web", stateful=False)
    fabric.partitions(web0="I0", web1="I0", web2="I0")
    changed = Node("new") if event == "new node" else Node("3", up=False)
    fabric.engine.update_node(changed, now=100.0)
    assert fabric.refresh(149.0) == []
    assert fabric.refresh(151.0) != []


def test_domain_waits_for_its_issued_moves() -> None:
    """They are over when their partitions are described, or after their longest time."""
    fabric = crowd(3, MaxMovementExecutionTime=30)
    assert fabric.refresh(10.0)
    assert fabric.refresh(39.0) == []
    assert fabric.refresh(41.0)
    fabric.partitions(web0="I0", web1="I0", web2="I0")
    assert fabric.refresh(42.0)


def test_balancing_that_found_nothing_waits_for_a_change() -> None:
    fabric = Fabric(nodes(2))
    fabric.service("web", 5, stateful=False)
    fabric.partitions(web0="I0")
    assert fabric.refresh() == []
    assert fabric.last_actions() == {"LoadBalancing"}
    fabric.refresh(20.0)
    fabric.refresh(40.0)
    assert fabric.last_actions() == {"NoActionNeeded"}
    fabric.engine.report_load("web0", "0", {"load": 6})
    fabric.refresh(60.0)
    assert fabric.last_actions() == {"LoadBalancing"}


# domains, metrics and loads


def test_services_without_a_common_metric_are_balanced_apart() -> None:
    fabric = Fabric(nodes(2), "load", "disk")
    fabric.service("web", 3, stateful=False)
    fabric.service("log", 3, "disk", stateful=False)
    fabric.partitions(web0="I0", web1="I0", log0="I1", log1="I0")
    assert [action[:3] for action in fabric.refresh()] == ["web"]
    assert fabric.last_actions() == {"LoadBalancing", "NoActionNeeded"}


@pytest.mark.parametrize(
    ("fields", "most_nodes", "domains"),
    [
        ({}, None, 2),
        ({"affinity_to": "db"}, None, 1),
        ({"metrics": {"load": 1, "disk": 1}}, None, 1),
        ({"application": "shop"}, None, 2),
        ({"application": "shop"}, 2, 1),
    ],
    ids=str,
)
def test_metric_affinity_and_application_with_limits_join_domains(
    fields: dict[str, Any], most_nodes: int | None, domains: int
) -> None:
    fabric = Fabric(nodes(2), "load", "disk")
    fabric.application("shop", most_nodes=most_nodes)
    fabric.service("db", application="shop")
    fabric.service("cache", 1, "disk", **fields)
    assert len(fabric.engine.service_domains()) == domains


def test_new_secondary_has_the_mean_of_those_reported_node_by_node() -> None:
    fabric = Fabric(nodes(4))
    fabric.service("db", (9, 1))
    fabric.partitions(1, db0="P0 S1 S2")
    fabric.engine.report_secondary_loads("db0", {"1": {"load": 4}, "2": {"load": 7}})
    assert fabric.engine.expected_load("db0", "secondary") == {"load": 6}
    fabric.engine.reset_load("db0")
    assert fabric.engine.expected_load("db0", "secondary") == {"load": 1}
