"""Nodes that are filled: free capacity, replicas, and how many replicas more may be placed on a node.

L applications, D dimensions, N nodes in the order of their use, K kinds of nodes, R replicas in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.provisioning.affinity import ANY_NUMBER, Neighbours

NO_CAPACITY = -1
"""Says that more nodes are needed than there are."""
STOPPED = -2
"""Says that time ran out."""
FULL_NODES = 32
"""Number of full nodes after which they are removed from the search."""


class Packing(NamedTuple):
    """What is to be placed, and a plan in the making."""

    replicas: Int32
    """(L,) of each application."""
    demand: Int32
    """(L, D) of a replica."""
    neighbours: Neighbours
    """The limits between applications."""
    free: Int32
    """(N, D) free capacity of each node."""
    start: Int
    """(L + 1,) first place of each application; it has as many places as replicas."""
    places: Int32
    """(L,) number of nodes of each application."""
    node: Int32
    """(R,) node of a place."""
    placed: Int32
    """(R,) replicas at a place."""
    allowed: Int32
    """(N,) limit of the replicas of the present application on a node; `ANY_NUMBER` between applications."""
    limited: Int32
    """(N,) the nodes with such a limit; `limit_nodes` returns their number."""
    live: Int32
    """(N,) nodes in use that are not full."""
    least: Int32
    """(D,) the least demand of any application in a dimension; a node with less free capacity is full."""
    unused: Int
    """(K,) the first unused node of each kind."""
    end: Int
    """(K,) one after the last node of each kind."""
    stop: Int
    """(1,) not 0 when time has run out; kernels check it between applications, or nodes."""


def empty_packing(replicas: Int32, demand: Int32, neighbours: Neighbours, free: Int32, end: Int, stop: Int) -> Packing:
    """Return a packing without replicas; its arguments are fields of `Packing`, and `free` is changed later."""
    start = np.concatenate([[0], np.cumsum(replicas, dtype=np.int64)])
    nodes, total = len(free), int(start[-1])
    return Packing(
        replicas=replicas,
        demand=demand,
        neighbours=neighbours,
        free=free,
        start=start,
        places=np.zeros(len(replicas), np.int32),
        node=np.zeros(total, np.int32),
        placed=np.zeros(total, np.int32),
        allowed=np.full(nodes, ANY_NUMBER, np.int32),
        limited=np.zeros(nodes, np.int32),
        live=np.zeros(nodes, np.int32),
        least=demand.min(axis=0),
        unused=np.concatenate([[0], end[:-1]]),
        end=end,
        stop=stop,
    )


def places_of(packing: Packing) -> tuple[Int, Int]:
    """Return the index of each place with replicas, and the application, in order."""
    application = np.repeat(np.arange(len(packing.places)), packing.places)
    first = np.cumsum(packing.places) - packing.places
    return packing.start[application] + np.arange(len(application)) - first[application], application


@kernel
def is_full(packing: Packing, node: int) -> bool:
    """Return whether a node is full."""
    full = False
    for dimension in range(len(packing.least)):
        full = full or packing.free[node, dimension] < packing.least[dimension]
    return full


@kernel
def drop_full(packing: Packing, application: int, live: int, full: int) -> tuple[int, int]:
    """Count the full nodes of a placed application, and remove full nodes from `packing.live` if they are many.

    Returns
    -------
    Numbers of nodes in `packing.live` and of full ones among them, of which there were `live` and `full` before.
    """
    first = packing.start[application]
    for place in range(first, first + packing.places[application]):
        full += is_full(packing, packing.node[place])
    if full < FULL_NODES:
        return live, full
    kept = 0
    for number in range(live):
        node = packing.live[number]
        if not is_full(packing, node):
            packing.live[kept] = node
            kept += 1
    return kept, 0


@kernel
def limit_nodes(packing: Packing, application: int) -> int:
    """Record the limits of others for an application, and of itself, on the nodes.

    Returns
    -------
    Number of nodes in `packing.limited`.
    """
    neighbours, noted = packing.neighbours, 0
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        other, most = neighbours.in_other[arc], neighbours.in_most[arc]
        first = packing.start[other]
        for place in range(first, first + packing.places[other]):
            noted = _limit(packing, packing.node[place], most, noted)
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        other, most = neighbours.out_other[arc], neighbours.out_most[arc]
        first = packing.start[other]
        for place in range(first, first + packing.places[other]):
            if packing.placed[place] > most:
                noted = _limit(packing, packing.node[place], 0, noted)
    return noted


@kernel
def _limit(packing: Packing, node: int, most: int, noted: int) -> int:
    if packing.allowed[node] == ANY_NUMBER:
        packing.limited[noted] = node
        noted += 1
    packing.allowed[node] = min(packing.allowed[node], most)
    return noted


@kernel
def lift_limits(packing: Packing, noted: int) -> None:
    """Forget what `limit_nodes` has noted."""
    for number in range(noted):
        packing.allowed[packing.limited[number]] = ANY_NUMBER


@kernel
def fitting(packing: Packing, node: int, application: int, most: int) -> int:
    """Return how many replicas of an application fit on a node, up to a maximum."""
    for dimension in range(packing.demand.shape[1]):
        asked, left = packing.demand[application, dimension], packing.free[node, dimension]
        if asked * most > left:
            if asked > left:
                return 0
            most = left // asked
    return most


@kernel
def take(packing: Packing, application: int, node: int, count: int) -> None:
    """Subtract the demand of a number of replicas from the free capacity of a node; `note_place` records them."""
    for dimension in range(packing.demand.shape[1]):
        packing.free[node, dimension] -= count * packing.demand[application, dimension]


@kernel
def take_from_totals(packing: Packing, totals: Int, application: int, count: int) -> None:
    """Subtract the demand of a number of replicas from the free capacity of all nodes in use, (D,)."""
    for dimension in range(len(totals)):
        totals[dimension] -= count * packing.demand[application, dimension]


@kernel
def count_node(packing: Packing, totals: Int, node: int, sign: int) -> None:
    """Add the free capacity of a node to that of all nodes in use, (D,), or subtract it if `sign` is -1."""
    for dimension in range(len(totals)):
        totals[dimension] += sign * packing.free[node, dimension]


@kernel
def note_place(packing: Packing, application: int, node: int, count: int) -> None:
    """Record the number of all replicas of an application on a node; once for each node."""
    place = packing.start[application] + packing.places[application]
    packing.node[place], packing.placed[place] = node, count
    packing.places[application] += 1


@kernel
def open_node(packing: Packing, application: int) -> int:
    """Return the first unused node that a replica fits on, in use from now on; `NO_CAPACITY`: there is none."""
    for kind in range(len(packing.end)):
        node = int(packing.unused[kind])
        if node < packing.end[kind] and fitting(packing, node, application, 1) == 1:
            packing.unused[kind] += 1
            return node
    return NO_CAPACITY


@kernel
def sort_by(order: Int32, value: Float | Float32, first: int, end: int, sign: int) -> None:
    """Sort the numbers in `order`, from a place up to another, by the values they have; equal ones stay in order.

    Parameters
    ----------
    sign
        1: least first; -1: most first.
    """
    for number in range(first + 1, end):
        one = order[number]
        this = sign * value[one]
        place = number
        while place > first and sign * value[order[place - 1]] > this:
            order[place] = order[place - 1]
            place -= 1
        order[place] = one
