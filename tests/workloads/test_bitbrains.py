"""The Bitbrains reader: gaps, windows, classes and counts, on a small file and on the shared one where it is there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from plb.errors import InvalidValueError
from workloads.bitbrains import FILE, METRICS, BitbrainsReport, read_bitbrains
from workloads.compression import compress
from workloads.errors import TraceError
from workloads.trace import TraceSet, split_tenants

SHARED = Path(os.environ.get("PLB_BITBRAINS", "/work/shared/data/bitbrains_rnd"))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write 5-minute rows; what a row does not say is a machine of 2 cores at 2000 MHz in all and 4 GB."""
    base = {"vm": 1, "cores": 2, "cap_mhz": 2000, "cpu_mhz": 1000, "memcap_mb": 4096, "mem_mb": 1024}
    frame = pl.DataFrame([base | row for row in rows])
    frame.select("vm", "bin", "cores", "cap_mhz", "cpu_mhz", "memcap_mb", "mem_mb").write_parquet(path / FILE)
    return path


def bins(*values: int, **row: int) -> list[dict[str, Any]]:
    """Return one row for each bin."""
    return [{"bin": value, **row} for value in values]


def test_two_bins_become_one_step(tmp_path: Path) -> None:
    """MHz become cores, MB become GB, and two 5-minute values become their mean, or on request their maximum."""
    rows = [{"bin": 0, "cpu_mhz": 500, "mem_mb": 1024}, {"bin": 1, "cpu_mhz": 1500, "mem_mb": 2048}]
    write(tmp_path, rows)
    mean, _ = read_bitbrains(tmp_path, min_hours=0)
    most, _ = read_bitbrains(tmp_path, min_hours=0, aggregate="max")
    assert mean.values.tolist() == [[1.0, 1.5]]
    assert most.values.tolist() == [[1.5, 2.0]]
    assert mean.metrics == METRICS
    assert mean.class_names().tolist() == ["vm_c2_m4"]
    assert mean.max_usage.tolist() == [[2.0, 4.0]]


def test_short_gaps_are_filled_and_long_ones_cut(tmp_path: Path) -> None:
    """One missing step repeats the last value; a gap over the bound starts a new tenant of the same family."""
    rows = [*bins(0, cpu_mhz=200), *bins(4, cpu_mhz=400), *bins(40, 42)]
    traces, report = read_bitbrains(write(tmp_path, rows), min_hours=0)
    assert traces.tenant_names().tolist() == ["vm1@0", "vm1@20"]
    np.testing.assert_allclose(traces.values[:, 0], [0.2, 0.2, 0.4, 1.0, 1.0])
    assert traces.family.tolist() == [1, 1]
    assert (report.gaps_filled, report.steps_filled, report.gaps_cut) == (1, 1, 1)


def test_windows_are_cut_and_short_ones_refused(tmp_path: Path) -> None:
    """A day's series becomes windows of an hour; a rest below the minimum is refused and counted."""
    traces, report = read_bitbrains(write(tmp_path, bins(*range(38))), window_days=1 / 24, min_hours=0.5)
    assert traces.lifetime_steps.tolist() == [6, 6, 6]
    assert (report.windows, report.windows_refused, report.steps_refused) == (3, 1, 1)
    assert report.steps_kept == report.steps + report.steps_filled - report.steps_refused == 18


def test_only_a_machine_that_ends_early_is_not_censored(tmp_path: Path) -> None:
    """The last window of a machine that ends a day before the trace is a whole life; all others were cut."""
    rows = [*bins(*range(40)), *bins(*range(800), vm=2)]
    traces, _ = read_bitbrains(write(tmp_path, rows), window_days=0.1)
    ended = [name for name, cut in zip(traces.tenant_names(), traces.censored, strict=True) if not cut]
    assert ended == ["vm1@14"]


def test_usage_is_clipped_and_bad_rows_are_refused_with_counts(tmp_path: Path) -> None:
    """Usage above what is provisioned is clipped; rows without provisioned cores or memory are refused; all counted."""
    rows = [
        *bins(0, cpu_mhz=3000),
        *bins(1, cores=0),
        *bins(2, memcap_mb=0),
        *bins(3, mem_mb=9999),
        *bins(4, cap_mhz=0),
    ]
    traces, report = read_bitbrains(write(tmp_path, rows), min_hours=0)
    assert traces.values.tolist() == [[2.0, 1.0], [1.0, 4.0]]
    assert report.clipped == {"cpu": 1, "memory": 1}
    assert report.rows_refused == {
        "without provisioned CPU": 2,
        "without provisioned memory": 1,
        "with a negative value": 0,
    }
    assert "5 rows of 1 machines" in str(report)


def test_missing_files_columns_and_bad_settings_are_refused(tmp_path: Path) -> None:
    """A missing file or column is named; settings outside their range are refused."""
    with pytest.raises(TraceError, match="no such file"):
        read_bitbrains(tmp_path)
    pl.DataFrame({"vm": [1], "bin": [0]}).write_parquet(tmp_path / FILE)
    with pytest.raises(TraceError, match="column mem_mb"):
        read_bitbrains(tmp_path)
    with pytest.raises(InvalidValueError, match="window_days"):
        read_bitbrains(tmp_path, window_days=0)
    with pytest.raises(InvalidValueError, match="aggregate"):
        read_bitbrains(tmp_path, aggregate="median")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shared() -> tuple[TraceSet, BitbrainsReport]:
    """Return the shared traces."""
    if not (SHARED / FILE).is_file():
        pytest.skip(f"{SHARED / FILE} is not here")
    return read_bitbrains(SHARED)


def test_the_shared_traces_are_read_in_full(shared: tuple[TraceSet, BitbrainsReport]) -> None:
    """All 11,942,571 rows of 500 machines are accounted for, and no demand exceeds what was provisioned."""
    traces, report = shared
    assert (report.rows_read, report.machines) == (11_942_571, 500)
    assert sum(report.rows_refused.values()) < 10
    assert report.steps_kept == report.steps + report.steps_filled - report.steps_refused
    assert traces.lifetime_steps.max() <= 7 * 144
    assert (traces.values <= np.repeat(traces.max_usage, traces.lifetime_steps, axis=0)).all()
    assert len(set(traces.tenant_names())) == traces.tenants
    assert len(compress(traces)) == traces.tenants


def test_no_window_spans_the_missing_days(shared: tuple[TraceSet, BitbrainsReport]) -> None:
    """No tenant lives on the two days that are missing for all machines."""
    traces, _ = shared
    start = np.array([int(name.split("@")[1]) for name in traces.tenant_names()])
    for first_bin, last_bin in ((8640, 8927), (17568, 17855)):
        inside = (start <= last_bin // 2) & (start + traces.lifetime_steps > first_bin // 2)
        assert not inside.any()


def test_a_machine_is_never_on_both_sides(shared: tuple[TraceSet, BitbrainsReport]) -> None:
    """The split is by machine: no machine has windows in history and simulation."""
    history, simulation = split_tenants(shared[0], 0.4, 5)
    assert len(np.unique(history.family)) == 200
    assert not set(history.family) & set(simulation.family)
