"""The study of calibration: what counts as the outcome of a prediction, and the whole command."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from cluster.simulation.recorder import RunResult
from cluster.studies import calibration
from cluster.studies.base import base_of_scenario
from cluster.studies.calibration import Look
from cluster.studies.estimator_calibration import (
    HORIZONS,
    OUTCOMES,
    EstimatorCalibrationStudy,
    predictions_of,
    recorded_violations,
)
from cluster.studies.request import StudyRequest
from cluster.studies.risk import ESTIMATORS
from cluster.studies.runner import OutputDirectory
from cluster.studies.simulated import prepared
from tests.cluster.small_studies import ONE_SETTING, SMALL, study


def a_look(time, nodes=2):
    """Return a look at a time."""
    return Look(time, np.zeros(nodes), np.zeros(nodes, np.int64))


def a_result(*shortages):
    """Return a run of the nodes a and b with shortages: time, node and outcome."""
    tables = {
        "shortages": pl.DataFrame(shortages, ["time_s", "node", "outcome"], orient="row"),
        "nodes": pl.DataFrame({"node": ["a", "b"]}),
    }
    return RunResult("any", 0, {}, {}, (), True, tables)


@pytest.mark.parametrize(
    ("shortages", "first"),
    [
        ([(1200, "a", "violation"), (1800, "a", "violation")], [1, 0]),
        ([(600, "a", "violation"), (2400, "a", "violation")], [3, 0]),
        ([(1200, "a", "covered"), (1800, "b", "unresolved")], [0, 2]),
        ([(600, "a", "violation"), (600, "b", "violation")], [0, 0]),
    ],
)
def test_as_it_went_is_the_first_violation_after_the_look(shortages, first):
    """A violation at the time of the look is past. Moves under way that suffice are no violation."""
    assert recorded_violations(a_result(*shortages), a_look(600), 600).tolist() == first


def test_an_outcome_is_a_violation_within_the_horizon():
    """Nodes of other runs are other nodes; runs of other estimators and workloads do not count."""
    row = {"workload": "w", "arm": "e", "interval": 600, "probability": [[0.1, 0.2], [0.3, 0.4]]}
    rows = [
        {**row, "held": [[1, 6], [7, 0]], "as it went": [[0, 0], [0, 0]]},
        {**row, "held": [[0, 0], [144, 145]], "as it went": [[1, 0], [0, 0]]},
        {**row, "arm": "other", "held": [[1, 1], [1, 1]]},
        {**row, "workload": "other", "held": [[1, 1], [1, 1]]},
    ]
    within = {hours: predictions_of(rows, "w", "e", "held", hours) for hours in HORIZONS.values()}
    assert [found.occurred.astype(int).tolist() for found in within.values()] == [
        [1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 1, 0],
    ]
    assert within[1.0].node.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert within[1.0].probability.tolist() == [0.1, 0.2, 0.3, 0.4] * 2
    assert predictions_of(rows, "w", "e", "as it went", 24.0).occurred.tolist() == [False] * 4 + [True] + [False] * 3


def test_the_study_scores_every_estimator_and_resumes(tmp_path, monkeypatch):
    """Every estimator has scores for each horizon and outcome, on the nodes of all repeats."""
    monkeypatch.setattr(calibration, "FIRST_HOURS", 0)
    one = study(tmp_path / "one", "calibration", *ONE_SETTING, "--jobs", "1")
    found = {(each["label"], each["horizon"], each["outcome"]): each["scores"] for each in one["scores"]}
    assert set(found) == {
        (label, horizon, outcome) for label in ESTIMATORS for horizon in HORIZONS for outcome in OUTCOMES
    }
    assert all(scores["predictions"] == scores["nodes"] == 16 for scores in found.values()), "eight nodes, two repeats"
    assert (tmp_path / "one" / "reliability.png").stat().st_size > 10_000
    again = study(tmp_path / "one", "calibration", *ONE_SETTING, "--jobs", "1")
    assert again == one, "no run was repeated"


def test_every_repeat_has_its_own_past(tmp_path):
    """History and tenants come from another split in each repeat, the same for all estimators."""
    (tmp_path / "small.toml").write_text(SMALL)
    base = base_of_scenario(tmp_path / "small.toml")
    request = StudyRequest(base=base, output=OutputDirectory(tmp_path), densities=[1.5], days=2.0, repeats=3)
    tasks = EstimatorCalibrationStudy.of(request).tasks()
    seeds = [(task.arguments["repeat"], task.arguments["scenario"]["workload"]["trace_seed"]) for task in tasks]
    assert seeds == [(repeat, repeat) for repeat in range(3) for _ in ESTIMATORS]
    histories = [prepared(task.arguments)[1].history.level.tolist() for task in tasks[:: len(ESTIMATORS)]]
    assert all(one != other for one, other in combinations(histories, 2))
