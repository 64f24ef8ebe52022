"""Nodes that are filled: free capacity, replicas, and how many replicas more may be placed on a node.

L applications, D dimensions, N nodes in the order of their use, K kinds of nodes, R replicas in all. A *slot* holds the
replicas of one application on one node; an application has as many slots as replicas, and uses the first of them.
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
    """(L + 1,) application i has the slots ``start[i]:start[i + 1]``."""
    slots: Int32
    """(L,) number of slots in use of each application: of its nodes."""
    node: Int32
    """(R,) node of each slot in use."""
    placed: Int32
    """(R,) number of replicas in each slot in use."""
    allowed: Int32
    """(N,) how many replicas of the application that is being placed the limits of other applications allow on each
    node; `ANY_NUMBER`: no limit, and between applications.
    """
    limited: Int32
    """(N,) the nodes for which `allowed` has a limit come first; `record_limits` returns their number."""
    live: Int32
    """(N,) the nodes that are tried come first: nodes in use, without most full ones. Algorithms count them."""
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
        slots=np.zeros(len(replicas), np.int32),
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


def used_slots(packing: Packing) -> tuple[Int, Int]:
    """Return the slots in use in order, and the application of each."""
    application = np.repeat(np.arange(len(packing.slots)), packing.slots)
    used_before = np.cumsum(packing.slots) - packing.slots
    return packing.start[application] + np.arange(len(application)) - used_before[application], application


@kernel
def is_full(packing: Packing, node: int) -> bool:
    """Return whether a node has less free capacity in some dimension than every application needs."""
    full = False
    for dimension in range(len(packing.least)):
        full = full or packing.free[node, dimension] < packing.least[dimension]
    return full


@kernel
def drop_full(packing: Packing, application: int, live_count: int, full_count: int) -> tuple[int, int]:
    """Count the full nodes of a placed application; from `FULL_NODES` on, remove full nodes from `packing.live`.

    `live_count` and `full_count` are the numbers of nodes in `packing.live` and of full ones among them; the result is
    both numbers afterwards.
    """
    first = packing.start[application]
    for slot in range(first, first + packing.slots[application]):
        full_count += is_full(packing, packing.node[slot])
    if full_count < FULL_NODES:
        return live_count, full_count
    kept = 0
    for position in range(live_count):
        node = packing.live[position]
        if not is_full(packing, node):
            packing.live[kept] = node
            kept += 1
    return kept, 0


@kernel
def record_limits(packing: Packing, application: int) -> int:
    """Set `packing.allowed` for an application by the replicas on each node; return the number of limited nodes."""
    neighbours, limited_count = packing.neighbours, 0
    for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
        neighbour, most = neighbours.in_source[arc], neighbours.in_most[arc]
        first = packing.start[neighbour]
        for slot in range(first, first + packing.slots[neighbour]):
            limited_count = _limit(packing, packing.node[slot], most, limited_count)
    for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
        neighbour, most = neighbours.out_target[arc], neighbours.out_most[arc]
        first = packing.start[neighbour]
        for slot in range(first, first + packing.slots[neighbour]):
            if packing.placed[slot] > most:
                limited_count = _limit(packing, packing.node[slot], 0, limited_count)
    return limited_count


@kernel
def _limit(packing: Packing, node: int, most: int, limited_count: int) -> int:
    """Allow at most `most` replicas on a node; return the number of limited nodes, which was `limited_count` before."""
    if packing.allowed[node] == ANY_NUMBER:
        packing.limited[limited_count] = node
        limited_count += 1
    packing.allowed[node] = min(packing.allowed[node], most)
    return limited_count


@kernel
def clear_limits(packing: Packing, limited_count: int) -> None:
    """Remove the limits of the first `limited_count` nodes of `packing.limited`."""
    for position in range(limited_count):
        packing.allowed[packing.limited[position]] = ANY_NUMBER


@kernel
def fitting(packing: Packing, node: int, application: int, most: int) -> int:
    """Return how many replicas of an application, at most `most`, fit into the free capacity of a node."""
    for dimension in range(packing.demand.shape[1]):
        demand, free = packing.demand[application, dimension], packing.free[node, dimension]
        if demand * most > free:
            if demand > free:
                return 0
            most = free // demand
    return most


@kernel
def take_capacity(packing: Packing, application: int, node: int, count: int) -> None:
    """Subtract the demand of `count` replicas of an application from a node's free capacity, without recording them."""
    for dimension in range(packing.demand.shape[1]):
        packing.free[node, dimension] -= count * packing.demand[application, dimension]


@kernel
def take_from_totals(packing: Packing, totals: Int, application: int, count: int) -> None:
    """Subtract the demand of `count` replicas of an application from `totals`, (D,), free capacity of nodes in use."""
    for dimension in range(len(totals)):
        totals[dimension] -= count * packing.demand[application, dimension]


@kernel
def add_free_to_totals(packing: Packing, totals: Int, node: int, sign: int) -> None:
    """Add `sign` times the free capacity of a node to `totals`, (D,), the free capacity of all nodes in use."""
    for dimension in range(len(totals)):
        totals[dimension] += sign * packing.free[node, dimension]


@kernel
def add_slot(packing: Packing, application: int, node: int, count: int) -> None:
    """Record that `count` replicas of an application, which had none there, are on a node."""
    slot = packing.start[application] + packing.slots[application]
    packing.node[slot], packing.placed[slot] = node, count
    packing.slots[application] += 1


@kernel
def open_node(packing: Packing, application: int) -> int:
    """Take the first unused node on which a replica of an application fits into use; return it, or `NO_CAPACITY`."""
    for kind in range(len(packing.end)):
        node = int(packing.unused[kind])
        if node < packing.end[kind] and fitting(packing, node, application, 1) == 1:
            packing.unused[kind] += 1
            return node
    return NO_CAPACITY


@kernel
def sort_by(order: Int32, value: Float | Float32, first: int, end: int, sign: int) -> None:
    """Sort ``order[first:end]``, indices of `value`, (n,), stably: ascending (`sign` 1) or descending (-1)."""
    for position in range(first + 1, end):
        item = order[position]
        item_value = sign * value[item]
        target = position
        while target > first and sign * value[order[target - 1]] > item_value:
            order[target] = order[target - 1]
            target -= 1
        order[target] = item


EPSILON = 0.01
"""ε of the exponential weights: "a small number" in [3], this in its authors' programs."""


class Measure(StrEnum):
    """How shares of a node in D dimensions, demanded or free, become one number; values are the names in [3]."""

    AVERAGE = "Avg"
    """Their mean."""
    MAX = "Max"
    """The largest."""
    EXPONENTIAL = "AvgExp"
    """Weighed by e to the power of ε times the average share in the dimension: of replicas, or of nodes in use."""
    SURROGATE = "Surrogate"
    """Weighed by the part of the sum of all shares (of replicas, or of nodes in use) that is in the dimension."""
    EXTENDED_SUM = "ExtendedSum"
    """Weighed by the inverse of the sum of shares in the dimension; the size is of all replicas of an application."""


CODES = {measure: code for code, measure in enumerate(Measure)}
"""The number of each measure, for kernels."""
AVERAGE, MAX, EXPONENTIAL, SURROGATE, EXTENDED_SUM = range(5)


def sizes(measure: Measure, shares: Float, replicas: Int32) -> Float:
    """Return the size of each application, (L,) ([3] table 1).

    `shares`, (L, D), is the demand of a replica by the capacity of a node; `replicas` is (L,).
    """
    if measure is Measure.MAX:
        return np.asarray(shares.max(axis=1))
    totals = replicas @ shares
    weights = np.empty(shares.shape[1])
    weigh(CODES[measure], totals, float(replicas.sum()), weights)
    weighed = shares @ weights
    return weighed * replicas if measure is Measure.EXTENDED_SUM else weighed


def hybrid(size: Float, degree: Int, alpha: float) -> Float:
    """Return `alpha` times `size` plus 1 - `alpha` times `degree`, (L,) each and by its mean ([3] equation 3)."""
    means = [max(float(values.mean()), np.finfo(np.float64).tiny) for values in (size, degree)]
    return np.asarray(alpha * size / means[0] + (1.0 - alpha) * degree / means[1])


@kernel
def weigh(measure: int, totals: Float, count: float, weights: Float) -> None:
    """Write `weights`, (D,), of a measure (`CODES`); `totals`, (D,), are the sums of the shares of `count` items."""
    sum_of_totals = 0.0
    for total in totals:
        sum_of_totals += total
    for dimension in range(len(totals)):
        if measure == MAX:
            weights[dimension] = 1.0
        elif measure == EXPONENTIAL:
            weights[dimension] = np.exp(EPSILON * totals[dimension] / count)
        elif measure == SURROGATE:
            weights[dimension] = totals[dimension] / sum_of_totals if sum_of_totals > 0.0 else 1.0
        elif measure == EXTENDED_SUM:
            weights[dimension] = 1.0 / totals[dimension] if totals[dimension] > 0.0 else 0.0
        else:
            weights[dimension] = 1.0 / len(totals)


class Residual(NamedTuple):
    """How the free capacity of a node becomes one number, and the sums over the nodes in use that this depends on."""

    measure: int
    """As in `CODES`."""
    capacity: Int32
    """(D,) of the largest node."""
    totals: Int
    """(D,) free capacity of all nodes in use, in units."""
    shares: Float
    """(D,) `totals` by `capacity`, when the weights were set."""
    nodes: Int
    """(1,) how many nodes are in use."""
    per_unit: Float
    """(D,) weight of a unit of free capacity."""
    whole: bool
    """Whether shares are whole numbers, as in the programs of [3]'s authors."""


def residual_of(measure: Measure, capacity: Int32, whole: bool = False) -> Residual:
    """Return the residual while no node is in use; `capacity`: (D,) units of the largest node; `whole`: its field."""
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
    """Add a node to the number and the totals of the nodes in use."""
    residual.nodes[0] += 1
    add_free_to_totals(packing, residual.totals, node, 1)


@kernel
def reweigh(residual: Residual) -> None:
    """Compute the weights of free capacity in `residual` from its totals over the nodes in use."""
    for dimension in range(len(residual.shares)):
        residual.shares[dimension] = residual.totals[dimension] / residual.capacity[dimension]
    weigh(residual.measure, residual.shares, max(1.0, float(residual.nodes[0])), residual.per_unit)
    for dimension in range(len(residual.per_unit)):
        residual.per_unit[dimension] /= residual.capacity[dimension]


@kernel
def varies(residual: Residual) -> bool:
    """Return whether the weights depend on the free capacity of all nodes in use."""
    return residual.measure >= EXPONENTIAL


@kernel
def free_value(residual: Residual, packing: Packing, node: int) -> float:
    """Return the free capacity of a node as one number ([3] table 2)."""
    total = 0.0
    for dimension in range(len(residual.capacity)):
        units = packing.free[node, dimension]
        if residual.whole:
            units -= units % residual.capacity[dimension]
        value = units * residual.per_unit[dimension]
        total = max(total, value) if residual.measure == MAX else total + value
    return total
