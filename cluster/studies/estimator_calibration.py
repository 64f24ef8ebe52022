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

from cluster.scenario.scenario import AS_IN_PAPER
from cluster.simulation.violations import ViolationOutcome
from cluster.studies.arms import Arm
from cluster.studies.calibration import DAYS, HORIZON_HOURS, POLICY, CalibrationRun, Look, middle_of_each
from cluster.studies.calibration_results import Scored, figure_of_reliability, table_of_scores
from cluster.studies.figures import figures_of
from cluster.studies.forecast_scores import NodePredictions, scores_of
from cluster.studies.pilots import ANNEALING_PILOT
from cluster.studies.request import StudyRequest
from cluster.studies.risk import ESTIMATORS
from cluster.studies.runner import Finished, Row
from cluster.studies.simulated import SimulatedStudy, prepared, require_complete
from cluster.studies.study import StudyResult
from plb.array_types import Int

if TYPE_CHECKING:
    from cluster.simulation.recorder import RunResult

REPEATS = 5
HORIZONS: Mapping[str, float] = {"next metering": 0.0, "1 hour": 1.0, f"{HORIZON_HOURS} hours": float(HORIZON_HOURS)}
"""Hours by label. The next metering is at most one interval away."""
HELD, WENT = "held", "as it went"
OUTCOMES = (HELD, WENT)
PLOT = "reliability.png"


class EstimatorCalibrationStudy(SimulatedStudy):
    """The calibration of every estimator, an arm each, at the middle density of each workload."""

    name = "calibration"

    @classmethod
    def of(cls, request: StudyRequest) -> EstimatorCalibrationStudy:
        """Return the study that a user requests."""
        arms = [Arm(label, POLICY, engine={"estimator": spec, **AS_IN_PAPER}) for label, spec in ESTIMATORS.items()]
        settings = middle_of_each(request.settings((ANNEALING_PILOT,)))
        design = request.design_at(settings, arms, repeats=REPEATS, days=DAYS, engine=ANNEALING_PILOT.engine)
        return cls(attrs.evolve(design, splits_anew=True))

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a run; its totals are the predictions, and when violations follow."""
        scenario, source, tenants, repeat = prepared(arguments)
        run = CalibrationRun(scenario, source, tenants, POLICY, repeat)
        result = require_complete(run.run())
        interval = scenario.cluster.metering_minutes * 60
        totals = {
            "interval": interval,
            "probability": [look.probability.tolist() for look in run.looks],
            HELD: [look.first.tolist() for look in run.looks],
            WENT: [recorded_violations(result, look, interval).tolist() for look in run.looks],
        }
        return {"totals": totals, "timings": result.timings}

    def result(self, finished: Finished) -> StudyResult:
        """Return the scores of every estimator by workload, horizon and outcome."""
        scored = [
            Scored(workload, label, horizon, outcome, scores_of(predictions))
            for workload in dict.fromkeys(row["workload"] for row in finished.rows)
            for outcome in OUTCOMES
            for horizon, hours in HORIZONS.items()
            for label in dict.fromkeys(row["arm"] for row in finished.rows)
            if len((predictions := predictions_of(finished.rows, workload, label, outcome, hours)).node)
        ]
        figures = figures_of(self.name, scores=[one.as_json() for one in scored])
        if not scored:
            return StudyResult(figures, plots={PLOT: None})
        tables = [table_of_scores(scored, workload) for workload in dict.fromkeys(one.workload for one in scored)]
        shown = [one for one in scored if one.outcome == HELD and one.horizon == [*HORIZONS][-1]]
        return StudyResult(figures, tables, {PLOT: partial(figure_of_reliability, shown)})


def recorded_violations(result: RunResult, look: Look, interval: int) -> Int:
    """Return at which metering after a look each node was first in violation in the run, (H,); 0: at none recorded.

    Shortages that moves under way cover are none.
    """
    later = result.tables["shortages"].filter(
        (pl.col("outcome") != ViolationOutcome.COVERED.value) & (pl.col("time_s") > look.time)
    )
    first = dict(later.group_by("node").agg(pl.col("time_s").min()).iter_rows())
    names = result.tables["nodes"]["node"].to_list()
    return np.array([-(-(first[name] - look.time) // interval) if name in first else 0 for name in names], np.int64)


def predictions_of(rows: Sequence[Row], workload: str, label: str, outcome: str, hours: float) -> NodePredictions:
    """Return the predictions of an estimator on a workload, and whether a violation followed within some hours.

    Parameters
    ----------
    rows
        The runs.
    hours
        The horizon; one metering at least.
    """
    probability, occurred, node, nodes = [np.zeros(0)], [np.zeros(0, np.bool_)], [np.zeros(0, np.int64)], 0
    for row in rows:
        looks = np.array(row["probability"], np.float64)
        if (row["workload"], row["arm"]) != (workload, label) or not looks.size:
            continue
        first = np.array(row[outcome], np.int64)
        steps = max(1, int(hours * 3600) // row["interval"])
        probability.append(looks.ravel())
        occurred.append(((first > 0) & (first <= steps)).ravel())
        node.append(np.tile(nodes + np.arange(looks.shape[1]), len(looks)))
        nodes += looks.shape[1]
    return NodePredictions(np.concatenate(probability), np.concatenate(occurred), np.concatenate(node))
