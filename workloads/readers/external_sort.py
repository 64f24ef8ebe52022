"""The samples of a trace by owner: an external sort with bounded memory.

Public traces are mostly sorted by time, but the series of a tenant has to be consecutive. Rows are collected up to
`Options.rows_in_memory`, sorted by owner and time, and written to a file. Then the owners are divided into ranges of
about as many rows, and each range is read from the row groups of all files that have owners of the range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import attrs
import numpy as np
import polars as pl

from plb.array_types import Bool, Int
from workloads.column_checks import LATEST, Checker
from workloads.writing import in_one_piece


@attrs.define(kw_only=True)
class ConversionReport:
    """The counts of a conversion; complete when it is done."""

    rows_read: int = 0
    """Number of rows of the source."""
    rows_refused: Counter[str] = attrs.field(factory=Counter)
    """Refused rows by reason; a row counts for the first reason."""
    rows_kept: int = 0
    """Number of used rows: ``rows_read - sum(rows_refused.values())``."""
    owners: int = 0
    """Number of machines, instances or containers with at least one row that was kept."""
    step_seconds: float
    """Sampling interval of the converted trace, seconds."""
    steps: int = 0
    """Number of steps with at least one row."""
    steps_filled: int = 0
    """Number of missing steps in short gaps, which repeat the last value."""
    gaps_filled: int = 0
    """Number of short gaps."""
    gaps_cut: int = 0
    """Number of longer gaps, each of which cut a series in two."""
    tenants: int = 0
    """Number of tenants that were made of the series."""
    tenants_refused: int = 0
    """Number of tenants that were too short."""
    steps_refused: int = 0
    """Number of steps, including filled steps, of tenants that were too short."""
    steps_kept: int = 0
    """Number of steps of the tenants: ``steps + steps_filled - steps_refused``."""
    clipped: Counter[str] = attrs.field(factory=Counter)
    """Kept values above MaxUsage that were clipped to it, by metric."""
    over_request: Counter[str] = attrs.field(factory=Counter)
    """Kept values above the request, by metric, if the source allows them; MaxUsage was raised to them."""

    def read(self, rows: int) -> None:
        """Add rows of the source, which are kept until they are refused."""
        self.rows_read += rows
        self.rows_kept += rows

    def refuse(self, reasons: Mapping[str, int]) -> None:
        """Add refused rows by reason; a reason that is named with 0 rows is reported with 0."""
        for reason, rows in reasons.items():
            self.rows_refused[reason] += rows
            self.rows_kept -= rows

    def cut(self, lengths: Int, kept: Bool) -> None:
        """Add tenants with a number of steps each, (T,); a tenant that is not `kept`, (T,), is refused as too short."""
        self.tenants += int(kept.sum())
        self.tenants_refused += int((~kept).sum())
        self.steps_refused += int(lengths[~kept].sum())
        self.steps_kept += int(lengths[kept].sum())

    def __str__(self) -> str:
        lines = [
            f"{self.rows_read:,} rows read, {self.rows_kept:,} kept; refused: {_listed(self.rows_refused)}",
            f"{self.steps:,} steps of {self.step_seconds:g} s of {self.owners:,} owners, {self.steps_filled:,} more "
            f"filled in {self.gaps_filled:,} gaps; {self.gaps_cut:,} longer gaps cut the series",
            f"{self.tenants:,} tenants with {self.steps_kept:,} steps kept; {self.tenants_refused:,} with "
            f"{self.steps_refused:,} steps refused as too short",
        ]
        if self.clipped:
            lines.append(f"values clipped to MaxUsage: {_listed(self.clipped)}")
        if any(self.over_request.values()):
            lines.append(f"values above the request, which raised MaxUsage: {_listed(self.over_request)}")
        return "\n".join(lines)


def _listed(counts: Mapping[str, int]) -> str:
    """Return counts by name in words."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


ROW_GROUP = 16_384
"""Rows of a group in a sorted file, which is read at a time."""
OWNER, TIME, REFUSED, ROW = "owner", "time", "refused", "row"
"""Names of columns of a `Frame`."""


class Clock(NamedTuple):
    """How a format writes times."""

    seconds: Callable[[pl.Expr], pl.Expr]
    """Converts times of the source to seconds since the origin of the trace."""
    expected: str
    """Unit and range of the times of the source, for messages."""
    earliest: float = 0.0
    """The earliest time, seconds since the origin; the last one is `LATEST`."""


SECONDS = Clock(lambda time: time, f"seconds, from 0 to {LATEST:g}")
MICROSECONDS = Clock(
    lambda time: time.cast(pl.Int64, strict=False) // 1_000_000, f"microseconds, from 0 to {LATEST * 1e6:g}"
)


@attrs.frozen(kw_only=True)
class Frame:
    """Some rows of one file of a public trace, in its order."""

    path: Path
    """The file."""
    rows: pl.DataFrame
    """Columns ``owner`` (text or a whole number), ``time`` (as the source has it), ``refused`` (the reason for a row
    that cannot be used, else null), the metrics, ``limit_<metric>`` if the row has a request, and ``row`` (number of
    the row or line in the file, from 1).
    """
    clock: Clock = SECONDS
    """The unit of ``time``."""


@attrs.frozen
class Chunks:
    """Kept rows, in files sorted by owner and time."""

    paths: tuple[Path, ...]
    """The files, in the order in which they were written."""
    last_time: int
    """The largest time."""

    def ranges(self, rows: int) -> Iterator[pl.DataFrame]:
        """Yield all rows of some owners at a time, about `rows`, sorted stably by owner and time."""
        owners = pl.scan_parquet(list(self.paths), glob=False).group_by(OWNER)
        counts = owners.len("rows").collect(engine="streaming").sort(OWNER)
        range_of_owner = (counts["rows"].cum_sum() - 1) // rows
        first = np.flatnonzero(range_of_owner.diff().fill_null(1).to_numpy())
        last = np.append(first[1:], len(counts)) - 1
        for low, high in zip(counts[OWNER].gather(first), counts[OWNER].gather(last), strict=True):
            inside = pl.col(OWNER).is_between(pl.lit(low), pl.lit(high))
            # one file after the other: a scan of all would hold row groups of many files at a time
            rows_of_files = [pl.scan_parquet(path, glob=False).filter(inside).collect() for path in self.paths]
            yield pl.concat(rows_of_files).sort(OWNER, TIME, maintain_order=True)


def sort_into_chunks(
    frames: Iterable[Frame], rows: int, tally: ConversionReport, scratch: Path, places: tuple[str, str]
) -> Chunks:
    """Write the kept rows of all frames into sorted files in `scratch`, `rows` at a time, and count rows in `tally`.

    Return the files and the last time. Raise `TraceError` for a row without owner or a time in range; `places` names
    the columns of both in the source.
    """
    paths: list[Path] = []
    collected: list[pl.DataFrame] = []
    last = 0

    def flush() -> None:
        """Write the collected rows, sorted, to a new file."""
        paths.append(scratch / f"rows-{len(paths):05}.parquet")
        together = pl.concat(collected).sort(OWNER, TIME, maintain_order=True)
        with in_one_piece(paths[-1]) as partial:
            together.write_parquet(partial, row_group_size=ROW_GROUP)
        collected.clear()

    for frame in frames:
        kept = _count_and_drop_refused(_with_seconds(frame, places), tally)
        if len(kept):
            last = max(last, int(kept[TIME].max()))  # type: ignore[arg-type]
            collected.append(kept)
        if sum(map(len, collected)) >= rows:
            flush()
    if collected:
        flush()
    return Chunks(tuple(paths), last)


def _count_and_drop_refused(rows: pl.DataFrame, tally: ConversionReport) -> pl.DataFrame:
    """Count the rows that were read, and refused rows by reason; return the other rows."""
    tally.read(len(rows))
    counts = rows[REFUSED].drop_nulls().value_counts().sort(REFUSED)
    tally.refuse(dict(counts.iter_rows()))
    return rows.filter(pl.col(REFUSED).is_null()).drop(REFUSED, ROW)


def _with_seconds(frame: Frame, places: tuple[str, str]) -> pl.DataFrame:
    """Return the rows with times as whole seconds since the origin.

    Raise `TraceError` for rows without an owner or a time in range; `places`: columns of both in the source.
    """
    check, rows = Checker(frame.path), frame.rows
    unowned = rows.filter(pl.col(OWNER).is_null())
    check.some_rows(unowned[ROW], lambda _: "nothing that can be used", "a name or number", places[0])
    seconds = frame.clock.seconds(pl.col(TIME))
    inside = seconds.is_between(frame.clock.earliest, LATEST).fill_null(value=False)
    wrong = rows.filter(~inside)
    check.some_rows(wrong[ROW], lambda position: _time_text(wrong[TIME][position]), frame.clock.expected, places[1])
    check.raise_problems()
    return rows.with_columns(seconds.floor().cast(pl.Int64).alias(TIME))


def _time_text(time: object) -> str:
    """Return a time of the source as a text for messages."""
    if time is None:
        return "no time"
    return f"{time:.15g}" if isinstance(time, float) else repr(time)


def first_reason(reasons: dict[str, pl.Expr]) -> pl.Expr:
    """Return the column ``refused``: the first reason that applies to a row, else null.

    `reasons` has, for each reason, whether it applies.
    """
    applied = [pl.when(applies).then(pl.lit(reason)) for reason, applies in reasons.items()]
    return pl.coalesce(*applied).alias(REFUSED) if applied else pl.lit(None, pl.String).alias(REFUSED)
