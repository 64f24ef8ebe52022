"""A full disk, or one that may only be read, is said in a sentence that names the file; what is there is readable."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.results.reading import read_results
from cluster.results.writing import ResultsFolder
from cluster.runs.sweep import Journal, TaskOutcome
from tests.command_line import plb
from tests.robustness.commands import BY_NAME
from tests.robustness.conftest import Disk

FULL, READ_ONLY = "No space left on device", "cannot be written to"


def fill(disk: Path) -> None:
    """Leave no room on a disk."""
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def assert_said(run: Any, words: str, place: Path) -> None:
    """Assert that a command ended with these words and a path, without a traceback."""
    assert run.exit_code == 2, run.output
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("plb: ")]
    assert words in line
    assert str(place) in line
    assert "Traceback" not in run.output


@pytest.mark.parametrize("name", BY_NAME)
def test_a_full_disk_is_refused_before_anything_begins(inputs: Path, disk: Disk, name: str):
    """Nobody waits for results that cannot be kept."""
    small = disk("size=256k")
    fill(small)
    assert_said(BY_NAME[name].run(inputs, small / "out"), FULL, small)
    assert {path.name for path in small.rglob("*")} == {"ballast"}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_disk_that_may_only_be_read_is_refused_before_anything_begins(inputs: Path, disk: Disk, name: str):
    """Though root may write anywhere else."""
    assert_said(BY_NAME[name].run(inputs, disk("ro,size=64k") / "out"), READ_ONLY, Path("disk"))


def test_what_was_simulated_before_the_disk_was_full_is_kept(inputs: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch):
    """The summary names the runs whose tables are whole, and says that there are not all."""
    small, add = disk("size=512k"), ResultsFolder.add

    def add_less(results: ResultsFolder, run: Any) -> None:
        if run.policy == "modified":
            fill(small)
        add(results, run)

    monkeypatch.setattr(ResultsFolder, "add", add_less)
    assert_said(BY_NAME["simulate"].run(inputs, small / "out"), FULL, small / "out")
    results = read_results(small / "out")
    assert results.summary["complete"] is False
    assert [run.policy for run in results.runs] == ["original"]
    assert len(results.table("node_load")) > 0
    assert not list(small.rglob("*.part"))


@pytest.mark.parametrize(
    ("name", "frees"), [("traces convert", True), ("traces generate", False), ("predict", False), ("provision", False)]
)
def test_results_that_do_not_fit_leave_nothing_half_written(
    inputs: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, name: str, frees: bool
):
    """The message names the file; there is no part of it."""
    small, command = disk("size=256k"), BY_NAME[name]
    monkeypatch.setattr("cluster.results.writing.LEAST_FREE", 0)
    (small / "out").mkdir()
    fill(small)
    run = command.run(inputs, small / "out") if not frees else plb(*command.arguments(inputs, small / "out"))
    assert_said(run, FULL, small / "out")
    assert not [path for path in (small / "out").rglob("*") if path.is_file() and path.stat().st_size]
    assert not list(small.rglob("*.part"))


def test_a_journal_that_cannot_grow_is_named(inputs: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch):
    """And what stands in it is not made again."""
    small, study, add = disk("size=512k"), BY_NAME["study"], Journal.add

    def add_less(journal: Journal, outcome: TaskOutcome) -> None:
        if journal.finished:
            fill(small)
        add(journal, outcome)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", add_less)
        assert_said(study.run(inputs, small / "out"), FULL, small / "out" / "journal.jsonl")
    (small / "ballast").unlink()
    again = study.run(inputs, small / "out")
    assert again.exit_code == 0, again.output
    assert "of 8 runs are finished already" in again.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", ["provision", "replan", "predict", "traces convert", "traces generate"])
def test_figures_that_cannot_be_written_are_named(inputs: Path, tmp_path: Path, name: str):
    """A device is written to as it is, and stays one."""
    run = BY_NAME[name].run(inputs, tmp_path / "out", "--json", "/dev/full")
    assert_said(run, FULL, Path("/dev/full"))
    assert Path("/dev/full").is_char_device()


def test_tables_and_errors_of_polars_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Polars tells the number of the system's error in the text alone, of a full disk as an error of its own."""
    from workloads.writing import write_csv, write_parquet

    def full(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError(f"parquet: {os.strerror(errno.ENOSPC)} (os error {errno.ENOSPC})")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(OSError, match=FULL) as raised:
        write_parquet(pl.DataFrame({"x": [1]}), tmp_path / "t.parquet")
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "t.parquet"))
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="file"):
        write_csv(pl.DataFrame({"x": [1]}), tmp_path / "file" / "t.csv")


def test_errors_of_tables_that_are_no_errors_of_the_system_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A mistake of the program is not said to be one of the disk."""
    from workloads.writing import write_parquet

    def wrong(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError("no such thing")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", wrong)
    with pytest.raises(pl.exceptions.ComputeError, match="no such thing"):
        write_parquet(pl.DataFrame({"x": [1]}), tmp_path / "t.parquet")
