"""The predictors over all steps of one machine: kernels of the bulk form.

What a step has in common with the one before is not computed again: the sums of a machine's past stay while its warm
tasks do, and the sorted window of a task changes by one sample. Sums are otherwise made as in `plb.risk.peaks.windows`,
by the same kernels in the same order. Shapes: N samples, S steps; `bounds` (S + 1,) bounds the samples of each step in
`rows` and `seen`, both (N,).
"""

from __future__ import annotations

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.risk.peaks.windows import (
    interpolated,
    mean_and_deviations,
    oldest_age,
    percentile_of,
    ratio,
    statistic_of,
    sum_of,
    sum_of_group,
    sum_warm_windows,
    sums_without_cold,
)


@kernel
def sum_steps(rows: Int, bounds: Int, values: Float, total: Float) -> None:
    """Sum the samples of every step into `total`, (S,)."""
    for now in range(len(total)):
        total[now] = sum_of(rows, bounds[now], bounds[now + 1], values)


@kernel
def sweep_ratios(
    rows: Int, seen: Int, bounds: Int, usage: Float, limit: Float, needed: int, history: int, kind: int,
    parameter: float, total_usage: Float, total_limit: Float, ratios: Float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Predict by a statistic of the ratio of the warm tasks' summed usage and summed limits, at every step.

    Parameters
    ----------
    kind, parameter
        The statistic, see `plb.risk.peaks.windows.statistic_of`.
    total_usage, total_limit, ratios
        Working space, (S,).
    window
        Working space, (history,).
    peak
        Is filled, (S,).
    """
    warm_before = 0
    for now in range(len(peak)):
        begin, end = bounds[now], bounds[now + 1]
        warm, kept = 0, 0
        for place in range(begin, end):
            warm += seen[place] >= needed
            kept += seen[place] > needed
        first = now - oldest_age(seen, begin, end, needed, history) + 1
        if warm == kept and warm == warm_before:
            total_usage[now] = sum_of_group(rows, seen, begin, end, needed, True, usage)
            total_limit[now] = sum_of_group(rows, seen, begin, end, needed, True, limit)
            ratios[now] = ratio(total_usage[now], total_limit[now])
        else:
            sum_warm_windows(rows, seen, begin, end, needed, history, usage, now, total_usage)
            sum_warm_windows(rows, seen, begin, end, needed, history, limit, now, total_limit)
            for step in range(first, now + 1):
                ratios[step] = ratio(total_usage[step], total_limit[step])
        warm_before = warm
        cold = sum_of_group(rows, seen, begin, end, needed, False, limit)
        if warm:
            cold += min(1.0, statistic_of(kind, parameter, ratios, first, now, window)) * total_limit[now]
        peak[now] = cold


@kernel
def sweep_sums(
    rows: Int, seen: Int, bounds: Int, usage: Float, limit: Float, needed: int, history: int, n: float,
    total: Float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Predict by mean and deviation of the machine's summed usage at every step, N-sigma as the paper prints it.

    Parameters
    ----------
    total
        Working space, (S,).
    window
        Working space, (history,).
    peak
        Is filled, (S,).
    """
    for now in range(len(peak)):
        begin, end = bounds[now], bounds[now + 1]
        total[now] = sum_of(rows, begin, end, usage)
        predicted = sum_of_group(rows, seen, begin, end, needed, False, limit)
        if oldest_age(seen, begin, end, needed, history):
            length = min(now + 1, history)
            sums_without_cold(rows, seen, begin, end, needed, usage, total, now, length, window)
            predicted += mean_and_deviations(window, 0, length - 1, n)
        peak[now] = predicted


@kernel
def slide_percentiles(
    run_start: Int, usage: Float, limit: Float, needed: int, history: int, percentile: float, window: Float,
    counted: Float,
) -> None:  # fmt: skip
    """Give every sample of a warm task the percentile of its window, times its limit.

    Parameters
    ----------
    run_start
        Bounds of the runs: samples of a task in consecutive steps.
    window
        Working space, (history,).
    counted
        Is filled at warm samples, (N,).
    """
    for run in range(len(run_start) - 1):
        start = run_start[run]
        for row in range(start, run_start[run + 1]):
            kept = min(row - start, history)
            new = ratio(usage[row], limit[row])
            if kept == history:
                replace_sorted(window, kept, ratio(usage[row - history], limit[row - history]), new)
            else:
                insert_sorted(window, kept, new)
                kept += 1
            if row - start + 1 >= needed:
                counted[row] = limit[row] * percentile_of_sorted(window, kept, percentile)


@kernel
def percentile_of_sorted(values: Float, count: int, percentile: float) -> float:
    """Return what `plb.risk.peaks.windows.percentile_of` does, of values in ascending order."""
    place = (count - 1) * (percentile / 100.0)
    below = int(place)
    if below + 1 >= count:
        return float(values[below])
    return interpolated(values[below], values[below + 1], place - below)


@kernel
def insert_sorted(values: Float, count: int, new: float) -> None:
    """Put a value among the first `count`, which are in ascending order."""
    place = count
    while place > 0 and values[place - 1] > new:
        values[place] = values[place - 1]
        place -= 1
    values[place] = new


@kernel
def replace_sorted(values: Float, count: int, old: float, new: float) -> None:
    """Replace a value among the first `count`, which stay in ascending order."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if values[middle] < old:
            low = middle + 1
        else:
            high = middle
    place = low
    while place + 1 < count and values[place + 1] < new:
        values[place] = values[place + 1]
        place += 1
    insert_sorted(values, place, new)


@kernel
def look_ahead(
    rows: Int, bounds: Int, snapshot: Int, run_end: Int, task_end: Int, usage: Float, limit: Float, capped: bool,
    last: Int, percentile: float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Find the largest future usage of the tasks of each step, for the first `len(peak)` steps.

    Parameters
    ----------
    snapshot
        Step of each sample, (N,).
    run_end, task_end
        First row after the run, and after the task, of each sample, (N,).
    last
        Last step of the horizon of each step, (S,).
    window
        Working space, as long as the longest horizon in steps.
    peak
        Is filled where anything is to come; it holds the summed limits before.
    """
    for now in range(len(peak)):
        ahead = last[now] - now
        if ahead == 0:
            continue
        for step in range(ahead):
            window[step] = 0.0
        for place in range(bounds[now], bounds[now + 1]):
            present = rows[place]
            highest = limit[present] if capped else float("inf")
            row = present + 1
            while row < task_end[present] and snapshot[row] <= last[now]:
                length = min(run_end[row] - row, last[now] - snapshot[row] + 1)
                target = snapshot[row] - now - 1
                for step in range(length):
                    window[target + step] += min(usage[row + step], highest)
                row = run_end[row]
        if percentile == 100.0:
            most = window[0]
            for step in range(1, ahead):
                most = max(most, window[step])
            peak[now] = most
        else:
            peak[now] = percentile_of(window, ahead, percentile)
