"""Violations of nodes by the estimators of `plb.risk.node_violations`, which replace the count of repetitions.

The C columns of the estimators replace the peaks of K repetitions in `plb.energy.failovers`; the sums are the same.
"""

from __future__ import annotations

from plb.array_types import Float, Int, Int32
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
