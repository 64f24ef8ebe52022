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
PLB = "from cluster.cli.start import main; main()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the log."""
    return tmp_path / "cache"


@pytest.fixture
def given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that runs the command in this process with the given tasks."""
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


def test_the_output_counts_kernels_and_names_the_log(given, folder: Path, tmp_path: Path):
    """The figures are also written."""
    tasks = {"first": announce("plb.a", "plb.b"), "second": announce("plb.c")}
    run = given(tasks, "--json", tmp_path / "figures.json")
    assert run.exit_code == 0, run.output
    assert re.search(r"3 kernels compiled, in \d+ s\.", run.stdout)
    assert str(folder / LOG) in run.stdout
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["compiled"], figures["jobs"]) == (3, 1)
    assert figures["seconds"] > 0


def test_the_log_has_a_line_for_every_task_and_every_kernel(given, folder: Path):
    """Kernels follow the task that compiled them, with their seconds."""
    given({"first": announce("plb.a", "plb.b"), "second": lambda: None})
    _, *lines, end = [line.partition(" ")[2] for line in (folder / LOG).read_text().splitlines()]
    assert [line.split(" s")[-1].strip() for line in lines] == ["", "plb.a", "plb.b", ""]
    assert lines[0].startswith("first: 2 kernels compiled, ")
    assert lines[-1].startswith("second: 0 kernels compiled, ")
    assert end.startswith("all tasks are finished, ")


def test_every_run_adds_to_the_log(given, folder: Path):
    """Earlier lines remain."""
    for _ in range(2):
        given({"only": lambda: None})
    assert (folder / LOG).read_text().count("plb warmup --jobs 1") == 2


def test_a_run_without_compilation_is_reported(given):
    """A second run compiles nothing."""
    assert "All kernels were compiled already." in given({"only": lambda: None}).stdout


def test_messages_of_the_engine_are_not_printed(given, capsys: pytest.CaptureFixture[str]):
    """The progress bar already shows them."""
    run = given({"only": announce("plb.a")})
    assert "plb.a" not in run.output + "".join(capsys.readouterr())
    assert logger.level == logging.NOTSET
    assert not logger.filters


def test_a_warning_of_several_tasks_is_printed_once(given):
    """An example is the warning that kernels cannot be cached."""
    tasks = {name: lambda: logger.warning("There is no %s.", "room") for name in ("first", "second")}
    assert given(tasks).stderr.count("There is no room.") == 1


def test_a_failed_task_ends_the_command_after_the_others(given, folder: Path):
    """The message names the task and the log, which contains the traceback."""
    done = []

    def fail() -> None:
        raise ValueError("no such kernel")

    run = given({"first": fail, "second": lambda: done.append("second")})
    assert run.exit_code == BAD_INPUT
    assert "the task 'first' failed: ValueError: no such kernel." in run.stderr
    assert str(folder / LOG) in run.stderr
    assert done == ["second"]
    assert "in fail" in (folder / LOG).read_text()


def test_the_command_runs_without_a_log(given, folder: Path):
    """A message states why there is no log."""
    folder.write_text("a file where the directory should be")
    run = given({"only": announce("plb.a")})
    assert run.exit_code == 0, run.output
    assert "1 kernel compiled" in run.stdout
    assert f"There is no log of the compilations: {folder / LOG}: " in run.stdout


def test_without_a_home_there_is_no_log(given, monkeypatch: pytest.MonkeyPatch):
    """The message states how to choose a folder for it."""
    monkeypatch.setattr("plb.compiler.cache.cache_directory", lambda: None)
    assert "There is no log of the compilations: there is no home directory; set PLB_CACHE_DIR" in given({}).stdout


def test_several_processes_run_all_tasks():
    """Each task runs once, in any of the processes."""
    results = list(warmup.warm_up(2))
    assert sorted(result.task for result in results) == sorted(warmup.TASKS)
    assert {result.error for result in results} == {None}


@pytest.mark.slow
def test_no_kernel_is_left_to_compile(tmp_path: Path):
    """The quick start, the gallery, each estimator, in one process or several, and other commands compile nothing."""
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
