"""The term expected_overload, O(X): the expected excess of nodes over their thresholds.

``O = Σ over nodes and metrics of the mean over repetitions of max(0, S − T) / T``, with S the sum of the peaks on the
node and T the threshold, as in `plb.energy.expected_failovers`. V counts a node that is in violation in every
repetition once, whatever its excess; O grows with the excess. It is not part of [1].

The overload of a node is an integer, recomputed whenever the node changes, so that sums over nodes are exact. It uses
peaks even if V is tested at departures.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Bool
from plb.compiler import kernel
from plb.energy.node_sums import may_lower_target, peaks_by_hand, replace_share, total_without
from plb.energy.score import UNITS, TermDescription
from plb.state.arrays import Problem, Proposal, Solution

MOST = 2**10 * UNITS
"""Largest overload of a metric of a node, as a mean over repetitions; it keeps sums over nodes within 64 bits."""


@kernel
def after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the overload of the whole solution after a proposal, as in `Totals.expected_overload`."""
    unchanged = total_without(solution.totals.expected_overload, solution.overload, proposal.source, proposal.target)
    source = at_source(problem, solution, proposal)
    return int(unchanged + source + at_target(problem, solution, proposal))


@kernel
def least_after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return a lower bound of `after`: no overload at the source, nor at the target if its overload may fall."""
    target = proposal.target if may_lower_target(problem, proposal.partner) else NOWHERE
    return total_without(solution.totals.expected_overload, solution.overload, proposal.source, target)


@kernel
def at_source(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the overload of the source node after a proposal; 0 without a counted source node.

    A replica that leaves adds no overload, so a node without overload is not evaluated.
    """
    source = proposal.source
    if source == NOWHERE or not problem.counted[source] or not _is_weighed(problem):
        return 0
    if proposal.partner == NOWHERE and solution.overload[source] == 0:
        return 0
    return _overload(problem, solution, source, proposal.partner, proposal.row)


@kernel
def at_target(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the overload of the target node after a proposal; 0 without a counted target node."""
    target = proposal.target
    if target == NOWHERE or not problem.counted[target] or not _is_weighed(problem):
        return 0
    return _overload(problem, solution, target, proposal.row, proposal.partner)


@kernel
def apply(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Update the overload of source and target, and its total, for a proposal whose rows have yet to move."""
    source_after = at_source(problem, solution, proposal)
    target_after = at_target(problem, solution, proposal)
    solution.totals.expected_overload += replace_share(solution.overload, proposal.source, source_after)
    solution.totals.expected_overload += replace_share(solution.overload, proposal.target, target_after)


@kernel
def count_again(problem: Problem, solution: Solution, stale: Bool) -> None:
    """Compute the overload of the nodes in `stale`, (N,), from the sums of peaks; 0 everywhere without a weight."""
    for node in range(stale.shape[0]):
        if not (problem.counted[node] and _is_weighed(problem)):
            solution.overload[node] = 0
        elif stale[node]:
            solution.overload[node] = _overload(problem, solution, node, NOWHERE, NOWHERE)


@kernel
def _is_weighed(problem: Problem) -> bool:
    """Return whether the term contributes to the energy; if not, it is not computed."""
    return bool(problem.weights.expected_overload > 0.0)


@kernel
def _overload(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the overload of a node after the row `incoming` joined and `outgoing` left, as in `Solution.overload`.

    Each row may be NOWHERE; O(R·K).
    """
    aggregate, ceiling, threshold = solution.aggregate[node], solution.ceiling[node], problem.threshold[node]
    joining, leaving, joining_ceiling = problem.peak[incoming], problem.peak[outgoing], problem.peak_ceiling[incoming]
    overload = 0
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceiling[metric] + joining_ceiling[metric] <= bound:
            continue
        excess = np.int64(0)
        for k in range(aggregate.shape[1]):
            excess += max(0, aggregate[metric, k] + joining[metric, k] - leaving[metric, k] - bound)
        overload += int(min(excess * (UNITS / bound), float(aggregate.shape[1] * MOST)))
    return overload


def _total(problem: Problem, solution: Solution) -> float:
    """Return O from the peaks of every node's replicas in every repetition."""
    if not problem.weights.expected_overload:
        return 0.0
    repetitions, units = problem.peak.shape[2], 0
    for node in np.flatnonzero(problem.counted):
        threshold = problem.threshold[node].astype(np.int64)
        excess = np.maximum(0, peaks_by_hand(problem, solution, int(node)) - threshold[:, None]).sum(axis=1)
        units += int(np.minimum(excess * (UNITS / threshold), repetitions * MOST).astype(np.int64).sum())
    return units / (UNITS * float(problem.weights.columns))


DESCRIPTION = TermDescription(
    "expected_overload",
    after,
    weight=lambda config: config.w_overload,
    unit=lambda problem: UNITS * problem.weights.columns,
    new_sums=lambda problem: {"overload": np.zeros(len(problem.limit), np.int64)},
    total=_total,
)
