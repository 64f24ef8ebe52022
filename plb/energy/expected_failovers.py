"""The term expected_failovers, V(X) = Σ over nodes (repetitions in violation) / K ([1] section 7).

Repetition k samples one past demand curve for every replica. A node is in violation in repetition k if, for some
metric, the sum of the peaks of its replicas reaches the threshold (`peak` evaluation). All sums are integers in quanta.
With historical simulation, windows of neighbouring repetitions are counted instead. With other estimators, the
probability of a violation of a node takes the place of its share of repetitions.

`timeline` evaluation tests the repetitions that are in violation by their peaks exactly, at the departures of the
replicas of a node ([1] section 5.3); demand does not fall between two departures. After each departure the peaks of the
remaining replicas bound the later demand, and the test ends once their sum is below the threshold. With a horizon,
departures after it count as departures at its end. Times are seconds from now. All replicas of a node, including new
ones, are on it from time 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int, Int32, UInt8
from plb.compiler import kernel
from plb.energy.node_sums import may_lower_target, peaks_by_hand, replace_share, total_without
from plb.energy.score import TermDescription
from plb.risk.anchoring import GROWTH, INITIAL, LEVEL, growth_age_of, growth_share
from plb.risk.estimator_columns import node_violations, violations_of_sums
from plb.risk.historical_simulation import HORIZON, bad_windows
from plb.state.arrays import Problem, Proposal, Solution, proposed


@kernel
def after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the violations of the whole solution after a proposal, as in `Totals.expected_failovers`."""
    unchanged = total_without(solution.totals.expected_failovers, solution.violating, proposal.source, proposal.target)
    source = at_source(problem, solution, proposal)
    return int(unchanged + source + at_target(problem, solution, proposal))


@kernel
def least_after(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return a lower bound of `after`: no violation at the source, nor at the target if its violations may fall."""
    target = proposal.target if may_lower_target(problem, proposal.partner) else NOWHERE
    return total_without(solution.totals.expected_failovers, solution.violating, proposal.source, target)


@kernel
def at_source(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the violations of the source node after a proposal; 0 without a counted source node.

    With repetitions, a replica that leaves adds no violation, so a node without violations is not evaluated.
    """
    source = proposal.source
    if source == NOWHERE or not problem.counted[source]:
        return 0
    if proposal.partner == NOWHERE and solution.violating[source] == 0 and problem.estimator_rows.shape[0] == 0:
        return 0
    return _violations(problem, solution, source, proposal.partner, proposal.row)


@kernel
def at_target(problem: Problem, solution: Solution, proposal: Proposal) -> int:
    """Return the violations of the target node after a proposal; 0 without a counted target node."""
    target = proposal.target
    if target == NOWHERE or not problem.counted[target]:
        return 0
    return _violations(problem, solution, target, proposal.row, proposal.partner)


@kernel(inline=True)
def _violations(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the violations of a node after the row `incoming` joined and `outgoing` left, as in `Solution.violating`.

    Each row may be NOWHERE. Unlike counted repetitions, estimates may fall when a replica joins: negative correlation
    reduces the variance.
    """
    aggregate, threshold = solution.aggregate[node], problem.threshold[node]
    joining, leaving = problem.peak[incoming], problem.peak[outgoing]
    if problem.estimator_rows.shape[0] > 0:
        return node_violations(problem.estimator_rows, problem.variance_unit, aggregate, threshold, joining, leaving)
    ceilings, hit, windows = (solution.ceiling[node], problem.peak_ceiling[incoming]), solution.hit, problem.windows
    if outgoing == NOWHERE:
        count = violations_with(aggregate, threshold, ceilings, joining, None, hit, windows)
    elif incoming == NOWHERE:
        count = violations_with(aggregate, threshold, ceilings, None, leaving, hit, windows)
    else:
        count = violations_with(aggregate, threshold, ceilings, joining, leaving, hit, windows)
    if problem.timeline and count > 0:
        return count_lasting(problem, solution, node, incoming, outgoing)
    return count


@kernel
def apply(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Update the violations of source and target, and their total, for a proposal whose rows have yet to move."""
    source_after = at_source(problem, solution, proposal)
    target_after = at_target(problem, solution, proposal)
    solution.totals.expected_failovers += replace_share(solution.violating, proposal.source, source_after)
    solution.totals.expected_failovers += replace_share(solution.violating, proposal.target, target_after)


@kernel
def count_again(problem: Problem, solution: Solution, stale: Bool) -> None:
    """Count the violations of the nodes in `stale`, (N,), from the sums of peaks; 0 for uncounted nodes."""
    for node in range(stale.shape[0]):
        if not problem.counted[node]:
            solution.violating[node] = 0
        elif stale[node]:
            solution.violating[node] = _violations(problem, solution, node, NOWHERE, NOWHERE)


@kernel
def count_violations_with(problem: Problem, solution: Solution, row: int, violations: Int) -> None:
    """Write the violations of each node with `row` on it to `violations`, (N,); 0 for nodes that are not counted."""
    for node in range(violations.shape[0]):
        if solution.node[row] == node:
            violations[node] = solution.violating[node]
        else:
            violations[node] = at_target(problem, solution, proposed(solution, row, node, NOWHERE))


@kernel(inline=True)
def violations_with(
    aggregate: Int32,
    threshold: Int32,
    ceilings: tuple[Int, Int],
    incoming: Int32 | None,
    outgoing: Int32 | None,
    hit: UInt8,
    windows: Int,
) -> int:
    """Return the repetitions, or windows, in which a node is in violation after a replica joined and one left; O(R·K).

    `aggregate`, (R, K), and `threshold`, (R,): of the node; `ceilings`: upper bounds, (R,), on the sums of the node and
    on the peaks of the replica that joins; `incoming`, `outgoing`: (R, K) peaks of the replicas, None without one, to
    read less memory; all in quanta. `hit`: (K,) receives the repetitions in violation; unchanged if the bounds exclude
    any. `windows`: of `Problem`.
    """
    evaluated = False
    for metric in range(aggregate.shape[0]):
        bound = threshold[metric]
        if ceilings[0][metric] + ceilings[1][metric] < bound:
            continue  # even the sum of the largest peaks is below the threshold
        if not evaluated:
            for k in range(hit.shape[0]):
                hit[k] = 0
        for k in range(hit.shape[0]):
            total = aggregate[metric, k]
            if incoming is not None:
                total += incoming[metric, k]
            if outgoing is not None:
                total -= outgoing[metric, k]
            hit[k] |= np.uint8(total >= bound)
        evaluated = True
    return _count(hit, windows) if evaluated else 0


@kernel(inline=True)
def _count(hit: UInt8, windows: Int) -> int:
    """Return the number of repetitions in violation, `hit` (K,), or of windows with one; `windows`: of `Problem`."""
    if windows[HORIZON] > 1:
        return bad_windows(hit, windows)
    violations = np.int32(0)
    for k in range(hit.shape[0]):
        violations += hit[k]
    return int(violations)


@kernel
def count_lasting(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the number of repetitions marked in `Solution.hit` in which a node is in violation at some departure.

    The rows on the node are its present ones with `incoming` and without `outgoing`; each may be NOWHERE.
    """
    rows = solution.tested_rows[: _list_rows(solution, node, incoming, outgoing)]
    departure = solution.departure[: rows.shape[0]]
    sums, threshold = solution.aggregate[node], problem.threshold[node]
    joining, leaving = problem.peak[incoming], problem.peak[outgoing]
    count = 0
    for k in range(solution.hit.shape[0]):
        if not solution.hit[k]:
            continue
        _find_departures(problem, departure, rows, k)
        for metric in range(threshold.shape[0]):
            spare = sums[metric, k] + joining[metric, k] - leaving[metric, k] - threshold[metric]
            if _reaches(problem, rows, departure, k, metric, spare):
                count += 1
                break
    return count


@kernel
def _list_rows(solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Write the rows on a node with `incoming` and without `outgoing` to `Solution.tested_rows`; return their number.

    Each of the two may be NOWHERE.
    """
    count = 0
    row = solution.first_on[node]
    while row != NOWHERE:
        if row not in (outgoing, incoming):
            solution.tested_rows[count] = row
            count += 1
        row = solution.next_on[row]
    if incoming != NOWHERE:
        solution.tested_rows[count] = incoming
        count += 1
    return count


@kernel
def _find_departures(problem: Problem, departure: Float, rows: Int, k: int) -> None:
    """Write when each of `rows`, (n,), departs in repetition `k` to `departure`, (n,), seconds from now."""
    for index in range(rows.shape[0]):
        departure[index] = departure_of(problem, rows[index], k)


@kernel
def _reaches(problem: Problem, rows: Int, departure: Float, k: int, metric: int, spare: int) -> bool:
    """Return whether `rows`, (n,), reach the threshold of a metric at some departure of repetition `k`.

    `departure`: (n,) of each row, seconds from now; `spare`: by how much the sum of their peaks exceeds the threshold,
    in quanta.
    """
    time = -1.0
    while spare >= 0:
        time = _next_departure(departure, time)
        if time == math.inf:
            return False
        if _missing(problem, rows, departure, k, metric, time, spare) <= spare:
            return True
        for index in range(rows.shape[0]):
            if departure[index] == time:
                spare -= problem.peak[rows[index], metric, k]
    return False


@kernel
def _missing(problem: Problem, rows: Int, departure: Float, k: int, metric: int, time: float, spare: int) -> int:
    """Return by how much the `rows`, (n,), that stay until `time` are below their peaks then, in quanta.

    The sum ends once it is above `spare`. `departure`: (n,) seconds from now, of each row.
    """
    missing = 0
    if not problem.grows[metric]:
        return missing
    for index in range(rows.shape[0]):
        if departure[index] >= time:
            row = rows[index]
            missing += int(problem.peak[row, metric, k]) - demand_after(problem, row, metric, k, time)
            if missing > spare:
                break
    return missing


@kernel
def _next_departure(departure: Float, before: float) -> float:
    """Return the first `departure`, (n,), after the time `before`; infinite if there is none."""
    soonest = math.inf
    for time in departure:
        if before < time < soonest:
            soonest = time
    return soonest


@kernel
def departure_of(problem: Problem, row: int, k: int) -> float:
    """Return the departure of replica `row` in repetition `k`, seconds from now; 0 if it has outlived its trace.

    A replica that is still there at the end of the horizon departs then.
    """
    remaining = problem.lifetime[problem.trace[row, k]] - problem.age[row]
    return float(min(max(0.0, remaining), problem.horizon))


@kernel
def demand_after(problem: Problem, row: int, metric: int, k: int, time: float) -> int:
    """Return the demand of a row in repetition `k` after `time` seconds, in quanta, rounded up, at most its peak.

    The demand of a metric with trend is the demand of the trace at this age. For an anchored row (`plb.risk.anchoring`)
    it is the peak without the growth of the trace that is still to come, in whole quanta. A metric without trend is at
    its peak.
    """
    peak = int(problem.peak[row, metric, k])
    trace = problem.trace[row, k]
    duration = float(problem.curves[trace, metric, GROWTH])
    age = problem.age[row]
    if not problem.grows[metric] or age + time >= duration:
        return peak
    initial = float(problem.curves[trace, metric, INITIAL])
    rise = float(problem.curves[trace, metric, LEVEL]) - initial
    if problem.anchored[row]:
        remaining_growth = rise * (growth_share(duration, growth_age_of(age), problem.horizon) - time / duration)
        return int(peak - math.floor(max(0.0, remaining_growth) / problem.unit[metric]))
    demand = initial + rise * ((age + time) / duration)
    return int(min(math.ceil(demand / problem.unit[metric]), peak))


def _new_sums(problem: Problem) -> dict[str, Any]:
    """Return the arrays of `Solution` that only this term needs, by name."""
    rows = len(problem.origin) if problem.timeline else 0
    return {
        "violating": np.zeros(len(problem.limit), np.int64),
        "hit": np.zeros(problem.peak.shape[2], np.uint8),
        "tested_rows": np.zeros(rows, np.int64),
        "departure": np.zeros(rows),
    }


def _total(problem: Problem, solution: Solution) -> float:
    """Return V from the peaks of every node's replicas in every repetition; with `timeline`, from `Totals`."""
    if problem.timeline:
        return float(solution.totals.expected_failovers / problem.weights.repetitions)
    violations = 0
    for node in np.flatnonzero(problem.counted):
        peaks, threshold = peaks_by_hand(problem, solution, int(node)), problem.threshold[node]
        if len(problem.estimator_rows):
            violations += violations_of_sums(problem.estimator_rows, problem.variance_unit, peaks, threshold)
        else:
            violations += _windows_by_hand((peaks >= threshold[:, None]).any(axis=0), problem.windows)
    return violations / float(problem.weights.repetitions)


def _windows_by_hand(hit: Bool, windows: Int) -> int:
    """Return the number of `windows`, of `Problem`, with a column that is true in `hit`, (K,), in plain NumPy."""
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
