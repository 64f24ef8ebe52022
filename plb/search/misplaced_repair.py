"""Repair of replicas where they may not be: on a node that is not allowed, or in a crowded domain."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.constraints import affinity, exclusion
from plb.constraints.domains import others_leave_first, stands_wrongly
from plb.search.affinity_moves import bring_parent, lacks_child, move_children, move_with_children, rejoin
from plb.search.breaches import is_misplaced
from plb.search.extension_kernels import ExtensionState
from plb.search.preferred_swaps import move_or_swap
from plb.search.repair_lists import RepairState, listed_rows, note_moves
from plb.search.transactions import Transaction, has_capacity, undo_transaction
from plb.state.arrays import Problem, Solution

TRIES_TO_LEAVE = 8
"""Random nodes that are tried for a replica that has to leave its domain, if a node within it may be drawn."""


@kernel
def move_misplaced(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    prefers: bool,
    parents: bool,
    rng: Stream,
    state: RepairState,
) -> None:
    """Move misplaced replicas to allowed nodes, together with their children.

    Parameters
    ----------
    prefers
        Whether replicas without parent draw among moves and swaps.
    parents
        Whether a parent may move where its child cannot.
    """
    transaction, suspects = state.transaction, state.suspects
    index = 0
    while index < listed_rows(suspects):  # a move may add rows
        row = suspects.rows[index]
        index += 1
        placed = problem.movable[row] and solution.node[row] != NOWHERE
        if placed and is_misplaced(problem, solution, enforced, row) and has_capacity(solution, transaction):
            before = transaction.length[0]
            head = row
            moved = False
            if prefers and problem.parent_row[row] == NOWHERE and not exclusion.is_broken(problem, solution, row):
                moved = move_or_swap(problem, solution, extension_state, enforced, row, NOWHERE, rng, transaction)
            if not moved:
                moved = rejoin(problem, solution, extension_state, enforced, row, rng, transaction)
            if not moved and parents and problem.parent_row[row] != NOWHERE:
                head = problem.parent_row[row]
                moved = bring_parent(problem, solution, extension_state, enforced, row, rng, transaction)
            if moved and not move_children(
                problem, solution, extension_state, enforced, head, before, rng, transaction
            ):
                undo_transaction(problem, solution, transaction, before)
            note_moves(problem, solution, state, before)


@kernel
def _leave_domain(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    binding: int,
    level: int,
    row: int,
    rng: Stream,
    transaction: Transaction,
) -> None:
    """Move `row` out of its domain of a level; moves within it are allowed, but of no use."""
    before, here = transaction.length[0], problem.domain[solution.node[row], level]
    for _ in range(TRIES_TO_LEAVE):
        move_with_children(problem, solution, extension_state, binding, row, rng, transaction)
        if problem.domain[solution.node[row], level] != here:
            return
        undo_transaction(problem, solution, transaction, before)


@kernel
def leave_crowded_domains(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    repaired: int,
    binding: int,
    unusable_first: bool,
    rng: Stream,
    state: RepairState,
) -> None:
    """Move replicas out of domains with too many replicas of their partition.

    Parameters
    ----------
    unusable_first
        Whether replicas in unusable domains below a crowded one leave it before others, and if they cannot, no others
        in their place.
    """
    transaction, suspects = state.transaction, state.suspects
    for level in range(problem.domain.shape[1]):
        if not repaired >> problem.domain_rule[level] & 1:
            continue
        index = 0
        while index < listed_rows(suspects):  # a move may add rows
            row = suspects.rows[index]
            index += 1
            if not problem.movable[row]:
                continue
            if unusable_first and others_leave_first(problem, solution, level, row):
                continue
            if stands_wrongly(problem, solution, level, row) and has_capacity(solution, transaction):
                before = transaction.length[0]
                _leave_domain(problem, solution, extension_state, binding, level, row, rng, transaction)
                note_moves(problem, solution, state, before)


@kernel
def move_parents_without_child(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    rng: Stream,
    state: RepairState,
) -> None:
    """Move replicas of parents that a misplaced child has left alone to random nodes, with all children beside them."""
    suspects = state.suspects
    index = 0
    while index < listed_rows(suspects):  # a move may add rows
        row = suspects.rows[index]
        index += 1
        if solution.node[row] == NOWHERE or not affinity.is_broken(problem, solution, enforced, row):
            continue
        parent = problem.parent_row[row]
        this = parent
        while this != NOWHERE:
            settled = solution.node[this] != problem.origin[this]
            if not settled and lacks_child(problem, solution, row, this) and has_capacity(solution, state.transaction):
                begun = state.transaction.length[0]
                move_with_children(problem, solution, extension_state, enforced, this, rng, state.transaction)
                note_moves(problem, solution, state, begun)
            this = problem.sibling[this]
            if this == parent:
                break
