"""The candidate filter: packed metrics limit new replicas to full nodes (docs/service-fabric.md, Defragmentation)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from plb.array_types import Bool, Float, Int
from plb.model import Metric
from plb.model.quanta import UNLIMITED
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.defragmentation import packs


def filtered(problem: Problem, solution: Solution, config: PlbConfig, rows: Int) -> Problem | None:
    """Return the problem with fewer targets for new `rows`, or None if the filter removes no target.

    A node is kept if the filter of at least one packed metric keeps it.
    """
    kept = np.zeros(len(problem.limit), np.bool_)
    any_filtered = False
    for index, metric in enumerate(config.metrics):
        factor, share = _settings(metric)
        if not packs(metric) or (factor <= 0.0 and share <= 0.0):
            continue
        incoming = float(problem.load[rows, index].sum())
        if incoming > 0.0:
            free = _free_capacity(problem, solution, index)
            goal = max(factor * incoming, share * free.sum()) if share > 0.0 else factor * incoming
            kept |= _fullest(solution, index, free, goal, _largest_partition(problem, rows))
            any_filtered = True
    targets = problem.targets[kept[problem.targets]]
    return problem._replace(targets=targets) if any_filtered and len(targets) < len(problem.targets) else None


def _settings(metric: Metric) -> tuple[float, float]:
    return metric.placement_heuristic_incoming_load_factor, metric.placement_heuristic_empty_space_percent


def _free_capacity(problem: Problem, solution: Solution, metric: int) -> Float:
    """Return the free quanta of each node, (N,); 0 if it accepts no new replicas, infinite if it has no limit."""
    limit = problem.limit[:, metric]
    load = solution.node_load[:, metric] + problem.leaving_load[:, metric]
    free = np.where(limit < UNLIMITED, np.maximum(limit - load, 0), np.inf)
    return np.where(problem.receives[1], free, 0.0)


def _fullest(solution: Solution, metric: int, free: Float, goal: float, least: int) -> Bool:
    """Return a mask, (N,), of the fullest nodes with free capacity: at least `least`, with more than `goal` free."""
    order = [node for node in np.argsort(-solution.node_load[:, metric], kind="stable").tolist() if free[node] > 0]
    kept = np.zeros(len(free), np.bool_)
    found = 0.0
    for count, node in enumerate(order):
        if count >= least and found > goal:
            break
        kept[node] = True
        found += free[node]
    return kept


def _largest_partition(problem: Problem, rows: Int) -> int:
    """Return the largest number of rows of one partition among `rows`, the least number of nodes that they need."""
    found = Counter(min(siblings_of(problem, row)) for row in rows.tolist())
    return max(found.values(), default=0)
