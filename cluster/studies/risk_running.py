"""The study of risk from what is wanted to its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import polars as pl
from rich.table import Table as RichTable

from cluster.plots.base import COLOURS, save_figure
from cluster.runs.sweep import Task, TaskOutcome
from cluster.scenario.scenario import AS_IN_PAPER
from cluster.studies import calibration, risk
from cluster.studies.arms import Arm
from cluster.studies.calibration import EDGES, Calibration, Floats, calibration_of, run_calibration
from cluster.studies.densities import LADDERS
from cluster.studies.design import StudySetting
from cluster.studies.report import counts_as_json, table_of_claims
from cluster.studies.request import StudyReport, StudyRequest, of_policies
from cluster.studies.runner import RUNS, TIMINGS, Row, run_tasks
from plb.validation import check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def run_risk(request: StudyRequest) -> StudyReport:
    """Let every estimator drive placement and annealing on the same tenants; hold what it says against what comes."""
    if request.base.is_of_regions:
        if request.days is not None:
            check_number("study", "days", request.days, low=risk.FILL_HOURS / 24.0)
        run = {"fill_hours": risk.FILL_HOURS}
        request = attrs.evolve(request, base=attrs.evolve(request.base, tables={**request.base.tables, "run": run}))
    design = request.design(LADDERS[:1], risk.ARMS, repeats=risk.REPEATS, days=risk.DAYS)
    report = of_policies("risk", design, request.output, risk, "risk.png")
    calibrations = _calibrations(request, design.settings)
    figures = {**report.figures, "calibration": [_as_json(one) for one in calibrations.found]}
    tables = [*report.tables]
    if report.tables:
        folder = request.output.folder
        rows, timings = (pl.read_parquet(folder / name, glob=False).to_dicts() for name in (RUNS, TIMINGS))
        decisions = risk.decision_claims(rows, timings)
        figures["counts"] = {**figures.get("counts", {}), **counts_as_json(decisions)}
        tables.append(
            table_of_claims(decisions, "risk: time per decision", "means over runs; other work slows them down")
        )
    if calibrations.found:
        tables.append(table_of_calibrations(calibrations.found))
        save_calibrations(request.output.folder / "calibration.png", calibrations.found)
    return StudyReport(tables, figures, (*report.failed, *calibrations.failed))


@attrs.frozen(eq=False)
class _Calibrations:
    """The calibrations that were found, and the tasks that failed."""

    found: Sequence[Calibration]
    failed: Sequence[tuple[Task, TaskOutcome]]


def _calibrations(request: StudyRequest, settings: Sequence[StudySetting]) -> _Calibrations:
    """Hold every estimator against what comes, at the middle density of each workload."""
    chosen: dict[tuple[str, float], list[StudySetting]] = {}
    for one in settings:
        chosen.setdefault((one.workload, one.vcores), []).append(one)
    ordered = (sorted(of_workload, key=lambda one: one.density) for of_workload in chosen.values())
    middle = [of_workload[len(of_workload) // 2] for of_workload in ordered]
    arms = [
        Arm(label, calibration.POLICY, engine={"estimator": spec, **AS_IN_PAPER})
        for label, spec in risk.ESTIMATORS.items()
    ]
    design = request.design_at(middle, arms, repeats=1, days=calibration.DAYS, engine=LADDERS[0].engine)
    output = attrs.evolve(request.output, folder=request.output.folder / "calibration")
    finished = run_tasks("calibration", run_calibration, design.tasks(), output, design.described())
    by_label: dict[str, list[Row]] = {}
    for row in finished.rows:
        by_label.setdefault(row["arm"], []).append(row)
    found = [calibration_of(label, rows) for label, rows in by_label.items() if any(sum(row["looks"]) for row in rows)]
    return _Calibrations(found, finished.failed)


def table_of_calibrations(found: Sequence[Calibration]) -> RichTable:
    """Return what came, by what each estimator said."""
    first = found[0]
    caption = (
        f"share of the nodes in violation within {calibration.HORIZON_HOURS} hours, of so many looks, by probability; "
        f"in all {first.base_rate:.3f}, at the next metering {first.base_rate_next:.4f}"
    )
    shown = RichTable(title="risk: what came, by what was said", caption=caption)
    shown.add_column("", no_wrap=True)
    for low, high in zip((0.0, *EDGES), (*EDGES, 1.0), strict=True):
        shown.add_column(f"{low:g} to {high:g}", justify="right")
    for heading in ("Brier score", "... next"):
        shown.add_column(heading, justify="right")
    for one in found:
        cells = [
            f"{came:.3f} ({int(looks)})" if looks else "-" for came, looks in zip(one.came, one.looks, strict=True)
        ]
        shown.add_row(one.label, *cells, f"{one.brier:.4f}", f"{one.brier_next:.4f}")
    return shown


def plot_calibrations(ax: Axes, found: Sequence[Calibration]) -> None:
    """Draw the share of violations over the mean probability, a line for each estimator; larger points: more looks."""
    for number, one in enumerate(found):
        some = one.looks > 0
        colour = COLOURS[number % len(COLOURS)]
        ax.plot(one.predicted[some], one.came[some], color=colour, linewidth=1.0, alpha=0.7)
        sizes = 12.0 + 60.0 * np.sqrt(one.looks[some] / one.looks.max())
        ax.scatter(one.predicted[some], one.came[some], s=sizes, color=colour, label=one.label, alpha=0.8)
    ax.axline((0.0, 0.0), slope=1.0, color="#4a4a4a", linewidth=0.8)
    ax.set(xlabel="predicted probability of a violation", ylabel="observed share of violations")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def save_calibrations(path: Path, found: Sequence[Calibration]) -> None:
    """Draw all estimators into one plot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 6.0), layout="constrained")
    ax = figure.subplots()
    plot_calibrations(ax, found)
    figure.suptitle(f"what came within {calibration.HORIZON_HOURS} hours, by what was said")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    save_figure(figure, path)


def _as_json(one: Calibration) -> Mapping[str, Any]:
    """Return a calibration as plain values; nothing where a bin has no look."""

    def listed(values: Floats) -> list[float | None]:
        return [None if np.isnan(value) else float(value) for value in values]

    values = attrs.asdict(one, recurse=False)
    return {**values, "predicted": listed(one.predicted), "came": listed(one.came), "looks": one.looks.tolist()}
