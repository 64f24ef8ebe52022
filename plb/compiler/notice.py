"""Messages about a compilation, once for each process."""

from __future__ import annotations

import logging

logger = logging.getLogger("plb")

SECONDS_PER_KERNEL = 0.1
"""Approximate seconds of the compilation of one kernel, with its share of the optimisation."""
SECONDS_TO_FIRST_PLAN = 30
"""About how long a process at most compiles until its first plan."""


class CompilationNotice:
    """Says what is compiled: first as a warning, which reaches standard error by default, then as information."""

    def __init__(self) -> None:
        self._is_announced = False

    def announce(self, name: str, kernels: int) -> None:
        """Say that a kernel is compiled.

        Parameters
        ----------
        name
            The kernel.
        kernels
            How many kernels are compiled into it, itself included.
        """
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
