"""Ejection chains: a replica moves to a node without room for it, and replicas of that node move on.

Each goes to its place before the search, where its load may count anyway, to where the chain began, which exchanges
replicas, or to a random node. If it has room nowhere, it displaces replicas of a random node in turn. The idea is that
of Glover, "Ejection chains, reference structures and alternating path methods for traveling salesman problems",
Discrete Applied Mathematics 65, 1996.
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel, uniform
from plb.energy.rows_on_nodes import random_row_on
from plb.search.extension_kernels import ExtensionState
from plb.search.move_generation import Choice, costly_row
from plb.search.neighbourhoods import MOST_EJECTED, TARGETS_OF_EJECTED, VICTIMS_TRIED, Scratch
from plb.search.transactions import Transaction, has_moved, may_move, try_with_terms
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
        victim = NOWHERE if ejected == MOST_EJECTED else _victim(problem, solution, row, target, rng, transaction)
        if victim == NOWHERE:
            return False
        try_with_terms(problem, solution, extension_state, transaction, victim, NOWHERE)
        place = _place_of(problem, solution, choice, extension_state, victim, start, target, scratch, rng)
        if place != NOWHERE:
            try_with_terms(problem, solution, extension_state, transaction, victim, place)
            continue
        scratch.asked[0] += 1
        if not may_move(problem, solution, extension_state, choice.enforced, row, target):
            return False
        try_with_terms(problem, solution, extension_state, transaction, row, target)
        row, target = victim, problem.targets[int(uniform(rng) * problem.targets.shape[0])]
    return False


@kernel
def _victim(problem: Problem, solution: Solution, row: int, target: int, rng: Stream, transaction: Transaction) -> int:
    """Return a random replica of `target` that may make room for `row`, if possible one that this search has moved."""
    victim = NOWHERE
    for _ in range(VICTIMS_TRIED):
        other = random_row_on(problem, solution, target, rng)
        if other == NOWHERE or are_siblings(problem, other, row) or has_moved(transaction, other):
            continue
        victim = other
        if problem.origin[other] != target:
            return int(victim)
    return int(victim)


@kernel
def _place_of(
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
    """Return where an ejected replica finds room: its place before the search, the start, or a random node.

    Parameters
    ----------
    start
        The node that the first replica of the chain has left.
    left
        The node that `row` has left.
    """
    for number in range(2 + TARGETS_OF_EJECTED):
        if number == 0:
            place = problem.origin[row]
        elif number == 1:
            place = start
        else:
            place = problem.targets[int(uniform(rng) * problem.targets.shape[0])]
        if place in (left, NOWHERE):
            continue
        scratch.asked[0] += 1
        if may_move(problem, solution, extension_state, choice.enforced, row, place):
            return int(place)
    return NOWHERE
