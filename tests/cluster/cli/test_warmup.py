"""`plb warmup`: compiled kernels, output, log and errors."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster import warmup
from cluster.console import BAD_INPUT
from plb.compiler.cache import SUFFIX, kernel_cache
from plb.compiler.clock import NOTICE, logger
from tests.command_line import plb
from tests.sources import ROOT

LOG = "warmup.log"
ESTIMATORS = """
cluster.nodes = 8
workload = { kind = "region", region = "region1", density = 2.4 }
run = { days = 1.0, fill_hours = 6, policies = ["a", "b", "c", "d", "e", "f", "g", "h", "i"] }
[policies]
a = { estimator = "historical-simulation" }
b = { estimator = "historical-simulation", w_overload = 1.0 }
c = { estimator = "gaussian:warmup=12,history=144" }
d = { estimator = "n-sigma:n=5,warmup=12,history=60" }
e = { estimator = "rc-like:percentile=99,warmup=12,history=60" }
f = { estimator = "borg-default:phi=0.9" }
g = { estimator = "max(n-sigma:warmup=12,history=60;rc-like:warmup=12,history=60)" }
h = { estimator = "monte-carlo:horizon=24", replay = "from_present", w_overload = 1.0 }
i = { evaluation = "timeline" }
"""
"""A small scenario with a policy for each estimator."""
PLB = "from plb_command import main; main()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the log."""
    return tmp_path / "cache"


@pytest.fixture
def warm_up_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs the command in this process with these tasks."""
    kernel_cache()  # kernels stay in the cache of this process
    monkeypatch.setenv("PLB_CACHE_DIR", str(folder))

    def run(tasks: Mapping[str, Callable[[], object]], *arguments: Any) -> Any:
        monkeypatch.setattr(warmup, "TASKS", tasks)
        return plb("warmup", "--jobs", 1, *arguments)

    return run


def announce(*names: str) -> Callable[[], None]:
    """Return a task that reports the compilation of these kernels."""

    def task() -> None:
        for name in names:
            NOTICE.announce(name, 1)

    return task


def test_output_log_and_figures_count_the_kernels(warm_up_with, folder: Path, tmp_path: Path):
    """In the log, kernels follow the task that compiled them, with their seconds."""
    tasks = {"first": announce("plb.a", "plb.b"), "second": announce("plb.c")}
    run = warm_up_with(tasks, "--json", tmp_path / "figures.json")
    assert run.exit_code == 0, run.output
    assert re.search(r"3 kernels compiled, in \d+ s\.", run.stdout)
    assert str(folder / LOG) in run.stdout
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["compiled"], figures["jobs"]) == (3, 1)
    assert figures["seconds"] > 0
    _, *lines, end = [line.partition(" ")[2] for line in (folder / LOG).read_text().splitlines()]
    assert [line.split(" s")[-1].strip() for line in lines] == ["", "plb.a", "plb.b", "", "plb.c"]
    assert lines[0].startswith("first: 2 kernels compiled, ")
    assert lines[3].startswith("second: 1 kernel compiled, ")
    assert end.startswith("all tasks are finished, ")


def test_runs_without_compilation_are_reported_and_added_to_the_log(warm_up_with, folder: Path):
    for _ in range(2):
        assert "All kernels were compiled already." in warm_up_with({"only": lambda: None}).stdout
    assert (folder / LOG).read_text().count("plb warmup --jobs 1") == 2


def test_messages_of_the_engine_are_not_printed(warm_up_with, capsys: pytest.CaptureFixture[str]):
    run = warm_up_with({"only": announce("plb.a")})
    assert "plb.a" not in run.output + "".join(capsys.readouterr())
    assert logger.level == logging.NOTSET
    assert not logger.filters


def test_a_warning_of_several_tasks_is_printed_once(warm_up_with):
    tasks = {name: lambda: logger.warning("There is no %s.", "room") for name in ("first", "second")}
    assert warm_up_with(tasks).stderr.count("There is no room.") == 1


def test_a_failed_task_ends_the_command_after_the_others(warm_up_with, folder: Path):
    done = []

    def fail() -> None:
        raise ValueError("no such kernel")

    run = warm_up_with({"first": fail, "second": lambda: done.append("second")})
    assert run.exit_code == BAD_INPUT
    assert "the task 'first' failed: ValueError: no such kernel." in run.stderr
    assert str(folder / LOG) in run.stderr
    assert done == ["second"]
    assert "in fail" in (folder / LOG).read_text()


def test_the_command_runs_without_a_log(warm_up_with, folder: Path):
    folder.write_text("a file where the directory should be")
    run = warm_up_with({"only": announce("plb.a")})
    assert run.exit_code == 0, run.output
    assert "1 kernel compiled" in run.stdout
    assert f"There is no log of the compilations: {folder / LOG}: " in run.stdout


def test_without_a_home_there_is_no_log(warm_up_with, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("plb.compiler.cache.cache_directory", lambda: None)
    assert (
        "There is no log of the compilations: there is no home directory; set PLB_CACHE_DIR" in warm_up_with({}).stdout
    )


def test_several_processes_run_all_tasks():
    results = list(warmup.warm_up(2))
    assert sorted(result.task for result in results) == sorted(warmup.TASKS)
    assert {result.error for result in results} == {None}


@pytest.mark.slow
def test_no_kernel_is_left_to_compile(tmp_path: Path):
    environment = {**os.environ, "PLB_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def kernels_after(*arguments: Any) -> set[str]:
        subprocess.run([sys.executable, *map(str, arguments)], env=environment, capture_output=True, check=True)
        return {path.name for path in (tmp_path / "cache").glob(f"*{SUFFIX}")}

    def simulated(scenario: Path, jobs: int = 1) -> set[str]:
        days = min(3.0, tomllib.loads(scenario.read_text())["run"]["days"])
        out = ("--out", tmp_path / f"{scenario.stem}-{jobs}", "--quiet")
        return kernels_after("-c", PLB, "simulate", scenario, "--days", days, "--jobs", jobs, *out)

    compiled = kernels_after("-c", PLB, "warmup", "--jobs", 2)
    assert kernels_after(ROOT / "examples" / "embedding.py") == compiled
    (tmp_path / "estimators.toml").write_text(ESTIMATORS)
    for jobs in (1, 2):
        assert simulated(tmp_path / "estimators.toml", jobs) == compiled
    for scenario in (ROOT / "examples" / "quickstart.toml", *(ROOT / "examples" / "gallery").glob("*.toml")):
        assert simulated(scenario) == compiled, scenario.name
    samples = ROOT / "examples" / "task_samples.csv"
    assert kernels_after("-c", PLB, "predict", samples, "--predictor", *warmup.PREDICTORS) == compiled
    assert kernels_after(ROOT / "examples" / "provisioning.py") == compiled
    assert kernels_after("-c", PLB, "warmup", "--jobs", 1) == compiled
