"""Independent runs, on the cores of this machine or on a Dask cluster; finished runs are kept and not repeated.

A run is a `Task`: the arguments of a function with a key that identifies them. Results are written to a journal as
they come, so a killed sweep resumes, and a sweep with more runs makes only the new ones.
"""

from __future__ import annotations

import hashlib
import json
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import attrs

from cluster.runs.processes import cores, ignore_interrupts
from plb.errors import PlbError

CHECK = "check"
"""Field of a line of a journal with its checksum, besides the fields of `TaskOutcome`."""
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


@attrs.frozen
class TaskOutcome:
    """The outcome of a task.

    Parameters
    ----------
    key
        Key of the task.
    values
        What the function returned; None where it failed.
    seconds
        CPU seconds of the run.
    error, kind
        The traceback and the name of the exception's class, where it failed.
    """

    key: str
    values: Mapping[str, Any] | None
    seconds: float
    error: str | None = None
    kind: str | None = None

    @property
    def last_line(self) -> str:
        """The last line of the traceback, which has the error."""
        return (self.error or "").strip().splitlines()[-1] if self.error else ""


class Journal:
    """The outcomes of the finished tasks of a sweep, one in each line of a file, in the order in which they came.

    Use it as a context: no two processes write one journal at the same time.

    Parameters
    ----------
    path
        The file; made where it is missing. A line that was cut off when the sweep was killed is removed.

    Raises
    ------
    PlbError
        If another process writes it, or it has other contents.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.finished: dict[str, TaskOutcome] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab+")
        try:
            self._lock()
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        """Return the journal."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the journal."""
        with suppress(OSError):  # a line that could not be written, which `add` has reported
            self._file.close()

    def add(self, outcome: TaskOutcome) -> None:
        """Store an outcome; a failure is not stored, so that it is tried again."""
        if outcome.error is not None:
            return
        content = json.loads(json.dumps(attrs.asdict(outcome), allow_nan=False))
        line = json.dumps({**content, CHECK: _digest(content)}, sort_keys=True) + "\n"
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        self.finished[outcome.key] = outcome

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PlbError(f"{self._path}: another process runs this sweep; give another directory") from None

    def _read(self) -> None:
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                self._file.truncate(whole)
                return
            self._remember(number, line)
            whole += len(line)

    def _remember(self, number: int, line: bytes) -> None:
        content = _plain(line)
        if content is None or content.pop(CHECK, None) != _digest(content):
            raise PlbError(f"{self._path}, line {number}: is not an outcome of a run, or damaged; remove the file")
        outcome = TaskOutcome(**content)
        self.finished[outcome.key] = outcome


def _plain(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line of JSON; None without one."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _digest(content: Mapping[str, Any]) -> str:
    """Return the checksum of a line of a journal, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


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
    for outcome in outcomes(run, left, jobs=jobs, scheduler=scheduler):
        journal.add(outcome)
        if outcome.error is not None:
            failed[outcome.key] = outcome
        if progress is not None:
            progress(outcome)
    return [failed[key] if key in failed else journal.finished[key] for key in keys]


def outcomes(
    run: Run, tasks: Sequence[Task], *, jobs: int | None = None, scheduler: str | None = None
) -> Iterator[TaskOutcome]:
    """Start tasks in their order, and yield the outcomes as they come; parameters and errors are those of `sweep`."""
    if not tasks:
        return
    requested = min(cores() if jobs is None else jobs, len(tasks))
    if scheduler is None and requested == 1:
        yield from (_do(run, task) for task in tasks)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        # loky replaces a worker with much memory; no task is lost
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        if scheduler is None:
            stack.enter_context(parallel_config("loky", n_jobs=requested, initializer=ignore_interrupts))
        else:
            client = stack.enter_context(_client(scheduler))
            stack.enter_context(parallel_config("dask", n_jobs=-1, client=client))
        calls: Iterable[Any] = (delayed(_do)(run, task) for task in tasks)
        try:
            yield from Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(calls)
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


def _do(run: Run, task: Task) -> TaskOutcome:
    """Run a task; an exception is its outcome, so that the others continue."""
    began = time.process_time()
    try:
        values = run(task.arguments)
    except Exception as error:
        return TaskOutcome(task.key, None, time.process_time() - began, traceback.format_exc(), type(error).__name__)
    return TaskOutcome(task.key, values, time.process_time() - began)
