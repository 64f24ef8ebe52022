"""Repair of replicas where they may not be: on a node that is not allowed, or in a crowded domain."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel, uniform
from plb.constraints import affinity, exclusion
from plb.constraints.capacity import RULE, excess_of
from plb.constraints.domains import breaks_level, others_leave_first
from plb.model.rules import RuleMask
from plb.search.repair.affinity_moves import bring_parent, lacks_child, move_children, move_with_children, rejoin
from plb.search.repair.applications import holds_reservation, relieve_by
from plb.search.repair.breaches import is_misplaced
from plb.search.repair.lists import (
    ROWS,
    Attempt,
    RepairState,
    RowsOnNodes,
    list_rows_on_nodes,
    next_listed_node,
    note_moves,
)
from plb.search.repair.swaps import move_or_swap, swap_with_lighter
from plb.search.transactions import Draft, has_capacity, takes_place, undo_transaction
from plb.state.arrays import Problem, Solution


@kernel
def unload(problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, state: RepairState) -> None:
    """Move random replicas off each overloaded node until it is within its limits or no replica can leave."""
    node = next_listed_node(state.suspects, NOWHERE)
    while node != NOWHERE:
        for metric in range(problem.limit.shape[1] if problem.watched[node] else 0):
            while excess_of(problem, solution, node, metric) > 0:
                list_rows_on_nodes(solution.node, state.on_nodes)
                length_before = state.transaction.length[0]
                if not _take_load_off(problem, solution, draft, attempt, node, metric, state):
                    break
                note_moves(problem, solution, state, length_before)
        node = next_listed_node(state.suspects, node)


@kernel
def _take_load_off(
    problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, node: int, metric: int, state: RepairState
) -> bool:
    """Reduce the load of `metric` on `node` by one move or swap of roles; return whether that was possible."""
    enforced = attempt.binding
    row = _random_leaver(problem, solution, enforced, node, metric, draft.rng, state.on_nodes)
    if row == NOWHERE or not has_capacity(solution, state.transaction):
        return False
    if attempt.prefers_swaps and move_or_swap(problem, solution, draft, enforced, row, metric):
        return True
    if relieve_by(problem, solution, draft, enforced, row, metric, state):
        return True
    if _relieve(problem, solution, draft, enforced, node, metric, False, state):
        return True
    return attempt.may_swap and _relieve(problem, solution, draft, enforced, node, metric, True, state)


@kernel
def _random_leaver(
    problem: Problem, solution: Solution, enforced: RuleMask, node: int, metric: int, rng: Stream, on_nodes: RowsOnNodes
) -> int:
    """Return a random replica that may leave `node` to reduce its load of `metric`, or NOWHERE."""
    chosen = NOWHERE
    candidates = 0
    row = on_nodes.first[node]
    while row != NOWHERE:
        if _may_leave(problem, solution, enforced, row, metric):
            candidates += 1
            if takes_place(rng, candidates):
                chosen = row
        row = on_nodes.following[row]
    return int(chosen)


@kernel
def _may_leave(problem: Problem, solution: Solution, enforced: RuleMask, row: int, metric: int) -> bool:
    """Return whether `row` may move to relieve its node of `metric`: it is movable, and has load or a reservation.

    Where capacity is not `enforced`, a replica that has moved stays: otherwise it could move back and forth.
    """
    must_stay = not enforced >> RULE & 1 and solution.node[row] != problem.origin[row]
    is_heavy = problem.load[row, metric] > 0 or holds_reservation(problem, row, metric)
    return bool(problem.movable[row] and is_heavy and not must_stay)


@kernel
def _relieve(
    problem: Problem,
    solution: Solution,
    draft: Draft,
    enforced: RuleMask,
    node: int,
    metric: int,
    swaps_roles: bool,
    state: RepairState,
) -> bool:
    """Move the first replica that can leave `node` by `enforced` rules, from a random one on; return whether one could.

    It has to reduce the load of `metric`. With `swaps_roles` it swaps its role with a lighter sibling.
    """
    on_nodes = state.on_nodes
    row_count = 0
    row = on_nodes.first[node]
    while row != NOWHERE:
        row_count += 1
        row = on_nodes.following[row]
    row = on_nodes.first[node]
    for _ in range(int(uniform(draft.rng) * row_count)):
        row = on_nodes.following[row]
    for _ in range(row_count):
        if swaps_roles:
            relieved = swap_with_lighter(problem, solution, draft, enforced, row, metric)
        else:
            relieved = _may_leave(problem, solution, enforced, row, metric) and relieve_by(
                problem, solution, draft, enforced, row, metric, state
            )
        if relieved:
            return True
        row = on_nodes.following[row]
        if row == NOWHERE:
            row = on_nodes.first[node]
    return False


TRIES_TO_LEAVE = 8
"""Random nodes that are tried for a replica that has to leave its domain, if a node within it may be drawn."""


@kernel
def move_misplaced(problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, state: RepairState) -> None:
    """Move misplaced replicas to allowed nodes, together with their children; replicas with a parent swap no roles."""
    suspects, enforced = state.suspects, attempt.binding
    index = 0
    while index < suspects.length[ROWS]:  # a move may add rows
        row = suspects.rows[index]
        index += 1
        placed = problem.movable[row] and solution.node[row] != NOWHERE
        if placed and is_misplaced(problem, solution, enforced, row) and has_capacity(solution, draft.transaction):
            length_before = draft.transaction.length[0]
            moved_row = row
            moved = False
            is_without_parent = problem.parent_row[row] == NOWHERE
            if attempt.prefers_swaps and is_without_parent and not exclusion.is_broken(problem, solution, row):
                moved = move_or_swap(problem, solution, draft, enforced, row, NOWHERE)
            if not moved:
                moved = rejoin(problem, solution, draft, enforced, row)
            if not moved and attempt.moves_parents and not is_without_parent:
                moved_row = problem.parent_row[row]
                moved = bring_parent(problem, solution, draft, enforced, row)
            if moved and not move_children(problem, solution, draft, enforced, moved_row, length_before):
                undo_transaction(problem, solution, draft.transaction, length_before)
            note_moves(problem, solution, state, length_before)


@kernel
def _leave_domain(problem: Problem, solution: Solution, draft: Draft, binding: RuleMask, level: int, row: int) -> None:
    """Move replica `row` with its children to a random node outside its domain of `level`, if a few draws find one."""
    length_before, domain = draft.transaction.length[0], problem.domain[solution.node[row], level]
    for _ in range(TRIES_TO_LEAVE):
        move_with_children(problem, solution, draft, binding, row)
        if problem.domain[solution.node[row], level] != domain:
            return
        undo_transaction(problem, solution, draft.transaction, length_before)


@kernel
def leave_crowded_domains(
    problem: Problem, solution: Solution, draft: Draft, attempt: Attempt, state: RepairState
) -> None:
    """Move replicas out of domains with too many replicas of their partition, for the rules that `attempt` repairs."""
    suspects = state.suspects
    for level in range(problem.domain.shape[1]):
        if not attempt.repaired >> problem.domain_rule[level] & 1:
            continue
        index = 0
        while index < suspects.length[ROWS]:  # a move may add rows
            row = suspects.rows[index]
            index += 1
            if not problem.movable[row]:
                continue
            if attempt.unusable_first and others_leave_first(problem, solution, level, row):
                continue
            if breaks_level(problem, solution, level, row) and has_capacity(solution, draft.transaction):
                length_before = draft.transaction.length[0]
                _leave_domain(problem, solution, draft, attempt.binding, level, row)
                note_moves(problem, solution, state, length_before)


@kernel
def move_parents_without_child(
    problem: Problem, solution: Solution, draft: Draft, enforced: RuleMask, state: RepairState
) -> None:
    """Move replicas of parents that a misplaced child has left alone to random nodes, with all their children."""
    suspects = state.suspects
    index = 0
    while index < suspects.length[ROWS]:  # a move may add rows
        row = suspects.rows[index]
        index += 1
        if solution.node[row] == NOWHERE or not affinity.is_broken(problem, solution, enforced, row):
            continue
        first_parent_row = problem.parent_row[row]
        parent_row = first_parent_row
        while parent_row != NOWHERE:
            has_moved = solution.node[parent_row] != problem.origin[parent_row]
            if (
                not has_moved
                and lacks_child(problem, solution, row, parent_row)
                and has_capacity(solution, state.transaction)
            ):
                length_before = state.transaction.length[0]
                move_with_children(problem, solution, draft, enforced, parent_row)
                note_moves(problem, solution, state, length_before)
            parent_row = problem.sibling[parent_row]
            if parent_row == first_parent_row:
                break
