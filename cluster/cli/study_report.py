"""The run of every ``plb study`` command, its tables, its figures as JSON, and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cluster.console.output import FAILED, output

if TYPE_CHECKING:
    from cluster.studies.runner import OutputDirectory
    from cluster.studies.study import Study


def run_and_print(study: Study, directory: OutputDirectory, json: Path | None, *, caption: str = "") -> None:
    """Run a study, print its tables and write its figures; end with exit code 1 if a run failed.

    Parameters
    ----------
    caption
        A line to print before the tables.
    """
    from cluster.results.writing import write_json
    from cluster.studies.runner import FAILURES, stamped_as
    from cluster.studies.study import run_study
    from plb.phrasing import counted

    report = run_study(study, directory)
    console = output(quiet=directory.quiet)
    if caption:
        console.print(caption, soft_wrap=True)
    for table in report.tables:
        console.print(table)
    if json is not None:
        write_json(json, stamped_as(report.figures, directory.folder))
    console.print(f"Runs, timings and plots: {directory.folder}", soft_wrap=True)
    if not report.failed:
        return
    task, outcome = report.failed[0]
    files = " and ".join(map(str, sorted(directory.folder.rglob(FAILURES))))
    typer.echo(
        f"plb: {counted(len(report.failed), 'run')} failed. The first: {task.key}: {outcome.last_line}. See {files}. "
        "The same command runs them again.",
        err=True,
    )
    raise typer.Exit(FAILED)
