"""Application after application ([3] section 4.2, algorithm 1): First Fit, Best Fit and Worst Fit.

L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.provisioning.measures import Residual, add_node, left, reweigh, varies
from plb.provisioning.packing import (
    NO_CAPACITY,
    STOPPED,
    Packing,
    drop_full,
    fitting,
    lift_limits,
    limit_nodes,
    note_place,
    open_node,
    take,
    take_from_totals,
)


@kernel
def first_fit(order: Int, packing: Packing) -> int:
    """Give each application, in an order, (L,), the first nodes that take it, as many replicas to each as fit.

    The result is 0, `NO_CAPACITY` or `STOPPED`.
    """
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
    """Place an application on the first feasible nodes, and open nodes if there is none.

    Returns
    -------
    Number of nodes in `packing.live`, of which there were `live`; `NO_CAPACITY`: there are too few nodes.
    """
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
    """Place each application on the nodes with the least, or the most, free capacity, as many replicas as fit on each.

    Parameters
    ----------
    order
        (L,) applications.
    residual
        How what is left of a node becomes one number.
    sign
        1: the node with least left (Best Fit); -1: the one with most (Worst Fit). Of equals, the one opened first.

    Returns
    -------
    0, `NO_CAPACITY` or `STOPPED`.
    """
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
