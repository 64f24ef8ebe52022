"""Find and scan the files of public traces: text with or without header, compressed or not, and errors with their row.

Polars reads plain, ``.gz`` and ``.zst`` text as a stream. Other formats (``.xz``, ``.bz2``) are unpacked into the
scratch directory first, as a stream too. An archive (``.tar``, ``.zip``) is refused in words.

Files of one JSON object a line, plain or gzipped, are scanned as a stream, too.
"""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import lzma
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import attrs
import numpy as np
import polars as pl

from plb.phrasing import counted
from workloads.column_checks import DAMAGED, SEPARATORS, Checker, TraceError, TraceProblem, damage, other_separator
from workloads.readers.external_sort import ROW

STREAMED = ("", ".gz", ".zst")
"""Endings of text files that Polars reads as a stream."""
UNPACKED: Mapping[str, Callable[[Path], Any]] = {".xz": lzma.open, ".bz2": bz2.open}
"""Functions that open files which are unpacked first, by ending."""
PACKED_TABLES: Mapping[str, Callable[[Path], Any]] = {".gz": gzip.open}
"""Functions that open files of tables which are unpacked first, though text with the ending is not."""
ARCHIVES = (".tar.gz", ".tar.xz", ".tgz", ".zip", ".tar")
"""Endings of archives, which are refused."""
PIECE_BYTES = 1 << 24
"""Bytes that are unpacked at a time."""
ROWS_AT_ONCE = 4_000_000
"""Rows at a time, of tables that are read whole."""
ROWS_OF_MANY = 1_000_000
"""Rows at a time of small tables, or where little is kept."""
BEYOND = "beyond the last column"
"""Name of a column with the further fields of a line."""


def find_files(source: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the `trace_files` of a source that match a pattern at the end of their path, compressed or not, in order.

    A directory is searched to any depth; a file may have any name.
    """
    if source.is_file():
        return [source]
    endings = (*STREAMED, *UNPACKED)
    matches = {path for pattern in patterns for ending in endings for path in source.rglob(pattern + ending)}
    return trace_files(matches)


def trace_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files among these paths, in order, without names that begin with a dot, which file managers leave."""
    return sorted(path for path in paths if path.is_file() and not path.name.startswith("."))


def check_readable(source: Path) -> None:
    """Raise `TraceError` for the directories of a source that cannot be read; a search by pattern passes over them."""
    refused: list[OSError] = []
    if source.is_dir():
        for _ in os.walk(source, onerror=refused.append):
            pass
    expected = "a directory that can be read"
    if refused:
        raise TraceError([TraceProblem(e.filename, None, None, e.strerror or str(e), expected) for e in refused])


def need_files(source: Path, patterns: Sequence[str], expected: str) -> list[Path]:
    """Return the files of `find_files`; if there are none, raise `TraceError` that names `expected`."""
    files = find_files(source, patterns)
    if not files:
        packed = [path.name for path in source.rglob("*") if path.name.endswith(ARCHIVES)] if source.is_dir() else []
        problem = (
            f"no such file, only {', '.join(sorted(packed)[:3])}, to be unpacked first" if packed else "no such file"
        )
        Checker(source).refuse(problem if source.exists() else "no such directory", expected)
    return files


@contextmanager
def streamable(path: Path, scratch: Path, *, text: bool = True) -> Iterator[Path]:
    """Yield a file that Polars can scan as a stream: this one, or a temporary one in the scratch directory.

    Of Parquet files (`text` False) Polars reads no ``.gz`` either.
    """
    opener = UNPACKED.get(path.suffix) or (None if text else PACKED_TABLES.get(path.suffix))
    if opener is None:
        yield path
        return
    target = scratch / path.with_suffix("").name
    try:
        with opener(path) as packed, target.open("wb") as plain:
            shutil.copyfileobj(packed, plain, PIECE_BYTES)
    except (lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's, such as a full disk
            raise
        Checker(path).refuse(f"damaged contents ({error})", f"a whole {path.suffix} file")
    yield target
    target.unlink()


Batches = Iterator[pl.DataFrame]
"""The rows of a file, some at a time."""


@attrs.frozen(kw_only=True)
class TextTable:
    """A text file of columns without a schema of its own."""

    columns: Mapping[str, Any]
    """Names and types, in the order of the file; an empty field is null."""
    separator: str = ","
    """One character between two fields."""
    above: int = 0
    """Number of lines before the header or the first row, such as comments."""
    quote: str | None = '"'
    """The character around fields with separators; None: there is none."""
    header: bool = False
    """Whether the first line names the columns; it has to name these, in this order. Otherwise it has a field for each
    column.
    """

    def _scan(self, path: Path, columns: Mapping[str, Any], skipped: int) -> pl.LazyFrame:
        """Return a lazy scan of a file without its first `skipped` lines.

        A further column has the fields beyond the last.
        """
        return pl.scan_csv(
            path,
            has_header=False,
            skip_lines=self.above + skipped,
            separator=self.separator,
            schema={**columns, BEYOND: pl.String},
            glob=False,
            raise_if_empty=False,
            missing_columns="insert",
            extra_columns="ignore",
            truncate_ragged_lines=True,
        )

    def chunks(self, path: Path, scratch: Path, rows: int, columns: Sequence[pl.Expr]) -> Batches:
        """Yield `columns` of a file and ``row``, the line, at most `rows` rows at a time.

        Raise `TraceError` with file, line and column for another separator or header, missing fields, or a bad field.
        """
        with streamable(path, scratch) as plain:
            self._check_first_line(path, self.first_line(path, plain))
            numbered = self._scan(plain, self.columns, int(self.header)).with_row_index(
                ROW, self.above + int(self.header) + 1
            )
            numbered = numbered.select(*columns, BEYOND, ROW)
            for chunk in chunks_of(numbered, rows, lambda error: self._explain(path, plain, error)):
                self._check_width(path, chunk)
                yield chunk.drop(BEYOND)

    def whole(
        self, path: Path, scratch: Path, columns: Sequence[pl.Expr], *, may_be_empty: bool = False
    ) -> pl.DataFrame:
        """Return `columns` of all rows of a file, and ``row``.

        Raise `TraceError` as `chunks` does, or if there are no rows.
        """
        parts = list(self.chunks(path, scratch, ROWS_AT_ONCE, columns))
        if not any(map(len, parts)) and not may_be_empty:
            Checker(path).refuse("no rows", f"rows of {', '.join(self.columns)}")
        empty = pl.DataFrame(schema={**self.columns, ROW: pl.get_index_type()}).lazy().select(*columns, ROW)
        return pl.concat([empty.collect(), *parts])

    def first_line(self, path: Path, plain: Path) -> list[str]:
        """Return the fields of the first line, without blanks around them; an empty line has none.

        `path` is the file for errors, `plain` the file that Polars reads.
        """
        try:
            line = pl.read_csv(
                plain,
                has_header=False,
                infer_schema=False,
                n_rows=1,
                separator=self.separator,
                quote_char=self.quote,
                skip_lines=self.above,
                glob=False,
                raise_if_empty=False,
                truncate_ragged_lines=True,
            )
        except (OSError, *DAMAGED) as error:
            self._explain(path, plain, error)
        fields = [(field or "").strip() for field in line.row(0)] if len(line) else []
        return fields if any(fields) else []

    def _check_first_line(self, path: Path, fields: list[str]) -> None:
        """Raise `TraceError` if the first line has another separator, another header, or too few fields."""
        names, check = list(self.columns), Checker(path)
        used = other_separator(fields, self.separator) if len(names) > 1 else None
        if used is not None:
            check.refuse(f"fields separated by {used!r}", f"{', '.join(names)}, separated by {self.separator!r}", 1)
        if self.header and fields != names:
            missing = [name for name in names if name not in fields]
            hint = f"; missing: {', '.join(missing)}" if 0 < len(missing) < len(names) else ""
            check.refuse(repr("; ".join(fields)), f"the header {'; '.join(names)!r}{hint}", 1)
        if 0 < len(fields) < len(names):
            check.refuse(counted(len(fields), "field"), f"{len(names)}: {', '.join(names)}", 1)

    def _check_width(self, path: Path, chunk: pl.DataFrame) -> None:
        """Raise `TraceError` for lines with more fields than columns."""
        wide = chunk.filter(pl.col(BEYOND).is_not_null())
        check = Checker(path)
        expected = f"{len(self.columns)}: {', '.join(self.columns)}"
        check.some_rows(wide[ROW], lambda position: f"a further field, {wide[BEYOND][position]!r}", expected)
        check.raise_problems()

    def _explain(self, path: Path, plain: Path, error: Exception) -> NoReturn:
        """Raise `TraceError` with the lines and the column at which Polars raised `error`.

        `path`: the file, for the message; `plain`: the same file, unpacked.
        """
        check = Checker(path)
        texts = dict.fromkeys(self.columns, pl.String)
        for name, kind in self.columns.items():
            if kind == pl.String:
                continue
            text = pl.col(name).str.strip_chars()
            bad = (text != "") & text.cast(kind, strict=False).is_null()
            below = self._scan(plain, texts, int(self.header))
            wrong = below.with_row_index("line", self.above + int(self.header) + 1).filter(bad)
            try:
                rows = wrong.select("line", name).collect(engine="streaming")
            except (OSError, pl.exceptions.PolarsError):
                break
            check.bad_rows(np.ones(len(rows), np.bool_), name, rows[name], f"a number ({kind})", rows["line"])
        check.raise_problems()
        check.refuse(damage(error), "a text file in UTF-8 that can be read")


COMMENT = "#"
"""First character of lines before a header that are left out."""


class TextHeader(NamedTuple):
    """The first line of a text file with names of columns."""

    separator: str
    """The separator that gives the line the most fields."""
    names: list[str]
    """Its fields."""
    above: int
    """Number of lines of comments before it."""


def header_of(path: Path, scratch: Path) -> TextHeader:
    """Return the header of a text file, the first line that is no comment; an empty one has no names."""
    line, above = COMMENT, -1
    with streamable(path, scratch) as plain:
        while line.startswith(COMMENT):
            above += 1
            (line, *_) = TextTable(columns={}, separator="\x1f", quote=None, above=above).first_line(path, plain) or [
                ""
            ]
    readings = {letter: next(csv.reader([line], delimiter=letter), []) for letter in SEPARATORS if letter != " "}
    separator = max(readings, key=lambda letter: len(readings[letter]))
    if len(readings[separator]) <= 1:
        separator, readings = " ", {" ": line.split()}
    fields = [field.strip() for field in readings[separator]]
    return TextHeader(separator, fields if any(fields) else [], above)


def parquet_chunks(path: Path, rows: int, columns: Sequence[pl.Expr]) -> Batches:
    """Yield `columns` of a Parquet file and ``row``, the row from 1, at most `rows` rows at a time."""
    numbered = pl.scan_parquet(path, glob=False).with_row_index(ROW, 1).select(*columns, ROW)
    expected = "a Parquet file that can be read"
    yield from chunks_of(numbered, rows, lambda error: Checker(path).refuse(damage(error), expected))


def chunks_of(query: pl.LazyFrame, rows: int, explain: Callable[[Exception], NoReturn]) -> Batches:
    """Yield the result of a query, at most `rows` rows at a time; `explain` raises a more precise error than Polars."""
    try:
        yield from query.collect_batches(chunk_size=rows, engine="streaming")
    except (OSError, *DAMAGED) as error:
        explain(error)


LINES_AT_A_TIME = 10_000
"""Lines that are read at once in the search for an invalid line."""


def json_chunks(path: Path, scratch: Path, schema: pl.Schema, rows: int, columns: Sequence[pl.Expr]) -> Batches:
    """Yield `columns` of a file and ``row``, the line, at most `rows` rows at a time; missing fields are null.

    `schema` has the needed fields. Raise `TraceError` for a line that is no JSON object, or a field of another type.
    """
    with streamable(path, scratch) as plain:
        escaped = glob.escape(str(plain))  # brackets and stars in a name are patterns in Polars
        query = pl.scan_ndjson(escaped, schema=schema, row_index_name=ROW, row_index_offset=1).select(*columns, ROW)
        yield from chunks_of(query, rows, lambda error: _explain(path, plain, schema, error))


def _explain(path: Path, plain: Path, schema: pl.Schema, error: Exception) -> NoReturn:
    """Raise `TraceError` with the first line of `plain`, the unpacked `path`, that is not in `schema`, or `error`."""
    check = Checker(path)
    try:
        with gzip.open(plain) if plain.suffix == ".gz" else plain.open("rb") as lines:
            first = 1
            while not check.problems and (batch := list(islice(lines, LINES_AT_A_TIME))):
                if _problem(batch, schema):
                    number, problem = next(
                        (n, p) for n, line in enumerate(batch, first) if (p := _problem([line], schema))
                    )
                    check.add(problem, f"a JSON object with {', '.join(schema)}", number)
                first += len(batch)
    except (OSError, EOFError, zlib.error) as unpacking_error:
        error = unpacking_error
    check.raise_problems()
    check.refuse(damage(error), "a file of one JSON object a line")


def _problem(lines: list[bytes], schema: pl.Schema) -> str:
    """Return in words why lines cannot be read as JSON objects; empty if they can."""
    try:
        pl.read_ndjson(b"".join(lines), schema=schema)
    except DAMAGED as error:
        return str(error).splitlines()[0][:200]
    return ""
