"""Violations of nodes by the judges of `plb.risk.estimates`, where the engine does not count repetitions.

The columns stand where `plb.energy.failovers` has the peaks of K repetitions, so all sums are kept the same way.
"""

from __future__ import annotations

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.risk.estimates import judge_node
from plb.state.arrays import Problem, Solution


@kernel
def judged(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the violations of a node after a row joined and one left, in units; the row NOWHERE adds nothing.

    Unlike repetitions, these may fall when a replica joins: what varies against the others steadies the total.
    """
    return judge_node(
        problem.judges,
        problem.variance_unit,
        solution.aggregate[node],
        problem.threshold[node],
        problem.peak[incoming],
        problem.peak[outgoing],
    )


@kernel
def judge_nodes(
    judges: Float, variance_unit: Float, aggregate: Int32, threshold: Int32, nothing: Int32, which: Int, violating: Int
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
        violating[node] = judge_node(judges, variance_unit, aggregate[node], threshold[node], nothing, nothing)
