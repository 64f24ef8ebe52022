"""Repairs of each rule without regard to the others, before all together (docs/service-fabric.md, Constraint check).

A replica that has to leave for one rule may so reach a node that another rule refuses, and leave that again. What such
an attempt leaves broken has to be broken before, too.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Int
from plb.compiler import Stream, kernel
from plb.constraints.domains import SPREADING
from plb.model.rules import Rule
from plb.search.application_breaches import count_breaches_of
from plb.search.breaches import broken_rules
from plb.search.capacity_repair import unload
from plb.search.extension_kernels import ExtensionState
from plb.search.misplaced_repair import move_parents_without_child
from plb.search.repair_attempts import Attempt, repair_each_rule
from plb.search.repair_lists import RepairState, Suspects, first_listed_applications, listed_applications, listed_rows
from plb.state.arrays import Problem, Solution

_CAPACITY, _AFFINITY = int(Rule.CAPACITY), int(Rule.AFFINITY)
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
_OF_ROWS = SPREADING | 1 << int(Rule.EXCLUSION) | 1 << int(Rule.PLACEMENT) | 1 << _AFFINITY
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
        The rows that may break a rule.
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


@kernel
def breaks_anew(problem: Problem, solution: Solution, binding: int, before: Int, suspects: Suspects) -> bool:
    """Return whether some row, partition or application breaks a rule that it did not break before.

    Parameters
    ----------
    before
        See `rules_broken_before`.
    """
    for index in range(listed_rows(suspects)):
        row = suspects.rows[index]
        if broken_rules(problem, solution, binding & _OF_ROWS, row) & ~before[row]:
            return True
    for index in range(first_listed_applications(suspects), listed_applications(suspects)):
        broken, _ = count_breaches_of(problem, solution, binding, suspects.applications[index])
        if broken > 0:
            return True
    return False
