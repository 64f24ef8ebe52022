"""Historical simulation for a machine: a percentile of the peaks within windows of its past.

The idea is that of `plb.risk.historical_simulation`: what the present tasks used together at a moment of the past
counts, whatever their correlation. A window begins after a step of the past and lasts for the horizon. The present
usage differs from that at this step, and the same share p of a difference is left after each hour. So a usage s(t + j)
in the window that begins after step t counts as s(t + j) + p^(hours of j steps) · (s(now) − s(t)), and the peak of the
window is the largest of these, at least 0.

A task did not live through the steps before it came. Another of its own steps stands for each: the next later one at
the same time of the day, and if there is none, its steps in turn, as in `plb.risk.historical_simulation.fill_column`.
The past is as long as the longest life of a warm task, as far as it is kept. If it is not longer than the horizon, it
has one window, from after its first step to the present one.

Samples are addressed as in `plb.risk.peaks.windows`. A moment of age k is k steps ago.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.risk.peaks.predictor_settings import HistoricalPeak
from plb.risk.peaks.windows import oldest_age, percentile_of, sum_of_group

HOURS_OF_A_DAY = 24


def differences_left(predictor: HistoricalPeak) -> Float:
    """Return the share of a difference that is left at each step of a window, (horizon,)."""
    hours = HOURS_OF_A_DAY / predictor.day * np.arange(1, predictor.horizon + 1)
    return np.asarray(predictor.persistence**hours, np.float64)


@kernel
def sum_warm_past(
    rows: Int, seen: Int, begin: int, end: int, needed: int, history: int, day: int, usage: Float, now: int,
    total: Float,
) -> None:  # fmt: skip
    """Sum the usage of the warm tasks by age; the present step is `total[now]`, that of age k `total[now - k]`."""
    ages = oldest_age(seen, begin, end, needed, history)
    for place in range(now - ages + 1, now + 1):
        total[place] = 0.0
    for place in range(begin, end):
        if seen[place] >= needed:
            add_past(usage, rows[place], min(seen[place], history), ages, day, now, total)


@kernel
def add_past(usage: Float, row: int, lived: int, ages: int, day: int, now: int, total: Float) -> None:
    """Add the usage of a task at a number of ages.

    Parameters
    ----------
    row, lived
        The present sample, and the number of samples that are kept, at most `ages`.
    day
        Steps of a day.
    """
    for step in range(lived):
        total[now - lived + 1 + step] += usage[row - lived + 1 + step]
    if lived >= day:  # each time of the day was lived through, and the oldest day stands for those before
        source = lived - day
        for age in range(lived, ages):
            total[now - age] += usage[row - source]
            source = source + 1 if source + 1 < lived else lived - day
        return
    turn, time_of_day = 0, lived
    for age in range(lived, ages):
        source = time_of_day if time_of_day < lived else turn
        total[now - age] += usage[row - source]
        turn = turn + 1 if turn + 1 < lived else 0
        time_of_day = time_of_day + 1 if time_of_day + 1 < day else 0


@kernel
def percentile_of_windows(
    total: Float, now: int, ages: int, stride: int, left: Float, percentile: float, window: Float
) -> float:
    """Return the percentile of the peaks of the windows.

    Parameters
    ----------
    total, now
        The past, as `sum_warm_past` leaves it.
    ages
        Length of the past with the present step, at least 2.
    left
        See `differences_left`; as long as a window.
    window
        Working space, (ages,).
    """
    length = min(len(left), ages - 1)
    count = 0
    for start in range(length, ages, stride):
        apart = total[now] - total[now - start]
        highest = 0.0
        for later in range(length):
            highest = max(highest, total[now - start + 1 + later] + left[later] * apart)
        window[count] = highest
        count += 1
    return percentile_of(window, count, percentile)


@kernel
def sweep_past(
    rows: Int, seen: Int, bounds: Int, usage: Float, limit: Float, needed: int, history: int, day: int, stride: int,
    left: Float, percentile: float, capped: bool, total: Float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Predict by the windows of the past at every step of a machine; the sums stay while the past of the tasks does.

    Parameters
    ----------
    rows, seen, bounds
        See `plb.risk.peaks.bulk`.
    left
        See `differences_left`.
    total
        Working space, (S,).
    window
        Working space, (history,).
    peak
        Is filled, (S,).
    """
    warm_before, ages_before = 0, 0
    for now in range(len(peak)):
        begin, end = bounds[now], bounds[now + 1]
        ages = oldest_age(seen, begin, end, needed, history)
        warm, kept = 0, 0
        for place in range(begin, end):
            if seen[place] >= needed:
                warm += 1
                # steps that stand for others are the same as before if the task had lived through a day
                kept += seen[place] > needed and seen[place] > min(ages_before, day)
        if warm == kept and warm == warm_before:
            total[now] = sum_of_group(rows, seen, begin, end, needed, True, usage)
        else:
            sum_warm_past(rows, seen, begin, end, needed, history, day, usage, now, total)
        warm_before, ages_before = warm, ages
        peak[now] = sum_of_group(rows, seen, begin, end, needed, False, limit)
        if warm:
            found = percentile_of_windows(total, now, ages, stride, left, percentile, window)
            if capped:
                found = min(found, sum_of_group(rows, seen, begin, end, needed, True, limit))
            peak[now] += found
