"""The exact test of a repetition ([1] section 5.3), at the departures of the replicas of a node.

A repetition in which the peaks together stay below every threshold is never in violation, so only those are tested that
the sums of peaks hold to be. Between two departures demand only grows, and after each the peaks of those who are left
bound what can still come; the test ends as soon as they stay below the threshold. It equals
`plb.risk.repetitions_in_violation_timeline` where replicas follow their traces as recorded.

Times are seconds from now. All replicas of a node are there from now on, a new one too.
"""

from __future__ import annotations

import math

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.risk.anchoring import GROWTH, INITIAL, LEVEL
from plb.state.arrays import Problem, Solution


@kernel
def stand_in_list(first_on: Int, next_on: Int, row: int, node: int) -> None:
    """Enter a row among those on a node, which are kept in ascending order.

    Parameters
    ----------
    first_on, next_on
        As in `plb.state.arrays.Solution`; changed.
    """
    before = NOWHERE
    after = first_on[node]
    while after != NOWHERE and after < row:
        before = after
        after = next_on[after]
    next_on[row] = after
    if before == NOWHERE:
        first_on[node] = row
    else:
        next_on[before] = row


@kernel
def leave_list(first_on: Int, next_on: Int, row: int, node: int) -> None:
    """Strike a row from those on a node, if it is among them; see `stand_in_list`."""
    before = NOWHERE
    at = first_on[node]
    while at != row:
        if at == NOWHERE:
            return
        before = at
        at = next_on[at]
    if before == NOWHERE:
        first_on[node] = next_on[row]
    else:
        next_on[before] = next_on[row]
    next_on[row] = NOWHERE


@kernel
def count_lasting(problem: Problem, solution: Solution, node: int, incoming: int, outgoing: int) -> int:
    """Return in how many of the repetitions marked in `Solution.hit` a node is in violation at some departure.

    Parameters
    ----------
    node
        With its present replicas.
    incoming, outgoing
        A row that joins them and one that leaves them, or NOWHERE.
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
    """Tell whether a metric of a node reaches its threshold at some departure of repetition k."""
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
    """Return the first row of a node after the change, or NOWHERE; the incoming one comes last."""
    row = _but(solution, int(solution.first_on[node]), outgoing)
    return incoming if row == NOWHERE else row


@kernel
def _next(solution: Solution, row: int, incoming: int, outgoing: int) -> int:
    """Return the row after another, or NOWHERE."""
    if row == incoming:
        return NOWHERE
    after = _but(solution, int(solution.next_on[row]), outgoing)
    return incoming if after == NOWHERE else after


@kernel
def _but(solution: Solution, row: int, outgoing: int) -> int:
    """Return a row, or the one after it if it is leaving."""
    return int(solution.next_on[row]) if row != NOWHERE and row == outgoing else row


@kernel
def departure_of(problem: Problem, row: int, k: int) -> float:
    """Return in how many seconds a row departs in a repetition; one that has outlived its trace departs now."""
    return float(max(0.0, problem.lifetime[problem.trace[row, k]] - problem.age[row]))


@kernel
def demand_after(problem: Problem, row: int, metric: int, k: int, time: float) -> int:
    """Return the demand of a row after so many seconds in a repetition: whole quanta, rounded up, at most its peak.

    A metric with trend grows from the demand that its trace has at this age, or, once anchored (`plb.risk.anchoring`),
    from the largest demand seen, by what the trace grows. A metric without trend is at its peak.
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
        demand = problem.largest_demand[row, metric] + rise * (time / duration)
    else:
        demand = initial + rise * ((age + time) / duration)
    return int(min(math.ceil(demand / problem.unit[metric]), peak))
