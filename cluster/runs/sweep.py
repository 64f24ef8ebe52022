"""Independent runs, on the cores of this machine or on a Dask cluster; finished runs are kept and not repeated.

A run is a `Task`: the arguments of a function with a key that identifies them. Results are written to a journal as
they come, so a killed sweep resumes, and a sweep with more runs makes only the new ones.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import attrs

from cluster.runs.code_digest import code_digest, code_of
from cluster.runs.journal import Journal, TaskOutcome
from cluster.runs.processes import cores, ignore_interrupts, interrupts_blocked
from plb.errors import PlbError

Run = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function of a task: in a module, from plain JSON values to plain JSON values."""


@attrs.frozen
class Task:
    """One run.

    Parameters
    ----------
    key
        Identifies all inputs of the result; unique in a sweep.
    arguments
        Plain JSON values.
    """

    key: str
    arguments: Mapping[str, Any]


def sweep(
    run: Run,
    tasks: Sequence[Task],
    journal: Journal,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[TaskOutcome], None] | None = None,
) -> list[TaskOutcome]:
    """Run the tasks that the journal does not have, and return the outcomes of all, in the order of the tasks.

    The outcomes do not depend on how many processes there are, where they are, or in which order tasks end.

    Parameters
    ----------
    run
        Runs a task.
    tasks
        All of them, finished or not.
    journal
        Stores the outcomes.
    jobs
        Processes on this machine; None: one for each core. 1: this process.
    scheduler
        Address of a Dask scheduler whose workers run the tasks instead, such as ``tcp://10.0.0.1:8786``. They need this
        package.
    progress
        Called with each new outcome.

    Returns
    -------
    list
        Of tasks that failed, too.

    Raises
    ------
    PlbError
        If two tasks have one key, or processes of the sweep end by themselves.
    """
    keys = [task.key for task in tasks]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise PlbError(f"sweep: two tasks have the key {twice!r}")
    left = [task for task in tasks if task.key not in journal.finished]
    failed: dict[str, TaskOutcome] = {}
    for outcome in outcomes(run, left, jobs=jobs, scheduler=scheduler, codes=(journal.code, code_digest())):
        journal.add(outcome)
        if outcome.error is not None:
            failed[outcome.key] = outcome
        if progress is not None:
            progress(outcome)
    return [failed[key] if key in failed else journal.finished[key] for key in keys]


def outcomes(
    run: Run,
    tasks: Sequence[Task],
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    codes: Collection[str] = (),
) -> Iterator[TaskOutcome]:
    """Start tasks in their order, and yield the outcomes as they come.

    Further parameters and errors are those of `sweep`. With `codes`, a run fails in a worker whose code has none of
    these digests.
    """
    if not tasks:
        return
    do = partial(_do, run, codes=codes)
    requested = min(cores() if jobs is None else jobs, len(tasks))
    if scheduler is None and requested == 1:
        yield from map(do, tasks)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        # loky replaces a worker with much memory; no task is lost
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        warnings.filterwarnings("ignore", ".*You could benefit from adjusting", UserWarning)  # after Ctrl-C
        if scheduler is None:
            stack.enter_context(parallel_config("loky", n_jobs=requested, initializer=ignore_interrupts))
        else:
            client = stack.enter_context(_client(scheduler))
            stack.enter_context(parallel_config("dask", n_jobs=-1, client=client))
        calls: Iterable[Any] = (delayed(do)(task) for task in tasks)
        try:
            with interrupts_blocked():  # processes start here, and inherit that
                parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
                results = stack.enter_context(closing(parallel(calls)))
            yield from results
        except TerminatedWorkerError:
            message = (
                "a process ended unexpectedly, perhaps without enough memory; try fewer jobs. Finished runs are kept"
            )
            raise PlbError(message) from None


def _client(scheduler: str) -> Any:
    """Return a client of a Dask scheduler."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise PlbError("a Dask scheduler needs the package distributed: pip install 'plb[dask]'") from None
    connect: Any = Client  # without types
    try:
        return connect(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PlbError(f"no Dask scheduler answers at {scheduler}: {error}") from None


def _do(run: Run, task: Task, *, codes: Collection[str]) -> TaskOutcome:
    """Run a task; an exception is its outcome, so that the others continue."""
    began = time.process_time()
    try:
        if codes and code_of(run) not in codes:  # in a worker on another machine, or after an edit
            raise PlbError("this worker has other code than the process that asks for the run")
        began = time.process_time()
        values = run(task.arguments)
    except Exception as error:
        seconds = time.process_time() - began
        return TaskOutcome(task.key, None, seconds, traceback.format_exc(), type(error).__name__)
    return TaskOutcome(task.key, values, time.process_time() - began)
