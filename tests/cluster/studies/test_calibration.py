"""The study of calibration: outcomes of predictions, scores compared with counts, and the whole command."""

from __future__ import annotations

import json
import math
from itertools import combinations, product

import attrs
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.simulation.recorder import RunResult
from cluster.studies.base import Arm, base_of_scenario
from cluster.studies.calibration import study as calibration
from cluster.studies.calibration.scores import (
    BINS,
    NodePredictions,
    Scored,
    recalibrated_by_the_others,
    scores_of,
    tables_of_scores,
)
from cluster.studies.calibration.study import (
    ESTIMATORS,
    HORIZONS,
    OUTCOMES,
    CalibrationRun,
    CalibrationStudy,
    Look,
    predictions_of,
    recorded_violations,
)
from cluster.studies.design import prepared, run_simulation
from cluster.studies.request import StudyRequest
from cluster.studies.runner import OutputDirectory
from plb import InvalidValueError
from plb.risk import Recalibration
from tests.cluster.small_studies import ONE_SETTING, SMALL, design_of, study

FITTED = ("probability", "occurred")


def tasks(tmp_path, policy, settings, days):
    """Return runs of a policy with each estimator on a small cluster."""
    (tmp_path / "small.toml").write_text(SMALL)
    weights = {"w_failovers": 0.1, "w_overload": 0.0}
    arms = [Arm(fields["estimator"], policy, engine={**fields, **weights}) for fields in settings]
    return design_of(base_of_scenario(tmp_path / "small.toml"), arms, 2.2, days=days, seed=4).tasks()


def a_look(time, nodes=2):
    """Return a look at a time."""
    return Look(time, dict.fromkeys(HORIZONS, np.zeros(nodes)), np.zeros(nodes, np.int64))


def joined(rows, outcome, horizon):
    """Return the predictions of the estimator e on the workload w in all repeats."""
    return NodePredictions.joined(predictions_of(rows, "w", "e", outcome, horizon))


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


def test_outcomes_follow_from_the_traces_of_present_replicas(tmp_path, monkeypatch):
    """The count goes step by step and replica by replica, without departed replicas and without new ones."""
    violations, found = [], calibration.first_violations
    monkeypatch.setattr(calibration, "HORIZON_HOURS", 5)

    def compared(ledger, sequence, now, interval, steps, threshold):
        ours = found(ledger, sequence, now, interval, steps, threshold)
        traces, expected = sequence.traces, np.zeros((30, len(threshold)), np.bool_)
        for step in range(30):
            totals, time = np.zeros(threshold.shape), now + (step + 1) * interval
            for row in np.flatnonzero((ledger.node >= 0) & ~ledger.leaving):
                tenant = int(ledger.tenant[row])
                at = (time - int(sequence.arrival[tenant]) - 1) // 600
                if at < traces.lifetime_steps[tenant]:
                    totals[ledger.node[row]] += traces.values[ledger._start[row] + at]
            expected[step] = (totals >= threshold).any(axis=1)
        first = np.where(expected.any(axis=0), expected.argmax(axis=0) + 1, 0)
        assert ours.tolist() == first.tolist()
        violations.append(np.count_nonzero(ours))
        return ours

    monkeypatch.setattr(calibration, "first_violations", compared)
    (task,) = tasks(tmp_path, calibration.POLICY, [{"estimator": "monte-carlo"}], days=2.0)
    CalibrationRun(*prepared(task.arguments)[:3], calibration.POLICY, 0).run()
    assert len(violations) == 5
    assert sum(violations) > 0, "some nodes are in violation"


def test_all_estimators_evaluate_the_same_nodes(tmp_path):
    runs = [
        run_simulation(task.arguments)["totals"]
        for task in tasks(tmp_path, calibration.POLICY, ESTIMATORS.values(), days=0.3)
    ]
    of_energy = {name for name in runs[0] if "expected" in name or "energy" in name}
    alike = [{name: value for name, value in totals.items() if name not in of_energy} for totals in runs]
    assert all(totals == alike[0] for totals in alike)
    assert alike[0]["tenants"] > 0


def test_an_outcome_is_a_violation_within_the_horizon():
    """Nodes of other runs are other nodes; runs of other estimators and workloads do not count."""
    row = {"workload": "w", "arm": "e", "interval": 600, "time": [0, 600], "end": 600 * 145}
    row["probability"] = {**dict.fromkeys(HORIZONS, [[0.0] * 2] * 2), "1 hour": [[0.1, 0.2], [0.3, 0.4]]}
    rows = [
        {**row, "held": [[1, 6], [7, 0]], "as it went": [[0, 0], [0, 0]]},
        {**row, "held": [[0, 0], [144, 145]], "as it went": [[1, 0], [0, 0]]},
        {**row, "arm": "other", "held": [[1, 1], [1, 1]]},
        {**row, "workload": "other", "held": [[1, 1], [1, 1]]},
    ]
    within = {horizon: joined(rows, "held", horizon) for horizon in HORIZONS}
    assert [found.occurred.astype(int).tolist() for found in within.values()] == [
        [1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 1, 0],
    ]
    assert within["1 hour"].node.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert within["1 hour"].probability.tolist() == [0.1, 0.2, 0.3, 0.4] * 2
    went = joined(rows, "as it went", "24 hours")
    assert went.occurred.tolist() == [False] * 4 + [True] + [False] * 3


def test_as_it_went_needs_a_run_to_the_end_of_the_horizon():
    """The second look is an hour before the end of the run, so only its first hour is known."""
    row = {"workload": "w", "arm": "e", "interval": 600, "time": [0, 600 * 144], "end": 600 * 150}
    row |= {"as it went": [[0], [3]], "held": [[0], [3]]}
    row["probability"] = {horizon: [[0.1], [0.2]] for horizon in HORIZONS}
    assert joined([row], "as it went", "1 hour").occurred.tolist() == [False, True]
    assert joined([row], "as it went", "24 hours").probability.tolist() == [0.1]
    assert joined([row], "held", "24 hours").occurred.tolist() == [False, True]
    assert predictions_of([{**row, "end": 600 * 143}], "w", "e", "as it went", "24 hours") == []


def test_historical_simulation_has_a_probability_for_each_horizon(tmp_path):
    """Within a day a violation is likelier than within an hour. Monte Carlo has one probability for all time."""
    estimators = [ESTIMATORS[name] for name in ("historical-simulation", "monte-carlo")]
    probabilities = []
    for task in tasks(tmp_path, calibration.POLICY, estimators, days=2.0):
        run = CalibrationRun(*prepared(task.arguments)[:3], calibration.POLICY, 0)
        run.run()
        probabilities.append([look.probability for look in run.looks])
    historical, monte_carlo = probabilities
    within_a_day, within_an_hour = (np.mean([at[horizon] for at in historical]) for horizon in ("24 hours", "1 hour"))
    assert within_a_day > within_an_hour > 0.0
    assert all(np.array_equal(at["24 hours"], at["1 hour"]) for at in monte_carlo)


def repeats_of(rng, count):
    """Return repeats of an estimator that predicts twice the probability of a violation."""
    drawn = [(rng.random(80) / 2, rng.random(80)) for _ in range(count)]
    node = np.repeat(np.arange(8), 10)
    return [NodePredictions(2 * probability, draw < probability, node) for probability, draw in drawn]


def test_a_repeat_is_recalibrated_by_the_others_alone():
    runs = repeats_of(np.random.default_rng(5), 3)
    turned = [attrs.evolve(runs[0], occurred=~runs[0].occurred), *runs[1:]]
    before, after = recalibrated_by_the_others(runs), recalibrated_by_the_others(turned)
    map_of_others = Recalibration.fit(*(np.r_[getattr(runs[1], name), getattr(runs[2], name)] for name in FITTED))
    assert before.probability[:80].tolist() == map_of_others(runs[0].probability).tolist()
    assert after.probability[:80].tolist() == before.probability[:80].tolist()
    assert after.probability[80:].tolist() != before.probability[80:].tolist()
    assert before.node.tolist() == np.repeat(np.arange(24), 10).tolist()
    assert before.occurred.tolist() == np.concatenate([run.occurred for run in runs]).tolist()


def test_recalibration_corrects_a_factor():
    """An estimator that predicts twice too much has no skill; recalibrated, it is calibrated and has some."""
    found = Scored.of(repeats_of(np.random.default_rng(6), 20), workload="w", label="e", horizon="h", outcome="o")
    assert found.scores.calibration_error.value > 0.2 > 0.0 > found.scores.skill.value
    assert found.recalibrated.calibration_error.value < 0.05
    assert found.recalibrated.skill.low > 0.0
    assert found.recalibrated.base_rate == found.scores.base_rate


def test_a_single_repeat_has_a_map_but_no_recalibrated_scores():
    """No other repeat says what its probabilities become."""
    found = Scored.of(repeats_of(np.random.default_rng(7), 1), workload="w", label="e", horizon="h", outcome="o")
    assert found.recalibrated is None
    assert found.as_json()["recalibrated"] is None
    assert Recalibration.from_json(found.as_json()["recalibration"]) == found.recalibration
    assert [table.title for table in tables_of_scores([found])] == ["calibration: violations within h, o"]


def test_the_first_predictions_can_be_later(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    base = base_of_scenario(tmp_path / "small.toml")
    request = StudyRequest(base=base, output=OutputDirectory(tmp_path), densities=[1.5], days=1.5, repeats=1)
    usual, later = (CalibrationStudy.of(attrs.evolve(request, first_hours=hours)) for hours in (None, 30))
    assert "first_hours" not in usual.described()
    assert later.described() == {**usual.described(), "first_hours": 30}
    assert [task.key for task in later.tasks()] == [f"{task.key}, first_hours 30" for task in usual.tasks()]
    whole, part = (one.run(one.tasks()[0].arguments)["totals"] for one in (usual, later))
    assert (whole["time"], part["time"]) == ([24 * 3600, 30 * 3600, 36 * 3600], [30 * 3600, 36 * 3600])
    assert part["held"] == whole["held"][1:]
    with pytest.raises(InvalidValueError, match=r"first_hours = 37 is not allowed; expected .* <= 36"):
        CalibrationStudy.of(attrs.evolve(request, first_hours=37, densities=None))


@pytest.mark.usefixtures("drawn_figures")
def test_the_study_scores_every_estimator(tmp_path, monkeypatch):
    """The run ends before the longest horizon, so it does not say how that one went."""
    monkeypatch.setattr(calibration, "FIRST_HOURS", 0)
    one = study(tmp_path / "one", "calibration", *ONE_SETTING, "--jobs", "1")
    found = {(each["label"], each["horizon"], each["outcome"]): each["scores"] for each in one["scores"]}
    kinds = {*product(HORIZONS, OUTCOMES)} - {("24 hours", "as it went")}
    assert set(found) == {(label, *kind) for label in ESTIMATORS for kind in kinds}
    assert all(scores["predictions"] == scores["nodes"] == 16 for scores in found.values()), "eight nodes, two repeats"
    again = [each["recalibrated"] for each in one["scores"]]
    assert all(scores["predictions"] == scores["nodes"] == 16 for scores in again)
    assert all(Recalibration.from_json(each["recalibration"]) for each in one["scores"])
    assert (tmp_path / "one" / "reliability.png").stat().st_size > 10_000


def test_every_repeat_has_its_own_past(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    base = base_of_scenario(tmp_path / "small.toml")
    request = StudyRequest(base=base, output=OutputDirectory(tmp_path), densities=[1.5], days=2.0, repeats=3)
    study = CalibrationStudy.of(request)
    assert study.design.described()["splits_anew"] is True
    tasks = study.tasks()
    seeds = [(task.arguments["repeat"], task.arguments["scenario"]["workload"]["trace_seed"]) for task in tasks]
    assert seeds == [(repeat, repeat) for repeat in range(3) for _ in ESTIMATORS]
    histories = [prepared(task.arguments)[1].history.level.tolist() for task in tasks[:: len(ESTIMATORS)]]
    assert all(one != other for one, other in combinations(histories, 2))


PREDICTION = st.tuples(st.floats(0, 1) | st.sampled_from((0.0, 0.1, 0.3, 0.5, 1.0)), st.booleans(), st.integers(0, 5))


def predictions(found):
    """Return tuples of probability, outcome and node as predictions."""
    probability, occurred, node = zip(*found, strict=True)
    return NodePredictions(np.array(probability, float), np.array(occurred, bool), np.array(node, np.int64))


@given(st.lists(PREDICTION, min_size=1, max_size=40))
def test_scores_are_means_over_the_predictions(found):
    scores = scores_of(predictions(found))
    total = len(found)
    rate = sum(one[1] for one in found) / total
    brier = sum((one[0] - one[1]) ** 2 for one in found) / total
    bins = [[one for one in found if min(int(one[0] * BINS), BINS - 1) == place] for place in range(BINS)]
    gaps = [abs(sum(one[0] for one in within) - sum(one[1] for one in within)) for within in bins]
    assert (scores.predictions, scores.nodes) == (total, len({one[2] for one in found}))
    assert scores.base_rate.value == pytest.approx(rate)
    assert scores.brier.value == pytest.approx(brier, abs=1e-12)
    assert scores.calibration_error.value == pytest.approx(sum(gaps) / total, abs=1e-12)
    if 0 < rate < 1:
        assert scores.skill.value == pytest.approx(1 - brier / (rate * (1 - rate)), abs=1e-9)
    else:
        assert scores.skill.value is None
    for place, within in enumerate(bins):
        assert scores.samples[place] == len(within)
        if within:
            assert scores.predicted[place] == pytest.approx(sum(one[0] for one in within) / len(within))
            assert scores.observed[place].value == pytest.approx(sum(one[1] for one in within) / len(within))
        else:
            assert math.isnan(scores.predicted[place])
            assert scores.observed[place].value is None
    json.dumps(scores.as_json(), allow_nan=False)


@given(st.lists(PREDICTION, min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_scores_depend_neither_on_the_order_nor_on_the_numbers_of_nodes(found, random):
    """Nodes are only told apart. The intervals are those of the same nodes in the same order of their numbers."""
    shuffled = random.sample(found, len(found))
    moved = [(probability, occurred, 7 * node + 3) for probability, occurred, node in shuffled]
    one, two = scores_of(predictions(found)), scores_of(predictions(moved))
    for name in ("base_rate", "brier", "skill", "calibration_error"):
        first, second = getattr(one, name), getattr(two, name)
        assert [first.value, first.low, first.high] == pytest.approx(
            [second.value, second.low, second.high], nan_ok=True
        )


def test_perfect_predictions_and_the_base_rate_have_a_skill_of_one_and_zero():
    """A constant prediction of the base rate is calibrated, but has no skill."""
    occurred = np.arange(100) % 4 == 0
    node = np.arange(100) % 10
    perfect = scores_of(NodePredictions(occurred.astype(float), occurred, node))
    constant = scores_of(NodePredictions(np.full(100, 0.25), occurred, node))
    assert (perfect.skill.value, perfect.calibration_error.value) == (1.0, 0.0)
    assert (constant.skill.value, constant.calibration_error.value) == pytest.approx((0.0, 0.0))


def test_an_interval_counts_nodes_and_not_predictions():
    """The same prediction a hundred times over on each node adds no information; more nodes do."""
    rng = np.random.default_rng(3)
    occurred = rng.random(40) < 0.3

    def width(times, nodes):
        node = np.tile(np.arange(nodes), times)
        found = scores_of(NodePredictions(np.full(times * nodes, 0.3), occurred[node % 40], node)).base_rate
        return found.high - found.low

    assert width(100, 40) == pytest.approx(width(1, 40))
    assert width(1, 40 * 16) == pytest.approx(width(1, 40) / 4, rel=0.1)


def test_the_interval_of_a_share_is_that_of_independent_nodes():
    """With one prediction a node, it is the normal approximation of a binomial share."""
    occurred = np.arange(900) < 270
    found = scores_of(NodePredictions(np.full(900, 0.3), occurred, np.arange(900))).base_rate
    half = 1.96 * math.sqrt(0.3 * 0.7 / 900)
    assert (found.low, found.high) == pytest.approx((0.3 - half, 0.3 + half), abs=0.004)


def test_what_resamples_cannot_tell_has_no_interval():
    single = scores_of(NodePredictions(np.array([0.2, 0.4]), np.array([True, False]), np.zeros(2, np.int64)))
    assert (single.brier.low, single.brier.high) == (None, None)
    assert single.brier.text == "0.400"
    never = scores_of(NodePredictions(np.full(6, 0.1), np.zeros(6, bool), np.arange(6)))
    assert (never.base_rate.value, never.base_rate.low) == (0.0, None)
    assert never.skill.text == "-"
