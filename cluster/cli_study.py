"""``plb study NAME``: the experiments of papers 1 and 5."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cluster.console import FAILED, clear_errors, output


class Study(StrEnum):
    """The experiments."""

    COMPRESSION = "compression"
    ANNEALING = "annealing"
    POLICIES = "policies"
    OVERHEAD = "overhead"
    CONFIGURATIONS = "configurations"
    SENSITIVITY = "sensitivity"
    DENSITIES = "densities"
    PEAKS = "peaks"


OF_ARMS = (Study.ANNEALING, Study.POLICIES, Study.CONFIGURATIONS, Study.SENSITIVITY)
"""Those that compare arms in many runs."""
ONLY_OF = {
    "quick": (*OF_ARMS, Study.COMPRESSION, Study.OVERHEAD, Study.PEAKS),
    "samples": (Study.COMPRESSION,),
    "full": (Study.POLICIES,),
    "oracle": (Study.POLICIES,),
    "initial_demand": (Study.POLICIES,),
    "density": (Study.ANNEALING, Study.POLICIES, Study.OVERHEAD, Study.CONFIGURATIONS),
    "days": (*OF_ARMS, Study.OVERHEAD),
    "repeats": OF_ARMS,
    "region": tuple(study for study in Study if study is not Study.CONFIGURATIONS),
    "scenario": (Study.COMPRESSION, Study.ANNEALING, Study.POLICIES, Study.CONFIGURATIONS),
    "jobs": (*OF_ARMS, Study.COMPRESSION, Study.DENSITIES),
    "scheduler": (*OF_ARMS, Study.COMPRESSION, Study.DENSITIES),
}
"""Options that not every study has."""


@clear_errors
def study_command(
    study: Annotated[
        Study,
        typer.Argument(
            help="compression: figure 7. annealing: figure 8. policies: figure 9. overhead: section 8.5. "
            "configurations: which settings of the engine leave the fewest violations. "
            "sensitivity: what the results owe to the choice of tenants. "
            "densities: at which densities these look. "
            "peaks: predictions of peak usage, figures 1 and 6 to 12 of Bashir et al., EuroSys 2021.",
            show_default=False,
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small part, in minutes.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="policies: all variants, 20 repeats. A night; otherwise the core, 5 repeats.")
    ] = False,
    oracle: Annotated[bool, typer.Option("--oracle", help="policies: also with an oracle.")] = False,
    initial_demand: Annotated[
        bool, typer.Option("--initial-demand", help="policies: also under other percentiles of initial demand.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option(min=1, help="compression: draws for each number of tenants. Default: 10,000.")
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option(help="Synthetic region; may be given again. Default: all four.")
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Scenario file whose cluster and tenants are used instead of the regions.")
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the traces, instead of that in the scenario file. "
            "peaks: file of samples as `plb predict` reads it, or directory of the Google 2019 sample."
        ),
    ] = None,
    density: Annotated[
        list[float] | None, typer.Option(help="Tenant density; may be given again. Default: see `densities`.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs of everything, each with tenants of its own.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="Simulated days of a run.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tenants and of all else.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results. Default: results/study-NAME.", show_default=False)
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; results are the same for any number. Default: one a core.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers make the runs, tcp://HOST:PORT.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Make finished runs in the directory again.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Repeat an experiment of König et al., PVLDB 2022, or of Bashir et al., EuroSys 2021.

    What is finished is kept: after Ctrl-C the same command goes on where it stood.
    """
    from cluster.results import check_file, write_json
    from cluster.studies.base import base_of
    from cluster.studies.carrying_out import Place
    from cluster.studies.running import RUN, Wanted

    given = {
        "quick": quick,
        "samples": samples,
        "full": full,
        "region": region,
        "oracle": oracle,
        "initial_demand": initial_demand,
        "density": density,
        "days": days,
        "repeats": repeats,
        "scenario": scenario,
        "jobs": jobs,
        "scheduler": scheduler,
    }
    for name, value in given.items():
        if value not in (None, False) and study not in ONLY_OF[name]:
            raise typer.BadParameter(f"the study {study.value} has no such option", param_hint=_option(name))
    if traces is not None and scenario is None and study is not Study.PEAKS:
        raise typer.BadParameter("needs --scenario, which says what the nodes are", param_hint="--traces")
    if region and traces is not None and study is Study.PEAKS:
        raise typer.BadParameter("the traces say what the tasks are", param_hint="--region")
    if region and scenario is not None:
        raise typer.BadParameter("the scenario file says whose tenants they are", param_hint="--region")
    if region and len(region) > 1 and study is Study.OVERHEAD:
        raise typer.BadParameter("overhead measures one region", param_hint="--region")
    check_file(json)
    wanted = Wanted(
        base=base_of(region, scenario, traces, quick=quick),
        traces=traces,
        place=Place(out or Path("results") / f"study-{study.value}", jobs, scheduler, restart, quiet),
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
    report = RUN[study.value](wanted)
    console = output(quiet=quiet)
    for table in report.tables:
        console.print(table)
    if json is not None:
        write_json(json, report.figures)
    console.print(f"Runs, timings and plots: {wanted.place.folder}", highlight=False)
    if report.failed:
        task, outcome = report.failed[0]
        runs = "1 run" if len(report.failed) == 1 else f"{len(report.failed)} runs"
        typer.echo(
            f"plb: {runs} failed, the first: {task.key}: {outcome.last_line}; see "
            f"{_failures(wanted.place.folder)}. The same command tries again.",
            err=True,
        )
        raise typer.Exit(FAILED)


def _failures(folder: Path) -> str:
    """Return where the failures of a study are: in its directory, and of a pilot in one below."""
    from cluster.studies.carrying_out import FAILURES

    return " and ".join(map(str, sorted(folder.rglob(FAILURES))))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
