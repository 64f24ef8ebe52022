"""Balancing that moves replicas only from less loaded to fuller nodes (docs/service-fabric.md, Defragmentation)."""

from __future__ import annotations

import numpy as np

from plb.array_types import Int
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.defragmentation import packs


def emptying_moves(problem: Problem, start: Solution, config: PlbConfig, movable: Int) -> tuple[Problem, Int]:
    """Return the problem with only the fuller nodes as targets, and the rows that load the other nodes.

    For a packed metric, a node is fuller if its load exceeds the mean of the counted nodes.
    """
    fuller = np.zeros(len(problem.limit), np.bool_)
    leaves = np.zeros(len(movable), np.bool_)
    for index, metric in enumerate(config.metrics):
        counted = problem.counted_for[:, index]
        if not packs(metric) or not counted.any():
            continue
        above = start.node_load[:, index] > start.node_load[counted, index].mean()
        fuller |= above
        leaves |= ~above[start.node[movable]] & (problem.load[movable, index] > 0)
    targets = problem.targets[fuller[problem.targets]]
    if not len(targets):
        return problem, movable[:0]
    return problem._replace(targets=targets), movable[leaves]
