"""Balancing that avoids violations: where a node is at risk, few moves, each of which is worth its cost."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    ConflictError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    Plan,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.energy.soft_violations import ROOT, SOFT_MARGIN, soft_count
from plb.testing import configuration_of

pytestmark = pytest.mark.kernels

CAPACITY, SLOTS = 20.0, 6
THRESHOLD = 19.0
"""0.95 of the capacity."""
BY_HOUR = f"historical-simulation:slots={SLOTS},horizon=1"


class Past(NamedTuple):
    """What single replicas have demanded in each of `SLOTS` hours, and their nodes."""

    loads: list[list[int]]
    nodes: list[int]
    count: int
    """Number of nodes."""


def engine_of(past: Past, hours: int = SLOTS, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine that has seen the first hours of a past, and balances to avoid violations alone."""
    metric = Metric("cpu", quantum=1.0, balancing_threshold=0.0)
    config = PlbConfig(
        **{"metrics": [metric], "estimator": BY_HOUR, "violation_cost": 1.0, "checks": "phase", **settings}
    )
    engine = PlacementAndLoadBalancing(config)
    for node in range(past.count):
        engine.update_node(Node(f"n{node}", capacities={"cpu": CAPACITY}))
    engine.update_service(Service("web", stateful=False, target_replicas=1))
    for number, node in enumerate(past.nodes):
        engine.update_partition(Partition(f"p{number}", service="web", replicas=[Replica(Role.INSTANCE, f"n{node}")]))
    rows = [engine.replicas(f"p{number}")[0].index for number in range(len(past.nodes))]
    for hour in range(hours):
        engine.report_loads(rows, [[loads[hour]] for loads in past.loads], at=3600.0 * hour)
    return engine


def cost_by_hand(past: Past, nodes: list[int], cost: float = 1.0, days: float = 7.0) -> float:
    """Return what expected violations and moves cost if the replicas of a past are on `nodes`."""
    loads = np.array(past.loads)
    near = (1.0 - SOFT_MARGIN) * THRESHOLD
    violations = 0.0
    for node in range(past.count):
        total = loads[np.array(nodes) == node].sum(axis=0)
        violations += (np.maximum(0.0, (total - np.floor(near)) / (THRESHOLD - np.floor(near))) ** 2).mean()
    return cost * days * 24.0 * violations + sum(a != b for a, b in zip(nodes, past.nodes, strict=True))


def nodes_after(past: Past, plan: Plan) -> list[int]:
    """Return the nodes of the replicas after a plan."""
    nodes = list(past.nodes)
    for move in plan.moves:
        assert move.target is not None
        nodes[int(move.partition[1:])] = int(move.target[1:])
    return nodes


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Draw a cluster in which no node is above its limit now, so that nothing has to be repaired."""
    count = draw(st.integers(2, 4))
    replicas = draw(st.integers(1, 7))
    hour = st.integers(0, 12)
    loads = [[*draw(st.lists(hour, min_size=SLOTS - 1, max_size=SLOTS - 1)), 1] for _ in range(replicas)]
    return Past(loads, [draw(st.integers(0, count - 1)) for _ in range(replicas)], count)


TOGETHER = Past([[10, 10, 1, 1, 1, 1], [9, 10, 1, 1, 1, 1], [1, 1, 9, 9, 1, 1], [1, 1, 9, 9, 1, 1]], [0, 0, 1, 1], 2)
"""Two replicas that are busy together, and two that are later."""


def test_replicas_that_are_busy_together_are_parted() -> None:
    plan = engine_of(TOGETHER).balance()
    nodes = nodes_after(TOGETHER, plan)
    assert nodes[0] != nodes[1]
    assert nodes[2] != nodes[3]
    assert len(plan.moves) == 2


def test_the_reason_names_node_metric_and_moments_with_and_without_the_replica() -> None:
    past = Past([[10, 10, 1, 1, 1, 1], [9, 10, 1, 1, 1, 1]], [0, 0], 2)
    (move,) = engine_of(past).balance().moves
    assert str(move.reason) == (
        "node n0 would reach its threshold for cpu in 2 of 6 moments (at most 105 % of it); "
        "without the replica in 0 (at most 53 % of it)"
    )


@given(past=pasts(), cost=st.sampled_from([0.01, 0.1, 1.0]), days=st.sampled_from([0.5, 7.0]))
def test_a_plan_avoids_more_than_it_costs_and_misses_no_single_move_that_does(
    past: Past, cost: float, days: float
) -> None:
    engine = engine_of(past, violation_cost=cost, placement_days=days, max_percentage_to_move=1.0)
    plan = engine.balance()
    nodes = nodes_after(past, plan)
    before, after = cost_by_hand(past, past.nodes, cost, days), cost_by_hand(past, nodes, cost, days)
    assert after < before if plan.moves else after == before
    presently = np.array(past.loads)[:, -1]
    for replica, node in product(range(len(nodes)), range(past.count)):
        other = [*nodes[:replica], node, *nodes[replica + 1 :]]
        if presently[np.array(other) == node].sum() < THRESHOLD:
            assert cost_by_hand(past, other, cost, days) >= after - 0.01 - 0.01 * before  # units are rounded down


@given(past=pasts())
def test_violations_are_counted_as_by_hand(past: Past) -> None:
    engine = engine_of(past)
    engine.place()
    configuration = configuration_of(engine)
    count = soft_count(configuration.problem, configuration.solution, engine.config)
    by_hand = cost_by_hand(past, past.nodes) / (7.0 * 24.0) * SLOTS
    assert count.violations.sum() / ROOT**2 == pytest.approx(by_hand, rel=0.02, abs=0.02)


@given(past=pasts(), most=st.integers(0, 2))
def test_a_limit_of_moves_holds(past: Past, most: int) -> None:
    assert len(engine_of(past, max_moves=most).balance().moves) <= most


def test_without_a_cost_of_violations_risk_starts_no_balancing() -> None:
    assert not engine_of(TOGETHER, violation_cost=None).balance().moves


def test_a_violation_that_costs_less_than_a_move_is_accepted() -> None:
    assert not engine_of(TOGETHER, violation_cost=0.01, placement_days=1.0).balance().moves


def test_a_refresh_of_one_action_relieves_the_node_as_well() -> None:
    engine = engine_of(TOGETHER, one_action_per_refresh=True)
    assert len(engine.refresh(3600.0 * SLOTS).moves) == 2


def test_a_relieved_cluster_is_left_alone() -> None:
    engine = engine_of(TOGETHER)
    engine.apply(engine.balance())
    assert not engine.balance().moves


@pytest.mark.parametrize("estimator", ["gaussian:warmup=2,history=6", "n-sigma:warmup=2,history=6"])
def test_estimators_without_moments_start_balancing_too(estimator: str) -> None:
    past = Past([[9, 11, 9, 11, 9, 9], [9, 11, 9, 11, 9, 9], [1] * 6], [0, 0, 1], 2)
    (move,) = engine_of(past, estimator=estimator).balance().moves
    assert str(move.reason).startswith("node n0 expects a violation with probability")


def test_preferred_locations_are_no_obstacle_as_in_other_balancing() -> None:
    assert len(engine_of(TOGETHER, preferred_location_constraint_priority=2).balance().moves) == 2


def test_a_parent_stays_where_its_children_would_have_to_follow() -> None:
    past = Past([[12, 1, 1, 1, 1, 1], [12, 1, 1, 1, 1, 1], [1] * 6], [0, 0, 1], 3)
    engine = engine_of(past)
    engine.update_service(Service("parent", stateful=False, target_replicas=1))
    engine.update_service(Service("child", stateful=False, target_replicas=1, affinity_to="parent"))
    for name in ("parent", "child"):
        engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, "n2")]))
    rows = [engine.replicas(name)[0].index for name in ("parent", "child")]
    for hour in range(SLOTS, 2 * SLOTS):
        engine.report_loads(rows, [[12.0], [12.0]] if hour < 2 * SLOTS - 1 else [[1.0], [1.0]], at=3600.0 * hour)
    moved = [move.partition for _ in range(4) for move in applied(engine).moves]
    assert not {"parent", "child"} & {*moved}


def applied(engine: PlacementAndLoadBalancing) -> Plan:
    """Balance, and apply the plan."""
    plan = engine.balance()
    engine.apply(plan)
    return plan


def test_a_relief_that_a_limit_cuts_goes_on_in_the_next_plan() -> None:
    past = Past([[3, 3, 3, 0, 0, 0]] * 20, [0] * 20, 6)
    engine = engine_of(past, max_percentage_to_move=0.1)
    assert [len(applied(engine).moves) for _ in range(3)] == [2, 2, 2]


def test_balancing_by_thresholds_does_not_undo_a_relief() -> None:
    metric = Metric("cpu", quantum=1.0)
    past = Past([[9, 1, 9, 1, 9, 6], [9, 1, 9, 1, 9, 1], [1, 9, 1, 9, 1, 6], [1, 9, 1, 9, 1, 1]], [0, 0, 1, 1], 2)
    engine = engine_of(past, metrics=[metric], w_failovers=0.0, w_overload=0.0)
    for _ in range(4):
        last = applied(engine)
    assert not last.moves


def test_a_budget_ends_a_relief() -> None:
    plan = engine_of(TOGETHER).balance(budget=1)
    assert plan.proposals.generated == 1


def test_reports_of_one_moment_may_come_one_by_one() -> None:
    together, apart = engine_of(TOGETHER), engine_of(TOGETHER, hours=0)
    for hour in range(SLOTS):
        for number, loads in enumerate(TOGETHER.loads):
            row = apart.replicas(f"p{number}")[0].index
            apart.report_loads([row], [[loads[hour]]], at=3600.0 * hour)
    assert [str(move) for move in apart.balance().moves] == [str(move) for move in together.balance().moves]


@pytest.mark.parametrize("settings", [{"policy": "first_fit"}, {"extension_constraints": ["off_last_node"]}])
def test_what_the_search_does_not_know_and_a_cost_of_violations_are_refused_together(settings: dict[str, Any]) -> None:
    with pytest.raises(ConflictError, match="violation_cost"):
        attrs.evolve(engine_of(TOGETHER).config, **settings)
