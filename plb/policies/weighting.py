"""W: the load of a node as one number, by which nodes with several resources are ordered ([1] section 6.1).

Both weightings are taken of shares: load by the capacity of the node itself, so that unequal nodes compare. A metric of
which a node has no capacity, or one of 0, does not count there.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from plb.array_types import Float, Int
from plb.extensions.configuration import Configuration


class Weighting(StrEnum):
    """Combination of the shares of several metrics to one number."""

    SUM = "sum"
    """Equation (3), FFDSum: the sum over metrics of w_j·share, w_j being the mean usage of all placed replicas,
    each as a share of the capacity of its node. As printed, (3) has node load in the unit of the metric, so that the
    metric with the largest numbers would decide; FFDSum comes from bins of capacity 1, so that here it is a share."""
    MAX = "max"
    """Equation (4): the largest share."""


def lasting(configuration: Configuration, nodes: Int) -> Int:
    """Return the `nodes` that are not being deactivated, or all if each of them is.

    A node that is being deactivated is not in the statistics, so that it would seem to have no cost.
    """
    counted = nodes[configuration.problem.counted[nodes]]
    return counted if len(counted) else nodes


def weighted(weighting: Weighting, configuration: Configuration, shares: Float) -> Float:
    """Return W of loads, (N,), that are given as shares, (N, R)."""
    if weighting is Weighting.MAX:
        return np.asarray(shares.max(axis=1), np.float64)
    return np.asarray((shares * metric_weights(configuration)).sum(axis=1), np.float64)


def metric_weights(configuration: Configuration) -> Float:
    """Return w_j of equation (3) up to a common factor, (R,), the number of replicas."""
    return np.asarray(configuration.shares.sum(axis=0), np.float64)


def shares_with(configuration: Configuration, row: int, nodes: Int) -> Float:
    """Return the load of nodes as shares after a replica is added, (N, R)."""
    problem, solution = configuration.problem, configuration.solution
    return np.asarray((solution.node_load[nodes] + problem.load[row]) * problem.inverse_capacity[nodes], np.float64)
