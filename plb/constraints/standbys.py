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
def is_replaced(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether `row` is a standby on `node` that a replica of its partition replaces, as it came there."""
    if not problem.standby[row] or problem.leaving[row] or solution.node[row] != node:
        return False
    other = problem.sibling[row]
    while other != row:
        if solution.node[other] == node and problem.origin[other] != node and not problem.standby[other]:
            return True
        other = problem.sibling[other]
    return False


@kernel
def replaced_load(problem: Problem, solution: Solution, application: int, node: int, metric: int, below: int) -> int:
    """Return the load of the standbys of an application on a node that others replace, of rows below `below`."""
    replaced = 0
    for row in range(below if problem.standbys else 0):
        if problem.application[row] == application and is_replaced(problem, solution, row, node):
            replaced += problem.load[row, metric]
    return int(replaced)
