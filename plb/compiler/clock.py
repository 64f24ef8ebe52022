"""A clock that stands still while kernels are compiled, so that compilation counts in no measured time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class CompilationClock:
    """Adds up the seconds that this process spends on compiling and loading kernels."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_running = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds of a block; a block within another one counts once.

        A thread that waits for another one to compile adds nothing, so no second is counted twice.
        """
        if self._is_running:
            yield
            return
        begun = time.perf_counter()
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False
            self.seconds += time.perf_counter() - begun


COMPILATION = CompilationClock()


def working_time() -> float:
    """Return `time.perf_counter` without the seconds that this process spent on compiling and loading kernels.

    Differences between two readings are durations of the work itself. Every duration that the project reports, and
    every budget of seconds, is measured with this clock.
    """
    return time.perf_counter() - COMPILATION.seconds
