"""Predictions for one machine, one step at a time, as an agent on a machine would make them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from plb.array_types import Float
from plb.errors import ConflictError, InvalidValueError
from plb.risk.peaks.predictors import BorgDefault, Form, Maximum, NSigma, Predictor, RcLike, Windowed, least_seen
from plb.risk.peaks.recent import RecentSamples
from plb.risk.peaks.samples import AMOUNTS, allowed_amounts
from plb.risk.peaks.windows import (
    mean_and_deviations,
    oldest_age,
    ratio,
    statistic_for,
    statistic_of,
    sum_of,
    sum_of_group,
    sum_task_percentiles,
    sum_warm_windows,
    sums_without_cold,
)
from plb.validation import check_number

ITEM = "step"


class PeakAt(NamedTuple):
    """The prediction for a machine at one step."""

    peak: float
    """Predicted peak."""
    limit: float
    """Summed limits."""
    usage: float
    """Summed usage, each task's capped at its limit."""


class MachinePeak:
    """Predicts the peak of one machine while its tasks run; `plb.risk.peaks.predict` gives the same numbers in bulk.

    Parameters
    ----------
    predictor
        Any but the oracle, which would have to know the future.
    """

    def __init__(self, predictor: Predictor) -> None:
        if not isinstance(predictor, Predictor):
            raise InvalidValueError("stream", "predictor", predictor, "a peak predictor; the oracle is none")
        self.predictor = predictor
        self._part = _part_of(predictor)

    def update(self, tasks: Sequence[Any], usage: Sequence[float], limit: Sequence[float]) -> PeakAt:
        """Take in a step and return what is predicted at it.

        A task that is not named has left, and is new if it comes back. A step without any task is no step: leave it
        out.

        Parameters
        ----------
        tasks
            Names of the present tasks, or other sortable identifiers: sums are in this order.
        usage, limit
            Values of each task; see `plb.risk.peaks.samples.AMOUNTS`.

        Raises
        ------
        InvalidValueError, ConflictError
            The columns differ in length or are empty, a value is out of range, or a task is named twice. The step then
            counts as not seen.
        """
        if not 0 < len(tasks) == len(usage) == len(limit):
            sizes = f"{len(tasks)} tasks, {len(usage)} usages, {len(limit)} limits"
            raise InvalidValueError(ITEM, "tasks", sizes, "equally many, at least one")
        if len(set(tasks)) < len(tasks):
            raise ConflictError("step: a task is named twice")
        order = sorted(range(len(tasks)), key=tasks.__getitem__)
        used, allowed = (_amounts(name, tasks, column, order) for name, column in (("usage", usage), ("limit", limit)))
        capped, rows = np.minimum(used, allowed), np.arange(len(order))
        whole = sum_of(rows, 0, len(rows), allowed)
        peak = self._part.update(_Step([tasks[i] for i in order], used, capped, allowed, whole))
        return PeakAt(peak, whole, sum_of(rows, 0, len(rows), capped))


def _amounts(name: str, tasks: Sequence[Any], values: Sequence[float], order: Sequence[int]) -> Float:
    """Return the values of the tasks in an order, or refuse them with the task."""
    numbers = np.array([check_number(ITEM, f"{name} of {tasks[place]!r}", values[place]) for place in order])
    bad = np.flatnonzero(~allowed_amounts(name, numbers))
    if len(bad):
        raise InvalidValueError(ITEM, f"{name} of {tasks[order[bad[0]]]!r}", float(numbers[bad[0]]), AMOUNTS[name])
    return numbers


class _Step(NamedTuple):
    tasks: Sequence[Hashable]
    """Sorted."""
    usage: Float
    capped: Float
    limit: Float
    total_limit: float


def _part_of(predictor: Predictor) -> _Fraction | _Largest | _Windows:
    if isinstance(predictor, BorgDefault):
        return _Fraction(predictor)
    return _Largest(predictor) if isinstance(predictor, Maximum) else _Windows(predictor)


class _Fraction:
    def __init__(self, predictor: BorgDefault) -> None:
        self._phi = predictor.phi

    def update(self, step: _Step) -> float:
        return self._phi * step.total_limit


class _Largest:
    def __init__(self, predictor: Maximum) -> None:
        self._parts = [_part_of(one) for one in predictor.of]

    def update(self, step: _Step) -> float:
        return max(part.update(step) for part in self._parts)


class _Windows:
    """Keeps the newest samples of each task, and predicts from them."""

    def __init__(self, predictor: Windowed) -> None:
        self._predictor = predictor
        self._recent = RecentSamples(predictor.history)
        self._sums = np.zeros(predictor.history)
        self._steps = 0
        self._scratch = [np.empty(predictor.history) for _ in range(4)]

    def update(self, step: _Step) -> float:
        predictor, history = self._predictor, self._predictor.history
        used = step.capped if predictor.cap else step.usage
        rows, seen = self._recent.add(step.tasks, used, step.limit)
        usage, limit = self._recent.usage, self._recent.limit
        present, needed = (rows, seen, 0, len(rows)), least_seen(predictor)
        self._sums[:-1] = self._sums[1:]
        self._sums[-1] = sum_of(rows, 0, len(rows), usage)
        self._steps = min(self._steps + 1, history)
        peak = sum_of_group(*present, needed, False, limit)
        age = oldest_age(seen, 0, len(seen), needed, history)
        if not age:
            return peak
        window = self._scratch[0]
        if isinstance(predictor, RcLike):
            return peak + sum_task_percentiles(*present, needed, history, usage, limit, predictor.percentile, window)
        if isinstance(predictor, NSigma) and predictor.form is Form.PAPER:
            sums_without_cold(*present, needed, usage, self._sums, history - 1, self._steps, window)
            return peak + mean_and_deviations(window, 0, self._steps - 1, predictor.n)
        total_usage, total_limit, ratios = self._scratch[1:]
        sum_warm_windows(*present, needed, history, usage, history - 1, total_usage)
        sum_warm_windows(*present, needed, history, limit, history - 1, total_limit)
        for place in range(history - age, history):
            ratios[place] = ratio(total_usage[place], total_limit[place])
        share = statistic_of(*statistic_for(predictor), ratios, history - age, history - 1, window)
        return peak + min(1.0, share) * float(total_limit[-1])
