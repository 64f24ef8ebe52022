"""The study of peaks: figures from samples, and the whole command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cluster.studies.peaks.panels import (
    HORIZON,
    Family,
    cell_panels,
    merged,
    peak_differences,
    predictor_panels,
    run_times,
    task_level_peaks,
    week,
    week_panels,
    weeks_of,
)
from plb.risk.peaks import TaskSamples
from tests.command_line import plb
from workloads.regions import REGIONS
from workloads.task_samples import MICROSECONDS, Cell, cell_of_region, write_frame

HOUR = 3600 * MICROSECONDS


def samples_of(rows: list[tuple[int, int, float, float, float]], step_hours: float = 0.5) -> TaskSamples:
    """Return samples from rows of machine, task, hour, usage and limit."""
    machine, task, hours, usage, limit = (np.array(column) for column in zip(*rows, strict=True))
    time = (hours * HOUR).astype(np.int64)
    step = round(step_hours * HOUR)
    return TaskSamples.from_columns(machine=machine, task=task, time=time, usage=usage, limit=limit, step=step)


@pytest.fixture(scope="module")
def small() -> Cell:
    """Return a synthetic cell of two machines and three days."""
    return cell_of_region(REGIONS["region1"], machines=2, days=3.0, seed=2)


def test_peaks_of_tasks_are_maxima_of_future_usage(small: Cell):
    horizon, request = 7, []
    for machine in small.samples.machines():
        sums = np.zeros(len(machine.time))
        for begin, end in zip(machine.task_start[:-1], machine.task_start[1:], strict=True):
            for row in range(begin, end):
                to_come = machine.usage[row + 1 : min(row + 1 + horizon, end)]
                sums[machine.snapshot[row]] += min(max(to_come, default=0.0), machine.limit[row])
        request += sums.tolist()
    np.testing.assert_allclose(task_level_peaks(small.samples, horizon), request)


def test_sums_of_percentiles_are_compared_with_the_peak_of_the_hour():
    """Two tasks have peaks at different times. The sum of their maxima is twice the peak of the machine."""
    rows = [(0, 0, 0.0, 1.0, 9.0), (0, 0, 0.5, 0.0, 9.0), (0, 1, 0.0, 0.0, 9.0), (0, 1, 0.5, 1.0, 9.0)]
    found = peak_differences(samples_of([*rows, (1, 2, 5.0, 0.0, 9.0)]))
    assert found["100th percentile"].tolist() == [1.0]
    assert found["50th percentile"].tolist() == [0.0]
    np.testing.assert_allclose(found["80th percentile"], [0.6])


def test_run_times_count_the_last_step():
    rows = [(0, 0, 0.0, 1.0, 1.0), (0, 0, 2.0, 1.0, 1.0), (0, 1, 0.0, 1.0, 1.0), (1, 1, 0.0, 1.0, 1.0)]
    assert run_times(samples_of(rows)).tolist() == [2.5, 0.5, 0.5]


def test_weeks_are_complete_and_have_samples():
    day = 24.0
    few = samples_of([(0, 0, hours, 1.0, 1.0) for hours in (0.0, 1.0)])
    many = samples_of([(0, 0, hours, 1.0, 1.0) for hours in (0.0, 16 * day, 20.5 * day, 21 * day - 0.5, 22 * day)])
    assert weeks_of(Cell("few", few)) == [0]
    assert weeks_of(Cell("many", many)) == [0, 2]
    assert (week(many, 2).time / HOUR / day).tolist() == [16.0, 20.5, 21 - 0.5 / day]


def test_hours_are_converted_to_samples_by_the_time_step():
    family = Family(600 * MICROSECONDS)
    assert (family.sigma().warmup, family.sigma().history, family.oracle(HORIZON).horizon) == (12, 60, 144)


def test_every_figure_has_its_panels(small: Cell):
    samples = week(small.samples, 0)
    parts = [
        *predictor_panels(samples),
        *week_panels(samples, "week 1"),
        *cell_panels(samples, small.name),
    ]
    found = {f"{panel.figure}{panel.letter}": panel.curves for panel in merged(parts)}
    assert list(found) == [
        *("1", "6", "7a", "7b", "7c", "8a", "8b", "8c", "8d", "9a", "9b", "9c", "9d"),
        *("10a", "10b", "10c", "10d", "11a", "11b", "11c", "12a", "12b", "12c"),
    ]
    assert (found["1"]["peaks of machines"] <= found["1"]["peaks of tasks"] + 1e-12).all()
    assert (found["8a"]["n 10"] <= found["8a"]["n 2"]).all()
    assert (found["9b"]["percentile 80"] >= found["9b"]["percentile 99"]).all()
    np.testing.assert_allclose(found["10c"]["borg-default"], 0.1)
    assert (found["10a"]["max"] <= np.minimum(found["10a"]["n-sigma"], found["10a"]["rc-like"])).all()
    assert (found["7b"]["3 h"] >= found["7b"]["24 h"]).all()
    for letter in "abc":
        np.testing.assert_array_equal(found[f"11{letter}"]["region1"], found[f"12{letter}"]["week 1"])


def test_the_command_draws_all_figures(tmp_path: Path):
    rows = [(0, task, 300 * step, float((step * (task + 2)) % 7), 10.0) for task in range(3) for step in range(40)]
    frame = pl.DataFrame(rows, schema=["machine", "task", "time_s", "usage", "limit"], orient="row")
    write_frame(frame, tmp_path / "mine.parquet")
    out = tmp_path / "out"
    run = plb("study", "peaks", "--traces", tmp_path / "mine.parquet", "--out", out, "--json", tmp_path / "f.json")
    assert run.exit_code == 0, run.output
    assert {path.stem for path in out.glob("*.png")} == {f"figure{n}" for n in (1, 6, 7, 8, 9, 10, 11, 12)}
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures["settings"] == [{"cell": "mine", "machines": 1, "samples": 120}]
    assert json.loads((out / "study.json").read_text())["complete"] is True
    curves = pl.read_parquet(out / "curves.parquet")
    median = curves.filter(figure=10, panel="a", label="max", quantile=0.5)["value"].item()
    assert median == figures["figures"]["10a"]["max"]["median"]


def test_a_cell_without_usage_has_figures(tmp_path: Path):
    """With a single sample of 0, some panels have no curve."""
    (tmp_path / "one.csv").write_text("machine,task,time_s,usage,limit\nm,t,0,0,0\n")
    run = plb("study", "peaks", "--traces", tmp_path / "one.csv", "--out", tmp_path / "out")
    assert run.exit_code == 0, run.output
    assert len(list((tmp_path / "out").glob("*.png"))) == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--traces", "t.csv", "--region", "region1"], "the traces have the tasks"),
        (["--days", "3"], "No such option"),
        (["--traces", "missing.csv"], "no such file"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, arguments: list[str], words: str):
    run = plb("study", "peaks", *arguments, "--out", tmp_path / "out")
    assert run.exit_code == 2
    assert words in re.sub(r"[\s│]+", " ", run.stderr)
