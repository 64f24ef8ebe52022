"""``plb study peaks``: the experiments of paper 5, on synthetic cells or on samples that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.console import clear_errors


@clear_errors
def peaks_command(
    traces: Annotated[
        Path | None,
        typer.Option(help="File of samples as `plb predict` reads it, or directory of the Google 2019 sample."),
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option(help="Synthetic region; may be given again. Default: all four.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few machines, a minute.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results. Default: results/study-peaks.", show_default=False)
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Repeat the experiments of Bashir et al., EuroSys 2021: what machines save, and how often they run short."""
    from cluster.cli_study import show
    from cluster.results import check_file
    from cluster.studies.base import regions
    from cluster.studies.carrying_out import Place
    from cluster.studies.peaks_report import carry_out_peaks, cells_of
    from cluster.studies.wanted import Report

    if region and traces is not None:
        raise typer.BadParameter("the traces say what the tasks are", param_hint="--region")
    check_file(json)
    place = Place(out or Path("results") / "study-peaks", quiet=quiet)
    cells = cells_of(traces, regions(region or ()).workloads, quick=quick, seed=seed)
    table, figures = carry_out_peaks(cells, place, seed)
    show(Report((table,), figures, ()), place, json)
