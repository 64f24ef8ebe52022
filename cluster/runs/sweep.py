"""Independent runs, on the cores of this machine or on a Dask cluster; finished runs are kept and not repeated.

A run is a `Task`: the arguments of a function with a key that identifies them. Results are written to a journal as
they come, so a killed sweep resumes, and a sweep with more runs makes only the new runs.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from cluster.runs.code_digest import code_digest, code_of
from cluster.runs.journal import Journal, TaskOutcome
from cluster.runs.pool import map_in_processes
from plb.errors import PlbError

Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function of a task: in a module, from plain JSON values to plain JSON values."""


@attrs.frozen
class Task:
    """One run."""

    key: str
    """Identifies all inputs of the result; unique in a sweep."""
    arguments: Mapping[str, Any]
    """Arguments of the run: plain JSON values by name."""


def sweep(
    run: Run,
    tasks: Sequence[Task],
    journal: Journal,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[TaskOutcome], None] | None = None,
) -> list[TaskOutcome]:
    """Run the tasks that the journal does not have; return the outcomes of all tasks in order, failures included.

    The outcomes do not depend on `jobs` and `scheduler` (see `map_in_processes`), or on the order in which tasks end.
    Two tasks with one key raise `PlbError`.
    """
    keys = [task.key for task in tasks]
    if len(set(keys)) < len(keys):
        repeated_key = next(key for key in keys if keys.count(key) > 1)
        raise PlbError(f"sweep: two tasks have the key {repeated_key!r}")
    unfinished = [task for task in tasks if task.key not in journal.finished]
    failed: dict[str, TaskOutcome] = {}
    do = partial(do_task, run, codes=(journal.code, code_digest()))
    for outcome in map_in_processes(do, unfinished, jobs=jobs, scheduler=scheduler):
        journal.add(outcome)
        if outcome.error is not None:
            failed[outcome.key] = outcome
        if progress is not None:
            progress(outcome)
    return [failed[key] if key in failed else journal.finished[key] for key in keys]


def do_task(run: Run, task: Task, *, codes: Collection[str]) -> TaskOutcome:
    """Run a task; an exception is its outcome, so that the others continue.

    `codes`: digests of code, one of which this process has to have.
    """
    began = time.process_time()
    try:
        if code_of(run) not in codes:  # in a worker on another machine, or after an edit
            raise PlbError("this worker has other code than the process that asks for the run")
        began = time.process_time()
        values = run(task.arguments)
    except Exception as error:
        seconds = time.process_time() - began
        return TaskOutcome(task.key, None, seconds, traceback.format_exc(), type(error).__name__)
    return TaskOutcome(task.key, values, time.process_time() - began)
