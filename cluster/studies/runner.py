"""Carrying out the sweep of a study: with progress, into a directory that keeps what is finished.

::

    OUT/journal.jsonl     the finished runs, as they came; a sweep goes on from here
    OUT/study.json        what was run: settings, arms, versions; and whether all runs are there
    OUT/runs.parquet      a row a run; the same bytes for any number of processes
    OUT/timings.parquet   seconds of every run
    OUT/failures.json     runs that failed, with their parameters and tracebacks
    OUT/*.png             plots
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from cluster.console.output import messages
from cluster.results.writing import check_free, json_object, stamped, versions, write_json
from cluster.runs.sweep import Journal, Run, Task, TaskOutcome, sweep
from cluster.scenario.digests import digest_of
from plb import PlbError
from workloads.writing import write_parquet

if TYPE_CHECKING:
    import polars as pl

JOURNAL, STUDY, RUNS, TIMINGS, FAILURES = (
    "journal.jsonl",
    "study.json",
    "runs.parquet",
    "timings.parquet",
    "failures.json",
)
Row = dict[str, Any]


@attrs.frozen
class OutputDirectory:
    """Where a study is carried out.

    Parameters
    ----------
    folder
        Directory of the results.
    jobs, scheduler
        As in `cluster.runs.sweep.sweep`.
    restart
        True: runs that are finished are made again.
    quiet
        True: no progress.
    """

    folder: Path
    jobs: int | None = None
    scheduler: str | None = None
    restart: bool = False
    quiet: bool = False


@attrs.frozen(eq=False)
class Finished:
    """What came of a sweep.

    Parameters
    ----------
    rows
        Arguments and values of every run that did not fail, in the order of the tasks.
    failed
        Tasks that failed, with their outcomes.
    """

    rows: Sequence[Row]
    failed: Sequence[tuple[Task, TaskOutcome]]


def run_tasks(
    name: str, run: Run, tasks: Sequence[Task], output: OutputDirectory, described: Mapping[str, Any]
) -> Finished:
    """Do the tasks of a study and write their tables.

    Parameters
    ----------
    name
        Of the study, for the progress bar.
    run
        Does a task. It returns ``totals``, which are the same for each run of the task, and ``timings``.
    tasks
        All runs. Their arguments that are no tables become columns.
    described
        What is said of the study in ``study.json``.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; it says where the tables of the finished runs are.
    """
    check_study(output.folder / STUDY, name)
    if output.restart:
        (output.folder / JOURNAL).unlink(missing_ok=True)
    head = head_of(name, described)
    with Journal(output.folder / JOURNAL) as journal:
        write_json(output.folder / STUDY, {**head, "complete": False})
        known = sum(task.key in journal.finished for task in tasks)
        try:
            with progress_bar(name, len(tasks), known, output.quiet) as report:
                outcomes = sweep(run, tasks, journal, jobs=output.jobs, scheduler=output.scheduler, progress=report)
        except KeyboardInterrupt:
            _finish(
                output.folder, [(task, journal.finished[task.key]) for task in tasks if task.key in journal.finished]
            )
            message = f"what is finished is in {output.folder}, and the same command goes on from there"
            raise KeyboardInterrupt(message) from None
    finished = _finish(output.folder, list(zip(tasks, outcomes, strict=True)))
    write_json(output.folder / STUDY, {**head, "complete": not finished.failed})
    return finished


def _finish(folder: Path, pairs: Sequence[tuple[Task, TaskOutcome]]) -> Finished:
    """Write the tables of tasks and their outcomes, and return what came of them."""
    finished = Finished(
        [_row(task, outcome.values["totals"]) for task, outcome in pairs if outcome.values is not None],
        [(task, outcome) for task, outcome in pairs if outcome.values is None],
    )
    _write_tables(folder, pairs, finished)
    return finished


def head_of(name: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands in the ``study.json`` of a study beside whether it is complete."""
    configuration = {"study": name, **described}
    return {**configuration, "configuration_sha256": digest_of(configuration), "versions": versions()}


def stamped_as(figures: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return figures of a study with the stamp of its directory; some studies consist of several others.

    The seed is that of the study itself, and of one that only consists of others, theirs.
    """
    paths = sorted(folder.rglob(STUDY))
    heads = {path.parent.relative_to(folder): json_object(path) or {} for path in paths}
    digests = {str(path): head.get("configuration_sha256") for path, head in heads.items()}
    seeds = [head["seed"] for _, head in sorted(heads.items()) if "seed" in head]
    return stamped(figures, digests, seeds[0] if seeds else None)


def check_study(path: Path, name: str) -> None:
    """Refuse a directory with the results of another study, or of something else, or that cannot be written to."""
    folder = path.parent
    check_free(folder, force=True)
    if not path.exists():
        files = [one for one in folder.iterdir() if one.is_file() and one.name[0] != "."] if folder.exists() else []
        if files and not (folder / JOURNAL).exists():
            raise PlbError(f"{folder}: holds files of something else, such as {files[0].name}; give another directory")
        return
    described = json_object(path)
    if described is None:
        raise PlbError(f"{path}: is damaged; remove it, or give another directory")
    there = described.get("study")
    if there != name:
        raise PlbError(f"{path.parent}: has the results of the study {there!r}; give another directory")


def frame_of(rows: Sequence[Row]) -> pl.DataFrame:
    """Return rows as a table; what is no single value becomes JSON."""
    import polars as pl

    plain = [{name: _cell(value) for name, value in row.items()} for row in rows]
    return pl.DataFrame(plain, infer_schema_length=None)


def _cell(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _write_tables(folder: Path, pairs: Sequence[tuple[Task, TaskOutcome]], finished: Finished) -> None:
    timings = [
        _row(task, {"cpu_seconds": outcome.seconds, **outcome.values["timings"]})
        for task, outcome in pairs
        if outcome.values is not None
    ]
    write_parquet(frame_of(finished.rows), folder / RUNS)
    write_parquet(frame_of(timings), folder / TIMINGS)
    failures = [{"arguments": dict(task.arguments), "error": outcome.error} for task, outcome in finished.failed]
    (folder / FAILURES).unlink(missing_ok=True)
    if failures:
        write_json(folder / FAILURES, {"failures": failures})


def _row(task: Task, values: Mapping[str, Any]) -> Row:
    return {**{name: value for name, value in task.arguments.items() if not isinstance(value, dict)}, **values}


@contextmanager
def progress_bar(name: str, runs: int, known: int, quiet: bool) -> Iterator[Any]:
    """Show how many runs are done, how many failed, and the time that is left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    console = messages()
    failures = 0
    if known and not quiet:
        console.print(f"{name}: {known} of {runs} runs are finished already")
    with Progress(*columns, console=console, disable=quiet, speed_estimate_period=600.0) as bar:
        shown = bar.add_task(name, total=runs - known)

        def report(outcome: TaskOutcome) -> None:
            nonlocal failures
            if outcome.error is not None:
                failures += 1
                bar.console.print(f"failed: {outcome.key}")
                bar.update(shown, description=f"{name}, {failures} failed")
            bar.advance(shown)

        yield report
