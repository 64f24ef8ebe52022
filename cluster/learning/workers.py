"""Worker processes for training and evaluation: a map with results in the order of the items."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from cluster.runs.processes import begin_process, interrupts_blocked
from plb.errors import PlbError

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@contextmanager
def workers(count: int) -> Iterator[Map]:
    """Yield a map over a number of processes; with one process, it is the built-in `map`.

    Parameters
    ----------
    count
        Number of processes. They are started anew and not forked, so a script that calls this needs
        ``if __name__ == "__main__":``.
    """
    if count == 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    with ProcessPoolExecutor(count, context, initializer=begin_process) as pool:

        def over(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            with interrupts_blocked():
                futures = [pool.submit(function, item) for item in items]
            try:
                for future in futures:
                    yield future.result()
            except BrokenProcessPool:
                message = "a process ended unexpectedly, perhaps without enough memory; try fewer --jobs"
                raise PlbError(message) from None

        try:
            yield over
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
