"""Expected failovers V(X) = Σ over nodes (repetitions in violation) / K, from per-repetition sums ([1] section 7).

Repetition k samples one past demand curve for every replica. A node is in violation in repetition k if, for some
metric, the sum of the peaks of its replicas reaches the threshold (`peak` evaluation). All sums are integers in quanta.
With estimators, the probability of a violation of a node takes the place of its share of repetitions.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int, Int32, UInt8
from plb.compiler import kernel
from plb.risk.node_violations import node_violations
from plb.state.arrays import Problem, Solution


@kernel
def violations_after(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the violations of a node after a row joined and one left, in units; the row NOWHERE has columns of 0.

    Unlike counted repetitions, they may fall when a replica joins: negative correlation reduces the variance.
    """
    return node_violations(
        problem.estimator_rows,
        problem.variance_unit,
        solution.aggregate[node],
        problem.threshold[node],
        problem.peak[incoming],
        problem.peak[outgoing],
    )


@kernel
def update_violations(
    estimator_rows: Float,
    variance_unit: Float,
    aggregate: Int32,
    threshold: Int32,
    nothing: Int32,
    which: Int,
    violating: Int,
) -> None:
    """Write the violations of the nodes in `which`, their indices, to `violating`, (N,).

    Parameters
    ----------
    aggregate, threshold
        (N, R, C) and (N, R).
    nothing
        (R, C) zeros.
    """
    for node in which:
        violating[node] = node_violations(
            estimator_rows, variance_unit, aggregate[node], threshold[node], nothing, nothing
        )


@kernel(inline=True)
def violations_joined(
    aggregate: Int32, ceiling: Int, threshold: Int32, incoming: Int32, incoming_ceiling: Int, hit: UInt8
) -> int:
    """Return the number of repetitions in which a node is in violation after a replica joined; O(R·K).

    Parameters
    ----------
    aggregate
        (R, K) quanta: the node's sums.
    ceiling
        (R,) quanta: an upper bound on those sums over the repetitions.
    threshold
        (R,) quanta.
    incoming, incoming_ceiling
        (R, K) and (R,) quanta: peaks of the replica, and the largest of them.
    hit
        (K,) scratch.
    """
    evaluated = False
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceiling[metric] + incoming_ceiling[metric] < bound:
            continue  # even the sum of the largest peaks is below the threshold
        if evaluated:
            for k in range(hit.shape[0]):
                hit[k] |= np.uint8(aggregate[metric, k] + incoming[metric, k] >= bound)
        else:
            for k in range(hit.shape[0]):
                hit[k] = np.uint8(aggregate[metric, k] + incoming[metric, k] >= bound)
        evaluated = True
    return _count(hit) if evaluated else 0


@kernel(inline=True)
def violations_left(aggregate: Int32, ceiling: Int, threshold: Int32, outgoing: Int32, hit: UInt8) -> int:
    """Return the number of repetitions in which a node is in violation after a replica leaves it."""
    evaluated = False
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceiling[metric] < bound:
            continue
        if evaluated:
            for k in range(hit.shape[0]):
                hit[k] |= np.uint8(aggregate[metric, k] - outgoing[metric, k] >= bound)
        else:
            for k in range(hit.shape[0]):
                hit[k] = np.uint8(aggregate[metric, k] - outgoing[metric, k] >= bound)
        evaluated = True
    return _count(hit) if evaluated else 0


@kernel
def violations_exchanged(
    aggregate: Int32,
    ceiling: Int,
    threshold: Int32,
    incoming: Int32,
    incoming_ceiling: Int,
    outgoing: Int32,
    hit: UInt8,
) -> int:
    """Return the number of repetitions in which a node is in violation after one replica joined and one left.

    See `violations_joined`, which reads a third less memory, as `violations_left` does.
    """
    evaluated = False
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceiling[metric] + incoming_ceiling[metric] < bound:
            continue
        if evaluated:
            for k in range(hit.shape[0]):
                hit[k] |= np.uint8(aggregate[metric, k] + incoming[metric, k] - outgoing[metric, k] >= bound)
        else:
            for k in range(hit.shape[0]):
                hit[k] = np.uint8(aggregate[metric, k] + incoming[metric, k] - outgoing[metric, k] >= bound)
        evaluated = True
    return _count(hit) if evaluated else 0


@kernel(inline=True)
def _count(hit: UInt8) -> int:
    violations = np.int32(0)
    for k in range(hit.shape[0]):
        violations += hit[k]
    return int(violations)


@kernel
def change_aggregate(aggregate: Int32, ceiling: Int, node: int, peak: Int32, peak_ceiling: Int, sign: int) -> None:
    """Add `sign` times a replica's peaks to the aggregates of `node`.

    Parameters
    ----------
    aggregate, ceiling
        (N, R, K) and (N, R) quanta.
    peak, peak_ceiling
        (R, K) and (R,) quanta.
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
    """Return the number of repetitions in which `aggregate`, (R, K) quanta, reaches `threshold`, (R,) quanta."""
    violations = 0
    for k in range(aggregate.shape[1]):
        violations += _is_reached(aggregate, threshold, k)
    return violations


@kernel
def mark_violations(aggregate: Int32, threshold: Int32, hit: UInt8) -> None:
    """Mark in `hit`, (K,), the repetitions that `count_violations` counts."""
    for k in range(aggregate.shape[1]):
        hit[k] = _is_reached(aggregate, threshold, k)


@kernel(inline=True)
def _is_reached(aggregate: Int32, threshold: Int32, k: int) -> bool:
    """Return whether repetition k reaches the threshold of some metric."""
    reached = False
    for metric in range(aggregate.shape[0]):
        reached |= aggregate[metric, k] >= threshold[metric]
    return reached
