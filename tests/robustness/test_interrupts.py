"""Ctrl-C ends every long command in a sentence, at any moment, and what it leaves can be read."""

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
    """Let this process get Ctrl-C when a function, ``module:name`` or ``module:class.name``, is called once more."""
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


def assert_in_a_sentence(run: Any) -> None:
    """Assert that a command was interrupted and says so, without a traceback."""
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
        ("cluster.simulation.simulation:Simulation._meter", 1, 1, True),
        ("cluster.simulation.simulation:Simulation._meter", 3, 1, True),
        ("cluster.simulation.simulation:Simulation._meter", 9, 2, True),
        ("cluster.results.writing:write_parquet", 2, 0, False),
    ],
    ids=["preparing", "making an engine", "first tenants", "first metering", "later", "second policy", "writing"],
)
def test_simulations_leave_what_was_simulated(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    call: int,
    runs: int | None,
    plots: bool,
):
    """A directory that says that it is not complete, with whole tables of as many runs as began; or none yet."""
    interrupt(monkeypatch, place, call)
    out = tmp_path / "out"
    assert_in_a_sentence(BY_NAME["simulate"].run(inputs, out))
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
        ("traces convert", "workloads.readers.convert:_join"),
        ("traces describe", "workloads.describe:describe"),
        ("traces generate", "workloads.regions:generate"),
        ("learn train", "cluster.learning.game:JobPlacementGame.step"),
    ],
)
def test_commands_that_write_at_their_end_leave_nothing_half_done(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str
):
    """Neither their results nor parts of them."""
    interrupt(monkeypatch, place)
    run = BY_NAME[name].run(inputs, tmp_path / "out")
    assert_in_a_sentence(run)
    assert not [file for file in BY_NAME[name].writes if (tmp_path / "out" / file).exists()]
    assert not list(tmp_path.rglob("*.part"))
    if name == "learn train":
        assert f"continue with --resume --out {tmp_path / 'out'}" in run.stderr
        assert json.loads((tmp_path / "out" / "training.json").read_text())["complete"] is False


def test_evaluation_and_timing_leave_nothing(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They can be asked for again."""
    interrupt(monkeypatch, "cluster.learning.evaluation:evaluate")
    given = inputs / "learning.toml"
    assert_in_a_sentence(plb("learn", "evaluate", given, "--policy", POLICY, "--out", tmp_path / "out", "--jobs", 1))
    assert not (tmp_path / "out").exists()
    interrupt(monkeypatch, "cluster.warmup.tasks:_tiny_engine")
    assert_in_a_sentence(plb("warmup", "--jobs", 1, "--json", tmp_path / "seconds.json"))
    interrupt(monkeypatch, "cluster.bench.engine:bench_engine")
    assert_in_a_sentence(plb("bench", "engine", "--quick", "--json", tmp_path / "speed.json"))
    assert not list(tmp_path.iterdir())


def test_studies_leave_the_tables_of_what_is_finished(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They say that they are not complete, and the same command continues from there."""
    study = BY_NAME["study"]
    with monkeypatch.context() as patched:
        interrupt(patched, "cluster.simulation.simulation:Simulation._meter", 9)
        run = study.run(inputs, tmp_path / "out")
    assert_in_a_sentence(run)
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
    """Start the command line in a process and a session of its own."""
    command = [sys.executable, "-c", "from cluster.cli.start import main; main()", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def running(session: int) -> list[str]:
    """Return the processes of a session that are not over."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, of_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # over by now
            continue
        if int(of_session) == session and state != "Z":
            found.append(stat.parent.name)
    return found


def test_the_script_says_so_while_it_is_being_loaded(inputs: Path, tmp_path: Path):
    """However early it comes once Python has started."""
    program = """
import os, signal, threading
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
from cluster.cli.start import main
main()
"""
    command = [sys.executable, "-c", program, "simulate", str(inputs / "scenario.toml"), "--out", str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (130, "plb: interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["simulate", "learn train", "study"])
def test_no_process_is_left_running(inputs: Path, tmp_path: Path, name: str, sent: signal.Signals):
    """Of several; SIGTERM, with which systems end programs, does what Ctrl-C does."""
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
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "plb: interrupted" in said
    assert "Traceback" not in said
    until = time.monotonic() + 10
    while running(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not running(process.pid)
