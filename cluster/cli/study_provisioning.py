"""``plb study provisioning``: the experiments of paper 3 on instances generated from the data of a user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from cluster.cli.options import Jobs, Json, Quiet, Restart, Scheduler, Seed, StudyFolder
from cluster.cli.study_report import run_and_print
from cluster.console.output import clear_errors


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
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of Mommessin et al., 2022: nodes for applications with replicas and limits between them.

    Finished runs are kept. After Ctrl-C the same command resumes the study. Times are those of one thread; with
    several --jobs the threads share the machine.
    """
    from cluster.results.writing import check_outputs
    from cluster.studies.provisioning import design
    from cluster.studies.provisioning.planning import base_of
    from cluster.studies.provisioning.published import PublishedMeans
    from cluster.studies.provisioning.study import ProvisioningStudy
    from cluster.studies.runner import OutputDirectory
    from plb.validation import check_member
    from workloads.provisioning import GraphKind

    check_outputs([one for one in (base, curves, published) if one is not None], [], json)
    graphs = [check_member("study", "graph", name, GraphKind) for name in graph or ()]
    figures = [check_member("study", "figure", number, design.PublishedFigure) for number in figure or ()]
    usual_seconds = design.QUICK_AUTO_SECONDS if quick else design.AUTO_SECONDS
    study = ProvisioningStudy(
        base=base,
        curves=curves,
        figures=tuple(figures) or None,
        graphs=tuple(graphs) or (design.QUICK_GRAPHS if quick else tuple(GraphKind)),
        densities=tuple(density or (design.QUICK_DENSITIES if quick else design.DENSITIES)),
        sizes=tuple(applications or design.SIZES[:1]),
        instances=instances or (design.QUICK_INSTANCES if quick else design.INSTANCES),
        auto_seconds=usual_seconds if auto_seconds is None else auto_seconds,
        seed=seed,
        published=PublishedMeans(published),
    )
    for source in (base, curves):
        if source is not None:
            base_of(str(source.resolve()))
    output = OutputDirectory(out or Path("results") / "study-provisioning", jobs, scheduler, restart, quiet)
    run_and_print(study, output, json)
