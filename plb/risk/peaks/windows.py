"""The arithmetic of the predictors, one step of one machine at a time: kernels that both forms share.

The streaming form and the bulk form differ in how they keep samples, never in how they compute: both call what is here,
on the same numbers in the same order, so they agree to the last bit.

Samples are addressed by row: samples of a task in consecutive steps are in consecutive rows, so a sample of age k is k
rows above the present one. `rows[begin:end]` are the present samples of a machine, in the order of tasks, and
`seen[begin:end]` the number of samples in a row that each task has. A task is warm if that is at least `needed`.

**Historical simulation** is a percentile of the peaks within windows of the past of a machine. The idea is that of
`plb.risk.historical_simulation`: what the present tasks used together at a moment of the past counts, whatever their
correlation. A window begins after a step of the past and lasts for the horizon. The present usage differs from that at
this step, and the same share p of a difference is left after each hour. So a usage s(t + j) in the window that begins
after step t counts as s(t + j) + p^(hours of j steps) · (s(now) − s(t)), and the peak of the window is the largest of
these, at least 0.

A task did not live through the steps before it came. Another of its own steps stands for each: the next later one at
the same time of the day, and if there is none, its steps in turn, as in `plb.risk.historical_simulation.fill_column`.
The past is as long as the longest life of a warm task, as far as it is kept. If it is not longer than the horizon, it
has one window, from after its first step to the present one. A moment of age k is k steps ago.
"""

from __future__ import annotations

import math

import numpy as np

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.risk.peaks.predictors import HistoricalPeak, MachinePercentile, NSigma

MEAN_AND_DEVIATIONS, PERCENTILE = 0, 1
"""Statistics of the ratios of a machine."""


def statistic_for(predictor: MachinePercentile | NSigma) -> tuple[int, float]:
    """Return MEAN_AND_DEVIATIONS with n, or PERCENTILE with the percentile: what a predictor takes of the ratios."""
    if isinstance(predictor, NSigma):
        return MEAN_AND_DEVIATIONS, predictor.n
    return PERCENTILE, predictor.percentile


@kernel
def sum_of(rows: Int, begin: int, end: int, values: Float) -> float:
    """Return the sum of `values`, (N,), over the present samples, `rows[begin:end]`."""
    total = 0.0
    for index in range(begin, end):
        total += values[rows[index]]
    return total


@kernel
def sum_of_group(rows: Int, seen: Int, begin: int, end: int, needed: int, warm: bool, values: Float) -> float:
    """Return the sum of `values`, (N,), over the present samples of the warm tasks; without `warm`, of the cold ones.

    `rows[begin:end]` are the present samples, `seen[begin:end]` the number of samples in a row that each task has; it
    is warm from `needed` on.
    """
    total = 0.0
    for index in range(begin, end):
        if (seen[index] >= needed) == warm:
            total += values[rows[index]]
    return total


@kernel
def oldest_age(seen: Int, begin: int, end: int, needed: int, history: int) -> int:
    """Return how many steps the windows of the warm tasks go back, the present one included; 0: none is warm.

    A window has at most `history` steps. `seen[begin:end]`: samples in a row of each present task, which is warm from
    `needed` on.
    """
    longest = 0
    for index in range(begin, end):
        if seen[index] >= needed:
            longest = max(longest, min(seen[index], history))
    return longest


@kernel
def sum_warm_windows(
    rows: Int, seen: Int, begin: int, end: int, needed: int, history: int, values: Float, now: int, total: Float
) -> None:
    """Sum the windows of `values` of the warm tasks by age; `total[now - k]` receives the sum of age k, 0 the present.

    A window has at most `history` steps. `rows[begin:end]`: present samples; `seen[begin:end]`: samples in a row of
    each task, which is warm from `needed` on.
    """
    for index in range(now - oldest_age(seen, begin, end, needed, history) + 1, now + 1):
        total[index] = 0.0
    for index in range(begin, end):
        if seen[index] >= needed:
            length = min(seen[index], history)
            row, target = rows[index] - length + 1, now - length + 1
            for step in range(length):
                total[target + step] += values[row + step]


@kernel
def sums_without_cold(
    rows: Int, seen: Int, begin: int, end: int, needed: int, usage: Float, total: Float, now: int, length: int,
    window: Float,
) -> None:  # fmt: skip
    """Write the newest `length` sums of a machine's usage, without the tasks that are cold now, to `window`.

    `total[now]`: the present sum of `usage` over all tasks; `total` before it: the earlier ones. `rows[begin:end]`:
    present samples; `seen[begin:end]`: samples in a row of each task, which is cold below `needed`.
    """
    for step in range(length):
        window[step] = total[now - length + 1 + step]
    for index in range(begin, end):
        if seen[index] < needed:
            row = rows[index]
            for age in range(min(seen[index], length)):
                window[length - 1 - age] -= usage[row - age]


@kernel
def ratio(usage: float, limit: float) -> float:
    """Return usage by limit; 0 where the limit is 0."""
    return usage / limit if limit > 0.0 else 0.0


@kernel
def mean_and_deviations(values: Float, first: int, last: int, n: float) -> float:
    """Return the mean of `values[first : last + 1]`, (N,), plus n times their sample standard deviation."""
    count = last - first + 1
    total = 0.0
    for index in range(first, last + 1):
        total += values[index]
    mean = total / count
    squares = 0.0
    for index in range(first, last + 1):
        squares += (values[index] - mean) * (values[index] - mean)
    return mean + n * math.sqrt(squares / (count - 1))


@kernel
def interpolated(lower: float, upper: float, share: float) -> float:
    """Return the value at a `share` of the way from `lower` to `upper`, rounded as NumPy interpolates percentiles."""
    if share >= 0.5:
        return upper - (upper - lower) * (1.0 - share)
    return lower + (upper - lower) * share


@kernel
def percentile_of(values: Float, count: int, percentile: float) -> float:
    """Return a percentile, in [0, 100], of the first `count` values by linear interpolation; their order is changed."""
    position = (count - 1) * (percentile / 100.0)
    below = int(position)
    lower = selected(values, count, below)
    if below + 1 >= count:
        return lower
    upper = values[below + 1]
    for higher in range(below + 2, count):
        upper = min(upper, values[higher])
    return interpolated(lower, upper, position - below)


@kernel
def selected(values: Float, count: int, rank: int) -> float:
    """Return the value of a `rank`, from 0, among the first `count` of `values`, (N,), which are partitioned by it.

    Hoare's selection: lower values are before it afterwards, higher ones behind.
    """
    low, high = 0, count - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while pivot < values[right]:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return float(values[rank])


@kernel
def statistic_of(kind: int, parameter: float, ratios: Float, first: int, last: int, window: Float) -> float:
    """Return a statistic of the ratios of a machine, `ratios[first : last + 1]`; `window` is scratch.

    `kind`, `parameter`: results of `statistic_for`.
    """
    if kind == MEAN_AND_DEVIATIONS:
        return mean_and_deviations(ratios, first, last, parameter)
    for index in range(first, last + 1):
        window[index - first] = ratios[index]
    return percentile_of(window, last - first + 1, parameter)


@kernel
def sum_task_percentiles(
    rows: Int, seen: Int, begin: int, end: int, needed: int, history: int, usage: Float, limit: Float,
    percentile: float, window: Float,
) -> float:  # fmt: skip
    """Return the sum over the warm tasks of the percentile of the ratios in a task's window, times its present limit.

    A ratio is usage by limit. A window has at most `history` samples; `window`: (history,) scratch. `rows[begin:end]`:
    present samples; `seen[begin:end]`: samples in a row of each task, which is warm from `needed` on.
    """
    total = 0.0
    for index in range(begin, end):
        if seen[index] >= needed:
            row, length = rows[index], min(seen[index], history)
            for age in range(length):
                window[age] = ratio(usage[row - age], limit[row - age])
            total += limit[row] * percentile_of(window, length, percentile)
    return total


HOURS_OF_A_DAY = 24


def differences_left(predictor: HistoricalPeak) -> Float:
    """Return the share p^hours of the difference s(now) − s(t) that is left at each step of a window, (horizon,)."""
    hours = HOURS_OF_A_DAY / predictor.day * np.arange(1, predictor.horizon + 1)
    return np.asarray(predictor.persistence**hours, np.float64)


@kernel
def sum_warm_past(
    rows: Int, seen: Int, begin: int, end: int, needed: int, history: int, day: int, usage: Float, now: int,
    total: Float,
) -> None:  # fmt: skip
    """Sum the usage of the warm tasks by age; `total[now - k]` receives the sum of age k, 0 the present.

    A task contributes its `history` newest samples, and these again for steps before it came (`add_past`); `day` is in
    steps. `rows[begin:end]`: present samples; `seen[begin:end]`: samples in a row of each task, which is warm from
    `needed` on.
    """
    ages = oldest_age(seen, begin, end, needed, history)
    for index in range(now - ages + 1, now + 1):
        total[index] = 0.0
    for index in range(begin, end):
        if seen[index] >= needed:
            add_past(usage, rows[index], min(seen[index], history), ages, day, now, total)


@kernel
def add_past(usage: Float, row: int, lived: int, ages: int, day: int, now: int, total: Float) -> None:
    """Add the usage of a task at `ages` ages to `total`, of which `total[now - k]` has age k.

    `row` is its present sample in `usage`, `lived` its number of samples, at most `ages`, which are repeated for the
    steps before it came: at the same time of the day if possible, else in turn; `day` is in steps.
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
    """Return the percentile of the peaks of the windows of the past that begin with the present usage.

    `total[now - k]` is the usage k steps ago, for k below `ages`, at least 2. A window begins every `stride` steps.
    `left`: (horizon,) share of a difference that is left at each step of a window; `window`: (ages,) scratch.
    """
    length = min(len(left), ages - 1)
    count = 0
    for start in range(length, ages, stride):
        difference = total[now] - total[now - start]
        highest = 0.0
        for step in range(length):
            highest = max(highest, total[now - start + 1 + step] + left[step] * difference)
        window[count] = highest
        count += 1
    return percentile_of(window, count, percentile)


@kernel
def sweep_past(
    rows: Int, seen: Int, bounds: Int, usage: Float, limit: Float, needed: int, history: int, day: int, stride: int,
    left: Float, percentile: float, capped: bool, total: Float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Predict by the windows of the past at every step of a machine, and write the predictions to `peak`, (S,).

    `rows`, `seen`, `bounds`, `usage`, `limit`: of `MachineSamples`; `needed`: samples until a task is warm; `history`,
    `day`, `stride`, `percentile`: of `HistoricalPeak`; `left`: (horizon,) share of a difference that is left at each
    step of a window; `capped`: whether a prediction is at most the present limits. Working space: `total` (S,), whose
    sums stay while the past of the tasks does, and `window` (history,).
    """
    warm_before, ages_before = 0, 0
    for now in range(len(peak)):
        begin, end = bounds[now], bounds[now + 1]
        ages = oldest_age(seen, begin, end, needed, history)
        warm, still_warm = 0, 0
        for index in range(begin, end):
            if seen[index] >= needed:
                warm += 1
                # steps that stand for others are the same as before if the task had lived through a day
                still_warm += seen[index] > needed and seen[index] > min(ages_before, day)
        if warm == still_warm and warm == warm_before:
            total[now] = sum_of_group(rows, seen, begin, end, needed, True, usage)
        else:
            sum_warm_past(rows, seen, begin, end, needed, history, day, usage, now, total)
        warm_before, ages_before = warm, ages
        peak[now] = sum_of_group(rows, seen, begin, end, needed, False, limit)
        if warm:
            predicted = percentile_of_windows(total, now, ages, stride, left, percentile, window)
            if capped:
                predicted = min(predicted, sum_of_group(rows, seen, begin, end, needed, True, limit))
            peak[now] += predicted
