"""Lower bounds on the number of nodes ([3] equation 4, and the bound that its authors' programs measure by)."""

from __future__ import annotations

import numpy as np

from plb.array_types import Int32
from plb.provisioning.instance import Instance


def lower_bound(instance: Instance) -> int:
    """Return the larger of the bounds by total demand ([3] equation 4) and by large replicas (Martello and Toth's L2).

    Both are computed for each dimension and ignore limits between applications. If nodes differ, all have the capacity
    of the largest in the dimension.

    Notes
    -----
    L2 of S. Martello, P. Toth, "Lower bounds and reduction procedures for the bin packing problem", Discrete Applied
    Mathematics 28, 1990, section 2; for demand that varies, at the time points where it is highest.
    """
    demand = instance.dimensions()
    capacity = instance.largest_capacity()
    totals = instance.replicas.astype(np.int64) @ demand
    by_demand = -(-totals // capacity)
    bound = int(by_demand.max(initial=1))
    first = np.arange(len(instance.resources)) * instance.time_points
    at_peaks = np.unique(by_demand.reshape(len(instance.resources), -1).argmax(axis=1) + first)
    for dimension in at_peaks:
        bound = max(bound, _large_replicas(demand[:, dimension], instance.replicas, int(capacity[dimension])))
    return bound


def _large_replicas(demand: Int32, replicas: Int32, capacity: int) -> int:
    """Return L2 of one dimension: the largest, over α, of bounds on replicas of at least α."""
    order = np.argsort(demand, kind="stable")
    asked, count = demand[order].astype(np.int64), replicas[order].astype(np.int64)
    replicas_below = np.concatenate([[0], np.cumsum(count)])
    demand_below = np.concatenate([[0], np.cumsum(asked * count)])
    alpha = np.unique(asked[2 * asked <= capacity])
    half = np.searchsorted(asked, capacity // 2, side="right")
    lone = np.searchsorted(asked, capacity - alpha, side="right")
    small = np.searchsorted(asked, alpha, side="left")
    larger_than_half = replicas_below[-1] - replicas_below[half]
    paired = replicas_below[lone] - replicas_below[half]
    beside = paired * capacity - (demand_below[lone] - demand_below[half])
    rest = np.maximum(0, demand_below[half] - demand_below[small] - beside)
    bounds = larger_than_half + -(-rest // capacity)
    return int(bounds.max(initial=larger_than_half))
