"""``plb study NAME``: the experiments of paper 1, with its figures beside ours; `cluster.cli.studies` has them all."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli.options import Jobs, Json, Quiet, Regions, Restart, Scheduler, Seed
from cluster.console.output import FAILED, clear_errors, output

if TYPE_CHECKING:
    from cluster.studies.request import StudyReport
    from cluster.studies.runner import OutputDirectory


class Study(StrEnum):
    """The experiments."""

    COMPRESSION = "compression"
    ANNEALING = "annealing"
    POLICIES = "policies"
    OVERHEAD = "overhead"
    CONFIGURATIONS = "configurations"
    SENSITIVITY = "sensitivity"
    RISK = "risk"
    DENSITIES = "densities"


HELP: Mapping[Study, str] = {
    Study.COMPRESSION: "[1] figure 7: does compressing traces change the probability of a violation?",
    Study.ANNEALING: "[1] figure 8: violations of the original and the modified energy.",
    Study.POLICIES: "[1] figure 9: placement one replica at a time.",
    Study.OVERHEAD: "[1] section 8.5: what violation probabilities cost; in region1, unless told otherwise.",
    Study.CONFIGURATIONS: "Which settings of the engine leave the fewest violations.",
    Study.SENSITIVITY: "What the results owe to the choice of tenants.",
    Study.RISK: "Monte Carlo, Gaussian and peak predictors beside one another.",
    Study.DENSITIES: "At which densities the others look.",
}
OF_ARMS = (Study.ANNEALING, Study.POLICIES, Study.CONFIGURATIONS, Study.SENSITIVITY, Study.RISK)
"""Those that compare arms in many runs."""
ONLY_OF = {
    "quick": (*OF_ARMS, Study.COMPRESSION, Study.OVERHEAD),
    "samples": (Study.COMPRESSION,),
    "full": (Study.POLICIES,),
    "oracle": (Study.POLICIES,),
    "initial_demand": (Study.POLICIES,),
    "density": (Study.ANNEALING, Study.POLICIES, Study.OVERHEAD, Study.CONFIGURATIONS, Study.RISK),
    "days": (*OF_ARMS, Study.OVERHEAD),
    "repeats": OF_ARMS,
    "region": tuple(study for study in Study if study is not Study.CONFIGURATIONS),
    "scenario": (Study.COMPRESSION, Study.ANNEALING, Study.POLICIES, Study.CONFIGURATIONS, Study.RISK),
    "traces": (Study.COMPRESSION, Study.ANNEALING, Study.POLICIES, Study.CONFIGURATIONS, Study.RISK),
    "jobs": (*OF_ARMS, Study.COMPRESSION, Study.DENSITIES),
    "scheduler": (*OF_ARMS, Study.COMPRESSION, Study.DENSITIES),
}
"""Options that not every study has."""


@clear_errors
def study_command(
    # long, as most of it are the options, each with its help
    study: Study,
    quick: Annotated[bool, typer.Option("--quick", help="A small part, in minutes.")] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="All variants, 20 repeats, which takes days; otherwise the core, 5 repeats, some hours."
        ),
    ] = False,
    oracle: Annotated[bool, typer.Option("--oracle", help="Also with an oracle.")] = False,
    initial_demand: Annotated[
        bool, typer.Option("--initial-demand", help="Also under other percentiles of initial demand.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Draws for each number of tenants. Default: 10,000.")
    ] = None,
    region: Regions = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Scenario file whose cluster and tenants are used instead of the regions.")
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(help="Directory of the traces, instead of that in the scenario file.")
    ] = None,
    density: Annotated[
        list[float] | None, typer.Option(help="Tenant density; may be given again. Default: see `densities`.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs of everything, each with tenants of its own.")
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
    """Repeat an experiment of König et al., PVLDB 2022, and print its figures beside theirs.

    What is finished is kept: after Ctrl-C the same command goes on where it stood.
    """
    from cluster.results.writing import check_outputs
    from cluster.scenario.scenario_file import inputs_of, read_scenario
    from cluster.studies.base import base_of
    from cluster.studies.request import StudyRequest
    from cluster.studies.runner import OutputDirectory
    from cluster.studies.running import RUN

    if traces is not None and scenario is None:
        raise typer.BadParameter("needs --scenario, which says what the nodes are", param_hint="--traces")
    if region and scenario is not None:
        raise typer.BadParameter("the scenario file says whose tenants they are", param_hint="--region")
    if region and len(region) > 1 and study is Study.OVERHEAD:
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
    show(RUN[study.value](request), request.output, json)


def show(report: StudyReport, directory: OutputDirectory, json: Path | None) -> None:
    """Print the tables of a study and write its figures; end with exit code 1 if a run failed."""
    from cluster.results.writing import write_json
    from cluster.studies.runner import stamped_as
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
    typer.echo(
        f"plb: {counted(len(report.failed), 'run')} failed, the first: {task.key}: {outcome.last_line}; see "
        f"{_failures(directory.folder)}. The same command tries again.",
        err=True,
    )
    raise typer.Exit(FAILED)


def _failures(folder: Path) -> str:
    """Return where the failures of a study are: in its directory, and of a pilot in one below."""
    from cluster.studies.runner import FAILURES

    return " and ".join(map(str, sorted(folder.rglob(FAILURES))))
