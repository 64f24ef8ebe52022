"""`plb warmup`: compiled kernels, output, log and errors."""

from __future__ import annotations

import ast
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.console import BAD_INPUT
from cluster.warmup import tasks as warmup_tasks
from cluster.warmup import warmup
from cluster.warmup.tasks import TASKS
from plb.compiler.cache import SUFFIX, kernel_cache
from plb.compiler.clock import NOTICE, logger
from tests.command_line import plb
from tests.sources import ROOT, modules

LOG = "warmup.log"
OF_EXTENSIONS = ("plb.ready_made.",)
"""Modules whose kernels are compiled as parts of those that adapt them, under the names of the latter."""
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
WITHOUT_COMPILER = ("plb.risk.estimator_columns.gaussian_excess",)
"""Kernels that Python calls as plain functions."""


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
        monkeypatch.setattr(warmup_tasks, "TASKS", tasks)
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
    assert "3 kernels compiled, in 0 s." in run.stdout
    assert str(folder / LOG) in run.stdout
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["compiled"], figures["jobs"]) == (3, 1)
    assert figures["seconds"] > 0


def test_the_log_has_a_line_for_every_task_and_every_kernel(given, folder: Path):
    """Kernels follow the task that compiled them, with their seconds."""
    given({"first": announce("plb.a", "plb.b"), "second": lambda: None})
    _, *lines, end = [line.partition(" ")[2] for line in (folder / LOG).read_text().splitlines()]
    assert [line.split(" s")[-1].strip() for line in lines] == ["", "plb.a", "plb.b", ""]
    assert lines[0].startswith("first: 2 kernels compiled, 0.")
    assert lines[-1].startswith("second: 0 kernels compiled, 0.")
    assert end.startswith("all tasks are finished, 0.")


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
    done = list(warmup.warm_up(2))
    assert sorted(one.task for one in done) == sorted(TASKS)
    assert [one.error for one in done] == [None] * len(TASKS)


def test_provisioning_can_be_compiled_by_itself():
    """Studies need this because their algorithms have a time limit."""
    warmup.warm_up_provisioning()


def called_from_python() -> Iterator[str]:
    """Yield the kernels of the engine that are used outside of kernels."""
    kernels = {f"{name}.{one.name}" for name, tree in modules().items() for one in _kernels_of(tree)}
    for name, tree in modules().items():
        if name.startswith("plb.") and not name.startswith(OF_EXTENSIONS):
            inside = {id(one) for kernel in _kernels_of(tree) for one in ast.walk(kernel)}
            imports = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]
            known = {alias.asname or alias.name: f"{one.module}.{alias.name}" for one in imports for alias in one.names}
            names = [one for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
            used = {one.id for one in names if id(one) not in inside}
            yield from kernels & {known.get(one, f"{name}.{one}") for one in used}


def _kernels_of(tree: ast.Module) -> list[ast.FunctionDef]:
    functions = [one for one in tree.body if isinstance(one, ast.FunctionDef)]
    return [one for one in functions if any(map(_is_kernel, one.decorator_list))]


def _is_kernel(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id == "kernel"


@pytest.mark.slow
def test_no_kernel_is_left_to_compile(tmp_path: Path):
    """All kernels that Python calls are cached.

    Simulations of the quick start, of an upgrade and with each estimator compile nothing, in one process or several.
    """
    environment = {**os.environ, "PLB_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    def kernels_after(*arguments: Any) -> set[str]:
        command = [sys.executable, "-c", "from cluster.cli.start import main; main()", *map(str, arguments)]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        return {path.name for path in (tmp_path / "cache").glob(f"*{SUFFIX}")}

    there = kernels_after("warmup", "--jobs", 2)
    names = {name.rpartition("-")[0] for name in there}
    assert set(called_from_python()) - names - set(WITHOUT_COMPILER) == set()
    for scenario in ("quickstart", "gallery/rolling_upgrade", "gallery/affinity_pairs"):
        path = ROOT / "examples" / f"{scenario}.toml"
        assert kernels_after("simulate", path, "--out", tmp_path / scenario, "--quiet") == there
    (tmp_path / "estimators.toml").write_text(ESTIMATORS)
    for jobs in (1, 2):
        given = ("simulate", tmp_path / "estimators.toml", "--out", tmp_path / f"estimators-{jobs}", "--quiet")
        assert kernels_after(*given, "--jobs", jobs) == there
    assert kernels_after("warmup", "--jobs", 1) == there
