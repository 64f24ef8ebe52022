"""The study of risk: counts compared with plain Python, and the whole command."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.studies import calibration, risk
from cluster.studies.arms import Arm
from cluster.studies.base import base_of_scenario
from cluster.studies.calibration import EDGES, OUTCOMES, CalibrationRun, binned, calibration_of
from cluster.studies.design import Design, StudySetting
from cluster.studies.figures import Violations
from cluster.studies.simulated import prepared, run_simulation
from tests.cluster.small_studies import ONE_SETTING, SMALL, study

PROBABILITY = st.floats(0, 1) | st.sampled_from((0.0, 1.0, *EDGES))


def tasks(tmp_path, policy, specs, days):
    """Return runs of a policy with each estimator on a small cluster."""
    (tmp_path / "small.toml").write_text(SMALL)
    base = base_of_scenario(tmp_path / "small.toml")
    weights = {"w_failovers": 0.1, "w_overload": 0.0}
    arms = [Arm(spec, policy, engine={"estimator": spec, **weights}) for spec in specs]
    setting = StudySetting(base.workloads[0], base.vcores, 2.2)
    return Design(base, [setting], arms, days=days, repeats=1, seed=4, engine={}).tasks()


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
    (task,) = tasks(tmp_path, calibration.POLICY, ["monte-carlo"], days=2.0)
    CalibrationRun(*prepared(task.arguments)[:3], calibration.POLICY, 0).run()
    assert len(violations) == 5
    assert sum(violations) > 0, "some nodes are in violation"


def test_all_estimators_evaluate_the_same_nodes(tmp_path):
    """The policy of the cluster does not use the estimators."""
    runs = [
        run_simulation(task.arguments)["totals"]
        for task in tasks(tmp_path, calibration.POLICY, risk.ESTIMATORS.values(), days=1.0)
    ]
    of_energy = {name for name in runs[0] if "expected" in name or "energy" in name}
    alike = [{name: value for name, value in one.items() if name not in of_energy} for one in runs]
    assert all(one == alike[0] for one in alike)
    assert alike[0]["tenants"] > 0


@given(st.lists(st.tuples(PROBABILITY, st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_calibration_is_a_count_by_probability(samples):
    """The reference counts one sample at a time. The Brier score is the mean squared error."""
    found = calibration_of("any", [binned(np.array(samples, float).T)])
    edges = [0.0, *EDGES, math.inf]
    for place, (low, high) in enumerate(pairwise(edges)):
        within = [one for one in samples if low <= one[0] < high]
        assert found.samples[place] == len(within)
        if within:
            assert math.isclose(found.predicted[place], sum(one[0] for one in within) / len(within), abs_tol=1e-12)
            assert math.isclose(found.observed[place], sum(one[2] for one in within) / len(within))
    assert math.isclose(found.brier, sum((one[0] - one[2]) ** 2 for one in samples) / len(samples), abs_tol=1e-12)
    assert math.isclose(found.brier_next, sum((one[0] - one[1]) ** 2 for one in samples) / len(samples), abs_tol=1e-12)
    assert math.isclose(found.base_rate, sum(one[2] for one in samples) / len(samples))
    assert OUTCOMES == ("next", "ahead")


def test_density_at_equal_violations_is_interpolated():
    """Half the violations occur at a higher density.

    An estimator with too many violations at all densities has none.
    """
    settings = tuple(StudySetting("w", 80.0, density) for density in (1.0, 2.0, 3.0))
    arms = {arm.name: np.array([[2.0], [4.0], [6.0]]) for arm in risk.ARMS}
    arms["prv_worst_fit, gaussian"] = np.array([[1.0], [2.0], [6.0]])
    arms["prv_worst_fit, n-sigma"] = np.array([[10.0], [20.0], [30.0]])
    study = risk.RiskStudy(None, None)
    claims = {claim.label: claim.ours for claim in study.claims(Violations(settings, arms))}
    density = "prv_worst_fit: density at equal violations"
    assert claims[f"{density}, gaussian / monte-carlo"] == "1.250 (1 of 1 workloads)"
    assert claims[f"{density}, n-sigma / monte-carlo"] == "- (0 of 1 workloads)"
    assert claims["prv_worst_fit: gaussian / monte-carlo"].mean == pytest.approx((0.5 + 0.5 + 1.0) / 3)


def test_risk_study_has_the_figures_of_every_estimator_and_resumes(tmp_path, monkeypatch):
    """Figures and plots contain violations, densities, times and calibration of every estimator."""
    monkeypatch.setattr(calibration, "FIRST_HOURS", 0)
    given = (*ONE_SETTING[:-1], "1")
    one = study(tmp_path / "one", "risk", *given, "--jobs", "1")
    assert set(one["settings"][0]["violations"]) == {arm.name for arm in risk.ARMS}
    assert [calibrated["label"] for calibrated in one["calibration"]] == [*risk.ESTIMATORS]
    assert all(sum(calibrated["samples"]) == 8 for calibrated in one["calibration"]), "eight nodes, once"
    assert f"placement of a tenant, {risk.RiskStudy.compared}" in one["counts"]
    for name in ("risk.png", "calibration.png"):
        assert (tmp_path / "one" / name).stat().st_size > 10_000
    again = study(tmp_path / "one", "risk", *given, "--jobs", "1")
    assert again == one, "no run was repeated"
