"""Processes that play: one map for training and evaluation, with results in the order of the tasks."""

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
    """Yield a map over a number of processes; for one it is that of Python.

    Parameters
    ----------
    count
        Number of processes. They are new ones, not copies of this one, so a script that calls this needs
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
                raise PlbError("a process ended unexpectedly, perhaps without memory; try fewer --jobs") from None

        try:
            yield over
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
