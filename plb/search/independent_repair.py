"""Repairs of each rule without regard to the others, before all together (docs/service-fabric.md, Constraint check).

A replica that has to leave for one rule may so reach a node that another rule refuses, and leave that again. What such
an attempt leaves broken has to be broken before, too.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import Stream, kernel
from plb.constraints.domains import SPREADING
from plb.model.rules import Rule
from plb.search.application_breaches import count_breaches_of
from plb.search.breaches import broken_rules
from plb.search.capacity_repair import unload
from plb.search.extension_kernels import ExtensionState
from plb.search.misplaced_repair import move_parents_without_child
from plb.search.repair_attempts import Attempt, repair_each_rule
from plb.search.repair_lists import RepairState, Suspects, listed_applications, listed_rows
from plb.state.arrays import Problem, Solution

_CAPACITY, _AFFINITY = int(Rule.CAPACITY), int(Rule.AFFINITY)
_SCALE_OUT, _APPLICATION_CAPACITY = 1 << int(Rule.SCALE_OUT), 1 << int(Rule.APPLICATION_CAPACITY)
_IN_ORDER = (
    _CAPACITY,
    int(Rule.SCALE_OUT),
    int(Rule.APPLICATION_CAPACITY),
    int(Rule.FAULT_DOMAIN),
    int(Rule.UPGRADE_DOMAIN),
    int(Rule.PLACEMENT),
    _AFFINITY,
)
_REPAIRABLE = sum(1 << rule for rule in _IN_ORDER)
_OF_PLACES = 1 << int(Rule.NODE) | 1 << int(Rule.EXCLUSION) | 1 << int(Rule.PLACEMENT) | 1 << _AFFINITY
"""The rules that single rows break."""
_OF_ROWS = SPREADING | _OF_PLACES
"""The rules that single rows or partitions break."""


@kernel
def repair_rules_alone(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    attempt: Attempt,
    rng: Stream,
    state: RepairState,
) -> None:
    """Repair each rule while of the rules that can be repaired it alone binds the moves, affinity last.

    Then nodes are unloaded while all rules bind but the spread, so that replicas may go back to where they broke it.
    """
    for rule in _IN_ORDER:
        if attempt.repaired >> rule & 1:
            binding = attempt.binding & ~_REPAIRABLE | 1 << rule
            if rule == _AFFINITY and attempt.parents:
                move_parents_without_child(problem, solution, extension_state, binding, rng, state)
            alone = Attempt(1 << rule, binding, attempt.swaps, attempt.prefers, attempt.parents, attempt.unusable_first)
            repair_each_rule(problem, solution, extension_state, alone, rng, state)
    if attempt.repaired >> _CAPACITY & 1:
        loose = attempt.binding & ~SPREADING
        unload(problem, solution, extension_state, loose, attempt.swaps, attempt.prefers, rng, state)


def rules_broken_before(problem: Problem, solution: Solution, binding: int, suspects: Int) -> Int:
    """Return the rules of single rows that each row breaks, (M,), as bit masks; a spread is broken by all siblings.

    Parameters
    ----------
    binding
        Bit mask of the rules to look at.
    suspects
        The rows that may break a rule; those that may not move may break others besides, for which no repair looks.
    """
    found = np.zeros(len(solution.node), np.int64)
    _mark_broken_rules(problem, solution, binding, suspects, found)
    return found


@kernel
def _mark_broken_rules(problem: Problem, solution: Solution, enforced: int, rows: Int, found: Int) -> None:
    for row in rows:
        broken = broken_rules(problem, solution, enforced & _OF_ROWS, row)
        found[row] |= broken
        other = problem.sibling[row]
        while other != row:
            found[other] |= broken & SPREADING
            other = problem.sibling[other]
    for row in range(found.shape[0]):
        if solution.node[row] != NOWHERE and not problem.movable[row]:
            found[row] |= broken_rules(problem, solution, enforced & _OF_PLACES, row)


def breaches_of_applications_before(problem: Problem, solution: Solution, binding: int, applications: Int) -> Float:
    """Return what each application breaks, (A, 3), see `_breaches_by_rule`; 0 for all but some applications."""
    found = np.zeros((len(problem.most_nodes), 3))
    _count_breaches_of(problem, solution, binding, applications, found)
    return found


@kernel
def _count_breaches_of(problem: Problem, solution: Solution, enforced: int, applications: Int, found: Float) -> None:
    for application in applications:
        nodes, overloads, excess = _breaches_by_rule(problem, solution, enforced, application)
        found[application, 0], found[application, 1], found[application, 2] = nodes, overloads, excess


@kernel
def _breaches_by_rule(
    problem: Problem, solution: Solution, enforced: int, application: int
) -> tuple[float, float, float]:
    """Return the nodes too many, the overloads, and their sum relative to the limits."""
    nodes, _ = count_breaches_of(problem, solution, enforced & _SCALE_OUT, application)
    overloads, excess = count_breaches_of(problem, solution, enforced & _APPLICATION_CAPACITY, application)
    return float(nodes), float(overloads), excess


@kernel
def breaks_anew(
    problem: Problem, solution: Solution, binding: int, before: Int, of_applications: Float, suspects: Suspects
) -> bool:
    """Return whether a row or partition breaks a rule that it did not break before, or an application breaks one more.

    Parameters
    ----------
    before
        See `rules_broken_before`.
    of_applications
        See `breaches_of_applications_before`.
    """
    for index in range(listed_rows(suspects)):
        row = suspects.rows[index]
        if broken_rules(problem, solution, binding & _OF_ROWS, row) & ~before[row]:
            return True
    for index in range(listed_applications(suspects)):
        application = suspects.applications[index]
        nodes, overloads, excess = _breaches_by_rule(problem, solution, binding, application)
        more = nodes > of_applications[application, 0] or overloads > of_applications[application, 1]
        if more or excess > of_applications[application, 2]:
            return True
    return False
