"""What the programs of [3]'s authors do where they differ from the paper, so that their figures can be reproduced.

Facts read from the programs (github.com/DSSGroup-Leeds/LRA-binpacking-expe, of the constant demands):

- Shares of a node are divided as whole numbers, so that they are 0 unless demand, or free capacity, is all that a node
  has. Sizes and free capacities of nodes are nearly equal by every measure except two: `EXTENDED_SUM`, and for nodes
  `EXPONENTIAL`. Applications then have their given order, and Best Fit and Worst Fit are First Fit.
- One replica is placed at a time, and nodes are sorted before each, where the paper's algorithm 1 places as many as
  fit. A node that was found too small for an application keeps the measure that it had before.
- The free capacity of a node as one number has 32 bits.
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
from plb.provisioning.node_centric import Filling, most_wanted, place_on_node, reset_limits, score_of, set_weights
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
    add_free_to_totals,
    add_node,
    add_slot,
    clear_limits,
    drop_full,
    fitting,
    is_full,
    open_node,
    record_limits,
    sort_by,
    take_capacity,
    take_from_totals,
)


def whole_shares(demand: Int32, capacity: Int32) -> Float:
    """Return the shares of a node, (L, D), as the programs have them: demand (L, D) by capacity (D,), rounded down."""
    return np.asarray(demand // capacity, np.float64)


class SortedNodes(NamedTuple):
    """The keys by which the nodes in `Packing.live` are sorted."""

    measure: Float32
    """(N,) free capacity of a node as one number, when it was last computed."""
    taken: Int32
    """(N,) number of replicas of the present application on a node; 0 between applications."""
    factors: Float32
    """(D,) weight of a dimension in the measure: a factor, or for `EXTENDED_SUM` a divisor."""
    residual: Residual
    """The measure, the capacity of a node, and the sums over the nodes in use; its weights are not used."""


def empty_sorted_nodes(nodes: int, residual: Residual) -> SortedNodes:
    """Return the sort keys of `nodes` nodes before any is in use."""
    factors = np.zeros(len(residual.capacity), np.float32)
    return SortedNodes(np.zeros(nodes, np.float32), np.zeros(nodes, np.int32), factors, residual)


@kernel
def resorted_fit(order: Int, packing: Packing, nodes: SortedNodes, sign: int) -> int:
    """Give each replica the first node that takes it, nodes being sorted before each by free capacity.

    `order` is (L,), `sign` 1 for Best Fit and -1 for Worst Fit; the result is 0, `NO_CAPACITY` or `STOPPED`.
    """
    live_count, full_count = 0, 0
    for application in order:
        if packing.stop[0]:
            return STOPPED
        limited_count = record_limits(packing, application)
        most_on_a_node = packing.neighbours.most_on_a_node[application]
        current = 0
        for _ in range(packing.replicas[application]):
            sort_by(packing.live, nodes.measure, current, live_count, sign)
            while True:
                if current == live_count:
                    node = open_node(packing, application)
                    if node == NO_CAPACITY:
                        return NO_CAPACITY
                    packing.live[live_count] = node
                    live_count += 1
                    nodes.measure[node] = 0.0
                    add_node(nodes.residual, packing, node)
                node = packing.live[current]
                if nodes.taken[node] < min(most_on_a_node, packing.allowed[node]) and fitting(
                    packing, node, application, 1
                ):
                    break
                current += 1
            nodes.taken[node] += 1
            take_capacity(packing, application, node, 1)
            take_from_totals(packing, nodes.residual.totals, application, 1)
            _measure_nodes(packing, nodes, current, live_count)
        clear_limits(packing, limited_count)
        for position in range(live_count):
            node = packing.live[position]
            if nodes.taken[node] > 0:
                add_slot(packing, application, node, nodes.taken[node])
                nodes.taken[node] = 0
        live_count, full_count = drop_full(packing, application, live_count, full_count)
    return 0


@kernel
def _measure_nodes(packing: Packing, nodes: SortedNodes, first: int, end: int) -> None:
    """Write `nodes.factors`, and `nodes.measure` of the nodes ``packing.live[first:end]``, as the programs do."""
    residual = nodes.residual
    measure, dimensions, sum_of_totals = residual.measure, len(residual.capacity), 0
    for dimension in range(dimensions):
        sum_of_totals += residual.totals[dimension]
    for dimension in range(dimensions):
        total, capacity = residual.totals[dimension], residual.capacity[dimension]
        factor = np.float32(1.0)
        if measure == EXPONENTIAL:
            factor = np.float32(np.exp(EPSILON * total / (capacity * residual.nodes[0])) / capacity)
        # where nothing is left of a resource, they divide 0 by 0; here that is 0
        elif measure == SURROGATE:
            factor = np.float32(total) / np.float32(max(sum_of_totals, 1))
        elif measure == EXTENDED_SUM:
            factor = np.float32(max(total, 1))
        nodes.factors[dimension] = factor
    for position in range(first, end):
        node = packing.live[position]
        value_of_node = np.float32(0.0)
        for dimension in range(dimensions):
            units = packing.free[node, dimension]
            if measure == EXTENDED_SUM:
                value = np.float32(units) / nodes.factors[dimension]
            elif measure == EXPONENTIAL:
                value = nodes.factors[dimension] * np.float32(units)
            else:
                value = nodes.factors[dimension] * np.float32(units // residual.capacity[dimension])
            value_of_node = max(value_of_node, value) if measure == MAX else value_of_node + value
        nodes.measure[node] = value_of_node


@kernel
def fill_in_turn(packing: Packing, filling: Filling) -> int:
    """Fill node after node as the programs do; return 0, `NO_CAPACITY` or `STOPPED`."""
    done, whole_count = 0, 0
    for application in filling.remaining:
        whole_count += _asks_for_all(packing, filling, application)
    for kind in range(len(packing.end)):
        while done < len(filling.remaining) and packing.unused[kind] < packing.end[kind]:
            if packing.stop[0]:
                return STOPPED
            node = packing.unused[kind]
            add_free_to_totals(packing, filling.totals, node, 1)
            done, whole_count, placed = _fill(packing, filling, node, done, whole_count)
            reset_limits(filling)
            if not placed:
                add_free_to_totals(packing, filling.totals, node, -1)
                break
            packing.unused[kind] += 1
    return 0 if done == len(filling.remaining) else NO_CAPACITY


@kernel
def _fill(packing: Packing, filling: Filling, node: int, done: int, whole_count: int) -> tuple[int, int, bool]:
    """Place what fits on a node, of the applications in `filling.remaining`, whose first `done` are completed.

    `whole_count` of the others need all that a node has of a resource. The result is both numbers afterwards, and
    whether a replica was placed.
    """
    placed = False
    for current in range(done, len(filling.remaining)):
        if whole_count > 0:
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
                whole_count -= _asks_for_all(packing, filling, application)
            if is_full(packing, node) and (whole_count == 0 or _is_filled(packing, node)):
                break
    return done, whole_count, placed


@kernel
def _asks_for_all(packing: Packing, filling: Filling, application: int) -> bool:
    """Return whether an application needs all that a node has of a resource."""
    asks = False
    for dimension in range(len(filling.capacity)):
        asks = asks or packing.demand[application, dimension] >= filling.capacity[dimension]
    return asks


@kernel
def _is_filled(packing: Packing, node: int) -> bool:
    """Return whether a node has no free capacity in some dimension."""
    filled = False
    for dimension in range(len(packing.least)):
        filled = filled or packing.free[node, dimension] == 0
    return filled


@kernel
def _bring_highest(packing: Packing, filling: Filling, node: int, first: int) -> None:
    """Score ``filling.remaining[first:]`` for a node and bring the highest to the front by a pass of bubble sort."""
    order, value = filling.remaining, filling.value
    set_weights(packing, filling, node)
    for position in range(first, len(order)):
        value[position] = score_of(packing, filling, node, order[position], True)
    for position in range(len(order) - 1, first, -1):
        if value[position] > value[position - 1]:
            value[position], value[position - 1] = value[position - 1], value[position]
            order[position], order[position - 1] = order[position - 1], order[position]
