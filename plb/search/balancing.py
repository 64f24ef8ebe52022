"""Balancing: annealing over all movable replicas, when a metric is out of balance (semantics.md section 3)."""

from __future__ import annotations

import math

import numpy as np

from plb.arrays import Problem, Solution
from plb.config import PlbConfig
from plb.search.annealing import Annealed, Budget, anneal_chains
from plb.search.proposal import Choice
from plb.steps import MetricSteps


def imbalanced_metrics(problem: Problem, solution: Solution, config: PlbConfig, steps: MetricSteps) -> list[str]:
    """Return the metrics that call for balancing: max > min + 1, max > activity threshold, max/min > threshold > 0.

    Compared in user units, over the nodes that are up (design section 14).
    """
    if not problem.counted.any():
        return []
    names = []
    for index, metric in enumerate(config.metrics):
        loads = solution.node_load[problem.counted, index]
        low, high = (steps.to_user(metric.name, int(load)) for load in (loads.min(), loads.max()))
        active = metric.activity_threshold == 0 or high > metric.activity_threshold
        uneven = not (metric.balancing_threshold > 1 and low > 0) or high / low > metric.balancing_threshold
        if metric.weight > 0 and metric.balancing_threshold > 0 and high > low + 1 and active and uneven:
            names.append(metric.name)
    return names


def balance(
    problem: Problem,
    start: Solution,
    config: PlbConfig,
    mask: int,
    seed: np.random.SeedSequence,
    budget: Budget,
) -> Annealed:
    """Return a configuration of lower energy, or `start` itself if none wins enough; `start` is not changed.

    Parameters
    ----------
    mask
        Enforced rules.
    """
    movable = np.flatnonzero(problem.movable & (start.node >= 0))
    migrations = math.ceil(config.max_percentage_to_move * len(movable))
    migrations = min(migrations, problem.max_moves * 2)  # a swap of roles is one move and displaces two replicas
    choice = Choice(
        movable[:0], movable, migrations, mask, config.swap_primary_probability, config.exchange_probability
    )
    return anneal_chains(problem, start, choice, config, seed, budget)
