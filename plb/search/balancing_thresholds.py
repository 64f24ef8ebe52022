"""Whether a metric is out of balance: balancing and activity thresholds, and those of packed metrics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.model import Metric
from plb.model.metric import PlacementStrategy
from plb.model.quanta import MetricQuanta
from plb.model.service import Service
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.defragmentation import is_packed, reserves, strategy_of, target_empty_nodes


def _is_empty(problem: Problem, solution: Solution, metric: int) -> Bool:
    """Return which nodes count as empty for a metric, (N,); with overlap, for all metrics that reserve nodes."""
    empty: Bool = solution.node_load <= problem.empty_limit
    if problem.empty_overlap and problem.reserving[metric]:
        return np.asarray(empty[:, problem.reserving].all(axis=1))
    return empty[:, metric]


def _needs_packing(metric: Metric, loads: Float, empty: Bool, group: Int) -> bool:
    """Return whether a metric is too even to be packed, has too few empty nodes, or is uneven on the other nodes.

    Parameters
    ----------
    loads, empty
        (n,) load of the counted nodes, and whether each counts as empty.
    group
        (2, n) their fault and upgrade domains.
    """
    if strategy_of(metric) is PlacementStrategy.RESERVATION_AND_BALANCE and not empty.all():
        others = loads[~empty]
        if _is_uneven(others, metric.balancing_threshold, metric.activity_threshold, float(others.max())):
            return True
    if metric.empty_nodes is not None or reserves(metric):
        return _lacks_empty_nodes(metric, empty, group)
    if metric.balancing_threshold == 1:
        return True
    for of_kind in group:
        for domain in np.unique(of_kind):
            inside = loads[of_kind == domain]
            if len(inside) >= 2 and inside.min() > 0 and inside.max() / inside.min() <= metric.balancing_threshold:
                return True
    return False


def _lacks_empty_nodes(metric: Metric, empty: Bool, group: Int) -> bool:
    """Return whether fewer nodes are empty than the metric requires, in total or in some domain."""
    target = target_empty_nodes(metric, len(empty))
    if not metric.empty_nodes_across_domains:
        return bool(empty.sum() < target)
    for of_kind in group:
        found = [int(empty[of_kind == domain].sum()) for domain in np.unique(of_kind)]
        share, rest = divmod(target, len(found))
        enough = sum(1 for count in found if count > share)
        if min(found) < share or enough < rest:
            return True
    return False


def uneven_metrics(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return `Problem.uneven`, (1 + L, R): unbalanced metrics over all services, and within local domains."""
    over_all = unbalanced_metrics(problem, solution, config, quanta)
    return np.vstack([over_all, unbalanced_locals(problem, solution, config, quanta)])


def is_unbalanced(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> bool:
    """Return whether a metric is unbalanced, in all or one service (docs/service-fabric.md, Balancing thresholds)."""
    return bool(uneven_metrics(problem, solution, config, quanta).any())


def unbalanced_metrics(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return which metrics are unbalanced over all services, (R,).

    Loads are compared in user units, over the counted nodes.
    """
    found = np.zeros(len(config.metrics), np.bool_)
    for index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, index]
        if problem.metric_weight[index] <= 0 or metric.balancing_threshold <= 0 or not counted.any():
            continue
        loads = quanta.in_user_units(metric.name, solution.node_load[counted, index])
        if is_packed(metric):
            empty = _is_empty(problem, solution, index)[counted]
            found[index] = _needs_packing(metric, loads, empty, problem.group[:, counted])
        else:
            found[index] = _is_uneven(loads, metric.balancing_threshold, metric.activity_threshold, loads.max())
    return found


def unbalanced_services(
    problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta, services: Mapping[int, Service]
) -> set[int]:
    """Return the indices of the services with a metric that is unbalanced over all services or within the service."""
    over_all = unbalanced_metrics(problem, solution, config, quanta)
    names = {metric.name for metric, unbalanced in zip(config.metrics, over_all, strict=True) if unbalanced}
    within = unbalanced_locals(problem, solution, config, quanta)
    found = set()
    for index, service in services.items():
        local = int(problem.local_of[index])
        has_one = bool(names) if service.metrics is None else bool(names & set(service.metrics))
        if has_one or (local != NOWHERE and within[local].any()):
            found.add(index)
    return found


def _is_uneven(loads: Float, threshold: float, activity: float, highest: float) -> bool:
    """Return whether max > min + 1, `highest` exceeds the activity threshold, and max/min exceeds the threshold."""
    low, high = float(loads.min()), float(loads.max())
    active = activity == 0 or highest > activity
    return high > low + 1 and active and (not (threshold > 1 and low > 0) or high / low > threshold)


def unbalanced_locals(problem: Problem, solution: Solution, config: PlbConfig, quanta: MetricQuanta) -> Bool:
    """Return which metrics of local domains are unbalanced, (L, R); none without `local_balancing_threshold`."""
    found = np.zeros(problem.local_weight.shape, np.bool_)
    if config.local_balancing_threshold <= 0:
        return found
    for local in range(len(problem.local_nodes)):
        counted = problem.local_counted[local]
        for index, metric in enumerate(config.metrics):
            if problem.local_weight[local, index] <= 0 or is_packed(metric) or not counted.any():
                continue
            loads = quanta.in_user_units(metric.name, solution.local_load[local, counted, index])
            highest = quanta.to_user(metric.name, int(solution.node_load[counted, index].max()))
            found[local, index] = _is_uneven(
                loads, config.local_balancing_threshold, metric.activity_threshold, highest
            )
    return found
