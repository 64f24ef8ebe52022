"""Budgets of moves that bind a repair: the only rules that refuse a further repair move."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.evaluation.proposals import refusal
from plb.model.rules import BUDGETS, JOINING, RULES, Rule
from plb.search.breaches import Breaches, find_breaches
from plb.state.arrays import Problem, Solution

_MOVES = int(Rule.MOVES)
_NODE_MOVES = int(Rule.NODE_MOVES)
_SERVICE_MOVES = int(Rule.SERVICE_MOVES)


def bounding_budgets(
    problem: Problem, solution: Solution, masks: Sequence[int], passed_over: int, others: Collection[int]
) -> list[Rule]:
    """Return the budgets that alone refuse another node or role for a replica that breaks a constraint.

    Moves of further replicas that such a move may require are not considered.

    Parameters
    ----------
    solution
        The result of the repair.
    masks, passed_over
        See `plb.search.repair.repair`.
    others
        Rows that break extension constraints.
    """
    found = np.zeros(RULES, np.bool_)
    if problem.bounded:
        for mask in masks:
            rows = _breaking_rows(problem, solution, find_breaches(problem, solution, mask & ~passed_over))
            rows[list(others)] = True
            _mark_budgets(problem, solution, mask, np.flatnonzero(rows & problem.movable), found)
    return [rule for rule in BUDGETS if found[rule]]


def _breaking_rows(problem: Problem, solution: Solution, breaches: Breaches) -> Bool:
    """Return the rows on overloaded nodes, in crowded domains or on nodes that they do not allow, (M,)."""
    overloads = breaches.overloaded[solution.node] & (problem.load[:-1] > 0)
    overloading = (solution.node != NOWHERE) & overloads.any(axis=1)
    return np.asarray(overloading | breaches.crowded.any(axis=0) | breaches.astray)


@kernel
def _mark_budgets(problem: Problem, solution: Solution, enforced: int, rows: Int, found: Bool) -> None:
    """Mark the budgets, (RULES,), that refuse a move or a swap of one of `rows` that no other rule refuses."""
    for row in rows:
        for target in problem.targets:
            rule = refusal(problem, solution, enforced | JOINING, row, target, NOWHERE)
            if rule in (_MOVES, _NODE_MOVES, _SERVICE_MOVES):
                found[rule] = True
        other = problem.sibling[row]
        while other != row:
            there = solution.node[other]
            if there != NOWHERE and problem.movable[other] and problem.role[other] != problem.role[row]:
                rule = refusal(problem, solution, enforced, row, there, other)
                if rule in (_MOVES, _NODE_MOVES, _SERVICE_MOVES):
                    found[rule] = True
            other = problem.sibling[other]
