"""Standbys: a new replica may take the place and the load of a standby of its partition."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel
def has_standby(problem: Problem, row: int) -> bool:
    """Return whether the partition of `row` has a standby besides it."""
    other = problem.sibling[row]
    while other != row:
        if problem.standby[other]:
            return True
        other = problem.sibling[other]
    return False


@kernel
def standby_on(problem: Problem, solution: Solution, row: int, target: int) -> int:
    """Return the standby of the partition of `row` on `target`, whose load `row` replaces, or NOWHERE."""
    if problem.standbys == 0:
        return NOWHERE
    other = problem.sibling[row]
    while other != row:
        if problem.standby[other] and solution.node[other] == target:
            return int(other)
        other = problem.sibling[other]
    return NOWHERE


@kernel
def replaced_load(problem: Problem, solution: Solution, application: int, node: int, metric: int) -> int:
    """Return the load of the standbys on a node that other replicas of their partitions replace, as they came there.

    Parameters
    ----------
    application
        The application of the standbys; NOWHERE: of all.
    """
    replaced = 0
    for row in range(solution.node.shape[0] if problem.standbys else 0):
        if not problem.standby[row] or solution.node[row] != node:
            continue
        if (application == NOWHERE or problem.application[row] == application) and _is_replaced(problem, solution, row):
            replaced += problem.load[row, metric]
    return int(replaced)


@kernel
def _is_replaced(problem: Problem, solution: Solution, standby: int) -> bool:
    """Return whether a replica of the partition came to the node of its standby."""
    node, other = solution.node[standby], problem.sibling[standby]
    while other != standby:
        if solution.node[other] == node and problem.origin[other] != node:
            return True
        other = problem.sibling[other]
    return False
