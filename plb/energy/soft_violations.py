"""Violations counted softly: how often and how nearly a node reaches its threshold (docs/rebalancing.md).

A moment counts 0 up to a margin below the threshold, 1 at the threshold, and grows as the square in between and above.
So the past of a week also says where a node came near, and no node is given up to save others. With several metrics
their counts are added. Sums are whole numbers of units, of which `ROOT`² are a violation. Estimators without
repetitions have no moments; for these the violations of `plb.energy.expected_failovers` count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import kernel
from plb.model.role import PRIMARY
from plb.risk.estimator_columns import node_violations
from plb.risk.estimators import DAY, estimator_of, period_of
from plb.settings.config import PlbConfig
from plb.state.arrays import TENTHS, Problem, Solution
from plb.state.topology import LARGEST_THRESHOLD

SOFT_MARGIN = 0.3
"""Share of the threshold below it at which a moment begins to count; chosen on July of Bitbrains."""
ROOT = 2**10
"""Square root of the units of a violation."""
MOST_ROOT = 2**19
"""Demand further above the threshold counts as this, so that sums stay far below 2^63."""

LEAST_WORTH = 1e-9
"""In moves: what a rounded price may seem to win is no reason to move."""


class SoftCount(NamedTuple):
    """How violations are counted, what one is worth, and what each node expects."""

    start: Int
    """(N, R) quanta up to which a moment does not count."""
    scale: Float
    """(N, R) `ROOT` by the quanta from there to the threshold."""
    price: float
    """Moves that a unit is worth."""
    least_cost: float
    """Cost of the cheapest move, or swap of roles, in moves; a node whose violations are worth less stays as it is."""
    violations: Int
    """(N,) units that each node expects; 0 for nodes that are not counted."""

    @property
    def cost(self) -> float:
        """What all violations together cost, in moves."""
        return float(self.violations.sum()) * self.price


def soft_count(problem: Problem, solution: Solution, config: PlbConfig) -> SoftCount:
    """Return what each node of a solution expects, and what it is worth to avoid it.

    The violations of a repetition recur after each period of the estimator while the placement lasts, at least once.
    """
    start = np.floor((1.0 - SOFT_MARGIN) * problem.threshold).astype(np.int64)
    scale = ROOT / np.maximum(1, problem.threshold - start)
    scale[problem.threshold == LARGEST_THRESHOLD] = 0.0
    has_moments = not len(problem.estimator_rows)
    unit = float(ROOT**2 * problem.peak.shape[2]) if has_moments else problem.weights.repetitions
    times = max(1.0, config.placement_days * DAY / period_of(estimator_of(config.estimator)))
    price = float(config.violation_cost or 0.0) * times / max(1.0, unit)
    count = SoftCount(start, scale, price, _least_cost(problem), np.zeros(len(problem.counted), np.int64))
    if problem.peak.shape[2]:
        _count_all(problem, solution, count)
    return count


def _least_cost(problem: Problem) -> float:
    """Return the cost of the cheapest move or swap of roles of a movable row, in moves, at least LEAST_WORTH."""
    movable = problem.movable
    cheapest = int(problem.move_cost[: len(movable)][movable].min(initial=TENTHS))
    if (problem.role[movable] == PRIMARY).any():
        cheapest = min(cheapest, int(problem.swap_cost))
    return max(LEAST_WORTH, cheapest / TENTHS)


@kernel
def _count_all(problem: Problem, solution: Solution, count: SoftCount) -> None:
    """Count the violations of all nodes."""
    for node in range(count.violations.shape[0]):
        count.violations[node] = violations_with(problem, solution, count, node, NOWHERE, NOWHERE)


@kernel
def violations_with(
    problem: Problem, solution: Solution, count: SoftCount, node: int, incoming: int, outgoing: int
) -> int:
    """Return the units that a node expects after row `incoming` joined and `outgoing` left, or NOWHERE; O(R·K)."""
    if not problem.counted[node]:
        return 0
    sums, joining, leaving = solution.aggregate[node], problem.peak[incoming], problem.peak[outgoing]
    if problem.estimator_rows.shape[0] > 0:
        rows, unit = problem.estimator_rows, problem.variance_unit
        return int(node_violations(rows, unit, sums, problem.threshold[node], joining, leaving))
    total = 0
    for metric in range(sums.shape[0]):
        start, scale = count.start[node, metric], count.scale[node, metric]
        if solution.ceiling[node, metric] + problem.peak_ceiling[incoming, metric] > start:
            for k in range(sums.shape[1]):
                above = max(0, sums[metric, k] + joining[metric, k] - leaving[metric, k] - start)
                root = min(MOST_ROOT, int(above * scale))
                total += root * root
    return total
