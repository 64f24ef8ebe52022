"""Dropping surplus replicas (semantics.md section 6, new replica placement).

A primary or a pinned replica is never dropped, nor one from a domain that does not hold more than its share, where that
is a hard rule. Replicas whose move is under way go first, those of them on a blocked node before the others, then those
on a blocked node; among equals, one that leaves no child or parent alone, then one in a domain that holds more than its
share, then the one whose loss leaves the least energy.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.arrays import NOWHERE, Bool, Problem, Solution
from plb.constraints.affinity import breaks_pair
from plb.constraints.domains import ANY
from plb.model import Role
from plb.search.transition import apply_proposal, present_energy


@attrs.frozen(eq=False)
class Surplus:
    """A partition with too many replicas.

    Parameters
    ----------
    rows
        Its rows.
    count
        How many are too many.
    """

    rows: Sequence[int]
    count: int


def drop_surplus(
    problem: Problem,
    solution: Solution,
    surpluses: Sequence[Surplus],
    moving: Bool,
    pinned: Bool,
    hard_levels: Sequence[int],
    soft_levels: Sequence[int],
) -> list[int]:
    """Take surplus replicas off their nodes, in place; return their rows.

    Parameters
    ----------
    surpluses
        Children before their parents.
    moving, pinned
        (M,) whether the row is the departing end of a move under way, and whether it must stay.
    hard_levels, soft_levels
        Levels of domains whose even spread no drop may break, and those where it rather should not.
    """
    dropped: list[int] = []
    for surplus in surpluses:
        for _ in range(surplus.count):
            standing = [row for row in surplus.rows if solution.node[row] != NOWHERE]
            candidates = [
                row
                for row in standing
                if problem.role[row] != Role.PRIMARY and (moving[row] or not problem.unspread[row]) and not pinned[row]
            ]
            candidates = [
                row
                for row in candidates
                if all(_is_above_share(problem, solution, level, row) for level in hard_levels)
            ]
            if not candidates:
                break
            row = _least(problem, solution, _preferred(problem, solution, candidates, moving, soft_levels))
            _take_off(problem, solution, row)
            dropped.append(row)
    return dropped


def _preferred(
    problem: Problem, solution: Solution, candidates: list[int], moving: Bool, levels: Sequence[int]
) -> list[int]:
    """Return the candidates of the first rank that has any."""

    def rank(row: int) -> tuple[bool, bool, bool, bool]:
        blocked = not problem.suits[problem.suit[row], solution.node[row]]
        sparse = not all(_is_above_share(problem, solution, level, row) for level in levels)
        return not moving[row], not blocked, breaks_pair(problem, solution, row), sparse

    first = min(rank(row) for row in candidates)
    return [row for row in candidates if rank(row) == first]


def _is_above_share(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Tell whether the domain of `row` holds more than the rounded-down share of its partition."""
    at = solution.node[row]
    if problem.most_in_domain[problem.service[row], level] == ANY:
        return True
    if problem.siblings[problem.suit[row], level, at] == 0 or problem.unspread[row]:
        return True
    beside = inside = 1
    other = problem.sibling[row]
    while other != row:
        where = solution.node[other]
        if where != NOWHERE and not problem.unspread[other] and problem.siblings[problem.suit[row], level, where] > 0:
            beside += problem.parent[level, where] == problem.parent[level, at]
            inside += problem.domain[level, where] == problem.domain[level, at]
        other = problem.sibling[other]
    return bool(inside > (beside - 1) // problem.siblings[problem.suit[row], level, at])


def _least(problem: Problem, solution: Solution, candidates: list[int]) -> int:
    """Return the candidate whose loss leaves the least energy."""
    energies = []
    for row in candidates:
        at = int(solution.node[row])
        _take_off(problem, solution, row)
        energies.append(present_energy(problem, solution))
        if problem.leaving[row]:
            solution.node[row] = at
        else:
            apply_proposal(problem, solution, row, at, NOWHERE)
    return candidates[int(np.argmin(energies))]


def _take_off(problem: Problem, solution: Solution, row: int) -> None:
    """Take a row off its node; that of a departing end is in no sum."""
    if problem.leaving[row]:
        solution.node[row] = NOWHERE
    else:
        apply_proposal(problem, solution, row, NOWHERE, NOWHERE)
