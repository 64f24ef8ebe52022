"""Runs of an experiment in several processes, with progress, and an end by Ctrl-C that keeps what there is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from types import FrameType
from typing import TYPE_CHECKING

import attrs

from plb.compiler.interrupts import interrupts_deferred
from plb.errors import PlbError

if TYPE_CHECKING:
    from cluster.scenario.scenario import Scenario
    from cluster.simulation.recorder import RunResult
    from cluster.simulation.tenant_arrivals import TenantSequence
    from cluster.simulation.tenant_pools import Source

SECONDS_BETWEEN_REPORTS = 0.2

Report = tuple[str, int, float]
"""Policy, repeat and the simulated seconds of that run."""


@attrs.frozen(eq=False)
class _Shared:
    """The data that every process has."""

    scenario: Scenario
    source: Source
    sequences: Sequence[TenantSequence]
    stop: Event
    reports: SimpleQueue[Report]


_shared: _Shared | None = None
"""Of this process, set when it starts."""


def run_in_processes(
    scenario: Scenario,
    source: Source,
    sequences: Sequence[TenantSequence],
    pairs: Sequence[tuple[str, int]],
    jobs: int,
    progress: Callable[[str, int, float], None] | None,
) -> Iterator[RunResult]:
    """Run policies over repeats, and yield the results as they end.

    Ctrl-C ends the runs under way, which are yielded as incomplete, and no further one begins; a second Ctrl-C raises
    `KeyboardInterrupt`.

    Parameters
    ----------
    scenario, source, sequences
        What is simulated; `sequences` by repeat.
    pairs
        Policy and repeat of each run.
    jobs
        Number of processes. They are new ones, not copies of this one, so a script that calls this needs
        ``if __name__ == "__main__":``.
    progress
        Called with policy, repeat and simulated seconds, a few times a second for each run under way.
    """
    jobs = min(jobs, len(pairs))
    threads = max(1, cores() // jobs)
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    shared = _Shared(
        attrs.evolve(scenario, engine={"threads": threads, **scenario.engine}),
        source,
        sequences,
        context.Event(),
        context.SimpleQueue(),
    )
    with (
        _stopped_by_interrupt(shared.stop),
        ProcessPoolExecutor(jobs, context, initializer=_start, initargs=(shared,)) as pool,
    ):
        try:
            left = iter(pairs)
            waiting = _submit(pool, islice(left, jobs))
            while waiting:
                done, waiting = wait(waiting, timeout=SECONDS_BETWEEN_REPORTS, return_when=FIRST_COMPLETED)
                _relay(shared.reports, progress)
                if not shared.stop.is_set():
                    waiting |= _submit(pool, islice(left, len(done)))
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            if not shared.stop.is_set():
                raise PlbError(
                    "a process of the runs ended unexpectedly, perhaps without enough memory; try fewer --jobs"
                ) from None
        finally:
            shared.stop.set()


def _submit(pool: ProcessPoolExecutor, pairs: Iterable[tuple[str, int]]) -> set[Future[RunResult]]:
    """Submit runs. Processes start here, with Ctrl-C blocked: they inherit that, and leave Ctrl-C to this process."""
    with interrupts_blocked():
        return {pool.submit(_simulate, *pair) for pair in pairs}


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C; processes that start meanwhile inherit that, and never receive it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # with the first process it starts, and then unblocks Ctrl-C
    with interrupts_deferred():  # another thread of this process may receive Ctrl-C
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _relay(reports: SimpleQueue[Report], progress: Callable[[str, int, float], None] | None) -> None:
    while not reports.empty():
        report = reports.get()
        if progress is not None:
            progress(*report)


@contextmanager
def _stopped_by_interrupt(stop: Event) -> Iterator[None]:
    """Let the first Ctrl-C set `stop`; only the main thread receives it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# in the processes


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the first process: the terminal sends it to all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def begin_process() -> None:
    """Leave Ctrl-C to the first process, and end when that ends: one that is killed takes its workers with it."""
    ignore_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _start(shared: _Shared) -> None:
    global _shared
    begin_process()
    _shared = shared


def _simulate(policy: str, repeat: int) -> RunResult:
    from cluster.simulation.simulation import Simulation

    assert _shared is not None
    stop, reports = _shared.stop, _shared.reports
    reported = -SECONDS_BETWEEN_REPORTS

    def report(seconds: float) -> None:
        nonlocal reported
        if stop.is_set():
            raise KeyboardInterrupt
        if time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            reports.put((policy, repeat, seconds))

    source = _shared.source.of_repeat(repeat)
    return Simulation(_shared.scenario, source, _shared.sequences[repeat], policy, repeat, report).run()
