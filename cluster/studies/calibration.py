"""Calibration of estimators: predicted probabilities of a violation, and observed violations.

A policy that uses no estimator runs the cluster, so that all estimators see the same nodes. At regular times each
predicts the probability of a violation of every node. The outcome follows from the traces of the replicas on the node
at that time: whether their demand reaches a threshold at one of the next meterings, without arrivals and moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from rich.table import Table

from cluster.console.tables import new_table
from cluster.plots.base import COLOURS, new_figure, use_open_axes
from cluster.runs.sweep import Task
from cluster.scenario.scenario import AS_IN_PAPER
from cluster.simulation.calendar import At, Kind
from cluster.simulation.simulation import Process, Simulation
from cluster.simulation.violations import first_violations
from cluster.studies.arms import Arm
from cluster.studies.design import StudySetting
from cluster.studies.pilots import ANNEALING_PILOT
from cluster.studies.request import StudyRequest
from cluster.studies.runner import Finished, Row
from cluster.studies.simulated import SimulatedStudy, prepared, require_complete
from cluster.studies.study import StudyResult
from plb.array_types import Float, Int

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POLICY = "worst_fit_max"
"""The policy that runs the cluster. It uses no probabilities."""
DAYS = 10.0
FIRST_HOURS, EVERY_HOURS, HORIZON_HOURS = 24, 6, 24
EDGES = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95)
"""Probabilities between the bins. The first bin begins at 0, the last ends at 1."""
OUTCOMES = ("next", "ahead")
"""A violation at the next metering, and within the horizon."""
PLOT = "calibration.png"


@attrs.frozen(eq=False)
class Look:
    """The predictions at one time, and what follows if no replica moves.

    Parameters
    ----------
    time
        Seconds since the start of the run.
    probability
        (H,) probability of a violation of each node.
    first
        (H,) at which of the next meterings the node is first in violation; 0: at none within the horizon.
    """

    time: int
    probability: Float
    first: Int


class CalibrationRun(Simulation):
    """A run with predictions at regular times.

    Attributes
    ----------
    looks
        The predictions at each of the times.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.looks: list[Look] = []

    def processes(self) -> tuple[Process, ...]:
        """Return the processes of the simulation and that of the predictions."""
        return (*super().processes(), self._predict())

    def _predict(self) -> Process:
        for when in range(FIRST_HOURS * 3600, self._end + 1, EVERY_HOURS * 3600):
            yield At(self.env, when, Kind.LOOK)
            probability = np.array([*self.engine.violation_probabilities(when).values()])
            steps = HORIZON_HOURS * 3600 // self._interval
            first = first_violations(self.ledger, self._sequence, when, self._interval, steps, self._threshold)
            self.looks.append(Look(when, probability, first))

    def samples(self) -> Float:
        """Return probabilities, and whether a violation follows at the next metering and within the horizon, (3, S)."""
        probability = np.concatenate([np.zeros(0), *(look.probability for look in self.looks)])
        first = np.concatenate([np.zeros(0, np.int64), *(look.first for look in self.looks)])
        return np.array([probability, first == 1, first > 0], np.float64)


def middle_of_each(settings: Sequence[StudySetting]) -> list[StudySetting]:
    """Return the setting with the middle density of each workload."""
    by_workload: dict[tuple[str, float], list[StudySetting]] = {}
    for one in settings:
        by_workload.setdefault((one.workload, one.vcores), []).append(one)
    ordered = (sorted(of_workload, key=lambda one: one.density) for of_workload in by_workload.values())
    return [of_workload[len(of_workload) // 2] for of_workload in ordered]


def binned(samples: Float) -> dict[str, Any]:
    """Return sums by bin of the probability: samples, probabilities and violations; and the sums of squared errors.

    Parameters
    ----------
    samples
        (3, S), as `CalibrationRun.samples` returns them.
    """
    probability, outcomes = samples[0], dict(zip(OUTCOMES, samples[1:], strict=True))
    bins = np.searchsorted(EDGES, probability, side="right")
    sums = {name: np.bincount(bins, of, len(EDGES) + 1).tolist() for name, of in outcomes.items()}
    errors = {f"squared_error_{name}": float(np.square(probability - of).sum()) for name, of in outcomes.items()}
    counts = np.bincount(bins, minlength=len(EDGES) + 1).tolist()
    return {"samples": counts, "predicted": np.bincount(bins, probability, len(EDGES) + 1).tolist(), **sums, **errors}


@attrs.frozen(eq=False)
class Calibration:
    """The calibration of an estimator.

    Parameters
    ----------
    label
        Name of the estimator.
    samples
        (B,) by bin of the probability.
    predicted, observed
        (B,) mean probability, and share of violations within the horizon; NaN in a bin without samples.
    brier, brier_next
        Brier score, the mean squared difference between probability and outcome: within the horizon, and at the next
        metering.
    base_rate, base_rate_next
        Share of the samples with a violation.
    """

    label: str
    samples: Float
    predicted: Float
    observed: Float
    brier: float
    brier_next: float
    base_rate: float
    base_rate_next: float

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; null in a bin without samples."""

        def listed(values: Float) -> list[float | None]:
            return [None if np.isnan(value) else float(value) for value in values]

        values = attrs.asdict(self, recurse=False)
        lists = {"predicted": listed(self.predicted), "observed": listed(self.observed)}
        return {**values, **lists, "samples": self.samples.tolist()}


def calibration_of(label: str, rows: Sequence[Mapping[str, Any]]) -> Calibration:
    """Return the calibration over the runs of one estimator."""
    samples, predicted, ahead, at_next = (
        np.sum([row[name] for row in rows], axis=0) for name in ("samples", "predicted", "ahead", "next")
    )
    total = float(samples.sum())
    errors = [sum(row[f"squared_error_{name}"] for row in rows) / total for name in ("ahead", "next")]
    with np.errstate(invalid="ignore"):
        means, shares = predicted / samples, ahead / samples
    return Calibration(
        label, samples, means, shares, errors[0], errors[1], float(ahead.sum() / total), float(at_next.sum() / total)
    )


def table_of_calibrations(found: Sequence[Calibration]) -> Table:
    """Return the observed share of violations by the probability of each estimator."""
    first = found[0]
    caption = (
        f"share of the nodes in violation within {HORIZON_HOURS} hours (number of samples), by predicted probability; "
        f"of all nodes {first.base_rate:.3f}, at the next metering {first.base_rate_next:.4f}"
    )
    bins = [f"{low:g} to {high:g}" for low, high in zip((0.0, *EDGES), (*EDGES, 1.0), strict=True)]
    headings = ("", *bins, "Brier score", "... next")
    shown = new_table(headings, no_wrap=True, title="risk: violations by predicted probability", caption=caption)
    for one in found:
        cells = [
            f"{observed:.3f} ({int(samples)})" if samples else "-"
            for observed, samples in zip(one.observed, one.samples, strict=True)
        ]
        shown.add_row(one.label, *cells, f"{one.brier:.4f}", f"{one.brier_next:.4f}")
    return shown


def plot_calibrations(ax: Axes, found: Sequence[Calibration]) -> None:
    """Draw the share of violations over the mean probability; larger points have more samples."""
    for number, one in enumerate(found):
        some = one.samples > 0
        colour = COLOURS[number % len(COLOURS)]
        ax.plot(one.predicted[some], one.observed[some], color=colour, linewidth=1.0, alpha=0.7)
        sizes = 12.0 + 60.0 * np.sqrt(one.samples[some] / one.samples.max())
        ax.scatter(one.predicted[some], one.observed[some], s=sizes, color=colour, label=one.label, alpha=0.8)
    ax.axline((0.0, 0.0), slope=1.0, color="#4a4a4a", linewidth=0.8)
    ax.set(xlabel="predicted probability of a violation", ylabel="observed share of violations")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    use_open_axes(ax)


def figure_of_calibrations(found: Sequence[Calibration]) -> Figure:
    """Return a plot of all estimators."""
    figure = new_figure(5.6, 6.0, f"violations within {HORIZON_HOURS} hours by predicted probability")
    ax = figure.subplots()
    plot_calibrations(ax, found)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


class CalibrationStudy(SimulatedStudy):
    """The calibration of estimators, an arm each, at the middle density of each workload."""

    name = "calibration"

    @classmethod
    def of(
        cls, request: StudyRequest, settings: Sequence[StudySetting], estimators: Mapping[str, str]
    ) -> CalibrationStudy:
        """Return the study of estimators, by label, at the middle one of the settings of each workload."""
        arms = [Arm(label, POLICY, engine={"estimator": spec, **AS_IN_PAPER}) for label, spec in estimators.items()]
        return cls(
            request.design_at(middle_of_each(settings), arms, repeats=1, days=DAYS, engine=ANNEALING_PILOT.engine)
        )

    def tasks(self) -> Sequence[Task]:
        """Return a run for each estimator and workload."""
        return [attrs.evolve(task, key=f"calibration: {task.key}") for task in self.design.tasks()]

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a run; its totals are sums by bin of the probability."""
        scenario, source, tenants, repeat = prepared(arguments)
        run = CalibrationRun(scenario, source, tenants, POLICY, repeat)
        result = require_complete(run.run())
        return {"totals": binned(run.samples()), "timings": result.timings}

    def result(self, finished: Finished) -> StudyResult:
        """Return the calibrations of the estimators with samples."""
        by_label: dict[str, list[Row]] = {}
        for row in finished.rows:
            by_label.setdefault(row["arm"], []).append(row)
        found = [
            calibration_of(label, rows) for label, rows in by_label.items() if any(sum(row["samples"]) for row in rows)
        ]
        figures = {"calibration": [one.as_json() for one in found]}
        if not found:
            return StudyResult(figures, plots={PLOT: None})
        return StudyResult(figures, (table_of_calibrations(found),), {PLOT: partial(figure_of_calibrations, found)})
