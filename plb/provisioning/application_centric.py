"""Application after application ([3] section 4.2, algorithm 1): First Fit, Best Fit and Worst Fit.

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
        found = _find(packing, candidates, application, min(most_on_a_node, missing), live)
        lift_limits(packing, noted)
        if not varies(residual):
            _value(packing, candidates, residual, found)
        while missing > 0:
            if found > 0:
                if varies(residual):
                    reweigh(residual)
                    _value(packing, candidates, residual, found)
                chosen = _least(candidates, found, sign)
                node, count = candidates.node[chosen], min(candidates.capacity[chosen], missing)
                found -= 1
                _leave_out(candidates, chosen, found)
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
    found = 0
    for number in range(live):
        node = packing.live[number]
        capacity = min(packing.allowed[node], most)
        if capacity > 0:
            capacity = fitting(packing, node, application, capacity)
            if capacity > 0:
                candidates.node[found], candidates.capacity[found] = node, capacity
                found += 1
    return found


@kernel
def _value(packing: Packing, candidates: Candidates, residual: Residual, found: int) -> None:
    for number in range(found):
        candidates.value[number] = left(residual, packing, candidates.node[number])


@kernel
def _least(candidates: Candidates, found: int, sign: int) -> int:
    """Return the first candidate with the least value, or with the largest if `sign` is -1."""
    chosen = 0
    for number in range(1, found):
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
    """Place application after application by First Fit, next the one with the fewest candidate nodes (equation 5).

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
            one, other = struck.order[place], struck.order[place - 1]
            if struck.lost[one] > struck.lost[other]:
                struck.order[place], struck.order[place - 1] = other, one
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
