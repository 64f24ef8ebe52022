"""Expected failovers V(X) = Σ over nodes (repetitions in violation) / K, from per-repetition sums ([1] section 7).

Repetition k draws one past demand curve for every replica. A node is in violation in repetition k when, for some
metric, the peaks of its replicas add up to the threshold or more (`peak` evaluation). All sums are whole numbers of
steps.
"""

from __future__ import annotations

import numpy as np

from plb.arrays import Int, Int32
from plb.kernel import kernel


@kernel(inline=True)
def violations_after(
    aggregate: Int32,
    ceiling: Int,
    threshold: Int32,
    incoming: Int32,
    incoming_ceiling: Int,
    outgoing: Int32,
    hit: Int32,
) -> int:
    """Return in how many repetitions a node is in violation after one replica joined and one left; O(R·K).

    Parameters
    ----------
    aggregate
        (R, K) steps: the node's sums.
    ceiling
        (R,) steps: an upper bound on those sums over the repetitions.
    threshold
        (R,) steps.
    incoming, incoming_ceiling
        (R, K) and (R,) steps: peaks of the replica that joins, and the largest of them; zeros if none does.
    outgoing
        (R, K) steps: peaks of the replica that leaves; zeros if none does.
    hit
        (K,) scratch.
    """
    looked_at = False
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceiling[metric] + incoming_ceiling[metric] < bound:
            continue  # not even all largest peaks together reach the threshold
        if looked_at:
            for k in range(hit.shape[0]):
                hit[k] |= np.int32(aggregate[metric, k] + incoming[metric, k] - outgoing[metric, k] >= bound)
        else:
            for k in range(hit.shape[0]):
                hit[k] = np.int32(aggregate[metric, k] + incoming[metric, k] - outgoing[metric, k] >= bound)
        looked_at = True
    if not looked_at:
        return 0
    violations = 0
    for k in range(hit.shape[0]):
        violations += hit[k]
    return violations


@kernel
def change_aggregate(aggregate: Int32, ceiling: Int, node: int, peak: Int32, peak_ceiling: Int, sign: int) -> None:
    """Add `sign` times a replica's peaks to the aggregates of `node`.

    Parameters
    ----------
    aggregate, ceiling
        (N, R, K) and (N, R) steps.
    peak, peak_ceiling
        (R, K) and (R,) steps.
    """
    for metric in range(peak.shape[0]):
        ceiling[node, metric] += sign * peak_ceiling[metric]
        if sign > 0:
            for k in range(peak.shape[1]):
                aggregate[node, metric, k] += peak[metric, k]
        else:
            for k in range(peak.shape[1]):
                aggregate[node, metric, k] -= peak[metric, k]


@kernel
def count_violations(aggregate: Int32, threshold: Int32) -> int:
    """Return in how many repetitions the node of `aggregate`, (R, K) steps, reaches `threshold`, (R,) steps."""
    violations = 0
    for k in range(aggregate.shape[1]):
        for metric in range(aggregate.shape[0]):
            if aggregate[metric, k] >= threshold[metric]:
                violations += 1
                break
    return violations
