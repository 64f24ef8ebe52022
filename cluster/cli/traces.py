"""``plb traces``: synthetic regions compared with published statistics, and conversion of public traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cluster.cli.options import Json
from cluster.console.output import FAILED, clear_errors, output

if TYPE_CHECKING:
    from workloads.readers import Reader as PublicReader

traces_app = typer.Typer(
    help="Check synthetic regions, write their tenants, convert and describe traces.", no_args_is_help=True
)


PICTURE = "trace.png"
FORMATS = (
    "One of alibaba2018, azure2017, azure2019, azure-packing2020, bitbrains, google2011, google2019, planetlab, "
    "tianchi2018."
)
"""The names of `workloads.readers.READERS`, without importing it for a help text."""


@traces_app.command("check")
@clear_errors
def check_command(
    region: Annotated[list[str] | None, Argument(help="Regions. Default: all.")] = None,
    tenants: Annotated[int, Option(min=1, help="Random tenants of each region; 10,000 in [1] section 3.1.")] = 10_000,
    seed: Annotated[int, Option(min=0, help="Seed of the tenants.")] = 0,
    json: Annotated[Path | None, Option(help="Write the statistics to this file.")] = None,
) -> None:
    """Print the statistics of synthetic regions and the published ones; exit with code 1 if one is missed."""
    import attrs

    from cluster.results.writing import check_file, stamped, write_json
    from cluster.traces.tables import statistics_table
    from plb.errors import UnknownNameError
    from workloads.region_statistics import check_region
    from workloads.regions import REGIONS

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
        rows = {name: [attrs.asdict(row) for row in rows] for name, rows in found.items()}
        configuration = {"regions": {name: REGIONS[name].digest() for name in names}, "tenants": tenants}
        write_json(json, stamped({"regions": rows}, configuration, seed))
    if any(row.within is False for rows in found.values() for row in rows):
        raise typer.Exit(FAILED)


@traces_app.command("convert")
@clear_errors
def convert_command(
    source: Annotated[Path, Argument(help="File or directory of the public traces.")],
    out: Annotated[Path, Argument(help="Directory for the converted traces.")],
    format_name: Annotated[str, Option("--format", help=FORMATS)],
    window_days: Annotated[float | None, Option(help="Longest life of a tenant, days. Default: the format's.")] = None,
    aggregate: Annotated[str, Option(help="Value of a step: mean or max.")] = "mean",
    max_gap_minutes: Annotated[float, Option(help="Longest gap in minutes that is filled with the last value.")] = 60.0,
    min_hours: Annotated[float | None, Option(help="Shortest life of a tenant, hours. Default: the format's.")] = None,
    rows_in_memory: Annotated[
        int, Option(min=1000, help="Rows in memory; more are sorted in files in OUT.")
    ] = 4_000_000,
    force: Annotated[bool, Option("--force", help="Overwrite traces in the directory.")] = False,
    json: Json = None,
) -> None:
    """Convert public traces to the format of this project, and print how many rows were used."""
    import attrs

    from cluster.results.writing import check_free, check_outputs, stamped, versions, write_json
    from workloads.readers import Options, convert

    reader = _reader(format_name)
    check_free(out, force=force)
    check_outputs([source], [], json)
    options = Options(
        window_days=window_days,
        aggregate=aggregate,  # type: ignore[arg-type]
        max_gap_minutes=max_gap_minutes,
        min_hours=min_hours,
        rows_in_memory=rows_in_memory,
    )
    report = convert(reader, source, out, options, {"versions": versions()})
    typer.echo(f"{report}\nWritten to {out}")
    if json is not None:
        configuration = {"format": format_name, "options": attrs.asdict(options)}
        write_json(json, stamped(attrs.asdict(report), configuration, None))


@traces_app.command("describe")
@clear_errors
def describe_command(
    path: Annotated[Path, Argument(help="Traces in the format of this project, or public traces.")],
    format_name: Annotated[
        str | None, Option("--format", help=f"Public format, which is converted first. {FORMATS}")
    ] = None,
    out: Annotated[Path | None, Option(help="Write the plot, trace.png, into this directory.")] = None,
    force: Annotated[bool, Option("--force", help="Overwrite the plot.")] = False,
    json: Json = None,
) -> None:
    """Print, and with --out plot, the properties of traces: span, gaps, lifetimes, usage, growth and daily shape."""
    from tempfile import TemporaryDirectory

    from cluster.plots.traces import save_description
    from cluster.results.writing import check_file, check_outputs, stamped, write_json
    from cluster.traces.tables import description_tables
    from workloads.readers import convert
    from workloads.trace_description import describe

    reader = None if format_name is None else _reader(format_name)
    check_outputs([path], [], json)
    check_file(None if out is None else out / PICTURE, force=force)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    title = path.resolve().name
    with TemporaryDirectory(prefix=".converted-", dir=out) as folder:
        if reader is not None:
            typer.echo(convert(reader, path, folder))
            title = reader.name
        trace = describe(path if reader is None else folder)
    for table in description_tables(trace, title):
        output().print(table)
    if out is not None:
        typer.echo(f"Plot: {save_description(out / PICTURE, trace, title)}")
    if json is not None:
        write_json(json, stamped(trace.figures(), None, None))


def _reader(name: str) -> PublicReader:
    from plb.errors import UnknownNameError
    from workloads.readers import READERS

    if name not in READERS:
        raise UnknownNameError("format", name, READERS, "--format")
    return READERS[name]


@traces_app.command("generate")
@clear_errors
def generate_command(
    region: Annotated[str, Argument(help="Synthetic region.")],
    out: Annotated[Path, Argument(help="Directory for the traces.")],
    tenants: Annotated[int, Option(min=1, help="Number of tenants.")] = 1000,
    seed: Annotated[int, Option(min=0, help="Seed of the tenants.")] = 0,
    over_days: Annotated[
        float | None, Option(help="Days within which the tenants begin, at random times. Default: they have no begin.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite traces in the directory.")] = False,
    json: Json = None,
) -> None:
    """Write tenants of a synthetic region in the format of this project."""
    from cluster.results.writing import check_file, check_free, stamped, versions, write_json
    from plb.errors import UnknownNameError
    from workloads.regions import REGIONS, generate, with_random_starts
    from workloads.trace_files import write_traces

    if region not in REGIONS:
        raise UnknownNameError("region", region, REGIONS)
    check_free(out, force=force)
    check_file(json)
    traces = generate(REGIONS[region], tenants, seed)
    provenance = {"region": region, "digest": REGIONS[region].digest(), "tenants": tenants, "seed": seed}
    if over_days is not None:
        traces = with_random_starts(traces, over_days, seed)
        provenance["over_days"] = over_days
    write_traces(traces, out, {**provenance, "versions": versions()})
    typer.echo(f"{traces.tenants:,} tenants, {traces.samples:,} rows written to {out}")
    if json is not None:
        write_json(json, stamped({"tenants": traces.tenants, "rows": traces.samples}, provenance, seed))
