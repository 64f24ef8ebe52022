"""Reader of the Bitbrains "Rnd" traces (GWA-T-12): 500 virtual machines from July to September 2013.

The directory holds ``rnd_5min.parquet`` with one row a machine and 5-minute bin; see the ``SOURCE.md`` beside it. What
becomes of it:

- **Metrics.** ``cpu`` in cores, ``cpu_mhz / (cap_mhz / cores)``, without trend, and ``memory`` in GB
  (``mem_mb / 1024``). There is no disk space in these traces. Memory is what the machine actively used, so it is low.
- **10-minute steps**: the mean (or the maximum, on request) of the one or two 5-minute values.
- **Gaps.** A gap of at most `max_gap_minutes` is filled with the last value. A longer one, such as the two days
  that are missing for all machines (31 July and 31 August), cuts the series.
- **Tenants.** Each piece is cut into windows of at most `window_days`; each window is a tenant with one replica, named
  ``vm<number>@<first step>`` (10-minute steps since 2013-06-30T22:00Z). Windows below `min_hours` are refused. All
  windows of a machine are one family, so `split_tenants` never puts one machine on both sides.
- **Censored** are all windows but those that end with the machine itself, a day or more before the trace does. Windows
  that start in mid-life are no fresh tenants; growth after creation can hardly be seen in this trace.
- **Class**: the machine's usual cores (mode) and provisioned memory (median), each rounded up to a power of two:
  ``vm_c4_m16``. The provisioned memory of 114 machines changes all the time (ballooning).
- **MaxUsage**: the most cores and memory that were provisioned during the window. Usage above is clipped and counted.
- **Refused rows** are counted by reason and leave a gap: those with a null, NaN or infinite value, with no provisioned
  cores, CPU or memory (neither unit nor limit is known), or with a negative value. A row of no machine or bin, and two
  usable rows of one machine and bin, are errors (`workloads.bitbrains_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from plb.errors import InvalidValueError
from plb.model import Role, check_number
from workloads.bitbrains_rows import count_rows, ten_minute_steps
from workloads.checks import Checker
from workloads.segments import bounds_of, maximum, spread
from workloads.trace import STEP_SECONDS, MetricInfo, TraceSet

FILE = "rnd_5min.parquet"
STEPS_PER_HOUR = 6
STEPS_PER_DAY = 144
METRICS = (MetricInfo("cpu", "cores", trend=False), MetricInfo("memory", "GB"))

Ints = npt.NDArray[np.int64]


@attrs.frozen(kw_only=True)
class BitbrainsReport:
    """What became of the rows of the file.

    Parameters
    ----------
    machines
        Machines with at least one row that was not refused.
    rows_read
        5-minute rows in the file; each is either refused or part of a step.
    rows_refused
        Refused rows by reason.
    steps
        10-minute steps with at least one row.
    steps_filled
        Steps that were missing in short gaps and repeat the last value.
    gaps_filled, gaps_cut
        Gaps that were filled, and those that cut a series.
    windows
        Windows that became tenants.
    windows_refused, steps_refused
        Windows that were too short, and the steps (filled ones included) in them.
    steps_kept
        Steps of the tenants: ``steps + steps_filled - steps_refused``.
    clipped
        Kept values above MaxUsage that were clipped to it, by metric.
    """

    machines: int
    rows_read: int
    rows_refused: Mapping[str, int]
    steps: int
    steps_filled: int
    gaps_filled: int
    gaps_cut: int
    windows: int
    windows_refused: int
    steps_refused: int
    steps_kept: int
    clipped: Mapping[str, int]

    def __str__(self) -> str:
        refused = ", ".join(f"{rows:,} {reason}" for reason, rows in self.rows_refused.items())
        clipped = ", ".join(f"{count:,} {name}" for name, count in self.clipped.items())
        return "\n".join(
            (
                f"{self.rows_read:,} rows of {self.machines} machines read; refused: {refused}",
                f"{self.steps:,} steps of 10 minutes, {self.steps_filled:,} more filled in {self.gaps_filled:,} gaps; "
                f"{self.gaps_cut:,} longer gaps cut the series",
                f"{self.windows:,} tenants with {self.steps_kept:,} steps kept; {self.windows_refused:,} windows with "
                f"{self.steps_refused:,} steps refused as too short; values clipped to MaxUsage: {clipped}",
            )
        )


def read_bitbrains(
    directory: str | Path,
    *,
    window_days: float = 7.0,
    aggregate: Literal["mean", "max"] = "mean",
    max_gap_minutes: float = 60.0,
    min_hours: float = 1.0,
) -> tuple[TraceSet, BitbrainsReport]:
    """Read the Bitbrains traces.

    Parameters
    ----------
    directory
        Where ``rnd_5min.parquet`` lies.
    window_days
        Longest life of a tenant; at least 1 hour.
    aggregate
        How the 5-minute values of a step become one.
    max_gap_minutes
        Longest gap that is filled.
    min_hours
        Shortest window that becomes a tenant.

    Returns
    -------
    tuple
        The traces, and the count of rows read, kept, filled and refused.

    Raises
    ------
    TraceError
        The file is missing or damaged, a row belongs to no machine or bin or doubles another, or nothing is left to
        use; it names file, row (from 1), column and what was expected.
    """
    _check_options(window_days, aggregate, max_gap_minutes, min_hours)
    path = Path(directory) / FILE
    rows_read, refused = count_rows(path)
    steps = ten_minute_steps(path, aggregate)
    windows = _cut(steps, int(max_gap_minutes // 10), int(window_days * STEPS_PER_DAY))
    long_enough = np.diff(windows.bounds) >= max(min_hours * STEPS_PER_HOUR, 1)
    _check_any(path, long_enough, min_hours)
    traces, clipped = _trace_set(steps, windows.keep(long_enough))
    report = BitbrainsReport(
        machines=steps["vm"].n_unique(),
        rows_read=rows_read,
        rows_refused=refused,
        steps=len(steps),
        steps_filled=len(windows.rows) - len(steps),
        gaps_filled=windows.gaps_filled,
        gaps_cut=windows.gaps_cut,
        windows=int(long_enough.sum()),
        windows_refused=int((~long_enough).sum()),
        steps_refused=int(np.diff(windows.bounds)[~long_enough].sum()),
        steps_kept=traces.samples,
        clipped=clipped,
    )
    return traces, report


def _check_options(window_days: float, aggregate: str, max_gap_minutes: float, min_hours: float) -> None:
    """Raise `InvalidValueError` for an option of `read_bitbrains` that is out of range."""
    check_number("bitbrains", "window_days", window_days, low=1 / 24)
    check_number("bitbrains", "max_gap_minutes", max_gap_minutes)
    check_number("bitbrains", "min_hours", min_hours)
    if aggregate not in ("mean", "max"):
        raise InvalidValueError("bitbrains", "aggregate", aggregate, "'mean' or 'max'")


def _check_any(path: Path, long_enough: npt.NDArray[np.bool_], min_hours: float) -> None:
    """Raise `TraceError` if no window is long enough."""
    if not long_enough.any():
        check = Checker(path)
        check.add(f"only windows below {min_hours:g} h ({len(long_enough):,} in all)", "a longer one")
        check.raise_problems()


@attrs.frozen(eq=False)
class _Windows:
    """Pieces of the machines' series; `rows` points into the steps, with repeats where a gap was filled."""

    rows: Ints
    bounds: Ints
    gaps_filled: int
    gaps_cut: int

    def keep(self, windows: npt.NDArray[np.bool_]) -> _Windows:
        inside = spread(windows, self.bounds)
        lengths = np.diff(self.bounds)[windows]
        return attrs.evolve(self, rows=self.rows[inside], bounds=bounds_of(lengths))


def _cut(steps: pl.DataFrame, longest_gap: int, window: int) -> _Windows:
    """Cut the series at long gaps, fill short ones, and cut the pieces into windows."""
    vm, step = steps["vm"].to_numpy(), steps["step"].to_numpy().astype(np.int64)
    same_vm = np.diff(vm) == 0
    missing = np.diff(step) - 1
    long_gap = same_vm & (missing > longest_gap)
    joined = same_vm & ~long_gap
    repeats = np.append(np.where(joined, missing + 1, 1), 1)
    piece = np.concatenate([[0], np.cumsum(~joined)])
    lengths = np.bincount(piece, repeats).astype(np.int64)
    windows = -(-lengths // window)
    last = lengths - (windows - 1) * window
    sizes = np.full(int(windows.sum()), window, np.int64)
    sizes[np.cumsum(windows) - 1] = last
    return _Windows(
        rows=np.repeat(np.arange(len(step)), repeats),
        bounds=bounds_of(sizes),
        gaps_filled=int((joined & (missing > 0)).sum()),
        gaps_cut=int(long_gap.sum()),
    )


def _trace_set(steps: pl.DataFrame, windows: _Windows) -> tuple[TraceSet, dict[str, int]]:
    rows, bounds = windows.rows, windows.bounds
    first, last = rows[bounds[:-1]], rows[bounds[1:] - 1]
    values = steps.select("cpu", "memory").to_numpy()[rows]
    most = maximum(steps.select("cores", "memory_cap").to_numpy()[rows], bounds)
    over = values > np.repeat(most, np.diff(bounds), axis=0)
    np.minimum(values, np.repeat(most, np.diff(bounds), axis=0), out=values)
    vm = steps["vm"].to_numpy()[first].astype(np.int64)
    classes, codes = _classes(steps, vm)
    tenants = len(first)
    traces = TraceSet(
        metrics=METRICS,
        step_seconds=STEP_SECONDS,
        classes=classes,
        tenant=_names(vm, steps["step"].to_numpy()[first]),
        family=vm,
        class_code=codes,
        replicas=np.ones(tenants, np.int8),
        lifetime_steps=np.diff(bounds).astype(np.int32),
        censored=~_ends(steps, last),
        max_usage=most,
        series_tenant=np.arange(tenants, dtype=np.int32),
        series_role=np.full(tenants, Role.PRIMARY, np.int8),
        series_start=bounds,
        values=np.ascontiguousarray(values),
    )
    return traces, {metric.name: int(over[:, i].sum()) for i, metric in enumerate(METRICS)}


def _names(vm: Ints, step: npt.NDArray[Any]) -> npt.NDArray[np.str_]:
    return np.array([f"vm{machine}@{start}" for machine, start in zip(vm.tolist(), step.tolist(), strict=True)])


def _ends(steps: pl.DataFrame, last: Ints) -> npt.NDArray[np.bool_]:
    """Return which of these steps end their machine a day or more before the trace does."""
    vm, step = steps["vm"].to_numpy(), steps["step"].to_numpy()
    final = np.append(np.diff(vm) != 0, True)[last]
    return np.asarray(final & (step[last] < step.max() - STEPS_PER_DAY))


def _classes(steps: pl.DataFrame, vm: Ints) -> tuple[tuple[str, ...], npt.NDArray[np.int16]]:
    """Return the class names, and the class code of each of the machines in `vm`."""
    usual = steps.group_by("vm").agg(pl.col("cores").mode().max(), pl.col("memory_cap").median()).sort("vm")
    sizes = np.exp2(np.ceil(np.log2(np.maximum(usual.select("cores", "memory_cap").to_numpy(), 1.0)))).astype(int)
    names = np.array([f"vm_c{cores}_m{memory}" for cores, memory in sizes.tolist()])
    classes, codes = np.unique(names, return_inverse=True)
    place = np.searchsorted(usual["vm"].to_numpy(), vm)
    return tuple(classes.tolist()), codes[place].astype(np.int16)
