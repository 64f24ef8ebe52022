"""The protocol of all studies, and `run_study`, which runs any of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from rich.table import Table

from cluster.plots.base import save_figure
from cluster.runs.sweep import Task
from cluster.studies.runner import Failures, Finished, OutputDirectory, run_tasks
from workloads.writing import write_parquet

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


@attrs.frozen(eq=False)
class StudyResult:
    """The result of the finished runs of a study.

    Parameters
    ----------
    figures
        Plain JSON values.
    tables
        Tables to print.
    plots
        Functions that return a plot, by file name. None: there is nothing to plot, and an older file is removed.
    frames
        Further tables to write as Parquet, by file name.
    failed
        Tasks that failed, with their outcomes.
    """

    figures: Mapping[str, Any]
    tables: Sequence[Table] = ()
    plots: Mapping[str, Callable[[], Figure] | None] = attrs.field(factory=dict)
    frames: Mapping[str, pl.DataFrame] = attrs.field(factory=dict)
    failed: Failures = ()


class Study(ABC):
    """An experiment: tasks, a function that runs each of them, and the result of the finished ones."""

    name: ClassVar[str]
    """Name of the study and of its command."""
    jobs: ClassVar[int | None] = None
    """Processes, if the study requires a number of them. 1: runs are timed, so that only one runs at a time."""

    @abstractmethod
    def described(self) -> Mapping[str, Any]:
        """Return the contents of ``study.json`` except name and versions, as plain JSON values."""

    @abstractmethod
    def tasks(self) -> Sequence[Task]:
        """Return all tasks. The key of a task has a digest of everything on which its outcome depends."""

    @staticmethod
    @abstractmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a task in any process; return its ``totals`` and its ``timings``."""

    @abstractmethod
    def result(self, finished: Finished) -> StudyResult:
        """Return figures, tables and plots of the runs that did not fail."""

    def failed_before(self) -> Failures:
        """Return the tasks of a pilot that failed."""
        return ()


def run_study(study: Study, output: OutputDirectory) -> StudyResult:
    """Run a study, write its tables and plots, and return figures, printed tables and failed tasks.

    Raises
    ------
    PlbError
        The directory has other results.
    KeyboardInterrupt
        After Ctrl-C. Its message names the directory with the tables of the finished runs.
    """
    failed_before = study.failed_before()
    finished = run_tasks(study.name, study.run, study.tasks(), output.with_jobs(study.jobs), study.described())
    result = study.result(finished)
    _write(result, output)
    return attrs.evolve(result, plots={}, frames={}, failed=[*failed_before, *finished.failed])


def _write(result: StudyResult, output: OutputDirectory) -> None:
    for name, frame in result.frames.items():
        write_parquet(frame, output.folder / name)
    for name, plot in result.plots.items():
        if plot is None:
            (output.folder / name).unlink(missing_ok=True)
        else:
            save_figure(plot(), output.folder / name)
