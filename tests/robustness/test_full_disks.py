"""A full or read-only disk gives a message with the name of the file, and written results stay readable."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.results.reading import read_results
from cluster.results.writing import ResultsFolder
from cluster.runs.journal import Journal, TaskOutcome
from cluster.studies.annealing import ARMS
from tests.disks import fill
from tests.robustness.commands import BY_NAME
from tests.robustness.conftest import Disk

FULL, READ_ONLY = "No space left on device", "cannot be written to"


def assert_message(run: Any, words: str, place: Path) -> None:
    """Assert that a command ended with these words and a path, without a traceback."""
    assert run.exit_code == 2, run.output
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("plb: ")]
    assert words in line
    assert str(place) in line
    assert "Traceback" not in run.output


@pytest.mark.parametrize("name", BY_NAME)
def test_a_full_disk_is_refused_first(inputs: Path, disk: Disk, name: str):
    small = disk("size=256k")
    fill(small)
    assert_message(BY_NAME[name].run(inputs, small / "out"), FULL, small)
    assert {path.name for path in small.rglob("*")} == {"ballast"}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_read_only_disk_is_refused_first(inputs: Path, disk: Disk, name: str):
    """The check works for root, who may write to other places."""
    assert_message(BY_NAME[name].run(inputs, disk("ro,size=64k") / "out"), READ_ONLY, Path("disk"))


def test_runs_before_the_disk_was_full_are_kept(inputs: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch):
    small, add = disk("size=512k"), ResultsFolder.add

    def add_less(results: ResultsFolder, run: Any) -> None:
        if run.policy == "modified":
            fill(small)
        add(results, run)

    monkeypatch.setattr(ResultsFolder, "add", add_less)
    assert_message(BY_NAME["simulate"].run(inputs, small / "out"), FULL, small / "out")
    results = read_results(small / "out")
    assert results.summary["complete"] is False
    assert [run.policy for run in results.runs] == ["original"]
    assert len(results.table("node_load")) > 0
    assert not list(small.rglob("*.part"))


@pytest.mark.parametrize("name", ["traces convert", "traces generate", "predict", "provision"])
def test_results_that_do_not_fit_leave_no_partial_file(
    inputs: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, name: str
):
    small, command = disk("size=256k"), BY_NAME[name]
    monkeypatch.setattr("cluster.results.writing.LEAST_FREE", 0)
    (small / "out").mkdir()
    fill(small)
    assert_message(command.run(inputs, small / "out"), FULL, small / "out")
    assert not [path for path in (small / "out").rglob("*") if path.is_file() and path.stat().st_size]
    assert not list(small.rglob("*.part"))


def test_a_journal_that_cannot_grow_is_named(inputs: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch):
    small, study, add = disk("size=512k"), BY_NAME["study"], Journal.add

    def add_less(journal: Journal, outcome: TaskOutcome) -> None:
        if journal.finished:
            fill(small)
        add(journal, outcome)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", add_less)
        assert_message(study.run(inputs, small / "out"), FULL, small / "out" / "journal.jsonl")
    (small / "ballast").unlink()
    again = study.run(inputs, small / "out")
    assert again.exit_code == 0, again.output
    assert f"of {len(ARMS)} runs are finished already" in again.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("name", ["provision", "replan", "predict", "traces convert", "traces generate"])
def test_figures_that_cannot_be_written_are_named(inputs: Path, tmp_path: Path, name: str):
    run = BY_NAME[name].run(inputs, tmp_path / "out", "--json", "/dev/full")
    assert_message(run, FULL, Path("/dev/full"))
    assert Path("/dev/full").is_char_device()


def test_tables_and_errors_of_polars_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Polars gives the system error number only in its text, and has a separate error for a full disk."""
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


def test_other_errors_of_tables_are_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An error of the program is not reported as an error of the disk."""
    from workloads.writing import write_parquet

    def wrong(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError("no such thing")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", wrong)
    with pytest.raises(pl.exceptions.ComputeError, match="no such thing"):
        write_parquet(pl.DataFrame({"x": [1]}), tmp_path / "t.parquet")
