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
    drop_full,
    fitting,
    left,
    lift_limits,
    limit_nodes,
    note_place,
    open_node,
    reweigh,
    sort_by,
    take,
    take_from_totals,
    varies,
)


@kernel
def first_fit(order: Int, packing: Packing) -> int:
    """Place applications, (L,), in order on the first nodes that take them; return 0, `NO_CAPACITY` or `STOPPED`."""
    live, full = 0, 0
    for application in order:
        if packing.stop[0]:
            return STOPPED
        live = place_first(packing, application, live)
        if live == NO_CAPACITY:
            return NO_CAPACITY
        live, full = drop_full(packing, application, live, full)
    return 0


@kernel
def place_first(packing: Packing, application: int, live: int) -> int:
    """Place an application on the first feasible nodes; return the new number of live nodes, or `NO_CAPACITY`."""
    noted = limit_nodes(packing, application)
    most_on_a_node, missing = packing.neighbours.most_on_a_node[application], packing.replicas[application]
    number = 0
    while missing > 0:
        if number == live:
            opened = open_node(packing, application)
            if opened == NO_CAPACITY:
                return NO_CAPACITY
            packing.live[live] = opened
            live += 1
        node = packing.live[number]
        number += 1
        count = min(packing.allowed[node], most_on_a_node, missing)
        if count > 0:
            count = fitting(packing, node, application, count)
            if count > 0:
                take(packing, application, node, count)
                note_place(packing, application, node, count)
                missing -= count
    lift_limits(packing, noted)
    return live


class Candidates(NamedTuple):
    """The feasible nodes of the present application."""

    node: Int32
    """(N,)"""
    capacity: Int32
    """(N,) how many replicas it takes."""
    value: Float
    """(N,) free capacity of a node as one number."""


def no_candidates(nodes: int) -> Candidates:
    """Return space for a number of candidates."""
    return Candidates(np.zeros(nodes, np.int32), np.zeros(nodes, np.int32), np.zeros(nodes))


@kernel
def ordered_fit(order: Int, packing: Packing, candidates: Candidates, residual: Residual, sign: int) -> int:
    """Place applications, (L,), by Best Fit (`sign` 1) or Worst Fit (-1); return 0, `NO_CAPACITY` or `STOPPED`."""
    live, full = 0, 0
    for application in order:
        if packing.stop[0]:
            return STOPPED
        noted = limit_nodes(packing, application)
        most_on_a_node, missing = packing.neighbours.most_on_a_node[application], packing.replicas[application]
        feasible = _find(packing, candidates, application, min(most_on_a_node, missing), live)
        lift_limits(packing, noted)
        if not varies(residual):
            _value(packing, candidates, residual, feasible)
        while missing > 0:
            if feasible > 0:
                if varies(residual):
                    reweigh(residual)
                    _value(packing, candidates, residual, feasible)
                chosen = _least(candidates, feasible, sign)
                node, count = candidates.node[chosen], min(candidates.capacity[chosen], missing)
                feasible -= 1
                _leave_out(candidates, chosen, feasible)
            else:
                node = open_node(packing, application)
                if node == NO_CAPACITY:
                    return NO_CAPACITY
                packing.live[live] = node
                live += 1
                add_node(residual, packing, node)
                count = fitting(packing, node, application, min(most_on_a_node, missing))
            take(packing, application, node, count)
            take_from_totals(packing, residual.totals, application, count)
            note_place(packing, application, node, count)
            missing -= count
        live, full = drop_full(packing, application, live, full)
    return 0


@kernel
def _find(packing: Packing, candidates: Candidates, application: int, most: int, live: int) -> int:
    """Note the nodes in use that take an application; return how many there are."""
    feasible = 0
    for number in range(live):
        node = packing.live[number]
        capacity = min(packing.allowed[node], most)
        if capacity > 0:
            capacity = fitting(packing, node, application, capacity)
            if capacity > 0:
                candidates.node[feasible], candidates.capacity[feasible] = node, capacity
                feasible += 1
    return feasible


@kernel
def _value(packing: Packing, candidates: Candidates, residual: Residual, feasible: int) -> None:
    for number in range(feasible):
        candidates.value[number] = left(residual, packing, candidates.node[number])


@kernel
def _least(candidates: Candidates, feasible: int, sign: int) -> int:
    """Return the first candidate with the least value, or with the largest if `sign` is -1."""
    chosen = 0
    for number in range(1, feasible):
        if sign * candidates.value[number] < sign * candidates.value[chosen]:
            chosen = number
    return chosen


@kernel
def _leave_out(candidates: Candidates, chosen: int, rest: int) -> None:
    """Leave a candidate out and keep the order of the rest, which decides between equals."""
    for number in range(chosen, rest):
        candidates.node[number] = candidates.node[number + 1]
        candidates.capacity[number] = candidates.capacity[number + 1]
        candidates.value[number] = candidates.value[number + 1]


class Struck(NamedTuple):
    """Nodes that an application has lost as candidates."""

    order: Int
    """(L,) applications, those not placed yet behind."""
    lost: Int
    """(L,) how many nodes an application has lost."""
    placed: Bool
    """(L,)"""
    nodes: UInt8
    """(L, N / 8, rounded up) which ones, a bit for each."""


def nothing_struck(order: Int, nodes: int) -> Struck:
    """Return the state before the first application; `order` is (L,)."""
    applications = len(order)
    return Struck(
        order.copy(),
        np.zeros(applications, np.int64),
        np.zeros(applications, np.bool_),
        np.zeros((applications, (nodes + 7) // 8), np.uint8),
    )


@kernel
def fewest_candidates(packing: Packing, struck: Struck) -> int:
    """Place application after application by First Fit, next one with the fewest candidate nodes (equation 5).

    As in the programs of the authors of [3], candidate nodes of an application are updated when one that shares
    a limit with it is placed, and one pass of bubble sort moves the application with the fewest candidates to the
    front, which moves others as well. The result is 0, `NO_CAPACITY` or `STOPPED`.
    """
    live, full = 0, 0
    for number in range(len(struck.order)):
        if packing.stop[0]:
            return STOPPED
        application = struck.order[number]
        live = place_first(packing, application, live)
        if live == NO_CAPACITY:
            return NO_CAPACITY
        struck.placed[application] = True
        _strike_neighbours(packing, struck, application)
        for place in range(len(struck.order) - 1, number + 1, -1):
            behind, before = struck.order[place], struck.order[place - 1]
            if struck.lost[behind] > struck.lost[before]:
                struck.order[place], struck.order[place - 1] = before, behind
        live, full = drop_full(packing, application, live, full)
    return 0


@kernel
def _strike_neighbours(packing: Packing, struck: Struck, application: int) -> None:
    """Strike the nodes of an application that those with which it shares a limit cannot go to any more."""
    neighbours, first = packing.neighbours, packing.start[application]
    for place in range(first, first + packing.places[application]):
        node, count = packing.node[place], packing.placed[place]
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            _strike(packing, struck, neighbours.out_other[arc], node, neighbours.out_most[arc] == 0)
        for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
            _strike(packing, struck, neighbours.in_other[arc], node, count > neighbours.in_most[arc])


@kernel
def _strike(packing: Packing, struck: Struck, application: int, node: int, excluded: bool) -> None:
    bit = 1 << (node % 8)
    if struck.placed[application] or struck.nodes[application, node // 8] & bit:
        return
    if excluded or fitting(packing, node, application, 1) == 0:
        struck.nodes[application, node // 8] |= bit
        struck.lost[application] += 1


class Spread(NamedTuple):
    """The nodes, and the nodes of the present application."""

    residual: Residual
    """Combination of the free capacities to one number."""
    value: Float
    """(N,) free capacity of a node as one number."""
    taken: Int32
    """(N,) replicas of the application at hand; 0 between applications."""
    place: Int32
    """(N,) place in the order of a node with replicas of the application."""
    touched: Int32
    """(N,) the nodes of the application, in the order in which it used them."""
    heap: Int32
    """(N,) the feasible nodes among `touched`, the largest free capacity on top."""


def nothing_spread(nodes: int, residual: Residual) -> Spread:
    """Return space for a number of nodes."""
    return Spread(residual, np.zeros(nodes), *(np.zeros(nodes, np.int32) for _ in range(4)))


@kernel
def spread(order: Int, packing: Packing, state: Spread, in_turn: bool) -> int:
    """Place the replicas one by one, applications (L,) in order; return how many are not placed, or `STOPPED`.

    With few replicas of an application on a node, limits bind less ([3] section 4.4, algorithm 3).
    A replica is placed on the node with the largest free capacity, of equal ones on one without the application. With
    `in_turn`, nodes are tried in the order before the application, as in the programs of the authors of [3]. Weights
    of free capacity that depend on all nodes are updated after each application.
    """
    live, full, lost = len(packing.free), 0, 0
    for node in range(live):
        packing.live[node] = node
        add_node(state.residual, packing, node)
    _sort_all(packing, state, live)
    for application in order:
        if packing.stop[0]:
            return STOPPED
        noted = limit_nodes(packing, application)
        if in_turn:
            touched, missing = _place_in_turn(packing, state, application, live)
        else:
            touched, missing = _place_by_value(packing, state, application, live)
        lift_limits(packing, noted)
        lost += missing
        for number in range(touched):
            node = state.touched[number]
            note_place(packing, application, node, state.taken[node])
            take_from_totals(packing, state.residual.totals, application, state.taken[node])
            if in_turn:
                state.value[node] = left(state.residual, packing, node)
        if varies(state.residual):
            _sort_all(packing, state, live)
        else:
            _resettle(packing.live, state, touched, live)
        for number in range(touched):
            state.taken[state.touched[number]] = 0
        live, full = drop_full(packing, application, live, full)
    return lost


@kernel
def _sort_all(packing: Packing, state: Spread, live: int) -> None:
    """Sort the nodes by free capacity, with weights that follow the totals."""
    reweigh(state.residual)
    for number in range(live):
        node = packing.live[number]
        state.value[node] = left(state.residual, packing, node)
    sort_by(packing.live, state.value, 0, live, -1)


@kernel
def _takes_one(packing: Packing, state: Spread, application: int, node: int) -> bool:
    """Return whether one more replica of an application may be on a node, and fits."""
    most = min(packing.neighbours.most_on_a_node[application], packing.allowed[node])
    return state.taken[node] < most and fitting(packing, node, application, 1) == 1


@kernel
def _place_in_turn(packing: Packing, state: Spread, application: int, live: int) -> tuple[int, int]:
    """Ask nodes in turn; return how many took replicas, and how many replicas found no place."""
    touched, missing = 0, packing.replicas[application]
    for number in range(live):
        if missing == 0:
            return touched, missing
        node = packing.live[number]
        if _takes_one(packing, state, application, node):
            take(packing, application, node, 1)
            state.taken[node], state.place[node], state.touched[touched] = 1, number, node
            touched += 1
            missing -= 1
    placed = True
    while missing > 0 and placed:
        placed = False
        for number in range(touched):
            node = state.touched[number]
            if missing > 0 and _takes_one(packing, state, application, node):
                take(packing, application, node, 1)
                state.taken[node] += 1
                missing -= 1
                placed = True
    return touched, missing


@kernel
def _place_by_value(packing: Packing, state: Spread, application: int, live: int) -> tuple[int, int]:
    """Give each replica to the node with most left; return how many took some, and how many found no place."""
    touched, waiting, number, missing = 0, 0, 0, packing.replicas[application]
    while missing > 0:
        while number < live and not _takes_one(packing, state, application, packing.live[number]):
            number += 1
        if number < live and (waiting == 0 or state.value[packing.live[number]] >= state.value[state.heap[0]]):
            node = packing.live[number]
            state.place[node], state.touched[touched] = number, node
            touched += 1
            number += 1
        elif waiting > 0:
            node = state.heap[0]
            waiting -= 1
            state.heap[0] = state.heap[waiting]
            _sink(state, waiting)
        else:
            break
        take(packing, application, node, 1)
        state.taken[node] += 1
        state.value[node] = left(state.residual, packing, node)
        missing -= 1
        if _takes_one(packing, state, application, node):
            state.heap[waiting] = node
            _rise(state, waiting)
            waiting += 1
    return touched, missing


@kernel
def _resettle(order: Int32, state: Spread, touched: int, live: int) -> None:
    """Move the changed nodes, which have less free capacity than before, to their places in the order."""
    if touched == 0:
        return
    read = write = state.place[state.touched[0]]
    sort_by(state.touched, state.value, 0, touched, -1)
    waiting = 0
    while waiting < touched:
        late = state.touched[waiting]
        while read < live and state.taken[order[read]] > 0:
            read += 1
        if read < live and not _before(state, late, order[read], read):
            order[write] = order[read]
            read += 1
        else:
            order[write] = late
            waiting += 1
        write += 1


@kernel
def _before(state: Spread, node: int, rival: int, place: int) -> bool:
    """Return whether a node has more free capacity than another, at a place; of equal ones, the first in order has."""
    if state.value[node] != state.value[rival]:
        return bool(state.value[node] > state.value[rival])
    return bool(state.place[node] < place)


@kernel
def _sink(state: Spread, size: int) -> None:
    """Restore the order of a heap whose top has changed."""
    place = 0
    while True:
        best = place
        for child in (2 * place + 1, 2 * place + 2):
            largest = state.heap[best]
            if child < size and _before(state, state.heap[child], largest, state.place[largest]):
                best = child
        if best == place:
            return
        state.heap[place], state.heap[best] = state.heap[best], state.heap[place]
        place = best


@kernel
def _rise(state: Spread, place: int) -> None:
    """Let a node in the heap rise until its parent has more free capacity."""
    while place > 0:
        above = (place - 1) // 2
        parent = state.heap[above]
        if not _before(state, state.heap[place], parent, state.place[parent]):
            return
        state.heap[place], state.heap[above] = state.heap[above], state.heap[place]
        place = above
