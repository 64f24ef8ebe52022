"""Realisations of the usage of tasks, for the fit tests of [2] (`plb.risk.gaussian`): from public traces, or arrays.

A task is a row of samples: its empirical distribution. Realisations are sampled from it independently for each task
([2] section 3.1), so correlation in time is lost; `UsageSamples.simultaneous` keeps it. The resources
of a task are sampled together.

`read_samples` reads tasks. What a task is depends on the trace:

- PlanetLab: a machine on one day, 288 samples, in percent of its CPU.
- Bitbrains: a machine on one day, up to 288 samples; CPU in MHz, memory in MB, disk and network in KB/s.
- This project's format: a series, that is a tenant and role.

As in [2] section 3.1, short tasks with fewer than 24 samples are omitted, and so are tasks without usage. Values are
unchanged: whole numbers add up exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from plb.array_types import Float, Float32, Int
from plb.errors import InvalidValueError
from plb.validation import check_count, check_known, check_names
from workloads.column_checks import Checker
from workloads.readers.bitbrains import FILE as BITBRAINS_FILE
from workloads.readers.bitbrains import KEYS, check_keys
from workloads.readers.external_sort import ROW
from workloads.trace import MetricInfo, bounds_of, maximum, mean, per_row
from workloads.trace_files import TRACES_FILE, read_traces

PLANETLAB_FILE = "planetlab.parquet"
"""Name of the file of the PlanetLab trace."""
LEAST_SAMPLES = 24
"""[2] section 3.1: tasks of two hours or longer, at 5 minutes a sample."""
BINS_A_DAY = 288
"""Samples of a machine in a day, one every 5 minutes."""
BITBRAINS_COLUMNS = {
    "cpu_mhz": MetricInfo("cpu", "MHz", trend=False),
    "mem_mb": MetricInfo("memory", "MB"),
    "disk_rd_kbs": MetricInfo("disk_read", "KB/s", trend=False),
    "disk_wr_kbs": MetricInfo("disk_write", "KB/s", trend=False),
    "net_rx_kbs": MetricInfo("network_in", "KB/s", trend=False),
    "net_tx_kbs": MetricInfo("network_out", "KB/s", trend=False),
}
UNKNOWN = -1
"""The period of a task whose samples are not known to be simultaneous with other tasks."""


@attrs.frozen(eq=False)
class UsageSamples:
    """The samples of N tasks, S in all, of R resources."""

    resources: tuple[MetricInfo, ...]
    """Names and units of the resources."""
    values: Float32
    """float32 (S, R), tasks one after the other, each in the order of time."""
    start: Int
    """int64 (N + 1,): bounds of the tasks in `values`."""
    left_out: int = 0
    """How many tasks of the file were left out as too short or without usage."""
    period: Int = attrs.field()
    """int64 (N,): tasks with the same number of a period, such as a day, were measured at the same times, sample by
    sample; or `UNKNOWN`.
    """

    @period.default
    def _unknown(self) -> Int:
        """Return `UNKNOWN` for each task."""
        return np.full(len(self.start) - 1, UNKNOWN)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.start) - 1

    def mean(self) -> Float:
        """Return the mean usage of each task, (N, R)."""
        return mean(self.values, self.start)

    def draw(self, tasks: npt.ArrayLike, realisations: int, rng: np.random.Generator) -> Float32:
        """Return K = `realisations` realisations of N' tasks, given by index, (N', K, R).

        They are sampled with replacement ([2] section 3.1).
        """
        chosen = np.asarray(tasks, np.int64)
        drawn = np.empty((len(chosen), realisations, self.values.shape[1]), np.float32)
        for position, task in enumerate(chosen.tolist()):
            first, after = self.start[task], self.start[task + 1]
            words = rng.integers(0, 2**32, realisations, dtype=np.uint32).astype(np.uint64)
            row = (words * np.uint64(after - first)) >> np.uint64(32)  # each as likely as another, up to 2^-32
            drawn[position] = self.values[first:after][row.astype(np.int64)]
        return drawn

    def simultaneous(self, period: int) -> tuple[Int, Float32]:
        """Return the indices of the N' tasks of a period, (N',), and their usage at the same K times, (N', K, R)."""
        tasks = np.flatnonzero(self.period == period)
        if not len(tasks) or period == UNKNOWN:
            raise InvalidValueError("samples", "period", period, "a period of some task")
        samples = self.start[tasks[0] + 1] - self.start[tasks[0]]
        return tasks, self.values[self.start[tasks, np.newaxis] + np.arange(samples)]

    def averaged(self, samples: int) -> UsageSamples:
        """Return the means of blocks of `samples` consecutive samples.

        The last block of a task also has what is left over.
        """
        check_count("samples", "averaged over", samples, low=1)
        lengths = np.diff(self.start)
        blocks = np.maximum(lengths // samples, 1)
        start = bounds_of(blocks)
        within = np.arange(start[-1]) - per_row(start[:-1], start)
        first = per_row(self.start[:-1], start) + within * samples
        averages = mean(self.values, np.append(first, self.start[-1])).astype(np.float32)
        return UsageSamples(self.resources, averages, start, self.left_out, self.period)


def read_samples(path: str | Path, resources: Sequence[str] | None = None) -> UsageSamples:
    """Read the samples of some resources of a trace, by default of ``cpu`` if there is one, else of the first.

    The path is ``planetlab.parquet``, ``rnd_5min.parquet`` (Bitbrains) or a directory with one of them or with traces
    in this project's format.
    """
    source = Path(path)
    for name, read in ((PLANETLAB_FILE, _planetlab), (BITBRAINS_FILE, _bitbrains), (TRACES_FILE, _project_format)):
        file = source / name if source.is_dir() else source
        if file.name == name and file.is_file():
            return _without_small(file, read(file, resources))
    expected = f"{PLANETLAB_FILE}, {BITBRAINS_FILE} or {TRACES_FILE}, or a directory with one of them"
    Checker(source).refuse("no such trace", expected)


def _planetlab(file: Path, resources: Sequence[str] | None) -> UsageSamples:
    """Return the samples of a PlanetLab file, whose one resource is ``cpu``."""
    metrics = (MetricInfo("cpu", "%", trend=False),)
    _resources(metrics, resources, file)
    check = Checker(file)
    table = check.read()
    if "cpu_pct" not in table.columns or not isinstance(table["cpu_pct"].dtype, pl.List):
        check.refuse(f"columns {', '.join(table.columns)}", "a column of lists of numbers", column="cpu_pct")
    table = table.with_row_index(ROW, 1).filter(pl.col("cpu_pct").list.len() > 0)
    lists = table["cpu_pct"]
    flat = table.select(ROW, "cpu_pct").explode("cpu_pct")
    _check_numbers(check, flat, ["cpu_pct"], flat[ROW])
    values = flat["cpu_pct"].to_numpy().astype(np.float32)[:, np.newaxis]
    lengths = lists.list.len().to_numpy()
    has_days = "day" in table.columns
    if has_days:
        check.columns(table.head(0), {"day": "text"})
        check.raise_problems()
    days = table["day"].rank("dense").cast(pl.Int64) if has_days else pl.Series([UNKNOWN] * len(table), dtype=pl.Int64)
    period = days.fill_null(UNKNOWN).to_numpy()
    return UsageSamples(metrics, values, bounds_of(lengths), period=_period_if_complete(lengths, BINS_A_DAY, period))


def _bitbrains(file: Path, resources: Sequence[str] | None) -> UsageSamples:
    """Return the samples of some resources of a Bitbrains file; a task is a machine on a day."""
    metrics = _resources(tuple(BITBRAINS_COLUMNS.values()), resources, file)
    columns = [name for metric in metrics for name, info in BITBRAINS_COLUMNS.items() if info == metric]
    check = Checker(file)
    check.columns(check.head(), dict.fromkeys((*KEYS, "cores", *columns), "number"))
    check.raise_problems()
    check_keys(check, file)
    rows = pl.scan_parquet(file, glob=False).with_row_index(ROW, 1).filter(pl.col("cores") > 0)
    table = check.collect(rows.select(ROW, *KEYS, *columns).sort(KEYS))
    _check_numbers(check, table, columns, table[ROW])
    day = table["bin"].to_numpy().astype(np.int64) // BINS_A_DAY
    key = table["vm"].to_numpy().astype(np.int64) * 2**32 + day  # both are below 2^31
    first = np.flatnonzero(np.diff(key, prepend=-1))
    values = np.stack([table[name].to_numpy().astype(np.float32) for name in columns], axis=1)
    start = np.append(first, len(key)).astype(np.int64)
    return UsageSamples(metrics, values, start, period=_period_if_complete(np.diff(start), BINS_A_DAY, day[first]))


def _project_format(file: Path, resources: Sequence[str] | None) -> UsageSamples:
    """Return the samples of some resources of traces in this project's format; a task is a series."""
    traces = read_traces(file.parent)
    metrics = _resources(traces.metrics, resources, file)
    columns = [traces.metrics.index(metric) for metric in metrics]
    return UsageSamples(metrics, np.ascontiguousarray(traces.values[:, columns]), traces.series_start)


def _period_if_complete(lengths: npt.NDArray[Any], samples: int, period: npt.NDArray[Any]) -> Int:
    """Return the period of each task that has all `samples` of it, else `UNKNOWN`; `lengths` and `period` are (N,)."""
    return np.where(lengths == samples, period.astype(np.int64), UNKNOWN)


def _resources(metrics: tuple[MetricInfo, ...], names: Sequence[str] | None, file: Path) -> tuple[MetricInfo, ...]:
    """Return the resources of `names`, in their order; None: the default of `read_samples`. `file` is for errors."""
    by_name = {metric.name: metric for metric in metrics}
    requested = check_names("traces", "resources", names or ["cpu" if "cpu" in by_name else metrics[0].name])
    for name in requested:
        check_known("resource", name, by_name, str(file))
    if len(set(requested)) < len(requested):
        raise InvalidValueError("traces", "resources", requested, "names that differ")
    return tuple(by_name[name] for name in requested)


def _check_numbers(check: Checker, table: pl.DataFrame, columns: Sequence[str], rows: pl.Series) -> None:
    """Raise `TraceError` unless these columns hold usage; `rows` has the numbers of the rows in the file."""
    check.columns(table, dict.fromkeys(columns, "number"), rows)
    check.raise_problems()
    check.numbers(table, list(columns), rows)
    check.raise_problems()


def _without_small(file: Path, samples: UsageSamples) -> UsageSamples:
    """Return the samples without tasks that are too short or never used any of the resources; `file` is for errors."""
    lengths = np.diff(samples.start)
    keep = lengths >= LEAST_SAMPLES
    if samples.tasks:
        keep &= (maximum(samples.values, samples.start) > 0).any(axis=1)
    if not keep.any():
        problem = f"{samples.tasks} tasks, none with usage and {LEAST_SAMPLES} samples"
        Checker(file).refuse(problem, "at least one such task")
    return UsageSamples(
        samples.resources,
        samples.values[per_row(keep, samples.start)],
        bounds_of(lengths[keep]),
        int((~keep).sum()),
        samples.period[keep],
    )
