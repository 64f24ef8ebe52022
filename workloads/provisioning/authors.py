"""The CSV format of [3]'s authors: one row an application, tabs between columns, with a header.

- ``app_id``, the application's name;
- ``nb_instances``, its replicas;
- ``core`` and ``memory``, the demand of a replica: a number, or a list of numbers, one for each time point,
  ``[0.5, 0.7]``;
- ``inter_degree``, the number of limits in ``inter_aff``;
- ``inter_aff``, limits of other applications on its nodes: ``[(7, 2), (9, 0)]`` allows two replicas of 7 and none of 9.
  A limit of the application itself is the number of its replicas on a node, at least one.

Files may be compressed (.gz, .xz, .bz2; .zst for reading only).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from plb.array_types import Float, Int, Int32
from plb.errors import InvalidValueError
from plb.provisioning import Affinity, Instance
from plb.provisioning.instance import ANY_NUMBER
from workloads.column_checks import ROWS_LISTED, Checker
from workloads.provisioning.user_units import MOST_DEMAND, PAPER_NODES, NodeSpec, build_instance
from workloads.readers.external_sort import ROW
from workloads.readers.files import PACKED_TABLES, STREAMED, UNPACKED, TextTable

MOST_COMPARED = 20_000
"""Largest number of names in which the nearest to another is searched."""
MOST_REPLICAS = 10**6
"""Largest number of replicas of an application in a file."""
WRITERS = {**UNPACKED, **PACKED_TABLES}
"""Functions that open a file for writing with compression, by its ending."""


def writer_of(path: Path) -> Callable[..., Any]:
    """Return the function that opens a file for writing, compressed by its ending.

    Raise `InvalidValueError` for .zst.
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
    """Return all rows of a file in the form `table`; raise `TraceError` for bad rows, or if no rows are not allowed."""
    with tempfile.TemporaryDirectory(prefix="plb-") as scratch:
        columns = [pl.col(name) for name in table.columns]
        return table.whole(path, Path(scratch), columns, may_be_empty=may_be_empty).drop(ROW)


def read_headed(path: Path, columns: Sequence[str], separator: str = ",") -> pl.DataFrame:
    """Return a text table whose first line names its columns, without empty fields, or raise `TraceError`."""
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
    """Return a column of texts as whole numbers.

    Record the rows without one from `low` to `high`, which become `low`.
    """
    values = frame[column].str.strip_chars().cast(pl.Int64, strict=False)
    good = values.is_between(low, high).fill_null(value=False)
    check.bad_rows(~good.to_numpy(), column, frame[column], f"a whole number from {low} to {high}")
    return np.where(good.to_numpy(), values.fill_null(low).to_numpy(), low).astype(np.int32)


def unknown_names(check: Checker, column: str, names: pl.Series, listed: Sequence[str], expected: str) -> Int32:
    """Return the position of each name in `listed`, -1 if unknown; record unknown names with the nearest listed one.

    `column` and `expected` are for the problems.
    """
    position = positions(names, listed)
    wrong = np.flatnonzero(position < 0)
    unknown = names.gather(wrong)

    def row_text(index: int) -> str:
        """Return the unknown name with an index in words."""
        return f"{unknown[index]!r}{nearest_of(unknown[index], listed)}"

    check.some_rows(check.rows_above + wrong + 1, row_text, expected, column)
    return position


def nearest_of(name: str | None, listed: Sequence[str]) -> str:
    """Return a hint at the name of `listed` that is nearest to a name; empty if none is near or there are many."""
    close = get_close_matches(name or "", listed, n=1) if len(listed) <= MOST_COMPARED else []
    return f" (did you mean {close[0]!r}?)" if close else ""


def positions(names: pl.Series, listed: Sequence[str]) -> Int32:
    """Return the position of each name in `listed`, (len(names),); -1 if it is not there."""
    index = pl.DataFrame({"name": pl.Series(listed, dtype=pl.String)}).with_row_index("position")
    joined = (
        names.alias("name")
        .to_frame()
        .join(index.unique("name", keep="first"), on="name", how="left", maintain_order="left")
    )
    return joined["position"].cast(pl.Int32).fill_null(-1).to_numpy()


COLUMNS = ("app_id", "nb_instances", "core", "memory", "inter_degree", "inter_aff")
"""Columns of a file, in order."""
RESOURCES = ("core", "memory")
"""Columns with demand."""
MOST_LISTED = 10**9
"""Largest number of limits in a row."""
ROWS_A_PIECE = 1000
"""Applications whose limits are parsed at a time: the text takes several times the memory of the numbers."""

NAME = r"[^\s,'\"()\[\]]+"
LIMIT = rf"\('?{NAME}'?, ?\d+\)"
LIMITS = rf"^\[({LIMIT}(, ?{LIMIT})*)?\]$"
BESIDE_NUMBERS = r"[\[\]()' ]"
"""Everything between names, numbers and commas in a list of limits."""


def read_authors(path: str | Path, *, nodes: Sequence[NodeSpec] = PAPER_NODES) -> Instance:
    """Read an instance.

    Parameters
    ----------
    path
        The file.
    nodes
        The kinds of nodes in the order of their use; the file has none.

    Raises
    ------
    TraceError
        There is no such file, it is damaged, or rows are wrong: it names file, row (the line, from 1) and column.
    InvalidValueError
        A replica fits on no node.
    """
    path = Path(path)
    need_file(path, f"a file with columns {', '.join(COLUMNS)}")
    frame = read_headed(path, COLUMNS, "\t")
    check = Checker(path, rows_above=1)
    names = frame["app_id"]
    check.bad_rows(~names.str.contains(f"^{NAME}$").to_numpy(), "app_id", names, "a name without blanks or brackets")
    check.distinct(names, "app_id", "an application that no row above has")
    replicas = whole_numbers(check, frame, "nb_instances", low=1)
    listed = _check_limits(check, frame)
    demand = _demand(check, frame)
    affinity = _limits(check, frame, listed)
    check.raise_problems()
    return build_instance(
        name=path.name.split(".")[0],
        resources=RESOURCES,
        applications=names.to_list(),
        replicas=replicas,
        demand=demand,
        affinity=affinity,
        nodes=nodes,
    )


def _demand(check: Checker, frame: pl.DataFrame) -> Float:
    """Return the demand of a replica, (L, R, T), after checks of all rows."""
    values = [_numbers(frame[resource]) for resource in RESOURCES]
    lengths = pl.concat([numbers.list.len() for numbers in values])
    points = int(np.bincount(lengths.fill_null(1).to_numpy()).argmax())
    number = f"a number from 0 to {MOST_DEMAND:g}"
    expected = number if points == 1 else f"{points} numbers from 0 to {MOST_DEMAND:g}, as many as in most rows"
    for resource, numbers in zip(RESOURCES, values, strict=True):
        inside = numbers.list.eval(pl.element().is_between(0.0, MOST_DEMAND).fill_null(value=False)).list.all()
        good = (inside & (numbers.list.len() == points)).fill_null(value=False).to_numpy()
        check.bad_rows(~good, resource, frame[resource].str.slice(0, 60), expected)
    check.raise_problems()
    rows = [numbers.explode().to_numpy().reshape(len(frame), -1) for numbers in values]
    return np.stack(rows, axis=1).astype(np.float64)


def _numbers(text: pl.Series) -> pl.Series:
    """Return numbers or lists of numbers as lists; null where one is neither."""
    is_list = text.str.contains(r"^\[.*\]$")
    inner = text.str.strip_chars("[]").str.replace_all(" ", "", literal=True)
    plain = ~text.str.contains(r"[\[\],]")
    lists = inner.str.split(",").cast(pl.List(pl.Float64), strict=False)
    return pl.select(pl.when(is_list | plain).then(lists)).to_series()


def _check_limits(check: Checker, frame: pl.DataFrame) -> Int:
    """Return the number of limits in each row, (L,); record rows with an invalid list or another ``inter_degree``."""
    text = frame["inter_aff"]
    good = text.str.contains(LIMITS)
    check.bad_rows(~good.to_numpy(), "inter_aff", text.str.slice(0, 60), "a list such as [(7, 2), (9, 0)]")
    listed = text.str.count_matches("(", literal=True).to_numpy()
    degree = whole_numbers(check, frame, "inter_degree", high=MOST_LISTED)
    wrong = good.to_numpy() & (degree != listed)
    check.bad_rows(wrong, "inter_degree", frame["inter_degree"], "as many as inter_aff lists")
    return listed


def _limits(check: Checker, frame: pl.DataFrame, listed: Int) -> Affinity:
    """Return the limits between applications in column ``inter_aff``; record applications in them that no row has.

    `listed`, (L,), is the number of limits in each row.
    """
    text, names = frame["inter_aff"], frame["app_id"].to_list()
    target, most = np.empty(listed.sum(), np.int32), np.empty(listed.sum(), np.int32)
    parsed = 0
    for first in range(0, len(text), ROWS_A_PIECE):
        piece = text.slice(first, ROWS_A_PIECE)
        fields = piece.str.replace_all(BESIDE_NUMBERS, "").filter(piece != "[]").str.split(",").explode()
        target_names = fields.gather_every(2)
        end = parsed + len(target_names)
        target[parsed:end] = positions(target_names, names)
        allowed = fields.gather_every(2, 1).cast(pl.Float64).clip(0, ANY_NUMBER - 1)  # no node holds as many
        most[parsed:end] = allowed.to_numpy()
        for index in np.flatnonzero(target[parsed:end] < 0)[:ROWS_LISTED]:
            row = int(np.searchsorted(np.cumsum(listed), parsed + index, side="right"))
            target_name = target_names[int(index)]
            problem = f"a limit for application {target_name!r}{nearest_of(target_name, names)}"
            check.add(problem, "one that a row has", row + 2, "inter_aff")
        parsed = end
    return Affinity(np.repeat(np.arange(len(names), dtype=np.int32), listed), target, most)
