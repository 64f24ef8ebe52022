"""Transactions: sequences of moves that are tried, compared and undone."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

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

PlacementGroups: TypeAlias = Int
"""(m,) number of the group of each of m rows to place; rows of a group are consecutive, and placed all or not at all.
NOWHERE: the row is placed by itself."""
QUICK_DRAWS = 8
"""Random targets tried before all targets are checked."""


class Transaction(NamedTuple):
    """The moves of a transaction, in order: rows with the nodes that they leave and reach, which may be NOWHERE."""

    row: Int
    source: Int
    target: Int
    length: Int
    """(1,) number of moves, which are the first entries of the other arrays."""


def new_transaction(most_moves: int) -> Transaction:
    """Return an empty transaction that can hold `most_moves` moves."""
    row, source, target = (np.empty(most_moves, np.int64) for _ in range(3))
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
    """Return the first of a few random other nodes that enforced rules and constraints allow `row`, or NOWHERE."""
    targets = problem.targets
    if targets.shape[0] == 0:
        return NOWHERE
    for _ in range(QUICK_DRAWS):
        target = targets[int(uniform(rng) * targets.shape[0])]
        if target != solution.node[row] and may_move(problem, solution, extension_state, enforced, row, target):
            return int(target)
    return NOWHERE


@kernel(inline=True)
def takes_place(rng: Stream, candidates: int) -> bool:
    """Return whether the last one of `candidates` so far replaces the chosen one, so that all are equally likely."""
    return bool(uniform(rng) * candidates < 1.0)


@kernel
def random_target(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, row: int, rng: Stream
) -> int:
    """Return a random other node that all enforced rules and all constraints allow for `row`, or NOWHERE."""
    chosen, source = quick_target(problem, solution, extension_state, enforced, row, rng), solution.node[row]
    # without a free budget of moves, no node is allowed
    if chosen != NOWHERE or (source != NOWHERE and budget_that_holds(problem, solution, row) != NO_REFUSAL):
        return chosen
    candidates = 0
    for target in problem.targets:
        if target == source or capacity.refuses(problem, solution, enforced, row, target):
            continue  # most nodes are too full where a few random ones are
        if may_move(problem, solution, extension_state, enforced, row, target):
            candidates += 1
            if takes_place(rng, candidates):
                chosen = target
    return int(chosen)


@kernel
def last_target(
    problem: Problem, solution: Solution, extension_state: ExtensionState, enforced: RuleMask, row: int
) -> int:
    """Return the newest node that all enforced rules and all constraints allow for `row`, or NOWHERE."""
    for index in range(problem.targets.shape[0] - 1, -1, -1):
        target = problem.targets[index]
        if may_move(problem, solution, extension_state, enforced, row, target):
            return int(target)
    return NOWHERE


@kernel
def _append(solution: Solution, transaction: Transaction, row: int, target: int) -> None:
    """Append the move of `row` from its present node to `target` to the transaction; the move itself is made later."""
    end = transaction.length[0]
    transaction.row[end] = row
    transaction.source[end] = solution.node[row]
    transaction.target[end] = target
    transaction.length[0] += 1


@kernel
def try_move(problem: Problem, solution: Solution, transaction: Transaction, row: int, target: int) -> None:
    """Move replica `row` to `target` and append the move to the transaction."""
    _append(solution, transaction, row, target)
    move_row(problem, solution, row, target)


@kernel
def move_of(transaction: Transaction, entry: int) -> Proposal:
    """Return the move at position `entry` of the transaction."""
    return Proposal(transaction.row[entry], transaction.target[entry], NOWHERE, transaction.source[entry])


@kernel
def swap_entries(transaction: Transaction, first: int, second: int) -> None:
    """Exchange the moves at the positions `first` and `second` of the transaction."""
    for values in (transaction.row, transaction.source, transaction.target):
        values[first], values[second] = values[second], values[first]


@kernel
def has_moved(transaction: Transaction, row: int) -> bool:
    """Return whether the transaction has a move of replica `row`."""
    moved = False
    for entry in range(transaction.length[0]):
        moved = moved or transaction.row[entry] == row
    return bool(moved)


@kernel
def undo_transaction(problem: Problem, solution: Solution, transaction: Transaction, length: int) -> None:
    """Undo the last moves of the transaction until it has `length` moves."""
    for entry in range(transaction.length[0] - 1, length - 1, -1):
        move_row(problem, solution, transaction.row[entry], transaction.source[entry])
    transaction.length[0] = length


@kernel
def into_single_moves(solution: Solution, transaction: Transaction, moves: int) -> None:
    """Leave one move of each row in a transaction of `moves` moves that are undone, or none if the row came back.

    `moves` is passed since undoing has set the length of the transaction to 0.
    """
    length = 0
    for entry in range(moves):
        row, target = transaction.row[entry], transaction.target[entry]
        single = 0
        while single < length and transaction.row[single] != row:
            single += 1
        transaction.target[single] = target
        if single == length:
            transaction.row[single] = row
            transaction.source[single] = solution.node[row]
            length += 1
    different = 0
    for entry in range(length):
        if transaction.target[entry] != transaction.source[entry]:
            transaction.row[different] = transaction.row[entry]
            transaction.source[different] = transaction.source[entry]
            transaction.target[different] = transaction.target[entry]
            different += 1
    transaction.length[0] = different


@kernel
def try_with_terms(problem: Problem, solution: Solution, draft: Draft, row: int, target: int) -> None:
    """Move replica `row` to `target`, with the sums of extension terms, and append the move to the transaction."""
    _append(solution, draft.transaction, row, target)
    last = draft.transaction.length[0] - 1
    apply_with_terms(problem, solution, draft.extension_state, move_of(draft.transaction, last))


@kernel
def undo_tried_with_terms(problem: Problem, solution: Solution, draft: Draft, length: int) -> None:
    """Undo the last moves made by `try_with_terms`, with the sums of extension terms, until `length` moves are left."""
    for entry in range(draft.transaction.length[0] - 1, length - 1, -1):
        undo_with_terms(problem, solution, draft.extension_state, move_of(draft.transaction, entry))
    draft.transaction.length[0] = length


@kernel
def keep_transaction(transaction: Transaction, best: Transaction) -> None:
    """Copy the moves of `transaction` to `best`, which can hold as many."""
    for entry in range(transaction.length[0]):
        best.row[entry] = transaction.row[entry]
        best.source[entry] = transaction.source[entry]
        best.target[entry] = transaction.target[entry]
    best.length[0] = transaction.length[0]


@kernel
def redo_transaction(problem: Problem, solution: Solution, transaction: Transaction) -> None:
    """Make the moves of a transaction that are undone, without changing it."""
    for entry in range(transaction.length[0]):
        move_row(problem, solution, transaction.row[entry], transaction.target[entry])


@kernel
def has_capacity(solution: Solution, transaction: Transaction) -> bool:
    """Return whether the transaction can hold two moves of every row and two more, as an affinity move may need."""
    return bool(transaction.length[0] + 2 * solution.node.shape[0] + 2 <= transaction.row.shape[0])


@kernel
def place_in_turn(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    rows: Int,
    all_or_nothing: PlacementGroups,
    enforced: RuleMask,
    takes_last_node: bool,
    rng: Stream,
    transaction: Transaction,
) -> int:
    """Place `rows`, (m,), in turn by `enforced` rules, and return how many are placed; append to the transaction.

    `all_or_nothing`: (m,) groups that are placed as a whole; `takes_last_node`: whether to take the newest feasible
    node, and not a random one.
    """
    length_before = transaction.length[0]
    group = NOWHERE
    group_begin = length_before
    given_up = False
    for index in range(rows.shape[0]):
        if all_or_nothing[index] != group or group == NOWHERE:
            group = all_or_nothing[index]
            group_begin = transaction.length[0]
            given_up = False
        if given_up:
            continue
        if takes_last_node:
            target = last_target(problem, solution, extension_state, enforced, rows[index])
        else:
            target = random_target(problem, solution, extension_state, enforced, rows[index], rng)
        if target != NOWHERE:
            try_move(problem, solution, transaction, rows[index], target)
        elif group != NOWHERE:
            undo_transaction(problem, solution, transaction, group_begin)
            given_up = True
    return int(transaction.length[0] - length_before)


SHARE_FOR_ALL = 8
"""If more than an eighth of the rows moves, all sums are computed from scratch, which is faster."""
NO_ROWS: Int = np.zeros(0, np.int64)
"""No row was placed or dropped."""


@attrs.frozen(eq=False)
class Places:
    """Rows that are not on their origins."""

    rows: Int
    """(m,) ascending."""
    nodes: Int
    """(m,) the node of each, or NOWHERE."""

    def of(self, mask: Bool) -> Places:
        """Return the places of the rows whose entry of `mask`, (m,), is true."""
        return Places(self.rows[mask], self.nodes[mask])

    def among(self, rows: Int, origin: Int) -> Int:
        """Return the node of each replica of `rows`, (m,): its place, or else its entry in `origin`, (M,).

        `rows` is ascending and has all rows of these places.
        """
        nodes: Int = origin[rows]
        nodes[rows.searchsorted(self.rows)] = self.nodes
        return nodes


NO_PLACES = Places(NO_ROWS, NO_ROWS)
"""All rows are on their origins."""


def moved_rows(problem: Problem, solution: Solution, others: Int) -> Int:
    """Return the rows that are not on their origins, ascending.

    `others`: (n,) rows that an earlier search may have placed or dropped, which `solution.displaced` does not list.
    """
    displaced = solution.displaced[: solution.totals.displaced]
    if not len(others):
        return np.sort(displaced)
    others_elsewhere = others[solution.node[others] != problem.origin[others]]
    return merged(np.sort(displaced), others_elsewhere) if len(displaced) else others_elsewhere


def places_of(problem: Problem, solution: Solution, others: Int) -> Places:
    """Return the places of rows not on their origins; `others`: (n,) rows that an earlier search may have moved."""
    rows = moved_rows(problem, solution, others)
    return Places(rows, solution.node[rows])


def go_to(problem: Problem, solution: Solution, places: Places, others: Int) -> None:
    """Move the rows of `places` there, and all other rows that are elsewhere to their origins.

    `others`: (n,) rows that an earlier search may have placed or dropped.
    """
    rows = merged(moved_rows(problem, solution, others), places.rows)
    nodes = places.among(rows, problem.origin)
    if len(rows) * SHARE_FOR_ALL <= len(solution.node) or len(solution.journal):
        _move_all(problem, solution, rows, nodes)
        return
    solution.node[rows] = nodes
    take_over(solution, solution_from_scratch(problem, solution.node))


@kernel
def _move_all(problem: Problem, solution: Solution, rows: Int, nodes: Int) -> None:
    """Move each replica of `rows` to its node in `nodes`, (m,) each."""
    for index in range(rows.shape[0]):
        row = rows[index]
        if problem.leaving[row]:  # a departing end that was dropped: it is in no sum
            solution.node[row] = nodes[index]
        elif solution.node[row] != nodes[index]:
            move_row(problem, solution, row, nodes[index])
