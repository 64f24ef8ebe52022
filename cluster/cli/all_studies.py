"""``plb study all``: every study of the papers, the cheapest first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from typer import Option

from cluster.cli.options import Publish
from cluster.console import FAILED, clear_errors, messages

DATA = "{data}"
"""Stands for the directory of traces in an argument."""


class ListedStudy(NamedTuple):
    """A study with the settings of its published results."""

    minutes: int
    """Processor time, about."""
    arguments: tuple[str, ...]
    """What follows ``plb study``."""
    has_jobs: bool = True
    """Whether its runs can be divided among processes."""

    @property
    def folder(self) -> str:
        """Name of the directory of its results: the study, with the traces if it reads any."""
        return "-".join([self.arguments[0], *(Path(text).stem for text in self.traces)])

    @property
    def traces(self) -> list[str]:
        """The arguments that are traces."""
        return [text for text in self.arguments if DATA in text]

    def missing(self, data: Path) -> list[str]:
        """Return the files and directories that the study reads and that are not there."""
        paths = (text.replace(DATA, str(data)) for text in self.traces)
        return [path for path in paths if not Path(path).exists()]


STUDIES = (
    ListedStudy(1, ("peaks",)),
    ListedStudy(1, ("peaks", "--traces", f"{DATA}/google2019_instances")),
    ListedStudy(2, ("overhead",), has_jobs=False),
    ListedStudy(10, ("gaussian", "--traces", f"{DATA}/bitbrains_rnd")),
    ListedStudy(10, ("gaussian", "--traces", f"{DATA}/planetlab")),
    ListedStudy(10, ("compression", "--samples", "4000")),
    ListedStudy(27, ("provisioning", "--base", f"{DATA}/lra/TClab_dataset_2D.csv.gz")),
    ListedStudy(33, ("calibration",)),
    ListedStudy(41, ("rebalancing", "--scenario", "examples/rebalancing.toml", "--traces", f"{DATA}/bitbrains_rnd")),
    ListedStudy(42, ("forms",)),
    ListedStudy(55, ("sensitivity",)),
    ListedStudy(80, ("configurations",)),
    ListedStudy(82, ("annealing",)),
    ListedStudy(92, ("risk",)),
    ListedStudy(130, ("policies",)),
)
"""All studies, in order of their processor time."""


@clear_errors
def all_command(
    data: Annotated[Path, Option(help="Directory of the traces; docs/repeating-studies.md lists them.")] = Path(
        "../shared/data"
    ),
    out: Annotated[Path, Option(help="Directory of the results, one below it for each study.")] = Path("results")
    / "studies",
    quick: Annotated[bool, Option("--quick", help="Run a small part of each study, in minutes.")] = False,
    jobs: Annotated[int | None, Option(min=1, help="Processes of a study. Default: one for each core.")] = None,
    publish: Publish = False,
) -> None:
    """Run all studies, the cheapest first. After Ctrl-C the same command resumes.

    A study whose traces are missing is left out, and one that fails does not stop the next ones; both end with an exit
    code of 1.
    """
    from plb.phrasing import counted

    console, failed = messages(), []
    left = sum(study.minutes for study in STUDIES if not study.missing(data))
    for index, study in enumerate(STUDIES):
        command = ["study", *(text.replace(DATA, str(data)) for text in study.arguments)]
        words, missing = " ".join(["plb", *command]), study.missing(data)
        if missing:
            console.print(f"{words}: left out, as {missing[0]} is missing", soft_wrap=True)
            failed.append(words)
            continue
        minutes = counted(study.minutes, "minute")
        expected = "" if quick else f": about {minutes} of processor time, {left} with all that follow"
        console.print(f"{index + 1} of {len(STUDIES)}: {words}{expected}", soft_wrap=True)
        left -= study.minutes
        command += ["--out", str(out / study.folder)]
        command += ["--quick"] * quick + ["--publish"] * publish
        if study.has_jobs and jobs is not None:
            command += ["--jobs", str(jobs)]
        if subprocess.run([sys.executable, "-m", "plb", *command], check=False).returncode != 0:
            failed.append(words)
    if failed:
        console.print(f"{len(failed)} of {len(STUDIES)} are not complete: {'; '.join(failed)}", soft_wrap=True)
        raise typer.Exit(FAILED)
