"""Expected overload O(X): the expected excess of nodes over their thresholds.

``O = Σ over nodes and metrics of the mean over repetitions of max(0, S − T) / T``, with S the sum of the peaks on the
node and T the threshold, as in `plb.energy.failovers`. V counts a node that is in violation in every repetition once,
whatever its excess; O grows with the excess. It is not part of [1].

The overload of a node is an integer, recomputed whenever the node changes, so that sums over nodes are exact. It uses
peaks even if V is tested at departures.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Int, Int32
from plb.compiler import kernel

UNITS = 2**20
"""Units of an overload of 1 in one repetition, where the sum of peaks is twice the threshold."""
MOST = 2**10 * UNITS
"""Largest overload of a metric of a node, as a mean over repetitions; it keeps sums over nodes within 64 bits."""


@kernel(inline=True)
def overload_with(
    aggregate: Int32, ceiling: Int, threshold: Int32, incoming: Int32, incoming_ceiling: Int, outgoing: Int32
) -> int:
    """Return the overload of a node after one replica joined and one left, in units summed over repetitions; O(R·K).

    Parameters
    ----------
    aggregate, ceiling
        (R, K) and (R,) quanta: the node's sums of peaks, and an upper bound on them.
    threshold
        (R,) quanta, at least 1.
    incoming, incoming_ceiling, outgoing
        (R, K), (R,) and (R, K) quanta: peaks of the replica that joins and of the one that leaves; zeros if none.
    """
    overload = 0
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceiling[metric] + incoming_ceiling[metric] <= bound:
            continue
        excess = np.int64(0)
        for k in range(aggregate.shape[1]):
            excess += max(0, aggregate[metric, k] + incoming[metric, k] - outgoing[metric, k] - bound)
        overload += int(min(excess * (UNITS / bound), float(aggregate.shape[1] * MOST)))
    return overload


@kernel
def overload_of(aggregate: Int32, ceiling: Int, threshold: Int32, nothing: Int32, nothing_ceiling: Int) -> int:
    """Return the present overload of a node; `nothing` and `nothing_ceiling` are zeros. See `overload_with`."""
    return overload_with(aggregate, ceiling, threshold, nothing, nothing_ceiling, nothing)
