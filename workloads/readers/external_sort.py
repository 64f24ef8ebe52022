"""The samples of a trace by owner: an external sort with bounded memory.

Public traces are mostly sorted by time, but the series of a tenant has to be consecutive. Rows are collected up to
`Options.rows_in_memory`, sorted by owner and time, and written to a file. Then the owners are divided into ranges of
about as many rows, and each range is read from the row groups of all files that have owners of the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import attrs
import numpy as np
import polars as pl

from workloads.column_checks import LATEST, Checker
from workloads.readers.report import ConversionReport
from workloads.writing import in_one_piece

ROW_GROUP = 16_384
OWNER, TIME, REFUSED, ROW = "owner", "time", "refused", "row"


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
    """Some rows of one file of a public trace, in its order.

    Parameters
    ----------
    path
        The file.
    rows
        Columns ``owner`` (text or a whole number), ``time`` (as the source has it), ``refused`` (the reason for a row
        that cannot be used, else null), the metrics, ``limit_<metric>`` if the row has a request, and ``row`` (number
        of the row or line in the file, from 1).
    clock
        The unit of ``time``.
    """

    path: Path
    rows: pl.DataFrame
    clock: Clock = SECONDS


@attrs.frozen
class Chunks:
    """Kept rows, in files sorted by owner and time.

    Parameters
    ----------
    paths
        The files, in the order in which they were written.
    last_time
        The largest time.
    """

    paths: tuple[Path, ...]
    last_time: int

    def ranges(self, rows: int) -> Iterator[pl.DataFrame]:
        """Yield the rows of all owners, sorted by owner and time, whole owners and about so many rows at a time.

        Rows with equal owner and time come in the order of the source.
        """
        owners = pl.scan_parquet(list(self.paths), glob=False).group_by(OWNER)
        counts = owners.len("rows").collect(engine="streaming").sort(OWNER)
        place = (counts["rows"].cum_sum() - 1) // rows
        first = np.flatnonzero(place.diff().fill_null(1).to_numpy())
        last = np.append(first[1:], len(counts)) - 1
        for low, high in zip(counts[OWNER].gather(first), counts[OWNER].gather(last), strict=True):
            inside = pl.col(OWNER).is_between(pl.lit(low), pl.lit(high))
            # one file after the other: a scan of all would hold row groups of many files at a time
            found = [pl.scan_parquet(path, glob=False).filter(inside).collect() for path in self.paths]
            yield pl.concat(found).sort(OWNER, TIME, maintain_order=True)


def sort_into_chunks(
    frames: Iterable[Frame], rows: int, tally: ConversionReport, scratch: Path, places: tuple[str, str]
) -> Chunks:
    """Count the rows of all frames, and write those that are kept into sorted files.

    Parameters
    ----------
    frames
        All rows of the source.
    rows
        Rows that are held in memory.
    tally
        Called with the rows that were read and refused.
    scratch
        Where the files are written.
    places
        Columns of the source that hold owner and time, for messages.

    Raises
    ------
    TraceError
        A row belongs to no owner, or its time is missing or out of range.
    """
    paths: list[Path] = []
    collected: list[pl.DataFrame] = []
    last = 0

    def flush() -> None:
        paths.append(scratch / f"rows-{len(paths):05}.parquet")
        together = pl.concat(collected).sort(OWNER, TIME, maintain_order=True)
        with in_one_piece(paths[-1]) as partial:
            together.write_parquet(partial, row_group_size=ROW_GROUP)
        collected.clear()

    for frame in frames:
        kept = _count(_placed(frame, places), tally)
        if len(kept):
            last = max(last, int(kept[TIME].max()))  # type: ignore[arg-type]
            collected.append(kept)
        if sum(map(len, collected)) >= rows:
            flush()
    if collected:
        flush()
    return Chunks(tuple(paths), last)


def _count(rows: pl.DataFrame, tally: ConversionReport) -> pl.DataFrame:
    """Count rows that are read and refused; return the others."""
    tally.read(len(rows))
    counts = rows[REFUSED].drop_nulls().value_counts().sort(REFUSED)
    tally.refuse(dict(counts.iter_rows()))
    return rows.filter(pl.col(REFUSED).is_null()).drop(REFUSED, ROW)


def _placed(frame: Frame, places: tuple[str, str]) -> pl.DataFrame:
    """Return the rows with whole seconds since the origin; raise `TraceError` without an owner or a time in range."""
    check, rows = Checker(frame.path), frame.rows
    unowned = rows.filter(pl.col(OWNER).is_null())
    check.some_rows(unowned[ROW], lambda _: "nothing that can be used", "a name or number", places[0])
    seconds = frame.clock.seconds(pl.col(TIME))
    inside = seconds.is_between(frame.clock.earliest, LATEST).fill_null(value=False)
    wrong = rows.filter(~inside)
    check.some_rows(wrong[ROW], lambda place: _time_text(wrong[TIME][place]), frame.clock.expected, places[1])
    check.raise_problems()
    return rows.with_columns(seconds.floor().cast(pl.Int64).alias(TIME))


def _time_text(time: object) -> str:
    if time is None:
        return "no time"
    return f"{time:.15g}" if isinstance(time, float) else repr(time)


def first_reason(reasons: dict[str, pl.Expr]) -> pl.Expr:
    """Return the first of these reasons that applies to a row, as the column ``refused``; null where none does."""
    first = [pl.when(applies).then(pl.lit(reason)) for reason, applies in reasons.items()]
    return pl.coalesce(*first).alias(REFUSED) if first else pl.lit(None, pl.String).alias(REFUSED)
