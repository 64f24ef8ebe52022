"""``plb traces``: look at synthetic regions beside what is published about them, and convert public traces."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.console import clear_errors, output

if TYPE_CHECKING:
    from rich.table import Table

    from workloads.statistics import StatisticRow

traces_app = typer.Typer(
    help="Check synthetic regions, write their tenants, convert public traces.", no_args_is_help=True
)


class Reader(StrEnum):
    """Public traces that can be converted."""

    BITBRAINS = "bitbrains"


@traces_app.command("check")
@clear_errors
def check_command(
    region: Annotated[list[str] | None, typer.Argument(help="Regions. Default: all.", show_default=False)] = None,
    tenants: Annotated[int, typer.Option(min=1, help="Random tenants a region; [1] section 3.1 used 10,000.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tenants.")] = 0,
    json: Annotated[Path | None, typer.Option(help="Write the statistics to this file.")] = None,
) -> None:
    """Print the statistics of synthetic regions beside the published ones; exit code 1 if one is missed."""
    import attrs

    from cluster.results import check_file, write_json
    from plb.errors import UnknownNameError
    from workloads.regions import REGIONS
    from workloads.statistics import check_region

    names = region or list(REGIONS)
    for name in names:
        if name not in REGIONS:
            raise UnknownNameError("region", name, REGIONS)
    check_file(json)
    found = {}
    for name in names:
        found[name] = check_region(REGIONS[name], tenants, seed)
        output().print(statistics_table(name, found[name]))
    if json is not None:
        write_json(json, {"regions": {name: [attrs.asdict(row) for row in rows] for name, rows in found.items()}})
    if any(row.within is False for rows in found.values() for row in rows):
        raise typer.Exit(1)


@traces_app.command("convert")
@clear_errors
def convert_command(
    reader: Annotated[Reader, typer.Argument(help="Which public traces they are.", show_default=False)],
    source: Annotated[Path, typer.Argument(help="Directory of the public traces.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Directory for the converted traces.", show_default=False)],
    window_days: Annotated[float, typer.Option(help="Longest life of a tenant, days.")] = 7.0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite traces that are in the directory.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Convert public traces into the project's own format, and say what became of their rows."""
    import attrs

    from cluster.results import check_file, check_free, write_json
    from workloads.bitbrains import read_bitbrains
    from workloads.format import write_traces

    check_free(out, force=force)
    check_file(json)
    traces, report = read_bitbrains(source, window_days=window_days)
    write_traces(traces, out, {"reader": reader.value, "window_days": window_days})
    typer.echo(f"{report}\nWritten to {out}")
    if json is not None:
        write_json(json, attrs.asdict(report))


@traces_app.command("generate")
@clear_errors
def generate_command(
    region: Annotated[str, typer.Argument(help="Synthetic region.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="Directory for the traces.", show_default=False)],
    tenants: Annotated[int, typer.Option(min=1, help="Number of tenants.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tenants.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite traces that are in the directory.")] = False,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Write tenants of a synthetic region in the project's own format."""
    from cluster.results import check_file, check_free, write_json
    from plb.errors import UnknownNameError
    from workloads.format import write_traces
    from workloads.regions import REGIONS, generate

    if region not in REGIONS:
        raise UnknownNameError("region", region, REGIONS)
    check_free(out, force=force)
    check_file(json)
    traces = generate(REGIONS[region], tenants, seed)
    write_traces(traces, out, {"region": region, "digest": REGIONS[region].digest(), "seed": seed})
    typer.echo(f"{traces.tenants:,} tenants, {traces.samples:,} rows written to {out}")
    if json is not None:
        write_json(json, {"tenants": traces.tenants, "rows": traces.samples})


def statistics_table(region: str, rows: list[StatisticRow]) -> Table:
    """Return a table of a region's statistics: generated beside published, and whether it agrees."""
    from rich.table import Table

    table = Table(title=f"{region}: generated beside published")
    for heading, justify in (("statistic", "left"), ("published", "left"), ("source", "left"), ("generated", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("agrees")
    for row in rows:
        agrees = {True: "yes", False: "[red]NO[/red]", None: ""}[row.within]
        table.add_row(row.statistic, row.published, row.source.replace("[", r"\["), f"{row.generated:.4g}", agrees)
    return table
