"""How compilation shows: a clock that stops meanwhile, so that no measured time includes it, and messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

logger = logging.getLogger("plb")

SECONDS_PER_KERNEL = 0.1
"""Approximate seconds of the compilation of one kernel, with its share of the optimisation."""
SECONDS_TO_FIRST_PLAN = 30
"""About how long a process at most compiles until its first plan."""


@attrs.frozen(eq=False)
class _State:
    """Seconds of compilation in this process, and start of the present one; replaced as a whole for threads."""

    seconds: float = 0.0
    """Seconds of the blocks that have ended."""
    begun: float | None = None
    """`time.perf_counter` at the start of the running block; None: none is running."""


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

        A thread that waits for the compilation of another one adds nothing, so no second counts twice.
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
        """Return `time.perf_counter` without the seconds that this process spent on compiling and loading kernels.

        Differences between two readings are durations of the work itself. Every duration that the project reports, and
        every budget of seconds, is measured with this clock. All threads of the process share it: while one of them
        compiles, it stops for the others as well.
        """
        while True:
            state, now = self._state, time.perf_counter()
            if state is self._state:  # else a block of another thread has begun or ended
                return (now if state.begun is None else state.begun) - state.seconds


COMPILATION = CompilationClock()
working_time = COMPILATION.working_time


class CompilationNotice:
    """Says what is compiled: first as a warning, which reaches standard error by default, then as information."""

    def __init__(self) -> None:
        self._is_announced = False

    def announce(self, name: str, kernels: int) -> None:
        """Say that a kernel is compiled; `kernels`: how many are compiled into it, itself included."""
        seconds = max(1.0, kernels * SECONDS_PER_KERNEL)
        if self._is_announced:
            logger.info("Compiling %s, about %.0f s", name, seconds)
            return
        self._is_announced = True
        if name.startswith("plb."):
            seconds = SECONDS_TO_FIRST_PLAN
        logger.warning(
            "Compiling %s and other kernels, up to about %.0f s in all. This happens once for this version of plb and "
            "this processor; `plb warmup` compiles the kernels of plb ahead.",
            name,
            seconds,
        )


NOTICE = CompilationNotice()
