"""A function of many items in several processes: on the cores of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import resource_tracker
from typing import Any, TypeVar

from plb.compiler.interrupts import interrupts_deferred
from plb.errors import MissingExtraError, PlbError

Item = TypeVar("Item")
Result = TypeVar("Result")

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or `map_in_processes` with its settings."""
SECONDS_TO_NOTICE = 0.5
"""Longest time in seconds for which a process outlives its parent."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
    ordered: bool = False,
) -> Iterator[Result]:
    """Yield the results of a module's function of each item, as they are ready or `ordered`; its exceptions rise here.

    `jobs`: processes on this machine (None: one for each core; 1: this one); `scheduler`: address of a Dask scheduler
    whose workers run the function instead, such as ``tcp://10.0.0.1:8786``. Work begins in the order of the items.
    Ctrl-C reaches this process only; the others end with it, and when the iteration is given up. A process that ends by
    itself, or a scheduler that does not answer, raises `PlbError`.
    """
    items = list(items)
    processes = min(jobs or cores(), len(items))
    if not items or (scheduler is None and processes == 1):
        yield from map(function, items)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        # loky replaces a worker with much memory; no item is lost
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        warnings.filterwarnings("ignore", ".*You could benefit from adjusting", UserWarning)  # after Ctrl-C
        if scheduler is None:
            config = parallel_config("loky", n_jobs=processes, initializer=_begin_process, initargs=(os.getpid(),))
        else:
            config = parallel_config("dask", n_jobs=-1, client=stack.enter_context(_client(scheduler)))
        with config:
            order_of_results = "generator" if ordered else "generator_unordered"
            parallel = Parallel(
                return_as=order_of_results, batch_size=1, max_nbytes=None
            )  # arrays of a file would be read-only
        try:
            with interrupts_blocked():  # processes start here, and inherit that
                results = stack.enter_context(closing(parallel(delayed(function)(item) for item in items)))
            yield from results
        except TerminatedWorkerError:
            message = "a process ended unexpectedly, perhaps without enough memory; try fewer --jobs"
            raise PlbError(f"{message}. Finished runs are kept") from None
        except BrokenProcessPool as error:
            raise PlbError(f"a result of a process, or its error, cannot be read: {error}") from error


def _client(scheduler: str) -> Any:
    """Return a client of the Dask scheduler at an address."""
    try:
        from dask.distributed import Client
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    connect: Any = Client  # without types
    try:
        return connect(scheduler, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PlbError(f"no Dask scheduler answers at {scheduler}: {error}") from None


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C; processes that start meanwhile inherit that, and never receive it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # with the first process it starts, and then unblocks Ctrl-C
    with interrupts_deferred():  # another thread of this process may receive Ctrl-C
        former_signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former_signals)


def _begin_process(parent: int) -> None:
    """Leave Ctrl-C to the process that started this one, whose number is `parent`, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all processes
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process soon after the process `parent` has ended."""
    while os.getppid() == parent:
        time.sleep(SECONDS_TO_NOTICE)
    os._exit(1)
