"""Predictions for many machines at once, with the kernels that predict over all steps of a machine.

What a step has in common with the one before is not computed again: the sums of a machine's past stay while its warm
tasks do, and the sorted window of a task changes by one sample. Other sums are made by the kernels of
`plb.risk.peaks.windows`. N samples, S steps; `bounds` (S + 1,) bounds each step in `rows` and `seen`, both (N,).

Their accuracy relative to the oracle is defined in [5] section 5.1.3: savings, violation rate and violation severity,
over the rows that both have. A prediction below the oracle by at most a billionth of it is no violation but rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int
from plb.compiler import kernel
from plb.risk.peaks.predictors import (
    BorgDefault,
    Form,
    HistoricalPeak,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    PredictorOrOracle,
    RcLike,
    least_seen,
)
from plb.risk.peaks.samples import MachineSamples, TaskSamples
from plb.risk.peaks.windows import (
    differences_left,
    interpolated,
    mean_and_deviations,
    oldest_age,
    percentile_of,
    ratio,
    statistic_for,
    statistic_of,
    sum_of,
    sum_of_group,
    sum_warm_windows,
    sums_without_cold,
    sweep_past,
)
from plb.validation import check_count


@attrs.frozen(eq=False)
class Predictions:
    """What was predicted: a row for each machine and each step in which a task was there, by machine and time."""

    machine: Int
    """Number of the machine of each row, (S,)."""
    time: Int
    """Time of the step of each row, (S,)."""
    limit: Float
    """Summed limits of the tasks that were there, (S,)."""
    usage: Float
    """Summed usage, each task's capped at its limit, (S,)."""
    peak: Float
    """Predicted peaks, a row for each predictor, (P, S); NaN if an oracle has no value."""


class _MachinePredictions(NamedTuple):
    """What was predicted for one machine."""

    time: Int
    limit: Float
    usage: Float
    peak: Float
    """As in `Predictions`, for the S steps of the machine."""


def predict(
    samples: TaskSamples,
    predictors: Sequence[PredictorOrOracle],
    *,
    threads: int | None = None,
    report: Callable[[int], None] = lambda _samples: None,
) -> Predictions:
    """Return the peaks of predictors and oracles at every step of every machine.

    Parameters
    ----------
    samples
        Samples of the tasks on their machines.
    predictors
        P predictors or oracles.
    threads
        Threads; None: one for each core. The result does not depend on it.
    report
        Called with the number of samples of each completed machine.
    """
    workers = check_count("predict", "threads", threads, low=1) if threads is not None else os.cpu_count() or 1
    parts = []
    for part, size in zip(_parts(samples, predictors, workers), np.diff(samples.start).tolist(), strict=True):
        parts.append(part)
        report(size)
    machine = np.repeat(samples.machine, [len(part.time) for part in parts])
    return Predictions(machine, *(np.concatenate(column, axis=-1) for column in zip(*parts, strict=True)))


def _parts(
    samples: TaskSamples, predictors: Sequence[PredictorOrOracle], workers: int
) -> Iterator[_MachinePredictions]:
    """Yield the predictions for each machine, in their order, made by a number of threads, `workers`."""

    def predict_machine(index: int) -> _MachinePredictions:
        return _predict_machine(samples.of_machine(index), predictors, samples.step)

    if workers == 1:
        yield from map(predict_machine, range(len(samples.machine)))
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(predict_machine, range(len(samples.machine)))


def _predict_machine(
    machine: MachineSamples, predictors: Sequence[PredictorOrOracle], step: int
) -> _MachinePredictions:
    """Return the predictions for a machine; `step`: length of a step in the unit of its times."""
    capped = np.minimum(machine.usage, machine.limit)
    usage, limit = np.empty(len(machine.time)), np.empty(len(machine.time))
    sum_steps(machine.rows, machine.bounds, capped, usage)
    sum_steps(machine.rows, machine.bounds, machine.limit, limit)
    peak = np.empty((len(predictors), len(machine.time)))
    for index, predictor in enumerate(predictors):
        peak[index] = _peaks(machine, predictor, capped, limit, step)
    return _MachinePredictions(machine.time, limit, usage, peak)


def _peaks(machine: MachineSamples, predictor: PredictorOrOracle, capped: Float, limit: Float, step: int) -> Float:
    """Return the predictions at each step of a machine, (S,).

    `capped`: (N,) usage of each sample, at most its limit; `limit`: (S,) summed limits; `step`: length of a step.
    """
    if isinstance(predictor, Maximum):
        return np.asarray(np.maximum.reduce([_peaks(machine, member, capped, limit, step) for member in predictor.of]))
    if isinstance(predictor, PeakOracle):
        return _oracle(machine, predictor, limit, step)
    if isinstance(predictor, BorgDefault):
        return predictor.phi * limit
    usage = capped if predictor.cap else machine.usage
    if isinstance(predictor, RcLike):
        return _task_level(machine, predictor, usage)
    if isinstance(predictor, HistoricalPeak):
        return _of_past_windows(machine, predictor, usage)
    return _machine_level(machine, predictor, usage)


def _task_level(machine: MachineSamples, predictor: RcLike, usage: Float) -> Float:
    """Return the predictions at each step of a machine, (S,), from percentiles of each task; `usage`: (N,)."""
    needed, counted = least_seen(predictor), np.zeros(len(usage))
    window = np.empty(min(predictor.history, len(usage)))
    slide_percentiles(
        machine.run_start, usage, machine.limit, needed, predictor.history, predictor.percentile, window, counted
    )
    cold = np.zeros(len(usage), np.bool_)
    cold[machine.rows] = machine.seen < needed
    peak, warm = np.empty(len(machine.time)), np.empty(len(machine.time))
    sum_steps(machine.rows, machine.bounds, np.where(cold, machine.limit, 0.0), peak)
    sum_steps(machine.rows, machine.bounds, counted, warm)
    return peak + warm


def _machine_level(machine: MachineSamples, predictor: MachinePercentile | NSigma, usage: Float) -> Float:
    """Return the predictions at each step of a machine, (S,), from its sums over tasks; `usage`: (N,)."""
    steps, history = len(machine.time), predictor.history
    columns = machine.rows, machine.seen, machine.bounds, usage, machine.limit, least_seen(predictor), history
    total, window, peak = np.empty(steps), np.empty(min(history, steps)), np.empty(steps)
    if isinstance(predictor, NSigma) and predictor.form is Form.PAPER:
        sweep_sums(*columns, predictor.n, total, window, peak)
    else:
        statistic = statistic_for(predictor)
        sweep_ratios(*columns, *statistic, total, np.empty(steps), np.empty(steps), window, peak)
    return peak


def _of_past_windows(machine: MachineSamples, predictor: HistoricalPeak, usage: Float) -> Float:
    """Return the predictions at each step of a machine, (S,), from the windows of its past; `usage`: (N,)."""
    steps = len(machine.time)
    peak = np.empty(steps)
    sweep_past(
        machine.rows,
        machine.seen,
        machine.bounds,
        usage,
        machine.limit,
        least_seen(predictor),
        predictor.history,
        predictor.day,
        predictor.stride,
        differences_left(predictor),
        predictor.percentile,
        predictor.cap,
        np.empty(steps),
        np.empty(min(predictor.history, steps)),
        peak,
    )
    return peak


def _oracle(machine: MachineSamples, oracle: PeakOracle, limit: Float, step: int) -> Float:
    """Return the oracle's value at each step of a machine, (S,); `limit`: (S,) summed limits; `step`: its length."""
    time = machine.time - machine.time[0]  # sums with the horizon then stay below 2^63
    reach = min(oracle.horizon * step, int(time[-1]) + 1)
    recent = max(1, int(np.searchsorted(time, time[-1] - reach, "right")))
    last = np.searchsorted(time, time[:recent] + reach, "right") - 1
    peak = np.full(len(time), np.nan)
    peak[:recent] = limit[:recent]
    look_ahead(
        machine.rows,
        machine.bounds,
        machine.snapshot,
        _end_of(machine.run_start),
        _end_of(machine.task_start),
        machine.usage,
        machine.limit,
        oracle.cap,
        last,
        oracle.percentile,
        np.empty(max(1, int((last - np.arange(recent)).max()))),
        peak[:recent],
    )
    return peak


def _end_of(start: Int) -> Int:
    """Return the end of the group of each sample, (N,); `start`: first sample of each group, and the end."""
    return np.repeat(start[1:], np.diff(start))


@kernel
def sum_steps(rows: Int, bounds: Int, values: Float, total: Float) -> None:
    """Sum `values`, (N,), over the samples of every step, `rows[bounds[s]:bounds[s + 1]]`, into `total`, (S,)."""
    for now in range(len(total)):
        total[now] = sum_of(rows, bounds[now], bounds[now + 1], values)


@kernel
def sweep_ratios(
    rows: Int, seen: Int, bounds: Int, usage: Float, limit: Float, needed: int, history: int, kind: int,
    parameter: float, total_usage: Float, total_limit: Float, ratios: Float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Predict by a statistic of the ratio of the warm tasks' summed usage and summed limits, at every step.

    The predictions are written to `peak`, (S,). `rows`, `seen`, `bounds`, `usage`, `limit`: of `MachineSamples`;
    `needed`: samples until a task is warm; `history`: most samples in a window; `kind`, `parameter`: results of
    `statistic_for`. Working space: `total_usage`, `total_limit` and `ratios` (S,), `window` (history,).
    """
    warm_before = 0
    for now in range(len(peak)):
        begin, end = bounds[now], bounds[now + 1]
        warm, still_warm = 0, 0
        for index in range(begin, end):
            warm += seen[index] >= needed
            still_warm += seen[index] > needed
        first = now - oldest_age(seen, begin, end, needed, history) + 1
        if warm == still_warm and warm == warm_before:
            total_usage[now] = sum_of_group(rows, seen, begin, end, needed, True, usage)
            total_limit[now] = sum_of_group(rows, seen, begin, end, needed, True, limit)
            ratios[now] = ratio(total_usage[now], total_limit[now])
        else:
            sum_warm_windows(rows, seen, begin, end, needed, history, usage, now, total_usage)
            sum_warm_windows(rows, seen, begin, end, needed, history, limit, now, total_limit)
            for step in range(first, now + 1):
                ratios[step] = ratio(total_usage[step], total_limit[step])
        warm_before = warm
        predicted = sum_of_group(rows, seen, begin, end, needed, False, limit)
        if warm:
            predicted += min(1.0, statistic_of(kind, parameter, ratios, first, now, window)) * total_limit[now]
        peak[now] = predicted


@kernel
def sweep_sums(
    rows: Int, seen: Int, bounds: Int, usage: Float, limit: Float, needed: int, history: int, n: float,
    total: Float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Predict by mean and `n` deviations of the machine's summed usage at every step, N-sigma as the paper prints it.

    The predictions are written to `peak`, (S,). `rows`, `seen`, `bounds`, `usage`, `limit`: of `MachineSamples`;
    `needed`: samples until a task is warm; `history`: most samples in a window. Working space: `total` (S,), `window`
    (history,).
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
    """Write to `counted`, (N,), for every sample of a warm task the percentile of its window's ratios, times its limit.

    A ratio is usage by limit. `run_start`, `usage`, `limit`: of `MachineSamples`; `needed`: samples until a task is
    warm; `history`: most samples in a window. `window` (history,) is working space.
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
    """Return a percentile, in [0, 100], of the first `count` values, which are ascending, by linear interpolation."""
    position = (count - 1) * (percentile / 100.0)
    below = int(position)
    if below + 1 >= count:
        return float(values[below])
    return interpolated(values[below], values[below + 1], position - below)


@kernel
def insert_sorted(values: Float, count: int, new: float) -> None:
    """Insert the value `new` among the first `count`, which are in ascending order."""
    index = count
    while index > 0 and values[index - 1] > new:
        values[index] = values[index - 1]
        index -= 1
    values[index] = new


@kernel
def replace_sorted(values: Float, count: int, old: float, new: float) -> None:
    """Replace the value `old` among the first `count` by `new`; they stay in ascending order."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if values[middle] < old:
            low = middle + 1
        else:
            high = middle
    index = low
    while index + 1 < count and values[index + 1] < new:
        values[index] = values[index + 1]
        index += 1
    insert_sorted(values, index, new)


@kernel
def look_ahead(
    rows: Int, bounds: Int, snapshot: Int, run_end: Int, task_end: Int, usage: Float, limit: Float, capped: bool,
    last: Int, percentile: float, window: Float, peak: Float,
) -> None:  # fmt: skip
    """Write to `peak` a percentile of the future usage of the tasks of each step, for the first `len(peak)` steps.

    `rows`, `bounds`, `snapshot`, `usage`, `limit`: of `MachineSamples`; `run_end` and `task_end` (N,) are the first
    samples after each sample's run and task. `capped`: whether future usage is at most the present limit. `last`: the
    last step of the horizon of each step. `peak` holds the summed limits, which stay where no step is to come; `window`
    is working space as long as the longest horizon.
    """
    for now in range(len(peak)):
        ahead = last[now] - now
        if ahead == 0:
            continue
        for step in range(ahead):
            window[step] = 0.0
        for index in range(bounds[now], bounds[now + 1]):
            present = rows[index]
            highest = limit[present] if capped else float("inf")
            row = present + 1
            while row < task_end[present] and snapshot[row] <= last[now]:
                length = min(run_end[row] - row, last[now] - snapshot[row] + 1)
                target = snapshot[row] - now - 1
                for step in range(length):
                    window[target + step] += min(usage[row + step], highest)
                row = run_end[row]
        if percentile == 100.0:
            largest = window[0]
            for step in range(1, ahead):
                largest = max(largest, window[step])
            peak[now] = largest
        else:
            peak[now] = percentile_of(window, ahead, percentile)


TOLERANCE = 1e-9
"""Share of the oracle by which a prediction must miss it."""


@attrs.frozen(eq=False)
class MachineMetrics:
    """Metrics of one predictor by machine, each averaged over the machine's steps; shapes (M,)."""

    machine: Int
    """Number of the machine."""
    steps: Int
    """Steps that were compared."""
    savings: Float
    """Mean of the savings ratio."""
    violation_rate: Float
    """Share of the steps that violate the oracle."""
    violation_severity: Float
    """Mean of the violation severity, 0 where there is no violation."""


@attrs.frozen(eq=False)
class CellMetrics:
    """Metrics of one predictor over all machines together, the cell; by time, shapes (T,)."""

    time: Int
    """Times of the steps that any machine has, ascending."""
    savings: Float
    """``(sum L - sum P) / sum L`` over the machines: of all limits, the share that was set free ([5] figure 10 d)."""
    violation_rate: Float
    """Share of the machines that violate the oracle."""
    violation_severity: Float
    """Mean of the violation severity over the machines."""


def savings_ratio(peak: Float, limit: Float) -> Float:
    """Return ``(L - P) / L`` with the predicted `peak` P and the limit L; 0 where the limit is 0: nothing to save."""
    return np.divide(limit - peak, limit, out=np.zeros(np.shape(limit)), where=limit > 0.0)


def violations(peak: Float, oracle: Float) -> Bool:
    """Return whether each predicted `peak`, (S,), lies below the oracle's."""
    return np.asarray(peak < oracle - TOLERANCE * oracle)


def violation_severity(peak: Float, oracle: Float) -> Float:
    """Return ``(P_O - P) / P_O`` with the predicted `peak` P and the `oracle` P_O where P is below, 0 elsewhere."""
    return np.divide(oracle - peak, oracle, out=np.zeros(np.shape(oracle)), where=violations(peak, oracle))


def machine_metrics(machine: Int, limit: Float, peak: Float, oracle: Float) -> MachineMetrics:
    """Return the metrics of a predictor by machine.

    Parameters
    ----------
    machine, limit, peak, oracle
        Value of each machine and step, (S,), as in `Predictions`; NaN if the predictor or the oracle has no row.
    """
    has_both, group, numbers = _compared(machine, peak, oracle)
    steps = np.bincount(group)
    savings, missed, severity = (
        _mean(ratios, group, steps) for ratios in _ratios(limit[has_both], peak[has_both], oracle[has_both])
    )
    return MachineMetrics(numbers, steps, savings, missed, severity)


def cell_metrics(time: Int, limit: Float, peak: Float, oracle: Float) -> CellMetrics:
    """Return the metrics of a predictor over all machines, by time.

    All arguments are values of each machine and step, (S,), as in `Predictions`; NaN if the predictor or the oracle has
    no row.
    """
    has_both, group, times = _compared(time, peak, oracle)
    machines = np.bincount(group)
    _, missed, severity = (
        _mean(ratios, group, machines) for ratios in _ratios(limit[has_both], peak[has_both], oracle[has_both])
    )
    limits, peaks = (_mean(column[has_both], group, machines) for column in (limit, peak))
    return CellMetrics(times, savings_ratio(peaks, limits), missed, severity)


def _compared(key: Int, peak: Float, oracle: Float) -> tuple[Bool, Int, Int]:
    """Return whether each row has both values, (S,), the group of each row that has, and the key of each group.

    `peak`, `oracle`: (S,) predicted peaks, NaN where there is none. Rows with an equal `key`, (S,), are a group.
    """
    has_both = ~(np.isnan(peak) | np.isnan(oracle))
    keys, group = np.unique(key[has_both], return_inverse=True)
    return has_both, group, keys


def _ratios(limit: Float, peak: Float, oracle: Float) -> tuple[Float, Float, Float]:
    """Return savings ratio, violation (1 or 0) and violation severity by row; arguments and results are (S,)."""
    missed = violations(peak, oracle).astype(np.float64)
    return savings_ratio(peak, limit), missed, violation_severity(peak, oracle)


def _mean(values: Float, group: Int, count: Int) -> Float:
    """Return the mean of `values`, (S,), over each group, (G,); `group`: (S,); `count`: (G,) rows of each group."""
    return np.asarray(np.bincount(group, values) / count)
