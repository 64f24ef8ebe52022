"""Descriptions of traces, compared with plain sums over the same traces."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import pytest

from tests.workloads.public_traces import alibaba_meta, alibaba_row, converted, text
from tests.workloads.test_trace_format import FAULTS, folder, put, rewrite
from workloads import trace_files as trace_format
from workloads.column_checks import TraceError
from workloads.region_parameters import METRICS
from workloads.regions import REGIONS, generate
from workloads.trace import TraceSet
from workloads.trace_description import describe
from workloads.trace_files import TENANTS_FILE, TRACES_FILE, read_traces, write_traces

DAY_STEPS = 144


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TraceSet]:
    """Return some tenants of a synthetic region, after writing and reading."""
    path = tmp_path_factory.mktemp("region")
    write_traces(generate(REGIONS["region1"], 150, 3), path, {"region": "region1"})
    return path, read_traces(path)


def test_tenants_and_lifetimes(region: tuple[Path, TraceSet]) -> None:
    path, traces = region
    description, figures = describe(path), describe(path).figures()
    hours = traces.lifetime_steps / 6
    assert (figures["tenants"], figures["series"], figures["rows"]) == (150, len(traces.series_tenant), traces.samples)
    assert figures["replicas"] == traces.replicas.sum()
    assert figures["lifetime_hours"]["p50"] == pytest.approx(np.median(hours))
    assert figures["lifetime_hours"]["longest"] == description.span_days * 24 == hours.max()
    assert figures["tenant_days"] == pytest.approx(hours.sum() / 24)
    assert figures["censored"] == pytest.approx(traces.censored.mean())
    assert figures["gaps"] == {}
    assert description.start_hours is None


def test_usage_growth_and_days(region: tuple[Path, TraceSet]) -> None:
    path, traces = region
    for place, figures in enumerate(describe(path).metrics):
        column = traces.values[:, place].astype(np.float64)
        series = np.split(column, traces.series_start[1:-1])
        limits = traces.max_usage[traces.series_tenant, place].astype(np.float64)
        assert figures.metric == METRICS[place]
        assert figures.mean == pytest.approx(column.mean())
        assert figures.highest == column.max()
        assert figures.used == pytest.approx(
            column.sum() / sum(len(s) * m for s, m in zip(series, limits, strict=True))
        )
        rise = [(s[-1] - s[0]) / s.max() if s.max() else 0.0 for s in series]
        assert figures.rise == pytest.approx(np.median(rise), abs=1e-6)
        assert figures.growing == pytest.approx(np.mean(np.array(rise) > 0.1))
        grown = [np.flatnonzero(s >= 0.95 * s.max())[0] / 6 for s in series]
        assert figures.growth_hours == pytest.approx(np.median(grown), abs=1 / 6)
        peaks = [s.max() / m for s, m in zip(series, limits, strict=True) if m > 0]
        assert np.sort(figures.peak_shares) == pytest.approx(np.sort(peaks))
        hour = np.concatenate([np.arange(len(s)) % DAY_STEPS // 6 for s in series])
        daily = [column[hour == at].mean() / column.mean() for at in range(24)]
        assert figures.daily == pytest.approx(np.array(daily))


def test_hours_of_the_day_use_the_begin_of_tenants(tmp_path: Path) -> None:
    """A converted trace contains the begin of its tenants. Hours are those of the trace, and its span is known."""
    rows = [alibaba_row("c_1", 6 * 3600 + at, 50 if at < 3600 else 10, 20) for at in range(1, 7200, 300)]
    text(tmp_path / "container_usage.csv", [*rows, alibaba_row("c_2", 50 * 3600, 10, 20)])
    text(tmp_path / "container_meta.csv", [alibaba_meta(name, 100, 2.5) for name in ("c_1", "c_2")])
    converted("alibaba2018", tmp_path, tmp_path / "out")
    description = describe(tmp_path / "out")
    daily = description.metrics[0].daily
    assert np.flatnonzero(np.isfinite(daily)).tolist() == [2, 6, 7]
    assert daily[6] == pytest.approx(5 * daily[7])
    assert description.span_days == pytest.approx((50 * 3600 + 600 - 6 * 3600) / 86_400)
    assert description.figures()["gaps"] == {"gaps_filled": 0, "steps_filled": 0, "gaps_cut": 0}
    assert description.figures()["metrics"]["cpu"]["unit"] == "cores"


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize(("file", "edit"), [fault[1:3] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_unreadable_traces_have_no_description(tmp_path, monkeypatch, file, edit, rows) -> None:
    rewrite(folder(tmp_path) / file, edit)
    with pytest.raises(TraceError) as whole:
        read_traces(tmp_path)
    monkeypatch.setattr(trace_format, "BATCH_ROWS", rows)
    with pytest.raises(TraceError) as caught:
        describe(tmp_path)
    assert set(caught.value.problems) == set(whole.value.problems)


def test_faults_of_several_batches_are_reported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path) / TRACES_FILE
    for edit in (put(1, "tenant_class", "BC"), put(5, "disk", 2000.0), lambda frame: frame.head(6)):
        rewrite(path, edit)
    monkeypatch.setattr(trace_format, "BATCH_ROWS", 2)
    with pytest.raises(TraceError) as caught:
        describe(tmp_path)
    assert [(problem.row, problem.column) for problem in caught.value.problems] == [
        (1, "tenant_class"),
        (5, "disk"),
        (6, "time_s"),
    ]


def test_bad_rows_of_all_batches_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_traces(generate(REGIONS["region1"], 5, 3), tmp_path)
    whole = pl.read_parquet(tmp_path / TRACES_FILE)
    monkeypatch.setattr(trace_format, "BATCH_ROWS", 100)
    for values in (-whole["disk"] - 1, pl.Series([None] * len(whole), dtype=pl.Float32)):
        rewrite(tmp_path / TRACES_FILE, lambda frame, values=values: frame.with_columns(disk=values))
        with pytest.raises(TraceError) as caught:
            describe(tmp_path)
        assert [problem.row for problem in caught.value.problems] == [1, 2, 3, 4, 5]
        assert caught.value.problems[-1].count == len(whole)


def test_a_start_that_is_no_number_is_refused(tmp_path: Path) -> None:
    rewrite(folder(tmp_path) / TENANTS_FILE, lambda frame: frame.with_columns(start_s=pl.Series([0.0, 600.0])))
    assert describe(tmp_path).span_days == pytest.approx(4 * 600 / 86_400)
    rewrite(tmp_path / TENANTS_FILE, put(2, "start_s", float("nan")))
    with pytest.raises(TraceError, match="row 2, column start_s: found nan; expected seconds, from"):
        describe(tmp_path)


@pytest.mark.parametrize("off", [1e-4, -1e-4])
@pytest.mark.parametrize(("file", "column"), [(TRACES_FILE, "time_s"), (TENANTS_FILE, "lifetime_s")])
def test_inexact_times_are_rounded_to_steps(region, tmp_path, file, column, off) -> None:
    path, _ = region
    shutil.copytree(path, tmp_path, dirs_exist_ok=True)
    rewrite(tmp_path / file, lambda frame: frame.with_columns(pl.col(column).cast(pl.Float64) + off))
    for description, expected in zip(describe(tmp_path).metrics, describe(path).metrics, strict=True):
        assert attrs.asdict(description, recurse=False).keys() == attrs.asdict(expected, recurse=False).keys()
        for name, value in attrs.asdict(expected, recurse=False).items():
            np.testing.assert_array_equal(getattr(description, name), value, err_msg=name)


@pytest.mark.parametrize("name", ["hour", "tenth", "lifetime_s", "start_s", "rows", "share_cpu", "max_cpu", "usage_0"])
def test_metrics_may_have_any_name(region: tuple[Path, TraceSet], tmp_path: Path, name: str) -> None:
    path, traces = region
    others = attrs.evolve(traces, metrics=(*traces.metrics[:2], attrs.evolve(traces.metrics[2], name=name)))
    write_traces(others, tmp_path)
    description, expected = describe(tmp_path).figures()["metrics"], describe(path).figures()["metrics"]
    assert description == {"cpu": expected["cpu"], "memory": expected["memory"], name: expected["disk"]}
