"""Placement of new replicas again that found no node: together with new replicas that stand in their way.

These are removed, and placed in turn after those without a node (ruin and recreate: Schrimpf et al., Journal of
Computational Physics 159, 2000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import Stream, kernel, uniform
from plb.constraints.capacity import is_full_for
from plb.evaluation.proposals import refusal_of_place
from plb.model.rules import NO_REFUSAL, RuleMask
from plb.search.extension_kernels import ExtensionState
from plb.search.transactions import PlacementGroups, Transaction, place_in_turn, try_move, undo_transaction
from plb.state.arrays import Problem, Solution

CLEARED_NODES = 4
"""Nodes that are cleared of new replicas for each one without a node."""
LEAST_WORK = 1000
"""Replicas that may be placed again, however few are new; else twice as many as are new."""


class Retry(NamedTuple):
    """The m new rows of a placement, and scratch for what is placed again."""

    rows: Int
    """(m,)"""
    all_or_nothing: PlacementGroups
    """(m,) see `plb.search.placement.place_rows`."""
    position: Int
    """(M,) position of each row in `rows`, or NOWHERE."""
    first: Int
    """(N,) position of a new row on each node, or NOWHERE."""
    following: Int
    """(m,) position of another one on the node of each, or NOWHERE."""
    load: Int
    """(N, R) load of the new rows on each node, quanta."""
    is_chosen: Bool
    """(m,) whether the row is placed again."""
    chosen: Int
    """(m,) these rows, those without a node first."""
    chosen_together: Int
    """(m,) their `all_or_nothing`."""


def new_retry(problem: Problem, rows: Int, all_or_nothing: PlacementGroups) -> Retry:
    """Return the record of a placement of `rows` in groups `all_or_nothing`, (m,) each, none of which is chosen yet."""
    position = np.full(len(problem.origin), NOWHERE)
    position[rows] = np.arange(len(rows))
    nodes = len(problem.limit)
    return Retry(
        rows,
        all_or_nothing,
        position,
        np.full(nodes, NOWHERE),
        np.full(len(rows), NOWHERE),
        np.zeros((nodes, problem.load.shape[1]), np.int64),
        np.zeros(len(rows), np.bool_),
        rows.copy(),
        rows.copy(),
    )


@kernel
def retry(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    record: Retry,
    enforced: RuleMask,
    tries: int,
    rng: Stream,
    transaction: Transaction,
) -> None:
    """Place rows without a node again by `enforced` rules, with other new rows, at most `tries` times.

    A try that places no more rows than it removed is undone. `transaction`: scratch that can hold 2 m moves.
    """
    work = max(LEAST_WORK, 2 * record.rows.shape[0])
    for _ in range(tries):
        unplaced = _choose(problem, solution, record, enforced, rng)
        count = _list_chosen(solution, record)
        work -= count
        if unplaced == 0 or work < 0:
            return
        transaction.length[0] = 0
        for row in record.chosen[:count]:
            if solution.node[row] != NOWHERE:
                try_move(problem, solution, transaction, row, NOWHERE)
        removed = transaction.length[0]
        rows, groups = record.chosen[:count], record.chosen_together[:count]
        placed = place_in_turn(problem, solution, extension_state, rows, groups, enforced, False, rng, transaction)
        if placed <= removed:
            undo_transaction(problem, solution, transaction, 0)


@kernel
def _choose(problem: Problem, solution: Solution, record: Retry, enforced: RuleMask, rng: Stream) -> int:
    """Mark in `record` the rows that are placed again, and return how many rows have no node."""
    _sum_up(problem, solution, record)
    unplaced = 0
    for position in range(record.rows.shape[0]):
        row = record.rows[position]
        if solution.node[row] == NOWHERE:
            unplaced += 1
            _choose_siblings(problem, record, row)
            _choose_neighbours(problem, solution, record, enforced, row, rng)
    _complete_groups(record)
    return unplaced


@kernel
def _sum_up(problem: Problem, solution: Solution, record: Retry) -> None:
    """List the new rows on each node, and add up their loads; choose none, or all if some row is related."""
    record.first[:] = NOWHERE
    record.load[:] = 0
    record.is_chosen[:] = problem.related  # a child is placed after its parent
    for position in range(record.rows.shape[0]):
        row = record.rows[position]
        node = solution.node[row]
        if node != NOWHERE:
            record.following[position] = record.first[node]
            record.first[node] = position
            for metric in range(record.load.shape[1]):
                record.load[node, metric] += problem.load[row, metric]


@kernel
def _choose_siblings(problem: Problem, record: Retry, row: int) -> None:
    """Mark the new rows of the partition of replica `row`, itself among them, to be placed again."""
    member = row
    while True:
        if record.position[member] != NOWHERE:
            record.is_chosen[record.position[member]] = True
        member = problem.sibling[member]
        if member == row:
            return


@kernel
def _choose_neighbours(
    problem: Problem, solution: Solution, record: Retry, enforced: RuleMask, row: int, rng: Stream
) -> None:
    """Mark the new rows on a few nodes that could take `row` without them, and their new siblings.

    Siblings that stayed could break a rule, such as the spread over domains, if a row finds no node again.
    """
    targets = problem.targets.shape[0]
    begin = int(uniform(rng) * targets)
    nodes_left = CLEARED_NODES
    for step in range(targets):
        target = problem.targets[(begin + step) % targets]
        if is_full_for(problem, solution, row, record.load[target], target):
            continue
        if refusal_of_place(problem, solution, enforced, row, target) != NO_REFUSAL:
            continue
        position = record.first[target]
        while position != NOWHERE:
            _choose_siblings(problem, record, record.rows[position])
            position = record.following[position]
        nodes_left -= 1
        if nodes_left == 0:
            return


@kernel
def _complete_groups(record: Retry) -> None:
    """Mark all rows of each all-or-nothing group of which a row is marked."""
    groups, is_chosen = record.all_or_nothing, record.is_chosen
    for position in range(1, is_chosen.shape[0]):
        if groups[position] != NOWHERE and groups[position] == groups[position - 1]:
            is_chosen[position] |= is_chosen[position - 1]
    for position in range(is_chosen.shape[0] - 1, 0, -1):
        if groups[position] != NOWHERE and groups[position] == groups[position - 1]:
            is_chosen[position - 1] |= is_chosen[position]


@kernel
def _list_chosen(solution: Solution, record: Retry) -> int:
    """Write the chosen rows to `record.chosen`, those without a node first, and return how many there are."""
    count = 0
    for is_placed in (False, True):
        for position in range(record.rows.shape[0]):
            row = record.rows[position]
            if record.is_chosen[position] and (solution.node[row] != NOWHERE) == is_placed:
                record.chosen[count] = row
                record.chosen_together[count] = record.all_or_nothing[position]
                count += 1
    return count
