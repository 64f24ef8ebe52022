"""Readers of Google's cluster traces: tasks of May 2011 (v2.1) and instances of May 2019 (v3).

**2011.** The directory holds ``task_usage/part-*.csv.gz`` (or some of these files) and, for the requests,
``task_events/part-*.csv.gz``. Metrics are ``cpu``, ``memory`` (canonical memory usage) and ``disk`` (local disk
space), all as shares of the largest machine. MaxUsage is the largest request in ``task_events``, if the file exists.

**2019.** Three forms of the table ``instance_usage`` are read: the published JSON lines (``instance_usage-*.json.gz``),
an export of the same table as Parquet (``.parquet`` or ``.parquet.gz``, with nested ``average_usage``), and a flat
Parquet file with the columns of `FLAT`. Metrics are ``cpu`` in NCU (normalised compute units) and ``memory`` in
normalised bytes: both are shares of the largest machine of all cells. MaxUsage is ``cpu_limit`` and ``memory_limit`` of
the flat form; in the published form ``assigned_memory``, and for CPU the largest request in ``instance_events`` files,
if there are any.

- With ``--aggregate max`` the maxima of each sample (of CPU and memory) are taken instead of its means.
- **Tenants**: one a task or instance, ``<job>/<index>@<first step>``. A row is a sample of up to 5 minutes; shorter
  samples, at the start or end of a task, have the same weight in their step.
- Values above the request are kept and raise MaxUsage.
- **Class**: the usual limits, each rounded up to a power of two.
- **Lifetimes** follow from the rows; priority, scheduling class, machines and alloc sets are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from workloads.column_checks import Checker
from workloads.readers.base import MISSING, NEGATIVE, Options, measured, sized_classes
from workloads.readers.external_sort import MICROSECONDS, OWNER, ROW, TIME, Frame
from workloads.readers.files import (
    ROWS_OF_MANY,
    Batches,
    TextTable,
    find_files,
    json_chunks,
    need_files,
    parquet_chunks,
    streamable,
)
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

TASK_NUMBERS = (
    "CPU rate",
    "canonical memory usage",
    "assigned memory usage",
    "unmapped page cache",
    "total page cache",
    "maximum memory usage",
    "disk I/O time",
    "local disk space usage",
    "maximum CPU rate",
    "maximum disk IO time",
    "cycles per instruction",
    "memory accesses per instruction",
    "sample portion",
    "aggregation type",
    "sampled CPU usage",
)
TASK_USAGE = TextTable(
    columns=dict.fromkeys(("start time", "end time", "job ID", "task index", "machine ID"), pl.Int64)
    | dict.fromkeys(TASK_NUMBERS, pl.Float64)
)
TASK_REQUESTS = {"cpu": "CPU request", "memory": "memory request", "disk": "disk space request"}
TASK_EVENTS = TextTable(
    columns={
        "time": pl.String,
        "missing info": pl.String,
        "job ID": pl.Int64,
        "task index": pl.Int64,
        **dict.fromkeys(("machine ID", "event type", "user", "scheduling class", "priority"), pl.String),
        **dict.fromkeys(TASK_REQUESTS.values(), pl.Float64),
        "different machines restriction": pl.String,
    }
)
TASK_OWNER = pl.format("{}/{}", "job ID", "task index").alias(OWNER)


def _task_frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    """Yield the usage of the tasks of 2011, some rows at a time; `scratch`: for unpacked files."""
    maxima = options.aggregate == "max"
    usage = {
        "cpu": pl.col("maximum CPU rate" if maxima else "CPU rate"),
        "memory": pl.col("maximum memory usage" if maxima else "canonical memory usage"),
        "disk": pl.col("local disk space usage"),
    }
    columns = [TASK_OWNER, pl.col("start time").alias(TIME), *measured(usage)]
    for path in need_files(source, ["task_usage/part-*.csv"], "task_usage/part-*.csv files, plain or .gz"):
        for rows in TASK_USAGE.chunks(path, scratch, options.rows_in_memory, columns):
            yield Frame(path=path, rows=rows, clock=MICROSECONDS)


def _task_requests(source: Path, scratch: Path) -> pl.LazyFrame | None:
    """Return the largest requests of each task of 2011, ``limit_<metric>``; None if there are none."""
    limits = [pl.col(column).cast(pl.Float32).alias(f"limit_{name}") for name, column in TASK_REQUESTS.items()]
    files = [] if source.is_file() else find_files(source, ["task_events/part-*.csv"])
    return _largest(
        rows for path in files for rows in TASK_EVENTS.chunks(path, scratch, ROWS_OF_MANY, [TASK_OWNER, *limits])
    )


def _largest(requests: Iterable[pl.DataFrame]) -> pl.LazyFrame | None:
    """Return the largest requests of each owner, ``limit_<metric>``, from tables of events; None if there are none."""
    largest = [rows.drop(ROW).group_by(OWNER).max() for rows in requests]
    return pl.concat(largest).group_by(OWNER).max().lazy() if largest else None


BY_REQUESTS = sized_classes("borg", {"c": pl.col("limit_cpu").median(), "m": pl.col("limit_memory").median()})

GOOGLE2011 = SampledReader(
    name="google2011",
    files="task_usage/part-*.csv, plain or .gz; task_events/part-*.csv for the requests",
    metrics=(
        MetricInfo("cpu", "share of the largest machine", trend=False),
        MetricInfo("memory", "share of the largest machine"),
        MetricInfo("disk", "share of the largest machine"),
    ),
    origin="10 minutes before 2011-05-01T19:00 EDT",
    request="requests in task_events, where they are there",
    frames=_task_frames,
    places=("job ID, task index", "start time"),
    reasons=(MISSING, NEGATIVE),
    owners=_task_requests,
    classes=BY_REQUESTS,
    clip=False,
)


RESOURCES = pl.Struct({"cpus": pl.Float64, "memory": pl.Float64})
KEYS: dict[str, Any] = {"collection_id": pl.String, "instance_index": pl.String}
INSTANCE_USAGE = pl.Schema(
    {
        "start_time": pl.String,
        **KEYS,
        "average_usage": RESOURCES,
        "maximum_usage": RESOURCES,
        "assigned_memory": pl.Float64,
    }
)
"""Fields of the published table that are read; BigQuery writes whole numbers as text."""
INSTANCE_EVENTS = pl.Schema({**KEYS, "resource_request": RESOURCES})
FLAT = (
    "time",
    "collection_id",
    "instance_index",
    "avg_cpu_usage",
    "avg_memory_usage",
    "max_cpu_usage",
    "max_memory_usage",
    "cpu_limit",
    "memory_limit",
)
INSTANCE_USAGE_FILES = ("*instance_usage*.parquet", "*instance_usage*.json")
INSTANCE_EVENT_FILES = ("*instance_events*.parquet", "*instance_events*.json")


def _instance_frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    """Yield the usage of the instances of 2019, some rows at a time; `scratch`: for unpacked files."""
    maxima, rows = options.aggregate == "max", options.rows_in_memory
    for path in need_files(source, INSTANCE_USAGE_FILES, "instance_usage files, .json.gz or .parquet"):
        for chunk in _chunks(path, scratch, INSTANCE_USAGE, rows, _published(maxima=maxima), _flat(maxima=maxima)):
            yield Frame(path=path, rows=chunk, clock=MICROSECONDS)


def _chunks(
    path: Path, scratch: Path, fields: pl.Schema, rows: int, columns: list[pl.Expr], flat: list[pl.Expr] | None = None
) -> Batches:
    """Yield `columns` of a published table, JSON lines or Parquet, with `fields`, at most `rows` rows at a time.

    `flat` are the columns instead if the file is a flat Parquet file; None: it cannot be one.
    """
    if ".json" in path.name:
        yield from json_chunks(path, scratch, fields, rows, columns)
        return
    with streamable(path, scratch, text=False) as plain:
        schema = Checker(plain).head().schema
        is_flat = flat is not None and "avg_cpu_usage" in schema
        check = Checker(path)
        for name in FLAT if is_flat else fields:
            if name not in schema:
                check.add(f"columns {', '.join(schema)}", "a column of that name", column=name)
        check.raise_problems()
        yield from parquet_chunks(plain, rows, flat if flat and is_flat else columns)


def _keys(time: str) -> list[pl.Expr]:
    """Return owner and time as columns; `time` is the column of the source with the time."""
    keys = [pl.col(name).cast(pl.Int64, strict=False) for name in KEYS]
    return [pl.format("{}/{}", *keys).alias(OWNER), pl.col(time).alias(TIME)]


def _flat(*, maxima: bool) -> list[pl.Expr]:
    """Return the columns of a `Frame` for a flat file, with the maximum or the mean usage of each sample."""
    kind = "max" if maxima else "avg"
    usage = {"cpu": pl.col(f"{kind}_cpu_usage"), "memory": pl.col(f"{kind}_memory_usage")}
    limits = (pl.col(f"{name}_limit").cast(pl.Float32).alias(f"limit_{name}") for name in usage)
    return [*_keys("time"), *measured(usage), *limits]


def _published(*, maxima: bool) -> list[pl.Expr]:
    """Return the columns of a `Frame` for the published table, with the maximum or the mean usage of each sample."""
    usage = pl.col("maximum_usage" if maxima else "average_usage").struct
    values = measured({"cpu": usage.field("cpus"), "memory": usage.field("memory")})
    return [*_keys("start_time"), *values, pl.col("assigned_memory").cast(pl.Float32).alias("limit_memory")]


def _instance_requests(source: Path, scratch: Path) -> pl.LazyFrame | None:
    """Return the largest request for CPU of each instance of 2019, ``limit_<metric>``; None if there are none."""
    files = [] if source.is_file() else find_files(source, INSTANCE_EVENT_FILES)
    cpus = pl.col("resource_request").struct.field("cpus").cast(pl.Float32).alias("limit_cpu")
    columns = [_keys("collection_id")[0], cpus]
    return _largest(rows for path in files for rows in _chunks(path, scratch, INSTANCE_EVENTS, ROWS_OF_MANY, columns))


GOOGLE2019 = SampledReader(
    name="google2019",
    files="instance_usage files (.json.gz as published, or .parquet); instance_events files for the requests",
    metrics=(MetricInfo("cpu", "NCU", trend=False), MetricInfo("memory", "normalised bytes")),
    origin="10 minutes before 2019-05-01T00:00 PDT",
    request="cpu_limit and memory_limit, or assigned_memory and the requested CPU of instance_events",
    frames=_instance_frames,
    places=("collection_id, instance_index", "start_time or time"),
    reasons=(MISSING, NEGATIVE),
    owners=_instance_requests,
    classes=BY_REQUESTS,
    clip=False,
)
