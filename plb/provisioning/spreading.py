"""Replicas spread over a given number of nodes, one at a time ([3] section 4.4, algorithm 3).

With few replicas of an application on a node, limits bind less. Nodes are ordered by free capacity, largest
first, so that the first feasible one is that of Worst Fit.

L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.provisioning.packing import (
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
    reweigh,
    sort_by,
    take,
    take_from_totals,
    varies,
)


class Spread(NamedTuple):
    """The nodes, and those of the present application."""

    residual: Residual
    """Combination of the free capacities to one number."""
    value: Float
    """(N,) free capacity of a node as one number."""
    taken: Int32
    """(N,) replicas of the application at hand; 0 between applications."""
    place: Int32
    """(N,) of a node in the order, of those with such replicas."""
    touched: Int32
    """(N,) the nodes of the application, in the order in which it used them."""
    heap: Int32
    """(N,) of these, the feasible ones, the one with the largest free capacity on top."""


def nothing_spread(nodes: int, residual: Residual) -> Spread:
    """Return space for a number of nodes."""
    return Spread(residual, np.zeros(nodes), *(np.zeros(nodes, np.int32) for _ in range(4)))


@kernel
def spread(order: Int, packing: Packing, state: Spread, in_turn: bool) -> int:
    """Place the replicas one by one, applications (L,) in order; return how many are not placed, or `STOPPED`.

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
def _before(state: Spread, one: int, other: int, place: int) -> bool:
    """Return whether a node has more free capacity than another, at a place; of equal ones, the first in order has."""
    if state.value[one] != state.value[other]:
        return bool(state.value[one] > state.value[other])
    return bool(state.place[one] < place)


@kernel
def _sink(state: Spread, size: int) -> None:
    """Restore the order of a heap whose top has changed."""
    place = 0
    while True:
        best = place
        for child in (2 * place + 1, 2 * place + 2):
            other = state.heap[best]
            if child < size and _before(state, state.heap[child], other, state.place[other]):
                best = child
        if best == place:
            return
        state.heap[place], state.heap[best] = state.heap[best], state.heap[place]
        place = best


@kernel
def _rise(state: Spread, place: int) -> None:
    """Let a node in the heap rise to where more is left of the one above it."""
    while place > 0:
        above = (place - 1) // 2
        other = state.heap[above]
        if not _before(state, state.heap[place], other, state.place[other]):
            return
        state.heap[place], state.heap[above] = state.heap[above], state.heap[place]
        place = above
