"""Random attempts: sequences of proposals that are tried, compared and undone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import refusal
from plb.model.rules import NO_REFUSAL
from plb.state.arrays import Problem, Solution

QUICK_DRAWS = 8
"""Random targets tried before all are looked at."""


class Transaction(NamedTuple):
    """The moves of an attempt, in order."""

    row: Int
    source: Int
    target: Int
    length: Int
    """(1,) entries that are valid."""


def new_transaction(capacity: int) -> Transaction:
    """Return an attempt without moves, with room for `capacity`."""
    row, source, target = (np.empty(capacity, np.int64) for _ in range(3))
    return Transaction(row, source, target, np.zeros(1, np.int64))


@kernel
def random_target(problem: Problem, solution: Solution, enforced: int, row: int, avoid: int, rng: Stream) -> int:
    """Return a node drawn uniformly from those that every enforced rule allows for `row`, or NOWHERE.

    Parameters
    ----------
    avoid
        A node that does not count, or NOWHERE.
    """
    targets = problem.targets
    if targets.shape[0] == 0:
        return NOWHERE
    for _ in range(QUICK_DRAWS):
        target = targets[int(uniform(rng) * targets.shape[0])]
        if target != avoid and refusal(problem, solution, enforced, row, target, NOWHERE) == NO_REFUSAL:
            return int(target)
    chosen = NOWHERE
    seen = 0
    for target in targets:
        if target != avoid and refusal(problem, solution, enforced, row, target, NOWHERE) == NO_REFUSAL:
            seen += 1
            if uniform(rng) * seen < 1.0:
                chosen = target
    return int(chosen)


@kernel
def last_target(problem: Problem, solution: Solution, enforced: int, row: int) -> int:
    """Return the last node, in the order in which they were made, that every enforced rule allows, or NOWHERE."""
    for index in range(problem.targets.shape[0] - 1, -1, -1):
        target = problem.targets[index]
        if refusal(problem, solution, enforced, row, target, NOWHERE) == NO_REFUSAL:
            return int(target)
    return NOWHERE


@kernel
def try_move(problem: Problem, solution: Solution, transaction: Transaction, row: int, target: int) -> None:
    """Move `row` to `target` and note it in the attempt."""
    entry = transaction.length[0]
    transaction.row[entry] = row
    transaction.source[entry] = solution.node[row]
    transaction.target[entry] = target
    transaction.length[0] += 1
    apply_proposal(problem, solution, row, target, NOWHERE)


@kernel
def undo_transaction(problem: Problem, solution: Solution, transaction: Transaction, length: int) -> None:
    """Take the moves of the attempt back until `length` are left."""
    for entry in range(transaction.length[0] - 1, length - 1, -1):
        apply_proposal(problem, solution, transaction.row[entry], transaction.source[entry], NOWHERE)
    transaction.length[0] = length


@kernel
def keep_transaction(transaction: Transaction, best: Transaction) -> None:
    """Copy the attempt over the best one."""
    for entry in range(transaction.length[0]):
        best.row[entry] = transaction.row[entry]
        best.source[entry] = transaction.source[entry]
        best.target[entry] = transaction.target[entry]
    best.length[0] = transaction.length[0]


@kernel
def redo_transaction(problem: Problem, solution: Solution, best: Transaction) -> None:
    """Make the moves of the best attempt."""
    for entry in range(best.length[0]):
        apply_proposal(problem, solution, best.row[entry], best.target[entry], NOWHERE)


@kernel
def has_capacity(solution: Solution, transaction: Transaction) -> bool:
    """Tell whether the attempt can take a further move with all moves that may follow it."""
    return bool(transaction.length[0] + 2 * solution.node.shape[0] + 2 <= transaction.row.shape[0])


@kernel
def place_in_turn(
    problem: Problem,
    solution: Solution,
    rows: Int,
    all_or_nothing: Int,
    enforced: int,
    last: bool,
    rng: Stream,
    transaction: Transaction,
) -> int:
    """Place each of `rows` on a random node that fits; return how many found one.

    Parameters
    ----------
    all_or_nothing
        See `plb.search.placement.place_rows`.
    last
        Whether the last node that fits is taken, not a random one.
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
            target = last_target(problem, solution, enforced, rows[index])
        else:
            target = random_target(problem, solution, enforced, rows[index], NOWHERE, rng)
        if target != NOWHERE:
            try_move(problem, solution, transaction, rows[index], target)
        elif group != NOWHERE:
            undo_transaction(problem, solution, transaction, before)
            given_up = True
    return int(transaction.length[0] - begun)
