"""``plb study gaussian``: the experiments of paper 2 on the traces of a user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from cluster.cli.options import Jobs, Json, Quiet, Restart, Scheduler, Seed, StudyFolder
from cluster.cli.study_report import run_and_print
from cluster.console.output import clear_errors


@clear_errors
def gaussian_command(
    traces: Annotated[
        Path, Option(help="File or directory: PlanetLab, Bitbrains (Parquet), or traces in this project's format.")
    ],
    resource: Annotated[
        list[str] | None,
        Option(help="Resource, such as cpu. Can be repeated; a task has to fit in all. Default: cpu, or the first."),
    ] = None,
    capacity: Annotated[
        list[float] | None,
        Option(help="Capacity of a machine for each resource, in its unit. Default: the mean task uses 0.0274 of it."),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Run 4 instances and 200 samples, in a minute.")] = False,
    instances: Annotated[int | None, Option(min=1, help="Number of instances. Default: 50.")] = None,
    tasks: Annotated[int, Option(min=1, help="Tasks of an instance.")] = 1000,
    realisations: Annotated[int, Option(min=2, help="Realisations of a task.")] = 10_000,
    samples: Annotated[
        int | None, Option(min=1, help="Samples of tasks for each size of table 1. Default: 10,000.")
    ] = None,
    averaged: Annotated[
        int, Option(min=1, help="Consecutive samples of the trace whose mean is the coarser measurement.")
    ] = 12,
    seed: Seed = 0,
    out: StudyFolder = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Janus and Rzadca, SoCC 2017: Gaussian percentiles of the load of a machine.

    Finished runs are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.studies.gaussian import design
    from cluster.studies.gaussian.study import GaussianStudy
    from cluster.studies.runner import OutputDirectory

    check_outputs([traces], [], json)
    found = design.samples_of(str(traces.resolve()), tuple(resource) if resource else None)
    count = instances or (design.QUICK_INSTANCES if quick else design.INSTANCES)
    study = GaussianStudy(
        traces=traces,
        resources=tuple(metric.name for metric in found.resources),
        capacity=design.capacities_of(found, capacity),
        instances=count,
        instance_tasks=tasks,
        realisations=realisations,
        samples=samples or (design.QUICK_SAMPLES if quick else design.SAMPLES),
        periods=design.periods_of(found, count, seed),
        averaged=averaged,
        seed=seed,
    )
    output = OutputDirectory(out or Path("results") / "study-gaussian", jobs, scheduler, restart, quiet)
    units = [f"{c:g} {metric.unit} of {metric.name}" for c, metric in zip(study.capacity, found.resources, strict=True)]
    caption = f"{found.tasks:,} tasks in the trace, {found.left_out:,} left out; capacity: {', '.join(units)}"
    run_and_print(study, output, json, caption=caption)
