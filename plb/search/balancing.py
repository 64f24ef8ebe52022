"""Balancing: annealing over all movable replicas, when a metric is out of balance (semantics.md section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from plb.arrays import MOVEMENT, Float, Int, Problem, Solution
from plb.config import PlbConfig
from plb.model import Metric
from plb.search.annealing import Annealed, Budget, anneal_chains
from plb.search.proposal import Choice
from plb.steps import MetricSteps


def is_unbalanced(problem: Problem, solution: Solution, config: PlbConfig, steps: MetricSteps) -> bool:
    """Tell whether some metric calls for balancing, over all services or within one (semantics.md section 3).

    Loads are compared in user units, over the nodes that count (design section 14).
    """
    for index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, index]
        if problem.metric_weight[index] <= 0 or metric.balancing_threshold <= 0 or not counted.any():
            continue
        loads = steps.in_user_units(metric.name, solution.node_load[counted, index])
        if metric.defragmentation:
            if _wants_gathering(metric, loads, problem.group[:, counted]):
                return True
        elif _is_uneven(loads, metric.balancing_threshold, metric.activity_threshold, loads.max()):
            return True
    return _is_any_service_uneven(problem, solution, config, steps)


def _is_uneven(loads: Float, threshold: float, activity: float, highest: float) -> bool:
    """Tell whether max > min + 1, the activity threshold is passed, and max/min is above the threshold."""
    low, high = float(loads.min()), float(loads.max())
    active = activity == 0 or highest > activity
    return high > low + 1 and active and (not (threshold > 1 and low > 0) or high / low > threshold)


def _is_any_service_uneven(problem: Problem, solution: Solution, config: PlbConfig, steps: MetricSteps) -> bool:
    """Tell whether a local domain is out of balance, where these are asked (LocalBalancingThreshold)."""
    if config.local_balancing_threshold <= 0:
        return False
    for local in range(len(problem.local_nodes)):
        counted = problem.local_counted[local]
        for index, metric in enumerate(config.metrics):
            if problem.local_weight[local, index] <= 0 or metric.defragmentation or not counted.any():
                continue
            loads = steps.in_user_units(metric.name, solution.local_load[local, counted, index])
            highest = steps.to_user(metric.name, int(solution.node_load[counted, index].max()))
            if _is_uneven(loads, config.local_balancing_threshold, metric.activity_threshold, highest):
                return True
    return False


def _wants_gathering(metric: Metric, loads: Float, group: Int) -> bool:
    """Tell whether a defragmented metric is spread too evenly, or has too few empty nodes.

    Parameters
    ----------
    loads
        (n,) of the nodes that count.
    group
        (2, n) their fault and upgrade domains.
    """
    if metric.empty_nodes is not None:
        return _lacks_empty_nodes(metric, loads, group)
    if metric.balancing_threshold == 1:
        return True
    for of_kind in group:
        for domain in np.unique(of_kind):
            inside = loads[of_kind == domain]
            if len(inside) >= 2 and inside.min() > 0 and inside.max() / inside.min() <= metric.balancing_threshold:
                return True
    return False


def _lacks_empty_nodes(metric: Metric, loads: Float, group: Int) -> bool:
    """Tell whether fewer nodes are empty than the metric asks for, over all or in some domain."""
    wanted = metric.empty_nodes or 0.0
    target = math.floor(wanted * len(loads)) if wanted < 1 else int(wanted)
    limit = metric.empty_node_load if metric.scoped_defragmentation else metric.activity_threshold
    empty = loads <= limit
    if not metric.empty_nodes_across_domains:
        return bool(empty.sum() < target)
    for of_kind in group:
        found = [int(empty[of_kind == domain].sum()) for domain in np.unique(of_kind)]
        share, rest = divmod(target, len(found))
        enough = sum(1 for count in found if count > share)
        if min(found) < share or enough < rest:
            return True
    return False


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


def most_displaced(problem: Problem, start: Solution, config: PlbConfig) -> int:
    """Return how many replicas a balancing may displace."""
    movable = int((problem.movable & (start.node >= 0)).sum())
    share = math.ceil(config.max_percentage_to_move * movable)
    return min(share, problem.max_moves * 2)  # a swap of roles is one move and displaces two replicas


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
    migrations = most_displaced(problem, start, config)
    found = []
    streams = [seed] if len(variants) == 1 else seed.spawn(len(variants))
    for variant, stream in zip(variants, streams, strict=True):
        choice = Choice(
            movable[:0],
            movable,
            migrations,
            variant.mask,
            variant.swap_probability,
            variant.exchange_probability,
            config.correct_spread,
        )
        found.append(anneal_chains(problem, start, choice, config, stream, budget))
    best = min(found, key=lambda result: (result.energy, result.solution.counts[MOVEMENT]))
    tally = np.sum([result.tally for result in found], axis=0)
    return attrs.evolve(best, tally=tally)
