"""What the programs of [3]'s authors do where they differ from the paper's text, so that their figures can be had.

Facts read from the programs (github.com/DSSGroup-Leeds/LRA-binpacking-expe, of the constant demands):

- Shares of a node are divided as whole numbers, so that they are 0 unless demand, or what is left, is all that a node
  has. Sizes and free capacities of nodes are nearly equal by every measure except two: `EXTENDED_SUM`, and for nodes
  `EXPONENTIAL`. Applications then have their given order, and Best Fit and Worst Fit are First Fit.
- One replica is placed at a time, and nodes are sorted before each, where the paper's algorithm 1 places as many as
  fit. A node that was found too small for an application keeps the measure that it had before.
- What is left of a node is a 32-bit number.

L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.provisioning.affinity import Neighbours
from plb.provisioning.application_centric import FULL_NODES, Replicas
from plb.provisioning.measures import EPSILON, EXPONENTIAL, EXTENDED_SUM, MAX, SURROGATE
from plb.provisioning.packing import (
    NO_CAPACITY,
    STOPPED,
    Packing,
    count_full,
    drop_full,
    fitting,
    lift_limits,
    limit_nodes,
    note_place,
    open_node,
    sort_by,
    take,
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
    totals: Int
    """(D,) what is left of all nodes in use."""
    nodes: Int
    """(1,) how many nodes are in use."""
    capacity: Int32
    """(D,) of a node."""
    factors: Float32
    """(D,) weights of a unit."""


def nothing_sorted(nodes: int, capacity: Int32) -> Sorted:
    """Return the state before a node is in use; `capacity` is (D,)."""
    dimensions = len(capacity)
    return Sorted(
        measure=np.zeros(nodes, np.float32),
        taken=np.zeros(nodes, np.int32),
        totals=np.zeros(dimensions, np.int64),
        nodes=np.zeros(1, np.int64),
        capacity=capacity,
        factors=np.zeros(dimensions, np.float32),
    )


@kernel
def resorted_fit(
    required: Replicas, neighbours: Neighbours, packing: Packing, nodes: Sorted, measure: int, sign: int
) -> int:
    """Give each replica the first node that takes it, nodes being sorted before each by what is left of them.

    Parameters
    ----------
    measure
        As in `plb.provisioning.measures.CODES`.
    sign
        1: least first (Best Fit); -1: most first (Worst Fit).

    Returns
    -------
    0; `NO_CAPACITY`: there are too few nodes; `STOPPED`: time ran out.
    """
    live, full = 0, 0
    for application in required.order:
        if packing.stop[0]:
            return STOPPED
        noted = limit_nodes(packing, neighbours, application)
        most_on_a_node = neighbours.most_on_a_node[application]
        current = 0
        for _ in range(required.replicas[application]):
            sort_by(packing.live, nodes.measure, current, live, sign)
            while True:
                if current == live:
                    node = open_node(packing, required.demand, application)
                    if node == NO_CAPACITY:
                        return NO_CAPACITY
                    packing.live[live] = node
                    live += 1
                    nodes.nodes[0] += 1
                    nodes.measure[node] = 0.0
                    for dimension in range(len(nodes.totals)):
                        nodes.totals[dimension] += packing.free[node, dimension]
                node = packing.live[current]
                if nodes.taken[node] < min(most_on_a_node, packing.allowed[node]) and fitting(
                    packing.free, node, required.demand, application, 1
                ):
                    break
                current += 1
            nodes.taken[node] += 1
            take(packing, required.demand, application, node, 1)
            for dimension in range(len(nodes.totals)):
                nodes.totals[dimension] -= required.demand[application, dimension]
            _measure(packing, nodes, measure, current, live)
        lift_limits(packing, noted)
        for number in range(live):
            node = packing.live[number]
            if nodes.taken[node] > 0:
                note_place(packing, application, node, nodes.taken[node])
                nodes.taken[node] = 0
        full += count_full(packing, application)
        if full >= FULL_NODES:
            live, full = drop_full(packing, live), 0
    return 0


@kernel
def _measure(packing: Packing, nodes: Sorted, measure: int, first: int, end: int) -> None:
    """Measure what is left of the nodes from a place on."""
    dimensions = len(nodes.capacity)
    whole = 0
    for dimension in range(dimensions):
        whole += nodes.totals[dimension]
    for dimension in range(dimensions):
        total, capacity = nodes.totals[dimension], nodes.capacity[dimension]
        factor = np.float32(1.0)
        if measure == EXPONENTIAL:
            factor = np.float32(np.exp(EPSILON * total / (capacity * nodes.nodes[0])) / capacity)
        # where nothing is left of a resource, they divide 0 by 0; here that is 0
        elif measure == SURROGATE:
            factor = np.float32(total) / np.float32(max(whole, 1))
        elif measure == EXTENDED_SUM:
            factor = np.float32(max(total, 1))
        nodes.factors[dimension] = factor
    for number in range(first, end):
        node = packing.live[number]
        found = np.float32(0.0)
        for dimension in range(dimensions):
            units = packing.free[node, dimension]
            if measure == EXTENDED_SUM:
                value = np.float32(units) / nodes.factors[dimension]
            elif measure == EXPONENTIAL:
                value = nodes.factors[dimension] * np.float32(units)
            else:
                value = nodes.factors[dimension] * np.float32(units // nodes.capacity[dimension])
            found = max(found, value) if measure == MAX else found + value
        nodes.measure[node] = found
