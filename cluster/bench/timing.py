"""Timing what is too short to be timed once."""

from __future__ import annotations

from collections.abc import Callable

from plb.compiler import working_time

RUNS = 5
"""The fastest of so many runs counts, since other work on the machine only slows them down."""


def fastest(run: Callable[[], object], runs: int = RUNS) -> float:
    """Return the seconds of the fastest of several runs, without compilation."""

    def once() -> float:
        begun = working_time()
        run()
        return working_time() - begun

    return min(once() for _ in range(runs))
