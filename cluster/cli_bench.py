"""``plb bench``: how fast the engine is on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.console import clear_errors, output

if TYPE_CHECKING:
    from rich.table import Table

    from cluster.bench import EngineFigures

bench_app = typer.Typer(help="Measure the speed of the engine.", no_args_is_help=True)


@bench_app.callback()
def _group() -> None:
    pass


@bench_app.command("engine")
@clear_errors
def engine_command(
    nodes: Annotated[
        list[int] | None,
        typer.Option(help="Number of nodes, may be repeated; 40, 400, 4000 and 10000 by default.", min=4),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Forty nodes only, and no search of ten seconds.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Print scored configurations a second by size, beside a loop that does only the arithmetic.

    All sizes take some minutes and 2 GB.
    """
    from cluster.bench import QUALITY_SECONDS, SIZES, bench_engine
    from cluster.results import check_file, write_json

    check_file(json)
    sizes = tuple(nodes) if nodes else SIZES[:1] if quick else SIZES
    seconds = QUALITY_SECONDS[:-1] if quick else QUALITY_SECONDS
    with output().status("") as status:
        figures = bench_engine(sizes, seconds=seconds, report=status.update)
    output().print(_table(figures))
    if json is not None:
        write_json(json, figures.as_json())


def _table(figures: EngineFigures) -> Table:
    """Return the figures as a table, a column for each size."""
    from rich.table import Column, Table

    from cluster.bench import PAPER_PER_SECOND

    sizes = figures.sizes
    headings = [Column(f"{size.nodes:,} nodes", justify="right") for size in sizes]
    caption = f"first plan of a new process, kernels cached: {figures.first_plan_seconds:.2f} s"
    table = Table(Column("scored configurations a second"), *headings, caption=caption)
    rows = {
        "(a) all repetitions of both nodes": [f"{size.full:,.0f}" for size in sizes],
        "    arithmetic-only loop": [f"{size.arithmetic:,.0f}" for size in sizes],
        "    ratio": [f"{size.ratio:.2f}" for size in sizes],
        "(b) early rejection, 50 % accepted": [f"{size.early_half:,.0f}" for size in sizes],
        "    reached the repetitions": [f"{size.reached_monte_carlo_half:.0%}" for size in sizes],
        "(b) early rejection, 5 % accepted": [f"{size.early_five:,.0f}" for size in sizes],
        "    reached the repetitions ": [f"{size.reached_monte_carlo_five:.0%}" for size in sizes],
        "    on two threads": [f"{size.two_threads:,.0f}" for size in sizes],
        "    two threads / one": [f"{size.two_threads / size.early_five:.2f}" for size in sizes],
        "    times Service Fabric as modified by [1] (8.5)": [
            f"{size.early_five / PAPER_PER_SECOND:,.0f}" for size in sizes
        ],
        "replicas": [f"{size.replicas:,}" for size in sizes],
        "bytes a replica": [f"{size.bytes_per_replica:,.0f}" for size in sizes],
    }
    for limit in sizes[0].quality:
        rows[f"energy won after {limit:g} s of balancing"] = [f"{size.quality[limit]:.0%}" for size in sizes]
    for what, how_much in rows.items():
        table.add_row(what, *how_much)
    return table
