"""The log of `plb warmup`: the compilations of every run, and their times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cluster.warmup.warmup import WarmupResult
from plb.phrasing import counted

NAME = "warmup.log"


class WarmupLog:
    """A file in the directory of the kernels, to which every run appends. A run continues if writing fails.

    Parameters
    ----------
    directory
        Directory of the kernels; None: there is none.
    jobs
        Number of processes of the run.
    """

    def __init__(self, directory: Path | None, jobs: int) -> None:
        self.path = None if directory is None else directory / NAME
        self.problem = None if directory is not None else "there is no home directory; set PLB_CACHE_DIR"
        begun = datetime.now().astimezone().isoformat(" ", "seconds")
        self._append([f"{begun}: plb warmup --jobs {jobs}"])

    def add(self, done: WarmupResult) -> None:
        """Write a task and the kernels that it compiled."""
        lines = [f"{seconds:8.2f} s  {name}" for name, seconds in done.kernels]
        ended = f"{counted(len(done.kernels), 'kernel')} compiled, {done.seconds:.2f} s"
        self._append([f"{done.task}: {'failed' if done.error else ended}", *lines, *done.warnings])
        if done.error is not None:
            self._append(done.error.splitlines())

    def end(self, seconds: float) -> None:
        """Write that all tasks are finished."""
        self._append([f"all tasks are finished, {seconds:.2f} s"])

    def where(self) -> str:
        """Return a sentence with the path of the log, or the reason why there is none."""
        if self.problem is None:
            return f"Log of the compilations: {self.path}"
        return f"There is no log of the compilations: {self.problem}"

    def _append(self, lines: Sequence[str]) -> None:
        if self.path is None or self.problem is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{os.getpid()} {line}\n" for line in lines))
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}"
