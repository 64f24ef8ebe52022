"""The Bitbrains reader: gaps, windows, classes and counts, on small files and on the shared file if available."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from workloads.column_checks import TraceError
from workloads.compression import compress
from workloads.readers import READERS, ConversionReport, Options, read_public
from workloads.readers.bitbrains import FILE, METRICS, REASONS
from workloads.readers.sampled import REPEATED
from workloads.trace import TraceSet

SHARED = Path(os.environ.get("PLB_BITBRAINS", "/work/shared/data/bitbrains_rnd"))


def read_bitbrains(path: Path, **options: Any) -> tuple[TraceSet, ConversionReport]:
    return read_public(READERS["bitbrains"], path, Options(**options))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write 5-minute rows; the default is a machine of 2 cores, 2000 MHz in total and 4 GB."""
    base = {"vm": 1, "cores": 2, "cap_mhz": 2000, "cpu_mhz": 1000, "memcap_mb": 4096, "mem_mb": 1024}
    frame = pl.DataFrame([base | row for row in rows], infer_schema_length=None)
    frame.select("vm", "bin", "cores", "cap_mhz", "cpu_mhz", "memcap_mb", "mem_mb").write_parquet(path / FILE)
    return path


def bins(*values: int, **row: float | None) -> list[dict[str, Any]]:
    return [{"bin": value, **row} for value in values]


def test_two_bins_give_one_step(tmp_path: Path) -> None:
    """MHz are converted to cores and MB to GB. Two 5-minute values give their mean or, on request, their maximum."""
    rows = [{"bin": 0, "cpu_mhz": 500, "mem_mb": 1024}, {"bin": 1, "cpu_mhz": 1500, "mem_mb": 2048}]
    write(tmp_path, rows)
    mean, _ = read_bitbrains(tmp_path, min_hours=0)
    most, _ = read_bitbrains(tmp_path, min_hours=0, aggregate="max")
    assert mean.values.tolist() == [[1.0, 1.5]]
    assert most.values.tolist() == [[1.5, 2.0]]
    assert mean.metrics == METRICS
    assert mean.class_names().tolist() == ["vm_c2_m4"]
    assert mean.max_usage.tolist() == [[2.0, 4.0]]


def test_short_gaps_are_filled_and_long_ones_divide(tmp_path: Path) -> None:
    """One missing step repeats the last value. A gap beyond the bound starts a new tenant of the same family."""
    rows = [*bins(0, cpu_mhz=200), *bins(4, cpu_mhz=400), *bins(40, 42)]
    traces, report = read_bitbrains(write(tmp_path, rows), min_hours=0)
    assert traces.tenant_names().tolist() == ["vm1@0", "vm1@20"]
    np.testing.assert_allclose(traces.values[:, 0], [0.2, 0.2, 0.4, 1.0, 1.0])
    assert traces.family.tolist() == [1, 1]
    assert (report.gaps_filled, report.steps_filled, report.gaps_cut) == (1, 1, 1)


def test_series_are_cut_into_windows(tmp_path: Path) -> None:
    traces, report = read_bitbrains(write(tmp_path, bins(*range(38))), window_days=1 / 24, min_hours=0.5)
    assert traces.lifetime_steps.tolist() == [6, 6, 6]
    assert (report.tenants, report.tenants_refused, report.steps_refused) == (3, 1, 1)
    assert report.steps_kept == report.steps + report.steps_filled - report.steps_refused == 18


def test_only_a_machine_that_ends_early_is_uncensored(tmp_path: Path) -> None:
    """The last window of a machine that ends a day before the trace is a complete lifetime. All others are censored."""
    rows = [*bins(*range(40)), *bins(*range(800), vm=2)]
    traces, _ = read_bitbrains(write(tmp_path, rows), window_days=0.1)
    ended = [name for name, cut in zip(traces.tenant_names(), traces.censored, strict=True) if not cut]
    assert ended == ["vm1@14"]


def test_usage_is_clipped_and_bad_rows_are_rejected(tmp_path: Path) -> None:
    """Usage is clipped to the provisioned value, and clips are counted. Each rejected row counts for its first reason.

    Raw traces contain additional rows with 0 cores, even with a usable row of the same bin.
    """
    rows = [
        *bins(0, cpu_mhz=3000),
        *bins(0, cores=0),
        *bins(2, cpu_mhz=None, cores=0, mem_mb=-1),
        *bins(3, mem_mb=9999),
        *bins(4, cap_mhz=0, memcap_mb=0, mem_mb=-1),
        *bins(6, memcap_mb=-1, cpu_mhz=-1),
        *bins(8, mem_mb=-1),
    ]
    traces, report = read_bitbrains(write(tmp_path, rows), min_hours=0)
    assert traces.values.tolist() == [[2.0, 1.0], [1.0, 4.0]]
    assert report.clipped == {"cpu": 1, "memory": 1}
    assert report.rows_refused == dict.fromkeys(REASONS, 1) | {REASONS[1]: 2, REPEATED: 0}
    assert "7 rows read, 2 kept" in str(report)


@pytest.mark.parametrize("column", ["cores", "cap_mhz", "cpu_mhz", "memcap_mb", "mem_mb"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, 1e39])
def test_a_row_without_a_usable_number_is_rejected(tmp_path: Path, column: str, value: float | None) -> None:
    rows = [*bins(0), *bins(1, 2, **{column: value}), *bins(4)]
    traces, report = read_bitbrains(write(tmp_path, rows), min_hours=0)
    assert traces.values.tolist() == [[1.0, 1.0]] * 3
    assert traces.max_usage.tolist() == [[2.0, 4.0]]
    assert report.rows_refused == dict.fromkeys((*REASONS, REPEATED), 0) | {REASONS[0]: 2}
    assert (report.steps, report.steps_filled, report.clipped) == (2, 1, {"cpu": 0, "memory": 0})


@pytest.mark.parametrize("column", ["vm", "bin"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, 1.5, -1, 2**31])
def test_a_row_without_machine_or_bin_is_an_error(tmp_path: Path, column: str, value: float | None) -> None:
    """The message names the first such rows and contains the number of all. Whole numbers may be floats."""
    rows = [*bins(0, 1.0), *({"bin": place, column: value} for place in range(2, 9))]
    write(tmp_path, rows)
    with pytest.raises(TraceError) as caught:
        read_bitbrains(tmp_path)
    problems = caught.value.problems
    assert [(problem.row, problem.column) for problem in problems] == [(row, column) for row in range(3, 8)]
    assert [problem.count for problem in problems] == [1, 1, 1, 1, 7]
    assert str(caught.value).endswith(" (7 rows in all)")
    assert problems[0].expected == "a whole number from 0 to 2147483647"


@pytest.mark.parametrize("usage", [1000, 500], ids=["equal values", "different values"])
def test_a_duplicate_row_is_an_error(tmp_path: Path, usage: int) -> None:
    rows = [*bins(0, 1, 4), *bins(0, vm=2), *bins(1, cpu_mhz=usage), *bins(4)]
    with pytest.raises(TraceError) as caught:
        read_bitbrains(write(tmp_path, rows), min_hours=0)
    assert [(problem.row, problem.column) for problem in caught.value.problems] == [(5, "bin"), (6, "bin")]
    assert caught.value.problems[0].found == "{'vm': 1, 'bin': 1}"
    assert caught.value.problems[0].expected == "a machine and bin that no usable row above has"


def test_a_file_without_usable_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_bitbrains(tmp_path)
    pl.DataFrame({"vm": [1], "bin": [0]}).write_parquet(tmp_path / FILE)
    with pytest.raises(TraceError, match="column mem_mb"):
        read_bitbrains(tmp_path)
    write(tmp_path, bins(0, 1, 2))
    good = pl.read_parquet(tmp_path / FILE)
    good.head(0).write_parquet(tmp_path / FILE)
    with pytest.raises(TraceError, match="found no rows; expected at least one usable row"):
        read_bitbrains(tmp_path)
    good.with_columns(cores=pl.lit(0)).write_parquet(tmp_path / FILE)
    with pytest.raises(TraceError, match=r"found only refused rows \(3 without provisioned CPU\); expected at least"):
        read_bitbrains(tmp_path)
    good.write_parquet(tmp_path / FILE)
    with pytest.raises(TraceError, match=r"found only series below 1 h \(1 in all\); expected a longer one"):
        read_bitbrains(tmp_path)


def damage(contents: bytes) -> bytes:
    return contents[:200] + b"\xff" * 400 + contents[600:]


@pytest.mark.parametrize(
    "edit",
    [lambda _: b"garbage", lambda _: b"", lambda contents: contents[:-40], damage],
    ids=["text", "empty", "cut off", "overwritten"],
)
def test_a_damaged_file_is_refused(tmp_path: Path, edit: Callable[[bytes], bytes]) -> None:
    path = write(tmp_path, [*bins(*range(3000)), *bins(*range(3000), vm=2)]) / FILE
    path.write_bytes(edit(path.read_bytes()))
    with pytest.raises(TraceError, match=rf"{FILE}: found damaged contents .*; expected a Parquet file"):
        read_bitbrains(tmp_path)


ALL_MACHINES, SOME_MACHINES = 500, 60
"""Numbers of machines of the shared traces. The faster tests read some."""


@pytest.fixture(scope="module", params=[SOME_MACHINES, pytest.param(ALL_MACHINES, marks=pytest.mark.slow)])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TraceSet, ConversionReport]:
    """Return the shared traces of some machines and of all."""
    if not (SHARED / FILE).is_file():
        pytest.skip(f"{SHARED / FILE} is not here")
    rows = pl.scan_parquet(SHARED / FILE)
    some = rows.select(pl.col("vm").unique().sort().head(request.param))
    folder = tmp_path_factory.mktemp("bitbrains")
    rows.join(some, on="vm", how="semi").collect().write_parquet(folder / FILE)
    return read_bitbrains(folder)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [ALL_MACHINES], indirect=True)
def test_the_shared_traces_are_read_in_full(shared: tuple[TraceSet, ConversionReport]) -> None:
    traces, report = shared
    assert (report.rows_read, report.owners) == (11_942_571, 500)
    assert sum(report.rows_refused.values()) < 10
    assert report.steps_kept == report.steps + report.steps_filled - report.steps_refused
    assert traces.lifetime_steps.max() <= 7 * 144
    assert (traces.values <= np.repeat(traces.max_usage, traces.lifetime_steps, axis=0)).all()
    assert len(set(traces.tenant_names())) == traces.tenants
    assert len(compress(traces)) == traces.tenants


def test_no_window_spans_the_missing_days(shared: tuple[TraceSet, ConversionReport]) -> None:
    traces, _ = shared
    start = np.array([int(name.split("@")[1]) for name in traces.tenant_names()])
    for first_bin, last_bin in ((8640, 8927), (17568, 17855)):
        inside = (start <= last_bin // 2) & (start + traces.lifetime_steps > first_bin // 2)
        assert not inside.any()
