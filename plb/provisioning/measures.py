"""One number for the size of an application, or for what is left of a node ([3] section 4.2, tables 1 and 2).

All but the maximum are weighted sums of shares of what a node has. L applications, D dimensions, N nodes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.provisioning.packing import Packing, count_node

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
    """Return the size of each application, (L,) (table 1).

    Parameters
    ----------
    shares
        (L, D) demand of a replica by the capacity of a node.
    replicas
        (L,)
    """
    if measure is Measure.MAX:
        return np.asarray(shares.max(axis=1))
    totals = replicas @ shares
    weights = np.empty(shares.shape[1])
    weigh(CODES[measure], totals, float(replicas.sum()), weights)
    found = shares @ weights
    return found * replicas if measure is Measure.EXTENDED_SUM else found


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
    found = 0.0
    for dimension in range(len(residual.capacity)):
        units = packing.free[node, dimension]
        if residual.whole:
            units -= units % residual.capacity[dimension]
        value = units * residual.per_unit[dimension]
        found = max(found, value) if residual.measure == MAX else found + value
    return found
