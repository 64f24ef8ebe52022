"""Sums of the peaks on every node by repetition, on which the Monte Carlo terms are computed."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int, Int32
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel
def evaluates_peaks(problem: Problem) -> bool:
    """Return whether a term that is computed from peaks contributes to the energy."""
    weights = problem.weights
    return bool(problem.peak.shape[2] > 0 and (weights.expected_failovers > 0.0 or weights.expected_overload > 0.0))


@kernel
def may_both_lose(problem: Problem, partner: int) -> bool:
    """Return whether a proposal may lower what the peaks on its target count: in an exchange, or with estimators."""
    return bool(partner != NOWHERE or problem.estimator_rows.shape[0] > 0)


@kernel
def total_of_others(total: int, by_node: Int, source: int, target: int) -> int:
    """Return a total without the contributions, `by_node` (N,), of source and target, each perhaps NOWHERE."""
    if target != NOWHERE:
        total -= by_node[target]
    if source != NOWHERE:
        total -= by_node[source]
    return int(total)


@kernel
def replace_share(by_node: Int, node: int, value: int) -> int:
    """Set what a node, perhaps NOWHERE, contributes to a total, `by_node` (N,); return by how much the total rises."""
    if node == NOWHERE:
        return 0
    rise = value - by_node[node]
    by_node[node] = value
    return int(rise)


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
def add_peaks(problem: Problem, solution: Solution) -> None:
    """Add the peaks of all rows to the sums of their nodes; departing ends are not counted."""
    for row in range(solution.node.shape[0]):
        node = solution.node[row]
        if node == NOWHERE or problem.leaving[row]:
            continue
        for metric in range(problem.peak.shape[1]):
            solution.ceiling[node, metric] += problem.peak_ceiling[row, metric]
            _add(solution.aggregate[node, metric], problem.peak[row, metric])


@kernel
def _add(aggregate: Int32, peak: Int32) -> None:
    """Add the peaks of a row to those of its node, (K,) each; a separate kernel, so that the loop is vectorized."""
    for k in range(aggregate.shape[0]):
        aggregate[k] += peak[k]


def peaks_by_hand(problem: Problem, solution: Solution, node: int) -> Int:
    """Return the sums of the peaks on a node, (R, K), in plain NumPy."""
    total: Int = problem.peak[:-1][(solution.node == node) & ~problem.leaving].sum(axis=0, dtype=np.int64)
    return total
