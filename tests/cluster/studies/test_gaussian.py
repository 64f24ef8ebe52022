"""The study of [2]: cases, the Anderson-Darling test, one instance by hand, and the whole command."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import polars as pl
import pytest

from cluster.studies.gaussian.figures import claims, rebalancing
from cluster.studies.gaussian.packings import (
    CAPACITIES,
    CLAIRVOYANCE,
    CRITICAL,
    MEAN_TASK,
    Case,
    PackingInstance,
    anderson_darling,
    capacities_of,
    cases,
    is_gaussian,
    packings_frame,
    run_simultaneous,
    simultaneous_frame,
)
from cluster.studies.gaussian.study import GaussianStudy
from plb import PlbError
from plb.risk.gaussian import GPA, PAPER_TESTS, MeanTimes
from tests.command_line import plb
from workloads.realisations import read_samples

TASKS = 60


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Return a file of skewed tasks in whole percent, like those of PlanetLab."""
    rng = np.random.default_rng(4)
    rows = [rng.gamma(1.0, scale, 288).clip(0, 100).astype(int).tolist() for scale in rng.uniform(2, 20, TASKS)]
    pl.DataFrame({"day": ["20110303", "20110306"] * (TASKS // 2), "cpu_pct": rows}).write_parquet(
        tmp_path / "planetlab.parquet"
    )
    return tmp_path / "planetlab.parquet"


def run(traces: Path, out: Path, *arguments: str) -> tuple[Any, dict[str, Any]]:
    """Run a tiny study; return the result of the command and its figures."""
    command = ["study", "gaussian", "--traces", traces, "--out", out, "--json", f"{out}.json"]
    small = ["--instances", 2, "--tasks", 200, "--realisations", 200, "--samples", 3, "--jobs", 1]
    result = plb(*command, *small, *arguments)
    assert result.exit_code == 0, result.output
    return result, json.loads(Path(f"{out}.json").read_text())


def test_cases_are_those_of_the_paper_each_once() -> None:
    found = cases(10_000)
    assert len(set(found)) == len(found)
    for test in PAPER_TESTS:
        assert {Case(test), Case(test, averaged=True)} <= set(found)
    assert {case.capacity for case in found if case.test == GPA(0.1)} == set(CAPACITIES)
    assert {case.clairvoyance for case in found if case.test == GPA(0.001)} == set(CLAIRVOYANCE)
    assert min(case.clairvoyance for case in cases(500)) == 0.01, "a share of 0.001 would leave no observation"


@pytest.mark.parametrize("shape", [0.5, 5.0, 500.0])
def test_anderson_darling_agrees_with_scipy(shape: float) -> None:
    from scipy.stats import anderson

    values = np.random.default_rng(2).gamma(shape, 3.0, 5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        found = anderson(values)
    assert anderson_darling(values) == pytest.approx(float(found.statistic), rel=1e-9)
    assert pytest.approx(float(found.critical_values[2]), abs=2e-3) == CRITICAL


def test_five_percent_of_gaussian_samples_are_rejected() -> None:
    rng = np.random.default_rng(8)
    rejected = [not is_gaussian(rng.normal(5.0, 2.0, 100)) for _ in range(1000)]
    assert np.mean(rejected) == pytest.approx(0.05, abs=0.02)
    assert not is_gaussian(np.ones(100))
    assert not is_gaussian(rng.exponential(1.0, 500))


def test_limited_clairvoyance_packs_and_evaluates_on_different_realisations() -> None:
    """The packing uses the observed part of the tasks, and the evaluation uses the other part."""
    usage = np.zeros((4, 1000, 1), np.float32)
    usage[:, :, 0] = np.random.default_rng(3).random((4, 1000)) < 0.02
    instance = PackingInstance(usage, usage, [0.5], split_seed=7)
    whole = instance.pack(Case(MeanTimes(1.0)))
    little = instance.pack(Case(MeanTimes(1.0), clairvoyance=0.01))
    assert whole["machines"] == little["machines"] == 1
    assert whole["q"] == pytest.approx(float((usage.sum(axis=0) > 0.5).mean()))
    assert little["q"] != whole["q"]


def test_packing_uses_averages_and_evaluation_the_measurements() -> None:
    """Averages have no variance, so packing is limited only by the means, and machines are overloaded."""
    rng = np.random.default_rng(5)
    usage = rng.integers(0, 3, (30, 500, 1)).astype(np.float32)
    instance = PackingInstance(usage, np.ones_like(usage), [10.0], split_seed=1)
    fine, coarse = (instance.pack(Case(GPA(0.01), averaged=averaged)) for averaged in (False, True))
    assert coarse["machines"] == 3
    assert fine["machines"] > 3
    assert fine["q"] < 0.05 < coarse["q"]


def test_tasks_that_rise_together_overload_machines_more_often_than_independent_ones(tmp_path: Path) -> None:
    """The packing is the same, and only the second evaluation keeps the correlation of the tasks."""
    rng = np.random.default_rng(6)
    common = rng.integers(0, 20, 288)
    rows = [(common + rng.integers(0, 20, 288)).tolist() for _ in range(80)]
    pl.DataFrame({"cpu_pct": rows, "day": ["a"] * 80}).write_parquet(tmp_path / "planetlab.parquet")
    arguments = {"traces": str(tmp_path), "resources": ["cpu"], "capacity": [400.0], "realisations": 2000}
    found = run_simultaneous({**arguments, "seed": 1, "part": 1})
    frame = simultaneous_frame([{"part": 1, **found}])
    gpa = frame.filter(pl.col("test") == "GPA 0.05").row(0, named=True)
    assert gpa["q_independent"] < 0.05
    assert gpa["q"] > 0.15
    totals = np.array(rows).sum(axis=0)
    assert gpa["variance_ratio"] == pytest.approx(totals.var() / np.var(rows, axis=1).sum())


def test_default_capacity_gives_the_mean_task_of_the_paper(traces: Path) -> None:
    samples = read_samples(traces)
    capacity = capacities_of(samples, None)[0]
    assert samples.mean().mean() * 500 / capacity == pytest.approx(13.69)
    assert pytest.approx(0.02738) == MEAN_TASK
    assert capacities_of(samples, [250.0]) == (250.0,)
    with pytest.raises(PlbError, match="2 capacities for the resources cpu"):
        capacities_of(samples, [1.0, 2.0])


def test_keys_of_runs_contain_all_inputs(traces: Path) -> None:
    study = GaussianStudy(traces=traces, resources=("cpu",), capacity=(100.0,), instances=3, samples=250)
    keys = [task.key for task in study.tasks()]
    assert len(set(keys)) == len(keys) == 3 + 3
    more = attrs.evolve(study, instances=5, samples=300)
    assert set(keys) < {task.key for task in more.tasks()} | {keys[-1]}
    for other in (attrs.evolve(study, seed=1), attrs.evolve(study, capacity=(101.0,))):
        assert not set(keys) & {task.key for task in other.tasks()}
    traces.write_bytes(traces.read_bytes() + b" ")
    assert not set(keys) & {task.key for task in study.tasks()}


def test_runs_depend_only_on_their_arguments(traces: Path) -> None:
    sizes: dict[str, Any] = {"instances": 2, "instance_tasks": 30, "realisations": 100, "samples": 101, "periods": (1,)}
    study = GaussianStudy(traces=traces, resources=("cpu",), capacity=(200.0,), **sizes)
    tasks = [task.arguments for task in study.tasks() if task.arguments.get("samples") != 100]
    first = [GaussianStudy.run(arguments)["totals"] for arguments in tasks]
    assert first == [GaussianStudy.run(arguments)["totals"] for arguments in reversed(tasks)][::-1]
    assert first[0]["q"] != first[1]["q"]


def test_figures_come_from_the_runs() -> None:
    rows = []
    for part, (machines, q_off) in enumerate([(4, 0.2), (6, 0.4)]):
        row: dict[str, Any] = {"part": part, "realisations": 10_000, "machines": [], "m": [], "q": [], "oversized": []}
        for case in cases(10_000):
            row["machines"].append(machines * (2 if case.test.name == "Cantelli 1.7" else 1))
            row["q"].append(q_off / (1 if not case.rebalanced else 2))
            row["m"].append(1.0)
            row["oversized"].append(0)
        rows.append(row)
    frame = packings_frame(rows)
    assert set(rebalancing(frame)["gain"]) == {0.5}
    found = {claim.label: claim.ours for claim in claims(frame)}
    assert found["machines, Cantelli 1.7 / GPA 0.05"].mean == 2.0
    assert found["frequency of overload / requested, GPA 0.1"].mean == pytest.approx(1.5)
    assert found["relative decrease of overload by rebalancing, av and GPA"].mean == pytest.approx(0.5)
    assert found["machines, most that First Fit and Best Fit differ by"].mean == 0.0


def test_the_whole_study(traces: Path, tmp_path: Path) -> None:
    result, figures = run(traces, tmp_path / "out")
    titles = ("[2] table 1 and medians of figure 6", "are tasks independent?", "q by clairvoyance level")
    for words in (*titles, "60 tasks in the trace, 0 left out"):
        assert words in re.sub(r"\s+", " ", result.stdout)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"figure{number}.png" for number in range(6, 14)} <= names
    assert len(pl.read_parquet(tmp_path / "out/packings.parquet")) == 2 * len(cases(200))
    assert len(pl.read_parquet(tmp_path / "out/totals.parquet")) == 3 * 7
    assert len(pl.read_parquet(tmp_path / "out/simultaneous.parquet")) == 2 * 7
    assert figures["study"] == "gaussian"
    assert (len(figures["settings"]), len(figures["totals"])) == (len(cases(200)), 7)
    base = {
        row["test"]: row
        for row in figures["settings"]
        if (row["fit"], row["capacity"], row["clairvoyance"]) == ("best", 1.0, 1.0)
        and (row["rebalanced"], row["averaged"]) == (True, False)
    }
    q, m = ([base[test][name] for test in ("av 1", "GPA 0.05", "perc 100")] for name in ("q", "m"))
    assert q[0] > q[1] > q[2] == 0.0, "as in the paper, means overload more than GPA, and GPA more than maxima"
    assert m[0] < m[1] < m[2]


def test_machines_without_overload_have_tables_and_plots(traces: Path, tmp_path: Path) -> None:
    """One machine takes all tasks, and rebalancing has no effect."""
    _, figures = run(traces, tmp_path / "out", "--capacity", "1e9", "--instances", "1", "--tasks", "20", "--quiet")
    assert {one["machines"] for one in figures["settings"]} == {1.0}
    gain = figures["ratios"]["relative decrease of overload by rebalancing, av and GPA"]
    assert (gain["mean"], gain["settings"]) == (None, 0)
    assert figures["ratios"]["mean overload by GPA, most that these differ by, relative"]["settings"] == 0
    assert len(list((tmp_path / "out").glob("*.png"))) == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--traces", "nowhere"], "no such trace"),
        (["--traces", "FILE", "--json", "FILE"], "is read; give another file to write to"),
        (["--traces", "FILE", "--resource", "memory"], "unknown resource 'memory'; known: 'cpu'"),
        (["--traces", "FILE", "--capacity", "0"], "capacity[cpu] = 0.0 is not allowed"),
        (["--traces", "FILE", "--capacity", "1", "--capacity", "2"], "give one for each"),
        (["--traces", "FILE", "--realisations", "1"], "--realisations"),
        (["--traces", "FILE", "--instances", "1000000000"], "instances = 1000000000 is not allowed"),
        (["--traces", "FILE", "--samples", "1000000000"], "samples = 1000000000 is not allowed"),
        ([], "Missing option '--traces'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(
    traces: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    words_of_command = [traces if word == "FILE" else word for word in arguments]
    result = plb("study", "gaussian", *words_of_command, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert words in re.sub(r"[\s│]+", " ", result.stderr)
    assert not (tmp_path / "out").exists()
