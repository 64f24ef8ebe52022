"""Reader of Google's cluster trace of May 2011 (v2.1): usage of the tasks of jobs, table ``task_usage``.

The directory holds ``task_usage/part-*.csv.gz`` (or some of these files) and, for the requests,
``task_events/part-*.csv.gz``.

- **Metrics.** ``cpu``, ``memory`` (canonical memory usage) and ``disk`` (local disk space), all as shares of the
  largest machine. With ``--aggregate max`` the maxima of CPU and memory of each sample are taken.
- **Tenants**: one a task, ``<job>/<index>@<first step>``. A row is a sample of up to 5 minutes; shorter ones have
  the same weight in their step.
- **MaxUsage**: the largest request in ``task_events``, if the file exists; tasks may use more CPU than they
  requested, and values above the request are kept and raise MaxUsage.
- Lifetimes are those of the rows; priority, scheduling class and machines are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from workloads.readers.base import MISSING, NEGATIVE, Options, measured, sized_classes
from workloads.readers.external_sort import MICROSECONDS, OWNER, TIME, Frame
from workloads.readers.files import ROWS_OF_MANY, TextTable, find_files, need_files
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

NUMBERS = (
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
USAGE = TextTable(
    columns=dict.fromkeys(("start time", "end time", "job ID", "task index", "machine ID"), pl.Int64)
    | dict.fromkeys(NUMBERS, pl.Float64)
)
REQUESTED = {"cpu": "CPU request", "memory": "memory request", "disk": "disk space request"}
EVENTS = TextTable(
    columns={
        "time": pl.String,
        "missing info": pl.String,
        "job ID": pl.Int64,
        "task index": pl.Int64,
        **dict.fromkeys(("machine ID", "event type", "user", "scheduling class", "priority"), pl.String),
        **dict.fromkeys(REQUESTED.values(), pl.Float64),
        "different machines restriction": pl.String,
    }
)
TASK = pl.format("{}/{}", "job ID", "task index").alias(OWNER)


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    most = options.aggregate == "max"
    usage = {
        "cpu": pl.col("maximum CPU rate" if most else "CPU rate"),
        "memory": pl.col("maximum memory usage" if most else "canonical memory usage"),
        "disk": pl.col("local disk space usage"),
    }
    columns = [TASK, pl.col("start time").alias(TIME), *measured(usage)]
    for path in need_files(source, ["task_usage/part-*.csv"], "task_usage/part-*.csv files, plain or .gz"):
        for rows in USAGE.chunks(path, scratch, options.rows_in_memory, columns):
            yield Frame(path=path, rows=rows, clock=MICROSECONDS)


def _requests(source: Path, scratch: Path) -> pl.LazyFrame | None:
    """Return the largest requests of each task, where the source has the table of events."""
    limits = [pl.col(column).cast(pl.Float32).alias(f"limit_{name}") for name, column in REQUESTED.items()]
    largest = [
        rows.drop("row").group_by(OWNER).max()
        for path in ([] if source.is_file() else find_files(source, ["task_events/part-*.csv"]))
        for rows in EVENTS.chunks(path, scratch, ROWS_OF_MANY, [TASK, *limits])
    ]
    return pl.concat(largest).group_by(OWNER).max().lazy() if largest else None


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
    frames=_frames,
    places=("job ID, task index", "start time"),
    reasons=(MISSING, NEGATIVE),
    owners=_requests,
    classes=sized_classes("borg", {"c": pl.col("limit_cpu").median(), "m": pl.col("limit_memory").median()}),
    clip=False,
)
