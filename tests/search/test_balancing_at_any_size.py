"""Balancing with the default settings: useful moves on uneven clusters of any size, and none on even ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plb import Budget, Metric, Node, PartitionColumns, PlacementAndLoadBalancing, PlbConfig, Role, Service
from plb.model.move import Phase

METRICS = ("cpu", "memory")
REPLICAS_A_NODE = 30
NOT_WORTH_A_MOVE = "no moves were found that win twice what they cost (w_imbalance)"
SIZES = (10, 100, 1000, pytest.param(10_000, marks=pytest.mark.slow))


class Cluster:
    """Replicas of very different loads, of which half of the nodes have two thirds."""

    def __init__(self, nodes: int, **settings: object) -> None:
        random = np.random.default_rng(nodes)
        count = nodes * REPLICAS_A_NODE
        self.loads = np.ceil(1000 * random.lognormal(0.0, 0.8, (count, 1)) * random.lognormal(0.0, 0.3, (count, 2)))
        places = np.where(random.random(count) < 2 / 3, 0, nodes // 2) + random.integers(0, nodes // 2, count)
        self.engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric(name) for name in METRICS], **settings))
        self.engine.update_nodes(Node(f"n{node}") for node in range(nodes))
        self.engine.update_service(Service("web", stateful=False))
        names = [f"web/{index}" for index in range(count)]
        columns = PartitionColumns(
            names, service="web", nodes=np.array([f"n{node}" for node in places])[:, None], roles=Role.INSTANCE
        )
        self.rows = self.engine.update_partitions(columns)
        self.engine.report_loads(self.rows, self.loads)

    def report_noise(self, random: np.random.Generator) -> None:
        """Report all loads with an error of five percent."""
        self.engine.report_loads(self.rows, self.loads * random.normal(1.0, 0.05, self.loads.shape).clip(0.5))


@pytest.mark.parametrize("nodes", SIZES)
def test_defaults_even_out_a_cluster_with_few_moves(nodes: int):
    """A fifth of the imbalance is left at most, after moves of at most a fifth of the replicas, each worth it."""
    cluster = Cluster(nodes)
    plan = cluster.engine.balance()
    assert plan.energy_after.imbalance < 0.2 * plan.energy_before.imbalance
    assert 0 < len(plan.moves) < 0.2 * len(cluster.rows)
    assert plan.energy_before.total - plan.energy_after.total >= plan.energy_after.movement


@pytest.mark.parametrize("nodes", SIZES)
def test_balancing_its_own_result_moves_nothing(nodes: int):
    """Neither the engine that made the plan nor one that knows nothing of it finds another move."""
    cluster, fresh = Cluster(nodes), Cluster(nodes)
    plan = cluster.engine.balance()
    for engine in (cluster.engine, fresh.engine):
        engine.apply(plan)
    fresh.engine.seed = 1
    for engine in (cluster.engine, fresh.engine):
        assert not engine.balance().moves


@pytest.mark.parametrize(
    ("nodes", "refreshes"), [(10, 200), (100, 200), (1000, 20), pytest.param(1000, 200, marks=pytest.mark.slow)]
)
def test_noise_moves_hardly_any_replica(nodes: int, refreshes: int):
    """All refreshes of a balanced cluster together move at most a hundredth of its replicas."""
    cluster, random = Cluster(nodes), np.random.default_rng(1)
    cluster.engine.apply(cluster.engine.balance())
    moves = 0
    for number in range(refreshes):
        cluster.report_noise(random)
        plan = cluster.engine.refresh(600.0 * number)
        cluster.engine.apply(plan)
        moves += len(plan.moves)
    assert moves <= 0.01 * len(cluster.rows)


@pytest.mark.parametrize("nodes", [10, 100, 1000])
def test_one_hot_node_is_relieved_in_a_balanced_cluster_of_any_size(nodes: int):
    cluster = Cluster(nodes)
    cluster.engine.apply(cluster.engine.balance())
    is_hot = np.array([cluster.engine.replicas(f"web/{index}")[0].node == "n0" for index in range(len(cluster.rows))])
    loads = np.where(is_hot[:, None], 4 * cluster.loads, cluster.loads)
    cluster.engine.report_loads(cluster.rows, loads)
    before = cluster.engine.node_loads()["n0"]["cpu"]
    plan = cluster.engine.balance()
    cluster.engine.apply(plan)
    assert cluster.engine.node_loads()["n0"]["cpu"] < 0.6 * before
    assert len(plan.moves) < REPLICAS_A_NODE + 0.05 * len(cluster.rows)


def test_plan_without_moves_names_the_setting_that_decides():
    """The replicas are far too light for a move, at this weight."""
    plan = Cluster(10, w_imbalance=0.01).engine.balance()
    assert not plan.moves
    assert plan.end_reason == NOT_WORTH_A_MOVE


@pytest.mark.parametrize("nodes", [10, 100])
def test_larger_weight_makes_smaller_differences_worth_a_move(nodes: int):
    plans = [Cluster(nodes, w_imbalance=weight).engine.balance(budget=60_000) for weight in (1.0, 10.0, 100.0)]
    moves, left = [len(plan.moves) for plan in plans], [plan.energy_after.imbalance for plan in plans]
    assert moves == sorted(moves)
    assert left == sorted(left, reverse=True)


def test_few_moves_that_are_allowed_win_more_than_as_many_others():
    """With a limit the search makes the moves that win most, not the first ones that it finds."""
    limited = Cluster(100, max_moves=60).engine.balance(budget=300_000)
    by_round = Cluster(100, max_moves=60, cooling="by_round").engine.balance(budget=300_000)
    assert len(limited.moves) == len(by_round.moves) == 60
    assert limited.energy_after.imbalance < by_round.energy_after.imbalance


@pytest.mark.parametrize("settings", [{}, {"max_moves": 3}, {"w_imbalance": 0.01}], ids=str)
@pytest.mark.parametrize("budget", [Budget(2**40), Budget(seconds=1e6)], ids=["proposals", "seconds"])
def test_search_by_price_ends_however_large_its_budget_is(budget: Budget, settings: dict[str, Any]):
    """Its plan is about as good as that of 100,000 proposals, or better."""
    plan = Cluster(2, **settings).engine.balance(budget=budget)
    assert plan.end_reason in ("the energy no longer changes", NOT_WORTH_A_MOVE)
    assert plan.proposals.generated < 20_000_000
    assert plan.energy_after.total <= 1.05 * Cluster(2, **settings).engine.balance(budget=100_000).energy_after.total


@pytest.mark.parametrize("budget", [100, 3_000, 30_000, 300_000])
def test_priced_search_keeps_to_its_budget_and_is_reproducible(budget: int):
    first, second = (Cluster(10).engine.balance(budget=budget) for _ in range(2))
    assert first.proposals.generated <= budget
    assert first == second
    assert {move.reason.phase for move in first.moves} <= {Phase.BALANCING}
