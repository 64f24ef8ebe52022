"""Reader of any table of demand, CSV, Parquet or a data frame: the user says which columns mean what.

A table has one of four forms:

- a row for each tenant and time, with a column for each metric (``id`` names the tenant);
- a row for each time, with a column for each tenant (a ``*`` in the column of a metric stands for the tenant);
- a row for each tenant, time and metric (``names`` and ``values`` are the columns of its name and its value);
- a row for each stay of a tenant, with constant demand from ``start`` to ``end``, without ``time``.

Without ``id`` and ``*``, a file is one tenant with the name of the file. A table is read twice: the first time to see
what is in it (`TablePreview`), the second time to convert it by the rules of `workloads.readers.sampled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import numpy as np
import polars as pl

from plb.errors import UnknownNameError
from plb.phrasing import counted, listed
from workloads.column_checks import Checker
from workloads.readers.base import Options, listed_classes, one_class
from workloads.readers.convert import read_public
from workloads.readers.external_sort import OWNER, ROW, TIME, Frame
from workloads.readers.sampled import SampledReader
from workloads.readers.table_columns import (
    CLASS,
    END,
    IN_WORDS,
    METRIC,
    FrameTable,
    ParsedTable,
    Table,
    TableColumns,
    TableLayout,
    TableParser,
    TextFile,
    as_polars,
    layout_of,
    open_tables,
)
from workloads.readers.values import TimeForm, number_form, time_form
from workloads.trace import DAY_SECONDS, STEP_SECONDS, TraceSet

EXAMPLE_ROWS = 10_000
"""Rows of the first file from which the forms of numbers and times are told."""
EXAMPLE_TENANTS = 100
"""Tenants from whose times the step is told."""
USUAL_STEPS = np.array([1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14_400, 86_400])
"""Steps in seconds to which irregular intervals are rounded if they are within a tenth of one."""


@attrs.frozen(kw_only=True)
class TablePreview:
    """What was understood of a table before it is converted."""

    source: str
    """The file, directory or data frame."""
    form: str
    """Separator and decimal mark in words."""
    rows: int
    """Number of rows of the table, in which several tenants may have columns."""
    time: str
    """Columns and form of the times."""
    first: str
    """The first time."""
    last: str
    """The last time."""
    tenants: int
    """Number of tenants."""
    tenant: str
    """Columns of the tenant in words."""
    classes: int
    """Number of classes."""
    step_seconds: float
    """Sampling interval of the converted trace, seconds."""
    step: str
    """How the step was told."""
    steps: int
    """Number of steps between the first and last row of each tenant; 0 for stays."""
    steps_missing: int
    """Number of these without a usable row."""
    metrics: Mapping[str, str]
    """Column, unit, range and number of missing and negative values of each metric, in words."""

    def __str__(self) -> str:
        share = self.steps_missing / max(self.steps, 1)
        lines = [
            f"{self.source}: {self.rows:,} rows{self.form}",
            f"time    {self.time}; {self.first} to {self.last}",
            f"tenant  {self.tenant}; {counted(self.tenants, 'tenant')}"
            + (f" of {self.classes:,} classes" if self.classes > 1 else ""),
            f"step    {self.step_seconds:g} s, {self.step}"
            + (
                f"; {self.steps_missing:,} of {self.steps:,} steps ({share:.1%}) without a usable row"
                if self.steps
                else ""
            ),
            *(f"metric  {name}: {words}" for name, words in self.metrics.items()),
        ]
        return "\n".join(lines)


@attrs.frozen(eq=False)
class TableContent:
    """The rows of a table, added up."""

    rows: int
    owners: pl.DataFrame
    """A row for each owner: ``owner``, ``first``, ``last``, ``end`` (seconds), ``usable`` (rows), ``tenant_class``."""
    metrics: pl.DataFrame
    """A row for each chunk and metric: ``metric``, ``low``, ``high``, ``missing``, ``negative``."""
    example: pl.DataFrame
    """Owners and times of some owners."""

    @property
    def last(self) -> int:
        """The last time or end."""
        return max(int(self.owners[name].max() or 0) for name in ("last", "end"))  # type: ignore[arg-type]


def _counted(tables: Sequence[ParsedTable], options: Options, scratch: Path) -> TableContent:
    """Read all rows of some tables, and return what they have in total, by tenant and by metric."""
    rows, owners, metrics, example = 0, [], [], []
    example_owners: pl.Series | None = None
    for table, parser in tables:
        for chunk in table.chunks(parser.layout.needed, _rows_at_once(parser.layout, options), scratch):
            rows += len(chunk)
            parsed = parser.rows(table.path, chunk)
            owners.append(_owners(parsed, parser.layout))
            metrics += [_metric_counts(parsed, info.name) for info in parser.layout.infos]
            if example_owners is None or len(example_owners) < EXAMPLE_TENANTS:
                seen = owners[-1][OWNER] if example_owners is None else pl.concat([example_owners, owners[-1][OWNER]])
                example_owners = seen.unique(maintain_order=True).head(EXAMPLE_TENANTS)
            example.append(parsed.select(OWNER, TIME).filter(pl.col(OWNER).is_in(example_owners.implode())))
    if not rows:
        Checker(tables[0][0].path).refuse("no rows", "a row for each sample")
    together = pl.concat(owners).group_by(OWNER, maintain_order=True)
    return TableContent(
        rows,
        together.agg(
            pl.col("first").min(),
            pl.col("last", "end").max(),
            pl.col("usable").sum(),
            pl.col(CLASS).drop_nulls().first(),
        ),
        pl.concat(metrics),
        pl.concat(example),
    )


def _owners(parsed: pl.DataFrame, layout: TableLayout) -> pl.DataFrame:
    """Return a row for each owner of parsed rows, as in `TableContent`."""
    usable = pl.col("refused").is_null()
    if layout.columns.names is not None:
        usable &= pl.col(layout.infos[0].name).is_not_null()
    return parsed.group_by(OWNER, maintain_order=True).agg(
        pl.col(TIME).filter(usable).min().alias("first"),
        pl.col(TIME).filter(usable).max().alias("last"),
        (pl.col(END).max() if END in parsed.columns else pl.lit(None, pl.Int64)).alias("end"),
        usable.sum().cast(pl.Int64).alias("usable"),
        (pl.col(CLASS).first() if CLASS in parsed.columns else pl.lit("all")).alias(CLASS),
    )


def _metric_counts(parsed: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the range of a metric in parsed rows, and how many values are missing or negative."""
    value = pl.col(name)
    finite = value.is_finite().fill_null(value=False)
    return parsed.select(
        pl.lit(name).alias(METRIC),
        value.filter(finite).min().alias("low"),
        value.filter(finite).max().alias("high"),
        (~finite).sum().cast(pl.Int64).alias("missing"),
        (value < 0).sum().cast(pl.Int64).alias("negative"),
    )


def _step(source: Path, content: TableContent, columns: TableColumns) -> tuple[float, str, float]:
    """Return the step in seconds, where it comes from in words, and how many seconds samples come after whole steps."""
    if columns.step is not None:
        return float(round(columns.step)), "as asked for", 0.0
    if columns.time is None:
        return STEP_SECONDS, "the default for stays", 0.0
    times = content.example.drop_nulls().unique().sort(OWNER, TIME)
    intervals = times.select(pl.col(TIME).diff().over(OWNER)).to_series().drop_nulls().to_numpy()
    intervals = intervals[intervals > 0]
    if not len(intervals):
        Checker(source).refuse("no tenant with two times", "a step: the option step")
    lengths, counts = np.unique(intervals, return_counts=True)
    step, share = int(lengths[counts.argmax()]), counts.max() / len(intervals)
    if share < 0.5:
        median = np.median(intervals)
        nearest = USUAL_STEPS[np.abs(USUAL_STEPS - median).argmin()]
        step = int(nearest if abs(nearest - median) <= median / 10 else max(round(median), 1))
    angles = times[TIME].to_numpy() % step * (2 * np.pi / step)
    phase = float(np.angle(np.exp(1j * angles).mean())) * step / (2 * np.pi)
    words = f"that of {share:.1%} of the intervals" if share >= 0.5 else "from irregular intervals"
    return float(step), words, round(step / 2 - phase)


def _origin(content: TableContent, times: TimeForm) -> tuple[int, str]:
    """Return the origin of a trace in seconds of the table, and in words: the midnight before the first time."""
    first = int(content.owners["first"].min() or 0)  # type: ignore[arg-type]
    if not times.is_date:
        origin = min(first // DAY_SECONDS * DAY_SECONDS, 0)
        return origin, f"second {origin} of the table"
    zone = ZoneInfo(times.zone)
    midnight = datetime.fromtimestamp(first, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return int(midnight.timestamp()), f"{midnight.isoformat(timespec='minutes')}, midnight in {times.zone}"


def _frames(
    _source: Path,
    options: Options,
    scratch: Path,
    *,
    tables: Sequence[ParsedTable],
    origin: float,
    last: int,
    step: float,
) -> Iterator[Frame]:
    """Yield the rows of tables, with times in seconds since `origin`; a stay of unknown end lasts until `last`."""
    for table, parser in tables:
        for chunk in table.chunks(parser.layout.needed, _rows_at_once(parser.layout, options), scratch):
            rows = parser.rows(table.path, chunk)
            if parser.layout.columns.time is None:
                yield from _stays(parser, table.path, rows, options, origin=origin, last=last, step=step)
                continue
            if END in rows.columns:
                rows = rows.with_columns(pl.when(pl.col(END) < last).then(pl.col(END) - origin).alias(END))
            yield Frame(path=table.path, rows=rows.with_columns((pl.col(TIME) - origin).alias(TIME)))


def _rows_at_once(layout: TableLayout, options: Options) -> int:
    """Return the number of rows of a table that are read at a time."""
    return max(1, options.rows_in_memory // max(len(layout.cells), 1))


def _stays(
    parser: TableParser, path: Path, rows: pl.DataFrame, options: Options, *, origin: float, last: int, step: float
) -> Iterator[Frame]:
    """Yield a row for each step of `step` seconds of stays, rows with start and end, with times since `origin`.

    A stay without an end lasts until `last`.
    """
    end = pl.col(END).fill_null(last)
    first = ((pl.col(TIME) - origin) // step).cast(pl.Int64)
    beyond = ((end - origin) / step).ceil().cast(pl.Int64)
    rows = rows.with_columns(
        first.alias("first"),
        pl.when(pl.col("refused").is_null() & pl.col(TIME).is_not_null()).then(beyond - first).otherwise(1).alias("n"),
        pl.when(pl.col(END) < last).then(pl.col(END) - origin).alias(END),
    )
    # a row that is refused keeps one step, in which it is counted
    check = Checker(path)
    most = options.rows_in_memory
    expected = f"at most {most:,}, the rows in memory: a longer step, or more rows"
    wrong = rows.filter(pl.col("n") > most)
    column = parser.layout.columns.end
    check.some_rows(wrong[ROW], lambda position: f"a stay of {wrong['n'][position]:,} steps", expected, column)
    check.raise_problems()
    batch = rows["n"].cum_sum() // most
    for number in batch.unique(maintain_order=True):
        some = rows.filter(batch == number)
        steps = some.with_columns(
            pl.int_ranges(pl.col("first").fill_null(0), pl.col("first").fill_null(0) + pl.col("n").clip(1)).alias(
                "steps"
            )
        ).explode("steps")
        time = pl.when(pl.col(TIME).is_not_null()).then(pl.col("steps") * step).alias(TIME)
        yield Frame(path=path, rows=steps.with_columns(time).drop("first", "n", "steps"))


def table_reader(
    source: Path, columns: TableColumns, options: Options | None = None, tables: Sequence[Table] | None = None
) -> tuple[SampledReader, TablePreview]:
    """Return the reader of the tables of a source, for `workloads.readers.convert`, and what was understood of them.

    `source`: a file, or a directory of files with the same columns; `tables`: its tables, if they are open. A missing
    or damaged file, or a field that is no number or time, raises `TraceError` with file, row and column; a column that
    a table lacks, `UnknownNameError`.
    """
    with TemporaryDirectory() as name:
        scratch = Path(name)
        tables = open_tables(source, scratch) if tables is None else tables
        layout, *further_layouts = [layout_of(table, columns) for table in tables]
        parser = _parser(tables[0], layout, scratch)
        parsers = [parser, *(attrs.evolve(parser, layout=further) for further in further_layouts)]
        parsed = list(zip(tables, parsers, strict=True))
        content = _counted(parsed, options or Options(), scratch)
        _check_names(parsed[0], content, scratch)
    if content.owners["first"].count() == 0:
        counts = ", ".join(_metric_words(content, layout).values())
        Checker(source).refuse(f"no usable row ({counts})", "at least one with all metrics, at least 0")
    _check_distinct(source, content, columns)
    step, told, late = _step(source, content, columns)
    origin, origin_words = _origin(content, parser.times)
    reader = SampledReader(
        name="table",
        files=IN_WORDS,
        metrics=layout.infos,
        origin=origin_words,
        request=f"columns {listed(list(layout.limits.values()))}" if layout.limits else "the largest usage",
        frames=partial(_frames, tables=parsed, origin=origin - late, last=content.last, step=step),
        places=(", ".join(columns.id) or "the tenant", ", ".join(layout.times[:1])),
        reasons=parser.reasons,
        classes=listed_classes if columns.tenant_class else one_class("all"),
        one_metric_a_row=columns.names is not None,
        clip=False,
        step_seconds=step,
    )
    return reader, _preview(source, tables[0], parser, content, (step, told))


def _check_distinct(source: Path, content: TableContent, columns: TableColumns) -> None:
    """Raise `TraceError` if most rows repeat a tenant and time, because a column was not named."""
    times = content.example.drop_nulls()
    distinct = times.n_unique() if len(times) else 0
    if columns.time is not None and columns.names is None and len(times) > 2 * distinct:
        expected = "a row for each: another column of the tenant (id), or times to the second"
        Checker(source).refuse(f"{len(times):,} rows of only {distinct:,} tenants and times", expected)


def _check_names(parsed: ParsedTable, content: TableContent, scratch: Path) -> None:
    """Raise `UnknownNameError` if no row has the name of a metric, where each has its own rows."""
    (table, parser), column = parsed, parsed[1].layout.columns.names
    if column is None:
        return
    counts = content.metrics.group_by(METRIC).agg(pl.col("low").count())
    for info, name in parser.layout.metrics:
        if not counts.filter(pl.col(METRIC) == info.name)["low"].sum():
            example = next(iter(table.chunks([column], EXAMPLE_ROWS, scratch)))
            names = example[column].cast(pl.String).str.strip_chars().drop_nulls().unique().sort().to_list()
            raise UnknownNameError("metric", name, names, f"{table.path}: {column}")


def _parser(table: Table, layout: TableLayout, scratch: Path) -> TableParser:
    """Return the parser of tables; it knows how they write numbers and times from the first rows of `table`."""
    columns, check = layout.columns, Checker(table.path)
    example = next(iter(table.chunks(layout.needed, EXAMPLE_ROWS, scratch)), None)
    if example is None or not len(example):
        check.refuse("no rows", "a row for each sample")
    numbers = number_form(check, example, layout.numbers, columns.decimal)
    times = time_form(
        check,
        example,
        layout.times[0],
        columns.timezone,
        text_format=columns.time_format,
        unit=columns.time_unit,
    )
    return TableParser(layout=layout, numbers=numbers, times=attrs.evolve(times, numbers=numbers))


def _preview(
    source: Path, table: Table, parser: TableParser, content: TableContent, step: tuple[float, str]
) -> TablePreview:
    """Return what was understood of a table; `step`: its seconds, and where they come from in words."""
    layout, owners = parser.layout, content.owners
    steps = ((owners["last"] - owners["first"]) // int(step[0]) + 1).fill_null(0)
    is_stay = layout.columns.time is None
    form = ""
    if isinstance(table, TextFile):
        form = f", separated by {table.separator!r}, decimal mark {parser.numbers.decimal!r}"
    tenant = ", ".join(map(repr, layout.columns.id)) or ("names of columns" if layout.cells else "name of the file")
    return TablePreview(
        source=str(source),
        form=form,
        rows=content.rows,
        time=f"{', '.join(map(repr, layout.times))}: {parser.times.words}",
        first=_time_words(owners["first"].min(), parser.times),
        last=_time_words(content.last if is_stay else owners["last"].max(), parser.times),
        tenants=len(owners),
        tenant=tenant,
        classes=owners[CLASS].n_unique(),
        step_seconds=step[0],
        step=step[1],
        steps=0 if is_stay else int(steps.sum()),
        steps_missing=int((steps - owners["usable"]).clip(0).sum()),
        metrics=_metric_words(content, layout),
    )


def _time_words(seconds: Any, times: TimeForm) -> str:
    """Return a time of a table in words."""
    if not times.is_date:
        return f"{seconds:,} s"
    return datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(times.zone)).isoformat()


def _metric_words(content: TableContent, layout: TableLayout) -> dict[str, str]:
    """Return column, unit, range and counts of each metric in words."""
    words = {}
    for info, column in layout.metrics:
        counts = content.metrics.filter(pl.col(METRIC) == info.name)
        low, high = counts["low"].min(), counts["high"].max()
        inside = "no number" if low is None else f"{float(low):g} to {float(high):g}"  # type: ignore[arg-type]
        missing = "" if layout.columns.names else f", {int(counts['missing'].sum()):,} missing"
        unit = f" in {info.unit}" if info.unit else " without a unit"
        words[info.name] = f"{column!r}{unit}, {inside}{missing}"
        negative = int(counts["negative"].sum())
        words[info.name] += f", {negative:,} negative" if negative else ""
    return words


def from_frame(frame: Any, metrics: str | Sequence[str], *, options: Options | None = None, **columns: Any) -> TraceSet:
    """Return the traces of a data frame of pandas or Polars, by the rules of `plb traces convert`.

    Parameters
    ----------
    frame
        The data frame. The index of a pandas frame can be named like a column.
    metrics
        Metrics as ``NAME``, ``NAME=COLUMN`` or ``NAME=COLUMN:UNIT``, with ``*`` where each tenant has its own column.
    options
        How to convert: gaps, shortest and longest lives.
    **columns
        The other fields of `TableColumns`, such as ``time="at", id="vm"``.

    Returns
    -------
    TraceSet
        The traces, for `workloads.trace_files.write_traces`.

    Raises
    ------
    TraceError
        A field is no number or time, or no row can be used; it names row and column.
    """
    wanted = TableColumns(metrics=metrics, **columns)
    table = FrameTable(as_polars(frame))
    reader, _ = table_reader(table.path, wanted, options, [table])
    return read_public(reader, table.path, options)[0]
