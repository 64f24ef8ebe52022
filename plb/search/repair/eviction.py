"""Eviction: existing replicas move to free capacity for new ones that fit nowhere (docs/service-fabric.md, Placement).

New affinity children are tried first, together, after random moves of their parents. Then each new replica is tried
alone, after other replicas have moved off a node.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform
from plb.constraints import application_capacity, scale_out
from plb.constraints.affinity import AFFINITY_CHILD
from plb.constraints.capacity import exceeds_with_reservations, is_full_for
from plb.energy.terms import present_energy
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import refusal_of_place
from plb.model.rules import NO_REFUSAL, RuleMask
from plb.search.extension_kernels import ExtensionState
from plb.search.repair.affinity_moves import move_with_children
from plb.search.repair.lists import RowsOnNodes, list_rows_on_nodes, new_rows_on_nodes
from plb.search.transactions import (
    Draft,
    PlacementGroups,
    Transaction,
    has_capacity,
    keep_transaction,
    may_move,
    new_transaction,
    place_in_turn,
    redo_transaction,
    takes_place,
    try_move,
    undo_transaction,
)
from plb.state.arrays import Problem, Solution

ROUNDS = 3
"""Most times that evictions are tried for a replica: those for others may have helped."""
MOST_SHIFTS = 3
"""Random moves of parents in one attempt to place their children."""


def evict(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    rows: Int,
    all_or_nothing: PlacementGroups,
    enforced: RuleMask,
    slots: int,
    tries: int,
    rng: Stream,
) -> None:
    """Place in `solution` the replicas `rows`, (m,), for which moves of existing replicas free enough capacity.

    `enforced`: rules that bind all moves; `slots`: largest number of displaced replicas; `tries`: random moves of
    parents; each row has 5 times as many; `all_or_nothing`: (m,) groups of rows that are placed as a whole.
    """
    capacity = 8 * len(solution.node) + 8
    transaction, best = new_transaction(capacity), new_transaction(capacity)
    is_child = problem.affinity[rows] == AFFINITY_CHILD
    if is_child.any():
        children = rows[is_child], all_or_nothing[is_child]
        _try_shifts(problem, solution, extension_state, *children, enforced, slots, tries, rng, transaction, best)
    load, at_start = _movable_load(problem), new_rows_on_nodes(problem)
    list_rows_on_nodes(problem.origin, at_start)

    def place(row: int) -> list[tuple[int, int]]:
        """Place `row`; return its moves, each as a row and its node before the move; none if it found no place."""
        _try_evictions(
            problem, solution, extension_state, at_start, load, row, enforced, slots, tries * 5, rng, transaction, best
        )
        moves_of_row = slice(best.length[0] if solution.node[row] != NOWHERE else 0)
        return [*zip(best.row[moves_of_row].tolist(), best.source[moves_of_row].tolist(), strict=True)]

    for _ in range(ROUNDS):
        unplaced = solution.node[rows] == NOWHERE
        groups = zip(all_or_nothing[unplaced].tolist(), rows[unplaced].tolist(), strict=True)
        for group, members in groupby(groups, key=itemgetter(0)):
            moves: list[tuple[int, int]] = []
            for _, row in members:
                moves_of_row = place(row)
                moves += moves_of_row
                if not moves_of_row and group != NOWHERE:
                    for moved, source in reversed(moves):
                        move_row(problem, solution, moved, source)
                    break
        if np.array_equal(unplaced, solution.node[rows] == NOWHERE):
            break


def _movable_load(problem: Problem) -> Int:
    """Return the load of the movable replicas on each node before the search, (N, R) quanta."""
    rows = np.flatnonzero(problem.movable & (problem.origin != NOWHERE))
    load = np.zeros((len(problem.limit), problem.load.shape[1]), np.int64)
    np.add.at(load, problem.origin[rows], problem.load[rows])
    return load


@kernel
def _try_shifts(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    rows: Int,
    all_or_nothing: PlacementGroups,
    enforced: RuleMask,
    slots: int,
    tries: int,
    rng: Stream,
    transaction: Transaction,
    best: Transaction,
) -> None:
    """Move random parents of `rows`, (m,), place `rows` after each move; keep the attempt of `tries` that places most.

    Ties go to the lowest energy. `slots`: largest number of displaced replicas; `transaction`, `best`: scratch.
    """
    most_placed = 0
    lowest_energy = np.inf
    draft = Draft(extension_state, rng, transaction)
    for _ in range(tries):
        for _ in range(MOST_SHIFTS):
            row = _random_parent(problem, solution, rows[int(uniform(rng) * rows.shape[0])], rng)
            if row == NOWHERE:
                continue
            length_before = transaction.length[0]
            if not move_with_children(problem, solution, draft, enforced, row):
                continue
            if solution.totals.displaced > slots:
                undo_transaction(problem, solution, transaction, length_before)
                continue
            length_before = transaction.length[0]
            placed = place_in_turn(
                problem, solution, extension_state, rows, all_or_nothing, enforced, False, rng, transaction
            )
            energy = present_energy(problem, solution)
            if placed > most_placed or (placed == most_placed and most_placed > 0 and energy < lowest_energy):
                most_placed = placed
                lowest_energy = energy
                keep_transaction(transaction, best)
            undo_transaction(problem, solution, transaction, length_before)
        undo_transaction(problem, solution, transaction, 0)
    if most_placed > 0:
        redo_transaction(problem, solution, best)


@kernel
def _random_parent(problem: Problem, solution: Solution, row: int, rng: Stream) -> int:
    """Return a random movable replica of the parent partition of replica `row`, or NOWHERE."""
    chosen = NOWHERE
    candidates = 0
    parent_row = problem.parent_row[row]
    member = parent_row
    while True:
        if problem.movable[member] and solution.node[member] != NOWHERE:
            candidates += 1
            if takes_place(rng, candidates):
                chosen = member
        member = problem.sibling[member]
        if member == parent_row:
            return int(chosen)


@kernel
def _try_evictions(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    at_start: RowsOnNodes,
    load: Int,
    row: int,
    enforced: RuleMask,
    slots: int,
    tries: int,
    rng: Stream,
    transaction: Transaction,
    best: Transaction,
) -> None:
    """Place replica `row` on a random node that others have left; keep the attempt of `tries` of lowest energy.

    `at_start`: the rows on each node before the search; `load`: (N, R) quanta of the movable ones; `slots`: largest
    number of displaced replicas; `best`: set to the moves of the kept attempt, or full without one; `transaction`:
    scratch.
    """
    lowest_energy = np.inf
    draft = Draft(extension_state, rng, transaction)
    best.length[0] = transaction.row.shape[0]
    if problem.targets.shape[0] == 0:
        return
    for _ in range(tries):
        target = problem.targets[int(uniform(rng) * problem.targets.shape[0])]
        if refusal_of_place(problem, solution, enforced, row, target) != NO_REFUSAL:
            continue
        if scale_out.refuses(problem, solution, enforced, row, target):
            continue
        if is_full_for(problem, solution, row, load[target], target):
            continue
        most_moves = best.length[0] - 1
        fits = _clear(problem, solution, draft, at_start, row, target, enforced, most_moves)
        fits = fits and solution.totals.displaced <= slots
        if fits and may_move(problem, solution, extension_state, enforced, row, target):
            try_move(problem, solution, transaction, row, target)
            energy = present_energy(problem, solution)
            if energy < lowest_energy:
                lowest_energy = energy
                keep_transaction(transaction, best)
        undo_transaction(problem, solution, transaction, 0)
    if lowest_energy < np.inf:
        redo_transaction(problem, solution, best)


@kernel
def _clear(
    problem: Problem,
    solution: Solution,
    draft: Draft,
    at_start: RowsOnNodes,
    row: int,
    target: int,
    enforced: RuleMask,
    most_moves: int,
) -> bool:
    """Move random replicas off `target`, in at most about `most_moves` moves by `enforced` rules, until `row` fits.

    Return whether it fits.
    """
    while _is_full(problem, solution, row, target, enforced):
        if draft.transaction.length[0] >= most_moves:
            return False
        leaver = _random_on(problem, solution, at_start, target, draft.rng)
        if leaver == NOWHERE or not has_capacity(solution, draft.transaction):
            return False
        if not move_with_children(problem, solution, draft, enforced, leaver):
            return False
    return True


@kernel
def _is_full(problem: Problem, solution: Solution, row: int, target: int, enforced: RuleMask) -> bool:
    """Return whether replica `row` would exceed a limit of `target` or, if `enforced`, of its application there."""
    if is_full_for(problem, solution, row, problem.load[NOWHERE], target):
        return True
    if problem.reserves and exceeds_with_reservations(problem, solution, row, NOWHERE, target):
        return True
    return application_capacity.is_full(problem, solution, enforced, row, target)


@kernel
def _random_on(problem: Problem, solution: Solution, at_start: RowsOnNodes, node: int, rng: Stream) -> int:
    """Return a random movable replica on `node` that was there before the search, or NOWHERE."""
    chosen = NOWHERE
    candidates = 0
    row = at_start.first[node]
    while row != NOWHERE:
        if problem.movable[row] and solution.node[row] == node:
            candidates += 1
            if takes_place(rng, candidates):
                chosen = row
        row = at_start.following[row]
    return int(chosen)
