"""Errors of trace files, each with its row, and vectorised checks of columns that collect all before they raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from plb.array_types import Bool
from plb.errors import PlbError

MAX_LISTED = 20
"""Largest number of problems that a message lists; further problems are only counted."""


@attrs.frozen
class TraceProblem:
    """A fault of a trace file."""

    file: str
    """Path of the file."""
    row: int | None
    """First row with the problem, from 1; None if the problem is in the whole column or file."""
    column: str | None
    """Name of the column; None if the problem is in the whole row or file."""
    found: str
    """The value that the file has, in words."""
    expected: str
    """The expected value, in words."""
    count: int = 1
    """Number of all rows with the same problem, stated with the last listed row; 1 with the others."""

    def __str__(self) -> str:
        place = [self.file]
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(f"column {self.column}")
        more = f" ({self.count} rows in all)" if self.count > 1 else ""
        return f"{', '.join(place)}: found {self.found}; expected {self.expected}{more}"


class TraceError(PlbError, ValueError):
    """A trace file cannot be used; `problems` holds every problem that was found in it."""

    def __init__(self, problems: Sequence[TraceProblem]) -> None:
        super().__init__(tuple(problems))
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:MAX_LISTED]]
        if len(self.problems) > MAX_LISTED:
            lines.append(f"... and {len(self.problems) - MAX_LISTED} more problems")
        self._message = "\n".join(lines)


ROWS_LISTED = 5
"""Number of rows with the same problem in a column that are named; further rows are counted."""

LARGEST = float(np.finfo(np.float32).max)
"""Largest value of a sample, which is a 32-bit float."""

LATEST = 1e12
"""Largest time before or after the origin, in seconds: in whole microseconds, times fit into 64 bits."""

TIMES = f"seconds, from {-LATEST:g} to {LATEST:g}"
"""The range of times in words."""

DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""The errors of Polars for damaged contents of a file."""

SEPARATORS = (",", ";", "\t", "|", " ")
"""Characters between fields that text files use, in the order in which they are tried."""

T = TypeVar("T")


class Checker:
    """Collects the problems of one file; its first row, after a header or earlier rows, is `rows_above` + 1."""

    def __init__(self, path: Path, rows_above: int = 0) -> None:
        self.file = str(path)
        self.problems: list[TraceProblem] = []
        self.rows_above = rows_above

    def add(self, found: str, expected: str, row: int | None = None, column: str | None = None, count: int = 1) -> None:
        """Record a problem: what was `found` and `expected`, where (None: in no single row or column), how often."""
        self.problems.append(TraceProblem(self.file, row, column, found, expected, count))

    def bad_rows(
        self, mask: Bool, column: str, found: npt.NDArray[Any] | pl.Series, expected: str, rows: pl.Series | None = None
    ) -> None:
        """Record, as `some_rows` does, the rows where `mask` is true, with values in `found`; both are (table rows,).

        `expected`: what should be there, in words. `rows`, (table rows,): number of each row in the file; None: numbers
        from `rows_above` + 1 on.
        """
        wrong = np.flatnonzero(mask)
        numbers = self.rows_above + wrong + 1 if rows is None else rows.gather(wrong).to_numpy()
        self.some_rows(numbers, lambda index_in_wrong: _text(found[int(wrong[index_in_wrong])]), expected, column)

    def some_rows(
        self,
        rows: npt.NDArray[np.integer] | pl.Series,
        found: Callable[[int], str],
        expected: str,
        column: str | None = None,
    ) -> None:
        """Record rows with the same problem; `rows`, (n,), are their numbers in the file.

        At most `ROWS_LISTED` problems have the same column and `expected`, each with the value that `found` returns for
        a position in `rows`; the last of them counts all further rows.
        """
        alike = [
            i for i, problem in enumerate(self.problems) if (problem.column, problem.expected) == (column, expected)
        ]
        listed = min(len(rows), max(0, ROWS_LISTED - len(alike)))
        for position in range(listed):
            alike.append(len(self.problems))
            self.add(found(position), expected, int(rows[position]), column)
        if len(rows) > listed:
            last = self.problems[alike[-1]]
            counted = max(last.count, len(alike)) + len(rows) - listed
            self.problems[alike[-1]] = attrs.evolve(last, count=counted)

    def distinct(self, values: pl.Series, column: str, expected: str) -> None:
        """Record the rows of a column whose value an earlier row has; `expected`: what should be there, in words."""
        self.bad_rows(~values.is_first_distinct().to_numpy(), column, values, expected)

    def columns(self, frame: pl.DataFrame, requested: dict[str, str], rows: pl.Series | None = None) -> bool:
        """Check that a table has the requested columns, without nulls; return whether it has.

        `requested` has the kind of each column by name: "text", "number" or "flag"; `rows`: row numbers in the file.
        """
        before = len(self.problems)
        for name, kind in requested.items():
            if name not in frame.columns:
                self.add(f"columns {', '.join(frame.columns)}", f"a column of {kind}s", column=name)
            elif not _is_kind(frame[name].dtype, kind):
                self.add(f"type {frame[name].dtype}", f"a column of {kind}s", column=name)
            elif frame[name].null_count():
                self.bad_rows(frame[name].is_null().to_numpy(), name, frame[name], f"a {kind}", rows)
        return len(self.problems) == before

    def numbers(self, frame: pl.DataFrame, names: list[str], rows: pl.Series | None = None) -> None:
        """Check that the values of some columns are at least 0, and finite as 32-bit floats.

        `rows`: number in the file of each row of `frame`; None: its position.
        """
        for name in names:
            values = frame[name].to_numpy()
            good = (values >= 0) & (values <= LARGEST)
            self.bad_rows(~good, name, values, f"a finite number >= 0, < {LARGEST:.2g}", rows)

    def head(self) -> pl.DataFrame:
        """Return the columns of the file, without rows, or raise `TraceError` where its contents are damaged."""
        return self.collect(pl.scan_parquet(self.file, glob=False).head(0))

    def read(self) -> pl.DataFrame:
        """Return the file as a data frame, or raise `TraceError` where its contents are damaged."""
        return self._undamaged(lambda: pl.read_parquet(self.file, glob=False))

    def collect(self, query: pl.LazyFrame) -> pl.DataFrame:
        """Return the result of a query over the file as a stream, or raise `TraceError` if its contents are damaged."""
        return self._undamaged(lambda: query.collect(engine="streaming"))

    def batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Yield the file `rows` rows at a time, or raise `TraceError` where its contents are damaged."""
        query = pl.scan_parquet(self.file, glob=False)
        frames = self._undamaged(lambda: query.collect_batches(chunk_size=rows, engine="streaming"))
        while (frame := self._undamaged(lambda: next(frames, None))) is not None:
            yield frame

    def _undamaged(self, read: Callable[[], T]) -> T:
        """Return the result of `read`, or raise `TraceError` if it finds the contents damaged."""
        try:
            return read()
        except DAMAGED as error:
            self.refuse(damage(error), "a Parquet file that can be read")

    def refuse(self, found: str, expected: str, row: int | None = None, column: str | None = None) -> NoReturn:
        """Raise `TraceError` with all recorded problems and this one, whose arguments are as in `add`."""
        self.add(found, expected, row, column)
        raise TraceError(self.problems)

    def raise_problems(self) -> None:
        """Raise `TraceError` with all problems, if there are any."""
        if self.problems:
            raise TraceError(self.problems)


def _is_kind(dtype: pl.DataType, kind: str) -> bool:
    """Return whether a type of columns is of a kind: "text", "number" or "flag"."""
    if kind == "text":
        return is_text(dtype)
    return dtype == pl.Boolean if kind == "flag" else is_whole(dtype) or dtype.is_float()


def damage(error: Exception) -> str:
    """Return the first line of an error of a library about damaged contents, as the text of a problem."""
    return f"damaged contents ({next(iter(str(error).splitlines()), '')[:200]})"


def other_separator(fields: Sequence[str], separator: str) -> str | None:
    """Return the separator that a line has instead of `separator`.

    None if that split it into several `fields`, or none.
    """
    if len(fields) != 1:
        return None
    return next((character for character in SEPARATORS if character != separator and character in fields[0]), None)


def is_text(dtype: pl.DataType) -> bool:
    """Return whether a column holds text of any type."""
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def is_whole(dtype: pl.DataType) -> bool:
    """Return whether a column holds whole numbers of at most 64 bits, the largest type of NumPy."""
    return dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128)


def _text(value: object) -> str:
    """Return a value as a text for a message."""
    return f"{value:g}" if isinstance(value, float | np.floating) else repr(getattr(value, "item", lambda: value)())
