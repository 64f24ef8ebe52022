"""Reader of Google's cluster trace of May 2019 (v3): usage of the instances of jobs, table ``instance_usage``.

Three forms are read: the published JSON lines (``instance_usage-*.json.gz``), an export of the same table as
Parquet (``.parquet`` or ``.parquet.gz``, with nested ``average_usage``), and a flat Parquet file with the columns
of `FLAT`.

- **Metrics.** ``cpu`` in NCU (normalised compute units) and ``memory`` in normalised bytes: both are shares of the
  largest machine of all cells. With ``--aggregate max`` the maxima of each sample are taken instead of its means.
- **Tenants**: one an instance, ``<collection>/<index>@<first step>``. A row is a sample of up to 5 minutes; shorter
  ones, where an instance starts or ends, have the same weight in their step.
- **MaxUsage**: ``cpu_limit`` and ``memory_limit`` of the flat form; in the published form ``assigned_memory``, and
  for CPU the largest request in ``instance_events`` files, if there are any. Instances may use more than
  they requested; such values are kept and raise MaxUsage.
- **Class**: the usual limits, each rounded up to a power of two.
- Lifetimes are those of the rows; priority, scheduling class, machine and alloc sets are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from workloads.column_checks import Checker
from workloads.readers.base import MISSING, NEGATIVE, Options, measured, sized_classes
from workloads.readers.external_sort import MICROSECONDS, OWNER, TIME, Frame
from workloads.readers.files import (
    ROWS_OF_MANY,
    Batches,
    find_files,
    json_chunks,
    need_files,
    parquet_chunks,
    schema_of,
    streamable,
)
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

METRICS = (MetricInfo("cpu", "NCU", trend=False), MetricInfo("memory", "normalised bytes"))
RESOURCES = pl.Struct({"cpus": pl.Float64, "memory": pl.Float64})
KEYS: dict[str, Any] = {"collection_id": pl.String, "instance_index": pl.String}
USAGE = pl.Schema(
    {
        "start_time": pl.String,
        **KEYS,
        "average_usage": RESOURCES,
        "maximum_usage": RESOURCES,
        "assigned_memory": pl.Float64,
    }
)
"""Fields of the published table that are read; BigQuery writes whole numbers as text."""
EVENTS = pl.Schema({**KEYS, "resource_request": RESOURCES})
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
USAGE_FILES = ("*instance_usage*.parquet", "*instance_usage*.json")
EVENT_FILES = ("*instance_events*.parquet", "*instance_events*.json")


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    most, rows = options.aggregate == "max", options.rows_in_memory
    for path in need_files(source, USAGE_FILES, "instance_usage files, .json.gz or .parquet"):
        for chunk in _chunks(path, scratch, USAGE, rows, _published(most=most), _flat(most=most)):
            yield Frame(path=path, rows=chunk, clock=MICROSECONDS)


def _chunks(
    path: Path, scratch: Path, fields: pl.Schema, rows: int, columns: list[pl.Expr], flat: list[pl.Expr] | None = None
) -> Batches:
    """Yield columns of a published table, JSON lines or gzipped Parquet, or of a `flat` Parquet file."""
    if ".json" in path.name:
        yield from json_chunks(path, scratch, fields, rows, columns)
        return
    with streamable(path, scratch, text=False) as plain:
        schema = schema_of(plain)
        is_flat = flat is not None and "avg_cpu_usage" in schema
        check = Checker(path)
        for name in FLAT if is_flat else fields:
            if name not in schema:
                check.add(f"columns {', '.join(schema)}", "a column of that name", column=name)
        check.raise_problems()
        yield from parquet_chunks(plain, rows, flat if flat and is_flat else columns)


def _place(time: str) -> list[pl.Expr]:
    keys = [pl.col(name).cast(pl.Int64, strict=False) for name in KEYS]
    return [pl.format("{}/{}", *keys).alias(OWNER), pl.col(time).alias(TIME)]


def _flat(*, most: bool) -> list[pl.Expr]:
    kind = "max" if most else "avg"
    usage = {"cpu": pl.col(f"{kind}_cpu_usage"), "memory": pl.col(f"{kind}_memory_usage")}
    limits = (pl.col(f"{name}_limit").cast(pl.Float32).alias(f"limit_{name}") for name in usage)
    return [*_place("time"), *measured(usage), *limits]


def _published(*, most: bool) -> list[pl.Expr]:
    usage = pl.col("maximum_usage" if most else "average_usage").struct
    values = measured({"cpu": usage.field("cpus"), "memory": usage.field("memory")})
    return [*_place("start_time"), *values, pl.col("assigned_memory").cast(pl.Float32).alias("limit_memory")]


def _requests(source: Path, scratch: Path) -> pl.LazyFrame | None:
    """Return the largest CPU request of each instance, where the source has the table of events."""
    files = [] if source.is_file() else find_files(source, EVENT_FILES)
    columns = [_place("collection_id")[0], pl.col("resource_request").struct.field("cpus").alias("limit_cpu")]
    largest = [
        rows.group_by(OWNER).agg(pl.col("limit_cpu").max().cast(pl.Float32))
        for path in files
        for rows in _chunks(path, scratch, EVENTS, ROWS_OF_MANY, columns)
    ]
    return pl.concat(largest).group_by(OWNER).agg(pl.col("limit_cpu").max()).lazy() if largest else None


GOOGLE2019 = SampledReader(
    name="google2019",
    files="instance_usage files (.json.gz as published, or .parquet); instance_events files for the requests",
    metrics=METRICS,
    origin="10 minutes before 2019-05-01T00:00 PDT",
    request="cpu_limit and memory_limit, or assigned_memory and the requested CPU of instance_events",
    frames=_frames,
    places=("collection_id, instance_index", "start_time or time"),
    reasons=(MISSING, NEGATIVE),
    owners=_requests,
    classes=sized_classes("borg", {"c": pl.col("limit_cpu").median(), "m": pl.col("limit_memory").median()}),
    clip=False,
)
