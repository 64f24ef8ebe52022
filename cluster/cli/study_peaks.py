"""``plb study peaks``: the experiments of paper 5, on synthetic cells or on the samples of a user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cluster.cli.options import Jobs, Json, Quiet, Regions, Restart, Scheduler, Seed, StudyFolder
from cluster.cli.study_report import run_and_print
from cluster.console.output import clear_errors


@clear_errors
def peaks_command(
    traces: Annotated[
        Path | None, Option(help="File of samples, as for `plb predict`, or directory of the Google 2019 sample.")
    ] = None,
    region: Regions = None,
    quick: Annotated[bool, Option("--quick", help="Run few machines, in a minute.")] = False,
    seed: Seed = 0,
    out: StudyFolder = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Bashir et al., EuroSys 2021: savings and violations with peak predictors.

    Finished tasks are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.studies.base import base_of_regions
    from cluster.studies.peaks.study import PeakStudy
    from cluster.studies.runner import OutputDirectory

    if region and traces is not None:
        raise typer.BadParameter("the traces have the tasks", param_hint="--region")
    check_outputs([] if traces is None else [traces], [], json)
    output = OutputDirectory(out or Path("results") / "study-peaks", jobs, scheduler, restart, quiet)
    if traces is not None:
        study = PeakStudy.of_traces(traces, seed)
    else:
        study = PeakStudy.of_regions(base_of_regions(region or ()).workloads, quick=quick, seed=seed)
    run_and_print(study, output, json)
