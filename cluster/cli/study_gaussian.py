"""``plb study gaussian``: the experiments of paper 2 on traces that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import Jobs, Json, Quiet, Restart, Scheduler, Seed
from cluster.console.output import clear_errors


@clear_errors
def gaussian_command(
    # long, as most of it are the options, each with its help
    traces: Annotated[
        Path,
        typer.Option(
            help="File or directory: PlanetLab, Bitbrains (Parquet), or traces in this project's format.",
            show_default=False,
        ),
    ],
    resource: Annotated[
        list[str] | None,
        typer.Option(help="Resource, such as cpu; with several, a task has to fit in all. Default: cpu, or the first."),
    ] = None,
    capacity: Annotated[
        list[float] | None,
        typer.Option(
            help="Capacity 1 of each resource, in its unit. Default: the mean task uses 0.0274 of it, as in [2].",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="4 instances and 200 samples; a minute.")] = False,
    instances: Annotated[int | None, typer.Option(min=1, help="Default: 50.", show_default=False)] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of an instance.")] = 1000,
    realisations: Annotated[int, typer.Option(min=2, help="Realisations of a task.")] = 10_000,
    samples: Annotated[
        int | None,
        typer.Option(min=1, help="Samples of tasks for each size of table 1. Default: 10,000.", show_default=False),
    ] = None,
    averaged: Annotated[
        int, typer.Option(min=1, help="Samples of the trace in a row whose mean is the coarser measurement.")
    ] = 12,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results. Default: results/study-gaussian.", show_default=False)
    ] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Janus and Rzadca, SoCC 2017: how well a Gaussian tells what a machine can take.

    What is finished is kept: after Ctrl-C the same command goes on where it stood.
    """
    from cluster.cli.study import show
    from cluster.results.writing import check_outputs
    from cluster.studies.gaussian import design as of
    from cluster.studies.gaussian.running import run_gaussian
    from cluster.studies.runner import OutputDirectory

    check_outputs([traces], [], json)
    found = of.samples_of(str(traces.resolve()), tuple(resource) if resource else None)
    drawn = instances or (of.QUICK_INSTANCES if quick else of.INSTANCES)
    design = of.GaussianDesign(
        traces=traces,
        resources=tuple(metric.name for metric in found.resources),
        capacity=of.capacities_of(found, capacity),
        instances=drawn,
        tasks=tasks,
        realisations=realisations,
        samples=samples or (of.QUICK_SAMPLES if quick else of.SAMPLES),
        periods=of.periods_of(found, drawn, seed),
        averaged=averaged,
        seed=seed,
    )
    output = OutputDirectory(out or Path("results") / "study-gaussian", jobs, scheduler, restart, quiet)
    report = run_gaussian(design, output)
    if not quiet:
        units = [
            f"{c:g} {metric.unit} of {metric.name}" for c, metric in zip(design.capacity, found.resources, strict=True)
        ]
        typer.echo(f"{found.tasks:,} tasks in the trace, {found.left_out:,} left out; capacity 1: {', '.join(units)}")
    show(report, output, json)
