"""The tables of users: text files, Parquet files and data frames, where they have what, and what their rows say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias
from zoneinfo import ZoneInfo

import attrs
import numpy as np
import polars as pl

from plb.array_types import Bool
from plb.errors import MOST_LISTED, ConflictError, InvalidValueError, UnknownNameError
from plb.phrasing import listed
from plb.validation import check_known, check_number
from workloads.column_checks import Checker
from workloads.readers.base import MISSING, NEGATIVE, measured
from workloads.readers.external_sort import OWNER, ROW, TIME
from workloads.readers.files import Batches, TextTable, header_of, need_files, parquet_chunks
from workloads.readers.values import NumberForm, TimeForm
from workloads.trace import MetricInfo
from workloads.trace_validation import Header

FILES = ("*.csv", "*.tsv", "*.txt", "*.parquet")
"""Patterns of the files of a directory."""
IN_WORDS = "a file .csv, .tsv, .txt (also .gz, .zst, .xz, .bz2) or .parquet, or a directory of such files"
OUTSIDE = "outside the start and end of the tenant"
BACKWARDS = "that end before they start"
OTHER_METRIC = "of a metric that is not asked for"
END, CLASS, METRIC = "end_s", "tenant_class", "metric"
"""Names of further columns of a `Frame`; the last one is dropped before."""


class MetricColumn(NamedTuple):
    """A metric and its place in a table."""

    info: MetricInfo
    """Name, unit and trend."""
    column: str
    """The column, with ``*`` for the tenant where each has its own; with ``names``, the name of the metric there."""


def _texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one text, several or none as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(kw_only=True)
class TableColumns:
    """What the columns of a table mean."""

    metrics: tuple[str, ...] = attrs.field(converter=_texts)
    """Metrics as ``NAME``, ``NAME=COLUMN`` or ``NAME=COLUMN:UNIT``."""
    time: str | None = None
    """Column of the time of a sample."""
    id: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Column of the tenant; several are joined by ``/``."""
    tenant_class: str | None = None
    """Column of the class of the tenant. None: all tenants are of the class ``all``."""
    start: str | None = None
    """Column of the time when the tenant began."""
    end: str | None = None
    """Column of the time when the tenant ended; empty where it did not."""
    names: str | None = None
    """Column of the name of the metric, where each metric has its own row."""
    values: str | None = None
    """Column of its value."""
    limits: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """MaxUsage of metrics as ``NAME=COLUMN``. Usage above it raises it."""
    trends: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Names of metrics that grow to a maximum and stay there, such as disk."""
    step: float | None = None
    """Sampling interval in seconds. None: the interval of the table, 600 s for stays."""
    timezone: str = "UTC"
    """Time zone of times without one, such as ``Europe/Berlin``; its midnight is the origin of the trace."""
    time_format: str | None = None
    """Format of times, such as ``%d/%m/%Y %H:%M``. None: told from the table."""
    time_unit: float | None = None
    """Unit of times that are numbers, seconds. None: told from the table."""
    decimal: str | None = None
    """Decimal mark, ``.`` or ``,``. None: told from the table."""

    def __attrs_post_init__(self) -> None:
        """Raise an error if the named columns do not go together, or an option is invalid."""
        item = "table"
        if self.time is None and (self.start is None or self.end is None):
            raise ConflictError("table: name the column of the time (time), or those of the start and end of a stay")
        if self.time is None and not self.id:
            raise ConflictError("table: stays need the column of the tenant (id)")
        if (self.names is None) != (self.values is None):
            raise ConflictError("table: names and values belong together: a metric's name and its value")
        if self.names is not None and (self.limits or self.time is None):
            raise ConflictError("table: names and values go with neither limits nor stays")
        if self.decimal not in (None, ".", ","):
            raise InvalidValueError(item, "decimal", self.decimal, "'.' or ','")
        for field in ("step", "time_unit"):
            if getattr(self, field) is not None:
                check_number(item, field, getattr(self, field), low=1.0 if field == "step" else 1e-9)
        try:
            ZoneInfo(self.timezone)
        except (ValueError, LookupError, OSError):
            allowed = "the name of a time zone, such as UTC or Europe/Berlin"
            raise InvalidValueError(item, "timezone", self.timezone, allowed) from None


class Table(Protocol):
    """A file or data frame with columns by name."""

    @property
    def path(self) -> Path:
        """The file, for messages."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Types of the columns by name."""

    def chunks(self, names: Sequence[str], rows: int, scratch: Path) -> Batches:
        """Yield these columns and ``row``, at most `rows` rows at a time."""


@attrs.frozen
class TextFile:
    """A text file whose fields are read as texts."""

    path: Path
    separator: str
    schema: Mapping[str, Any]
    above: int
    """Number of lines before the header."""

    def chunks(self, names: Sequence[str], rows: int, scratch: Path) -> Batches:
        """Yield columns and ``row``, the line in the file, at most `rows` rows at a time; empty lines are left out."""
        table = TextTable(columns=self.schema, separator=self.separator, header=True, above=self.above)
        for chunk in table.chunks(self.path, scratch, rows, [pl.col(name) for name in names]):
            yield chunk.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in names))


@attrs.frozen
class ParquetFile:
    """A Parquet file."""

    path: Path
    schema: Mapping[str, Any]
    """The properties of `Table` with these names."""

    def chunks(self, names: Sequence[str], rows: int, scratch: Path) -> Batches:
        """Yield columns of the Parquet file and ``row``, its row from 1, at most `rows` rows at a time."""
        return parquet_chunks(self.path, rows, [pl.col(name) for name in names])


@attrs.frozen(eq=False)
class FrameTable:
    """A data frame in memory."""

    frame: pl.DataFrame
    """The data frame."""
    path: Path = Path("data frame")
    """Name of the frame in messages."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Types of the columns by name."""
        return self.frame.schema

    def chunks(self, names: Sequence[str], rows: int, scratch: Path) -> Batches:
        """Yield columns of the frame and ``row``, its row from 1, at most `rows` rows at a time."""
        return self.frame.select(*names).with_row_index(ROW, 1).iter_slices(rows)


def open_tables(source: Path, scratch: Path) -> list[Table]:
    """Return the tables of a source: a file, or all files of a directory."""
    if not source.exists():
        Checker(source).refuse("no such file or directory", IN_WORDS)
    return [_open(path, scratch) for path in need_files(source, FILES, IN_WORDS)]


def _open(path: Path, scratch: Path) -> Table:
    """Return a file as a table."""
    check = Checker(path)
    if path.suffix == ".parquet":
        return ParquetFile(path, check.head().schema)
    separator, names, above = header_of(path, scratch)
    if not names:
        check.refuse("no header", "a first line with the names of the columns", 1)
    again = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if again:
        check.refuse(f"the name {again[0]!r} of several columns", "names that differ", 1)
    return TextFile(path, separator, dict.fromkeys(names, pl.String), above)


@attrs.frozen(kw_only=True, eq=False)
class TableLayout:
    """Where a table has what: the columns of `TableColumns` in one table."""

    columns: TableColumns
    metrics: tuple[MetricColumn, ...]
    limits: Mapping[str, str]
    """Columns of the limits by metric."""
    cells: Mapping[str, tuple[str, ...]]
    """Columns of the metrics by tenant, if a tenant has its own."""

    @property
    def infos(self) -> tuple[MetricInfo, ...]:
        """The metrics."""
        return tuple(metric.info for metric in self.metrics)

    @property
    def numbers(self) -> list[str]:
        """Columns with numbers."""
        if self.columns.values is not None:
            return [self.columns.values]
        own = [name for names in self.cells.values() for name in names]
        return list(dict.fromkeys([*(own or [metric.column for metric in self.metrics]), *self.limits.values()]))

    @property
    def times(self) -> list[str]:
        """Columns with times."""
        columns = self.columns
        return list(dict.fromkeys(name for name in (columns.time, columns.start, columns.end) if name is not None))

    @property
    def needed(self) -> list[str]:
        """All columns that are read."""
        columns = self.columns
        other_columns = [name for name in (*columns.id, columns.tenant_class, columns.names) if name is not None]
        return list(dict.fromkeys([*self.times, *other_columns, *self.numbers]))


def layout_of(table: Table, columns: TableColumns) -> TableLayout:
    """Return where a table has what, or raise an error that names a column that it lacks."""
    names, where = list(table.schema), str(table.path)
    metrics = _metrics(columns, names, where)
    limits = dict(_pair(text) for text in columns.limits)
    for kind, chosen in (("limits", limits), ("trends", columns.trends)):
        for name in chosen:
            check_known("metric", name, [m.info.name for m in metrics], f"table: {kind}")
    cells = _cells(columns, metrics, names, where)
    layout = TableLayout(columns=columns, metrics=metrics, limits=limits, cells=cells)
    for name in layout.needed:
        if name in names:
            continue
        if name in layout.numbers and not (columns.id or columns.names):
            expected = "a column of a metric; * in its place if each tenant has its own column; id if rows name tenants"
            Checker(table.path).refuse(f"no column {name!r}, but {listed(names)}", expected)
        error = UnknownNameError("column", name, names, where)
        if error.nearest or len(names) <= MOST_LISTED:
            raise error
        expected = "the name of a column; if times are names of columns, transpose the table first"
        Checker(table.path).refuse(f"no column {name!r}, but {listed(names)}", expected)
    texts = {*columns.id, columns.names, columns.tenant_class}
    again = [column for column, count in Counter([*layout.times, *texts, *layout.numbers]).items() if count > 1]
    if again:
        raise ConflictError(f"table: column {again[0]!r} stands for two different things")
    return layout


def _pair(text: str) -> tuple[str, str]:
    """Return the name and the column of ``NAME=COLUMN``; without a column, it has the name."""
    name, _, column = text.partition("=")
    return name.strip(), column or name.strip()


def _metrics(columns: TableColumns, names: Sequence[str], where: str) -> tuple[MetricColumn, ...]:
    """Return the metrics of texts ``NAME=COLUMN:UNIT``, where name or unit may be missing; `where`: for errors."""
    metrics = []
    for text in columns.metrics:
        name, column = _pair(text)
        unit = ""
        if ":" in column and column not in names:
            column, _, unit = column.rpartition(":")
        name = name if "=" in text else column
        metrics.append(MetricColumn(MetricInfo(name, unit.strip(), trend=name in columns.trends), column))
    if not metrics:
        raise ConflictError(f"table: no metric; columns of {where}: {listed(list(names))}")
    Header(kind="traces", metrics=tuple(metric.info for metric in metrics), step_seconds=1.0)
    return tuple(metrics)


def _cells(
    columns: TableColumns, metrics: Sequence[MetricColumn], names: Sequence[str], where: str
) -> dict[str, tuple[str, ...]]:
    """Return, for each tenant with columns of its own, the column of each metric; {} if rows name their tenants."""
    wide = [metric for metric in metrics if "*" in metric.column]
    if columns.names is not None or not wide:
        return {}
    if len(wide) < len(metrics) or columns.id or columns.start or columns.end or columns.limits or columns.tenant_class:
        message = "a column for each tenant (*) goes with neither id, class, start, end, limits nor other metrics"
        raise ConflictError(f"table: {message}")
    owners = [_matches(metric.column, [name for name in names if name and name != columns.time]) for metric in wide]
    for metric, columns_of in zip(wide, owners, strict=True):
        lacking = [owner for owner in owners[0] | columns_of if not (owner in owners[0] and owner in columns_of)]
        if lacking or not columns_of:
            fault = (
                f"no column {metric.column!r} for {listed(lacking)}" if lacking else f"columns {listed(list(names))}"
            )
            Checker(Path(where)).refuse(fault, f"a column {metric.column!r} for each tenant")
    return {owner: tuple(columns_of[owner] for columns_of in owners) for owner in owners[0]}


def _matches(pattern: str, names: Sequence[str]) -> dict[str, str]:
    """Return the names that match a pattern with ``*``, by what that stands for."""
    before, _, after = pattern.partition("*")
    expression = re.compile(f"{re.escape(before)}(.+){re.escape(after)}")
    return {match[1]: name for name in names if (match := expression.fullmatch(name))}


@attrs.frozen(kw_only=True, eq=False)
class TableParser:
    """Turns rows of a table into owners, times and values."""

    layout: TableLayout
    """The columns of the table."""
    numbers: NumberForm
    times: TimeForm
    """How the table writes numbers and times."""

    def rows(self, path: Path, chunk: pl.DataFrame) -> pl.DataFrame:
        """Return ``owner``, ``time`` in seconds, metrics, ``refused``, ``row``, and what else the table has.

        Raise `TraceError` for a field that is no number or time.
        """
        columns, check = self.layout.columns, Checker(path)
        parsed = chunk.with_columns(
            *(self.numbers.parsed(check, chunk, name) for name in self.layout.numbers),
            *(self.times.parsed(check, chunk, name) for name in self.layout.times),
            *(_text(chunk, name) for name in (*columns.id, columns.tenant_class, columns.names) if name is not None),
        )
        for name in (*self.layout.times[:1], *columns.id, columns.tenant_class):
            if name is not None:
                expected = "a time" if name in self.layout.times else "a name or whole number"
                check.bad_rows(_is_empty(chunk[name]), name, chunk[name], expected, chunk[ROW])
        check.raise_problems()
        if self.layout.cells:
            return self._wide(parsed)
        owner = pl.concat_str(*columns.id, separator="/") if columns.id else pl.lit(path.name.partition(".")[0])
        other_columns = {CLASS: columns.tenant_class, END: columns.end} | {
            f"limit_{name}": column for name, column in self.layout.limits.items()
        }
        return parsed.select(
            owner.alias(OWNER),
            pl.col(self.layout.times[0]).alias(TIME),
            *(pl.col(column).alias(name) for name, column in other_columns.items() if column is not None),
            *self._values(),
            ROW,
        )

    def _wide(self, parsed: pl.DataFrame) -> pl.DataFrame:
        """Return a row for each tenant and time of rows with a column for each tenant."""
        cells = self.layout.cells
        names = [metric.info.name for metric in self.layout.metrics]
        tenants = pl.Series(OWNER, list(cells), pl.String)
        rows = pl.concat([parsed.select(pl.col(str(self.layout.columns.time)).alias(TIME), ROW)] * len(cells))
        columns_of = zip(names, zip(*cells.values(), strict=True), strict=True)
        values = [pl.concat(parsed.get_column(cell) for cell in column).alias(name) for name, column in columns_of]
        together = rows.with_columns(tenants.gather(np.repeat(np.arange(len(cells)), len(parsed))), *values)
        return together.select(OWNER, TIME, *measured({name: pl.col(name) for name in names}), ROW)

    def _values(self) -> list[pl.Expr]:
        """Return the metrics and the reason to refuse a row, as columns."""
        columns = self.layout.columns
        if columns.names is not None:
            value, name = pl.col(str(columns.values)), pl.col(columns.names)
            asked = name.is_in([metric.column for metric in self.layout.metrics]).fill_null(value=False)
            _, refused = measured({"value": value}, {OTHER_METRIC: ~asked})
            cells = [
                pl.when(name == metric.column).then(value).alias(metric.info.name) for metric in self.layout.metrics
            ]
            return [*cells, refused]
        reasons = {}
        if columns.time is None:
            reasons[BACKWARDS] = pl.col(str(columns.end)) <= pl.col(str(columns.start))
        elif columns.start is not None or columns.end is not None:
            time = pl.col(columns.time)
            before = time < pl.col(columns.start) if columns.start is not None else pl.lit(value=False)
            after = time > pl.col(columns.end) if columns.end is not None else pl.lit(value=False)
            reasons[OUTSIDE] = (before | after).fill_null(value=False)
        return measured({metric.info.name: pl.col(metric.column) for metric in self.layout.metrics}, reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All reasons for which rows are refused."""
        columns = self.layout.columns
        if columns.names is not None:
            return (MISSING, OTHER_METRIC, NEGATIVE)
        if columns.time is None:
            return (MISSING, BACKWARDS, NEGATIVE)
        return (MISSING, OUTSIDE, NEGATIVE) if columns.start or columns.end else (MISSING, NEGATIVE)


ParsedTable: TypeAlias = tuple[Table, TableParser]
"""A table, and the parser of its rows."""


def _is_empty(values: pl.Series) -> Bool:
    """Return whether each field of a column is empty, (rows,)."""
    empty = values.str.strip_chars() == "" if values.dtype == pl.String else values.is_null()
    return empty.fill_null(value=True).to_numpy()


def _text(chunk: pl.DataFrame, name: str) -> pl.Series:
    """Return names or numbers as texts, without blanks around them; an empty one is null."""
    values = chunk[name]
    whole = values.cast(pl.Int64, strict=False) if values.dtype.is_float() else values
    text = whole.cast(pl.String).str.strip_chars()
    return text.set(text == "", None)


def as_polars(frame: Any) -> pl.DataFrame:
    """Return a data frame of Polars or pandas as one of Polars; the index of pandas becomes columns."""
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    if not hasattr(frame, "columns"):
        raise InvalidValueError("from_frame", "frame", type(frame).__name__, "a data frame of Polars or pandas")
    if hasattr(frame, "reset_index"):
        frame = frame.reset_index()
    if len({str(name) for name in frame.columns}) < len(frame.columns):
        raise ConflictError("from_frame: two columns have the same name")
    return pl.DataFrame([_column(frame[name], str(name)) for name in frame.columns])


def _column(values: Any, name: str) -> pl.Series:
    """Return a column of pandas, without the need of PyArrow: missing values are null."""
    kind = getattr(values.dtype, "kind", "O")
    if kind == "M":
        series = pl.Series(name, values.to_numpy(dtype="datetime64[us]"))
        return series if getattr(values.dtype, "tz", None) is None else series.dt.replace_time_zone("UTC")
    if isinstance(values.dtype, np.dtype) and kind in "iufb":
        return pl.Series(name, values.to_numpy())
    cells = [None if absent else value for value, absent in zip(values.tolist(), values.isna().tolist(), strict=True)]
    return pl.Series(name, cells, strict=False)
