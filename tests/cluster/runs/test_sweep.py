"""Sweeps: kept results, failures, and independence of the number of processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.runs.code_digest import code_of
from cluster.runs.journal import Journal, TaskOutcome
from cluster.runs.sweep import Task, sweep
from plb import PlbError


def square(arguments):
    """Square a number and record the call in a folder; refuse 13."""
    number = arguments["number"]
    if "notes" in arguments:
        with (Path(arguments["notes"]) / str(number)).open("a") as file:
            file.write("x")
    if number == 13:
        raise ValueError("thirteen is not squared")
    return {"square": number**2}


def tasks_of(numbers, **further):
    """Return a task for each number."""
    return [Task(f"number {number}", {"number": number, **further}) for number in numbers]


def sweep_of(tasks, path, **how):
    """Run tasks with the journal at this path."""
    with Journal(path, code_of(square)) as journal:
        return sweep(square, tasks, journal, **how)


def values(outcomes):
    """Return keys and values."""
    return [(one.key, one.values) for one in outcomes]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_outcomes_come_in_the_order_of_the_tasks_for_any_number_of_processes(tmp_path, jobs):
    """The order in which tasks end does not matter."""
    found = sweep_of(tasks_of(range(9)), tmp_path / "journal", jobs=jobs)
    assert values(found) == [(f"number {number}", {"square": number**2}) for number in range(9)]


def test_dask_cluster_of_several_processes_gives_the_same(tmp_path):
    """The workers belong to a real cluster, and one task fails."""
    distributed = pytest.importorskip("distributed")
    tasks = tasks_of([*range(8), 13])
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as workers:
        there = sweep_of(tasks, tmp_path / "there", scheduler=workers.scheduler_address)
    here = sweep_of(tasks, tmp_path / "here", jobs=1)
    assert values(there) == values(here)
    assert "thirteen" in there[-1].error


def test_an_unreachable_scheduler_is_an_error(tmp_path):
    """The message names the address."""
    pytest.importorskip("distributed")
    import dask

    soon = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with soon, pytest.raises(PlbError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        sweep_of(tasks_of(range(2)), tmp_path / "journal", scheduler="tcp://127.0.0.1:1")


def test_finished_tasks_do_not_run_again(tmp_path):
    """A second sweep with the same journal runs only new tasks, even if the last line of the journal is incomplete."""
    notes, journal = tmp_path / "notes", tmp_path / "journal"
    notes.mkdir()
    sweep_of(tasks_of(range(4), notes=str(notes)), journal, jobs=1)
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-7])  # killed while the last outcome was written
    found = sweep_of(tasks_of(range(6), notes=str(notes)), journal, jobs=1)
    assert [one.values["square"] for one in found] == [0, 1, 4, 9, 16, 25]
    calls = {int(note.name): len(note.read_text()) for note in notes.iterdir()}
    assert calls == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
    assert [json.loads(line)["key"] for line in journal.read_text().splitlines()] == [f"number {n}" for n in range(6)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_task_does_not_affect_others_and_runs_again(tmp_path, jobs):
    """Its outcome is the traceback, which is not kept."""
    notes, journal = tmp_path / "notes", tmp_path / "journal"
    notes.mkdir()
    tasks = tasks_of([1, 13, 2], notes=str(notes))
    reported: list[TaskOutcome] = []
    for _ in range(2):
        found = sweep_of(tasks, journal, jobs=jobs, progress=reported.append)
        assert [one.values for one in found] == [{"square": 1}, None, {"square": 4}]
        assert "ValueError: thirteen is not squared" in found[1].error
    assert sorted(one.key for one in reported) == ["number 1", "number 13", "number 13", "number 2"]
    assert len((notes / "13").read_text()) == 2


def test_two_tasks_with_one_key_are_refused(tmp_path):
    """Otherwise one would get the outcome of the other."""
    with pytest.raises(PlbError, match="two tasks have the key 'number 1'"):
        sweep_of(tasks_of([1, 2, 1]), tmp_path / "journal")


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    """The message names the file."""
    path = tmp_path / "journal"
    path.write_text('{"this": "is no outcome"}\n')
    with pytest.raises(PlbError, match=r"journal, line 1: is not an outcome of a run"):
        Journal(path, "code")


def test_two_processes_do_not_write_one_journal(tmp_path):
    """The second gets an error, and the first continues."""
    path = tmp_path / "journal"
    with Journal(path, "code") as journal:
        with pytest.raises(PlbError, match="another process runs this sweep"):
            Journal(path, "code")
        journal.add(TaskOutcome("key", {}, 0.0, code="code"))
    with Journal(path, "code") as journal:
        assert list(journal.finished) == ["key"]
