"""Application after application ([3] sections 4.2 and 4.4): First, Best and Worst Fit, and spread over given nodes.

L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Bool, Float, Int, Int32, UInt8
from plb.compiler import kernel
from plb.provisioning.packing import (
    NO_CAPACITY,
    STOPPED,
    Packing,
    Residual,
    add_node,
    add_slot,
    clear_limits,
    drop_full,
    fitting,
    free_value,
    open_node,
    record_limits,
    reweigh,
    sort_by,
    take_capacity,
    take_from_totals,
    varies,
)


@kernel
def first_fit(order: Int, packing: Packing) -> int:
    """Place applications `order`, (L,), on the first nodes that take them; return 0, `NO_CAPACITY` or `STOPPED`."""
    live_count, full_count = 0, 0
    for application in order:
        if packing.stop[0]:
            return STOPPED
        live_count = place_first(packing, application, live_count)
        if live_count == NO_CAPACITY:
            return NO_CAPACITY
        live_count, full_count = drop_full(packing, application, live_count, full_count)
    return 0


@kernel
def place_first(packing: Packing, application: int, live_count: int) -> int:
    """Place an application on the first feasible nodes of ``packing.live[:live_count]``, then on unused ones.

    The result is the new number of nodes in `packing.live`, or `NO_CAPACITY`.
    """
    limited_count = record_limits(packing, application)
    most_on_a_node, missing = packing.neighbours.most_on_a_node[application], packing.replicas[application]
    position = 0
    while missing > 0:
        if position == live_count:
            opened = open_node(packing, application)
            if opened == NO_CAPACITY:
                return NO_CAPACITY
            packing.live[live_count] = opened
            live_count += 1
        node = packing.live[position]
        position += 1
        count = min(packing.allowed[node], most_on_a_node, missing)
        if count > 0:
            count = fitting(packing, node, application, count)
            if count > 0:
                take_capacity(packing, application, node, count)
                add_slot(packing, application, node, count)
                missing -= count
    clear_limits(packing, limited_count)
    return live_count


class Candidates(NamedTuple):
    """The feasible nodes of the present application; the first entries are in use, and algorithms count them."""

    node: Int32
    """(N,) the node of each candidate."""
    capacity: Int32
    """(N,) how many replicas of the application it takes."""
    value: Float
    """(N,) its free capacity as one number (`plb.provisioning.packing.free_value`)."""


def empty_candidates(nodes: int) -> Candidates:
    """Return space for as many candidates as there are nodes."""
    return Candidates(np.zeros(nodes, np.int32), np.zeros(nodes, np.int32), np.zeros(nodes))


@kernel
def ordered_fit(order: Int, packing: Packing, candidates: Candidates, residual: Residual, sign: int) -> int:
    """Place applications `order`, (L,), by Best (`sign` 1) or Worst Fit (-1); return 0, `NO_CAPACITY` or `STOPPED`."""
    live_count, full_count = 0, 0
    for application in order:
        if packing.stop[0]:
            return STOPPED
        limited_count = record_limits(packing, application)
        most_on_a_node, missing = packing.neighbours.most_on_a_node[application], packing.replicas[application]
        feasible = _find_candidates(packing, candidates, application, min(most_on_a_node, missing), live_count)
        clear_limits(packing, limited_count)
        if not varies(residual):
            _set_values(packing, candidates, residual, feasible)
        while missing > 0:
            if feasible > 0:
                if varies(residual):
                    reweigh(residual)
                    _set_values(packing, candidates, residual, feasible)
                chosen = _best_candidate(candidates, feasible, sign)
                node, count = candidates.node[chosen], min(candidates.capacity[chosen], missing)
                feasible -= 1
                _remove_candidate(candidates, chosen, feasible)
            else:
                node = open_node(packing, application)
                if node == NO_CAPACITY:
                    return NO_CAPACITY
                packing.live[live_count] = node
                live_count += 1
                add_node(residual, packing, node)
                count = fitting(packing, node, application, min(most_on_a_node, missing))
            take_capacity(packing, application, node, count)
            take_from_totals(packing, residual.totals, application, count)
            add_slot(packing, application, node, count)
            missing -= count
        live_count, full_count = drop_full(packing, application, live_count, full_count)
    return 0


@kernel
def _find_candidates(packing: Packing, candidates: Candidates, application: int, most: int, live_count: int) -> int:
    """Write the nodes of ``packing.live[:live_count]`` that take an application as candidates; return their number.

    `most` is the largest number of replicas on a node.
    """
    feasible = 0
    for position in range(live_count):
        node = packing.live[position]
        capacity = min(packing.allowed[node], most)
        if capacity > 0:
            capacity = fitting(packing, node, application, capacity)
            if capacity > 0:
                candidates.node[feasible], candidates.capacity[feasible] = node, capacity
                feasible += 1
    return feasible


@kernel
def _set_values(packing: Packing, candidates: Candidates, residual: Residual, feasible: int) -> None:
    """Write the value of each of the first `feasible` candidates."""
    for position in range(feasible):
        candidates.value[position] = free_value(residual, packing, candidates.node[position])


@kernel
def _best_candidate(candidates: Candidates, feasible: int, sign: int) -> int:
    """Return the first position below `feasible` of the candidate of least value, or of largest if `sign` is -1."""
    chosen = 0
    for position in range(1, feasible):
        if sign * candidates.value[position] < sign * candidates.value[chosen]:
            chosen = position
    return chosen


@kernel
def _remove_candidate(candidates: Candidates, chosen: int, feasible: int) -> None:
    """Remove the candidate at position `chosen`; keep the order of the `feasible` others, which breaks ties."""
    for position in range(chosen, feasible):
        candidates.node[position] = candidates.node[position + 1]
        candidates.capacity[position] = candidates.capacity[position + 1]
        candidates.value[position] = candidates.value[position + 1]


class StruckNodes(NamedTuple):
    """The order of the applications, and the nodes that each has lost as candidates: its struck nodes."""

    order: Int
    """(L,) applications, first the placed ones, in their order."""
    lost: Int
    """(L,) number of struck nodes of each application."""
    placed: Bool
    """(L,) whether an application is placed."""
    nodes: UInt8
    """(L, N / 8, rounded up) the struck nodes of each application as a set of bits: node n is bit n % 8 of byte n // 8.
    """


def empty_struck_nodes(order: Int, nodes: int) -> StruckNodes:
    """Return the state before the first application is placed; `order`: (L,) applications; `nodes`: number of nodes."""
    applications = len(order)
    return StruckNodes(
        order.copy(),
        np.zeros(applications, np.int64),
        np.zeros(applications, np.bool_),
        np.zeros((applications, (nodes + 7) // 8), np.uint8),
    )


@kernel
def fewest_candidates(packing: Packing, struck: StruckNodes) -> int:
    """Place application after application by First Fit, next one with the fewest candidate nodes (equation 5).

    As in the programs of the authors of [3], candidate nodes of an application are updated when one that shares
    a limit with it is placed, and one pass of bubble sort moves the application with the fewest candidates to the
    front, which moves others as well. The result is 0, `NO_CAPACITY` or `STOPPED`.
    """
    live_count, full_count = 0, 0
    for turn in range(len(struck.order)):
        if packing.stop[0]:
            return STOPPED
        application = struck.order[turn]
        live_count = place_first(packing, application, live_count)
        if live_count == NO_CAPACITY:
            return NO_CAPACITY
        struck.placed[application] = True
        _strike_neighbours(packing, struck, application)
        for position in range(len(struck.order) - 1, turn + 1, -1):
            later, earlier = struck.order[position], struck.order[position - 1]
            if struck.lost[later] > struck.lost[earlier]:
                struck.order[position], struck.order[position - 1] = earlier, later
        live_count, full_count = drop_full(packing, application, live_count, full_count)
    return 0


@kernel
def _strike_neighbours(packing: Packing, struck: StruckNodes, application: int) -> None:
    """Strike the nodes of a placed application for others with a limit to it that cannot be placed there any more."""
    neighbours, first = packing.neighbours, packing.start[application]
    for slot in range(first, first + packing.slots[application]):
        node, count = packing.node[slot], packing.placed[slot]
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            _strike(packing, struck, neighbours.out_target[arc], node, neighbours.out_most[arc] == 0)
        for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
            _strike(packing, struck, neighbours.in_source[arc], node, count > neighbours.in_most[arc])


@kernel
def _strike(packing: Packing, struck: StruckNodes, application: int, node: int, excluded: bool) -> None:
    """Strike a node for an application that is not placed, if a limit excludes it there or no replica fits."""
    bit = 1 << (node % 8)
    if struck.placed[application] or struck.nodes[application, node // 8] & bit:
        return
    if excluded or fitting(packing, node, application, 1) == 0:
        struck.nodes[application, node // 8] |= bit
        struck.lost[application] += 1


class Spread(NamedTuple):
    """The value of each node, and the nodes of the application that is being placed."""

    residual: Residual
    """Combination of the free capacities to one number."""
    value: Float
    """(N,) free capacity of a node as one number (`plb.provisioning.packing.free_value`)."""
    taken: Int32
    """(N,) number of replicas of the application on a node; 0 between applications."""
    position: Int32
    """(N,) position in `Packing.live` of a node with replicas of the application."""
    touched: Int32
    """(N,) the nodes of the application come first, in the order in which it used them."""
    heap: Int32
    """(N,) heap of the nodes in `touched` that take a further replica, the one with the largest value on top."""


def empty_spread(nodes: int, residual: Residual) -> Spread:
    """Return the state of `spread` before the first application is placed; `nodes`: number of nodes."""
    return Spread(residual, np.zeros(nodes), *(np.zeros(nodes, np.int32) for _ in range(4)))


@kernel
def spread(order: Int, packing: Packing, state: Spread, in_turn: bool) -> int:
    """Place the replicas one by one, applications (L,) in order; return how many are not placed, or `STOPPED`.

    With few replicas of an application on a node, limits bind less ([3] section 4.4, algorithm 3).
    A replica is placed on the node with the largest free capacity, of equal ones on one without the application. With
    `in_turn`, nodes are tried in the order before the application, as in the programs of the authors of [3]. Weights
    of free capacity that depend on all nodes are updated after each application.
    """
    live_count, full_count, lost = len(packing.free), 0, 0
    for node in range(live_count):
        packing.live[node] = node
        add_node(state.residual, packing, node)
    _sort_all(packing, state, live_count)
    for application in order:
        if packing.stop[0]:
            return STOPPED
        limited_count = record_limits(packing, application)
        if in_turn:
            touched, missing = _place_in_turn(packing, state, application, live_count)
        else:
            touched, missing = _place_by_value(packing, state, application, live_count)
        clear_limits(packing, limited_count)
        lost += missing
        for position in range(touched):
            node = state.touched[position]
            add_slot(packing, application, node, state.taken[node])
            take_from_totals(packing, state.residual.totals, application, state.taken[node])
            if in_turn:
                state.value[node] = free_value(state.residual, packing, node)
        if varies(state.residual):
            _sort_all(packing, state, live_count)
        else:
            _restore_order(packing.live, state, touched, live_count)
        for position in range(touched):
            state.taken[state.touched[position]] = 0
        live_count, full_count = drop_full(packing, application, live_count, full_count)
    return lost


@kernel
def _sort_all(packing: Packing, state: Spread, live_count: int) -> None:
    """Sort ``packing.live[:live_count]`` by free capacity, the largest first, after an update of the weights."""
    reweigh(state.residual)
    for position in range(live_count):
        node = packing.live[position]
        state.value[node] = free_value(state.residual, packing, node)
    sort_by(packing.live, state.value, 0, live_count, -1)


@kernel
def _takes_replica(packing: Packing, state: Spread, application: int, node: int) -> bool:
    """Return whether a further replica of an application may be on a node, and fits."""
    most = min(packing.neighbours.most_on_a_node[application], packing.allowed[node])
    return state.taken[node] < most and fitting(packing, node, application, 1) == 1


@kernel
def _place_in_turn(packing: Packing, state: Spread, application: int, live_count: int) -> tuple[int, int]:
    """Place replicas on the nodes of ``packing.live[:live_count]`` in turn, one on each, until none takes another.

    The result is how many nodes have replicas of the application, and how many replicas are not placed.
    """
    touched, missing = 0, packing.replicas[application]
    for position in range(live_count):
        if missing == 0:
            return touched, missing
        node = packing.live[position]
        if _takes_replica(packing, state, application, node):
            take_capacity(packing, application, node, 1)
            state.taken[node], state.position[node], state.touched[touched] = 1, position, node
            touched += 1
            missing -= 1
    placed = True
    while missing > 0 and placed:
        placed = False
        for position in range(touched):
            node = state.touched[position]
            if missing > 0 and _takes_replica(packing, state, application, node):
                take_capacity(packing, application, node, 1)
                state.taken[node] += 1
                missing -= 1
                placed = True
    return touched, missing


@kernel
def _place_by_value(packing: Packing, state: Spread, application: int, live_count: int) -> tuple[int, int]:
    """Place each replica on the node of ``packing.live[:live_count]`` with the largest value that takes it.

    The result is how many nodes have replicas of the application, and how many replicas are not placed.
    """
    touched, heap_size, position, missing = 0, 0, 0, packing.replicas[application]
    while missing > 0:
        while position < live_count and not _takes_replica(packing, state, application, packing.live[position]):
            position += 1
        if position < live_count and (
            heap_size == 0 or state.value[packing.live[position]] >= state.value[state.heap[0]]
        ):
            node = packing.live[position]
            state.position[node], state.touched[touched] = position, node
            touched += 1
            position += 1
        elif heap_size > 0:
            node = state.heap[0]
            heap_size -= 1
            state.heap[0] = state.heap[heap_size]
            _sink(state, heap_size)
        else:
            break
        take_capacity(packing, application, node, 1)
        state.taken[node] += 1
        state.value[node] = free_value(state.residual, packing, node)
        missing -= 1
        if _takes_replica(packing, state, application, node):
            state.heap[heap_size] = node
            _rise(state, heap_size)
            heap_size += 1
    return touched, missing


@kernel
def _restore_order(order: Int32, state: Spread, touched: int, live_count: int) -> None:
    """Sort ``order[:live_count]`` again after the values of the first `touched` of `state.touched` have fallen."""
    if touched == 0:
        return
    read = write = state.position[state.touched[0]]
    sort_by(state.touched, state.value, 0, touched, -1)
    merged = 0
    while merged < touched:
        fallen = state.touched[merged]
        while read < live_count and state.taken[order[read]] > 0:
            read += 1
        if read < live_count and not _is_before(state, fallen, order[read], read):
            order[write] = order[read]
            read += 1
        else:
            order[write] = fallen
            merged += 1
        write += 1


@kernel
def _is_before(state: Spread, node: int, rival: int, position: int) -> bool:
    """Return whether `node` is sorted before `rival`, which is at `position`: by value, then by position."""
    if state.value[node] != state.value[rival]:
        return bool(state.value[node] > state.value[rival])
    return bool(state.position[node] < position)


@kernel
def _sink(state: Spread, size: int) -> None:
    """Restore the order of the first `size` entries of the heap after its top has changed."""
    position = 0
    while True:
        best = position
        for child in (2 * position + 1, 2 * position + 2):
            largest = state.heap[best]
            if child < size and _is_before(state, state.heap[child], largest, state.position[largest]):
                best = child
        if best == position:
            return
        state.heap[position], state.heap[best] = state.heap[best], state.heap[position]
        position = best


@kernel
def _rise(state: Spread, position: int) -> None:
    """Restore the order of the heap after a node was appended at a position."""
    while position > 0:
        above = (position - 1) // 2
        parent = state.heap[above]
        if not _is_before(state, state.heap[position], parent, state.position[parent]):
            return
        state.heap[position], state.heap[above] = state.heap[above], state.heap[position]
        position = above
