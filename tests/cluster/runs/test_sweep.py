"""Sweeps: kept results, failures, and independence of the number of processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.runs.code_digest import code_of
from cluster.runs.journal import Journal, TaskOutcome
from cluster.runs.sweep import Task, do_task, sweep
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
    found = sweep_of(tasks_of(range(9)), tmp_path / "journal", jobs=jobs)
    assert values(found) == [(f"number {number}", {"square": number**2}) for number in range(9)]


def test_dask_cluster_of_several_processes_gives_the_same(tmp_path):
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
    pytest.importorskip("distributed")
    import dask

    soon = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with soon, pytest.raises(PlbError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        sweep_of(tasks_of(range(2)), tmp_path / "journal", scheduler="tcp://127.0.0.1:1")


def test_finished_tasks_do_not_run_again(tmp_path):
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
    with pytest.raises(PlbError, match="two tasks have the key 'number 1'"):
        sweep_of(tasks_of([1, 2, 1]), tmp_path / "journal")


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    path = tmp_path / "journal"
    path.write_text('{"this": "is no outcome"}\n')
    with pytest.raises(PlbError, match=r"journal, line 1: is not an outcome of a run"):
        Journal(path, "code")


def test_two_processes_do_not_write_one_journal(tmp_path):
    path = tmp_path / "journal"
    with Journal(path, "code") as journal:
        with pytest.raises(PlbError, match="another process runs this sweep"):
            Journal(path, "code")
        journal.add(TaskOutcome("key", {}, 0.0, code="code"))
    with Journal(path, "code") as journal:
        assert list(journal.finished) == ["key"]


# code


def counted_sweep(folder, numbers=range(3)):
    """Run tasks in a folder; return the outcomes, how often each was made in all, and what did not count before."""
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    with Journal(folder / "journal", code_of(square)) as journal:
        stale = len(journal.of_other_code)
        found = sweep(square, tasks_of(numbers, notes=str(notes)), journal, jobs=1)
    return found, [len(note.read_text()) for note in sorted(notes.iterdir())], stale


def test_runs_of_other_code_are_made_again(tmp_path, change_code):
    """Code that comes back has its runs again. A comment changes nothing."""
    change_code("STEPS = 3")
    first, _, stale = counted_sweep(tmp_path)
    assert not stale
    change_code("STEPS = 3  # enough")
    assert counted_sweep(tmp_path) == (first, [1, 1, 1], 0)
    change_code("STEPS = 4")
    other, made, stale = counted_sweep(tmp_path)
    assert (values(other), made, stale) == (values(first), [2, 2, 2], 3)
    assert {one.code for one in other} == {code_of(square)} != {one.code for one in first}
    change_code("STEPS = 3")
    assert counted_sweep(tmp_path) == (first, [2, 2, 2], 0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_have_the_code_of_their_process(tmp_path, jobs):
    """It is the same in all processes of this machine, and counts the module of the function."""
    assert {one.code for one in sweep_of(tasks_of(range(3)), tmp_path / "journal", jobs=jobs)} == {code_of(square)}
    assert code_of(square) != code_of(sweep)


def test_a_worker_with_other_code_fails_its_runs(tmp_path):
    """The runs are made again later."""
    with Journal(tmp_path / "journal", code_of(square)) as journal:
        found = do_task(square, *tasks_of([1]), codes=("other",))
        assert (found.values, found.kind) == (None, "PlbError")
        assert "this worker has other code" in found.last_line
        assert values(sweep(square, tasks_of([1]), journal, jobs=1)) == [("number 1", {"square": 1})]
