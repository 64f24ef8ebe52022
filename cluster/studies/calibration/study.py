"""The study of calibration: the estimators of risk on the same nodes, scored by what the traces do next.

Every repeat has its own split into past and simulated tenants. A policy that uses no estimator runs the cluster. The
outcome of a prediction is counted twice: *held*, if no replica moves after the prediction, from the traces; and *as it
went*, with arrivals, departures and moves, as the run recorded it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import polars as pl

from cluster.runs.sweep import Task
from cluster.scenario.scenario import AS_IN_PAPER
from cluster.simulation.simulated_cluster import At, Kind, Process
from cluster.simulation.simulation import Simulation
from cluster.simulation.violations import ViolationOutcome, first_violations
from cluster.studies.base import Arm
from cluster.studies.calibration.scores import NodePredictions, Scored, figure_of_reliability, tables_of_scores
from cluster.studies.design import SimulatedStudy, StudySetting, middle_of_each, prepared, require_complete
from cluster.studies.figures import figures_of
from cluster.studies.request import ANNEALING_PILOT, StudyRequest
from cluster.studies.risk import ESTIMATORS
from cluster.studies.runner import Finished, Row, StudyResult
from plb.array_types import Float, Int
from plb.risk.estimators import HistoricalSimulation, estimator_of
from plb.validation import check_count

if TYPE_CHECKING:
    from cluster.simulation.recorder import RunResult

POLICY = "worst_fit_max"
"""The policy that runs the cluster. It uses no probabilities."""
DAYS, REPEATS = 10.0, 5
FIRST_HOURS, EVERY_HOURS, HORIZON_HOURS = 24, 6, 24
"""Hours until the first predictions by default, between predictions, and of the longest horizon."""
HORIZONS: Mapping[str, float] = {"next metering": 0.0, "1 hour": 1.0, f"{HORIZON_HOURS} hours": float(HORIZON_HOURS)}
"""Hours by label. The next metering is at most one interval away."""
HELD, WENT = "held", "as it went"
OUTCOMES = (HELD, WENT)
PLOT = "reliability.png"


@attrs.frozen(eq=False)
class Look:
    """The predictions at one time, and what follows if no replica moves."""

    time: int
    """Seconds since the start of the run."""
    probability: Mapping[str, Float]
    """(H,) probability of a violation of each node, by the label of the horizon. It is the same for all horizons if
    the estimator cannot change its horizon.
    """
    first: Int
    """(H,) at which of the next meterings the node is first in violation; 0: at none within the horizon."""


class CalibrationRun(Simulation):
    """A run with predictions at regular times, in `looks`; the first after `first_hours`, or `FIRST_HOURS`."""

    def __init__(self, *arguments: Any, first_hours: int | None = None) -> None:
        super().__init__(*arguments)
        self.looks: list[Look] = []
        self._first_hours = FIRST_HOURS if first_hours is None else first_hours

    def processes(self) -> tuple[Process, ...]:
        """Return the processes of the simulation, and the process that makes the predictions."""
        return (*super().processes(), self._predict())

    def _predict(self) -> Process:
        """Record the predictions at regular times, and the violations that the traces then have in store."""
        for time in range(self._first_hours * 3600, self._end + 1, EVERY_HOURS * 3600):
            yield At(self.env, time, Kind.LOOK)
            probability = {label: self._probability(time, hours) for label, hours in HORIZONS.items()}
            steps = HORIZON_HOURS * 3600 // self._interval
            first_metering = first_violations(self.ledger, self._sequence, time, self._interval, steps, self._threshold)
            self.looks.append(Look(time, probability, first_metering))

    def _probability(self, now: int, hours: float) -> Float:
        """Return the probability of a violation of each node within some hours from `now` on, (H,).

        The time is at least one metering.
        """
        has_horizon = isinstance(estimator_of(self.engine.config.estimator), HistoricalSimulation)
        within = max(float(self._interval), 3600.0 * hours) if has_horizon else None
        return np.array([*self.engine.violation_probabilities(now, within=within).values()])


@attrs.frozen(eq=False)
class CalibrationStudy(SimulatedStudy):
    """The calibration of every estimator, an arm each, at the middle density of each workload."""

    name = "calibration"

    first_hours: int | None = None
    """Hours until the first predictions; None: `FIRST_HOURS`."""

    def __attrs_post_init__(self) -> None:
        if self.first_hours is not None:
            check_count("study", "first_hours", self.first_hours, high=int(24.0 * self.design.days))

    @classmethod
    def of(cls, request: StudyRequest) -> CalibrationStudy:
        """Return the study that a user requests."""
        usual_densities = dict.fromkeys(request.base.workloads, (request.base.density,))
        cls._at(ANNEALING_PILOT.settings(request.base, usual_densities), request)  # raises errors before a pilot runs
        return cls._at(middle_of_each(request.settings((ANNEALING_PILOT,)), 1), request)

    @classmethod
    def _at(cls, settings: Sequence[StudySetting], request: StudyRequest) -> CalibrationStudy:
        """Return the study in settings, with an arm for each estimator."""
        arms = [Arm(label, POLICY, engine={**fields, **AS_IN_PAPER}) for label, fields in ESTIMATORS.items()]
        design = request.design_at(settings, arms, repeats=REPEATS, days=DAYS, engine=ANNEALING_PILOT.engine)
        return cls(attrs.evolve(design, splits_anew=True), request.first_hours)

    def described(self) -> Mapping[str, Any]:
        """Return the design, and when the first predictions are, as plain JSON values."""
        return {**super().described(), **self._chosen}

    def tasks(self) -> Sequence[Task]:
        """Return the runs; a key says when the first predictions are if that is not the default."""
        suffix = "".join(f", {name} {value}" for name, value in self._chosen.items())
        return [Task(task.key + suffix, {**task.arguments, **self._chosen}) for task in super().tasks()]

    @property
    def _chosen(self) -> Mapping[str, int]:
        """The hours until the first predictions, if a user has chosen them, by name of the field."""
        return {} if self.first_hours is None else {"first_hours": self.first_hours}

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a run; its totals are the predictions, and when violations follow, by time and node."""
        scenario, source, tenants, repeat = prepared(arguments)
        first_hours = arguments.get("first_hours")
        run = CalibrationRun(scenario, source, tenants, POLICY, repeat, first_hours=first_hours)
        result = require_complete(run.run())
        interval = scenario.cluster.metering_minutes * 60
        totals = {
            "interval": interval,
            "end": int(result.totals["simulated_seconds"]),
            "time": [look.time for look in run.looks],
            "probability": {label: [look.probability[label].tolist() for look in run.looks] for label in HORIZONS},
            HELD: [look.first.tolist() for look in run.looks],
            WENT: [recorded_violations(result, look, interval).tolist() for look in run.looks],
        }
        return {"totals": totals, "timings": result.timings}

    def result(self, finished: Finished) -> StudyResult:
        """Return the scores of every estimator by workload, horizon and outcome."""
        scored = [
            Scored.of(runs, workload=workload, label=label, horizon=horizon, outcome=outcome)
            for workload in dict.fromkeys(row["workload"] for row in finished.rows)
            for outcome in OUTCOMES
            for horizon in HORIZONS
            for label in dict.fromkeys(row["arm"] for row in finished.rows)
            if (runs := predictions_of(finished.rows, workload, label, outcome, horizon))
        ]
        figures = figures_of(self.name, scores=[score.as_json() for score in scored])
        if not scored:
            return StudyResult(figures, plots={PLOT: None})
        tables = [
            table
            for outcome in OUTCOMES
            for horizon in HORIZONS
            if (same_scored := [score for score in scored if (score.outcome, score.horizon) == (outcome, horizon)])
            for table in tables_of_scores(same_scored)
        ]
        plotted = [score for score in scored if score.outcome == HELD and score.horizon == [*HORIZONS][-1]]
        return StudyResult(figures, tables, {PLOT: partial(figure_of_reliability, plotted)})


def recorded_violations(result: RunResult, look: Look, interval: int) -> Int:
    """Return at which metering after a look each node was first in violation in a run, (H,); 0: at none.

    `interval`: seconds between meterings.
    """
    later = result.tables["shortages"].filter(
        (pl.col("outcome") != ViolationOutcome.COVERED.value) & (pl.col("time_s") > look.time)
    )
    first_time = dict(later.group_by("node").agg(pl.col("time_s").min()).iter_rows())
    names = result.tables["nodes"]["node"].to_list()
    return np.array(
        [-(-(first_time[name] - look.time) // interval) if name in first_time else 0 for name in names], np.int64
    )


def predictions_of(rows: Sequence[Row], workload: str, label: str, outcome: str, horizon: str) -> list[NodePredictions]:
    """Return the predictions of an estimator in each repeat, and whether a violation followed within the horizon.

    `rows`: arguments and totals of runs; `label`: of the estimator; `outcome`: `HELD` or `WENT`. For `WENT`, only
    predictions count whose horizon ended before the run.
    """
    predictions = []
    for row in rows:
        probability = np.array(row["probability"][horizon], np.float64)
        if (row["workload"], row["arm"]) != (workload, label) or not probability.size:
            continue
        steps = max(1, int(HORIZONS[horizon] * 3600) // row["interval"])
        counts = np.array(row["time"]) + steps * row["interval"] <= row["end"] if outcome == WENT else slice(None)
        first_metering = np.array(row[outcome], np.int64)[counts]
        if len(first_metering):
            occurred, node = (
                (first_metering > 0) & (first_metering <= steps),
                np.tile(np.arange(probability.shape[1]), len(first_metering)),
            )
            predictions.append(NodePredictions(probability[counts].ravel(), occurred.ravel(), node))
    return predictions
