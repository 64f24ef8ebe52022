"""Compiles every kernel in advance for later processes: `plb warmup`.

The work is divided into tasks, each with a tiny engine or instance, which run in as many processes as there are
cores. Each process finds the kernels of the others on disk, and none compiles a kernel that another one is compiling
(`plb.compiler.cache`).
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import attrs

from cluster.runs.pool import map_in_processes
from cluster.warmup import tasks
from plb.compiler import clock


class Compilations(logging.Filter):
    """Collects the announcements of compilations and the warnings of the engine, and hides them from other handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        self._names: list[str] = []
        self._times: list[float] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Process a log record; return whether other handlers receive it."""
        if record.pathname == clock.__file__ and isinstance(record.args, tuple):
            self._names.append(str(record.args[0]))
            self._times.append(time.perf_counter())
            return False
        if record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())
            return False
        return True

    def end(self) -> None:
        """Record that the last kernel is compiled."""
        self._times.append(time.perf_counter())

    def kernels(self) -> list[tuple[str, float]]:
        """Return the compiled kernels, each with the seconds until the next compilation began, or until the end."""
        seconds = (later - earlier for earlier, later in pairwise(self._times))
        return list(zip(self._names, seconds, strict=True))


@contextmanager
def collected() -> Iterator[Compilations]:
    """Yield the compilations during the block; they are complete after its end."""
    logger, compilations = clock.logger, Compilations()
    level = logger.level
    logger.addFilter(compilations)
    logger.setLevel(logging.INFO)
    try:
        yield compilations
    finally:
        compilations.end()
        logger.setLevel(level)
        logger.removeFilter(compilations)


@attrs.frozen
class WarmupResult:
    """The result of a task."""

    task: str
    """Name of the task."""
    seconds: float = 0.0
    """Seconds from the beginning to the end of the task."""
    kernels: Sequence[tuple[str, float]] = ()
    """Compiled kernels: name, and seconds until the next compilation began."""
    warnings: Sequence[str] = ()
    """Warnings of the engine during the task."""
    error: str | None = None
    """The traceback, if the task failed."""


def warm_up(jobs: int | None = None) -> Iterator[WarmupResult]:
    """Compile every kernel that is not on disk, and yield the result of each task as it ends.

    Parameters
    ----------
    jobs
        Number of processes; None: one for each core. 1: this process.

    Raises
    ------
    PlbError
        A process ended unexpectedly.
    """
    return map_in_processes(_do, tasks.TASKS, jobs=jobs)


def warm_up_provisioning() -> None:
    """Compile every kernel of provisioning, in this process."""
    for task in tasks.PROVISIONING.values():
        task()


def _do(task: str) -> WarmupResult:
    """Run a task; an exception is part of its result, so that the others continue."""
    begun, error = time.perf_counter(), None
    with collected() as compilations:
        try:
            tasks.TASKS[task]()
        except Exception:
            error = traceback.format_exc()
    seconds = time.perf_counter() - begun
    return WarmupResult(task, seconds, compilations.kernels(), compilations.warnings, error)
