"""``plb predict``: the peak usage of every machine, from samples of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from cluster.cli.options import Json, Quiet
from cluster.console.output import clear_errors, output, progress

if TYPE_CHECKING:
    from rich.table import Table

    from plb.risk.peaks import Predictions, PredictorOrOracle, TaskSamples

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
    from cluster.results.writing import check_outputs, stamped, write_json
    from cluster.scenario.digests import digest_of_files
    from plb.errors import ConflictError
    from plb.risk.peaks import parse, predict
    from plb.validation import check_number
    from workloads.task_samples import check_suffix, prediction_frame, read_task_samples, write_frame

    specs = [*(predictor or ()), *(more or ())] or [DEFAULT]
    predictors = [parse(one) for one in specs]
    if len(set(specs)) < len(specs):
        raise ConflictError("a predictor is given twice")
    check_number("predict", "step", step, low_open=True)
    check_suffix(out)
    check_outputs([file], [out], json, force=force)
    with _progress(quiet) as (say, report):
        say(f"reading {file}")
        table = read_task_samples(file, step_seconds=step)
        say("predicting", len(table.samples))
        found = predict(table.samples, predictors, threads=threads, report=report)
        say(f"writing {out}")
        frame = prediction_frame(table, found, specs)
        write_frame(frame, out)
    _note_on_step(predictors, table.samples, found)
    figures = _figures(specs, predictors, found)
    console = output(quiet=quiet)
    console.print(_table(figures))
    machines = "1 machine" if len(table.machines) == 1 else f"{len(table.machines):,} machines"
    console.print(f"{len(table.samples):,} samples of {machines}; {len(frame):,} rows: {out}")
    if json is not None:
        counts = {"samples": len(table.samples), "machines": len(table.machines), "rows": len(frame)}
        configuration = {"samples": digest_of_files(file), "predictors": specs, "step": step}
        write_json(json, stamped({**counts, "predictors": figures}, configuration, None))


def _figures(specs: Sequence[str], predictors: Sequence[PredictorOrOracle], found: Predictions) -> dict[str, Any]:
    """Return the metrics of each predictor against each oracle: means over machines of their means over steps."""
    from plb.risk.peaks import PeakOracle, machine_metrics

    oracles = [place for place, predictor in enumerate(predictors) if isinstance(predictor, PeakOracle)]
    figures: dict[str, Any] = {}
    for place, name in enumerate(specs):
        peak = found.peak[place]
        of_predictor = machine_metrics(found.machine, found.limit, peak, peak)
        beside = {}
        for oracle in oracles if place not in oracles else ():
            metrics = machine_metrics(found.machine, found.limit, peak, found.peak[oracle])
            beside[specs[oracle]] = {
                "steps": int(metrics.steps.sum()),
                "savings": float(metrics.savings.mean()),
                "violation_rate": float(metrics.violation_rate.mean()),
                "violation_severity": float(metrics.violation_severity.mean()),
            }
        figures[name] = {
            "rows": int(of_predictor.steps.sum()),
            "savings": float(of_predictor.savings.mean()),
            "oracles": beside,
        }
    return figures


def _table(figures: dict[str, Any]) -> Table:
    """Return the savings of the predictors, and how often and by how much they are below an oracle."""
    from cluster.console.tables import new_table

    oracles = list(dict.fromkeys(oracle for figure in figures.values() for oracle in figure["oracles"]))
    beside = [f" of\n{oracle}" if len(oracles) > 1 else "" for oracle in oracles]
    metrics = (f"{metric}{one}" for one in beside for metric in ("violation rate", "severity"))
    table = new_table(("predictor", "rows", "savings", *metrics), title="peak predictions, means over machines")
    for name, figure in figures.items():
        cells = []
        for oracle in oracles:
            found = figure["oracles"].get(oracle)
            cells += [f"{found[key]:.2%}" if found else "" for key in ("violation_rate", "violation_severity")]
        table.add_row(name, f"{figure['rows']:,}", f"{figure['savings']:.2%}", *cells)
    return table


def _note_on_step(predictors: Sequence[PredictorOrOracle], samples: TaskSamples, found: Predictions) -> None:
    """Print notes on standard error if the steps of an oracle, or of a day, differ from those of the samples."""
    import numpy as np

    from plb.risk.peaks import PeakOracle
    from workloads.task_samples import MICROSECONDS

    intervals, counts = np.unique(np.diff(found.time)[np.diff(found.machine) == 0], return_counts=True)
    if not len(intervals):
        return
    usual, step = int(intervals[counts.argmax()]), samples.step
    apart = f"plb: note: samples are mostly {usual / MICROSECONDS:g} s apart, and"
    if usual != step and any(isinstance(predictor, PeakOracle) for predictor in predictors):
        typer.echo(f"{apart} the oracle counts steps of {step / MICROSECONDS:g} s; see --step", err=True)
    for day in _days(predictors):
        if usual * day != DAY_SECONDS * MICROSECONDS:
            long = f"{usual * day / MICROSECONDS / DAY_SECONDS:.3g} days"
            typer.echo(f"{apart} day={day} of historical-simulation then lasts {long}", err=True)


def _days(predictors: Sequence[PredictorOrOracle]) -> list[int]:
    """Return the different numbers of steps of a day that predictors count, ascending."""
    from plb.risk.peaks import HistoricalPeak, PeakOracle
    from plb.risk.peaks.predictor_settings import members

    singles = [one for given in predictors if not isinstance(given, PeakOracle) for one in members(given)]
    return sorted({one.day for one in singles if isinstance(one, HistoricalPeak)})


@contextmanager
def _progress(quiet: bool) -> Iterator[tuple[Callable[..., None], Callable[[int], None]]]:
    """Show the progress on standard error; yield a function for the stage, and one for its progress."""
    from rich.progress import TimeRemainingColumn

    with progress(TimeRemainingColumn(), quiet=quiet, transient=True) as bar:
        shown = bar.add_task("", total=None)

        def say(stage: str, samples: int | None = None) -> None:
            bar.reset(shown, description=stage, total=samples)

        yield say, lambda samples: bar.advance(shown, samples)
