"""Writes two traces of machines that stay in the form of Bitbrains' published table, for `plb study rebalancing`.

    python benchmarks/rebalancing_traces.py ../shared/data results

The first directory has OpenDC's sample of fastStorage and PlanetLab; the second is for the results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

FIRST_SECOND = 1_372_629_600
"""Epoch of the first step of the trace of Bitbrains."""


def fast_storage(data: Path) -> pl.DataFrame:
    """Return the machines of fastStorage; a row of the sample is for the time before its timestamp."""
    meta = pl.read_parquet(data / "opendc_bitbrains_small/v1_meta.parquet")
    trace = pl.read_parquet(data / "opendc_bitbrains_small/v1_trace.parquet").join(meta, on="id", suffix="_provisioned")
    end, length = pl.col("timestamp").dt.epoch("s") - FIRST_SECOND, pl.col("duration") // 1000
    first, last = (end - length) // 300, end // 300
    return trace.select(
        pl.col("id").cast(pl.Int32).alias("vm"),
        pl.int_ranges(first, pl.max_horizontal(first + 1, last)).alias("bin"),
        pl.col("cpu_count_provisioned").alias("cores"),
        pl.col("cpu_capacity").alias("cap_mhz"),
        pl.col("cpu_usage").alias("cpu_mhz"),
    ).explode("bin")


def planetlab(data: Path) -> pl.DataFrame:
    """Return the machines of PlanetLab that are there on 11 and 12 April 2011, the only days in a row."""
    days = pl.read_parquet(data / "planetlab/planetlab.parquet").filter(pl.col("day").is_in(["20110411", "20110412"]))
    both = days.filter(pl.len().over("vm") == 2)
    return both.select(
        pl.col("vm").rank("dense").cast(pl.Int32),
        (pl.int_ranges(288) + 288 * (pl.col("day").cast(pl.Int32) - 20110411)).alias("bin"),
        pl.lit(100).alias("cores"),
        pl.lit(100).alias("cap_mhz"),
        pl.col("cpu_pct").alias("cpu_mhz"),
    ).explode("bin", "cpu_mhz")


def main(data: Path, out: Path) -> None:
    """Write both traces below `out`."""
    for read in (fast_storage, planetlab):
        folder = out / read.__name__
        folder.mkdir(parents=True, exist_ok=True)
        rows = read(data).unique(["vm", "bin"], keep="first", maintain_order=True)
        rows.with_columns(memcap_mb=pl.lit(1), mem_mb=pl.lit(0)).write_parquet(folder / "rnd_5min.parquet")
        print(folder)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
