"""Standbys that are replaced by other replicas of their partitions."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE
from plb.energy.from_scratch import solution_from_scratch
from plb.state.arrays import Problem, Solution, siblings_of


def without_replaced_standbys(problem: Problem, solution: Solution) -> Solution:
    """Return the solution without the standbys that new or moved replicas of their partitions replace.

    Their removal is not a move.
    """
    if not problem.standbys:
        return solution
    node = solution.node
    came = (node != NOWHERE) & (node != problem.origin)
    replaced = [
        row
        for row in np.flatnonzero(problem.standby & (node != NOWHERE)).tolist()
        if any(came[one] and node[one] == node[row] for one in siblings_of(problem, row))
    ]
    if not replaced:
        return solution
    left = node.copy()
    left[replaced] = NOWHERE
    without = solution_from_scratch(problem, left)
    without.totals.movement = solution.totals.movement
    return without
