"""``plb study NAME``: the experiments of paper 1 and others on simulated clusters, which share their options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from typer import Option

from cluster.cli.options import Jobs, Json, Quiet, Regions, Restart, Scheduler, Seed, StudyFolder
from cluster.cli.study_report import run_and_print
from cluster.console.output import clear_errors

RUN_OPTIONS = ("jobs", "scheduler")
ARM_OPTIONS = (*RUN_OPTIONS, "quick", "days", "repeats")
TENANT_OPTIONS = ("scenario", "traces")
OF_ONE_STUDY = ("samples", "full", "oracle", "initial_demand", "first_hours")
SOME_OPTIONS = {*ARM_OPTIONS, *TENANT_OPTIONS, *OF_ONE_STUDY, "density", "region"}
"""The options that only some of the studies have."""


class StudyCommand(NamedTuple):
    """The command of a study.

    Parameters
    ----------
    help
        Its line in the list of commands.
    options
        Those of `SOME_OPTIONS` that it has.
    """

    help: str
    options: tuple[str, ...]


COMMANDS: Mapping[str, StudyCommand] = {
    "compression": StudyCommand(
        "[1] figure 7: effect of trace compression on the probability of a violation.",
        (*RUN_OPTIONS, *TENANT_OPTIONS, "quick", "samples", "region"),
    ),
    "annealing": StudyCommand(
        "[1] figure 8: violations of the original and the modified energy.",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "density", "region"),
    ),
    "policies": StudyCommand(
        "[1] figure 9: violations of placement policies.",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "full", "oracle", "initial_demand", "density", "region"),
    ),
    "overhead": StudyCommand(
        "[1] section 8.5: time and memory of violation probabilities. Default region: region1.",
        ("quick", "days", "density", "region"),
    ),
    "configurations": StudyCommand(
        "Violations with different settings of the engine.", (*ARM_OPTIONS, *TENANT_OPTIONS, "density")
    ),
    "sensitivity": StudyCommand(
        "Sensitivity of the results to the parameters of the tenants.", (*ARM_OPTIONS, "region")
    ),
    "risk": StudyCommand(
        "Monte Carlo, historical simulation, Gaussian and peak predictors compared by violations.",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "density", "region"),
    ),
    "calibration": StudyCommand(
        "Calibration of the estimators of risk, with intervals.",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "density", "first_hours", "region"),
    ),
    "densities": StudyCommand("The tenant densities of the other studies.", (*RUN_OPTIONS, "region")),
}


@clear_errors
def clusters_command(
    # long because of the options, each with its help
    study: str,
    quick: Annotated[bool, Option("--quick", help="Run a small part of the study, in minutes.")] = False,
    full: Annotated[
        bool,
        Option(
            "--full",
            help="Run all variants with 20 repeats, which takes days. Default: the core with 5 repeats, some hours.",
        ),
    ] = False,
    oracle: Annotated[bool, Option("--oracle", help="Add the policies with an oracle.")] = False,
    initial_demand: Annotated[
        bool, Option("--initial-demand", help="Add other percentiles of the initial demand.")
    ] = False,
    samples: Annotated[int | None, Option(min=1, help="Samples for each number of tenants. Default: 10,000.")] = None,
    region: Regions = None,
    scenario: Annotated[
        Path | None, Option(help="Scenario file with the cluster and the tenants, instead of the regions.")
    ] = None,
    traces: Annotated[
        Path | None, Option(help="Directory of the traces, instead of the one in the scenario file.")
    ] = None,
    density: Annotated[
        list[float] | None, Option(help="Tenant density. Can be repeated. Default: see `densities`.")
    ] = None,
    repeats: Annotated[
        int | None, Option(min=1, help="Runs of each arm and setting, each with its own tenants.")
    ] = None,
    days: Annotated[float | None, Option(help="Simulated days of a run.")] = None,
    first_hours: Annotated[int | None, Option(min=0, help="Hours until the first predictions. Default: 24.")] = None,
    seed: Seed = 0,
    out: StudyFolder = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Run a study of simulated clusters, and print its figures with those that König et al., PVLDB 2022, print.

    Finished runs are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.scenario.scenario_file import inputs_of, read_scenario
    from cluster.studies.base import base_of
    from cluster.studies.catalogue import STUDIES
    from cluster.studies.request import StudyRequest
    from cluster.studies.runner import OutputDirectory

    if traces is not None and scenario is None:
        raise typer.BadParameter("requires --scenario, which has the nodes", param_hint="--traces")
    if region and scenario is not None:
        raise typer.BadParameter("the scenario file has the tenants", param_hint="--region")
    if region and len(region) > 1 and study == "overhead":
        raise typer.BadParameter("overhead measures one region", param_hint="--region")
    read = [] if scenario is None else [scenario, *inputs_of(read_scenario(scenario))]
    check_outputs(read if traces is None else [*read, traces], [], json)
    request = StudyRequest(
        base=base_of(region, scenario, traces, quick=quick),
        output=OutputDirectory(out or Path("results") / f"study-{study}", jobs, scheduler, restart, quiet),
        quick=quick,
        full=full,
        oracle=oracle,
        initial_demand=initial_demand,
        samples=samples,
        densities=density,
        repeats=repeats,
        days=days,
        first_hours=first_hours,
        seed=seed,
    )
    run_and_print(STUDIES[study](request), request.output, json)
