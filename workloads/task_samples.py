"""Samples of tasks on machines: files for `plb predict`, and cells of a synthetic region or a public trace.

A file has one row a sample with columns ``machine`` and ``task`` (names or whole numbers), ``time_s`` (seconds),
``usage`` and ``limit`` (at least 0, in one unit), in any order; further columns are ignored. A machine, task and time
has at most one row. Times are kept to the microsecond.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from plb.array_types import Bool, Float, Int
from plb.risk.peaks import Predictions, TaskSamples
from plb.risk.peaks.samples import AMOUNTS, STEP_SECONDS, allowed_amounts, order_of, same_as_above
from plb.validation import check_count, check_number
from workloads.column_checks import DAMAGED, LATEST, TIMES, Checker, damage, is_text, is_whole, other_separator
from workloads.region_parameters import RegionParameters
from workloads.regions import CHUNK, generate
from workloads.trace import DAY_SECONDS, per_row
from workloads.trace import STEP_SECONDS as TRACE_STEP_SECONDS
from workloads.writing import STANDARD_OUTPUT, write_csv, write_parquet

CSV, PARQUET = ".csv", ".parquet"
"""The endings of names of files."""
MICROSECONDS = 1_000_000
"""Microseconds in a second."""
NAMES, NUMBERS = ("machine", "task"), ("time_s", "usage", "limit")
"""The columns with names, and the columns with numbers."""
EXPECTED = {"machine": "a name or a whole number", "task": "a name or a whole number", "time_s": TIMES, **AMOUNTS}
"""The allowed values of each column, in words."""


@attrs.frozen(eq=False)
class SampleTable:
    """The samples of a file."""

    samples: TaskSamples
    """The samples; machines and tasks are codes, times microseconds."""
    machines: pl.Series
    """Names or numbers of the machines by their code."""
    whole_seconds: bool
    """Whether the file has times as whole numbers."""

    def time_s(self, time: Int) -> npt.NDArray[Any]:
        """Return times, given in microseconds, in seconds: whole numbers if the file has these."""
        return time // MICROSECONDS if self.whole_seconds else time / MICROSECONDS


def read_task_samples(path: str | Path, *, step_seconds: float = STEP_SECONDS) -> SampleTable:
    """Read samples from a file, CSV or Parquet by its name; `step_seconds` is the step of the oracle's horizon.

    Raise `TraceError` with all problems at once: file, row (from 1, without the header), column and what was expected.
    """
    check = Checker(Path(path))
    frame = _read(check, Path(path))
    codes = {name: _codes(check, frame, name) for name in NAMES}
    columns = {name: _numbers(check, frame, name) for name in NUMBERS}
    check.raise_problems()
    if not len(frame):
        check.refuse("no rows", "at least one sample")
    frame = frame.select("time_s")  # names need more memory than everything else
    machines, machine = codes["machine"]
    _, task = codes["task"]
    time = _microseconds(frame["time_s"], columns["time_s"])
    order = order_of(machine, task, time)
    if order is not None:
        machine, task, time = machine[order], task[order], time[order]
    _check_once(check, frame, same_as_above(machine, task, time), order)
    usage, limit = (columns[name] if order is None else columns[name][order] for name in ("usage", "limit"))
    step = max(1, round(step_seconds * MICROSECONDS))
    samples = TaskSamples.from_columns(machine=machine, task=task, time=time, usage=usage, limit=limit, step=step)
    return SampleTable(samples, machines, frame["time_s"].dtype.is_integer())


def prediction_frame(table: SampleTable, predictions: Predictions, names: Sequence[str]) -> pl.DataFrame:
    """Return predictions as a table: a row for each machine, time and predictor with a prediction, in this order.

    `names` are of the predictors.
    """
    has_peak = ~np.isnan(predictions.peak.T)
    row, predictor = np.nonzero(has_peak)
    return pl.DataFrame(
        {
            "machine": table.machines.gather(predictions.machine[row]),
            "time_s": table.time_s(predictions.time[row]),
            "predictor": pl.Series(names, dtype=pl.String).gather(predictor),
            "predicted_peak": predictions.peak.T[has_peak],
            "limit": predictions.limit[row],
            "usage": predictions.usage[row],
        }
    )


def write_frame(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as CSV or Parquet, given by the ending of the file name; standard output is CSV."""
    check_suffix(path)
    write = write_parquet if Path(path).suffix.lower() == PARQUET else write_csv
    write(frame, path)


def check_suffix(path: str | Path) -> None:
    """Raise `TraceError` unless a file name has the ending of CSV or Parquet, or stands for standard output."""
    suffix = Path(path).suffix
    if Path(path) != STANDARD_OUTPUT and suffix.lower() not in (CSV, PARQUET):
        Checker(Path(path)).refuse(f"a name that ends in {suffix or 'nothing'!r}", f"a file {CSV} or {PARQUET}")


def _read(check: Checker, path: Path) -> pl.DataFrame:
    """Return the columns `NAMES` and `NUMBERS` of a file, or raise `TraceError`."""
    check_suffix(path)
    if not path.is_file():
        check.refuse("no such file", "samples of tasks")
    try:
        frame = _read_csv(path) if path.suffix.lower() == CSV else pl.read_parquet(path, glob=False)
    except DAMAGED as error:
        row = _overlong_row(path) if path.suffix.lower() == CSV else None
        if row is None:
            check.refuse(damage(error), "a file that can be read")
        check.refuse("more values than columns", "as many as the header has", row)
    separator = other_separator(frame.columns, ",") if path.suffix.lower() == CSV else None
    if separator is not None:
        check.refuse(f"fields separated by {separator!r}", "fields separated by ','")
    for name in (*NAMES, *NUMBERS):
        if name not in frame.columns:
            check.add(f"columns {', '.join(frame.columns)}", EXPECTED[name], column=name)
    check.raise_problems()
    return frame.select(*NAMES, *NUMBERS)


def _read_csv(path: Path) -> pl.DataFrame:
    """Return a CSV file as a table; names that are all whole numbers are numbers."""
    names = dict.fromkeys(NAMES, pl.String)
    frame = pl.read_csv(path, infer_schema_length=None, schema_overrides=names, glob=False)
    while len(frame) and all(value is None for value in frame.row(-1)):  # an empty line at the end is no row
        frame = frame[:-1]
    return frame.with_columns(_as_numbers(frame[name]) for name in NAMES if name in frame.columns)


def _as_numbers(texts: pl.Series) -> pl.Series:
    """Return names as numbers if all are whole numbers, such as 7 but not 007; else the names."""
    numbers = texts.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == 0 and (numbers.cast(pl.String) == texts).all() else texts


def _overlong_row(path: Path) -> int | None:
    """Return the first row of a CSV file, from 1, that has more values than the header."""
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file)
        columns = len(next(rows, []))
        return next((row for row, values in enumerate(rows, 1) if len(values) > columns), None)


def _numbers(check: Checker, frame: pl.DataFrame, name: str) -> Float:
    """Return a column as numbers, NaN where there is none; record rows without a number or with one out of range."""
    column = frame[name]
    as_text = is_text(column.dtype) or column.dtype == pl.Null
    if not (as_text or column.dtype.is_integer() or column.dtype.is_float()):
        check.add(f"type {column.dtype}", EXPECTED[name], column=name)
        return np.zeros(len(frame))
    numbers = (column.cast(pl.String) if as_text else column).cast(pl.Float64, strict=False)
    values = numbers.fill_null(float("nan")).to_numpy()
    good = np.abs(values) <= LATEST if name == "time_s" else allowed_amounts(name, values)
    check.bad_rows(~good, name, column, EXPECTED[name])
    return values


def _codes(check: Checker, frame: pl.DataFrame, name: str) -> tuple[pl.Series, Int]:
    """Return the distinct names of a column, sorted, and the index among them of each row.

    Record rows without a name.
    """
    column = frame[name]
    if is_text(column.dtype):
        column = column.cast(pl.String)
        missing = column.is_null() | (column.str.strip_chars() == "")
    elif is_whole(column.dtype) or column.dtype == pl.Null:
        missing = column.is_null()
    else:
        check.add(f"type {column.dtype}", EXPECTED[name], column=name)
        return column, np.zeros(len(frame), np.int64)
    check.bad_rows(missing.fill_null(True).to_numpy(), name, column, EXPECTED[name])
    names = column.drop_nulls().unique().sort()
    if column.null_count():
        return names, np.zeros(len(frame), np.int64)
    if column.dtype == pl.String:
        return names, column.cast(pl.Enum(names)).to_physical().cast(pl.Int64).to_numpy()
    return names, np.searchsorted(names.to_numpy(), column.to_numpy()).astype(np.int64)


def _microseconds(column: pl.Series, values: Float) -> Int:
    """Return times in microseconds, exact if the column has whole numbers, else from `values`, the same as floats."""
    if column.dtype.is_integer():
        return column.cast(pl.Int64).to_numpy() * MICROSECONDS
    return np.rint(values * MICROSECONDS).astype(np.int64)


def _check_once(check: Checker, frame: pl.DataFrame, repeats: Bool, order: Int | None) -> None:
    """Raise `TraceError` with the rows that repeat the machine, task and time of an earlier row.

    `order`, (rows,), sorts the rows of the file; None: they are sorted. `repeats`, (rows - 1,), is whether a sorted row
    repeats the previous row.
    """
    if repeats.any():
        positions = np.flatnonzero(repeats) + 1
        mask = np.zeros(len(frame), np.bool_)
        mask[positions if order is None else order[positions]] = True
        check.bad_rows(mask, "time_s", frame["time_s"], "a machine, task and time that no row above has")
        check.raise_problems()


TASKS = 30
"""Tasks at a time on a machine of a synthetic cell; [5] section 2.1: "a single machine typically hosts dozens"."""
GOOGLE_FILE = "google2019_instance_usage_sample.parquet"
GOOGLE_MACHINES = 4
"""The sample has 44 instances of four jobs, mostly alone on a machine; they are dealt out among few instead."""


@attrs.frozen(eq=False)
class Cell:
    """Machines and the samples of their tasks."""

    name: str
    """Name of the region, the file or the trace."""
    samples: TaskSamples
    """The samples, with times and step in microseconds."""


def cell_of_region(region: RegionParameters, *, machines: int, days: float, seed: int) -> Cell:
    """Return a cell whose tasks are replicas of the tenants of a region: their CPU, and the maximum of their class.

    Every machine has `TASKS` slots. The lives of the replicas are laid end to end, and that tape is cut into the
    slots, so tasks come and go at all times and are of every age at the beginning.
    """
    check_count("cell", "machines", machines, low=1)
    check_number("cell", "days", days, low=TRACE_STEP_SECONDS / DAY_SECONDS)
    steps, step = round(days * DAY_SECONDS / TRACE_STEP_SECONDS), round(TRACE_STEP_SECONDS * MICROSECONDS)
    length = machines * TASKS * steps
    usage, limit, life = _tape(region, length, seed)
    slot = np.arange(length) // steps
    new = np.diff(life, prepend=-1) != 0
    new[::steps] = True  # the rest of a life that is cut is another task
    samples = TaskSamples.from_columns(
        machine=slot // TASKS,
        task=np.cumsum(new),
        time=np.arange(length) % steps * step,
        usage=usage,
        limit=limit,
        step=step,
    )
    return Cell(region.name, samples)


def _tape(region: RegionParameters, length: int, seed: int) -> tuple[Float, Float, Int]:
    """Return usage, limit and number of the life, (length,) each, of replicas of a region, life after life."""
    usage, limit, lives = [], [], []
    first = samples = 0
    while samples < length:
        traces = generate(region, CHUNK, seed, first)
        cpu = traces.metric_names.index("cpu")
        usage.append(traces.values[:, cpu])
        limit.append(per_row(traces.max_usage[traces.series_tenant, cpu], traces.series_start))
        # a tenant has at most two series, so no number of a life is used twice
        lives.append(per_row(np.arange(len(traces.series_tenant)) + 2 * first, traces.series_start))
        first, samples = first + CHUNK, samples + len(usage[-1])
    usages, limits, life = (np.concatenate(parts)[:length] for parts in (usage, limit, lives))
    return usages.astype(np.float64), limits.astype(np.float64), life


def read_cell(path: str | Path, *, seed: int = 0) -> Cell:
    """Return the cell in a file, whose step is the usual distance of its samples, or of Google's sample in a folder."""
    folder = Path(path)
    if (folder / GOOGLE_FILE).is_file():
        return Cell("google2019", read_google(folder, machines=GOOGLE_MACHINES, seed=seed))
    samples = read_task_samples(path).samples
    distances, counts = np.unique(np.diff(samples.time)[np.diff(samples.task) == 0], return_counts=True)
    usual = [(count, step) for step, count in zip(distances.tolist(), counts.tolist(), strict=True) if step > 0]
    return Cell(folder.stem, attrs.evolve(samples, step=max(usual)[1]) if usual else samples)


def read_google(folder: str | Path, *, machines: int, seed: int) -> TaskSamples:
    """Return the sample of instances of the Google 2019 trace, dealt out at random among machines.

    As in the simulator of [5]: times are floored to five minutes, usage is the 90th percentile of CPU within a sample,
    and the largest of a step. Samples without a usage, -1, are left out.
    """
    path = Path(folder) / GOOGLE_FILE
    step = STEP_SECONDS * MICROSECONDS
    task = pl.struct("collection_id", "instance_index").rank("dense").cast(pl.Int64).alias("task")
    usage, limit = pl.col("p90_cpu_usage").max().cast(pl.Float64), pl.col("cpu_limit").max().cast(pl.Float64)
    check = Checker(path)
    requested = ("time", "p90_cpu_usage", "cpu_limit", "collection_id", "instance_index")
    check.columns(check.head(), dict.fromkeys(requested, "number"))
    check.raise_problems()
    rows = check.collect(
        pl.scan_parquet(path, glob=False)
        .select("time", "p90_cpu_usage", "cpu_limit", task)
        .filter(pl.col("p90_cpu_usage") >= 0.0)
        .group_by("task", pl.col("time") // step * step)
        .agg(usage, limit)
        .sort("task", "time")
    )
    if not len(rows):
        check.refuse("no sample with a usage", "at least one")
    tasks = rows["task"].to_numpy()
    machine = np.random.default_rng(seed).integers(0, machines, tasks.max() + 1)
    return TaskSamples.from_columns(
        machine=machine[tasks],
        task=tasks,
        time=rows["time"].to_numpy(),
        usage=rows["p90_cpu_usage"].to_numpy(),
        limit=rows["cpu_limit"].to_numpy(),
        step=step,
    )
