"""Cells for peak prediction: synthetic regions, files, and the sample of the Google trace."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from plb.errors import InvalidValueError
from workloads.regions import REGIONS
from workloads.task_samples import GOOGLE_FILE, MICROSECONDS, TASKS, cell_of_region, read_cell, read_google, write_frame

SHARED = Path(os.environ.get("PLB_GOOGLE2019", "/work/shared/data/google2019_instances"))


def test_a_synthetic_cell_is_always_full():
    samples = cell_of_region(REGIONS["region1"], machines=3, days=2.0, seed=1).samples
    assert np.diff(samples.start).tolist() == [TASKS * 2 * 144] * 3
    for machine in samples.machines():
        assert np.diff(machine.bounds).tolist() == [TASKS] * 2 * 144
        assert len(machine.task_start) - 1 > TASKS
    assert (samples.usage <= samples.limit).all()
    assert samples.step == 600 * MICROSECONDS


def test_a_task_of_a_synthetic_cell_has_one_lifetime():
    first, two, reseeded = (cell_of_region(REGIONS["region2"], machines=2, days=1.0, seed=s).samples for s in (4, 4, 5))
    np.testing.assert_array_equal(first.usage, two.usage)
    assert (first.usage != reseeded.usage).any()
    again = first.task[1:] == first.task[:-1]
    assert set(np.diff(first.time)[again].tolist()) == {first.step}
    assert (np.diff(first.limit)[again] == 0.0).all()


@pytest.mark.parametrize(("apart", "step"), [(60, 60), (300, 300), (0.5, 0.5)])
def test_the_time_step_is_the_distance_of_samples(tmp_path: Path, apart: float, step: float):
    """The most frequent distance counts, so a gap has no effect."""
    times = [apart * place for place in (0, 1, 2, 7, 8)]
    frame = pl.DataFrame({"machine": 1, "task": "t", "time_s": times, "usage": 1.0, "limit": 2.0})
    write_frame(frame, tmp_path / "mine.csv")
    cell = read_cell(tmp_path / "mine.csv")
    assert (cell.name, cell.samples.step) == ("mine", step * MICROSECONDS)


def test_the_google_sample_is_aligned_as_in_the_simulator(tmp_path: Path):
    """The largest sample of a step counts, times are rounded down, and a missing usage is omitted."""
    rows = [(310, 7, 0, 0.2, 0.5), (599, 7, 0, 0.3, 0.4), (600, 7, 0, -1.0, 0.4), (300, 7, 1, 0.1, 0.6)]
    schema = ["time", "collection_id", "instance_index", "p90_cpu_usage", "cpu_limit"]
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("time") * MICROSECONDS)
    frame.write_parquet(tmp_path / GOOGLE_FILE)
    samples = read_google(tmp_path, machines=1, seed=0)
    assert samples.time.tolist() == [300 * MICROSECONDS] * 2
    assert (samples.usage.tolist(), samples.limit.tolist()) == ([0.3, 0.1], [0.5, 0.6])


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared sample of the Google trace is not here")
def test_the_shared_google_sample_has_44_instances():
    samples = read_cell(SHARED).samples
    assert len(set(samples.task.tolist())) == 44
    assert len(samples.machine) == 4
    assert samples.time.max() - samples.time.min() <= 31 * 86400 * MICROSECONDS
    assert len(samples) > 77_000


@pytest.mark.parametrize(("machines", "days", "field"), [(0, 1, "machines"), (1, 0, "days"), (1, np.nan, "days")])
def test_a_cell_needs_machines_and_time(machines: int, days: float, field: str) -> None:
    with pytest.raises(InvalidValueError, match=f"cell: {field} = "):
        cell_of_region(REGIONS["region1"], machines=machines, days=days, seed=0)
