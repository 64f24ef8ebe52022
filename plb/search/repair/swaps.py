"""Repairs that prefer swaps: a replica that has to leave draws among the allowed nodes and the nodes of its siblings.

Where a sibling of the other role stands, the two swap roles; else the replica moves (docs/service-fabric.md, Constraint
check).
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel, uniform
from plb.model.rules import RuleMask
from plb.search.repair.affinity_moves import move_children, move_to_with_children
from plb.search.transactions import (
    QUICK_DRAWS,
    Draft,
    is_allowed,
    may_move,
    takes_place,
    try_move,
    undo_transaction,
)
from plb.state.arrays import Problem, Solution, proposed


@kernel
def swap_with_lighter(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, metric: int
) -> bool:
    """Swap `row` with a sibling of another role and less load of `metric`; return whether `enforced` rules allow it."""
    if not problem.movable[row]:
        return False
    sibling = problem.sibling[row]
    while sibling != row:
        may_swap = _may_swap(problem, solution, draft, enforced, row, sibling, metric)
        if may_swap and swap_roles(problem, solution, draft, enforced, row, sibling):
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def swap_roles(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, partner: int) -> bool:
    """Swap the nodes of siblings `row` and `partner`; return whether their children could follow, else undo all."""
    length_before, source = draft.transaction.length[0], solution.node[row]
    try_move(problem, solution, draft.transaction, row, solution.node[partner])
    try_move(problem, solution, draft.transaction, partner, source)
    if move_children(problem, solution, draft, enforced, row, length_before):
        return True
    undo_transaction(problem, solution, draft.transaction, length_before)
    return False


@kernel
def move_or_swap(problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, metric: int) -> bool:
    """Move `row` with its children, or swap its role with a sibling of less load of `metric`; return whether it could.

    Targets and siblings that the `enforced` rules allow are drawn with the same probability; NOWHERE as `metric` allows
    siblings of any load.
    """
    targets = problem.targets
    swaps = _count_partners(problem, solution, draft, enforced, row, metric)
    if targets.shape[0] + swaps == 0:
        return False
    for _ in range(QUICK_DRAWS):
        drawn = int(uniform(draft.rng) * (targets.shape[0] + swaps))
        if drawn >= targets.shape[0]:
            partner = _partner(problem, solution, draft, enforced, row, metric, drawn - targets.shape[0])
            return swap_roles(problem, solution, draft, enforced, row, partner)
        target = targets[drawn]
        if target != solution.node[row] and may_move(problem, solution, draft.extension_state, enforced, row, target):
            return move_to_with_children(problem, solution, draft, enforced, row, target)
    candidates = swaps
    chosen = NOWHERE
    for target in targets:
        if target != solution.node[row] and may_move(problem, solution, draft.extension_state, enforced, row, target):
            candidates += 1
            if takes_place(draft.rng, candidates):
                chosen = target
    if chosen != NOWHERE:
        return move_to_with_children(problem, solution, draft, enforced, row, chosen)
    if swaps == 0:
        return False
    index = int(uniform(draft.rng) * swaps)
    partner = _partner(problem, solution, draft, enforced, row, metric, index)
    return swap_roles(problem, solution, draft, enforced, row, partner)


@kernel
def _may_swap(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, sibling: int, metric: int
) -> bool:
    """Return whether `enforced` rules allow `row` to swap roles with `sibling`, of less load of `metric`.

    NOWHERE as `metric`: of any load.
    """
    target = solution.node[sibling]
    if target == NOWHERE or not problem.movable[sibling] or problem.role[sibling] == problem.role[row]:
        return False
    if metric != NOWHERE and problem.load[sibling, metric] >= problem.load[row, metric]:
        return False
    return is_allowed(problem, solution, draft.extension_state, enforced, proposed(solution, row, target, sibling))


@kernel
def _count_partners(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, metric: int
) -> int:
    """Return with how many siblings of less load of `metric` `row` may swap its role (`_may_swap`)."""
    count = 0
    sibling = problem.sibling[row]
    while sibling != row:
        count += _may_swap(problem, solution, draft, enforced, row, sibling, metric)
        sibling = problem.sibling[sibling]
    return count


@kernel
def _partner(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, row: int, metric: int, index: int
) -> int:
    """Return number `index`, from 0, of the siblings that `_count_partners` counts, or NOWHERE."""
    sibling = problem.sibling[row]
    while sibling != row:
        if _may_swap(problem, solution, draft, enforced, row, sibling, metric):
            if index == 0:
                return int(sibling)
            index -= 1
        sibling = problem.sibling[sibling]
    return NOWHERE
