"""Balancing: annealing over all movable replicas, when a metric is out of balance (semantics.md section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from plb.arrays import MOVEMENT, Problem, Solution
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
        wanted = problem.metric_weight[index] > 0 and metric.balancing_threshold > 0
        if wanted and high > low + 1 and active and uneven:
            names.append(metric.name)
    return names


@attrs.frozen
class Variant:
    """One of the searches that balancing runs side by side.

    Parameters
    ----------
    mask
        Enforced rules.
    swap_primary_probability, exchange_probability
        See `plb.search.proposal.Choice`.
    """

    mask: int
    swap_probability: float
    exchange_probability: float


def balance(
    problem: Problem,
    start: Solution,
    config: PlbConfig,
    variants: Sequence[Variant],
    seed: np.random.SeedSequence,
    budget: Budget,
) -> Annealed:
    """Return the configuration of lowest energy that the variants find; `start` is not changed."""
    movable = np.flatnonzero(problem.movable & (start.node >= 0))
    migrations = math.ceil(config.max_percentage_to_move * len(movable))
    migrations = min(migrations, problem.max_moves * 2)  # a swap of roles is one move and displaces two replicas
    found = []
    streams = [seed] if len(variants) == 1 else seed.spawn(len(variants))
    for variant, stream in zip(variants, streams, strict=True):
        choice = Choice(
            movable[:0], movable, migrations, variant.mask, variant.swap_probability, variant.exchange_probability
        )
        found.append(anneal_chains(problem, start, choice, config, stream, budget))
    best = min(found, key=lambda result: (result.energy, result.solution.counts[MOVEMENT]))
    tally = np.sum([result.tally for result in found], axis=0)
    return attrs.evolve(best, tally=tally)
