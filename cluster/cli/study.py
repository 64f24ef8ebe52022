"""``plb study``: the experiments of the papers, a command each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from typer import Option

from cluster.cli.all_studies import all_command
from cluster.cli.options import Jobs, Json, PlotsFormat, Publish, Quiet, Regions, Restart, Scheduler, Seed, StudyFolder
from cluster.console import FAILED, clear_errors, output
from cluster.plots.formats import PlotFormat, plots_as

if TYPE_CHECKING:
    from cluster.studies.runner import OutputDirectory, Study


def run_and_print(
    study: Study,
    directory: OutputDirectory,
    json: Path | None,
    plot_format: PlotFormat,
    *,
    published: Path | None,
    caption: str = "",
) -> None:
    """Run a study, print its caption and tables and write its figures; end with exit code 1 if a run failed.

    `published`: file for the figures if no run fails, or None.
    """
    from cluster.results.writing import write_json
    from cluster.studies.publication import publish
    from cluster.studies.runner import FAILURES, run_study, stamped_as
    from plb.phrasing import counted

    with plots_as(plot_format):
        report = run_study(study, directory)
    console = output(quiet=directory.quiet)
    if caption:
        console.print(caption, soft_wrap=True)
    for table in report.tables:
        console.print(table)
    if json is not None:
        write_json(json, stamped_as(report.figures, directory.folder))
    console.print(f"Runs, timings and plots: {directory.folder}", soft_wrap=True)
    if not report.failed:
        if published is not None:
            publish(report.figures, directory.folder, published)
            console.print(f"Published: {published}; `make pages` renews the tables", soft_wrap=True)
        return
    task, outcome = report.failed[0]
    files = " and ".join(map(str, sorted(directory.folder.rglob(FAILURES))))
    typer.echo(
        f"plb: {counted(len(report.failed), 'run')} failed. The first: {task.key}: {outcome.last_line}. See {files}. "
        "The same command runs them again.",
        err=True,
    )
    raise typer.Exit(FAILED)


RUN_OPTIONS = ("jobs", "scheduler")
ARM_OPTIONS = (*RUN_OPTIONS, "quick", "days", "repeats")
TENANT_OPTIONS = ("scenario", "traces")
OF_ONE_STUDY = ("samples", "full", "oracle", "initial_demand", "first_hours")
SOME_OPTIONS = {*ARM_OPTIONS, *TENANT_OPTIONS, *OF_ONE_STUDY, "density", "region"}
"""The options that only some of the studies have."""


class StudyCommand(NamedTuple):
    """The command of a study."""

    help: str
    """Its line in the list of commands."""
    options: tuple[str, ...]
    """Its options among `SOME_OPTIONS`."""


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
    "forms": StudyCommand(
        "Violations with different forms of the energies of [1].",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "density", "region"),
    ),
    "configurations": StudyCommand(
        "Violations with different settings of the engine.",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "density", "region"),
    ),
    "sensitivity": StudyCommand(
        "Sensitivity of the results to the parameters of the tenants.", (*ARM_OPTIONS, "region")
    ),
    "risk": StudyCommand(
        "Monte Carlo, historical simulation, Gaussian and peak predictors compared by violations.",
        (*ARM_OPTIONS, *TENANT_OPTIONS, "density", "region"),
    ),
    "rebalancing": StudyCommand(
        "Violations and moves with rebalancing by risk, with Service Fabric's, and with failovers alone.",
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
            help="Run all variants with 20 repeats, which takes days. Default: the core with 5 repeats, an hour.",
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
    publish: Publish = False,
    plot_format: PlotsFormat = PlotFormat.PNG,
    quiet: Quiet = False,
) -> None:
    """Run a study of simulated clusters, and print its figures beside the figures of König et al., PVLDB 2022.

    Finished runs are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.scenario.scenario_file import inputs_of, read_scenario
    from cluster.studies.base import base_of
    from cluster.studies.catalogue import STUDIES
    from cluster.studies.publication import path_of
    from cluster.studies.request import StudyRequest
    from cluster.studies.runner import OutputDirectory

    if traces is not None and scenario is None:
        raise typer.BadParameter("requires --scenario, which has the nodes", param_hint="--traces")
    if region and scenario is not None:
        raise typer.BadParameter("the scenario file has the tenants", param_hint="--region")
    if region and len(region) > 1 and study == "overhead":
        raise typer.BadParameter("overhead measures one region", param_hint="--region")
    inputs, workload = [], "-".join(region or ())
    if scenario is not None:
        described = read_scenario(scenario)
        inputs, workload = [scenario, *inputs_of(described)], described.name
    check_outputs(inputs if traces is None else [*inputs, traces], [], json)
    published = path_of(study, workload or None) if publish else None
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
    run_and_print(STUDIES[study](request), request.output, json, plot_format, published=published)


@clear_errors
def gaussian_command(
    # long because of the options, each with its help
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
    publish: Publish = False,
    plot_format: PlotsFormat = PlotFormat.PNG,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Janus and Rzadca, SoCC 2017: Gaussian percentiles of the load of a machine.

    Finished runs are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.studies.gaussian import packings
    from cluster.studies.gaussian.study import GaussianStudy
    from cluster.studies.publication import path_of
    from cluster.studies.runner import OutputDirectory

    check_outputs([traces], [], json)
    published = path_of("gaussian", traces.stem) if publish else None
    trace = packings.samples_of(str(traces.resolve()), tuple(resource) if resource else None)
    instance_count = instances or (packings.QUICK_INSTANCES if quick else packings.INSTANCES)
    study = GaussianStudy(
        traces=traces,
        resources=tuple(metric.name for metric in trace.resources),
        capacity=packings.capacities_of(trace, capacity),
        instances=instance_count,
        instance_tasks=tasks,
        realisations=realisations,
        samples=samples or (packings.QUICK_SAMPLES if quick else packings.SAMPLES),
        periods=packings.periods_of(trace, instance_count, seed),
        averaged=averaged,
        seed=seed,
    )
    output = OutputDirectory(out or Path("results") / "study-gaussian", jobs, scheduler, restart, quiet)
    units = [f"{c:g} {metric.unit} of {metric.name}" for c, metric in zip(study.capacity, trace.resources, strict=True)]
    caption = f"{trace.tasks:,} tasks in the trace, {trace.left_out:,} left out; capacity: {', '.join(units)}"
    run_and_print(study, output, json, plot_format, published=published, caption=caption)


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
    publish: Publish = False,
    plot_format: PlotsFormat = PlotFormat.PNG,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Bashir et al., EuroSys 2021: savings and violations with peak predictors.

    Finished tasks are kept. After Ctrl-C the same command resumes the study.
    """
    from cluster.results.writing import check_outputs
    from cluster.studies.base import base_of_regions
    from cluster.studies.peaks.study import PeakStudy
    from cluster.studies.publication import path_of
    from cluster.studies.runner import OutputDirectory

    if region and traces is not None:
        raise typer.BadParameter("the traces have the tasks", param_hint="--region")
    check_outputs([] if traces is None else [traces], [], json)
    workload = "-".join(region or ()) if traces is None else traces.stem
    published = path_of("peaks", workload or None) if publish else None
    output = OutputDirectory(out or Path("results") / "study-peaks", jobs, scheduler, restart, quiet)
    if traces is not None:
        study = PeakStudy.of_traces(traces, seed)
    else:
        study = PeakStudy.of_regions(base_of_regions(region or ()).workloads, quick=quick, seed=seed)
    run_and_print(study, output, json, plot_format, published=published)


@clear_errors
def provisioning_command(
    # long because of the options, each with its help
    base: Annotated[
        Path | None, Option(help="CSV file of the paper's authors: constant demand, figures 3 to 5.")
    ] = None,
    curves: Annotated[
        Path | None, Option(help="Directory of the Tianchi contest's files: demand at 98 time points, figures 6 and 7.")
    ] = None,
    published: Annotated[
        Path | None,
        Option(
            help="CSV file of the authors' means (set, group, algorithm, mean_deviation_percent, mean_seconds). "
            "Default: the means in the text of the paper."
        ),
    ] = None,
    figure: Annotated[
        list[str] | None, Option(metavar="N", help="Figure: 4 (includes 3), 5, 6 or 7. Can be repeated. Default: all.")
    ] = None,
    graph: Annotated[
        list[str] | None, Option(help="Graph: arbitrary, normal or threshold. Can be repeated. Default: all.")
    ] = None,
    density: Annotated[
        list[float] | None,
        Option(help="Density of limits in figures 4 and 6. Can be repeated. Default: 0.01, 0.05 and 0.1."),
    ] = None,
    applications: Annotated[
        list[int] | None,
        Option(
            min=1,
            help="Number of applications in figures 5 and 7; up to 100000 in [3]. Can be repeated. Default: 10000.",
        ),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Run 1 instance of arbitrary graphs, 1 % in figures 4 and 6, in a minute.")
    ] = False,
    instances: Annotated[int | None, Option(min=1, help="Instances of a group. Default: 3; 10 in [3].")] = None,
    auto_seconds: Annotated[
        float | None, Option(help="Time limit of the algorithm auto in seconds. Default: 10.")
    ] = None,
    seed: Seed = 0,
    out: StudyFolder = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    publish: Publish = False,
    plot_format: PlotsFormat = PlotFormat.PNG,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Mommessin et al., 2022: nodes for applications with replicas and limits between them.

    Finished runs are kept. After Ctrl-C the same command resumes the study. Times are of one thread; with
    several --jobs the threads share the machine.
    """
    from cluster.results.writing import check_outputs
    from cluster.studies.provisioning import design
    from cluster.studies.provisioning.design import PublishedMeans
    from cluster.studies.provisioning.study import ProvisioningStudy, base_of
    from cluster.studies.publication import path_of
    from cluster.studies.runner import OutputDirectory
    from plb.validation import check_member
    from workloads.provisioning import GraphKind

    check_outputs([path for path in (base, curves, published) if path is not None], [], json)
    file = path_of("provisioning", None) if publish else None
    graphs = [check_member("study", "graph", name, GraphKind) for name in graph or ()]
    figures = [check_member("study", "figure", number, design.PublishedFigure) for number in figure or ()]
    default_seconds = design.QUICK_AUTO_SECONDS if quick else design.AUTO_SECONDS
    study = ProvisioningStudy(
        base=base,
        curves=curves,
        figures=tuple(figures) or None,
        graphs=tuple(graphs) or (design.QUICK_GRAPHS if quick else tuple(GraphKind)),
        densities=tuple(density or (design.QUICK_DENSITIES if quick else design.DENSITIES)),
        sizes=tuple(applications or design.SIZES[:1]),
        instances=instances or (design.QUICK_INSTANCES if quick else design.INSTANCES),
        auto_seconds=default_seconds if auto_seconds is None else auto_seconds,
        seed=seed,
        published=PublishedMeans(published),
    )
    for source in (base, curves):
        if source is not None:
            base_of(str(source.resolve()))
    output = OutputDirectory(out or Path("results") / "study-provisioning", jobs, scheduler, restart, quiet)
    run_and_print(study, output, json, plot_format, published=file)


study_app = typer.Typer(
    help="Repeat the experiments of the papers and compare the figures. Numbers in brackets: docs/bibliography.md.",
    no_args_is_help=True,
)


def _command_of(study: str) -> Callable[..., None]:
    """Return the command of a study on simulated clusters: `clusters_command` with only the study's options."""

    @functools.wraps(clusters_command)
    def command(**options: object) -> None:
        clusters_command(study, **options)  # type: ignore[arg-type]

    signature = inspect.signature(clusters_command, eval_str=True)
    left_out = {"study", *SOME_OPTIONS} - {*COMMANDS[study].options}
    options = [option for name, option in signature.parameters.items() if name not in left_out]
    command.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


for _study, _command in COMMANDS.items():
    _help = f"{_command.help}\n\n{inspect.cleandoc(clusters_command.__doc__ or '')}"
    study_app.command(_study, help=_help, short_help=_command.help)(_command_of(_study))
study_app.command("all", short_help="All studies, the cheapest first.")(all_command)
study_app.command("gaussian", short_help="[2] table 1 and figures 6 to 13: Gaussian percentiles on your traces.")(
    gaussian_command
)
study_app.command("peaks", short_help="[5] figures 1 and 6 to 12: accuracy and savings of peak predictors.")(
    peaks_command
)
study_app.command("provisioning", short_help="[3] figures 3 to 7: number of nodes by algorithm.")(provisioning_command)
