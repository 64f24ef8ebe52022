"""``plb traces``: synthetic regions, public traces; ``plb predict``: peaks of machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cluster.cli.options import Json, Quiet
from cluster.console import FAILED, clear_errors, output, progress

if TYPE_CHECKING:
    from rich.table import Table

    from plb.risk.peaks import Predictions, PredictorOrOracle, TaskSamples
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
    """Print the statistics of synthetic regions and the published values; exit with code 1 if one is missed."""
    import attrs

    from cluster.results.writing import check_file, write_figures
    from cluster.traces import statistics_table
    from plb.validation import check_known
    from workloads.region_statistics import check_region
    from workloads.regions import REGIONS

    names = region or list(REGIONS)
    for name in names:
        check_known("region", name, REGIONS)
    check_file(json)
    statistics = {}
    for name in names:
        statistics[name] = check_region(REGIONS[name], tenants, seed)
        output().print(statistics_table(name, statistics[name]))
    rows = {name: [attrs.asdict(row) for row in rows] for name, rows in statistics.items()}
    configuration = {"regions": {name: REGIONS[name].digest() for name in names}, "tenants": tenants}
    write_figures(json, {"regions": rows}, configuration, seed)
    if any(row.within is False for rows in statistics.values() for row in rows):
        raise typer.Exit(FAILED)


TABLE = "A table of your own"
"""Heading of the options for tables in the help."""


@traces_app.command("convert")
@clear_errors
def convert_command(
    source: Annotated[Path, Argument(help="A table of your own, .csv or .parquet; with --format, public traces.")],
    out: Annotated[Path, Argument(help="Directory for the converted traces.")],
    format_name: Annotated[str | None, Option("--format", help=f"Public traces: {FORMATS}")] = None,
    metric: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=COLUMN[:UNIT]",
            help="Metric, its column and unit. Can be repeated. In COLUMN, * stands for tenants with their own.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    time: Annotated[str | None, Option(help="Column of the time.", rich_help_panel=TABLE)] = None,
    tenant_id: Annotated[
        list[str] | None,
        Option("--id", help="Column of the tenant. Can be repeated. Default: a file is one.", rich_help_panel=TABLE),
    ] = None,
    tenant_class: Annotated[
        str | None, Option("--class", help="Column of the tenant's class. Default: one class.", rich_help_panel=TABLE)
    ] = None,
    start: Annotated[
        str | None, Option(help="Column of the begin of a tenant; without --time, of a stay.", rich_help_panel=TABLE)
    ] = None,
    end: Annotated[str | None, Option(help="Column of its end; empty: none is known.", rich_help_panel=TABLE)] = None,
    names: Annotated[
        str | None, Option(help="Column of the metric's name, if each has its own row.", rich_help_panel=TABLE)
    ] = None,
    values: Annotated[str | None, Option(help="Column of its value.", rich_help_panel=TABLE)] = None,
    limit: Annotated[
        list[str] | None,
        Option(metavar="NAME=COLUMN", help="Column of a metric's MaxUsage. Can be repeated.", rich_help_panel=TABLE),
    ] = None,
    trend: Annotated[
        list[str] | None,
        Option(help="Metric that grows to a maximum and stays, such as disk. Can be repeated.", rich_help_panel=TABLE),
    ] = None,
    step: Annotated[
        str | None, Option(help="Sampling interval, such as 5min. Default: the table's.", rich_help_panel=TABLE)
    ] = None,
    timezone: Annotated[
        str, Option(help="Zone of printed times, and of times without one: Europe/Berlin.", rich_help_panel=TABLE)
    ] = "UTC",
    time_format: Annotated[
        str | None, Option(help="Format of times, such as %d/%m/%Y %H:%M.", rich_help_panel=TABLE)
    ] = None,
    time_unit: Annotated[
        str | None, Option(help="Unit of times that are numbers: s, ms, us, ns or 5min.", rich_help_panel=TABLE)
    ] = None,
    decimal: Annotated[str | None, Option(help="Decimal mark: . or ,", rich_help_panel=TABLE)] = None,
    preview: Annotated[
        bool, Option("--preview", help="Print what is understood, and convert nothing.", rich_help_panel=TABLE)
    ] = False,
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
    """Convert a table of demand, or public traces, to the project's format; print what was understood and used."""
    # long because each option is a parameter
    import attrs

    from cluster.results.writing import check_free, check_outputs, versions, write_figures
    from plb.errors import ConflictError
    from workloads.readers import Options, TableColumns, convert, table_reader

    options = Options(
        window_days=window_days,
        aggregate=aggregate,  # type: ignore[arg-type]
        max_gap_minutes=max_gap_minutes,
        min_hours=min_hours,
        rows_in_memory=rows_in_memory,
    )
    columns: dict[str, Any] = {
        "metrics": metric or (),
        "time": time,
        "id": tenant_id or (),
        "tenant_class": tenant_class,
        "start": start,
        "end": end,
        "names": names,
        "values": values,
        "limits": limit or (),
        "trends": trend or (),
        "step": _seconds(step, "step"),
        "time_format": time_format,
        "time_unit": _seconds(time_unit, "time_unit"),
        "decimal": decimal,
    }
    named_columns = [name for name, value in columns.items() if value]
    if format_name is not None and (named_columns or preview):
        raise ConflictError(f"--format says what columns mean; leave out {', '.join(named_columns) or '--preview'}")
    reader: PublicReader
    if format_name is not None:
        reader = _reader(format_name)
    if not preview:
        check_free(out, force=force)
        check_outputs([source], [], json)
    if format_name is None:
        reader, understood = table_reader(source, TableColumns(**columns, timezone=timezone), options)
        typer.echo(understood)
    if preview:
        return
    report = convert(reader, source, out, options, {"columns": columns, "versions": versions()})
    typer.echo(f"{report}\nWritten to {out}")
    configuration = {"format": reader.name, "columns": columns, "options": attrs.asdict(options)}
    write_figures(json, attrs.asdict(report), configuration, None)


SMALL_UNITS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of times below a second, in seconds."""


def _seconds(text: str | None, field: str) -> float | None:
    """Return a duration or a unit of time in seconds."""
    from cluster.scenario.times import seconds_of

    if text is None or text in SMALL_UNITS:
        return SMALL_UNITS.get(str(text))
    return seconds_of("1" + text if text in "smhd" else text, "table", field)


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
    from cluster.results.writing import check_file, check_outputs, write_figures
    from cluster.traces import description_tables
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
    write_figures(json, trace.figures(), None, None)


def _reader(name: str) -> PublicReader:
    """Return the reader of a public format."""
    from plb.validation import check_known
    from workloads.readers import READERS

    check_known("format", name, READERS, "--format")
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
    from cluster.results.writing import check_file, check_free, versions, write_figures
    from plb.validation import check_known
    from workloads.regions import REGIONS, generate, with_random_starts
    from workloads.trace_files import write_traces

    check_known("region", region, REGIONS)
    check_free(out, force=force)
    check_file(json)
    traces = generate(REGIONS[region], tenants, seed)
    provenance = {"region": region, "digest": REGIONS[region].digest(), "tenants": tenants, "seed": seed}
    if over_days is not None:
        traces = with_random_starts(traces, over_days, seed)
        provenance["over_days"] = over_days
    write_traces(traces, out, {**provenance, "versions": versions()})
    typer.echo(f"{traces.tenants:,} tenants, {traces.samples:,} rows written to {out}")
    write_figures(json, {"tenants": traces.tenants, "rows": traces.samples}, provenance, seed)


DEFAULT = "max(n-sigma;rc-like)"
"""The best predictor of [5] section 5.4."""
DAY_SECONDS = 24 * 3600


@clear_errors
def predict_command(
    file: Annotated[Path, Argument(help="Samples, CSV or Parquet: machine, task, time_s, usage, limit; in any order.")],
    more: Annotated[list[str] | None, Argument(metavar="[SPEC]...", help="Further predictors.")] = None,
    predictor: Annotated[
        list[str] | None,
        Option(
            metavar="SPEC",
            help="Predictor. Can be repeated: borg-default, rc-like, n-sigma, per-machine-percentile, "
            "historical-simulation, max(SPEC;SPEC), or oracle, with parameters such as n-sigma:n=5,warmup=24. "
            f"Default: {DEFAULT}.",
        ),
    ] = None,
    out: Annotated[
        Path,
        Option(
            help="File of the predictions, CSV or Parquet: machine, time_s, predictor, predicted_peak, limit, usage."
        ),
    ] = Path("results/predictions.parquet"),
    step: Annotated[float, Option(help="Seconds of a step. The horizon of the oracle is a number of steps.")] = 300.0,
    threads: Annotated[
        int | None, Option(min=1, help="Threads. The results do not depend on it. Default: one for each core.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite predictions.")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Predict the peak usage of machines (Bashir et al., EuroSys 2021), and compare predictors with an oracle."""
    from cluster.results.writing import check_outputs, write_figures
    from cluster.scenario.digests import digest_of_files
    from plb.errors import ConflictError
    from plb.risk.peaks import parse, predict
    from plb.validation import check_number
    from workloads.task_samples import check_suffix, prediction_frame, read_task_samples, write_frame

    specs = [*(predictor or ()), *(more or ())] or [DEFAULT]
    predictors = [parse(spec) for spec in specs]
    if len(set(specs)) < len(specs):
        raise ConflictError("a predictor is given twice")
    check_number("predict", "step", step, low_open=True)
    check_suffix(out)
    check_outputs([file], [out], json, force=force)
    with _progress(quiet) as (say, report):
        say(f"reading {file}")
        table = read_task_samples(file, step_seconds=step)
        say("predicting", len(table.samples))
        predictions = predict(table.samples, predictors, threads=threads, report=report)
        say(f"writing {out}")
        frame = prediction_frame(table, predictions, specs)
        write_frame(frame, out)
    _note_on_step(predictors, table.samples, predictions)
    figures = _figures(specs, predictors, predictions)
    console = output(quiet=quiet)
    console.print(_table(figures))
    machines = "1 machine" if len(table.machines) == 1 else f"{len(table.machines):,} machines"
    console.print(f"{len(table.samples):,} samples of {machines}; {len(frame):,} rows: {out}")
    if json is not None:
        counts = {"samples": len(table.samples), "machines": len(table.machines), "rows": len(frame)}
        configuration = {"samples": digest_of_files(file), "predictors": specs, "step": step}
        write_figures(json, {**counts, "predictors": figures}, configuration, None)


def _figures(specs: Sequence[str], predictors: Sequence[PredictorOrOracle], predictions: Predictions) -> dict[str, Any]:
    """Return the metrics of each predictor against each oracle: means over machines of their means over steps.

    `specs`: the texts that the predictors were parsed from.
    """
    from plb.risk.peaks import PeakOracle, machine_metrics

    oracle_indices = [index for index, predictor in enumerate(predictors) if isinstance(predictor, PeakOracle)]
    figures: dict[str, Any] = {}
    for index, spec in enumerate(specs):
        peak = predictions.peak[index]
        own_metrics = machine_metrics(predictions.machine, predictions.limit, peak, peak)
        figures_by_oracle = {}
        for oracle in oracle_indices if index not in oracle_indices else ():
            metrics = machine_metrics(predictions.machine, predictions.limit, peak, predictions.peak[oracle])
            figures_by_oracle[specs[oracle]] = {
                "steps": int(metrics.steps.sum()),
                "savings": float(metrics.savings.mean()),
                "violation_rate": float(metrics.violation_rate.mean()),
                "violation_severity": float(metrics.violation_severity.mean()),
            }
        figures[spec] = {
            "rows": int(own_metrics.steps.sum()),
            "savings": float(own_metrics.savings.mean()),
            "oracles": figures_by_oracle,
        }
    return figures


def _table(figures: dict[str, Any]) -> Table:
    """Return a table of the savings of the predictors, and how often and by how much they are below an oracle.

    `figures`: the result of `_figures`.
    """
    from cluster.tables import new_table

    oracles = list(dict.fromkeys(oracle for figure in figures.values() for oracle in figure["oracles"]))
    suffixes = [f" of\n{oracle}" if len(oracles) > 1 else "" for oracle in oracles]
    metrics = (f"{metric}{suffix}" for suffix in suffixes for metric in ("violation rate", "severity"))
    table = new_table(("predictor", "rows", "savings", *metrics), title="peak predictions, means over machines")
    for name, figure in figures.items():
        cells = []
        for oracle in oracles:
            oracle_figures = figure["oracles"].get(oracle)
            cells += [
                f"{oracle_figures[key]:.2%}" if oracle_figures else ""
                for key in ("violation_rate", "violation_severity")
            ]
        table.add_row(name, f"{figure['rows']:,}", f"{figure['savings']:.2%}", *cells)
    return table


def _note_on_step(predictors: Sequence[PredictorOrOracle], samples: TaskSamples, predictions: Predictions) -> None:
    """Print notes on standard error if the steps of an oracle, or of a day, differ from the steps of the samples."""
    import numpy as np

    from plb.risk.peaks import PeakOracle
    from workloads.task_samples import MICROSECONDS

    intervals, counts = np.unique(np.diff(predictions.time)[np.diff(predictions.machine) == 0], return_counts=True)
    if not len(intervals):
        return
    usual_interval, step = int(intervals[counts.argmax()]), samples.step
    beginning = f"plb: note: samples are mostly {usual_interval / MICROSECONDS:g} s apart, and"
    if usual_interval != step and any(isinstance(predictor, PeakOracle) for predictor in predictors):
        typer.echo(f"{beginning} the oracle counts steps of {step / MICROSECONDS:g} s; see --step", err=True)
    for day in _days(predictors):
        if usual_interval * day != DAY_SECONDS * MICROSECONDS:
            duration = f"{usual_interval * day / MICROSECONDS / DAY_SECONDS:.3g} days"
            typer.echo(f"{beginning} day={day} of historical-simulation then lasts {duration}", err=True)


def _days(predictors: Sequence[PredictorOrOracle]) -> list[int]:
    """Return the numbers of steps that predictors count as a day, each once, ascending."""
    from plb.risk.peaks import HistoricalPeak, PeakOracle
    from plb.risk.peaks.predictors import members

    simple_predictors = [
        member for predictor in predictors if not isinstance(predictor, PeakOracle) for member in members(predictor)
    ]
    return sorted(
        {simple_predictor.day for simple_predictor in simple_predictors if isinstance(simple_predictor, HistoricalPeak)}
    )


@contextmanager
def _progress(quiet: bool) -> Iterator[tuple[Callable[..., None], Callable[[int], None]]]:
    """Show the progress on standard error.

    Yield a function of a stage's name and its number of samples, and one of the number of samples since its last call.
    """
    from rich.progress import TimeRemainingColumn

    with progress(TimeRemainingColumn(), quiet=quiet, transient=True) as bar:
        task = bar.add_task("", total=None)

        def say(stage: str, samples: int | None = None) -> None:
            bar.reset(task, description=stage, total=samples)

        yield say, lambda samples: bar.advance(task, samples)
