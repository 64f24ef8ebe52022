"""The arithmetic of the predictors, one step of one machine at a time: kernels that both forms share.

The streaming form and the bulk form differ in how they keep samples, never in how they compute: both call what is here,
on the same numbers in the same order, so they agree to the last bit.

Samples are addressed by row: those of a task in consecutive steps are in consecutive rows, so a sample of age k is k
rows above the present one. `rows[begin:end]` are the present samples of a machine, in the order of tasks, and
`seen[begin:end]` the number of samples in a row that each task has. A task is warm if that is at least `needed`.
"""

from __future__ import annotations

import math

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.risk.peaks.predictor_settings import MachinePercentile, NSigma

MEAN_AND_DEVIATIONS, PERCENTILE = 0, 1
"""Statistics of the ratios of a machine."""


def statistic_for(predictor: MachinePercentile | NSigma) -> tuple[int, float]:
    """Return the statistic of the ratios of a predictor, and its parameter."""
    if isinstance(predictor, NSigma):
        return MEAN_AND_DEVIATIONS, predictor.n
    return PERCENTILE, predictor.percentile


@kernel
def sum_of(rows: Int, begin: int, end: int, values: Float) -> float:
    """Return the sum over the present samples."""
    total = 0.0
    for place in range(begin, end):
        total += values[rows[place]]
    return total


@kernel
def sum_of_group(rows: Int, seen: Int, begin: int, end: int, needed: int, warm: bool, values: Float) -> float:
    """Return the sum over the present samples of the warm tasks, or of the cold ones."""
    total = 0.0
    for place in range(begin, end):
        if (seen[place] >= needed) == warm:
            total += values[rows[place]]
    return total


@kernel
def oldest_age(seen: Int, begin: int, end: int, needed: int, history: int) -> int:
    """Return how many steps the windows of the warm tasks go back, the present one included; 0: none is warm."""
    longest = 0
    for place in range(begin, end):
        if seen[place] >= needed:
            longest = max(longest, min(seen[place], history))
    return longest


@kernel
def sum_warm_windows(
    rows: Int, seen: Int, begin: int, end: int, needed: int, history: int, values: Float, now: int, total: Float
) -> None:
    """Sum the windows of the warm tasks by age; the present step is `total[now]`, that of age k `total[now - k]`."""
    for place in range(now - oldest_age(seen, begin, end, needed, history) + 1, now + 1):
        total[place] = 0.0
    for place in range(begin, end):
        if seen[place] >= needed:
            length = min(seen[place], history)
            row, target = rows[place] - length + 1, now - length + 1
            for step in range(length):
                total[target + step] += values[row + step]


@kernel
def sums_without_cold(
    rows: Int, seen: Int, begin: int, end: int, needed: int, usage: Float, total: Float, now: int, length: int,
    window: Float,
) -> None:  # fmt: skip
    """Put the newest `length` sums of a machine into `window`, without the samples of the tasks that are cold now."""
    for step in range(length):
        window[step] = total[now - length + 1 + step]
    for place in range(begin, end):
        if seen[place] < needed:
            row = rows[place]
            for age in range(min(seen[place], length)):
                window[length - 1 - age] -= usage[row - age]


@kernel
def ratio(usage: float, limit: float) -> float:
    """Return usage by limit; 0 where the limit is 0."""
    return usage / limit if limit > 0.0 else 0.0


@kernel
def mean_and_deviations(values: Float, first: int, last: int, n: float) -> float:
    """Return the mean of `values[first : last + 1]` plus n times their sample standard deviation."""
    count = last - first + 1
    total = 0.0
    for place in range(first, last + 1):
        total += values[place]
    mean = total / count
    squares = 0.0
    for place in range(first, last + 1):
        squares += (values[place] - mean) * (values[place] - mean)
    return mean + n * math.sqrt(squares / (count - 1))


@kernel
def interpolated(lower: float, upper: float, share: float) -> float:
    """Return the value between two, as NumPy interpolates percentiles."""
    if share >= 0.5:
        return upper - (upper - lower) * (1.0 - share)
    return lower + (upper - lower) * share


@kernel
def percentile_of(values: Float, count: int, percentile: float) -> float:
    """Return the percentile of the first `count` values by linear interpolation; their order is changed."""
    place = (count - 1) * (percentile / 100.0)
    below = int(place)
    lower = selected(values, count, below)
    if below + 1 >= count:
        return lower
    upper = values[below + 1]
    for other in range(below + 2, count):
        upper = min(upper, values[other])
    return interpolated(lower, upper, place - below)


@kernel
def selected(values: Float, count: int, rank: int) -> float:
    """Return the value of a rank, from 0, and partition the others around it (Hoare's selection)."""
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
    """Return the statistic of the ratios of a machine, `ratios[first : last + 1]`; `window` is overwritten."""
    if kind == MEAN_AND_DEVIATIONS:
        return mean_and_deviations(ratios, first, last, parameter)
    for place in range(first, last + 1):
        window[place - first] = ratios[place]
    return percentile_of(window, last - first + 1, parameter)


@kernel
def sum_task_percentiles(
    rows: Int, seen: Int, begin: int, end: int, needed: int, history: int, usage: Float, limit: Float,
    percentile: float, window: Float,
) -> float:  # fmt: skip
    """Return the sum over the warm tasks of the percentile of usage by limit, times the present limit."""
    total = 0.0
    for place in range(begin, end):
        if seen[place] >= needed:
            row, length = rows[place], min(seen[place], history)
            for age in range(length):
                window[age] = ratio(usage[row - age], limit[row - age])
            total += limit[row] * percentile_of(window, length, percentile)
    return total
