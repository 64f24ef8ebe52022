"""Ctrl-C ends every long command with a message at any moment, and its output is readable."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.results.reading import read_results
from cluster.simulation.run_tables import TABLES
from tests.command_line import plb
from tests.robustness.commands import BY_NAME, POLICY


def interrupt(monkeypatch: pytest.MonkeyPatch, place: str, call: int = 1) -> None:
    """Send Ctrl-C to this process at a given call of a function, ``module:name`` or ``module:class.name``."""
    module, _, path = place.partition(":")
    *classes, name = path.split(".")
    holder: Any = importlib.import_module(module)
    for one in classes:
        holder = getattr(holder, one)
    original: Callable[..., Any] = getattr(holder, name)
    calls = 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)
        return original(*args, **kwargs)

    monkeypatch.setattr(holder, name, interrupted)


def assert_interrupted(run: Any) -> None:
    """Assert that a command was interrupted and reports this without a traceback."""
    assert run.exit_code == 130, run.output
    assert run.stderr.splitlines()[-1].startswith("plb: interrupted")
    assert "Traceback" not in run.output
    assert "Warning" not in run.output


@pytest.mark.parametrize(
    ("place", "call", "runs", "plots"),
    [
        ("cluster.runs.experiment:prepare", 1, None, False),
        ("cluster.simulation.simulation:make_engine", 1, 0, False),
        ("cluster.simulation.simulation:Simulation._admit", 3, 1, False),
        ("cluster.simulation.simulation:Simulation._meter", 3, 1, True),
        ("cluster.simulation.simulation:Simulation._meter", 9, 2, True),
        ("cluster.results.writing:write_parquet", 2, 0, False),
    ],
    ids=["preparing", "making an engine", "first tenants", "later", "second policy", "writing"],
)
def test_interrupted_simulations_keep_their_runs(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    call: int,
    runs: int | None,
    plots: bool,
):
    """The directory is marked as incomplete and has complete tables of the started runs, or does not exist yet."""
    interrupt(monkeypatch, place, call)
    out = tmp_path / "out"
    assert_interrupted(BY_NAME["simulate"].run(inputs, out))
    assert not list(tmp_path.rglob("*.part"))
    if runs is None:
        assert not out.exists()
        return
    results = read_results(out)
    assert results.summary["complete"] is False
    assert len(results.runs) == runs
    assert all(len(results.table(name)) >= 0 for name in TABLES)
    assert bool(list(out.glob("*.png"))) == plots


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("provision", "plb.provisioning:ProvisioningPlan.faults"),
        ("replan", "plb.provisioning:ProvisioningPlan.faults"),
        ("predict", "plb.risk.peaks:predict"),
        ("traces convert", "workloads.readers.convert:_write_joined"),
        ("traces describe", "workloads.trace_description:describe"),
        ("traces generate", "workloads.regions:generate"),
        ("learn train", "cluster.learning.environment:PlacementEnvironment.step"),
    ],
)
def test_commands_that_write_at_their_end_leave_no_output(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
):
    interrupt(monkeypatch, place)
    run = BY_NAME[name].run(inputs, tmp_path / "out")
    assert_interrupted(run)
    assert not [file for file in BY_NAME[name].writes if (tmp_path / "out" / file).exists()]
    assert not list(tmp_path.rglob("*.part"))
    if name == "learn train":
        assert f"continue with --resume --out {tmp_path / 'out'}" in run.stderr
        assert json.loads((tmp_path / "out" / "training.json").read_text())["complete"] is False


def test_evaluation_and_benchmark_leave_no_output(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    interrupt(monkeypatch, "cluster.learning.evaluation:evaluate")
    given = inputs / "learning.toml"
    assert_interrupted(plb("learn", "evaluate", given, "--policy", POLICY, "--out", tmp_path / "out", "--jobs", 1))
    assert not (tmp_path / "out").exists()
    interrupt(monkeypatch, "cluster.warmup:_past_tenants")
    assert_interrupted(plb("warmup", "--jobs", 1, "--json", tmp_path / "seconds.json"))
    interrupt(monkeypatch, "cluster.bench.engine:bench_engine")
    assert_interrupted(plb("bench", "engine", "--quick", "--json", tmp_path / "speed.json"))
    interrupt(monkeypatch, "cluster.bench.search:search_by_engine")
    assert_interrupted(plb("bench", "search", "--quick", "--json", tmp_path / "left.json"))
    assert not list(tmp_path.iterdir())


def test_studies_keep_finished_runs(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    study = BY_NAME["study"]
    with monkeypatch.context() as patched:
        interrupt(patched, "cluster.simulation.simulation:Simulation._meter", 4)
        run = study.run(inputs, tmp_path / "out")
    assert_interrupted(run)
    assert "the same command continues from there" in run.stderr
    finished = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert len(finished) == 1
    assert json.loads((tmp_path / "out" / "study.json").read_text())["complete"] is False
    again = study.run(inputs, tmp_path / "out")
    assert again.exit_code == 0, again.output
    whole = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert len(whole) > 1
    assert whole.head(1).to_dicts() == finished.to_dicts()
    assert json.loads((tmp_path / "out" / "study.json").read_text())["complete"] is True


def started(*arguments: Any) -> subprocess.Popen[str]:
    """Start the command line in a new process and session."""
    command = [sys.executable, "-c", "from plb_command import main; main()", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def running(session: int) -> list[str]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, of_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # the process has ended
            continue
        if int(of_session) == session and state != "Z":
            found.append(stat.parent.name)
    return found


def test_an_interrupt_during_the_start_has_a_message(inputs: Path, tmp_path: Path):
    """The interrupt may come at any time after the start of Python."""
    program = """
import os, signal, threading
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
from plb_command import main
main()
"""
    command = [sys.executable, "-c", program, "simulate", str(inputs / "scenario.toml"), "--out", str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (130, "plb: interrupted\n")


def test_an_interrupt_at_any_module_of_the_entry_point_has_a_message():
    """Ctrl-C comes before each module that the entry point loads by itself."""
    program = """
import builtins, os, signal, sys
load, sought = builtins.__import__, sys.argv.pop(1)

def interrupting(name, *rest):
    if name == sought:
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *rest)

from plb_command import main
builtins.__import__ = interrupting
main()
"""
    for name in ("importlib.util", "cluster.cli.app"):
        command = [sys.executable, "-S", "-c", program, name, "warmup"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (130, "plb: interrupted\n"), name


def test_a_job_that_ignores_ctrl_c_ends_with_sigterm(inputs: Path, tmp_path: Path):
    """A script's background job ignores SIGINT from its start."""
    program = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from cluster.simulation.simulation import Simulation
Simulation.run = lambda _: os.kill(os.getpid(), signal.SIGTERM)
from plb_command import main
main()
"""
    command = [sys.executable, "-c", program, "simulate", str(inputs / "scenario.toml"), "--out", str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (run.returncode, "plb: interrupted" in run.stderr) == (130, True)


def test_a_second_interrupt_during_the_start_has_no_traceback():
    """The first one is sent when the command line loads Typer, the second one with the message."""
    program = """
import builtins, os, signal, sys
load = builtins.__import__

def interrupting(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return load(name, *rest)

class Stream:
    def write(self, text):
        sys.__stderr__.write(text)
        sys.__stderr__.flush()
        os.kill(os.getpid(), signal.SIGINT)

builtins.__import__, sys.stderr = interrupting, Stream()
from plb_command import main
main()
"""
    run = subprocess.run([sys.executable, "-c", program, "warmup"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (-signal.SIGINT, "plb: interrupted\n")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("wait", [0.0, 0.3])
def test_an_interrupt_while_the_workers_start_has_a_message(
    wait: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The terminal sends Ctrl-C to all processes. The workers leave it to the first one from their beginning."""
    monkeypatch.setenv("PLB_CACHE_DIR", str(tmp_path))
    process = started("warmup", "--jobs", 2)
    until = time.monotonic() + 60
    while len(running(process.pid)) < 4 and time.monotonic() < until:  # two trackers of resources and a worker
        time.sleep(0.005)
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.endswith("plb: interrupted\n")
    assert "Traceback" not in output
    assert "Warning" not in output


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["simulate", "learn train", "study"])
def test_no_process_remains(inputs: Path, tmp_path: Path, name: str, sent: signal.Signals):
    """The command uses several processes. SIGTERM, the default signal of systems, has the effect of Ctrl-C."""
    arguments = {
        "simulate": ("simulate", inputs / "scenario.toml", "--days", 60, "--jobs", 2),
        "learn train": ("learn", "train", inputs / "learning.toml", "--iterations", 5000, "--jobs", 2),
        "study": (
            *("study", "annealing", "--scenario", inputs / "scenario.toml", "--density", 1.5),
            *("--days", 20, "--repeats", 4, "--jobs", 2),
        ),
    }
    process = started(*arguments[name], "--out", tmp_path / "out")
    until = time.monotonic() + 120
    while len(running(process.pid)) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(3.0)
    process.send_signal(sent)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "plb: interrupted" in output
    assert "Traceback" not in output
    until = time.monotonic() + 10
    while running(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not running(process.pid)
