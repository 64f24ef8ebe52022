"""A clock that stands still while kernels are compiled, so that compilation counts in no measured time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs


@attrs.frozen(eq=False)
class _State:
    """How long this process has compiled, and since when it does so; replaced as a whole, since threads read it."""

    seconds: float = 0.0
    begun: float | None = None


class CompilationClock:
    """Adds up the seconds that this process spends on compiling and loading kernels."""

    def __init__(self) -> None:
        self._state = _State()

    @property
    def seconds(self) -> float:
        """Seconds of the blocks that have ended."""
        return self._state.seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds of a block; a block within another one counts once.

        A thread that waits for another one to compile adds nothing, so no second is counted twice.
        """
        seconds, begun = self._state.seconds, time.perf_counter()
        if self._state.begun is not None:
            yield
            return
        try:
            self._state = _State(seconds, begun)
            yield
        finally:
            self._state = _State(seconds + time.perf_counter() - begun)

    def working_time(self) -> float:
        """Return `time.perf_counter` without the seconds of all blocks; it stands still within one."""
        while True:
            state, now = self._state, time.perf_counter()
            if state is self._state:  # or a block of another thread has begun or ended in between
                return (now if state.begun is None else state.begun) - state.seconds


COMPILATION = CompilationClock()


def working_time() -> float:
    """Return `time.perf_counter` without the seconds that this process spent on compiling and loading kernels.

    Differences between two readings are durations of the work itself. Every duration that the project reports, and
    every budget of seconds, is measured with this clock. It is one for all threads of the process: while one of them
    compiles, it stands still for the others, too.
    """
    return COMPILATION.working_time()
