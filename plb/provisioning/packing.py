"""Nodes that are filled: free capacity, replicas, and how many replicas more may be placed on a node.

L applications, D dimensions, N nodes in the order of their use, K kinds of nodes, R replicas in all.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.provisioning.instance import ANY_NUMBER, Neighbours

NO_CAPACITY = -1
"""Says that more nodes are needed than there are."""
STOPPED = -2
"""Says that time ran out."""
FULL_NODES = 32
"""Number of full nodes after which they are removed from the search."""


class Packing(NamedTuple):
    """Applications and nodes, and a plan in the making."""

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
    """Count the full nodes of a placed application and, if they are many, remove full ones from `packing.live`.

    The arguments and results are the numbers of nodes in `packing.live` and of full ones among them.
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
    """Record the limits of and for an application on the nodes; return how many there are in `packing.limited`."""
    neighbours, noted = packing.neighbours, 0
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        neighbour, most = neighbours.in_other[arc], neighbours.in_most[arc]
        first = packing.start[neighbour]
        for place in range(first, first + packing.places[neighbour]):
            noted = _limit(packing, packing.node[place], most, noted)
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        neighbour, most = neighbours.out_other[arc], neighbours.out_most[arc]
        first = packing.start[neighbour]
        for place in range(first, first + packing.places[neighbour]):
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
    """Add the free capacity of a node to the totals of all nodes in use, (D,), or subtract it if `sign` is -1."""
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
    """Sort `order` from `first` to `end` by values, stable: least first with `sign` 1, most first with -1."""
    for number in range(first + 1, end):
        entry = order[number]
        this = sign * value[entry]
        place = number
        while place > first and sign * value[order[place - 1]] > this:
            order[place] = order[place - 1]
            place -= 1
        order[place] = entry


EPSILON = 0.01
"""ε of the exponential weights: "a small number" in [3], this in its authors' programs."""


class Measure(StrEnum):
    """How shares of the dimensions become one number; values are the names in [3]."""

    AVERAGE = "Avg"
    """Their mean."""
    MAX = "Max"
    """The largest."""
    EXPONENTIAL = "AvgExp"
    """Weighed by e to the power of ε times the average demand, or what is left on average."""
    SURROGATE = "Surrogate"
    """Weighed by the share of all demand, or of all that is left, that is in the dimension."""
    EXTENDED_SUM = "ExtendedSum"
    """Weighed by the inverse of all demand, or of all that is left, in the dimension; of all replicas together."""


CODES = {measure: code for code, measure in enumerate(Measure)}
"""By which kernels know the measures."""
AVERAGE, MAX, EXPONENTIAL, SURROGATE, EXTENDED_SUM = range(5)


def sizes(measure: Measure, shares: Float, replicas: Int32) -> Float:
    """Return the size of each application, (L,), from its shares of a node, (L, D), and its replicas ([3] table 1)."""
    if measure is Measure.MAX:
        return np.asarray(shares.max(axis=1))
    totals = replicas @ shares
    weights = np.empty(shares.shape[1])
    weigh(CODES[measure], totals, float(replicas.sum()), weights)
    weighed = shares @ weights
    return weighed * replicas if measure is Measure.EXTENDED_SUM else weighed


def hybrid(size: Float, degree: Int, alpha: float) -> Float:
    """Return the hybrid of size and degree in the graph of limits, (L,) ([3] equation 3); `alpha` in [0, 1]."""
    means = [max(float(values.mean()), np.finfo(np.float64).tiny) for values in (size, degree)]
    return np.asarray(alpha * size / means[0] + (1.0 - alpha) * degree / means[1])


@kernel
def weigh(measure: int, totals: Float, count: float, weights: Float) -> None:
    """Write the weights of the dimensions, (D,), from the sums of shares over all, (D,), and how many there are."""
    whole = 0.0
    for total in totals:
        whole += total
    for dimension in range(len(totals)):
        if measure == MAX:
            weights[dimension] = 1.0
        elif measure == EXPONENTIAL:
            weights[dimension] = np.exp(EPSILON * totals[dimension] / count)
        elif measure == SURROGATE:
            weights[dimension] = totals[dimension] / whole if whole > 0.0 else 1.0
        elif measure == EXTENDED_SUM:
            weights[dimension] = 1.0 / totals[dimension] if totals[dimension] > 0.0 else 0.0
        else:
            weights[dimension] = 1.0 / len(totals)


class Residual(NamedTuple):
    """How what is left of a node becomes one number, and the sums over the nodes in use that this depends on."""

    measure: int
    """As in `CODES`."""
    capacity: Int32
    """(D,) of the largest node."""
    totals: Int
    """(D,) what is left of all nodes in use, in units."""
    shares: Float
    """(D,) the same by the capacity, when the weights were set."""
    nodes: Int
    """(1,) how many nodes are in use."""
    per_unit: Float
    """(D,) weight of what is left by the capacity."""
    whole: bool
    """Whether shares are whole numbers, as in the programs of [3]'s authors."""


def residual_of(measure: Measure, capacity: Int32, whole: bool = False) -> Residual:
    """Return the measure of what is left before a node is in use; `capacity` is (D,) of the largest node."""
    residual = Residual(
        measure=CODES[measure],
        capacity=capacity,
        totals=np.zeros(len(capacity), np.int64),
        shares=np.zeros(len(capacity)),
        nodes=np.zeros(1, np.int64),
        per_unit=np.zeros(len(capacity)),
        whole=whole,
    )
    reweigh(residual)
    return residual


@kernel
def add_node(residual: Residual, packing: Packing, node: int) -> None:
    """Count a node among those in use."""
    residual.nodes[0] += 1
    count_node(packing, residual.totals, node, 1)


@kernel
def reweigh(residual: Residual) -> None:
    """Let the weights follow the totals."""
    for dimension in range(len(residual.shares)):
        residual.shares[dimension] = residual.totals[dimension] / residual.capacity[dimension]
    weigh(residual.measure, residual.shares, max(1.0, float(residual.nodes[0])), residual.per_unit)
    for dimension in range(len(residual.per_unit)):
        residual.per_unit[dimension] /= residual.capacity[dimension]


@kernel
def varies(residual: Residual) -> bool:
    """Return whether the weights depend on what is left of all nodes."""
    return residual.measure >= EXPONENTIAL


@kernel
def left(residual: Residual, packing: Packing, node: int) -> float:
    """Return what is left of a node as one number (table 2)."""
    total = 0.0
    for dimension in range(len(residual.capacity)):
        units = packing.free[node, dimension]
        if residual.whole:
            units -= units % residual.capacity[dimension]
        value = units * residual.per_unit[dimension]
        total = max(total, value) if residual.measure == MAX else total + value
    return total
