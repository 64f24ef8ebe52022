"""The rows of the Bitbrains file: which are refused and counted, which are errors, and the 10-minute steps of the rest.

A row whose *measurements* cannot be used is refused with a reason and counted, and the reader treats it as missing.
A row whose *place* cannot be trusted is an error that names it: one that belongs to no machine or bin, and a usable row
of a machine and bin that another usable row has (the file holds one row each; which one is right cannot be known).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from workloads.checks import LARGEST, Checker

BINS_PER_STEP = 2
KEYS = ("vm", "bin")
VALUES = ("cores", "cap_mhz", "cpu_mhz", "memcap_mb", "mem_mb")
MOST_KEY = 2**31 - 1
"""Machines and bins are kept as 32-bit whole numbers."""


def count_rows(path: Path) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and of refused rows by reason.

    Raises
    ------
    TraceError
        The file is missing, damaged, lacks a column or has no usable row, or a row belongs to no machine or bin.
    """
    check = Checker(path)
    if not path.is_file():
        check.add("no such file", "the Bitbrains traces (see SOURCE.md)")
        check.raise_problems()
    empty = check.collect(_scan(path).head(0))
    check.columns(empty, dict.fromkeys((*KEYS, *VALUES), "number"))
    check.raise_problems()
    misplaced = {name: _misplaced(name).sum().alias(name) for name in KEYS}
    refused = {name: reason.sum().alias(name) for name, reason in _refusals(empty.schema).items()}
    counted = check.collect(_scan(path).select(pl.len().alias("rows"), *misplaced.values(), *refused.values()))
    counts = {name: int(count) for name, count in counted.row(0, named=True).items()}
    _name_misplaced(check, path, [name for name in KEYS if counts[name]])
    refusals = {name: counts[name] for name in refused}
    _check_usable(check, counts["rows"], refusals)
    return counts["rows"], refusals


def ten_minute_steps(path: Path, aggregate: str) -> pl.DataFrame:
    """Return one row a machine and 10-minute step, in order: vm, step, cores, cpu, memory_cap, memory (GB).

    Parameters
    ----------
    path
        The file, which `count_rows` has accepted.
    aggregate
        How the 5-minute values of a step become one: ``"mean"`` or ``"max"``.

    Raises
    ------
    TraceError
        Two usable rows have the same machine and bin.
    """
    check = Checker(path)
    cores, bins = pl.col("cores").cast(pl.Float32), pl.col("bin")
    raw = (cores * pl.col("cpu_mhz") / pl.col("cap_mhz")).alias("cpu"), (pl.col("mem_mb") / 1024).alias("memory")
    usage = [(column.mean() if aggregate == "mean" else column.max()).cast(pl.Float32) for column in raw]
    caps = cores.max().alias("cores"), (pl.col("memcap_mb").max() / 1024).cast(pl.Float32).alias("memory_cap")
    # A step has BINS_PER_STEP = 2 bins, so its rows are distinct where they are no more than the bins they span.
    doubled = (pl.len() > bins.max() - bins.min() + 1).alias("doubled")
    grouped = (
        _scan(path)
        .select(*KEYS, *VALUES)
        .filter(_usable(_scan(path)))
        .group_by("vm", (bins // BINS_PER_STEP).alias("step"))
        .agg(*caps, *usage, doubled)
        .with_columns(pl.col("vm", "step").cast(pl.Int32))
    )
    steps = check.collect(grouped)
    if steps["doubled"].any():
        _name_doubled(check, path)
    return steps.drop("doubled").sort("vm", "step")


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False)


def _refusals(schema: pl.Schema) -> dict[str, pl.Expr]:
    """Return the reasons to refuse a row; a row counts for the first that applies, and none is ever null."""
    known = pl.all_horizontal(_known(name, schema[name]) for name in VALUES)
    cpu = (pl.col("cores") > 0) & (pl.col("cap_mhz") > 0)
    memory = pl.col("memcap_mb") > 0
    return {
        "with a missing or infinite value": ~known,
        "without provisioned CPU": known & ~cpu,
        "without provisioned memory": known & cpu & ~memory,
        "with a negative value": known & cpu & memory & (pl.min_horizontal("cpu_mhz", "mem_mb") < 0),
    }


def _known(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return whether a value is there and finite as a 32-bit float, as every whole number is."""
    column = pl.col(name)
    return column.is_not_null() if dtype.is_integer() else column.is_between(-LARGEST, LARGEST).fill_null(value=False)


def _usable(rows: pl.LazyFrame) -> pl.Expr:
    return ~pl.any_horizontal(*_refusals(rows.collect_schema()).values())


def _misplaced(name: str) -> pl.Expr:
    """Return whether this key of a row, "vm" or "bin", is anything but a whole number in range."""
    key = pl.col(name)
    return ~(key.is_between(0, MOST_KEY) & (key % 1 == 0)).fill_null(value=False)


def _name_misplaced(check: Checker, path: Path, names: list[str]) -> None:
    """Raise `TraceError` with the rows that belong to no machine or bin, if any of these keys has such rows."""
    for name in names:
        rows = check.collect(_scan(path).select(name, _misplaced(name).alias("misplaced")))
        check.bad_rows(rows["misplaced"].to_numpy(), name, rows[name], f"a whole number from 0 to {MOST_KEY}")
    check.raise_problems()


def _name_doubled(check: Checker, path: Path) -> None:
    """Raise `TraceError` with the usable rows whose machine and bin a usable row above has."""
    key = pl.struct(pl.col(name).cast(pl.Int32) for name in KEYS)
    usable = _usable(_scan(path))
    again = usable & ~pl.struct(*KEYS, usable.alias("usable")).is_first_distinct()
    rows = check.collect(_scan(path).select(key.alias("key"), again.alias("again")))
    check.bad_rows(rows["again"].to_numpy(), "bin", rows["key"], "a machine and bin that no usable row above has")
    check.raise_problems()


def _check_usable(check: Checker, rows: int, refused: Mapping[str, int]) -> None:
    """Raise `TraceError` if there are no rows but refused ones."""
    reasons = ", ".join(f"{count:,} {name}" for name, count in refused.items() if count)
    if rows == sum(refused.values()):
        check.add(f"only refused rows ({reasons})" if rows else "no rows", "at least one usable row")
    check.raise_problems()
