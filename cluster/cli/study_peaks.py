"""``plb study peaks``: the experiments of paper 5, on synthetic cells or on samples that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import Json, Quiet, Regions, Restart, Seed
from cluster.console.output import clear_errors


@clear_errors
def peaks_command(
    traces: Annotated[
        Path | None,
        typer.Option(help="File of samples as `plb predict` reads it, or directory of the Google 2019 sample."),
    ] = None,
    region: Regions = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few machines, a minute.")] = False,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results. Default: results/study-peaks.", show_default=False)
    ] = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Bashir et al., EuroSys 2021: what machines save, and how often they run short."""
    from cluster.cli.study import show
    from cluster.results.writing import check_outputs
    from cluster.studies.base import regions
    from cluster.studies.peaks_report import cells_of, run_peaks
    from cluster.studies.request import StudyReport
    from cluster.studies.runner import OutputDirectory

    if region and traces is not None:
        raise typer.BadParameter("the traces say what the tasks are", param_hint="--region")
    check_outputs([] if traces is None else [traces], [], json)
    output = OutputDirectory(out or Path("results") / "study-peaks", restart=restart, quiet=quiet)
    cells = cells_of(traces, regions(region or ()).workloads, quick=quick, seed=seed)
    table, figures = run_peaks(cells, output, seed)
    show(StudyReport((table,), figures, ()), output, json)
