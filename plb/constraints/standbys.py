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
