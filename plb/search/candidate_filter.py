"""Narrowing: where a metric is packed, new replicas go to the fullest nodes with room (semantics.md section 6)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from plb.array_types import Bool, Float, Int
from plb.model import Metric
from plb.model.resolution import UNLIMITED
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.packing import packs


def filtered(problem: Problem, solution: Solution, config: PlbConfig, rows: Int) -> Problem | None:
    """Return the problem with fewer nodes to choose from for new `rows`; None where nothing narrows them.

    A node is kept if some metric that is packed and narrowed keeps it.
    """
    kept = np.zeros(len(problem.limit), np.bool_)
    any_filtered = False
    for index, metric in enumerate(config.metrics):
        factor, share = _settings(metric)
        incoming = float(problem.load[rows, index].sum())
        if packs(metric) and (factor > 0.0 or share > 0.0) and incoming > 0.0:
            free = _free_capacity(problem, solution, index)
            goal = max(factor * incoming, share * free.sum()) if share > 0.0 else factor * incoming
            kept |= _fullest(solution, index, free, goal, _most(problem, rows))
            any_filtered = True
    targets = problem.targets[kept[problem.targets]]
    return problem._replace(targets=targets) if any_filtered and len(targets) < len(problem.targets) else None


def _settings(metric: Metric) -> tuple[float, float]:
    return metric.placement_heuristic_incoming_load_factor, metric.placement_heuristic_empty_space_percent


def _free_capacity(problem: Problem, solution: Solution, metric: int) -> Float:
    """Return the free steps of every node, (N,); 0 where it takes no new replicas, infinite where it has no limit."""
    limit = problem.limit[:, metric]
    load = solution.node_load[:, metric] + problem.leaving_load[:, metric]
    free = np.where(limit < UNLIMITED, np.maximum(limit - load, 0), np.inf)
    return np.where(problem.receives[1], free, 0.0)


def _fullest(solution: Solution, metric: int, free: Float, goal: float, least: int) -> Bool:
    """Return the fullest nodes with room that together have more than `goal` free, and at least so many nodes, (N,)."""
    order = [node for node in np.argsort(-solution.node_load[:, metric], kind="stable").tolist() if free[node] > 0]
    kept = np.zeros(len(free), np.bool_)
    found = 0.0
    for count, node in enumerate(order):
        if count >= least and found > goal:
            break
        kept[node] = True
        found += free[node]
    return kept


def _most(problem: Problem, rows: Int) -> int:
    """Return the most rows of one partition among `rows`: so many nodes are needed at least."""
    found = Counter(min(siblings_of(problem, row)) for row in rows.tolist())
    return max(found.values(), default=0)
