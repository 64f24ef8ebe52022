"""Violations of nodes by the estimators of `plb.risk.estimates`, where the engine does not count repetitions.

The columns stand where `plb.energy.failovers` has the peaks of K repetitions, so all sums are kept the same way.
"""

from __future__ import annotations

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.risk.estimates import node_violations
from plb.state.arrays import Problem, Solution


@kernel
def violations_after(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the violations of a node after a row joined and one left, in units; the row NOWHERE adds nothing.

    Unlike repetitions, these may fall when a replica joins: what varies against the others steadies the total.
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
        (R, C) the columns of no replica.
    """
    for node in which:
        violating[node] = node_violations(
            estimator_rows, variance_unit, aggregate[node], threshold[node], nothing, nothing
        )
