"""What the programs of [3]'s authors do where they differ from the paper, so that their figures can be reproduced.

Facts read from the programs (github.com/DSSGroup-Leeds/LRA-binpacking-expe, of the constant demands):

- Shares of a node are divided as whole numbers, so that they are 0 unless demand, or what is left, is all that a node
  has. Sizes and free capacities of nodes are nearly equal by every measure except two: `EXTENDED_SUM`, and for nodes
  `EXPONENTIAL`. Applications then have their given order, and Best Fit and Worst Fit are First Fit.
- One replica is placed at a time, and nodes are sorted before each, where the paper's algorithm 1 places as many as
  fit. A node that was found too small for an application keeps the measure that it had before.
- What is left of a node is a 32-bit number.
- Where one node after the other is filled, all applications are scored, whether they fit or not. The one with the
  highest score is moved to the front of the list by one pass of bubble sort, which moves others as well, and tried. A
  completed application is exchanged with the first in the list that is not completed. Scores are all 0 once the
  applications that need all of a resource are placed: the list is then used in its order. L2Norm of the programs adds
  the square of the second resource where the paper subtracts it; here it is subtracted.

L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.provisioning.node_centric import Filling, leave_node, most_wanted, place_on_node, score_of, set_weights
from plb.provisioning.packing import (
    EPSILON,
    EXPONENTIAL,
    EXTENDED_SUM,
    MAX,
    NO_CAPACITY,
    STOPPED,
    SURROGATE,
    Packing,
    Residual,
    add_node,
    count_node,
    drop_full,
    fitting,
    is_full,
    lift_limits,
    limit_nodes,
    note_place,
    open_node,
    sort_by,
    take,
    take_from_totals,
)


def whole_shares(demand: Int32, capacity: Int32) -> Float:
    """Return the shares, (L, D), as the programs have them: whole numbers."""
    return np.asarray(demand // capacity, np.float64)


class Sorted(NamedTuple):
    """The nodes in the order in which they are tried."""

    measure: Float32
    """(N,) score of the free capacity of a node, when it was last computed."""
    taken: Int32
    """(N,) replicas of the present application."""
    factors: Float32
    """(D,) weights of a unit."""
    residual: Residual
    """Of which the measure, the capacity of a node, and the sums over the nodes in use are read."""


def nothing_sorted(nodes: int, residual: Residual) -> Sorted:
    """Return the state before a node is in use."""
    factors = np.zeros(len(residual.capacity), np.float32)
    return Sorted(np.zeros(nodes, np.float32), np.zeros(nodes, np.int32), factors, residual)


@kernel
def resorted_fit(order: Int, packing: Packing, nodes: Sorted, sign: int) -> int:
    """Give each replica the first node that takes it, nodes being sorted before each by free capacity.

    `order` is (L,), `sign` 1 for Best Fit and -1 for Worst Fit; the result is 0, `NO_CAPACITY` or `STOPPED`.
    """
    live, full = 0, 0
    for application in order:
        if packing.stop[0]:
            return STOPPED
        noted = limit_nodes(packing, application)
        most_on_a_node = packing.neighbours.most_on_a_node[application]
        current = 0
        for _ in range(packing.replicas[application]):
            sort_by(packing.live, nodes.measure, current, live, sign)
            while True:
                if current == live:
                    node = open_node(packing, application)
                    if node == NO_CAPACITY:
                        return NO_CAPACITY
                    packing.live[live] = node
                    live += 1
                    nodes.measure[node] = 0.0
                    add_node(nodes.residual, packing, node)
                node = packing.live[current]
                if nodes.taken[node] < min(most_on_a_node, packing.allowed[node]) and fitting(
                    packing, node, application, 1
                ):
                    break
                current += 1
            nodes.taken[node] += 1
            take(packing, application, node, 1)
            take_from_totals(packing, nodes.residual.totals, application, 1)
            _measure(packing, nodes, current, live)
        lift_limits(packing, noted)
        for number in range(live):
            node = packing.live[number]
            if nodes.taken[node] > 0:
                note_place(packing, application, node, nodes.taken[node])
                nodes.taken[node] = 0
        live, full = drop_full(packing, application, live, full)
    return 0


@kernel
def _measure(packing: Packing, nodes: Sorted, first: int, end: int) -> None:
    """Measure what is left of the nodes from a place on."""
    residual = nodes.residual
    measure, dimensions, whole = residual.measure, len(residual.capacity), 0
    for dimension in range(dimensions):
        whole += residual.totals[dimension]
    for dimension in range(dimensions):
        total, capacity = residual.totals[dimension], residual.capacity[dimension]
        factor = np.float32(1.0)
        if measure == EXPONENTIAL:
            factor = np.float32(np.exp(EPSILON * total / (capacity * residual.nodes[0])) / capacity)
        # where nothing is left of a resource, they divide 0 by 0; here that is 0
        elif measure == SURROGATE:
            factor = np.float32(total) / np.float32(max(whole, 1))
        elif measure == EXTENDED_SUM:
            factor = np.float32(max(total, 1))
        nodes.factors[dimension] = factor
    for number in range(first, end):
        node = packing.live[number]
        total_left = np.float32(0.0)
        for dimension in range(dimensions):
            units = packing.free[node, dimension]
            if measure == EXTENDED_SUM:
                value = np.float32(units) / nodes.factors[dimension]
            elif measure == EXPONENTIAL:
                value = nodes.factors[dimension] * np.float32(units)
            else:
                value = nodes.factors[dimension] * np.float32(units // residual.capacity[dimension])
            total_left = max(total_left, value) if measure == MAX else total_left + value
        nodes.measure[node] = total_left


@kernel
def fill_in_turn(packing: Packing, filling: Filling) -> int:
    """Fill one node after the other as the programs do; the result is 0, `NO_CAPACITY` or `STOPPED`."""
    done, whole = 0, 0
    for application in filling.remaining:
        whole += _asks_for_all(packing, filling, application)
    for kind in range(len(packing.end)):
        while done < len(filling.remaining) and packing.unused[kind] < packing.end[kind]:
            if packing.stop[0]:
                return STOPPED
            node = packing.unused[kind]
            count_node(packing, filling.totals, node, 1)
            done, whole, placed = _fill(packing, filling, node, done, whole)
            leave_node(filling)
            if not placed:
                count_node(packing, filling.totals, node, -1)
                break
            packing.unused[kind] += 1
    return 0 if done == len(filling.remaining) else NO_CAPACITY


@kernel
def _fill(packing: Packing, filling: Filling, node: int, done: int, whole: int) -> tuple[int, int, bool]:
    """Process the list; return how many are completed, how many need all of a resource, and whether any was placed."""
    placed = False
    for current in range(done, len(filling.remaining)):
        if whole > 0:
            _bring_highest(packing, filling, node, current)
        application = filling.remaining[current]
        most = most_wanted(packing, filling, application)
        count = fitting(packing, node, application, most) if most > 0 else 0
        if count > 0:
            place_on_node(packing, filling, node, application, count)
            placed = True
            if filling.missing[application] == 0:
                filling.remaining[current] = filling.remaining[done]
                filling.remaining[done] = application
                done += 1
                whole -= _asks_for_all(packing, filling, application)
            if is_full(packing, node) and (whole == 0 or _is_filled(packing, node)):
                break
    return done, whole, placed


@kernel
def _asks_for_all(packing: Packing, filling: Filling, application: int) -> bool:
    """Return whether an application needs all that a node has of a resource."""
    asks = False
    for dimension in range(len(filling.capacity)):
        asks = asks or packing.demand[application, dimension] >= filling.capacity[dimension]
    return asks


@kernel
def _is_filled(packing: Packing, node: int) -> bool:
    """Return whether nothing is left of a resource."""
    filled = False
    for dimension in range(len(packing.least)):
        filled = filled or packing.free[node, dimension] == 0
    return filled


@kernel
def _bring_highest(packing: Packing, filling: Filling, node: int, first: int) -> None:
    """Score the applications from a place on and bring the highest there by a pass of bubble sort from the end."""
    order, value = filling.remaining, filling.value
    set_weights(packing, filling, node)
    for number in range(first, len(order)):
        value[number] = score_of(packing, filling, node, order[number], True)
    for number in range(len(order) - 1, first, -1):
        if value[number] > value[number - 1]:
            value[number], value[number - 1] = value[number - 1], value[number]
            order[number], order[number - 1] = order[number - 1], order[number]
