"""Budgets of moves that bind a repair: the only rules that refuse a further repair move."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.move_budgets import budget_that_holds
from plb.evaluation.proposals import refusal
from plb.model.rules import BUDGETS, JOINING, RULES, Rule
from plb.search.application_breaches import movable_rows_of
from plb.search.breaches import Breaches, find_breaches
from plb.state.arrays import Problem, Solution
from plb.state.proposal import proposed
from plb.state.replica_table import merged

_FIRST_BUDGET = int(min(BUDGETS))


def bounding_budgets(
    problem: Problem,
    solution: Solution,
    masks: Sequence[int],
    passed_over: int,
    suspects: Int,
    others: Collection[int],
) -> list[Rule]:
    """Return the budgets that alone refuse another node or role for a replica that breaks a constraint.

    Moves of further replicas that such a move may require are not considered.

    Parameters
    ----------
    solution
        The result of the repair.
    masks, passed_over
        See `plb.search.repair.repair`.
    suspects
        See `plb.search.breaches.find_breaches`.
    others
        Rows that break extension constraints.
    """
    found = np.zeros(RULES, np.bool_)
    for mask in masks:
        breaches = find_breaches(problem, solution, mask & ~passed_over, suspects)
        rows = merged(_breaking_rows(problem, solution, breaches), np.array([*others], np.int64))
        _mark_budgets(problem, solution, mask, rows[problem.movable[rows]], found)
    return [rule for rule in BUDGETS if found[rule]]


def _breaking_rows(problem: Problem, solution: Solution, breaches: Breaches) -> Int:
    """Return the rows, ascending, on overloaded nodes, in crowded domains or on nodes that they do not allow."""
    overloaded: Bool = np.asarray(breaches.overloaded.any(axis=1))
    rows = breaches.rows
    if len(breaches.applications):
        rows = merged(rows, movable_rows_of(problem, solution, breaches.applications))
    if not overloaded.any():
        return rows
    standing = np.flatnonzero(overloaded[solution.node] & (solution.node != NOWHERE))
    adds = (breaches.overloaded[solution.node[standing]] & (problem.load[standing] > 0)).any(axis=1)
    return merged(rows, standing[adds])


@kernel
def _mark_budgets(problem: Problem, solution: Solution, enforced: int, rows: Int, found: Bool) -> None:
    """Mark the budgets, (RULES,), that refuse a move or a swap of one of `rows` that no other rule refuses."""
    for row in rows:
        holding = budget_that_holds(problem, solution, row)
        for target in problem.targets:
            rule = refusal(problem, solution, enforced | JOINING, proposed(solution, row, target, NOWHERE))
            if rule >= _FIRST_BUDGET:
                found[rule] = True
                if rule == holding:
                    break
        other = problem.sibling[row]
        while other != row:
            there = solution.node[other]
            if there != NOWHERE and problem.movable[other] and problem.role[other] != problem.role[row]:
                rule = refusal(problem, solution, enforced, proposed(solution, row, there, other))
                if rule >= _FIRST_BUDGET:
                    found[rule] = True
            other = problem.sibling[other]
