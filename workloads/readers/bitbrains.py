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
- **Refused rows** have a missing, NaN or infinite value, no provisioned cores, CPU or memory (neither unit nor limit
  is known), or a negative value.
- **Errors**: a row without a machine or a time, and in the Parquet file, which holds one row a bin, two usable rows of
  one machine and bin, because the correct one is unknown. In the published files such rows occur; the first counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from workloads.column_checks import LARGEST, LATEST, Checker
from workloads.readers.base import MISSING, NEGATIVE, Options, sized_classes
from workloads.readers.external_sort import OWNER, TIME, Clock, Frame, first_reason
from workloads.readers.files import ROWS_OF_MANY, TextTable, need_files, parquet_chunks
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo

METRICS = (MetricInfo("cpu", "cores", trend=False), MetricInfo("memory", "GB"))
FILE = "rnd_5min.parquet"
"""Name of the Parquet file of the Rnd trace."""
BIN_SECONDS = 300
"""Seconds of a bin."""
ORIGIN = 1_372_629_600
"""Bin 0, seconds since 1970: 2013-06-30T22:00Z, midnight at the data centre."""
KEYS = ("vm", "bin")
"""Columns with the numbers of machine and bin."""
VALUES = ("cores", "cap_mhz", "cpu_mhz", "memcap_mb", "mem_mb")
"""Columns with numbers."""
MOST_KEY = 2**31 - 1
"""Largest number of a machine or a bin."""
REASONS = (MISSING, "without provisioned CPU", "without provisioned memory", NEGATIVE)
"""Reasons to refuse a row, in the order of the checks."""
MILLISECONDS_FROM = 10**11
"""Times above this are milliseconds. The published header has milliseconds, while the published files have seconds."""

PUBLISHED = TextTable(
    columns=dict.fromkeys(
        (
            "Timestamp [ms]",
            "CPU cores",
            "CPU capacity provisioned [MHZ]",
            "CPU usage [MHZ]",
            "CPU usage [%]",
            "Memory capacity provisioned [KB]",
            "Memory usage [KB]",
            "Disk read throughput [KB/s]",
            "Disk write throughput [KB/s]",
            "Network received throughput [KB/s]",
            "Network transmitted throughput [KB/s]",
        ),
        pl.Float64,
    ),
    separator=";",
    header=True,
)
"""A published file; a tab follows each semicolon."""
PUBLISHED_TIMES = Clock(
    lambda time: pl.when(time > MILLISECONDS_FROM).then(time / 1000).otherwise(time) - ORIGIN,
    f"seconds or milliseconds since 1970, from {ORIGIN} s to {ORIGIN + LATEST:g} s",
)


def _frames(source: Path, options: Options, scratch: Path) -> Iterator[Frame]:
    """Yield the rows of the Parquet file, some at a time, or of the published files in a directory if there is none."""
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
    """Raise `TraceError` if the Parquet file of a source has rows for the same machine and bin."""
    path = _table(source)
    if path.is_file():
        check_distinct(path)


def _table(source: Path) -> Path:
    """Return the Parquet file of a source, whether it is there or not."""
    return source if source.suffix == ".parquet" else source / FILE


def check_bins(path: Path) -> pl.Schema:
    """Return the columns of the Parquet file after a check of them and of the machine and bin of each row."""
    check = Checker(path)
    if not path.is_file():
        check.refuse("no such file", "the Bitbrains traces: this file, or directories of <machine>.csv as published")
    empty = check.head()
    check.columns(empty, dict.fromkeys((*KEYS, *VALUES), "number"))
    check.raise_problems()
    check_keys(check, path)
    return empty.schema


def check_keys(check: Checker, path: Path) -> None:
    """Raise `TraceError` for the rows of the Parquet file that belong to no machine or bin."""
    counts = check.collect(_scan(path).select(_is_invalid_key(name).sum().alias(name) for name in KEYS))
    for name in KEYS:
        if counts[name].item():
            rows = check.collect(_scan(path).select(name, _is_invalid_key(name).alias("wrong")))
            expected = f"a whole number from 0 to {MOST_KEY}"
            check.bad_rows(rows["wrong"].to_numpy(), name, rows[name], expected)
    check.raise_problems()


def check_distinct(path: Path) -> None:
    """Raise `TraceError` with the usable rows that repeat the machine and bin of an earlier usable row."""
    check = Checker(path)
    key = pl.struct(pl.col(name).cast(pl.Int32) for name in KEYS)
    usable = ~pl.any_horizontal(*_refusals(_scan(path).collect_schema(), *VALUES).values())
    again = usable & ~pl.struct(*KEYS, usable.alias("usable")).is_first_distinct()
    rows = check.collect(_scan(path).select(key.alias("key"), again.alias("again")))
    check.bad_rows(rows["again"].to_numpy(), "bin", rows["key"], "a machine and bin that no usable row above has")
    check.raise_problems()


def measured(schema: pl.Schema, *columns: str, units_per_gb: int) -> list[pl.Expr]:
    """Return metrics, their limits, and the reason to refuse a row, as columns of a `Frame`.

    `columns` are names of five columns: cores, provisioned MHz, used MHz, provisioned memory and used memory; `schema`
    has their types, and `units_per_gb` the unit of memory.
    """
    cores, cap, used, memory_cap, memory = columns
    cpu = pl.col(cores).cast(pl.Float32) * pl.col(used) / pl.col(cap)
    return [
        cpu.cast(pl.Float64).alias("cpu"),
        (pl.col(memory) / units_per_gb).cast(pl.Float64).alias("memory"),
        pl.col(cores).cast(pl.Float32).alias("limit_cpu"),
        (pl.col(memory_cap) / units_per_gb).cast(pl.Float32).alias("limit_memory"),
        first_reason(_refusals(schema, *columns)),
    ]


def published_frames(source: Path, scratch: Path) -> Iterator[Frame]:
    """Yield the rows of the published files, which are named by the number of their machine, one file at a time."""
    schema = pl.Schema(PUBLISHED.columns)
    time, cores, cap, used, _, memory_cap, memory, *_ = PUBLISHED.columns
    values = measured(schema, cores, cap, used, memory_cap, memory, units_per_gb=1024**2)
    for path in need_files(source, ["*.csv"], "one directory a month with a <machine>.csv each"):
        machine = _machine(path)
        columns = [pl.lit(machine, pl.Int64).alias(OWNER), pl.col(time).alias(TIME), *values]
        for rows in PUBLISHED.chunks(path, scratch, ROWS_OF_MANY, columns):
            yield Frame(path=path, rows=rows, clock=PUBLISHED_TIMES)


def _machine(path: Path) -> int:
    """Return the number of the machine of a published file, from its name."""
    stem = path.name.split(".")[0]
    if not stem.isdecimal():
        Checker(path).refuse(f"the name {path.name!r}", "the number of a machine before .csv")
    return int(stem)


def _scan(path: Path) -> pl.LazyFrame:
    """Return a lazy scan of a Parquet file."""
    return pl.scan_parquet(path, glob=False)


def _refusals(schema: pl.Schema, *columns: str) -> dict[str, pl.Expr]:
    """Return the reasons to refuse a row, each with whether it is the first that applies.

    Arguments as in `measured`.
    """
    cores, cap, used, memory_cap, memory = columns
    finite = pl.all_horizontal(_known(name, schema[name]) for name in columns)
    provisioned = (pl.col(cores) > 0) & (pl.col(cap) > 0)
    reasons = (
        ~finite,
        finite & ~provisioned,
        finite & provisioned & (pl.col(memory_cap) <= 0),
        finite & provisioned & (pl.col(memory_cap) > 0) & (pl.min_horizontal(used, memory) < 0),
    )
    return {name: reason.fill_null(value=False) for name, reason in zip(REASONS, reasons, strict=True)}


def _known(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return whether a column of a type has a value that is finite as a 32-bit float; every whole number is."""
    column = pl.col(name)
    return column.is_not_null() if dtype.is_integer() else column.is_between(-LARGEST, LARGEST).fill_null(value=False)


def _is_invalid_key(name: str) -> pl.Expr:
    """Return whether a key of a row, "vm" or "bin", is no whole number in range."""
    key = pl.col(name)
    return ~(key.is_between(0, MOST_KEY) & (key % 1 == 0)).fill_null(value=False)


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
