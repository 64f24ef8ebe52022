"""Predictions for many machines at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Float, Int
from plb.risk.peaks.predictor_settings import (
    BorgDefault,
    Form,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    RcLike,
    least_seen,
)
from plb.risk.peaks.samples import MachineSamples, TaskSamples
from plb.risk.peaks.spec_parsing import PredictorOrOracle
from plb.risk.peaks.sweeps import look_ahead, slide_percentiles, sum_steps, sweep_ratios, sweep_sums
from plb.risk.peaks.windows import statistic_for
from plb.validation import check_count


@attrs.frozen(eq=False)
class Predictions:
    """What was predicted: a row for each machine and each step in which a task was there, by machine and time.

    Parameters
    ----------
    machine, time
        Of each row, (S,).
    limit
        Summed limits of the tasks that were there, (S,).
    usage
        Summed usage, that of each task capped at its limit, (S,).
    peak
        Predicted peaks, a row for each predictor, (P, S); NaN if an oracle has no value.
    """

    machine: Int
    time: Int
    limit: Float
    usage: Float
    peak: Float


class _OfMachine(NamedTuple):
    time: Int
    limit: Float
    usage: Float
    peak: Float


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


def _parts(samples: TaskSamples, predictors: Sequence[PredictorOrOracle], workers: int) -> Iterator[_OfMachine]:
    """Yield the predictions of each machine, in their order."""

    def of_machine(index: int) -> _OfMachine:
        return _of_machine(samples.of_machine(index), predictors, samples.step)

    if workers == 1:
        yield from map(of_machine, range(len(samples.machine)))
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(of_machine, range(len(samples.machine)))


def _of_machine(machine: MachineSamples, predictors: Sequence[PredictorOrOracle], step: int) -> _OfMachine:
    capped = np.minimum(machine.usage, machine.limit)
    usage, limit = np.empty(len(machine.time)), np.empty(len(machine.time))
    sum_steps(machine.rows, machine.bounds, capped, usage)
    sum_steps(machine.rows, machine.bounds, machine.limit, limit)
    peak = np.empty((len(predictors), len(machine.time)))
    for index, predictor in enumerate(predictors):
        peak[index] = _peaks(machine, predictor, capped, limit, step)
    return _OfMachine(machine.time, limit, usage, peak)


def _peaks(machine: MachineSamples, predictor: PredictorOrOracle, capped: Float, limit: Float, step: int) -> Float:
    """Return the predictions at each step of a machine, (S,); `limit` are its summed limits."""
    if isinstance(predictor, Maximum):
        return np.asarray(np.maximum.reduce([_peaks(machine, one, capped, limit, step) for one in predictor.of]))
    if isinstance(predictor, PeakOracle):
        return _oracle(machine, predictor, limit, step)
    if isinstance(predictor, BorgDefault):
        return predictor.phi * limit
    usage = capped if predictor.cap else machine.usage
    if isinstance(predictor, RcLike):
        return _task_level(machine, predictor, usage)
    return _machine_level(machine, predictor, usage)


def _task_level(machine: MachineSamples, predictor: RcLike, usage: Float) -> Float:
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
    steps, history = len(machine.time), predictor.history
    columns = machine.rows, machine.seen, machine.bounds, usage, machine.limit, least_seen(predictor), history
    total, window, peak = np.empty(steps), np.empty(min(history, steps)), np.empty(steps)
    if isinstance(predictor, NSigma) and predictor.form is Form.PAPER:
        sweep_sums(*columns, predictor.n, total, window, peak)
    else:
        statistic = statistic_for(predictor)
        sweep_ratios(*columns, *statistic, total, np.empty(steps), np.empty(steps), window, peak)
    return peak


def _oracle(machine: MachineSamples, oracle: PeakOracle, limit: Float, step: int) -> Float:
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
    """Return the bound after each row."""
    return np.repeat(start[1:], np.diff(start))
