"""``plb bench``: the speed of the engine on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cluster.cli.options import Json, Seed
from cluster.console import clear_errors, messages, output

bench_app = typer.Typer(help="Measure the speed of the engine.", no_args_is_help=True)


@bench_app.command("engine")
@clear_errors
def engine_command(
    nodes: Annotated[
        list[int] | None, Option(help="Number of nodes. Can be repeated. Default: 40, 400, 4000 and 10000.", min=12)
    ] = None,
    quick: Annotated[
        bool, Option(help="40 nodes only, without the search of ten seconds and without compilation.")
    ] = False,
    json: Json = None,
) -> None:
    """Print evaluated configurations per second by size, and the speed of the arithmetic alone.

    All sizes take some minutes and 2 GB of memory.
    """
    from cluster.bench.engine import QUALITY_SECONDS, SIZES, bench_engine, table_of
    from cluster.results.writing import check_file, write_figures

    check_file(json)
    sizes = tuple(nodes) if nodes else SIZES[:1] if quick else SIZES
    seconds = QUALITY_SECONDS[:-1] if quick else QUALITY_SECONDS
    with output().status("") as status:
        figures = bench_engine(sizes, seconds=seconds, cold=not quick, report=status.update)
    output().print(table_of(figures))
    configuration = {"sizes": list(sizes), "seconds": list(seconds)}
    write_figures(json, figures.as_json(), configuration, 0)


@bench_app.command("start")
@clear_errors
def start_command(json: Json = None) -> None:
    """Print the time of new processes: import of plb, first plan with and without compiled kernels, and warm-up.

    It takes one or two minutes, because everything is compiled twice, in separate directories.
    """
    from cluster.bench.start import bench_start, start_table
    from cluster.results.writing import check_file, write_figures

    check_file(json)
    with output().status("") as status:
        figures = bench_start(report=status.update)
    output().print(start_table(figures))
    write_figures(json, figures.as_json(), None, None)


@bench_app.command("search")
@clear_errors
def search_command(
    nodes: Annotated[
        list[int] | None,
        Option(help="Only instances with this number of nodes: 4, 10, 20, 50 or 100. Can be repeated."),
    ] = None,
    only: Annotated[
        list[str] | None, Option(help="Only the instance of this name, such as tight-20-400. Can be repeated.")
    ] = None,
    seconds: Annotated[
        float | None, Option(help="Time of each search. Default: 30, or 3 with --quick.", min=0.001)
    ] = None,
    seed: Seed = 0,
    quick: Annotated[bool, Option(help="Three instances and three seconds, unless others are given.")] = False,
    json: Json = None,
) -> None:
    """Print what a search leaves of the initial excess of instances whose optimum is known.

    The initial excess is the energy of the start minus the energy of the optimum. Beside the engine, a plain annealer
    searches each instance for the same time. Both use one thread. All instances take some twenty minutes.
    """
    from cluster.bench.search import QUICK, QUICK_SECONDS, SECONDS, bench_search, shapes_of, table_of
    from cluster.results.writing import check_file, write_figures

    check_file(json)
    shapes = shapes_of(QUICK if quick and not (only or nodes) else only or (), nodes or ())
    time = seconds or (QUICK_SECONDS if quick else SECONDS)
    with messages().status("") as status:
        figures = bench_search(shapes, seconds=time, seed=seed, report=status.update)
    output().print(table_of(figures, time))
    configuration = {"instances": [shape.name for shape in shapes], "seconds": time}
    write_figures(json, {"instances": [figure.as_json() for figure in figures]}, configuration, seed)


@bench_app.command("reassignment")
@clear_errors
def reassignment_command(
    directory: Annotated[Path, Argument(help="Directory with files model_NAME.txt and assignment_NAME.txt, or .xz.")],
    only: Annotated[
        list[str] | None, Option(help="Only the instance of this name, such as a1_4. Can be repeated.")
    ] = None,
    seconds: Annotated[float, Option(help="Time of each search.", min=0.001)] = 300.0,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Print cost, best known cost and gap of instances of the ROADEF/EURO challenge 2012, machine reassignment.

    Each search uses one thread. Costs and broken constraints are computed without the engine.
    """
    from cluster.bench.reassignment import bench_reassignment, models_of, table_of
    from cluster.results.writing import check_file, write_figures

    check_file(json)
    models = models_of(directory, only or ())
    with messages().status("") as status:
        figures = bench_reassignment(models, seconds=seconds, seed=seed, report=status.update)
    output().print(table_of(figures))
    configuration = {"instances": [figure.name for figure in figures], "seconds": seconds}
    write_figures(json, {"instances": [figure.as_json() for figure in figures]}, configuration, seed)
