"""Realisations of usage from the samples of public traces, for the fit tests of [2] (`plb.risk.gaussian`).

A task is a row of samples: its empirical distribution. Realisations are drawn from it, each task's by itself ([2]
section 3.1), so whatever two tasks have in common in time is lost; `TaskSamples.simultaneous` keeps it. The resources
of a task are drawn together.

What a task is depends on the trace:

- PlanetLab: a machine on one day, 288 samples, in percent of its CPU.
- Bitbrains: a machine on one day, up to 288 samples; CPU in MHz, memory in MB, disk and network in KB/s.
- This project's format: a series, that is a tenant and role.

As in [2] section 3.1, short tasks are left out, with fewer than 24 samples, and those that never used anything. Values
stay as they stand in the file: whole numbers add up exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from plb.errors import InvalidValueError, UnknownNameError
from workloads.checks import Checker
from workloads.format import TRACES_FILE, read_traces
from workloads.segments import bounds_of, maximum, mean, spread
from workloads.trace import MetricInfo

PLANETLAB_FILE, BITBRAINS_FILE = "planetlab.parquet", "rnd_5min.parquet"
LEAST_SAMPLES = 24
"""[2] section 3.1: tasks of two hours or longer, at 5 minutes a sample."""
BINS_A_DAY = 288
BITBRAINS_COLUMNS = {
    "cpu_mhz": MetricInfo("cpu", "MHz", trend=False),
    "mem_mb": MetricInfo("memory", "MB"),
    "disk_rd_kbs": MetricInfo("disk_read", "KB/s", trend=False),
    "disk_wr_kbs": MetricInfo("disk_write", "KB/s", trend=False),
    "net_rx_kbs": MetricInfo("network_in", "KB/s", trend=False),
    "net_tx_kbs": MetricInfo("network_out", "KB/s", trend=False),
}

Ints = npt.NDArray[np.int64]
Samples = npt.NDArray[np.float32]


@attrs.frozen(eq=False)
class TaskSamples:
    """The samples of N tasks, S in all, of R resources.

    Parameters
    ----------
    resources
        Names and units of the resources.
    values
        float32 (S, R), tasks one after the other, each in the order of time.
    start
        int64 (N + 1,): bounds of the tasks in `values`.
    left_out
        How many tasks of the file were left out as too short or without usage.
    period
        int64 (N,): in which period, such as a day, a task was measured. Tasks of one period with the most samples were
        measured at the same times. None: nothing is known of that.
    """

    resources: tuple[MetricInfo, ...]
    values: Samples
    start: Ints
    left_out: int = 0
    period: Ints | None = None

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.start) - 1

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the mean usage of each task, (N, R)."""
        return mean(self.values, self.start)

    def draw(self, tasks: npt.ArrayLike, realisations: int, rng: np.random.Generator) -> Samples:
        """Return realisations of some tasks, drawn from their samples with replacement ([2] section 3.1).

        Parameters
        ----------
        tasks
            Indices of N' tasks.
        realisations
            K.
        rng
            Of the draws.

        Returns
        -------
        float32 array of shape (N', K, R).
        """
        chosen = np.asarray(tasks, np.int64)
        drawn = np.empty((len(chosen), realisations, self.values.shape[1]), np.float32)
        for place, task in enumerate(chosen.tolist()):
            first, after = self.start[task], self.start[task + 1]
            words = rng.integers(0, 2**32, realisations, dtype=np.uint32).astype(np.uint64)
            row = (words * np.uint64(after - first)) >> np.uint64(32)  # each as likely as another, up to 2^-32
            drawn[place] = self.values[first:after][row.astype(np.int64)]
        return drawn

    def simultaneous(self, period: int) -> tuple[Ints, Samples]:
        """Return the tasks that were measured throughout a period, and their usage at the same times.

        Returns
        -------
        tuple
            Indices of N' tasks, and a float32 array of shape (N', K, R): the K samples of each in the order of time.

        Raises
        ------
        InvalidValueError
            No task is of this period.
        """
        of_period = np.flatnonzero(self.period == period) if self.period is not None else np.zeros(0, np.int64)
        if not len(of_period):
            raise InvalidValueError("samples", "period", period, "a period of some task")
        lengths = np.diff(self.start)[of_period]
        whole = of_period[lengths == lengths.max()]
        rows = self.start[whole, np.newaxis] + np.arange(lengths.max())
        return whole, self.values[rows]

    def averaged(self, samples: int) -> TaskSamples:
        """Return what a coarser measurement would show: means of so many samples in a row.

        What is left over at the end of a task joins the mean before it, so each sample counts once.
        """
        if samples < 1:
            raise InvalidValueError("samples", "averaged over", samples, "a whole number >= 1")
        lengths = np.diff(self.start)
        blocks = np.maximum(lengths // samples, 1)
        start = bounds_of(blocks)
        within = np.arange(start[-1]) - spread(start[:-1], start)
        first = spread(self.start[:-1], start) + within * samples
        averages = mean(self.values, np.append(first, self.start[-1])).astype(np.float32)
        return TaskSamples(self.resources, averages, start, self.left_out)


def read_samples(path: str | Path, resources: Sequence[str] | None = None) -> TaskSamples:
    """Read the samples of a trace.

    Parameters
    ----------
    path
        ``planetlab.parquet``, ``rnd_5min.parquet`` (Bitbrains) or a directory with one of them or with traces in this
        project's format.
    resources
        Names of the resources to read. Default: ``cpu`` where there is one, else the first.

    Raises
    ------
    TraceError
        There is no such file, it is damaged, or no task is left.
    UnknownNameError
        The trace has no such resource.
    """
    given = Path(path)
    for name, read in ((PLANETLAB_FILE, _planetlab), (BITBRAINS_FILE, _bitbrains), (TRACES_FILE, _own)):
        file = given / name if given.is_dir() else given
        if file.name == name and file.is_file():
            return _without_small(file, read(file, resources))
    check = Checker(given)
    check.add("no such trace", f"{PLANETLAB_FILE}, {BITBRAINS_FILE} or {TRACES_FILE}, or a directory with one of them")
    check.raise_problems()
    raise AssertionError


def _planetlab(file: Path, resources: Sequence[str] | None) -> TaskSamples:
    known = (MetricInfo("cpu", "%", trend=False),)
    _chosen(known, resources, file)
    check = Checker(file)
    table = check.read()
    if "cpu_pct" not in table.columns or not isinstance(table["cpu_pct"].dtype, pl.List):
        check.add(f"columns {', '.join(table.columns)}", "a column of lists of numbers", column="cpu_pct")
        check.raise_problems()
    table = table.filter(pl.col("cpu_pct").list.len() > 0)
    lists = table["cpu_pct"]
    flat = lists.explode().to_frame()
    _check_numbers(check, flat, ["cpu_pct"])
    values = flat["cpu_pct"].to_numpy().astype(np.float32)[:, np.newaxis]
    days = table["day"].rank("dense").to_numpy().astype(np.int64) if "day" in table.columns else None
    return TaskSamples(known, values, bounds_of(lists.list.len().to_numpy()), period=days)


def _bitbrains(file: Path, resources: Sequence[str] | None) -> TaskSamples:
    known = _chosen(tuple(BITBRAINS_COLUMNS.values()), resources, file)
    columns = [name for metric in known for name, info in BITBRAINS_COLUMNS.items() if info == metric]
    check = Checker(file)
    empty = check.collect(pl.scan_parquet(file, glob=False).head(0))
    check.columns(empty, dict.fromkeys(("vm", "bin", "cores", *columns), "number"))
    check.raise_problems()
    running = pl.scan_parquet(file, glob=False).filter(pl.col("cores") > 0)
    table = check.collect(running.select("vm", "bin", *columns).sort("vm", "bin"))
    _check_numbers(check, table, columns)
    day = table["bin"].to_numpy().astype(np.int64) // BINS_A_DAY
    key = table["vm"].to_numpy().astype(np.int64) * 2**20 + day
    first = np.flatnonzero(np.diff(key, prepend=-1))
    values = np.stack([table[name].to_numpy().astype(np.float32) for name in columns], axis=1)
    return TaskSamples(known, values, np.append(first, len(key)).astype(np.int64), period=day[first])


def _own(file: Path, resources: Sequence[str] | None) -> TaskSamples:
    traces = read_traces(file.parent)
    known = _chosen(traces.metrics, resources, file)
    place = [traces.metrics.index(metric) for metric in known]
    return TaskSamples(known, np.ascontiguousarray(traces.values[:, place]), traces.series_start)


def _chosen(known: tuple[MetricInfo, ...], names: Sequence[str] | None, file: Path) -> tuple[MetricInfo, ...]:
    """Return the resources of these names, in the order of the names."""
    of_name = {metric.name: metric for metric in known}
    wanted = list(names) if names else ["cpu" if "cpu" in of_name else known[0].name]
    for name in wanted:
        if name not in of_name:
            raise UnknownNameError("resource", name, of_name, str(file))
    if len(set(wanted)) < len(wanted):
        raise InvalidValueError("traces", "resources", wanted, "names that differ")
    return tuple(of_name[name] for name in wanted)


def _check_numbers(check: Checker, table: pl.DataFrame, columns: Sequence[str]) -> None:
    check.columns(table, dict.fromkeys(columns, "number"))
    check.raise_problems()
    check.numbers(table, list(columns))
    check.raise_problems()


def _without_small(file: Path, found: TaskSamples) -> TaskSamples:
    """Leave out tasks that are too short, or never used any of the resources."""
    lengths = np.diff(found.start)
    keep = lengths >= LEAST_SAMPLES
    if found.tasks:
        keep &= (maximum(found.values, found.start) > 0).any(axis=1)
    if not keep.any():
        check = Checker(file)
        check.add(f"{found.tasks} tasks, none with usage and {LEAST_SAMPLES} samples", "at least one such task")
        check.raise_problems()
    return TaskSamples(
        found.resources,
        found.values[spread(keep, found.start)],
        bounds_of(lengths[keep]),
        int((~keep).sum()),
        None if found.period is None else found.period[keep],
    )
