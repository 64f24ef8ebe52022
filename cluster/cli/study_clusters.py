"""``plb study NAME``: the experiments of paper 1 and others on simulated clusters, which share their options."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.options import Jobs, Json, Quiet, Regions, Restart, Scheduler, Seed
from cluster.cli.study_report import print_report
from cluster.console.output import clear_errors


class StudyName(StrEnum):
    """The names of the studies."""

    COMPRESSION = "compression"
    ANNEALING = "annealing"
    POLICIES = "policies"
    OVERHEAD = "overhead"
    CONFIGURATIONS = "configurations"
    SENSITIVITY = "sensitivity"
    RISK = "risk"
    DENSITIES = "densities"


HELP: Mapping[StudyName, str] = {
    StudyName.COMPRESSION: "[1] figure 7: effect of trace compression on the probability of a violation.",
    StudyName.ANNEALING: "[1] figure 8: violations of the original and the modified energy.",
    StudyName.POLICIES: "[1] figure 9: violations of placement policies.",
    StudyName.OVERHEAD: "[1] section 8.5: time and memory of violation probabilities. Default region: region1.",
    StudyName.CONFIGURATIONS: "Violations with different settings of the engine.",
    StudyName.SENSITIVITY: "Sensitivity of the results to the parameters of the tenants.",
    StudyName.RISK: "Monte Carlo, Gaussian and peak predictors compared.",
    StudyName.DENSITIES: "The tenant densities of the other studies.",
}
POLICY_STUDIES = (
    StudyName.ANNEALING,
    StudyName.POLICIES,
    StudyName.CONFIGURATIONS,
    StudyName.SENSITIVITY,
    StudyName.RISK,
)
"""The studies that compare arms."""
ONLY_OF = {
    "quick": (*POLICY_STUDIES, StudyName.COMPRESSION, StudyName.OVERHEAD),
    "samples": (StudyName.COMPRESSION,),
    "full": (StudyName.POLICIES,),
    "oracle": (StudyName.POLICIES,),
    "initial_demand": (StudyName.POLICIES,),
    "density": (StudyName.ANNEALING, StudyName.POLICIES, StudyName.OVERHEAD, StudyName.CONFIGURATIONS, StudyName.RISK),
    "days": (*POLICY_STUDIES, StudyName.OVERHEAD),
    "repeats": POLICY_STUDIES,
    "region": tuple(study for study in StudyName if study is not StudyName.CONFIGURATIONS),
    "scenario": (
        StudyName.COMPRESSION,
        StudyName.ANNEALING,
        StudyName.POLICIES,
        StudyName.CONFIGURATIONS,
        StudyName.RISK,
    ),
    "traces": (
        StudyName.COMPRESSION,
        StudyName.ANNEALING,
        StudyName.POLICIES,
        StudyName.CONFIGURATIONS,
        StudyName.RISK,
    ),
    "jobs": (*POLICY_STUDIES, StudyName.COMPRESSION, StudyName.DENSITIES),
    "scheduler": (*POLICY_STUDIES, StudyName.COMPRESSION, StudyName.DENSITIES),
}
"""Options that only some studies have."""


@clear_errors
def clusters_command(
    # long because of the options, each with its help
    study: StudyName,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small part of the study, in minutes.")] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Run all variants with 20 repeats, which takes days. Default: the core with 5 repeats, some hours.",
        ),
    ] = False,
    oracle: Annotated[bool, typer.Option("--oracle", help="Add the policies with an oracle.")] = False,
    initial_demand: Annotated[
        bool, typer.Option("--initial-demand", help="Add other percentiles of the initial demand.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Samples for each number of tenants. Default: 10,000.")
    ] = None,
    region: Regions = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Scenario file with the cluster and the tenants, instead of the regions.")
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(help="Directory of the traces, instead of the one in the scenario file.")
    ] = None,
    density: Annotated[
        list[float] | None, typer.Option(help="Tenant density. Can be repeated. Default: see `densities`.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs of each arm and setting, each with its own tenants.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="Simulated days of a run.")] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results. Default: results/study-NAME.", show_default=False)
    ] = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Repeat an experiment of König et al., PVLDB 2022, and print its figures with those of the paper.

    Finished runs are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.scenario.scenario_file import inputs_of, read_scenario
    from cluster.studies.base import base_of
    from cluster.studies.catalogue import STUDIES
    from cluster.studies.request import StudyRequest
    from cluster.studies.runner import OutputDirectory
    from cluster.studies.study import run_study

    if traces is not None and scenario is None:
        raise typer.BadParameter("requires --scenario, which has the nodes", param_hint="--traces")
    if region and scenario is not None:
        raise typer.BadParameter("the scenario file has the tenants", param_hint="--region")
    if region and len(region) > 1 and study is StudyName.OVERHEAD:
        raise typer.BadParameter("overhead measures one region", param_hint="--region")
    read = [] if scenario is None else [scenario, *inputs_of(read_scenario(scenario))]
    check_outputs(read if traces is None else [*read, traces], [], json)
    request = StudyRequest(
        base=base_of(region, scenario, traces, quick=quick),
        output=OutputDirectory(out or Path("results") / f"study-{study.value}", jobs, scheduler, restart, quiet),
        quick=quick,
        full=full,
        oracle=oracle,
        initial_demand=initial_demand,
        samples=samples,
        densities=density,
        repeats=repeats,
        days=days,
        seed=seed,
    )
    print_report(run_study(STUDIES[study.value](request), request.output), request.output, json)
