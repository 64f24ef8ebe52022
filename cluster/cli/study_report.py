"""The end of every ``plb study`` command: tables, figures as JSON, and the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cluster.console.output import FAILED, output

if TYPE_CHECKING:
    from cluster.studies.runner import OutputDirectory
    from cluster.studies.study import StudyReport


def print_report(report: StudyReport, directory: OutputDirectory, json: Path | None) -> None:
    """Print the tables of a study and write its figures; end with exit code 1 if a run failed."""
    from cluster.results.writing import write_json
    from cluster.studies.runner import FAILURES, stamped_as
    from plb.phrasing import counted

    console = output(quiet=directory.quiet)
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
