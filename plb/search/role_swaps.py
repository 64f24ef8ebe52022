"""Swaps of roles in repairs: of two siblings, or of a replica and a sibling that has less load."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.search.affinity_moves import move_children
from plb.search.extension_kernels import ExtensionState
from plb.search.transactions import Transaction, is_allowed, try_move, undo_transaction
from plb.state.arrays import Problem, Solution
from plb.state.proposal import proposed


@kernel
def swap_with_lighter(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    row: int,
    metric: int,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Swap `row` with a sibling of another role and less load of `metric`; return whether that was possible."""
    if not problem.movable[row]:
        return False
    other = problem.sibling[row]
    while other != row:
        place = solution.node[other]
        lighter = problem.load[other, metric] < problem.load[row, metric]
        swappable = place != NOWHERE and problem.movable[other] and problem.role[other] != problem.role[row]
        if (
            lighter
            and swappable
            and is_allowed(problem, solution, extension_state, enforced, proposed(solution, row, place, other))
            and swap_roles(problem, solution, extension_state, enforced, row, other, rng, transaction)
        ):
            return True
        other = problem.sibling[other]
    return False


@kernel
def swap_roles(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    row: int,
    partner: int,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Swap the nodes of two siblings, and bring their children along; return whether all could follow."""
    before, here = transaction.length[0], solution.node[row]
    try_move(problem, solution, transaction, row, solution.node[partner])
    try_move(problem, solution, transaction, partner, here)
    if move_children(problem, solution, extension_state, enforced, row, before, rng, transaction):
        return True
    undo_transaction(problem, solution, transaction, before)
    return False
