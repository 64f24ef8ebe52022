"""Runs the tasks of a study, with progress, in a directory that keeps finished runs.

::

    OUT/journal.jsonl     the finished runs in the order in which they ended; a study resumes from here
    OUT/study.json        settings, arms, versions, code, and whether all runs are finished
    OUT/runs.parquet      a row a run; the same bytes for any number of processes
    OUT/timings.parquet   seconds of every run
    OUT/failures.json     runs that failed, with their parameters and tracebacks
    OUT/*.png             plots
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs
import polars as pl
from rich.table import Table

from cluster.console import messages, progress
from cluster.plots.base import save_figure
from cluster.results.writing import check_free, json_object, stamped, versions, write_json
from cluster.runs.code_digest import code_of
from cluster.runs.journal import Journal, TaskOutcome
from cluster.runs.sweep import Run, Task, sweep
from cluster.scenario.digests import digest_of
from plb import PlbError
from plb.phrasing import counted
from workloads.writing import write_parquet

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

JOURNAL, STUDY, RUNS, TIMINGS, FAILURES = (
    "journal.jsonl",
    "study.json",
    "runs.parquet",
    "timings.parquet",
    "failures.json",
)
SPEED_PERIOD = 600.0
"""Seconds over which the progress bar averages the speed of the runs."""
Row: TypeAlias = dict[str, Any]
Failures: TypeAlias = Sequence[tuple[Task, TaskOutcome]]


@attrs.frozen
class OutputDirectory:
    """The directory of a study, and how its tasks are run."""

    folder: Path
    """Directory of the results."""
    jobs: int | None = None
    """Processes on this machine; None: one for each core."""
    scheduler: str | None = None
    """Address of a Dask scheduler whose workers make the runs instead; None: there is none."""
    restart: bool = False
    """True: finished runs are repeated."""
    quiet: bool = False
    """True: no progress."""

    def below(self, name: str) -> OutputDirectory:
        """Return a directory below this one, with the same options."""
        return attrs.evolve(self, folder=self.folder / name)


@attrs.frozen(eq=False)
class Finished:
    """The outcomes of the tasks of a study."""

    rows: Sequence[Row]
    """Arguments and totals of every run that did not fail, in the order of the tasks."""
    timings: Sequence[Row] = ()
    """Arguments and timings of these runs, in the same order."""
    failed: Failures = ()
    """Tasks that failed, with their outcomes."""


def run_tasks(
    name: str, run: Run, tasks: Sequence[Task], output: OutputDirectory, described: Mapping[str, Any]
) -> Finished:
    """Run the tasks of a study and write their tables, with the arguments that are no tables as columns.

    `name`: of the study; `run` returns ``totals``, the same for each run of a task, and ``timings``; `described` goes
    to ``study.json``. After Ctrl-C, the `KeyboardInterrupt` names the directory with the tables of the finished runs.
    """
    check_study(output.folder / STUDY, name)
    if output.restart:
        (output.folder / JOURNAL).unlink(missing_ok=True)
    code = code_of(run)
    head = head_of(name, described, code)
    if not tasks:
        write_json(output.folder / STUDY, {**head, "complete": True})
        return Finished(())
    with Journal(output.folder / JOURNAL, code) as journal:

        def done() -> list[tuple[Task, TaskOutcome]]:
            return [(task, journal.finished[task.key]) for task in tasks if task.key in journal.finished]

        write_json(output.folder / STUDY, {**head, "complete": False})
        report_other_code(journal, tasks, messages(quiet=output.quiet), output.folder)
        try:
            with progress_bar(name, len(tasks), len(done()), output.quiet) as report:
                outcomes = sweep(run, tasks, journal, jobs=output.jobs, scheduler=output.scheduler, progress=report)
        except KeyboardInterrupt:
            _write_tables(output.folder, done())
            message = f"finished runs are kept in {output.folder}; the same command continues from there"
            raise KeyboardInterrupt(message) from None
    finished = _write_tables(output.folder, list(zip(tasks, outcomes, strict=True)))
    write_json(output.folder / STUDY, {**head, "complete": not finished.failed})
    return finished


def report_other_code(journal: Journal, tasks: Sequence[Task], console: Console, folder: Path) -> bool:
    """Print how many runs of tasks are made again because other code has made them; return whether there are any."""
    count = sum(task.key in journal.of_other_code for task in tasks)
    if count:
        console.print(
            f"{folder}: {counted(count, 'finished run')} of other code {'does' if count == 1 else 'do'} not count",
            soft_wrap=True,
        )
    return count > 0


def _write_tables(folder: Path, outcomes: Failures) -> Finished:
    """Write the tables of tasks with their outcomes to a directory, and return their rows."""
    successful = [(task, outcome, outcome.values) for task, outcome in outcomes if outcome.values is not None]
    finished = Finished(
        rows=[_row(task, values["totals"]) for task, _, values in successful],
        timings=[
            _row(task, {"cpu_seconds": outcome.seconds, **values["timings"]}) for task, outcome, values in successful
        ],
        failed=[(task, outcome) for task, outcome in outcomes if outcome.values is None],
    )
    write_parquet(frame_of(finished.rows), folder / RUNS)
    write_parquet(frame_of(finished.timings), folder / TIMINGS)
    failures = [{"arguments": dict(task.arguments), "error": outcome.error} for task, outcome in finished.failed]
    (folder / FAILURES).unlink(missing_ok=True)
    if failures:
        write_json(folder / FAILURES, {"failures": failures})
    return finished


def _row(task: Task, values: Mapping[str, Any]) -> Row:
    """Return the arguments of a task that are no tables, and its values, as a row."""
    return {**{name: value for name, value in task.arguments.items() if not isinstance(value, dict)}, **values}


def head_of(name: str, described: Mapping[str, Any], code: str) -> dict[str, Any]:
    """Return what ``study.json`` holds apart from outcomes: name, `described`, versions and `code`, of its runs."""
    configuration = {"study": name, **described}
    packages = {**versions(), "code": code}
    return {**configuration, "configuration_sha256": digest_of(configuration), "versions": packages}


def stamped_as(figures: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the figures of a study with the stamp of its directory: seed and code of the first study in it."""
    paths = sorted(folder.rglob(STUDY))
    heads = {path.parent.relative_to(folder): json_object(path) or {} for path in paths}
    digests = {str(path): head.get("configuration_sha256") for path, head in heads.items()}
    seeds = [head["seed"] for _, head in sorted(heads.items()) if "seed" in head]
    result = stamped(figures, digests, seeds[0] if seeds else None)
    codes = [head["versions"]["code"] for _, head in sorted(heads.items()) if "code" in head.get("versions", {})]
    result["stamp"]["versions"] |= {"code": codes[0]} if codes else {}
    return result


def check_study(path: Path, name: str) -> None:
    """Raise an error if a directory cannot be used for the study `name`: it has other files, or another study.

    `path`: its ``study.json``.
    """
    folder = path.parent
    check_free(folder, force=True)
    if not path.exists():
        files = [file for file in folder.iterdir() if file.is_file() and file.name[0] != "."] if folder.exists() else []
        if files and not (folder / JOURNAL).exists():
            raise PlbError(f"{folder}: has files of something else, such as {files[0].name}; give another directory")
        return
    described = json_object(path)
    if described is None:
        raise PlbError(f"{path}: is damaged; remove it, or give another directory")
    study = described.get("study")
    if study != name:
        raise PlbError(f"{path.parent}: has the results of the study {study!r}; give another directory")


def frame_of(rows: Sequence[Row]) -> pl.DataFrame:
    """Return rows as a data frame; lists and objects become JSON."""
    import polars as pl

    plain_rows = [{name: _cell(value) for name, value in row.items()} for row in rows]
    return pl.DataFrame(plain_rows, infer_schema_length=None)


def _cell(value: Any) -> Any:
    """Return a value as a cell of a data frame; a list or object becomes JSON."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


@contextmanager
def progress_bar(name: str, runs: int, finished_before: int, quiet: bool) -> Iterator[Any]:
    """Show finished and failed runs and the remaining time.

    Yield a function to call with each outcome; `finished_before`: number of the `runs` that are not made again.
    """
    from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()
    failures = 0
    if finished_before:
        messages(quiet=quiet).print(f"{name}: {finished_before} of {runs} runs are finished already")
    with progress(*columns, quiet=quiet, speed_estimate_period=SPEED_PERIOD) as bar:
        task = bar.add_task(name, total=runs - finished_before)

        def report(outcome: TaskOutcome) -> None:
            nonlocal failures
            if outcome.error is not None:
                failures += 1
                bar.console.print(f"failed: {outcome.key}")
                bar.update(task, description=f"{name}, {failures} failed")
            bar.advance(task)

        yield report


@attrs.frozen(eq=False)
class StudyResult:
    """The result of the finished runs of a study."""

    figures: Mapping[str, Any]
    """The figures of the study, as plain JSON values."""
    tables: Sequence[Table] = ()
    """Tables to print."""
    plots: Mapping[str, Callable[[], Figure] | None] = attrs.field(factory=dict)
    """Functions that return a plot, by file name. None: there is nothing to plot, and an older file is removed."""
    frames: Mapping[str, pl.DataFrame] = attrs.field(factory=dict)
    """Further tables to write as Parquet, by file name."""
    failed: Failures = ()
    """Tasks that failed, with their outcomes."""


class Study(ABC):
    """An experiment: tasks, a function that runs each task, and the result of the finished tasks."""

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
    """Run a study, write its tables and plots, and return figures, printed tables and failed tasks; see `run_tasks`."""
    failed_before = study.failed_before()
    directory = output if study.jobs is None else attrs.evolve(output, jobs=study.jobs)
    finished = run_tasks(study.name, study.run, study.tasks(), directory, study.described())
    result = study.result(finished)
    _write(result, output)
    return attrs.evolve(result, plots={}, frames={}, failed=[*failed_before, *finished.failed])


def _write(result: StudyResult, output: OutputDirectory) -> None:
    """Write the tables and plots of a result to the directory of the study."""
    for name, frame in result.frames.items():
        write_parquet(frame, output.folder / name)
    for name, plot in result.plots.items():
        if plot is None:
            (output.folder / name).unlink(missing_ok=True)
        else:
            save_figure(plot(), output.folder / name)
