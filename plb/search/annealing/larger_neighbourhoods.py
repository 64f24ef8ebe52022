"""Larger neighbourhoods: replicas that leave their nodes together and are placed again, and ejection chains.

An ejected replica goes to its place before the search, where its load may count anyway, to where the chain began, or to
a random node, whose replicas it displaces if it has room nowhere. The idea is Glover's, "Ejection chains, reference
structures and alternating path methods for traveling salesman problems", Discrete Applied Mathematics 65, 1996.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform
from plb.energy.node_sums import random_row_on
from plb.evaluation.proposals import REJECTED, evaluate
from plb.model.rules import RuleMask
from plb.search.annealing.move_generation import Choice, costly_row
from plb.search.annealing.neighbourhoods import (
    MOST_DESTROYED,
    MOST_EJECTED,
    NODE,
    PARTITION,
    TARGETS_OF_EJECTED,
    TARGETS_TRIED,
    VICTIMS_TRIED,
    Scratch,
)
from plb.search.extension_kernels import foresee, weighed
from plb.search.transactions import Draft, Transaction, has_moved, may_move, try_with_terms
from plb.state.arrays import Problem, Solution, are_siblings, proposed

DRAWS = 3 * MOST_DESTROYED
"""Random replicas of a service among which some of several partitions are looked for."""


@kernel
def destroy_and_repair(
    problem: Problem, solution: Solution, choice: Choice, draft: Draft, kind: int, scratch: Scratch
) -> bool:
    """Take replicas of one kind off their nodes and place them again; return whether all found a place.

    `kind`: PARTITION: all replicas of a partition; NODE: some of two nodes; SERVICE: some of a service.
    """
    row = costly_row(problem, solution, choice, draft.extension_state, draft.rng)
    if solution.node[row] == NOWHERE:
        return False
    if kind == PARTITION:
        _destroy_partition(problem, solution, draft, row)
    elif kind == NODE:
        _destroy_nodes(problem, solution, draft, row)
    else:
        _destroy_service(problem, solution, draft, row, scratch)
    destroyed = draft.transaction.length[0]
    if destroyed < 2:
        return False
    order = scratch.order
    for number in range(destroyed):
        order[number] = number
    if uniform(draft.rng) < 0.5:
        _sort_by_size(problem, draft.transaction, order, destroyed)
    else:
        _shuffle(order, destroyed, draft.rng)
    for number in range(destroyed):
        entry = order[number]
        if not _place(problem, solution, choice, draft, destroyed, entry, scratch):
            return False
    return True


@kernel
def _destroy_partition(problem: Problem, solution: Solution, draft: Draft, row: int) -> None:
    """Take the movable replicas of the partition of `row` off their nodes."""
    this = row
    while True:
        if problem.movable[this] and solution.node[this] != NOWHERE and draft.transaction.length[0] < MOST_DESTROYED:
            try_with_terms(problem, solution, draft, this, NOWHERE)
        this = problem.sibling[this]
        if this == row:
            return


@kernel
def _destroy_nodes(problem: Problem, solution: Solution, draft: Draft, row: int) -> None:
    """Take `row` and random replicas of its node and of another random node off these nodes."""
    first = solution.node[row]
    second = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
    try_with_terms(problem, solution, draft, row, NOWHERE)
    most = 2 + int(uniform(draft.rng) * (MOST_DESTROYED - 1))
    for number in range(1, most):
        drawn = random_row_on(problem, solution, second if number % 2 else first, draft.rng)
        if drawn != NOWHERE:
            try_with_terms(problem, solution, draft, drawn, NOWHERE)


@kernel
def _destroy_service(problem: Problem, solution: Solution, draft: Draft, row: int, scratch: Scratch) -> None:
    """Take `row` and random replicas of its service off their nodes, at most one of a partition."""
    try_with_terms(problem, solution, draft, row, NOWHERE)
    most = 2 + int(uniform(draft.rng) * (MOST_DESTROYED - 1))
    service = problem.service[row]
    begin, end = scratch.services.first[service], scratch.services.first[service + 1]
    for _ in range(DRAWS if begin < end else 0):
        scratch.asked[0] += 1
        drawn = scratch.services.row[begin + int(uniform(draft.rng) * (end - begin))]
        if draft.transaction.length[0] == most:
            return
        if (
            solution.node[drawn] != NOWHERE
            and not has_moved(draft.transaction, drawn)
            and not are_siblings(problem, row, drawn)
        ):
            try_with_terms(problem, solution, draft, drawn, NOWHERE)


@kernel
def _sort_by_size(problem: Problem, transaction: Transaction, order: Int, destroyed: int) -> None:
    """Sort the numbers of the destroyed replicas, the first in `order`, by size, the largest first."""
    for number in range(1, destroyed):
        at = number
        while at > 0 and _size(problem, transaction, order[at - 1]) < _size(problem, transaction, order[at]):
            order[at - 1], order[at] = order[at], order[at - 1]
            at -= 1


@kernel
def _size(problem: Problem, transaction: Transaction, entry: int) -> float:
    """Return the load of a destroyed replica as a share of the capacity of the node that it left, over all metrics."""
    row, node = transaction.row[entry], transaction.source[entry]
    size = 0.0
    for metric in range(problem.load.shape[1]):
        size += problem.load[row, metric] * problem.inverse_capacity[node, metric]
    return size


@kernel
def _shuffle(order: Int, destroyed: int, rng: Stream) -> None:
    """Bring the first entries of `order` into a random order."""
    for number in range(destroyed - 1, 0, -1):
        drawn = int(uniform(rng) * (number + 1))
        order[number], order[drawn] = order[drawn], order[number]


@kernel
def _place(
    problem: Problem, solution: Solution, choice: Choice, draft: Draft, destroyed: int, entry: int, scratch: Scratch
) -> bool:
    """Place a destroyed replica on the best of the nodes that replicas have left and of random ones, if any allows."""
    row = draft.transaction.row[entry]
    best, lowest = NOWHERE, REJECTED
    for number in range(destroyed + TARGETS_TRIED):
        if number < destroyed:
            target = draft.transaction.source[number]
        else:
            target = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
        scratch.asked[0] += 1
        if target == best or not may_move(problem, solution, draft.extension_state, choice.enforced, row, target):
            continue
        proposal = proposed(solution, row, target, NOWHERE)
        energy = evaluate(problem, solution, REJECTED, proposal, scratch.scored)
        draft.extension_state.after[:] = 0.0
        foresee(problem, solution, draft.extension_state, proposal)
        energy += weighed(draft.extension_state, draft.extension_state.after)
        if energy < lowest:
            best, lowest = int(target), energy
    if best == NOWHERE:
        return False
    try_with_terms(problem, solution, draft, row, best)
    return True


@kernel
def make_ejection_chain(problem: Problem, solution: Solution, choice: Choice, draft: Draft, scratch: Scratch) -> bool:
    """Move a random replica to a random node, and what has to make room for it; return whether all found a place.

    The moves begin at entry 0 of the transaction. A moving replica is on no node until it has its place.
    """
    row = costly_row(problem, solution, choice, draft.extension_state, draft.rng)
    start = solution.node[row]
    target = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
    if start in (target, NOWHERE):
        return False
    try_with_terms(problem, solution, draft, row, NOWHERE)
    for ejected in range(MOST_EJECTED + 1):
        scratch.asked[0] += 1
        if may_move(problem, solution, draft.extension_state, choice.enforced, row, target):
            try_with_terms(problem, solution, draft, row, target)
            return True
        victim = NOWHERE if ejected == MOST_EJECTED else _victim(problem, solution, row, target, draft)
        if victim == NOWHERE:
            return False
        try_with_terms(problem, solution, draft, victim, NOWHERE)
        place = _place_of(problem, solution, draft, choice.enforced, victim, start, target, scratch)
        if place != NOWHERE:
            try_with_terms(problem, solution, draft, victim, place)
            continue
        scratch.asked[0] += 1
        if not may_move(problem, solution, draft.extension_state, choice.enforced, row, target):
            return False
        try_with_terms(problem, solution, draft, row, target)
        row, target = victim, problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
    return False


@kernel
def _victim(problem: Problem, solution: Solution, row: int, target: int, draft: Draft) -> int:
    """Return a random replica of `target` that may make room for `row`, if possible one that this search has moved."""
    victim = NOWHERE
    for _ in range(VICTIMS_TRIED):
        drawn = random_row_on(problem, solution, target, draft.rng)
        if drawn == NOWHERE or are_siblings(problem, drawn, row) or has_moved(draft.transaction, drawn):
            continue
        victim = drawn
        if problem.origin[drawn] != target:
            return int(victim)
    return int(victim)


@kernel
def _place_of(
    problem: Problem,
    solution: Solution,
    draft: Draft,
    enforced: RuleMask,
    row: int,
    start: int,
    left: int,
    scratch: Scratch,
) -> int:
    """Return where an ejected replica finds room: on its origin, `start`, or a random node; never on `left`."""
    for number in range(2 + TARGETS_OF_EJECTED):
        if number == 0:
            place = problem.origin[row]
        elif number == 1:
            place = start
        else:
            place = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
        if place in (left, NOWHERE):
            continue
        scratch.asked[0] += 1
        if may_move(problem, solution, draft.extension_state, enforced, row, place):
            return int(place)
    return NOWHERE
