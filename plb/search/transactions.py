"""Transactions: sequences of moves that are tried, compared and undone."""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import Stream, kernel, uniform
from plb.constraints import capacity
from plb.constraints.move_budgets import budget_that_holds
from plb.energy.from_scratch import solution_from_scratch, take_over
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import refusal
from plb.model.rules import NO_REFUSAL, RuleMask
from plb.search.extension_kernels import ExtensionState, apply_with_terms, is_refused, undo_with_terms
from plb.state.arrays import Problem, Proposal, Solution, proposed
from plb.state.replica_table import merged

QUICK_DRAWS = 8
"""Random targets tried before all targets are checked."""


class Transaction(NamedTuple):
    """The moves of a transaction, in order."""

    row: Int
    source: Int
    target: Int
    length: Int
    """(1,) number of valid entries."""


def new_transaction(most: int) -> Transaction:
    """Return an empty transaction for up to `most` moves."""
    row, source, target = (np.empty(most, np.int64) for _ in range(3))
    return Transaction(row, source, target, np.zeros(1, np.int64))


class Draft(NamedTuple):
    """Moves that are tried, within kernels."""

    extension_state: ExtensionState
    """The extensions, whose constraints bind the moves."""
    rng: Stream
    transaction: Transaction
    """Where the moves are noted."""


@kernel
def is_allowed(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, proposal: Proposal
) -> bool:
    """Return whether no enforced rule and no extension constraint refuses a proposal."""
    if refusal(problem, solution, enforced, proposal) != NO_REFUSAL:
        return False
    return not is_refused(problem, solution, extension_state, proposal)


@kernel
def may_move(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, row: int, target: int
) -> bool:
    """Return whether no enforced rule and no extension constraint refuses to move one row to `target`."""
    return is_allowed(problem, solution, extension_state, enforced, proposed(solution, row, target, NOWHERE))


@kernel
def quick_target(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, row: int, rng: Stream
) -> int:
    """Return the first of a few random other nodes that every rule and constraint allows for `row`, or NOWHERE."""
    targets = problem.targets
    if targets.shape[0] == 0:
        return NOWHERE
    for _ in range(QUICK_DRAWS):
        target = targets[int(uniform(rng) * targets.shape[0])]
        if target != solution.node[row] and may_move(problem, solution, extension_state, enforced, row, target):
            return int(target)
    return NOWHERE


@kernel(inline=True)
def takes_place(rng: Stream, seen: int) -> bool:
    """Return whether the last of `seen` candidates replaces the chosen one, so that all are equally likely."""
    return bool(uniform(rng) * seen < 1.0)


@kernel
def random_target(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, row: int, rng: Stream
) -> int:
    """Return a random other node of those that every rule and constraint allows for `row`, or NOWHERE."""
    chosen, here = quick_target(problem, solution, extension_state, enforced, row, rng), solution.node[row]
    if chosen != NOWHERE or (here != NOWHERE and budget_that_holds(problem, solution, row) != NO_REFUSAL):
        return chosen
    seen = 0
    for target in problem.targets:
        if target == here or capacity.refuses(problem, solution, enforced, row, target):
            continue  # most nodes are too full where a few random ones are
        if may_move(problem, solution, extension_state, enforced, row, target):
            seen += 1
            if takes_place(rng, seen):
                chosen = target
    return int(chosen)


@kernel
def last_target(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, row: int
) -> int:
    """Return the most recently created node that every rule and constraint allows for `row`, or NOWHERE."""
    for index in range(problem.targets.shape[0] - 1, -1, -1):
        target = problem.targets[index]
        if may_move(problem, solution, extension_state, enforced, row, target):
            return int(target)
    return NOWHERE


@kernel
def _append(solution: Solution, transaction: Transaction, row: int, target: int) -> None:
    """Append the move of `row` from its present node to `target` to the transaction, before it is made."""
    entry = transaction.length[0]
    transaction.row[entry] = row
    transaction.source[entry] = solution.node[row]
    transaction.target[entry] = target
    transaction.length[0] += 1


@kernel
def try_move(problem: Problem, solution: Solution, transaction: Transaction, row: int, target: int) -> None:
    """Move `row` to `target` and append the move to the transaction."""
    _append(solution, transaction, row, target)
    move_row(problem, solution, row, target)


@kernel
def move_of(transaction: Transaction, entry: int) -> Proposal:
    """Return a move of the transaction."""
    return Proposal(transaction.row[entry], transaction.target[entry], NOWHERE, transaction.source[entry])


@kernel
def swap_entries(transaction: Transaction, first: int, second: int) -> None:
    """Exchange two moves of the transaction."""
    for values in (transaction.row, transaction.source, transaction.target):
        values[first], values[second] = values[second], values[first]


@kernel
def has_moved(transaction: Transaction, row: int) -> bool:
    """Return whether the transaction has a move of `row`."""
    moved = False
    for entry in range(transaction.length[0]):
        moved = moved or transaction.row[entry] == row
    return bool(moved)


@kernel
def undo_transaction(problem: Problem, solution: Solution, transaction: Transaction, length: int) -> None:
    """Undo moves of the transaction until `length` are left."""
    for entry in range(transaction.length[0] - 1, length - 1, -1):
        move_row(problem, solution, transaction.row[entry], transaction.source[entry])
    transaction.length[0] = length


@kernel
def into_single_moves(solution: Solution, transaction: Transaction, tried: int) -> None:
    """Leave one move for each moved row in an undone transaction of `tried` moves; rows that came back have none."""
    length = 0
    for entry in range(tried):
        row, target = transaction.row[entry], transaction.target[entry]
        place = 0
        while place < length and transaction.row[place] != row:
            place += 1
        transaction.target[place] = target
        if place == length:
            transaction.row[place] = row
            transaction.source[place] = solution.node[row]
            length += 1
    kept = 0
    for entry in range(length):
        if transaction.target[entry] != transaction.source[entry]:
            transaction.row[kept] = transaction.row[entry]
            transaction.source[kept] = transaction.source[entry]
            transaction.target[kept] = transaction.target[entry]
            kept += 1
    transaction.length[0] = kept


@kernel
def try_with_terms(problem: Problem, solution: Solution, draft: Draft, row: int, target: int) -> None:
    """Move `row` to `target`, with the sums of extension terms, and append the move to the transaction."""
    _append(solution, draft.transaction, row, target)
    last = draft.transaction.length[0] - 1
    apply_with_terms(problem, solution, draft.extension_state, move_of(draft.transaction, last))


@kernel
def undo_tried_with_terms(problem: Problem, solution: Solution, draft: Draft, length: int) -> None:
    """Undo moves of `try_with_terms` until `length` are left."""
    for entry in range(draft.transaction.length[0] - 1, length - 1, -1):
        undo_with_terms(problem, solution, draft.extension_state, move_of(draft.transaction, entry))
    draft.transaction.length[0] = length


@kernel
def keep_transaction(transaction: Transaction, best: Transaction) -> None:
    """Copy `transaction` to `best`."""
    for entry in range(transaction.length[0]):
        best.row[entry] = transaction.row[entry]
        best.source[entry] = transaction.source[entry]
        best.target[entry] = transaction.target[entry]
    best.length[0] = transaction.length[0]


@kernel
def redo_transaction(problem: Problem, solution: Solution, best: Transaction) -> None:
    """Apply the moves of the best transaction."""
    for entry in range(best.length[0]):
        move_row(problem, solution, best.row[entry], best.target[entry])


@kernel
def has_capacity(solution: Solution, transaction: Transaction) -> bool:
    """Return whether the transaction can hold another move with its affinity moves."""
    return bool(transaction.length[0] + 2 * solution.node.shape[0] + 2 <= transaction.row.shape[0])


@kernel
def place_in_turn(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    rows: Int,
    all_or_nothing: Int,
    enforced: RuleMask,
    last: bool,
    rng: Stream,
    transaction: Transaction,
) -> int:
    """Place each of `rows` on a random feasible node, or the `last` one; return the number of placed rows.

    `all_or_nothing`: see `plb.search.placement.place_rows`.
    """
    begun = transaction.length[0]
    group = NOWHERE
    before = begun
    given_up = False
    for index in range(rows.shape[0]):
        if all_or_nothing[index] != group or group == NOWHERE:
            group = all_or_nothing[index]
            before = transaction.length[0]
            given_up = False
        if given_up:
            continue
        if last:
            target = last_target(problem, solution, extension_state, enforced, rows[index])
        else:
            target = random_target(problem, solution, extension_state, enforced, rows[index], rng)
        if target != NOWHERE:
            try_move(problem, solution, transaction, rows[index], target)
        elif group != NOWHERE:
            undo_transaction(problem, solution, transaction, before)
            given_up = True
    return int(transaction.length[0] - begun)


SHARE_FOR_ALL = 8
"""If more than one row in so many moves, all sums are computed from scratch, which is faster."""
NO_ROWS: Int = np.zeros(0, np.int64)
"""No row was placed or dropped."""


@attrs.frozen(eq=False)
class Places:
    """Rows that are not on their origins."""

    rows: Int
    """(m,) ascending."""
    nodes: Int
    """(m,) the node of each, or NOWHERE."""

    def of(self, chosen: Bool) -> Places:
        """Return the places of some of the rows, given by a mask, (m,)."""
        return Places(self.rows[chosen], self.nodes[chosen])

    def among(self, rows: Int, origin: Int) -> Int:
        """Return the nodes of rows, (m,), among which are all of these; the others are on their `origin`, (M,)."""
        nodes: Int = origin[rows]
        nodes[rows.searchsorted(self.rows)] = self.nodes
        return nodes


NO_PLACES = Places(NO_ROWS, NO_ROWS)
"""All rows are on their origins."""


def moved_rows(problem: Problem, solution: Solution, others: Int) -> Int:
    """Return the rows that are not on their origins, ascending; `others` may have been placed or dropped."""
    displaced = solution.displaced[: solution.totals.displaced]
    if not len(others):
        return np.sort(displaced)
    elsewhere = others[solution.node[others] != problem.origin[others]]
    return merged(np.sort(displaced), elsewhere) if len(displaced) else elsewhere


def places_of(problem: Problem, solution: Solution, others: Int) -> Places:
    """Return the present places; `others` as for `moved_rows`."""
    rows = moved_rows(problem, solution, others)
    return Places(rows, solution.node[rows])


def go_to(problem: Problem, solution: Solution, places: Places, others: Int) -> None:
    """Move the rows to these places, and all that are not among them to their origins; `others` as above."""
    rows = merged(moved_rows(problem, solution, others), places.rows)
    nodes = places.among(rows, problem.origin)
    if len(rows) * SHARE_FOR_ALL <= len(solution.node) or len(solution.journal):
        _move_all(problem, solution, rows, nodes)
        return
    solution.node[rows] = nodes
    take_over(solution, solution_from_scratch(problem, solution.node))


@kernel
def _move_all(problem: Problem, solution: Solution, rows: Int, nodes: Int) -> None:
    """Move each of `rows` to its node of `nodes`."""
    for index in range(rows.shape[0]):
        row = rows[index]
        if problem.leaving[row]:  # a departing end that was dropped: it is in no sum
            solution.node[row] = nodes[index]
        elif solution.node[row] != nodes[index]:
            move_row(problem, solution, row, nodes[index])
