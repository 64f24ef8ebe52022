"""Reader of the Bitbrains traces (GWA-T-12): fastStorage and Rnd, virtual machines of a data centre in summer 2013.

Two forms are read: the published directories of one file a machine and month (``rnd/2013-7/1.csv``), and the
Parquet file ``rnd_5min.parquet`` of the Rnd trace, one row a machine and 5-minute bin. Details of the
format:

- **Metrics.** ``cpu`` in cores, usage by the capacity of one core, without trend, and ``memory`` in GB. There is no
  disk space in these traces. Memory is what the machine actively used, so it is low.
- **MaxUsage**: the most cores and memory that were provisioned during the tenant's life; usage above is clipped.
- **Tenants** live at most 7 days by default and at least 1 hour; they are named ``vm<number>@<first step>``.
  Windows that start in mid-life are not new tenants; growth after creation is hardly visible in this trace.
- **Class**: the machine's usual cores (mode) and provisioned memory (median), each rounded up to a power of two:
  ``vm_c4_m16``. The provisioned memory of 114 machines of Rnd changes all the time (ballooning).
- **Refused rows**: those with a missing, NaN or infinite value, with no provisioned cores, CPU or memory (neither
  unit nor limit is known), or with a negative value.
- Two usable rows of one machine and bin are an error in the Parquet file, which holds one row a bin; in the
  published files, where they occur, the first counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from workloads.readers.base import Options
from workloads.readers.bitbrains_rows import (
    BIN_SECONDS,
    FILE,
    REASONS,
    VALUES,
    check_bins,
    check_distinct,
    measured,
    published_frames,
)
from workloads.readers.chunks import OWNER, TIME, Frame
from workloads.readers.files import parquet_chunks
from workloads.readers.naming import sized_classes
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

METRICS = (MetricInfo("cpu", "cores", trend=False), MetricInfo("memory", "GB"))


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    path = _table(source)
    if not path.is_file() and any(source.rglob("*.csv*")):
        yield from published_frames(source, scratch)
        return
    schema = check_bins(path)
    owner, time = pl.col("vm").cast(pl.Int64), pl.col("bin").cast(pl.Int64) * BIN_SECONDS
    columns = [owner.alias(OWNER), time.alias(TIME), *measured(schema, *VALUES, units_per_gb=1024)]
    for rows in parquet_chunks(path, options.rows_in_memory, columns):
        yield Frame(path=path, rows=rows)


def _repeated(source: Path) -> None:
    path = _table(source)
    if path.is_file():
        check_distinct(path)


def _table(source: Path) -> Path:
    """Return the Parquet file of a source, whether it is there or not."""
    return source if source.suffix == ".parquet" else source / FILE


BITBRAINS = SampledReader(
    name="bitbrains",
    files=f"{FILE}, or one directory a month with a <machine>.csv each, as published",
    metrics=METRICS,
    origin="2013-06-30T22:00Z, midnight at the data centre",
    request="provisioned cores and memory",
    frames=_frames,
    places=("the machine", "Timestamp [ms]"),
    reasons=REASONS,
    classes=sized_classes(
        "vm",
        {
            "c": pl.col("limit_cpu").mode().max().clip(lower_bound=1.0),
            "m": pl.col("limit_memory").median().clip(lower_bound=1.0),
        },
    ),
    prefix="vm",
    repeated=_repeated,
    window_days=7.0,
    min_hours=1.0,
)
