"""What a repair keeps current while it moves replicas: where rules may be broken, and the rows on each node.

A row that moves can change only the breaches of its partition and of the children of this, and the overload of its two
nodes. So a repair costs what is broken and what it moves, not what exists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints import capacity
from plb.constraints.application_sums import occupied
from plb.model.rules import RuleMask
from plb.search.repair.breaches import PARTS, Breaches, count_breaches, count_breaches_of
from plb.search.transactions import Transaction, new_transaction, undo_transaction
from plb.state.arrays import Problem, Solution

# Positions in Suspects.length and Suspects.first_length
ROWS, NODES, APPLICATIONS = range(3)


class Suspects(NamedTuple):
    """The rows, nodes and applications at which a rule may be broken; at others none is."""

    rows: Int
    """(M,) the listed rows, first the rows from before the first move, ascending, then rows that moves have added."""
    is_row: Bool
    """(M,) whether each row is listed."""
    nodes: Int
    """(N,) the listed nodes, in the same order."""
    is_node: Bool
    """(N,) whether each node is listed."""
    applications: Int
    """(A,) the listed applications, in the same order."""
    is_application: Bool
    """(A,) whether each application is listed."""
    length: Int
    """(3,) numbers of listed rows, nodes and applications, which are the first entries of these arrays."""
    first_length: Int
    """(3,) the same before the first move."""


class RowsOnNodes(NamedTuple):
    """The rows on each node, as lists of which each element knows its neighbours."""

    first: Int
    """(N,) first row on each node, or NOWHERE."""
    following: Int
    """(M,) next row on the same node, or NOWHERE."""
    preceding: Int
    """(M,) previous row on the same node, or NOWHERE."""
    node: Int
    """(M,) the node in whose list a row is, or NOWHERE."""
    is_listed: Bool
    """(1,) whether the lists are made; they are only needed where a node is overloaded."""


class Attempt(NamedTuple):
    """What an attempt repairs, and how."""

    repaired: RuleMask
    """Rules to repair."""
    binding: RuleMask
    """Rules that bind the moves. Without capacity, nodes may be overfilled; a second call unloads."""
    may_swap: bool
    """Whether roles may be swapped where no replica can move."""
    prefers_swaps: bool
    """Whether replicas draw among moves and swaps."""
    moves_parents: bool
    """Whether parents may move to their children."""
    unusable_first: bool
    """Whether replicas in unusable domains leave a crowded one before others (`leave_crowded_domains`)."""


class RepairState(NamedTuple):
    """The moves of a repair, and the lists that follow from them."""

    transaction: Transaction
    """The moves so far."""
    suspects: Suspects
    """Where a rule may still be broken."""
    on_nodes: RowsOnNodes
    """The rows on each node."""


def new_repair_state(problem: Problem, breaches: Breaches, most_moves: int) -> RepairState:
    """Return the state of a repair before its first move; its transaction can hold `most_moves` moves."""
    nodes, rows, applications = len(problem.limit), len(problem.origin), len(problem.most_nodes)
    suspects = Suspects(
        np.empty(rows, np.int64),
        np.zeros(rows, np.bool_),
        np.empty(nodes, np.int64),
        np.zeros(nodes, np.bool_),
        np.empty(applications, np.int64),
        np.zeros(applications, np.bool_),
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
    )
    overloaded = np.flatnonzero(breaches.overloaded.any(axis=1))
    for position, (listed, is_listed, breaking) in enumerate(
        (
            (suspects.rows, suspects.is_row, breaches.rows),
            (suspects.nodes, suspects.is_node, overloaded),
            (suspects.applications, suspects.is_application, breaches.applications),
        )
    ):
        listed[: len(breaking)], is_listed[breaking] = breaking, True
        suspects.length[position] = suspects.first_length[position] = len(breaking)
    return RepairState(new_transaction(most_moves), suspects, new_rows_on_nodes(problem))


def new_rows_on_nodes(problem: Problem) -> RowsOnNodes:
    """Return lists of the rows on nodes that are not made yet: `is_listed` is false, other entries mean nothing."""
    following, preceding, node_of_row = (np.empty(len(problem.origin), np.int64) for _ in range(3))
    first = np.empty(len(problem.limit), np.int64)
    return RowsOnNodes(first, following, preceding, node_of_row, np.zeros(1, np.bool_))


@kernel
def note_moves(problem: Problem, solution: Solution, state: RepairState, first_entry: int) -> None:
    """Bring the lists of `state` up to date after the moves of its transaction from entry `first_entry` on."""
    transaction, suspects = state.transaction, state.suspects
    for entry in range(first_entry, transaction.length[0]):
        row = transaction.row[entry]
        _list_partition(problem, suspects, row)
        child = problem.first_child[row]
        while child != NOWHERE:
            _list_partition(problem, suspects, child)
            child = problem.next_child[child]
        _list_node(suspects, transaction.source[entry])
        _list_node(suspects, transaction.target[entry])
        if problem.grouped:
            _list_application(suspects, problem.application[row])
        _follow(solution, state.on_nodes, row)


@kernel
def undo_repair(problem: Problem, solution: Solution, state: RepairState) -> None:
    """Undo all moves of a repair, and take what they have added off the lists of suspects."""
    transaction, suspects = state.transaction, state.suspects
    moves = transaction.length[0]
    undo_transaction(problem, solution, transaction, 0)
    for entry in range(moves):
        _follow(solution, state.on_nodes, transaction.row[entry])
    for index in range(suspects.first_length[ROWS], suspects.length[ROWS]):
        suspects.is_row[suspects.rows[index]] = False
    for index in range(suspects.first_length[NODES], suspects.length[NODES]):
        suspects.is_node[suspects.nodes[index]] = False
    for index in range(suspects.first_length[APPLICATIONS], suspects.length[APPLICATIONS]):
        suspects.is_application[suspects.applications[index]] = False
    for kind in range(suspects.length.shape[0]):
        suspects.length[kind] = suspects.first_length[kind]


@kernel
def next_listed_node(suspects: Suspects, above: int) -> int:
    """Return the lowest listed node with a higher index than `above`, or NOWHERE; NOWHERE is below all."""
    low, high = 0, suspects.first_length[NODES]
    while low < high:
        middle = (low + high) // 2
        if suspects.nodes[middle] > above:
            high = middle
        else:
            low = middle + 1
    lowest = suspects.nodes[low] if low < suspects.first_length[NODES] else NOWHERE
    for index in range(suspects.first_length[NODES], suspects.length[NODES]):
        node = suspects.nodes[index]
        if node > above and (lowest == NOWHERE or node < lowest):
            lowest = node
    return int(lowest)


@kernel
def remaining_breaches(
    problem: Problem, solution: Solution, enforced: RuleMask, by_partition: bool, suspects: Suspects
) -> tuple[int, float]:
    """Return the number of violations at `suspects`, and the sum of the overloads relative to the limits.

    A violation of the `enforced` rules is an overloaded node, a replica in a crowded domain of one level
    (`by_partition`: all replicas of a partition in crowded domains of one rule), a misplaced replica, or a breach of an
    application.
    """
    breaches = 0
    overload = 0.0
    if enforced >> capacity.RULE & 1:
        for index in range(suspects.length[NODES]):
            node = suspects.nodes[index]
            breaches += capacity.is_overloaded(problem, solution, node)
            overload += relative_overload(problem, solution, node)
    for index in range(suspects.length[ROWS]):
        row = suspects.rows[index]
        breaches += count_breaches(problem, solution, enforced, row, problem.movable[row], by_partition)
    for index in range(suspects.length[APPLICATIONS]):
        application_breaches, excess = count_breaches_of(problem, solution, enforced, suspects.applications[index])
        breaches += application_breaches
        overload += excess
    return breaches, overload


@kernel
def relative_overload(problem: Problem, solution: Solution, node: int) -> float:
    """Return the overload of `node` relative to its limits, cut to whole parts of 2^-20; 0 unless it is watched."""
    overload = 0.0
    for metric in range(problem.limit.shape[1]):
        limit = problem.repair_limit[node, metric]
        excess = capacity.excess_of(problem, solution, node, metric)
        if problem.watched[node] and excess > 0:
            overload += np.floor(excess / max(1, limit) * PARTS) / PARTS
    return overload


@kernel
def adds_overload(problem: Problem, solution: Solution, suspects: Suspects, load: Int) -> bool:
    """Return whether some node exceeds a limit with load in transit, and by more load than before a repair.

    `load`: (N, R) quanta of each node before the repair, with load in transit.
    """
    for index in range(suspects.length[NODES]):
        node = suspects.nodes[index]
        for metric in range(load.shape[1]):
            present_load = occupied(problem, solution, node, metric)
            present_load += capacity.load_in_transit(problem, solution, node, metric)
            free = problem.limit[node, metric] - problem.leaving_load[node, metric]
            if present_load > free and present_load > load[node, metric]:
                present_load -= capacity.freed_by_replacing(problem, solution, node, metric)
                if present_load > free and present_load > load[node, metric]:
                    return True
    return False


@kernel
def list_rows_on_nodes(node: Int, on_nodes: RowsOnNodes) -> None:
    """Make the lists of the rows on each node, ascending, unless they are made; `node`: (M,) the node of each row."""
    if on_nodes.is_listed[0]:
        return
    on_nodes.is_listed[0] = True
    on_nodes.first[:] = NOWHERE
    for row in range(node.shape[0] - 1, -1, -1):
        _insert(on_nodes, row, node[row])


@kernel
def _follow(solution: Solution, on_nodes: RowsOnNodes, row: int) -> None:
    """Move replica `row` from the list of the node where it was to the list of its present node."""
    listed_node = on_nodes.node[row]
    if not on_nodes.is_listed[0] or listed_node == solution.node[row]:
        return
    preceding, following = on_nodes.preceding[row], on_nodes.following[row]
    if preceding != NOWHERE:
        on_nodes.following[preceding] = following
    elif listed_node != NOWHERE:
        on_nodes.first[listed_node] = following
    if following != NOWHERE:
        on_nodes.preceding[following] = preceding
    _insert(on_nodes, row, solution.node[row])


@kernel
def _insert(on_nodes: RowsOnNodes, row: int, node: int) -> None:
    """Put a row, which is in no list, at the beginning of the list of `node`."""
    on_nodes.node[row] = node
    on_nodes.preceding[row] = NOWHERE
    on_nodes.following[row] = NOWHERE
    if node == NOWHERE:
        return
    first = on_nodes.first[node]
    on_nodes.following[row] = first
    on_nodes.first[node] = row
    if first != NOWHERE:
        on_nodes.preceding[first] = row


@kernel
def _list_partition(problem: Problem, suspects: Suspects, row: int) -> None:
    """Add the rows of the partition of replica `row` to the rows of `suspects`, unless they are there."""
    member = row
    while True:
        if not suspects.is_row[member]:
            suspects.is_row[member] = True
            suspects.rows[suspects.length[ROWS]] = member
            suspects.length[ROWS] += 1
        member = problem.sibling[member]
        if member == row:
            return


@kernel
def _list_node(suspects: Suspects, node: int) -> None:
    """Add `node` to the nodes of `suspects`, at which rules may be broken, unless it is there or NOWHERE."""
    if node != NOWHERE and not suspects.is_node[node]:
        suspects.is_node[node] = True
        suspects.nodes[suspects.length[NODES]] = node
        suspects.length[NODES] += 1


@kernel
def _list_application(suspects: Suspects, application: int) -> None:
    """Add `application` to the applications of `suspects`, unless it is there or NOWHERE."""
    if application != NOWHERE and not suspects.is_application[application]:
        suspects.is_application[application] = True
        suspects.applications[suspects.length[APPLICATIONS]] = application
        suspects.length[APPLICATIONS] += 1
