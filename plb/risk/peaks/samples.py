"""Samples of tasks on machines, as the predictors read them: sorted by machine, task and time, and by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Int
from plb.errors import ConflictError, InvalidValueError
from plb.validation import check_count

STEP_SECONDS = 300
"""Length of a step of the Google trace, on which [5] measures, in seconds."""
ITEM = "samples"
"""Name of the samples in errors."""
LARGEST, SMALLEST_LIMIT = 1e50, 1e-50
"""Usage and limits lie below, and limits that are not 0 are not smaller, so that squares of ratios are finite."""
AMOUNTS = {
    "usage": f"a number >= 0 and < {LARGEST:g}",
    "limit": f"0, or a number >= {SMALLEST_LIMIT:g} and < {LARGEST:g}",
}
"""What usage and limits may be, in words."""
LONGEST = 2**62
"""Bound of the time from the first sample to the last, so that differences and horizons are 64-bit whole numbers."""


class MachineSamples(NamedTuple):
    """The samples of one machine: N samples, S steps with any task, R runs.

    Samples are sorted by task and time; arrays have shape (N,) unless they say otherwise. A run is a task in
    consecutive steps of the machine: if the whole machine has a gap, runs continue across it, and after a gap of a
    single task, a new run begins.
    """

    time: Int
    """Time of each step, ascending, (S,)."""
    usage: Float
    """Usage of each sample."""
    limit: Float
    """Limit of each sample, in the unit of usage."""
    snapshot: Int
    """Step of each sample, an index in `time`."""
    run_start: Int
    """First sample of each run, and the number of samples, (R + 1,)."""
    task_start: Int
    """First sample of each task, and the number of samples, (tasks + 1,)."""
    rows: Int
    """Samples in the order of steps and, within a step, of tasks."""
    seen: Int
    """Number of samples in the run up to and with each sample, in the order of `rows`."""
    bounds: Int
    """Where each step begins in `rows`, and the end, (S + 1,)."""


@attrs.frozen(eq=False)
class TaskSamples:
    """Usage and limits of tasks on their machines; make one with `from_columns`."""

    machine: Int
    """Numbers of the machines, ascending, (M,)."""
    start: Int
    """First sample of each machine, and the number of samples, (M + 1,)."""
    task: Int
    """Number of the task of each sample, (N,), sorted by machine, task and time; so are the next three."""
    time: Int
    """Time of each sample, (N,)."""
    usage: Float
    """Usage of each sample, (N,)."""
    limit: Float
    """Limit of each sample, (N,), in the unit of usage."""
    step: int
    """Length of a step, in the unit of `time`."""

    @classmethod
    def from_columns(
        cls,
        *,
        machine: npt.ArrayLike,
        task: npt.ArrayLike,
        time: npt.ArrayLike,
        usage: npt.ArrayLike,
        limit: npt.ArrayLike,
        step: int = STEP_SECONDS,
    ) -> TaskSamples:
        """Return samples given as columns of equal length, in any order.

        Parameters
        ----------
        machine, task
            Whole numbers for machines and tasks; sums over tasks are in the order of these.
        time
            Whole numbers in any unit. Samples of a machine at the same time are one step of it.
        usage, limit
            See `AMOUNTS`; in the same unit.
        step
            Length of a step, in the unit of `time`; the oracle's horizon counts these.

        Raises
        ------
        InvalidValueError
            A column has another shape or kind, or a value outside its range; the message names the row.
        ConflictError
            A task has two samples of one machine and time, or there is no sample.
        """
        machines, tasks, times = _whole("machine", machine), _whole("task", task), _whole("time", time)
        usages, limits = _amounts("usage", usage), _amounts("limit", limit)
        rows = len(machines)
        for name, column in (("task", tasks), ("time", times), ("usage", usages), ("limit", limits)):
            if len(column) != rows:
                raise InvalidValueError(ITEM, name, f"{len(column)} rows", f"{rows} rows, as machine has")
        if not rows:
            raise ConflictError("samples: there is none")
        earliest, latest = int(times.min()), int(times.max())
        if latest - earliest >= LONGEST:
            raise InvalidValueError(ITEM, "time", f"{earliest} to {latest}", "less than 2^62 from first to last")
        order = order_of(machines, tasks, times)
        if order is not None:
            machines, tasks, times = machines[order], tasks[order], times[order]
            usages, limits = usages[order], limits[order]
        repeated = np.flatnonzero(same_as_above(machines, tasks, times))
        if len(repeated):
            row = repeated[0]
            pair = sorted((row, row + 1) if order is None else order[row : row + 2].tolist())
            raise ConflictError(f"samples: rows {pair[0]} and {pair[1]} are of one machine, task and time")
        first = np.flatnonzero(_changes(machines))
        check_count(ITEM, "step", step, low=1)
        return cls(machines[first], np.append(first, rows), tasks, times, usages, limits, step)

    def __len__(self) -> int:
        return len(self.task)

    def machines(self) -> Iterator[MachineSamples]:
        """Yield the samples of each machine."""
        return (self.of_machine(index) for index in range(len(self.machine)))

    def of_machine(self, index: int) -> MachineSamples:
        """Return the samples of the machine at a position, `index`, in `machine`."""
        samples = slice(self.start[index], self.start[index + 1])
        time, snapshot = np.unique(self.time[samples], return_inverse=True)
        rows = np.argsort(snapshot.astype(np.uint16) if len(time) <= 2**16 else snapshot, kind="stable")
        new_task = _changes(self.task[samples])
        new_run = new_task | (np.diff(snapshot, prepend=-2) != 1)
        run_start = np.append(np.flatnonzero(new_run), len(rows))
        seen = np.arange(1, len(rows) + 1) - np.repeat(run_start[:-1], np.diff(run_start))
        return MachineSamples(
            time,
            self.usage[samples].copy(),  # kernels are compiled again for a read-only array
            self.limit[samples].copy(),
            snapshot.astype(np.int64, copy=False),
            run_start,
            np.append(np.flatnonzero(new_task), len(rows)),
            rows,
            seen[rows],
            np.append(0, np.bincount(snapshot).cumsum()),
        )


def allowed_amounts(name: str, values: Float) -> npt.NDArray[np.bool_]:
    """Return whether each value is allowed for the column `name`, ``"usage"`` or ``"limit"``; see `AMOUNTS`."""
    least = SMALLEST_LIMIT if name == "limit" else 0.0
    return np.asarray((values == 0.0) | ((values >= least) & (values < LARGEST)))


def order_of(machine: Int, task: Int, time: Int) -> Int | None:
    """Return the order of rows by their `machine`, `task` and `time`, (N,) each; None if they are already in it."""
    if not _is_below_previous(machine, task, time).any():
        return None
    key = _packed(machine, task, time)
    return np.lexsort((time, task, machine)) if key is None else np.argsort(key, kind="stable")


def _packed(*columns: Int) -> Int | None:
    """Return one number for each row, (N,), that sorts as the columns do, the first foremost; None if too large."""
    key = np.zeros(len(columns[0]), np.int64)
    span = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        unit = int(np.gcd.reduce(column - low)) if high - low < 2**63 else 1
        size = (high - low) // max(unit, 1) + 1
        span *= size
        if span >= 2**63:
            return None
        key = key * size + (column - low) // max(unit, 1)
    return key


def _is_below_previous(machine: Int, task: Int, time: Int) -> npt.NDArray[np.bool_]:
    """Return whether each row but the first sorts before the previous one by `machine`, `task` and `time`, (N - 1,)."""
    later = time[1:] < time[:-1]
    for column in (task, machine):
        later = (column[1:] < column[:-1]) | ((column[1:] == column[:-1]) & later)
    return later


def same_as_above(*columns: Int) -> npt.NDArray[np.bool_]:
    """Return whether each row but the first equals the previous row in all columns, (N - 1,)."""
    return np.asarray(np.logical_and.reduce([column[1:] == column[:-1] for column in columns]))


def _changes(column: Int) -> npt.NDArray[np.bool_]:
    """Return whether each row of a column differs from the previous row, (N,); the first does."""
    changed = np.ones(len(column), np.bool_)
    np.not_equal(column[1:], column[:-1], out=changed[1:])
    return changed


def _whole(name: str, values: npt.ArrayLike) -> Int:
    """Return the column `name` as 64-bit whole numbers, (N,); raise `InvalidValueError` for other values."""
    column: npt.NDArray[Any] = np.asarray(values)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise InvalidValueError(ITEM, name, f"{column.dtype} {column.shape}", "one column of whole numbers")
    if column.size and column.max() >= 2**63:
        raise InvalidValueError(ITEM, name, int(column.max()), "whole numbers below 2^63")
    return np.ascontiguousarray(column, np.int64)


def _amounts(name: str, values: npt.ArrayLike) -> Float:
    """Return the column `name`, ``"usage"`` or ``"limit"``, as allowed amounts, (N,), or raise `InvalidValueError`."""
    column: npt.NDArray[Any] = np.asarray(values)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iuf"):
        raise InvalidValueError(ITEM, name, f"{column.dtype} {column.shape}", "one column of numbers")
    numbers = np.ascontiguousarray(column, np.float64)
    bad = np.flatnonzero(~allowed_amounts(name, numbers))
    if len(bad):
        raise InvalidValueError(ITEM, f"{name}[{bad[0]}]", float(numbers[bad[0]]), AMOUNTS[name])
    return numbers
