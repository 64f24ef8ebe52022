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

    `kind`: PARTITION: all replicas of a partition; NODE: some of two nodes; SERVICE: some of a service. `scratch`
    counts the nodes that are tried.
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
    for index in range(destroyed):
        order[index] = index
    if uniform(draft.rng) < 0.5:
        _sort_by_size(problem, draft.transaction, order, destroyed)
    else:
        _shuffle(order, destroyed, draft.rng)
    for index in range(destroyed):
        entry = order[index]
        if not _place(problem, solution, choice, draft, destroyed, entry, scratch):
            return False
    return True


@kernel
def _destroy_partition(problem: Problem, solution: Solution, draft: Draft, row: int) -> None:
    """Take the movable replicas of the partition of replica `row` off their nodes."""
    member = row
    while True:
        if (
            problem.movable[member]
            and solution.node[member] != NOWHERE
            and draft.transaction.length[0] < MOST_DESTROYED
        ):
            try_with_terms(problem, solution, draft, member, NOWHERE)
        member = problem.sibling[member]
        if member == row:
            return


@kernel
def _destroy_nodes(problem: Problem, solution: Solution, draft: Draft, row: int) -> None:
    """Take replica `row` and random replicas of its node and of another random node off their nodes."""
    own_node = solution.node[row]
    other_node = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
    try_with_terms(problem, solution, draft, row, NOWHERE)
    replicas = 2 + int(uniform(draft.rng) * (MOST_DESTROYED - 1))
    for index in range(1, replicas):
        drawn = random_row_on(problem, solution, other_node if index % 2 else own_node, draft.rng)
        if drawn != NOWHERE:
            try_with_terms(problem, solution, draft, drawn, NOWHERE)


@kernel
def _destroy_service(problem: Problem, solution: Solution, draft: Draft, row: int, scratch: Scratch) -> None:
    """Take replica `row` and random replicas of its service off their nodes, at most one of a partition.

    `scratch` has the rows of services, and counts the rows that are drawn.
    """
    try_with_terms(problem, solution, draft, row, NOWHERE)
    replicas = 2 + int(uniform(draft.rng) * (MOST_DESTROYED - 1))
    service = problem.service[row]
    begin, end = scratch.services.first[service], scratch.services.first[service + 1]
    for _ in range(DRAWS if begin < end else 0):
        scratch.asked[0] += 1
        drawn = scratch.services.row[begin + int(uniform(draft.rng) * (end - begin))]
        if draft.transaction.length[0] == replicas:
            return
        if (
            solution.node[drawn] != NOWHERE
            and not has_moved(draft.transaction, drawn)
            and not are_siblings(problem, row, drawn)
        ):
            try_with_terms(problem, solution, draft, drawn, NOWHERE)


@kernel
def _sort_by_size(problem: Problem, transaction: Transaction, order: Int, destroyed: int) -> None:
    """Sort the first `destroyed` entries of `order`, (n,), positions in the transaction, by size, the largest first."""
    for index in range(1, destroyed):
        at = index
        while at > 0 and _size(problem, transaction, order[at - 1]) < _size(problem, transaction, order[at]):
            order[at - 1], order[at] = order[at], order[at - 1]
            at -= 1


@kernel
def _size(problem: Problem, transaction: Transaction, entry: int) -> float:
    """Return the load of the row of move `entry` as a share of the node that it left, summed over the metrics."""
    row, node = transaction.row[entry], transaction.source[entry]
    size = 0.0
    for metric in range(problem.load.shape[1]):
        size += problem.load[row, metric] * problem.inverse_capacity[node, metric]
    return size


@kernel
def _shuffle(order: Int, destroyed: int, rng: Stream) -> None:
    """Bring the first `destroyed` entries of `order`, (n,), into a random order."""
    for index in range(destroyed - 1, 0, -1):
        drawn = int(uniform(rng) * (index + 1))
        order[index], order[drawn] = order[drawn], order[index]


@kernel
def _place(
    problem: Problem, solution: Solution, choice: Choice, draft: Draft, destroyed: int, entry: int, scratch: Scratch
) -> bool:
    """Place the row of move `entry` on the best of several allowed nodes; return whether there is one.

    Compared are the nodes that the first `destroyed` moves of the transaction have left, and random nodes; `scratch`
    counts them.
    """
    row = draft.transaction.row[entry]
    best_node, lowest_energy = NOWHERE, REJECTED
    for index in range(destroyed + TARGETS_TRIED):
        if index < destroyed:
            target = draft.transaction.source[index]
        else:
            target = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
        scratch.asked[0] += 1
        if target == best_node or not may_move(problem, solution, draft.extension_state, choice.enforced, row, target):
            continue
        proposal = proposed(solution, row, target, NOWHERE)
        energy = evaluate(problem, solution, REJECTED, proposal, scratch.scored)
        draft.extension_state.after[:] = 0.0
        foresee(problem, solution, draft.extension_state, proposal)
        energy += weighed(draft.extension_state, draft.extension_state.after)
        if energy < lowest_energy:
            best_node, lowest_energy = int(target), energy
    if best_node == NOWHERE:
        return False
    try_with_terms(problem, solution, draft, row, best_node)
    return True


@kernel
def make_ejection_chain(problem: Problem, solution: Solution, choice: Choice, draft: Draft, scratch: Scratch) -> bool:
    """Move a random replica to a random node, and others out of its way; return whether all found a place.

    The moves begin at entry 0 of the transaction. A moving replica is on no node until it has its place. `scratch`
    counts the nodes that are tried.
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
        free_node = _place_of(problem, solution, draft, choice.enforced, victim, start, target, scratch)
        if free_node != NOWHERE:
            try_with_terms(problem, solution, draft, victim, free_node)
            continue
        scratch.asked[0] += 1
        if not may_move(problem, solution, draft.extension_state, choice.enforced, row, target):
            return False
        try_with_terms(problem, solution, draft, row, target)
        row, target = victim, problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
    return False


@kernel
def _victim(problem: Problem, solution: Solution, row: int, target: int, draft: Draft) -> int:
    """Return a random replica on `target` that may leave it for `row`, if possible not on its origin, or NOWHERE."""
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
    excluded: int,
    scratch: Scratch,
) -> int:
    """Return the first node that the `enforced` rules allow for an ejected replica `row`, or NOWHERE.

    Tried are, in order, its origin, the node `start` where the chain began, and random nodes, but never `excluded`.
    """
    for index in range(2 + TARGETS_OF_EJECTED):
        if index == 0:
            node = problem.origin[row]
        elif index == 1:
            node = start
        else:
            node = problem.targets[int(uniform(draft.rng) * problem.targets.shape[0])]
        if node in (excluded, NOWHERE):
            continue
        scratch.asked[0] += 1
        if may_move(problem, solution, draft.extension_state, enforced, row, node):
            return int(node)
    return NOWHERE
