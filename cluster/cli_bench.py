"""``plb bench``: how fast the engine is on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cluster.console import clear_errors, output

bench_app = typer.Typer(help="Measure the speed of the engine.", no_args_is_help=True)


@bench_app.callback()
def _group() -> None:
    pass


@bench_app.command("engine")
@clear_errors
def engine_command(
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Print scored configurations a second, one thread, beside a loop that does only the arithmetic."""
    from rich.table import Column, Table

    from cluster.bench import bench_engine
    from cluster.results import check_file, write_json

    check_file(json)
    figures = bench_engine()
    title = f"{figures.nodes} nodes, {figures.replicas} replicas, 3 metrics, 100 repetitions, one thread"
    table = Table("scored configurations", Column("", justify="right"), title=title)
    for what, how_much in figures.rows():
        table.add_row(what, how_much)
    output().print(table)
    if json is not None:
        write_json(json, figures.as_json())
