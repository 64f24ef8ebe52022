"""Balancing with the moves that empty nodes only (docs/service-fabric.md, Defragmentation)."""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Int
from plb.energy.empty_nodes import lack_of_empty_nodes
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.defragmentation import packs, reserves


def emptying_moves(problem: Problem, start: Solution, config: PlbConfig, movable: Int) -> tuple[Problem, Int]:
    """Return the problem with only the nodes as targets that are to stay in use, and the rows that load the others.

    For a packed metric, these are the nodes with more load than the mean of the counted nodes. For one that reserves
    nodes, they are all but as many of the emptiest as are to be empty, so that no more moves than what loads these.
    """
    used, emptied = np.zeros((2, len(problem.limit)), np.bool_)
    leaves = np.zeros(len(movable), np.bool_)
    for index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, index]
        if not counted.any() or not (packs(metric) or reserves(metric)):
            continue
        stay = _above_mean(problem, start, index) if packs(metric) else ~emptiest_nodes(problem, start, index)
        if not packs(metric):
            emptied |= ~stay
        used |= stay
        leaves |= ~stay[start.node[movable]] & (problem.load[movable, index] > 0)
    targets = problem.targets[(used & ~emptied)[problem.targets]]
    if not len(targets):
        return problem, movable[:0]
    return problem._replace(targets=targets), movable[leaves]


def _above_mean(problem: Problem, start: Solution, metric: int) -> Bool:
    """Return a mask, (N,), of the nodes with more load than the mean of the counted ones."""
    load = start.node_load[:, metric]
    above: Bool = load > load[problem.counted_for[:, metric]].mean()
    return above


def emptiest_nodes(problem: Problem, start: Solution, metric: int) -> Bool:
    """Return a mask, (N,), of the nodes of which the energy counts the lack of empty nodes."""
    lack_of_empty_nodes(problem, start, metric)
    picked: Bool = start.picked == 1
    return picked
