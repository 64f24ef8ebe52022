"""The term expected_failovers, V(X) = Σ over nodes (repetitions in violation) / K ([1] section 7).

Repetition k samples one past demand curve for every replica. A node is in violation in repetition k if, for some
metric, the sum of the peaks of its replicas reaches the threshold (`peak` evaluation). All sums are integers in quanta.
With historical simulation, windows of neighbouring repetitions are counted instead. With other estimators, the
probability of a violation of a node takes the place of its share of repetitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Bool, Int, Int32, UInt8
from plb.compiler import kernel
from plb.energy.description import TermDescription
from plb.energy.peak_sums import may_both_lose, peaks_by_hand, replace_share, total_of_others
from plb.energy.timeline import count_lasting
from plb.risk.historical_simulation import HORIZON, bad_windows
from plb.risk.node_violations import node_violations, violations_of_sums
from plb.state.arrays import Problem, Proposal, Solution, proposed


@kernel
def after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the violations of the whole solution after a proposal."""
    others = total_of_others(solution.totals.expected_failovers, solution.violating, proposal.source, proposal.target)
    source = at_source(problem, solution, proposal)
    return int(others + source + at_target(problem, solution, proposal))


@kernel
def least_after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the least violations after a proposal: the source loses at most all, the target all or none."""
    lost = proposal.target if may_both_lose(problem, proposal.partner) else NOWHERE
    return total_of_others(solution.totals.expected_failovers, solution.violating, proposal.source, lost)


@kernel
def at_source(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the violations of the source node after a proposal; 0 without a counted source node.

    With repetitions, a replica that leaves adds no violation, so a node without violations is not evaluated.
    """
    here = proposal.source
    if here == NOWHERE or not problem.counted[here]:
        return 0
    if problem.estimator_rows.shape[0] > 0:
        return _estimated(problem, solution, here, proposal.partner, proposal.row)
    aggregate, ceiling, threshold = solution.aggregate[here], solution.ceiling[here], problem.threshold[here]
    if proposal.partner == NOWHERE:
        if solution.violating[here] == 0:
            return 0
        found = violations_left(
            aggregate, ceiling, threshold, problem.peak[proposal.row], solution.hit, problem.windows
        )
    else:
        found = violations_exchanged(
            aggregate,
            ceiling,
            threshold,
            problem.peak[proposal.partner],
            problem.peak_ceiling[proposal.partner],
            problem.peak[proposal.row],
            solution.hit,
            problem.windows,
        )
    if problem.timeline and found > 0:
        return count_lasting(problem, solution, here, proposal.partner, proposal.row)
    return found


@kernel
def at_target(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the violations of the target node after a proposal."""
    target = proposal.target
    if target == NOWHERE or not problem.counted[target]:
        return 0
    if problem.estimator_rows.shape[0] > 0:
        return _estimated(problem, solution, target, proposal.row, proposal.partner)
    aggregate, ceiling, threshold = solution.aggregate[target], solution.ceiling[target], problem.threshold[target]
    peak, peak_ceiling = problem.peak[proposal.row], problem.peak_ceiling[proposal.row]
    if proposal.partner == NOWHERE:
        found = violations_joined(aggregate, ceiling, threshold, peak, peak_ceiling, solution.hit, problem.windows)
    else:
        leaving = problem.peak[proposal.partner]
        found = violations_exchanged(
            aggregate, ceiling, threshold, peak, peak_ceiling, leaving, solution.hit, problem.windows
        )
    if problem.timeline and found > 0:
        return count_lasting(problem, solution, target, proposal.row, proposal.partner)
    return found


@kernel
def apply(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Set the violations of source and target to those after a proposal, before the rows move."""
    source_after = at_source(problem, solution, proposal)
    target_after = at_target(problem, solution, proposal)
    solution.totals.expected_failovers += replace_share(solution.violating, proposal.source, source_after)
    solution.totals.expected_failovers += replace_share(solution.violating, proposal.target, target_after)


@kernel
def sum_up(solution: Solution) -> None:
    """Compute the violations of all nodes together from those of each."""
    solution.totals.expected_failovers = solution.violating.sum()


def count_again(problem: Problem, solution: Solution, stale: Bool) -> None:
    """Count the violations of the nodes in `stale`, (N,), from the sums of peaks; 0 for uncounted nodes."""
    if len(problem.estimator_rows):
        solution.violating[~problem.counted] = 0
        _estimate(problem, solution, np.flatnonzero(problem.counted & stale))
    else:
        _count_again(problem, solution, stale)


@kernel
def _count_again(problem: Problem, solution: Solution, stale: Bool) -> None:
    for node in range(stale.shape[0]):
        if not stale[node]:
            continue
        solution.violating[node] = 0
        if problem.counted[node]:
            solution.violating[node] = count_violations(
                solution.aggregate[node], problem.threshold[node], solution.hit, problem.windows
            )
        if problem.timeline and solution.violating[node] > 0:
            mark_violations(solution.aggregate[node], problem.threshold[node], solution.hit)
            solution.violating[node] = count_lasting(problem, solution, node, NOWHERE, NOWHERE)


@kernel
def _estimate(problem: Problem, solution: Solution, which: Int) -> None:
    """Estimate the violations of the nodes in `which`, their indices."""
    for node in which:
        solution.violating[node] = _estimated(problem, solution, node, NOWHERE, NOWHERE)


@kernel
def count_violations_with(problem: Problem, solution: Solution, row: int, found: Int) -> None:
    """Write the violations of each node with `row` on it to `found`.

    Parameters
    ----------
    found
        (N,) modified; 0 for nodes that are not counted.
    """
    for node in range(found.shape[0]):
        if solution.node[row] == node:
            found[node] = solution.violating[node]
        else:
            found[node] = at_target(problem, solution, proposed(solution, row, node, NOWHERE))


@kernel
def _estimated(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
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


@kernel(inline=True)
def violations_joined(
    aggregate: Int32,
    ceiling: Int,
    threshold: Int32,
    incoming: Int32,
    incoming_ceiling: Int,
    hit: UInt8,
    windows: Int,
) -> int:
    """Return the number of repetitions, or windows, in which a node is in violation after a replica joined; O(R·K).

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
    windows
        (2,) `plb.state.arrays.Problem.windows`.
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
    return _count(hit, windows) if evaluated else 0


@kernel(inline=True)
def violations_left(aggregate: Int32, ceiling: Int, threshold: Int32, outgoing: Int32, hit: UInt8, windows: Int) -> int:
    """Return the number of repetitions, or windows, in which a node is in violation after a replica leaves it."""
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
    return _count(hit, windows) if evaluated else 0


@kernel
def violations_exchanged(
    aggregate: Int32,
    ceiling: Int,
    threshold: Int32,
    incoming: Int32,
    incoming_ceiling: Int,
    outgoing: Int32,
    hit: UInt8,
    windows: Int,
) -> int:
    """Return the violations of a node, in repetitions or windows, after one replica joined and one left.

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
    return _count(hit, windows) if evaluated else 0


@kernel(inline=True)
def _count(hit: UInt8, windows: Int) -> int:
    if windows[HORIZON] > 1:
        return bad_windows(hit, windows)
    violations = np.int32(0)
    for k in range(hit.shape[0]):
        violations += hit[k]
    return int(violations)


@kernel
def count_violations(aggregate: Int32, threshold: Int32, hit: UInt8, windows: Int) -> int:
    """Return the number of repetitions, or windows, in which `aggregate`, (R, K) quanta, reaches a threshold.

    Parameters
    ----------
    threshold
        (R,) quanta.
    hit, windows
        As in `violations_joined`.
    """
    mark_violations(aggregate, threshold, hit)
    return _count(hit, windows)


@kernel
def mark_violations(aggregate: Int32, threshold: Int32, hit: UInt8) -> None:
    """Mark in `hit`, (K,), the repetitions in which `aggregate` reaches the threshold of some metric."""
    for k in range(aggregate.shape[1]):
        hit[k] = _is_reached(aggregate, threshold, k)


@kernel(inline=True)
def _is_reached(aggregate: Int32, threshold: Int32, k: int) -> bool:
    """Return whether repetition k reaches the threshold of some metric."""
    reached = False
    for metric in range(aggregate.shape[0]):
        reached |= aggregate[metric, k] >= threshold[metric]
    return reached


def _new_sums(problem: Problem) -> dict[str, Any]:
    return {
        "violating": np.zeros(len(problem.limit), np.int64),
        "hit": np.zeros(problem.peak.shape[2], np.uint8),
    }


def _total(problem: Problem, solution: Solution) -> float:
    """Return V from the peaks of every node's replicas in every repetition; at departures from the sums."""
    if problem.timeline:
        return float(solution.totals.expected_failovers / problem.weights.repetitions)
    reached = 0
    for node in np.flatnonzero(problem.counted):
        peaks = peaks_by_hand(problem, solution, int(node))
        if len(problem.estimator_rows):
            reached += violations_of_sums(problem.estimator_rows, problem.variance_unit, peaks, problem.threshold[node])
        else:
            reached += _windows_by_hand((peaks >= problem.threshold[node][:, None]).any(axis=0), problem.windows)
    return reached / float(problem.weights.repetitions)


def _windows_by_hand(hit: Bool, windows: Int) -> int:
    """Return the number of windows with a column that is true in `hit`, (K,), by listing the columns of each."""
    length, first = windows.tolist()
    if len(hit) < length:  # without repetitions
        return 0
    in_time = np.roll(hit, -first)
    return int(np.lib.stride_tricks.sliding_window_view(in_time, length).any(axis=1).sum())


DESCRIPTION = TermDescription(
    "expected_failovers",
    after,
    weight=lambda config: config.w_failovers,
    unit=lambda problem: problem.weights.repetitions,
    new_sums=_new_sums,
    total=_total,
)
