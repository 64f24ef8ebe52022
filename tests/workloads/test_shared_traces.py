"""The readers on samples of public traces, if available, compared with independent counts."""

from __future__ import annotations

import csv
import lzma
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from workloads.compression import compress
from workloads.readers import READERS, read_public

DATA = Path(os.environ.get("PLB_DATA", "/work/shared/data"))


def sample(folder: str) -> Path:
    """Return the folder of a sample, or skip the test if it is missing."""
    if not (DATA / folder).is_dir():
        pytest.skip(f"{DATA / folder} is not here")
    return DATA / folder


@pytest.mark.slow
def test_planetlab() -> None:
    source = sample("planetlab")
    traces, report = read_public(READERS["planetlab"], source)
    values = np.array(pl.read_parquet(source / "planetlab.parquet")["cpu_pct"].to_list(), np.float64)
    assert (report.rows_read, report.tenants) == (values.size, len(values)) == (3_382_848, 11_746)
    assert report.rows_kept == report.rows_read
    assert traces.lifetime_steps.tolist() == [144] * 11_746
    assert traces.values.astype(np.float64).mean() == pytest.approx(values.mean())
    assert len(np.unique(traces.family)) == 3_596


def test_google_2019() -> None:
    source = sample("google2019_instances")
    traces, report = read_public(READERS["google2019"], source)
    rows = pl.read_parquet(next(source.glob("*.parquet")))
    assert (report.rows_read, report.rows_kept, report.owners) == (len(rows), len(rows), 44)
    assert report.steps == rows.select("collection_id", "instance_index", pl.col("time") // 600_000_000).n_unique()
    assert traces.values.max() <= rows.select(pl.max_horizontal("avg_cpu_usage", "avg_memory_usage").max()).item()
    assert (traces.values <= np.repeat(traces.max_usage, traces.lifetime_steps, axis=0)).all()
    assert len(compress(traces)) == report.tenants


def test_tianchi_2018() -> None:
    source = sample("tianchi2018_prelim_b")
    traces, report = read_public(READERS["tianchi2018"], source)
    with lzma.open(source / "instance_deploy.csv.xz", "rt") as file:
        counts: dict[str, int] = {}
        for _, app, _ in csv.reader(file):
            counts[app] = counts.get(app, 0) + 1
    total, peak = np.zeros(98), 0.0
    with lzma.open(source / "app_resources.csv.xz", "rt") as file:
        for app, cpu, *_ in csv.reader(file):
            curve = np.array(cpu.split("|"), float)
            total += counts.get(app, 0) * curve
            peak += counts.get(app, 0) * curve.max()
    assert traces.replicas.sum() == sum(counts.values()) == 68_224
    assert report.rows_read == report.rows_kept == 9_338 + 68_224
    demand = (traces.values[:, 0].reshape(-1, 98) * traces.replicas[:, None]).sum(axis=0, dtype=np.float64)
    np.testing.assert_allclose(demand, total, rtol=1e-5)
    assert (traces.max_usage[:, 0] * traces.replicas).sum(dtype=np.float64) == pytest.approx(peak, rel=1e-5)
