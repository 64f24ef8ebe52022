"""The kernels that are being compiled: the log records of the engine as values."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from plb.compiler import notice


class Compilations(logging.Filter):
    """Receives announcements of compilations, and warnings, of the engine; nobody else receives them."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        self._names: list[str] = []
        self._times: list[float] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Process a record; return whether others receive it."""
        if record.pathname == notice.__file__ and isinstance(record.args, tuple):
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
        """Return the kernels that were compiled, each with the seconds until the next one began, or until the end."""
        seconds = (later - earlier for earlier, later in pairwise(self._times))
        return list(zip(self._names, seconds, strict=True))


@contextmanager
def noted() -> Iterator[Compilations]:
    """Yield what is compiled while the block runs, complete after its end."""
    logger, compilations = notice.logger, Compilations()
    level = logger.level
    logger.addFilter(compilations)
    logger.setLevel(logging.INFO)
    try:
        yield compilations
    finally:
        compilations.end()
        logger.setLevel(level)
        logger.removeFilter(compilations)
