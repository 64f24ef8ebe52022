"""Scan files of one JSON object a line, plain or gzipped, as a stream; errors name the file and the line."""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

import polars as pl

from workloads.checks import DAMAGED, Checker
from workloads.readers.chunks import ROW
from workloads.readers.files import Batches, chunks_of, streamable

LINES_AT_A_TIME = 10_000
"""Lines that are read at once where a file is searched for the one that is wrong."""


def json_chunks(path: Path, scratch: Path, schema: pl.Schema, rows: int, columns: Sequence[pl.Expr]) -> Batches:
    """Yield columns of a file and ``row``, the line, some rows at a time.

    Parameters
    ----------
    schema
        Names and types of the fields that are needed; a field that is not there is null.

    Raises
    ------
    TraceError
        A line is no JSON object, or a field is of another type.
    """
    plain = streamable(path, scratch)
    escaped = glob.escape(str(plain))  # Polars takes brackets and stars in a name for a pattern
    query = pl.scan_ndjson(escaped, schema=schema, row_index_name=ROW, row_index_offset=1).select(*columns, ROW)
    yield from chunks_of(query, rows, lambda error: _explain(path, plain, schema, error))
    if plain != path:
        plain.unlink()


def _explain(path: Path, plain: Path, schema: pl.Schema, error: Exception) -> NoReturn:
    """Raise `TraceError` that says which line could not be read."""
    check = Checker(path)
    try:
        with gzip.open(plain) if plain.suffix == ".gz" else plain.open("rb") as lines:
            first = 1
            while not check.problems and (batch := list(islice(lines, LINES_AT_A_TIME))):
                if _problem(batch, schema):
                    number, wrong = next(
                        (n, w) for n, line in enumerate(batch, first) if (w := _problem([line], schema))
                    )
                    check.add(wrong, f"a JSON object with {', '.join(schema)}", number)
                first += len(batch)
    except (OSError, EOFError, zlib.error) as damage:
        error = damage
    check.raise_problems()
    check.refuse(f"damaged contents ({str(error)[:200]})", "a file of one JSON object a line")


def _problem(lines: list[bytes], schema: pl.Schema) -> str:
    """Return why these lines cannot be read; empty where they can."""
    try:
        pl.read_ndjson(b"".join(lines), schema=schema)
    except DAMAGED as error:
        return str(error).splitlines()[0][:200]
    return ""
