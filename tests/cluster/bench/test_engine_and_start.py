"""`plb bench engine` and `plb bench start`: printed tables and written figures."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.bench import start as bench_start
from cluster.bench.engine import bench_engine
from cluster.bench.start import CLUSTER, FIRST_PLAN, warm_first_plan
from cluster.cli.app import app
from plb import PlbError
from tests.command_line import plb

EXAMPLE = Path(__file__).parents[3] / "examples" / "embedding.py"


def test_start_prints_a_table_and_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seconds = iter(range(1, 100))

    def run(program: str, cache: str | None) -> tuple[str, float]:
        if cache is not None:
            (Path(cache) / f"{len(program)}.kernel").touch()
        return f"{next(seconds)}\n", 0.5

    monkeypatch.setattr(bench_start, "_run", run)
    printed = plb("bench", "start", "--json", tmp_path / "figures.json")
    assert printed.exit_code == 0, printed.output
    assert "first plan that compiles 1 kernel" in printed.stdout
    figures = json.loads((tmp_path / "figures.json").read_text())
    runs = bench_start.RUNS
    assert figures["import_seconds"] == 1
    assert figures["warm_first_plan_seconds"] == runs + 2, "the first process may have had to compile"
    assert figures["cold_first_plan_seconds"] == 2 * runs + 2
    assert figures["warmup_seconds"] == figures["cold_first_plan_process_seconds"] == 0.5
    assert (figures["cold_kernels"], figures["warmup_kernels"]) == (1, 1)


def test_the_first_plan_uses_the_cluster_of_the_example():
    assert CLUSTER in EXAMPLE.read_text()
    assert CLUSTER in FIRST_PLAN


def test_a_new_process_plans(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench_start, "RUNS", 1)
    timed = warm_first_plan()
    assert 0 < timed.seconds < timed.process_seconds


def test_a_process_that_fails_is_an_error():
    with pytest.raises(PlbError, match="a process failed: there is no cluster"):
        bench_start._run("raise SystemExit('there is no cluster')", None)
    with pytest.raises(PlbError, match="a process failed: exit code 3"):
        bench_start._run("raise SystemExit(3)", None)


@pytest.mark.slow
def test_bench_prints_a_table_and_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cluster.bench.engine.QUALITY_SECONDS", (0.01, 0.02))
    monkeypatch.setattr("cluster.bench.engine.bench_engine", partial(bench_engine, proposals=4000))
    path = tmp_path / "figures.json"
    run = CliRunner().invoke(app, ["bench", "engine", "--quick", "--nodes", "12", "--json", str(path)])
    assert run.exit_code == 0, run.output
    assert "12 nodes" in run.output
    assert "energy won after 0.01 s" in run.output
    (size,) = json.loads(path.read_text())["sizes"]
    assert size["nodes"] == 12
    assert min(size["full"], size["arithmetic"], size["early_five"], size["early_half"]) > 0
    assert 0 <= size["reached_monte_carlo_five"] <= 1
