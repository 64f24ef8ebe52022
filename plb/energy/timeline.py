"""The exact test of a repetition ([1] section 5.3), at the departures of the replicas of a node.

A repetition whose sums of peaks are below every threshold is never in violation, so only the other repetitions are
tested. Demand does not fall between two departures. After each departure the peaks of the remaining replicas bound the
later demand, and the test ends once their sum is below the threshold. It equals
`plb.risk.repetitions_in_violation_timeline` if replicas follow their traces as recorded. With a horizon, departures
after it count as departures at its end.

Times are seconds from now. All replicas of a node, including new ones, are on it from time 0.
"""

from __future__ import annotations

import math

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.risk.anchoring import GROWTH, INITIAL, LEVEL, growth_age_of, growth_share
from plb.state.arrays import Problem, Solution


@kernel
def count_lasting(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the number of repetitions marked in `Solution.hit` in which a node is in violation at some departure.

    Parameters
    ----------
    node
        A node with its present replicas.
    incoming, outgoing
        A row that joins it and one that leaves it, or NOWHERE.
    """
    count = 0
    for k in range(solution.hit.shape[0]):
        if solution.hit[k]:
            for metric in range(problem.threshold.shape[1]):
                if _reaches(problem, solution, node, incoming, outgoing, k, metric):
                    count += 1
                    break
    return count


@kernel
def _reaches(
    problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int, k: int, metric: int
) -> bool:
    """Return whether a metric of a node reaches its threshold at some departure of repetition k."""
    threshold = problem.threshold[node, metric]
    peaks = solution.aggregate[node, metric, k] + problem.peak[incoming, metric, k] - problem.peak[outgoing, metric, k]
    before = -1.0
    while peaks >= threshold:
        time = _next_departure(problem, solution, node, incoming, outgoing, k, before)
        if time == math.inf:
            return False
        demand = 0
        row = _first(solution, node, incoming, outgoing)
        while row != NOWHERE:
            departure = departure_of(problem, row, k)
            if departure >= time:
                demand += demand_after(problem, row, metric, k, time)
            if departure == time:
                peaks -= problem.peak[row, metric, k]
            row = _next(solution, row, incoming, outgoing)
        if demand >= threshold:
            return True
        before = time
    return False


@kernel
def _next_departure(
    problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int, k: int, before: float
) -> float:
    """Return the first departure after the time `before`; infinite if there is none."""
    soonest = math.inf
    row = _first(solution, node, incoming, outgoing)
    while row != NOWHERE:
        departure = departure_of(problem, row, k)
        if before < departure < soonest:
            soonest = departure
        row = _next(solution, row, incoming, outgoing)
    return soonest


@kernel
def _first(solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return the first row of a node after the change, or NOWHERE; the incoming row is last."""
    row = _skip_outgoing(solution, int(solution.first_on[node]), outgoing)
    return incoming if row == NOWHERE else row


@kernel
def _next(solution: Solution, row: int, incoming: int, outgoing: int) -> int:
    """Return the row after `row`, or NOWHERE."""
    if row == incoming:
        return NOWHERE
    after = _skip_outgoing(solution, int(solution.next_on[row]), outgoing)
    return incoming if after == NOWHERE else after


@kernel
def _skip_outgoing(solution: Solution, row: int, outgoing: int) -> int:
    """Return `row`, or the next row if `row` is outgoing."""
    return int(solution.next_on[row]) if row != NOWHERE and row == outgoing else row


@kernel
def departure_of(problem: Problem, row: int, k: int) -> float:
    """Return the departure of a row in a repetition, in seconds from now; 0 if the row has outlived its trace.

    A row that is still there at the end of the horizon departs then.
    """
    left = problem.lifetime[problem.trace[row, k]] - problem.age[row]
    return float(min(max(0.0, left), problem.horizon))


@kernel
def demand_after(problem: Problem, row: int, metric: int, k: int, time: float) -> int:
    """Return the demand of a row in a repetition after `time` seconds, in quanta, rounded up, at most its peak.

    The demand of a metric with trend is that of the trace at this age. For an anchored row (`plb.risk.anchoring`) it is
    the peak without the growth of the trace that is still to come, in whole quanta. A metric without trend is at its
    peak.
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
        later = rise * (growth_share(duration, growth_age_of(age), problem.horizon) - time / duration)
        return int(peak - math.floor(max(0.0, later) / problem.unit[metric]))
    demand = initial + rise * ((age + time) / duration)
    return int(min(math.ceil(demand / problem.unit[metric]), peak))
