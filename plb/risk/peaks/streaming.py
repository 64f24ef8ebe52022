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
"""Name of a step in errors."""
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
        usages, limits = (_amounts(name, tasks, column, order) for name, column in (("usage", usage), ("limit", limit)))
        capped, rows = np.minimum(usages, limits), np.arange(len(order))
        total_limit = sum_of(rows, 0, len(rows), limits)
        step = _Step([tasks[i] for i in order], usages, capped, limits, total_limit)
        return PeakAt(max(part.update(step) for part in self._parts), total_limit, sum_of(rows, 0, len(rows), capped))


def _amounts(name: str, tasks: Sequence[Any], values: Sequence[float], order: Sequence[int]) -> Float:
    """Return the values of the column `name`, ``"usage"`` or ``"limit"``, of the tasks in an order, or refuse them."""
    numbers = np.array([check_number(ITEM, f"{name} of {tasks[index]!r}", values[index]) for index in order])
    bad = np.flatnonzero(~allowed_amounts(name, numbers))
    if len(bad):
        raise InvalidValueError(ITEM, f"{name} of {tasks[order[bad[0]]]!r}", float(numbers[bad[0]]), AMOUNTS[name])
    return numbers


class _Step(NamedTuple):
    """One step of the machine, with T tasks."""

    tasks: Sequence[Hashable]
    """Present tasks, sorted."""
    usage: Float
    """(T,) usage of each task."""
    capped: Float
    """(T,) usage of each task, at most its limit."""
    limit: Float
    """(T,) limit of each task."""
    total_limit: float
    """Sum of `limit`."""


class _Fraction:
    """Predicts a fraction of the summed limits."""

    def __init__(self, predictor: BorgDefault) -> None:
        self._phi = predictor.phi

    def update(self, step: _Step) -> float:
        """Return the peak that is predicted at a step."""
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
        """Add a step to the windows, and return the peak that is predicted at it."""
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
            predicted = percentile_of_windows(*past, predictor.percentile, window)
            return peak + (min(predicted, sum_of_group(*present, needed, True, limit)) if predictor.cap else predicted)
        if isinstance(predictor, RcLike):
            return peak + sum_task_percentiles(*present, needed, history, usage, limit, predictor.percentile, window)
        if isinstance(predictor, NSigma) and predictor.form is Form.PAPER:
            sums_without_cold(*present, needed, usage, self._sums, history - 1, self._steps, window)
            return peak + mean_and_deviations(window, 0, self._steps - 1, predictor.n)
        total_usage, total_limit, ratios = self._scratch[1:]
        sum_warm_windows(*present, needed, history, usage, history - 1, total_usage)
        sum_warm_windows(*present, needed, history, limit, history - 1, total_limit)
        for index in range(history - age, history):
            ratios[index] = ratio(total_usage[index], total_limit[index])
        share = statistic_of(*statistic_for(predictor), ratios, history - age, history - 1, window)
        return peak + min(1.0, share) * float(total_limit[-1])


class RecentSamples:
    """Keeps at least the newest `history` samples of each present task, the samples of each task in consecutive rows.

    Every task has a block of `2 * history` rows; if it is full, the newer half moves to its beginning.
    """

    def __init__(self, history: int) -> None:
        self._history, self._width = history, 2 * history
        self._block: dict[Hashable, int] = {}
        """Number of the block of each present task."""
        self._free = list(range(LEAST_FREE))
        """Numbers of the blocks of no task."""
        self._seen = np.zeros(LEAST_FREE, np.int64)
        """Number of samples in a row of each block's task."""
        self._next = np.zeros(LEAST_FREE, np.int64)
        """Number of rows in use of each block."""
        self.usage: Float = np.zeros(LEAST_FREE * self._width)
        """Usage of the sample in each row."""
        self.limit: Float = np.zeros(LEAST_FREE * self._width)
        """Limit of the sample in each row."""

    def add(self, tasks: Sequence[Hashable], usage: Float, limit: Float) -> tuple[Int, Int]:
        """Add a sample of each present task, (T,) each, and forget all other tasks.

        Return the row of each sample in `usage` and `limit`, and how many samples in a row its task has, (T,) each.
        """
        present = set(tasks)
        for task in [task for task in self._block if task not in present]:
            self._free.append(self._block.pop(task))
        blocks = np.array([self._block_of(task) for task in tasks])
        full = blocks[self._next[blocks] == self._width]
        for block in full.tolist():
            self._move_back(block)
        rows = blocks * self._width + self._next[blocks]
        self.usage[rows], self.limit[rows] = usage, limit
        self._next[blocks] += 1
        self._seen[blocks] += 1
        return rows, self._seen[blocks]

    def _block_of(self, task: Hashable) -> int:
        """Return the number of the block of rows of a task; a new task gets a free, empty one."""
        block = self._block.get(task)
        if block is None:
            if not self._free:
                self._grow()
            block = self._block[task] = self._free.pop()
            self._seen[block] = self._next[block] = 0
        return block

    def _move_back(self, block: int) -> None:
        """Move the newer half of a full block to its beginning."""
        start, middle, end = (block * self._width + part * self._history for part in (0, 1, 2))
        for column in (self.usage, self.limit):
            column[start:middle] = column[middle:end]
        self._next[block] = self._history

    def _grow(self) -> None:
        """Double the number of blocks and the rows that they have."""
        length = len(self._seen)
        self._free.extend(range(length, 2 * length))
        self._seen, self._next = (np.append(column, np.zeros(length, np.int64)) for column in (self._seen, self._next))
        self.usage, self.limit = (np.append(c, np.zeros(length * self._width)) for c in (self.usage, self.limit))
