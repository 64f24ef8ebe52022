"""Ejection chains: a replica moves to a node without room for it, and a replica of that node moves on.

A chain may end where it began, which exchanges replicas in a circle. The idea is that of Glover, "Ejection chains,
reference structures and alternating path methods for traveling salesman problems", Discrete Applied Mathematics 65,
1996.
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel, uniform
from plb.energy.rows_on_nodes import random_row_on
from plb.search.extension_kernels import ExtensionState
from plb.search.move_generation import Choice, costly_row
from plb.search.neighbourhoods import MOST_EJECTED, VICTIMS_TRIED, Scratch
from plb.search.transactions import (
    QUICK_DRAWS,
    Transaction,
    has_moved,
    may_move,
    quick_target,
    try_with_terms,
    undo_tried_with_terms,
)
from plb.state.arrays import Problem, Solution, are_siblings


@kernel
def make_ejection_chain(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    extension_state: ExtensionState,
    scratch: Scratch,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Move a random replica to a random node, and what has to make room for it; return whether all found a place.

    The moves begin at entry 0 of the transaction. A moving replica is on no node until it has its place.
    """
    row = costly_row(problem, solution, choice, extension_state, rng)
    start = solution.node[row]
    target = problem.targets[int(uniform(rng) * problem.targets.shape[0])]
    if start in (target, NOWHERE):
        return False
    try_with_terms(problem, solution, extension_state, transaction, row, NOWHERE)
    for ejected in range(MOST_EJECTED + 1):
        scratch.asked[0] += 1
        if may_move(problem, solution, extension_state, choice.enforced, row, target):
            try_with_terms(problem, solution, extension_state, transaction, row, target)
            return True
        if ejected == MOST_EJECTED:
            return False
        victim = _eject(problem, solution, choice, extension_state, row, target, scratch, rng, transaction)
        if victim == NOWHERE:
            return False
        row = victim
        target = _next_target(problem, solution, choice, extension_state, row, start, target, scratch, rng)
    return False


@kernel
def _eject(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    extension_state: ExtensionState,
    row: int,
    target: int,
    scratch: Scratch,
    rng: Stream,
    transaction: Transaction,
) -> int:
    """Take a random replica off `target` such that `row` may move there, and move it; return the one, or NOWHERE."""
    for _ in range(VICTIMS_TRIED):
        victim = random_row_on(problem, solution, target, rng)
        if victim == NOWHERE:
            return NOWHERE
        if are_siblings(problem, victim, row) or has_moved(transaction, victim):
            continue
        scratch.asked[0] += 2
        before = transaction.length[0]
        try_with_terms(problem, solution, extension_state, transaction, victim, NOWHERE)
        if may_move(problem, solution, extension_state, choice.enforced, row, target):
            try_with_terms(problem, solution, extension_state, transaction, row, target)
            return victim
        undo_tried_with_terms(problem, solution, extension_state, transaction, before)
    return NOWHERE


@kernel
def _next_target(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    extension_state: ExtensionState,
    row: int,
    start: int,
    left: int,
    scratch: Scratch,
    rng: Stream,
) -> int:
    """Return where an ejected replica goes: to the start of the chain or to a random node with room; else anywhere.

    Parameters
    ----------
    start
        The node that the first replica of the chain has left.
    left
        The node that `row` has left.
    """
    scratch.asked[0] += 2
    if may_move(problem, solution, extension_state, choice.enforced, row, start):
        return start
    target = quick_target(problem, solution, extension_state, choice.enforced, row, left, rng)
    scratch.asked[0] += QUICK_DRAWS if target == NOWHERE else 0
    if target != NOWHERE:
        return target
    return int(problem.targets[int(uniform(rng) * problem.targets.shape[0])])
