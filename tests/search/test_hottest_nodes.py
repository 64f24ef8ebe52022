"""The hottest nodes are relieved where few replicas may move."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, PartitionColumns, PlacementAndLoadBalancing, PlbConfig, Role, Service
from plb.compiler import Stream
from plb.energy.terms import present_energy
from plb.evaluation.delta import compare_with_scratch
from plb.planning.rule_priorities import rule_masks
from plb.search import hottest_nodes
from plb.search.budget import Budget
from plb.search.hottest_nodes import Relief, hot_nodes, relieve
from plb.search.result import new_tally
from plb.testing import busy_clusters, configuration_of
from tests.engine.strategies import examples

NODES, REPLICAS = 40, 1200
CAPACITY = 40.0


def utilisations(problem, solution):
    """Return the highest utilisation of each node in service, from the loads of the rows that do not leave."""
    loads = np.zeros((len(problem.limit), problem.load.shape[1]))
    stays = (solution.node >= 0) & ~problem.leaving
    np.add.at(loads, solution.node[stays], problem.load[:-1][stays])
    return (loads * problem.inverse_capacity)[problem.counted].max(axis=1, initial=0.0)


@examples(100)
@given(busy_clusters(), st.integers(1, 5), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_relief_lowers_the_energy_heats_nothing_and_keeps_to_its_limit(cluster, moves, most, seed):
    """No node above the level gets hotter, and nothing gets hotter than the hottest node was."""
    engine = cluster.engine()
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    energy, hottest = present_energy(problem, solution), utilisations(problem, solution).max(initial=0.0)
    hot = hot_nodes(problem, solution, movable, Relief(moves, 50 * moves))
    mask = rule_masks(engine.config)[0]
    relieve(problem, solution, mask, most, hot, Stream(np.random.SeedSequence(seed)), new_tally())
    assert solution.totals.displaced <= most
    assert present_energy(problem, solution) <= energy
    assert utilisations(problem, solution).max(initial=0.0) <= hottest
    compare_with_scratch(problem, solution, "relief")


class Cluster:
    """Nodes with loads in two metrics that have nothing to do with each other."""

    def __init__(self, seed: int, **settings: object) -> None:
        random = np.random.default_rng(seed)
        metrics = [Metric(name) for name in ("cpu", "memory")]
        config = PlbConfig(metrics=metrics, ignore_cost_in_scoring=True, **settings)
        self.engine = PlacementAndLoadBalancing(config, seed=seed)
        self.engine.update_nodes(
            Node(f"n{node}", capacities={"cpu": CAPACITY, "memory": CAPACITY}) for node in range(NODES)
        )
        self.engine.update_service(Service("web", stateful=False))
        nodes = np.array([f"n{node}" for node in random.integers(0, NODES, REPLICAS)])[:, None]
        columns = PartitionColumns([*map(str, range(REPLICAS))], service="web", nodes=nodes, roles=Role.INSTANCE)
        rows = self.engine.update_partitions(columns)
        self.engine.report_loads(rows, random.lognormal(-0.5, 0.6, (REPLICAS, 2)))

    def balance(self) -> tuple[float, float, int]:
        """Balance; return the imbalance and the highest utilisation after it, and the number of moves."""
        plan = self.engine.balance()
        self.engine.apply(plan)
        loads = [of_node.values() for of_node in self.engine.node_loads().values()]
        return plan.energy_after.imbalance, max(map(max, loads)) / CAPACITY, len(plan.moves)


@pytest.mark.parametrize("limit", [{"max_moves": 36}, {"max_percentage_to_move": 0.03}])
def test_hottest_node_is_cooler_at_about_the_same_imbalance(limit):
    with patch.object(hottest_nodes, "HOT_SHARE", 0.0):
        before = np.array([Cluster(seed, **limit).balance() for seed in range(10)])
    after = np.array([Cluster(seed, **limit).balance() for seed in range(10)])
    imbalance, hottest, _ = after.mean(axis=0) / before.mean(axis=0)
    assert hottest < 0.99
    assert imbalance < 1.03
    assert after[:, 2].max() <= 36


@pytest.mark.parametrize(("proposals", "moves"), [(500, 36), (2000, 10), (5000, 36)])
def test_search_and_relief_keep_to_the_budget_together(proposals, moves):
    plan = Cluster(0, max_moves=moves).engine.balance(budget=proposals)
    assert plan.proposals.generated <= proposals
    assert len(plan.moves) <= moves


def test_the_nearer_of_two_limits_counts():
    """The price falls with the time, however many proposals would be allowed."""
    plan = Cluster(0).engine.balance(budget=Budget(10**10, seconds=0.2))
    assert plan.energy_after.imbalance < 0.5 * plan.energy_before.imbalance
