"""Text tables of the formats of provisioning: read whole, with all fields checked, and errors with their line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from plb.array_types import Int32
from plb.errors import InvalidValueError
from workloads.column_checks import Checker
from workloads.readers.external_sort import ROW
from workloads.readers.files import PACKED_TABLES, STREAMED, UNPACKED, TextTable

MOST_COMPARED = 20_000
"""Largest number of names in which the nearest to another is searched."""
MOST_REPLICAS = 10**6
"""Largest number of replicas of an application in a file."""
WRITERS = {**UNPACKED, **PACKED_TABLES}
"""Functions that open a file for writing with compression, by its ending."""


def writer_of(path: Path) -> Callable[..., Any]:
    """Return the function that opens a file for writing, compressed according to the ending of its name.

    Raises
    ------
    InvalidValueError
        The ending is that of a compression for reading only.
    """
    if path.suffix in STREAMED and path.suffix not in ("", *WRITERS):
        allowed = f"one of {', '.join(WRITERS)} for a compressed file"
        raise InvalidValueError(f"file {path.name}", "ending", path.suffix, allowed)
    return WRITERS.get(path.suffix, open)


def need_file(path: Path, expected: str) -> None:
    """Raise `TraceError` unless the file exists; `expected` describes it."""
    if not path.is_file():
        Checker(path).refuse("a directory" if path.is_dir() else "no such file", expected)


def read_table(path: Path, table: TextTable, *, may_be_empty: bool = False) -> pl.DataFrame:
    """Return all rows of a table, plain or compressed.

    Raises
    ------
    TraceError
        A field cannot be read, there are too many in a row, or there is no row where there must be one; it names file,
        line and column.
    """
    with tempfile.TemporaryDirectory(prefix="plb-") as scratch:
        columns = [pl.col(name) for name in table.columns]
        return table.whole(path, Path(scratch), columns, may_be_empty=may_be_empty).drop(ROW)


def read_headed(path: Path, columns: Sequence[str], separator: str = ",") -> pl.DataFrame:
    """Return a text table whose first line names its columns, without empty fields.

    Raises
    ------
    TraceError
        The reasons of `read_table`, another header, or an empty field.
    """
    frame = read_table(path, TextTable(columns=dict.fromkeys(columns, pl.String), separator=separator))
    check = Checker(path, rows_above=1)
    header = [str(name) for name in frame.row(0)]
    if header != list(columns):
        check.refuse(f"columns {', '.join(header)}", f"columns {', '.join(columns)}", 1)
    if len(frame) == 1:
        check.refuse("no rows", "at least one row below the header")
    frame = frame.slice(1)
    check.columns(frame, dict.fromkeys(columns, "text"))
    check.raise_problems()
    return frame


def whole_numbers(
    check: Checker, frame: pl.DataFrame, column: str, *, low: int = 0, high: int = MOST_REPLICAS
) -> Int32:
    """Return a column of text as whole numbers; other rows are recorded, and have the value `low`."""
    values = frame[column].str.strip_chars().cast(pl.Int64, strict=False)
    good = values.is_between(low, high).fill_null(value=False)
    check.bad_rows(~good.to_numpy(), column, frame[column], f"a whole number from {low} to {high}")
    return np.where(good.to_numpy(), values.fill_null(low).to_numpy(), low).astype(np.int32)


def unknown_names(check: Checker, column: str, names: pl.Series, known: Sequence[str], expected: str) -> Int32:
    """Return the position of each name among the known ones; record unknown names, each with the nearest known one."""
    found = positions(names, known)
    wrong = np.flatnonzero(found < 0)
    unknown = names.gather(wrong)

    def row_text(place: int) -> str:
        return f"{unknown[place]!r}{nearest_of(unknown[place], known)}"

    check.some_rows(check.rows_above + wrong + 1, row_text, expected, column)
    return found


def nearest_of(name: str | None, known: Sequence[str]) -> str:
    """Return a hint at the nearest known name; empty if none is near or there are many names."""
    close = get_close_matches(name or "", known, n=1) if len(known) <= MOST_COMPARED else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def positions(names: pl.Series, known: Sequence[str]) -> Int32:
    """Return the position of each name among the known ones; -1 if unknown."""
    index = pl.DataFrame({"name": pl.Series(known, dtype=pl.String)}).with_row_index("position")
    found = (
        names.alias("name")
        .to_frame()
        .join(index.unique("name", keep="first"), on="name", how="left", maintain_order="left")
    )
    return found["position"].cast(pl.Int32).fill_null(-1).to_numpy()
