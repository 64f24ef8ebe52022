"""Reader of the Azure VM traces of 2017 and 2019 (AzurePublicDataset V1 and V2): CPU of virtual machines over 30 days.

The directory holds ``vmtable.csv`` and ``vm_cpu_readings-file-*.csv``, plain or ``.gz`` as published; some of the
files of readings are enough, but each holds a stretch of time, so that lives are cut where files are missing.

- **Metric.** ``cpu`` in cores: the mean utilisation of each 5 minutes (or the maximum, with ``--aggregate max``) by
  the machine's cores. Use of memory is not published; its size is part of the class only.
- **MaxUsage**: the machine's cores. In 2019 sizes are buckets, given by their upper end; as in the analysis that
  comes with the trace, more than 24 cores count as 30 and more than 64 GB as 70.
- **Class**: cores and memory, ``vm_c4_m7``. Category, subscription and deployment are not used.
- **Lifetimes** end where ``vmtable`` has a deletion before the end of the trace; others are censored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from workloads.column_checks import LARGEST, Checker
from workloads.readers.base import MISSING, NEGATIVE, Options, measured
from workloads.readers.external_sort import OWNER, TIME, Frame
from workloads.readers.files import TextTable, need_files
from workloads.readers.naming import listed_classes
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

READINGS = TextTable(
    columns={"timestamp": pl.Int64, "vmid": pl.String} | dict.fromkeys(("mincpu", "maxcpu", "avgcpu"), pl.Float64)
)
MACHINES = TextTable(
    columns=dict.fromkeys(("vmid", "subscriptionid", "deploymentid"), pl.String)
    | dict.fromkeys(("vmcreated", "vmdeleted"), pl.Int64)
    | dict.fromkeys(("maxcpu", "avgcpu", "p95maxcpu"), pl.Float64)
    | dict.fromkeys(("vmcategory", "vmcorecount", "vmmemory"), pl.String)
)
OPEN_BUCKETS = {">24": "30", ">64": "70"}
"""Sizes above the largest bucket of 2019, as in the published analysis of the trace."""


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    usage = pl.col("maxcpu" if options.aggregate == "max" else "avgcpu")
    columns = [pl.col("vmid").alias(OWNER), pl.col("timestamp").alias(TIME), *measured({"cpu": usage})]
    for path in need_files(source, ["vm_cpu_readings-file-*.csv"], "vm_cpu_readings-file-*.csv files, plain or .gz"):
        for rows in READINGS.chunks(path, scratch, options.rows_in_memory, columns):
            yield Frame(path=path, rows=rows)


def _machines(source: Path, scratch: Path) -> pl.LazyFrame:
    """Return the contents of `vmtable`: scale and limit of CPU, class, and end of each machine."""
    place = source.parent if source.is_file() else source
    path = need_files(place, ["vmtable.csv"], "vmtable.csv, which has the cores of the machines, plain or .gz")[0]
    sizes = [
        pl.col(column).str.strip_chars().replace(OPEN_BUCKETS).cast(pl.Float64, strict=False).alias(name)
        for column, name in (("vmcorecount", "cores"), ("vmmemory", "memory"))
    ]
    columns = [pl.col("vmid").alias(OWNER), pl.col("vmdeleted"), *sizes]
    table = MACHINES.whole(path, scratch, columns)
    check = Checker(path)
    for name, found in (("vmcorecount", table["cores"]), ("vmmemory", table["memory"])):
        good = ((found > 0) & (found <= LARGEST)).fill_null(value=False)
        check.bad_rows(~good.to_numpy(), name, found, "a finite number > 0")
    check.bad_rows(table[OWNER].is_null().to_numpy(), "vmid", table[OWNER], "the name of a machine")
    check.distinct(table[OWNER], "vmid", "a machine that no row above has")
    check.raise_problems()
    ended = pl.col("vmdeleted") < pl.col("vmdeleted").max()
    return table.lazy().select(
        OWNER,
        (pl.col("cores") / 100.0).alias("scale_cpu"),
        pl.col("cores").cast(pl.Float32).alias("limit_cpu"),
        pl.format("vm_c{}_m{}", *(_short(name) for name in ("cores", "memory"))).alias("tenant_class"),
        pl.when(ended).then(pl.col("vmdeleted")).alias("end_s"),
    )


def _short(name: str) -> pl.Expr:
    whole = pl.col(name) == pl.col(name).floor()
    digits = pl.col(name).cast(pl.Int64, strict=False).cast(pl.String)
    return pl.when(whole).then(digits).otherwise(pl.col(name).cast(pl.String))


def _reader(name: str) -> SampledReader:
    return SampledReader(
        name=name,
        files="vmtable.csv and vm_cpu_readings-file-*.csv, plain or .gz",
        metrics=(MetricInfo("cpu", "cores", trend=False),),
        origin="the start of the trace; its date and time of day are not published",
        request="the machine's cores; memory is in the class only",
        frames=_frames,
        places=("vmid", "timestamp"),
        reasons=(MISSING, NEGATIVE),
        owners=_machines,
        owners_complete=True,
        classes=listed_classes,
    )


AZURE2017, AZURE2019 = _reader("azure2017"), _reader("azure2019")
