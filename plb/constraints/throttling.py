"""Throttling: a limit on the replicas in build on a node at a time (docs/constraints/throttling.md)."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel
def is_throttled(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether `target` has no free build slot for `row`; a return to the origin is never throttled."""
    if problem.origin[row] == target:
        return False
    return bool(problem.in_build[target] + solution.arrivals[target] >= problem.most_in_build[target])


@kernel
def arrive(problem: Problem, solution: Solution, row: int, sign: int) -> None:
    """Add `sign` to the arrivals of the node of `row` if this plan builds `row` there.

    A replica that swaps roles with a sibling is already built; one that takes the node of a moving sibling is not.
    """
    at = solution.node[row]
    if at == NOWHERE or at == problem.origin[row]:
        return
    other = problem.sibling[row]
    while other != row:
        crossed = problem.origin[other] == at and solution.node[other] == problem.origin[row]
        if crossed and problem.origin[row] != NOWHERE and not problem.unspread[other]:
            return
        other = problem.sibling[other]
    solution.arrivals[at] += sign
