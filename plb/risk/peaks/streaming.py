"""Predictions for one machine, one step at a time, as an agent on a machine would make them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from plb.array_types import Float, Int
from plb.errors import ConflictError, InvalidValueError
from plb.risk.peaks.predictors import (
    BorgDefault,
    Form,
    HistoricalPeak,
    NSigma,
    Predictor,
    RcLike,
    Windowed,
    least_seen,
    members,
)
from plb.risk.peaks.samples import AMOUNTS, allowed_amounts
from plb.risk.peaks.windows import (
    differences_left,
    mean_and_deviations,
    oldest_age,
    percentile_of_windows,
    ratio,
    statistic_for,
    statistic_of,
    sum_of,
    sum_of_group,
    sum_task_percentiles,
    sum_warm_past,
    sum_warm_windows,
    sums_without_cold,
)
from plb.validation import check_number

ITEM = "step"
LEAST_FREE = 16
"""Number of tasks for which memory is allocated at first."""


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
        self._parts = [
            _Fraction(member) if isinstance(member, BorgDefault) else _Windows(member) for member in members(predictor)
        ]

    def update(self, tasks: Sequence[Any], usage: Sequence[float], limit: Sequence[float]) -> PeakAt:
        """Add a step and return the prediction at it.

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
        step = _Step([tasks[i] for i in order], used, capped, allowed, whole)
        return PeakAt(max(part.update(step) for part in self._parts), whole, sum_of(rows, 0, len(rows), capped))


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


class _Fraction:
    def __init__(self, predictor: BorgDefault) -> None:
        self._phi = predictor.phi

    def update(self, step: _Step) -> float:
        """Return the prediction after one more step."""
        return self._phi * step.total_limit


class _Windows:
    """Keeps the newest samples of each task, and predicts from them."""

    def __init__(self, predictor: Windowed) -> None:
        self._predictor = predictor
        self._recent = RecentSamples(predictor.history)
        self._sums = np.zeros(predictor.history)
        self._steps = 0
        self._left = differences_left(predictor) if isinstance(predictor, HistoricalPeak) else np.zeros(0)
        self._scratch = [np.empty(predictor.history) for _ in range(4)]

    def update(self, step: _Step) -> float:
        """Return the prediction after one more step."""
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
        if isinstance(predictor, HistoricalPeak):
            total = self._scratch[1]
            sum_warm_past(*present, needed, history, predictor.day, usage, history - 1, total)
            past = total, history - 1, age, predictor.stride, self._left
            found = percentile_of_windows(*past, predictor.percentile, window)
            return peak + (min(found, sum_of_group(*present, needed, True, limit)) if predictor.cap else found)
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


class RecentSamples:
    """Keeps at least the newest samples of each present task, those of each task in consecutive rows.

    Every task has space for twice its history; if it is full, the newer half moves to its beginning.
    """

    def __init__(self, history: int) -> None:
        self._history, self._width = history, 2 * history
        self._place: dict[Hashable, int] = {}
        self._free = list(range(LEAST_FREE))
        self._seen = np.zeros(LEAST_FREE, np.int64)
        self._next = np.zeros(LEAST_FREE, np.int64)
        self.usage: Float = np.zeros(LEAST_FREE * self._width)
        self.limit: Float = np.zeros(LEAST_FREE * self._width)

    def add(self, tasks: Sequence[Hashable], usage: Float, limit: Float) -> tuple[Int, Int]:
        """Add a sample of each present task, remove the others; return its row and the number in a row, (T,) each."""
        present = set(tasks)
        for task in [task for task in self._place if task not in present]:
            self._free.append(self._place.pop(task))
        places = np.array([self._place_of(task) for task in tasks])
        full = places[self._next[places] == self._width]
        for place in full.tolist():
            self._move_back(place)
        rows = places * self._width + self._next[places]
        self.usage[rows], self.limit[rows] = usage, limit
        self._next[places] += 1
        self._seen[places] += 1
        return rows, self._seen[places]

    def _place_of(self, task: Hashable) -> int:
        place = self._place.get(task)
        if place is None:
            if not self._free:
                self._grow()
            place = self._place[task] = self._free.pop()
            self._seen[place] = self._next[place] = 0
        return place

    def _move_back(self, place: int) -> None:
        start, middle, end = (place * self._width + part * self._history for part in (0, 1, 2))
        for column in (self.usage, self.limit):
            column[start:middle] = column[middle:end]
        self._next[place] = self._history

    def _grow(self) -> None:
        length = len(self._seen)
        self._free.extend(range(length, 2 * length))
        self._seen, self._next = (np.append(column, np.zeros(length, np.int64)) for column in (self._seen, self._next))
        self.usage, self.limit = (np.append(c, np.zeros(length * self._width)) for c in (self.usage, self.limit))
