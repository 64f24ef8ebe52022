"""Reader of the PlanetLab traces (CoMon): CPU utilisation of virtual machines on ten days of March and April 2011.

Two forms are read: the published directories (``20110303/<vm>``, one whole number a line, one line every 5
minutes), and a Parquet file with the columns ``day``, ``vm`` and ``cpu_pct`` (a list), one row a machine and day.
Every file of a directory is a machine, except files whose names begin with a dot.

- **Metric.** ``cpu`` in percent of the machine's CPU, whose size is not published: demands of two machines do not
  add up to cores. There is neither memory nor disk.
- **Tenants**: one a machine and day, named ``<vm>/<day>@<first step>``; the days of a machine are one family.
  Lifetimes are unknown, so all tenants are censored: each is a day of a longer life.
- **MaxUsage** is 100 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from workloads.column_checks import LATEST, TIMES, Checker
from workloads.readers.base import Options, one_class
from workloads.readers.external_sort import OWNER, ROW, TIME, Clock, Frame, first_reason
from workloads.readers.files import parquet_chunks, trace_files
from workloads.readers.sampled import SampledReader
from workloads.trace import DAY_SECONDS, MetricInfo

SAMPLE_SECONDS = 300
"""Sampling interval of the source."""
SAMPLES_A_DAY = DAY_SECONDS // SAMPLE_SECONDS
"""Samples of a machine in a day."""
DAY = re.compile(r"\d{8}")
"""The name of a day."""
ORIGIN = datetime(2011, 3, 3)
"""The first day that was published."""
CLOCK = Clock(lambda time: time, TIMES, -LATEST)
"""Seconds since `ORIGIN`, negative for earlier days."""
OUT_OF_RANGE = "outside 0 to 100 percent"
FILES = "directories <yyyymmdd> with a file a machine, or a .parquet file with the columns day, vm and cpu_pct"


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    """Yield the rows of all Parquet files of a source, then of all published directories."""
    tables = [source] if source.suffix == ".parquet" else trace_files(source.glob("*.parquet"))
    days = [path for path in sorted(source.glob("**/")) if _start_of_day(path.name) is not None]
    if not tables and not days:
        Checker(source).refuse("no such file" if source.exists() else "no such directory", FILES)
    for table in tables:
        yield from _table_frames(table, options)
    for day in days:
        for path in trace_files(day.iterdir()):
            yield Frame(path=path, rows=_rows_of_machine(path, day.name), clock=CLOCK)


def _start_of_day(day: str) -> int | None:
    """Return the seconds from the origin to a day (yyyymmdd); None if the text is no day."""
    try:
        return (datetime.strptime(day, "%Y%m%d") - ORIGIN).days * DAY_SECONDS if DAY.fullmatch(day) else None
    except ValueError:
        return None


def _rows_of_machine(path: Path, day: str) -> pl.DataFrame:
    """Return the rows of a published file, which has the samples of one machine on a day."""
    values = pl.Series("text", path.read_text(encoding="utf-8", errors="replace").splitlines(), dtype=pl.String)
    numbers = values.str.strip_chars().cast(pl.Float64, strict=False)
    check = Checker(path)
    check.bad_rows(numbers.is_null().to_numpy(), "cpu", values, "a number")
    check.raise_problems()
    start = _start_of_day(day)
    frame = pl.DataFrame({"cpu": numbers}).with_row_index(ROW, 1)
    return frame.select(
        pl.lit(f"{path.name}/{day}").alias(OWNER),
        (start + (pl.col(ROW).cast(pl.Int64) - 1) * SAMPLE_SECONDS).alias(TIME),
        *_measured(),
        ROW,
    )


def _table_frames(path: Path, options: Options) -> Iterator[Frame]:
    """Yield the samples of a Parquet file; all samples of a list have the number of its row."""
    check = Checker(path)
    empty = check.head()
    schema = empty.schema
    check.columns(empty.select(name for name in ("day", "vm") if name in schema), {"day": "text", "vm": "text"})
    if not isinstance(schema.get("cpu_pct"), pl.List):
        check.add(f"type {schema.get('cpu_pct')}", "a column of lists of numbers", column="cpu_pct")
    check.raise_problems()
    requested = [pl.col("day"), pl.col("vm"), pl.col("cpu_pct").cast(pl.List(pl.Float64))]
    for lists in parquet_chunks(path, max(1, options.rows_in_memory // SAMPLES_A_DAY), requested):
        wrong = np.array(
            [_start_of_day(day or "") is None or vm is None for day, vm in lists.select("day", "vm").iter_rows()]
        )
        check.bad_rows(wrong, "day", lists["day"], "a day as yyyymmdd and a vm")
        check.raise_problems()
        starts = {day: _start_of_day(day) for day in lists["day"].unique()}
        samples = lists.select(
            pl.format("{}/{}", "vm", "day").alias(OWNER),
            pl.col("day").replace_strict(starts, return_dtype=pl.Int64).alias("start"),
            pl.col("cpu_pct").alias("cpu"),
            pl.int_ranges(pl.col("cpu_pct").list.len().cast(pl.Int64)).alias("sample"),
            ROW,
        )
        rows = samples.explode("cpu", "sample").filter(pl.col("sample").is_not_null())
        time = (pl.col("start") + pl.col("sample") * SAMPLE_SECONDS).alias(TIME)
        yield Frame(path=path, rows=rows.select(OWNER, time, *_measured(), ROW), clock=CLOCK)


def _measured() -> list[pl.Expr]:
    """Return CPU, its limit, and the reason to refuse a row, as columns."""
    inside = pl.col("cpu").is_between(0.0, 100.0).fill_null(value=False)
    return [pl.col("cpu"), pl.lit(100.0, pl.Float32).alias("limit_cpu"), first_reason({OUT_OF_RANGE: ~inside})]


PLANETLAB = SampledReader(
    name="planetlab",
    files=FILES,
    metrics=(MetricInfo("cpu", "percent of the machine", trend=False),),
    origin="2011-03-03T00:00, the clock of the machines",
    request="100 percent of the machine's CPU",
    frames=_frames,
    places=("vm", "day"),
    reasons=(OUT_OF_RANGE,),
    classes=one_class("planetlab"),
    family=lambda owner: owner.rsplit("/", 1)[0],
    always_censored=True,
)
