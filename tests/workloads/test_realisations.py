"""Realisations of usage: tasks of each trace, and samples from them."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import InvalidValueError, UnknownNameError
from workloads.column_checks import TraceError
from workloads.realisations import BITBRAINS_FILE, PLANETLAB_FILE, UsageSamples, read_samples
from workloads.trace import MetricInfo, bounds_of
from workloads.trace_files import write_traces

from .trace_strategies import METRICS, one_tenant

DATA = Path(os.environ.get("PLB_DATA", "/work/shared/data"))
DAY = 288


def planetlab(folder: Path, rows: list[Any]) -> Path:
    names = [f"vm{index}" for index in range(len(rows))]
    pl.DataFrame({"day": ["20110303"] * len(rows), "vm": names, "cpu_pct": rows}).write_parquet(folder / PLANETLAB_FILE)
    return folder


def bitbrains(folder: Path, rows: dict[str, Any]) -> Path:
    length = len(rows["bin"])
    rest = {name: [0] * length for name in ("disk_rd_kbs", "disk_wr_kbs", "net_rx_kbs", "net_tx_kbs")}
    base = {"vm": [1] * length, "cores": [2] * length, "cpu_mhz": [100] * length, "mem_mb": [7] * length}
    pl.DataFrame(base | rest | rows).write_parquet(folder / BITBRAINS_FILE)
    return folder


def samples_of(parts: list[list[float]]) -> UsageSamples:
    values = np.array([value for part in parts for value in part], np.float32)[:, np.newaxis]
    return UsageSamples((MetricInfo("cpu", "%"),), values, bounds_of(np.array([len(part) for part in parts])))


def test_planetlab_has_a_task_per_machine_and_day(tmp_path: Path) -> None:
    """Percentages are unchanged. A short row and a row without usage are omitted and counted."""
    rows = [[*range(24)], [0] * 24, [5] * 23, [7] * 30]
    samples = read_samples(planetlab(tmp_path, rows))
    assert samples.resources == (MetricInfo("cpu", "%", trend=False),)
    assert (samples.tasks, samples.left_out) == (2, 2)
    assert samples.values[:, 0].tolist() == [*range(24), *[7] * 30]
    assert samples.mean()[:, 0].tolist() == [11.5, 7.0]


def test_bitbrains_has_a_task_per_machine_and_day(tmp_path: Path) -> None:
    """A task has several resources and ends at midnight.

    Rows may have any order. Hours without the machine have no usage.
    """
    order = [*range(DAY, DAY + 24), *range(24), *range(24)]
    vm = [1] * 48 + [2] * 24
    cpu = [*range(100, 124), *range(24), *range(50, 74)]
    cores = [2] * 47 + [0] + [2] * 24
    folder = bitbrains(tmp_path, {"vm": vm, "bin": order, "cpu_mhz": cpu, "cores": cores})
    samples = read_samples(folder, ["memory", "cpu"])
    assert [metric.name for metric in samples.resources] == ["memory", "cpu"]
    assert (samples.tasks, samples.left_out) == (2, 1)
    assert samples.values[:, 1].tolist() == [*range(100, 124), *range(50, 74)]
    assert set(samples.values[:, 0].tolist()) == {7.0}
    assert samples.period.tolist() == [-1, -1]
    assert [metric.name for metric in read_samples(folder).resources] == ["cpu"]


@pytest.mark.parametrize("late", [1, 2**20])
def test_days_of_bitbrains_are_periods(tmp_path: Path, late: int) -> None:
    """Two machines have a late day, and only the second has a first one. Days of two machines are separate tasks."""
    day = [*range(late * DAY, (late + 1) * DAY)]
    times = [*day, *range(DAY), *day]
    bitbrains(tmp_path, {"vm": [0] * DAY + [1] * 2 * DAY, "bin": times, "cpu_mhz": [time % 1000 for time in times]})
    samples = read_samples(tmp_path)
    assert samples.period.tolist() == [late, 0, late]
    assert samples.simultaneous(late)[1][:, :, 0].tolist() == [[time % 1000 for time in day]] * 2


def test_project_format_has_a_task_for_each_series(tmp_path: Path) -> None:
    traces = one_tenant([float(k) for k in range(24)], cpu=[2.0] * 24)
    write_traces(traces, tmp_path)
    assert read_samples(tmp_path, ["disk"]).values[:, 0].tolist() == [float(k) for k in range(24)]
    assert read_samples(tmp_path / "traces.parquet").resources == METRICS[:1]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), min_size=1, max_size=5), st.integers(0, 2**32))
def test_realisations_are_samples_of_their_task(parts: list[list[int]], seed: int) -> None:
    given_samples = samples_of([[10.0 * task + value for value in part] for task, part in enumerate(parts)])
    sampled = given_samples.draw(range(len(parts)), 50, np.random.default_rng(seed))
    assert sampled.shape == (len(parts), 50, 1)
    for task, part in enumerate(parts):
        assert set(sampled[task, :, 0].tolist()) <= {10.0 * task + value for value in part}
    again = given_samples.draw(range(len(parts)), 50, np.random.default_rng(seed))
    assert again.tolist() == sampled.tolist()


def test_every_sample_is_equally_likely() -> None:
    sampled = samples_of([[0.0, 1.0, 2.0, 2.0]]).draw([0, 0], 40_000, np.random.default_rng(5))[:, :, 0]
    shares = [(sampled == value).mean() for value in range(3)]
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.01)
    assert np.corrcoef(sampled)[0, 1] == pytest.approx(0.0, abs=0.02)


def test_resources_of_a_task_are_drawn_together() -> None:
    values = np.arange(30, dtype=np.float32)
    pair = UsageSamples(METRICS, np.column_stack([values, 3 * values]), np.array([0, 30]))
    sampled = pair.draw([0], 100, np.random.default_rng(1))
    assert (sampled[..., 1] == 3 * sampled[..., 0]).all()


def test_tasks_of_a_day_have_common_times(tmp_path: Path) -> None:
    """Tasks with all samples of the day are aligned sample by sample. With missing samples, the times are unknown."""
    rows = [[k % 7 for k in range(DAY)], [1] * (DAY - 1), [k % 5 for k in range(DAY)], [2] * DAY]
    planetlab(tmp_path, rows)
    table = pl.read_parquet(tmp_path / PLANETLAB_FILE).with_columns(day=pl.Series(["1", "1", "1", "2"]))
    table.write_parquet(tmp_path / PLANETLAB_FILE)
    samples = read_samples(tmp_path)
    assert samples.period.tolist() == [1, -1, 1, 2]
    tasks, usage = samples.simultaneous(1)
    assert tasks.tolist() == [0, 2]
    assert usage[:, :, 0].tolist() == [rows[0], rows[2]]
    assert samples.simultaneous(2)[1].shape == (1, DAY, 1)
    for tasks_of, period in ((samples, 3), (samples, -1), (samples_of([[1.0]]), -1)):
        with pytest.raises(InvalidValueError, match="a period of some task"):
            tasks_of.simultaneous(period)


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=30), min_size=1, max_size=4), st.integers(1, 12))
def test_averages_are_means_of_consecutive_samples(parts: list[list[int]], width: int) -> None:
    """The last mean includes the remaining samples. With complete blocks, the mean usage of a task is unchanged."""
    samples = samples_of([[float(value) for value in part] for part in parts]).averaged(width)
    for task, part in enumerate(parts):
        blocks = max(1, len(part) // width)
        bounds = [*range(0, blocks * width, width), len(part)]
        expected = [sum(part[a:b]) / (b - a) for a, b in pairwise(bounds)]
        start, stop = samples.start[task : task + 2]
        np.testing.assert_allclose(samples.values[start:stop, 0], expected, rtol=1e-6)


@pytest.mark.skipif(not (DATA / "planetlab").is_dir(), reason="the PlanetLab traces are not here")
def test_shared_planetlab() -> None:
    samples = read_samples(DATA / "planetlab")
    assert samples.tasks + samples.left_out == 11_746
    assert set(np.diff(samples.start).tolist()) == {DAY}
    assert samples.values.max() <= 100


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "bitbrains_rnd").is_dir(), reason="the Bitbrains traces are not here")
def test_shared_bitbrains() -> None:
    samples = read_samples(DATA / "bitbrains_rnd", ["cpu", "memory"])
    assert 40_000 < samples.tasks < 500 * 91
    assert np.diff(samples.start).max() <= DAY
    assert len(samples.values) > 11_900_000


def damaged(folder: Path) -> Path:
    (folder / BITBRAINS_FILE).write_bytes(b"PAR1 not")
    return folder


def other_columns(folder: Path, name: str, **columns: Any) -> Path:
    pl.DataFrame(columns).write_parquet(folder / name)
    return folder


@pytest.mark.parametrize(
    ("make", "resources", "kind", "message"),
    [
        (lambda f: f / "none", None, TraceError, "none: found no such trace; expected planetlab.parquet"),
        (lambda f: f, None, TraceError, "found no such trace"),
        (lambda f: planetlab(f, [[0] * 30]), None, TraceError, "1 tasks, none with usage and 24 samples"),
        (
            lambda f: planetlab(f, [[5.0] * 24, [5.0, -1.0] * 12]),
            None,
            TraceError,
            "2, column cpu_pct: found -1; .*>= 0",
        ),
        (lambda f: planetlab(f, [[5, None] * 12]), None, TraceError, "row 1, column cpu_pct: found None"),
        (lambda f: other_columns(f, PLANETLAB_FILE, cpu=[[1]]), None, TraceError, "cpu_pct: .* a column of lists"),
        (lambda f: other_columns(f, BITBRAINS_FILE, vm=[1], bin=[0]), None, TraceError, "column cores"),
        (damaged, None, TraceError, "damaged contents"),
        (lambda f: planetlab(f, [[5] * 24]), ["memory"], UnknownNameError, "unknown resource 'memory'"),
        (lambda f: planetlab(f, [[5] * 24]), "cpu", InvalidValueError, "traces: resources = 'cpu'"),
        (lambda f: bitbrains(f, {"bin": range(24)}), ["cpu", "cpu"], InvalidValueError, "names that differ"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, make: Any, resources: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        read_samples(make(tmp_path), resources)


def test_averages_keep_the_common_times_of_tasks() -> None:
    values = np.arange(16, dtype=np.float32)[:, np.newaxis]
    samples = UsageSamples(METRICS[:1], values, np.array([0, 8, 16]), period=np.array([5, 5]))
    tasks, usage = samples.averaged(4).simultaneous(5)
    assert tasks.tolist() == [0, 1]
    assert usage[:, :, 0].tolist() == [[1.5, 5.5], [9.5, 13.5]]
    for width in (0, 1.5):  # of no samples, and of a share of one
        with pytest.raises(InvalidValueError, match=r"samples: averaged over = .* a whole number >= 1"):
            samples.averaged(width)  # type: ignore[arg-type]
