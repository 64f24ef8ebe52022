"""Readers of traces that are samples over time: from rows of usage to tenants, the same way for all formats.

The rules, which the documentation repeats:

- **Steps.** The values of an owner (machine, instance, container) within one step become their mean (or maximum).
- **Gaps** of at most `Options.max_gap_minutes` are filled with the last value; a longer one cuts the series in two.
- **Tenants.** Each piece is a tenant with one replica, ``<owner>@<first step>``, cut into windows where the reader or
  `Options.window_days` sets a longest life. The pieces of an owner are one family, never parted by `split_tenants`.
- **Censored** are all tenants except the last one of an owner that is known to end then or, if the trace does not
  have that time, that has no row on the last day of the trace.
- **MaxUsage** is the largest request during the life of the tenant, or the largest usage if the source has no
  requests. Usage above the request is clipped if that is a limit, else it raises MaxUsage.
- **Repeated rows**: of several rows with one owner and time the first counts; the others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import attrs
import numpy as np
import polars as pl

from plb.array_types import Bool, Float32, Int
from plb.model import Role
from workloads.column_checks import LARGEST, Checker
from workloads.readers.base import Options, TracePart, family_numbers
from workloads.readers.external_sort import OWNER, TIME, Chunks, ConversionReport, Frame, sort_into_chunks
from workloads.trace import (
    DAY_SECONDS,
    HOUR_SECONDS,
    STEP_SECONDS,
    MetricInfo,
    bounds_of,
    maximum,
    one_series_each,
    per_row,
)


@attrs.frozen(eq=False)
class Windows:
    """Pieces of series, which may become tenants. N steps in P pieces."""

    rows: Int
    """(N,) the row of each step, by its index; a row is repeated if a gap after it was filled."""
    bounds: Int
    """(P + 1,) bounds of the pieces in `rows`."""
    first_step: Int
    """(P,) step at which each piece begins; it may lie in a gap that was filled."""
    gaps_filled: int
    """Number of gaps that were filled."""
    gaps_cut: int
    """Number of gaps that cut a series."""

    @property
    def lengths(self) -> Int:
        """(P,) number of steps of each piece."""
        return np.diff(self.bounds)

    def keep(self, pieces: Bool) -> Windows:
        """Return the pieces of a mask, (P,), only."""
        inside = per_row(pieces, self.bounds)
        return attrs.evolve(
            self, rows=self.rows[inside], bounds=bounds_of(self.lengths[pieces]), first_step=self.first_step[pieces]
        )


def cut(owner: Int, step: Int, longest_gap: int, longest: int | None) -> Windows:
    """Cut series into pieces; rows, given by `owner` and `step`, are sorted by both and unique.

    A gap of at most `longest_gap` steps is filled with the row before it; a longer one cuts. A piece has at most
    `longest` steps; None: any number.
    """
    same = np.diff(owner) == 0
    missing = np.diff(step) - 1
    long_gap = same & (missing > longest_gap)
    joined = same & ~long_gap
    repeats = np.append(np.where(joined, missing + 1, 1), 1)
    series = np.concatenate([[0], np.cumsum(~joined)])
    lengths = np.bincount(series, repeats).astype(np.int64)
    rows = np.repeat(np.arange(len(step)), repeats)
    bounds = bounds_of(lengths_of_pieces(lengths, longest)[1])
    begin, row = bounds[:-1], rows[bounds[:-1]]
    return Windows(
        rows=rows,
        bounds=bounds,
        first_step=step[row] + begin - bounds_of(repeats)[row],
        gaps_filled=int((joined & (missing > 0)).sum()),
        gaps_cut=int(long_gap.sum()),
    )


def lengths_of_pieces(lengths: Int, longest: int | None) -> tuple[Int, Int]:
    """Cut series of these lengths, (S,), into windows of `longest` steps, the last one shorter; None: one window each.

    The result is, for each window, the index of its series and its number of steps.
    """
    if longest is None:
        return np.arange(len(lengths)), lengths
    windows = -(-lengths // longest)
    sizes = np.full(int(windows.sum()), longest, np.int64)
    sizes[np.cumsum(windows) - 1] = lengths - (windows - 1) * longest
    return np.repeat(np.arange(len(lengths)), windows), sizes


REPEATED = "with the owner and time of a row above"
LACKING = "at a time without all metrics"
UNLISTED = "of an owner that the table of owners does not list"


@attrs.frozen(kw_only=True)
class SampledReader:
    """A reader of samples; see `workloads.readers.base.Reader` for the fields that are not here."""

    name: str
    files: str
    metrics: tuple[MetricInfo, ...]
    origin: str
    request: str
    """As in `Reader`, like the other fields above."""
    frames: Callable[[Path, Options, Path], Iterator[Frame]]
    """Yields all rows of a source: ``frames(source, options, scratch)``."""
    places: tuple[str, str]
    """Columns of the source that hold owner and time, for messages."""
    reasons: tuple[str, ...]
    """All reasons for which rows are refused; the report also names reasons without a row."""
    owners: Callable[[Path, Path], pl.LazyFrame | None] = attrs.field(default=lambda *_: None)
    """A table with a row an owner, or None: ``owners(source, scratch)``. Columns ``owner`` and any of
    ``scale_<metric>`` (unit of the sample in the metric's unit), ``limit_<metric>``, ``tenant_class``, and ``end_s``
    (when the owner ended; null where it did not within the trace).
    """
    owners_complete: bool = False
    """True: rows of an owner that the table does not list are refused."""
    classes: Callable[[pl.DataFrame], pl.DataFrame]
    """Classes by owner, from steps with the columns ``owner``, ``step``, the metrics and their limits."""
    prefix: str = ""
    """First part of a tenant's name, before the owner."""
    family: Callable[[Any], Any] = attrs.field(default=lambda owner: owner)
    """Function of an owner that returns the name or number of its family."""
    clip: bool = True
    """True: the request is a limit, to which usage is clipped. False: larger usage raises MaxUsage."""
    repeated: Callable[[Path], None] | None = None
    """Called with the source if rows repeat an owner and time; it may raise an error, else the rows are refused and
    counted.
    """
    one_metric_a_row: bool = False
    """True: a row has one of the metrics, and the rows of an owner and time are joined."""
    always_censored: bool = False
    """True: no tenant's end is known."""
    window_days: float | None = None
    """Default of `Options.window_days`; None: no longest life."""
    min_hours: float = 0.0
    """Default of `Options.min_hours`."""
    step_seconds: float = STEP_SECONDS
    """As in `Reader`."""

    def parts(self, source: Path, options: Options, tally: ConversionReport, scratch: Path) -> Iterator[TracePart]:
        """Yield all tenants, a range of owners at a time (see `workloads.readers.base.Reader`)."""
        tally.refuse(dict.fromkeys(self.reasons, 0))
        owners = self.owners(source, scratch)
        frames = self.frames(source, options, scratch)
        chunks = sort_into_chunks(frames, options.rows_in_memory, tally, scratch, self.places)
        if not chunks.paths:
            self._refuse_all(source, tally)
        for rows in chunks.ranges(options.rows_in_memory):
            part = self._part(source, rows, owners, chunks, options, tally)
            if part is not None:
                yield part
        if not tally.steps:
            self._refuse_all(source, tally)
        if not tally.tenants:
            refused = f"only series below {self._min_hours(options):g} h ({tally.tenants_refused:,} in all)"
            Checker(source).refuse(refused, "a longer one")

    def _refuse_all(self, source: Path, tally: ConversionReport) -> NoReturn:
        """Raise `TraceError` for a source without a usable row."""
        reasons = ", ".join(f"{count:,} {name}" for name, count in tally.rows_refused.items() if count)
        problem = f"only refused rows ({reasons})" if tally.rows_read else "no rows"
        Checker(source).refuse(problem, "at least one usable row")

    def _part(
        self,
        source: Path,
        rows: pl.DataFrame,
        owners: pl.LazyFrame | None,
        chunks: Chunks,
        options: Options,
        tally: ConversionReport,
    ) -> TracePart | None:
        """Return the tenants of all `rows` of some owners, and count them; None if there are none.

        `owners` is the table of `SampledReader.owners`.
        """
        rows = self._joined(rows, tally) if self.one_metric_a_row else self._without_repeats(source, rows, tally)
        if owners is not None:
            rows = self._with_owners(rows, owners, tally)
        if not len(rows):
            return None
        steps = self._steps(rows, options)
        tally.owners += steps[OWNER].n_unique()
        tally.steps += len(steps)
        windows = self._windows(steps, options, tally)
        return self._tenants(steps, windows, chunks.last_time, options, tally) if len(windows.rows) else None

    def _without_repeats(self, source: Path, rows: pl.DataFrame, tally: ConversionReport) -> pl.DataFrame:
        """Count the sorted rows that repeat the owner and time of the row above; return the others."""
        same = [pl.col(name) == pl.col(name).shift() for name in (OWNER, TIME)]
        again = rows.select(pl.all_horizontal(same).fill_null(value=False)).to_series()
        count = int(again.sum())
        if count and self.repeated is not None:
            self.repeated(source)
        tally.refuse({REPEATED: count})
        return rows.filter(~again) if count else rows

    def _joined(self, rows: pl.DataFrame, tally: ConversionReport) -> pl.DataFrame:
        """Return the sorted rows, one for each owner and time with all metrics, and count rows that lack a metric."""
        names = [metric.name for metric in self.metrics]
        other_columns = [name for name in rows.columns if name not in (OWNER, TIME, *names)]
        joined = rows.group_by(OWNER, TIME, maintain_order=True).agg(
            pl.col(names).drop_nulls().first(), pl.col(other_columns).first(), pl.len().alias("rows")
        )
        complete = joined.select(pl.all_horizontal(pl.col(names).is_not_null())).to_series()
        lacking = int(joined.filter(~complete)["rows"].sum())
        repeated = int(joined.filter(complete)["rows"].sum()) - int(complete.sum()) * len(names)
        tally.refuse({LACKING: lacking, REPEATED: repeated})
        return joined.filter(complete).drop("rows")

    def _with_owners(self, rows: pl.DataFrame, owners: pl.LazyFrame, tally: ConversionReport) -> pl.DataFrame:
        """Return rows with the columns of the table of owners, and with samples in the units of the metrics."""
        low, high = rows[OWNER][0], rows[OWNER][-1]
        table = owners.filter(pl.col(OWNER).is_between(pl.lit(low), pl.lit(high))).collect(engine="streaming")
        joined = rows.join(table.with_columns(listed=True), on=OWNER, how="left", maintain_order="left")
        if self.owners_complete:
            tally.refuse({UNLISTED: int(joined["listed"].null_count())})
            joined = joined.filter(pl.col("listed").is_not_null())
        scaled = [metric.name for metric in self.metrics if f"scale_{metric.name}" in joined.columns]
        return joined.with_columns(pl.col(name) * pl.col(f"scale_{name}") for name in scaled)

    def _steps(self, rows: pl.DataFrame, options: Options) -> pl.DataFrame:
        """Return a row for each owner and step, in order, with metrics, requests, class and end, from sorted samples.

        `rows` has ``owner``, ``time`` in seconds, the metrics, and requests, class and end if they are known.
        """
        names = [metric.name for metric in self.metrics]
        usage = [pl.col(name).mean() if options.aggregate == "mean" else pl.col(name).max() for name in names]
        limits = [_limit(rows, f"limit_{name}") for name in names]
        other_columns = [pl.col(name).first() for name in ("tenant_class", "end_s") if name in rows.columns]
        step = (pl.col(TIME) // int(self.step_seconds)).alias("step")
        grouped = rows.group_by(OWNER, step, maintain_order=True)
        return grouped.agg(*(column.cast(pl.Float32) for column in usage), *limits, *other_columns)

    def _min_hours(self, options: Options) -> float:
        """Return the shortest life of a tenant in hours."""
        return self.min_hours if options.min_hours is None else options.min_hours

    def _windows(self, steps: pl.DataFrame, options: Options, tally: ConversionReport) -> Windows:
        """Return the pieces of the series of `steps` that are long enough, and count all pieces and gaps."""
        days = self.window_days if options.window_days is None else options.window_days
        windows = cut(
            steps[OWNER].rle_id().to_numpy().astype(np.int64),
            steps["step"].to_numpy().astype(np.int64),
            int(options.max_gap_minutes * 60 // self.step_seconds),
            None if days is None else int(days * DAY_SECONDS / self.step_seconds),
        )
        long_enough = windows.lengths >= max(self._min_hours(options) * HOUR_SECONDS / self.step_seconds, 1)
        tally.steps_filled += len(windows.rows) - len(steps)
        tally.gaps_filled += windows.gaps_filled
        tally.gaps_cut += windows.gaps_cut
        tally.cut(windows.lengths, long_enough)
        return windows.keep(long_enough)

    def _tenants(
        self, steps: pl.DataFrame, windows: Windows, last_time: int, options: Options, tally: ConversionReport
    ) -> TracePart:
        """Return the tenants of windows of `steps`; `last_time` is the largest time of the trace, in seconds."""
        first, last = windows.rows[windows.bounds[:-1]], windows.rows[windows.bounds[1:] - 1]
        values, most = self._usage(steps, windows, tally)
        owner, start = steps[OWNER].gather(first), windows.first_step
        by_owner = owner.to_frame().join(self.classes(steps), on=OWNER, how="left", maintain_order="left")
        traces = one_series_each(
            Role.PRIMARY,
            class_names=by_owner["tenant_class"].to_list(),
            lifetime_steps=windows.lengths,
            metrics=self.metrics,
            step_seconds=self.step_seconds,
            tenant=np.array([f"{self.prefix}{name}@{step}" for name, step in zip(owner, start.tolist(), strict=True)]),
            family=family_numbers([self.family(name) for name in owner]),
            replicas=np.ones(len(first), np.int8),
            censored=~self._ended(steps, last, last_time, options),
            max_usage=most,
            values=values,
        )
        return TracePart(traces, start * int(self.step_seconds))

    def _usage(self, steps: pl.DataFrame, windows: Windows, tally: ConversionReport) -> tuple[Float32, Float32]:
        """Return usage (N, R) and MaxUsage (T, R) of windows of `steps`, and count the values above the request."""
        names = [metric.name for metric in self.metrics]
        values = np.ascontiguousarray(steps.select(names).to_numpy()[windows.rows])
        used = maximum(values, windows.bounds)
        requested = steps.select(pl.col(f"limit_{name}").fill_null(np.nan) for name in names).to_numpy()[windows.rows]
        # fmax ignores unknown values (NaN)
        most = np.asarray(np.fmax.reduceat(requested, windows.bounds[:-1], axis=0))
        limits = np.repeat(np.where(np.isnan(most), np.inf, most), windows.lengths, axis=0)
        over = values > limits
        counted = tally.clipped if self.clip else tally.over_request
        counted.update({name: int(over[:, i].sum()) for i, name in enumerate(names)})
        if self.clip:
            np.minimum(values, limits.astype(np.float32), out=values)
            return values, np.where(np.isnan(most), used, most)
        return values, np.fmax(most, used)

    def _ended(self, steps: pl.DataFrame, last: Int, last_time: int, options: Options) -> Bool:
        """Return whether each tenant, (T,), ends because its owner ends; `last`, (T,), is the row of its last step."""
        if self.always_censored:
            return np.zeros(len(last), np.bool_)
        final = np.append(np.diff(steps[OWNER].rle_id().to_numpy().astype(np.int64)) != 0, True)[last]
        step = steps["step"].to_numpy()[last]
        if "end_s" in steps.columns:
            reach = (step + 1) * self.step_seconds + options.max_gap_minutes * 60
            ends = steps["end_s"].cast(pl.Float64).fill_null(np.inf).to_numpy()[last]
            return np.asarray(final & (ends <= reach))
        return np.asarray(final & (step < last_time // self.step_seconds - DAY_SECONDS / self.step_seconds))


def _limit(rows: pl.DataFrame, name: str) -> pl.Expr:
    """Return the column `name` as the largest finite request in a step; null if there is none."""
    if name not in rows.columns:
        return pl.lit(None, pl.Float32).alias(name)
    request = pl.col(name)
    return request.filter(request.is_between(0.0, LARGEST)).max().cast(pl.Float32).alias(name)
