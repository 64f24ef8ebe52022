"""Two separate processes with different hash seeds and numbers of workers write the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.commands import BY_NAME

WORKERS = ("simulate", "learn train", "study")
"""Commands with `--jobs`."""
CLOCKS = ("timings.json", "timings.parquet", "journal.jsonl")
"""Files that contain durations."""


def written(inputs: Path, out: Path, name: str, hash_seed: int, jobs: int) -> dict[str, bytes]:
    """Run a command in a new process, and return its output files, except those with durations."""
    arguments = [str(argument) for argument in BY_NAME[name].arguments(inputs, out)]
    if "--jobs" in arguments:
        del arguments[arguments.index("--jobs") :][:2]
    further = ["--jobs", str(jobs)] if name in WORKERS else ["--threads", str(jobs)] if name == "predict" else []
    command = [sys.executable, "-c", "from plb_command import main; main()", *arguments, *further]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in CLOCKS)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "name",
    [
        "simulate",
        "provision",
        pytest.param("replan", marks=pytest.mark.slow),
        pytest.param("predict", marks=pytest.mark.slow),
        pytest.param("traces convert", marks=pytest.mark.slow),
        pytest.param("learn train", marks=pytest.mark.slow),
        pytest.param("study", marks=pytest.mark.slow),
    ],
)
def test_bytes_depend_on_neither_hash_seeds_nor_workers(inputs: Path, tmp_path: Path, name: str):
    first = written(inputs, tmp_path / "out", name, hash_seed=0, jobs=1)
    (tmp_path / "out").rename(tmp_path / "first")
    second = written(inputs, tmp_path / "out", name, hash_seed=12345, jobs=2)
    assert set(first) == set(second)
    assert [file for file in first if first[file] != second[file]] == []
