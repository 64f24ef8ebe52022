"""Timing what is too short to be timed once."""

from __future__ import annotations

import time
from collections.abc import Callable

RUNS = 5
"""The fastest of so many runs counts, since other work on the machine only slows them down."""


def fastest(run: Callable[[], object], runs: int = RUNS) -> float:
    """Return the seconds of the fastest of several runs."""

    def once() -> float:
        begun = time.perf_counter()
        run()
        return time.perf_counter() - begun

    return min(once() for _ in range(runs))
