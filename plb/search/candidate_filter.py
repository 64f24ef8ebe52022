"""The candidate filter: metrics that are not only balanced limit new replicas to some nodes.

Packed metrics limit them to full nodes, and metrics that reserve nodes to the others (docs/service-fabric.md,
Defragmentation).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from plb.array_types import Bool, Float, Int
from plb.model import Metric
from plb.model.metric import PlacementStrategy
from plb.model.quanta import UNLIMITED
from plb.search.defragmentation import emptiest_nodes
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution, siblings_of
from plb.state.defragmentation import is_packed, packs, reserves, strategy_of


def filtered(problem: Problem, solution: Solution, config: PlbConfig, rows: Int) -> Problem | None:
    """Return the problem with fewer targets for new `rows`, or None if the filter removes no target.

    For replicas with load of several such metrics, a node is kept if each of them keeps it. A node is kept if it is for
    some replica.
    """
    filters = {
        index: _kept_by(problem, solution, metric, index, rows)
        for index, metric in enumerate(config.metrics)
        if _filters(metric) and problem.load[rows, index].any()
    }
    if not filters:
        return None
    kept = np.zeros(len(problem.limit), np.bool_)
    by_metric = np.array([*filters.values()])
    for concerned in np.unique(problem.load[rows][:, [*filters]] > 0, axis=0):
        kept |= by_metric[concerned].all(axis=0)
    targets = problem.targets[kept[problem.targets]]
    return problem._replace(targets=targets) if 0 < len(targets) < len(problem.targets) else None


def _filters(metric: Metric) -> bool:
    """Return whether a metric limits new replicas to some nodes."""
    limits = metric.placement_heuristic_incoming_load_factor > 0.0 or metric.placement_heuristic_empty_space_percent > 0
    return is_packed(metric) and (limits or reserves(metric))


def _kept_by(problem: Problem, solution: Solution, metric: Metric, index: int, rows: Int) -> Bool:
    """Return a mask, (N,), of the nodes to which a metric limits new `rows`: all without capacity, and some others."""
    counted = problem.counted_for[:, index]
    bounded = problem.limit[:, index] < UNLIMITED
    emptied = counted & emptiest_nodes(problem, solution, index) if reserves(metric) else np.zeros_like(counted)
    kept = counted & ~bounded
    offered = counted & bounded & ~emptied
    if strategy_of(metric) is PlacementStrategy.RESERVATION:
        return kept | offered
    free = _free_capacity(problem, solution, index)
    load = problem.load[rows, index]
    empty = free[counted & bounded & (emptied if reserves(metric) else True)].sum()
    goal = max(
        metric.placement_heuristic_incoming_load_factor * float(load.sum()),
        metric.placement_heuristic_empty_space_percent * float(empty),
    )
    least = _largest_partition(problem, rows) - int(kept.sum())
    if packs(metric):
        return kept | _fullest(solution, index, free, offered & (free > 0) & (free >= load.min()), goal, least)
    return kept | _least_loaded(problem, solution, index, offered, goal, least)


def _free_capacity(problem: Problem, solution: Solution, metric: int) -> Float:
    """Return the free quanta of each node, (N,); meaningless if it has no limit."""
    load = solution.node_load[:, metric] + problem.leaving_load[:, metric]
    free: Float = np.maximum(problem.limit[:, metric] - load, 0).astype(np.float64)
    return free


def _fullest(solution: Solution, metric: int, free: Float, offered: Bool, goal: float, least: int) -> Bool:
    """Return a mask, (N,), of the fullest of some nodes: at least `least`, with at least `goal` free."""
    order = np.argsort(-solution.node_load[:, metric], kind="stable")
    kept = np.zeros(len(free), np.bool_)
    found = 0.0
    for count, node in enumerate(order[offered[order]].tolist()):
        if count >= least and found >= goal:
            break
        kept[node] = True
        found += free[node]
    return kept


def _least_loaded(problem: Problem, solution: Solution, metric: int, offered: Bool, goal: float, least: int) -> Bool:
    """Return a mask, (N,), of the least loaded of some nodes: at least `least`, and as many as take `goal` in balance.

    That is the load that fills them up to the next node; without a goal, all are kept.
    """
    load = solution.node_load[:, metric]
    order = np.argsort(load * problem.inverse_capacity[:, metric], kind="stable")
    kept = np.zeros(len(load), np.bool_)
    found = 0.0
    before = 0
    for count, node in enumerate(order[offered[order]].tolist()):
        found += float(load[node] - before) * count
        before = int(load[node])
        if goal > 0.0 and count >= least and found >= goal:
            break
        kept[node] = True
    return kept


def _largest_partition(problem: Problem, rows: Int) -> int:
    """Return the largest number of rows of one partition among `rows`, the least number of nodes that they need."""
    found = Counter(min(siblings_of(problem, row)) for row in rows.tolist())
    return max(found.values(), default=0)
