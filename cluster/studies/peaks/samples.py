"""Properties of the samples of a cell, without predictions."""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int
from plb.risk.peaks import TaskSamples
from workloads.cells import Cell
from workloads.ragged_arrays import highest_ahead
from workloads.task_samples import MICROSECONDS

WEEK, HOUR = 7 * 86400 * MICROSECONDS, 3600 * MICROSECONDS
PERCENTILES = (50.0, 80.0, 90.0, 95.0, 99.0, 100.0)
"""Percentiles of the usage of a task within an hour; their sums approximate the peak of the machine."""


def weeks_of(cell: Cell) -> list[int]:
    """Return the whole weeks of a cell with samples, from 0. The first week counts even if it is not whole."""
    since = cell.samples.time - cell.samples.time.min()
    whole = (int(since.max()) + cell.samples.step) // WEEK
    return [number for number in np.unique(since // WEEK).tolist() if number < max(1, whole)]


def week(samples: TaskSamples, number: int) -> TaskSamples:
    """Return the samples of a week."""
    begin = samples.time.min() + number * WEEK
    chosen = (samples.time >= begin) & (samples.time < begin + WEEK)
    return TaskSamples.from_columns(
        machine=machine_of_row(samples)[chosen],
        task=samples.task[chosen],
        time=samples.time[chosen],
        usage=samples.usage[chosen],
        limit=samples.limit[chosen],
        step=samples.step,
    )


def machine_of_row(samples: TaskSamples) -> Int:
    """Return the machine of every sample."""
    return np.repeat(samples.machine, np.diff(samples.start))


def usage_by_limit(samples: TaskSamples) -> Float:
    """Return the ratio of usage to limit of every sample with a limit."""
    limited = samples.limit > 0.0
    return np.asarray(samples.usage[limited] / samples.limit[limited])


def run_times(samples: TaskSamples) -> Float:
    """Return the hours of every task on a machine."""
    start = _starts(machine_of_row(samples), samples.task)
    last = np.append(start[1:], len(samples)) - 1
    return np.asarray((samples.time[last] - samples.time[start] + samples.step) / HOUR)


def task_level_peaks(samples: TaskSamples, horizon: int) -> Float:
    """Return the sum of the largest future usage of each task, a value for each machine and step.

    The order is that of `plb.risk.peaks.Predictions`. As for the oracle, the present usage does not count, and usage is
    capped at the present limit. The horizon is a number of samples of the task.
    """
    sums = []
    for machine in samples.machines():
        start = machine.task_start
        is_last = np.zeros(len(machine.usage), np.bool_)
        is_last[start[1:] - 1] = True
        highest = highest_ahead(machine.usage, start, horizon - 1)
        to_come = np.where(is_last, 0.0, np.roll(highest, -1))
        sums.append(np.bincount(machine.snapshot, np.minimum(to_come, machine.limit)))
    return np.concatenate(sums)


def peak_differences(samples: TaskSamples) -> dict[str, Float]:
    """Return sums of the tasks' percentiles within an hour minus the peak of the machine in it, relative to that peak.

    [5] has the usage within five minutes. Samples do not, so the percentiles are those of an hour of samples.
    """
    machine, hour = machine_of_row(samples), samples.time // HOUR
    step, step_of_row = _groups(machine, samples.time)
    _, hour_of_row = _groups(machine, hour)
    actual = np.zeros(hour_of_row.max() + 1)
    np.maximum.at(actual, hour_of_row[step], np.bincount(step_of_row, samples.usage))
    start = _starts(machine, samples.task, hour)
    piece = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(samples))))
    usage = samples.usage[np.lexsort((samples.usage, piece))]
    used = actual > 0.0
    differences = {}
    for percentile in PERCENTILES:
        sums = np.bincount(hour_of_row[start], _percentiles(usage, start, percentile))
        differences[f"{percentile:g}th percentile"] = (sums[used] - actual[used]) / actual[used]
    return differences


def _groups(machine: Int, time: Int) -> tuple[Int, Int]:
    """Return a row of each machine and time, and the group of each row."""
    times, place = np.unique(time, return_inverse=True)
    _, first, group = np.unique(machine * len(times) + place, return_index=True, return_inverse=True)
    return first, group


def _percentiles(usage: Float, start: Int, percentile: float) -> Float:
    """Return the percentile of each group of ascending values, with linear interpolation."""
    place = (np.diff(np.append(start, len(usage))) - 1) * (percentile / 100.0)
    lower, upper = usage[start + np.floor(place).astype(np.int64)], usage[start + np.ceil(place).astype(np.int64)]
    return lower + (upper - lower) * (place % 1.0)


def _starts(*columns: Int) -> Int:
    """Return the rows that differ from the previous row in any column, and the first row."""
    new = np.logical_or.reduce([np.diff(column, prepend=column[0] - 1) != 0 for column in columns])
    return np.flatnonzero(new)
