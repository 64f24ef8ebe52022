"""Reader of Alibaba's cluster trace of 2018: usage of the containers of online services over 8 days.

The directory holds ``container_usage.csv`` and ``container_meta.csv``, without header, plain or ``.gz``; the
published ``.tar.gz`` archives have to be unpacked.

- **Metrics.** ``cpu`` in cores and ``memory`` in percent of the largest machine's memory. Usage in the trace is in
  percent of the request of a container (stated in issue 62 of alibaba/clusterdata),
  which is in `container_meta`. There is no disk space.
- **Refused** are values of -1 and 101, which mark invalid ones, and rows at time 0, which marks a time
  outside the trace.
- **MaxUsage**: the largest request of the container. **Class**: its requests, each rounded up to a power of two.
- Lifetimes are those of the rows. Machines, deployment groups, network, disk traffic and batch jobs are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from workloads.column_checks import LARGEST
from workloads.readers.base import MISSING, NEGATIVE, Options, measured
from workloads.readers.external_sort import OWNER, TIME, Frame
from workloads.readers.files import TextTable, need_files
from workloads.readers.naming import sized_classes
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

USAGE = TextTable(
    columns=dict.fromkeys(("container_id", "machine_id"), pl.String)
    | dict.fromkeys(("time_stamp", "cpu_util_percent", "mem_util_percent", "cpi", "mem_gps", "mpki"), pl.Float64)
    | dict.fromkeys(("net_in", "net_out", "disk_io_percent"), pl.Float64)
)
REQUESTS = TextTable(
    columns=dict.fromkeys(("container_id", "machine_id"), pl.String)
    | {"time_stamp": pl.Float64, "app_du": pl.String, "status": pl.String}
    | dict.fromkeys(("cpu_request", "cpu_limit", "mem_size"), pl.Float64)
)
OUTSIDE = "at time 0, which is outside the trace"
INVALID = "with -1 or 101 percent, which are invalid"


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    usage = {"cpu": pl.col("cpu_util_percent"), "memory": pl.col("mem_util_percent")}
    invalid = pl.any_horizontal(value.is_in([-1.0, 101.0]) for value in usage.values())
    time = pl.col("time_stamp")
    values = measured(usage, {OUTSIDE: time == 0, INVALID: invalid})
    columns = [
        pl.col("container_id").alias(OWNER),
        time.alias(TIME),
        *values,
    ]
    for path in need_files(source, ["container_usage.csv"], "container_usage.csv, plain or .gz"):
        for rows in USAGE.chunks(path, scratch, options.rows_in_memory, columns):
            yield Frame(path=path, rows=rows)


def _requests(source: Path, scratch: Path) -> pl.LazyFrame:
    """Return the requests of the containers: 100 of `cpu_request` are one core."""
    place = source.parent if source.is_file() else source
    expected = "container_meta.csv, which has the requests, plain or .gz"
    asked = [pl.col("cpu_request") / 100.0, pl.col("mem_size")]
    columns = [pl.col("container_id").alias(OWNER), *asked]
    path = need_files(place, ["container_meta.csv"], expected)[0]
    table = REQUESTS.whole(path, scratch, columns)
    largest = table.group_by(OWNER).agg(pl.col("cpu_request", "mem_size").max())
    return (
        largest.lazy()
        .select(
            OWNER,
            (pl.col("cpu_request") / 100.0).alias("scale_cpu"),
            (pl.col("mem_size") / 100.0).alias("scale_memory"),
            pl.col("cpu_request").cast(pl.Float32).alias("limit_cpu"),
            pl.col("mem_size").cast(pl.Float32).alias("limit_memory"),
        )
        .filter(pl.col(name).is_between(0.0, LARGEST, closed="right") for name in ("limit_cpu", "limit_memory"))
    )


ALIBABA2018 = SampledReader(
    name="alibaba2018",
    files="container_usage.csv and container_meta.csv, plain or .gz",
    metrics=(
        MetricInfo("cpu", "cores", trend=False),
        MetricInfo("memory", "percent of the largest machine"),
    ),
    origin="the start of the trace; its date and time of day are not published",
    request="cpu_request and mem_size of container_meta",
    frames=_frames,
    places=("container_id", "time_stamp"),
    reasons=(MISSING, OUTSIDE, INVALID, NEGATIVE),
    owners=_requests,
    owners_complete=True,
    classes=sized_classes("container", {"c": pl.col("limit_cpu").median(), "m": pl.col("limit_memory").median()}),
)
