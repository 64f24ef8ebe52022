"""The study of risk: what it counts against plain Python, and the command from end to end."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.studies import calibration, risk
from cluster.studies.arms import Arm
from cluster.studies.base import of_scenario
from cluster.studies.calibration import EDGES, OUTCOMES, Watched, binned, calibration_of
from cluster.studies.design import StudySetting
from cluster.studies.figures import Violations
from cluster.studies.simulated import prepared, run_simulation
from tests.cluster.small_studies import ONE_SETTING, SMALL, study

PROBABILITY = st.floats(0, 1) | st.sampled_from((0.0, 1.0, *EDGES))


def tasks(tmp_path, policy, specs, days):
    """Return a run of a policy under each estimator, on a small cluster."""
    (tmp_path / "small.toml").write_text(SMALL)
    base = of_scenario(tmp_path / "small.toml")
    asked = {"w_failovers": 0.1, "w_overload": 0.0}
    arms = [Arm(spec, policy, engine={"estimator": spec, **asked}) for spec in specs]
    setting = StudySetting(base.workloads[0], base.vcores, 2.2)
    return base.design([setting], arms, days=days, repeats=1, seed=4, engine={}).tasks()


def test_what_comes_is_what_the_traces_of_those_who_stand_there_say(tmp_path, monkeypatch):
    """Step by step and replica by replica; who leaves is not counted any more, and nobody joins."""
    looked, found = [], calibration.what_comes
    monkeypatch.setattr(calibration, "HORIZON_HOURS", 5)

    def compared(ledger, sequence, now, interval, threshold):
        ours = found(ledger, sequence, now, interval, threshold)
        traces, comes = sequence.traces, np.zeros((30, len(threshold)), np.bool_)
        for step in range(30):
            totals, time = np.zeros(threshold.shape), now + (step + 1) * interval
            for row in np.flatnonzero((ledger.node >= 0) & ~ledger.leaving):
                tenant = int(ledger.tenant[row])
                at = (time - int(sequence.arrival[tenant]) - 1) // 600
                if at < traces.lifetime_steps[tenant]:
                    totals[ledger.node[row]] += traces.values[ledger._start[row] + at]
            comes[step] = (totals >= threshold).any(axis=1)
        assert ours[0].tolist() == comes[0].tolist()
        assert ours[1].tolist() == comes.any(axis=0).tolist()
        looked.append(int(ours[1].sum()))
        return ours

    monkeypatch.setattr(calibration, "what_comes", compared)
    (task,) = tasks(tmp_path, calibration.POLICY, ["monte-carlo"], days=2.0)
    Watched(*prepared(task.arguments)[:3], calibration.POLICY, 0).run()
    assert len(looked) == 5
    assert sum(looked) > 0, "or the comparison says little"


def test_all_estimators_look_at_the_same_nodes(tmp_path):
    """The policy that runs the cluster does not ask them."""
    runs = [
        run_simulation(task.arguments)["totals"]
        for task in tasks(tmp_path, calibration.POLICY, risk.ESTIMATORS.values(), days=1.0)
    ]
    of_energy = {name for name in runs[0] if "expected" in name or "energy" in name}
    alike = [{name: value for name, value in one.items() if name not in of_energy} for one in runs]
    assert all(one == alike[0] for one in alike)
    assert alike[0]["tenants"] > 0


@given(st.lists(st.tuples(PROBABILITY, st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_calibration_is_a_count_by_probability(looks):
    """Against one look at a time; the Brier score is the mean squared error."""
    found = calibration_of("any", [binned(np.array(looks, float).T)])
    edges = [0.0, *EDGES, math.inf]
    for place, (low, high) in enumerate(pairwise(edges)):
        within = [one for one in looks if low <= one[0] < high]
        assert found.looks[place] == len(within)
        if within:
            assert math.isclose(found.predicted[place], sum(one[0] for one in within) / len(within), abs_tol=1e-12)
            assert math.isclose(found.came[place], sum(one[2] for one in within) / len(within))
    assert math.isclose(found.brier, sum((one[0] - one[2]) ** 2 for one in looks) / len(looks), abs_tol=1e-12)
    assert math.isclose(found.brier_next, sum((one[0] - one[1]) ** 2 for one in looks) / len(looks), abs_tol=1e-12)
    assert math.isclose(found.base_rate, sum(one[2] for one in looks) / len(looks))
    assert OUTCOMES == ("next", "ahead")


def test_density_at_equal_violations_lies_between_those_that_were_run():
    """Half the violations at every density are reached at a higher one; whoever has too many everywhere is left out."""
    settings = tuple(StudySetting("w", 80.0, density) for density in (1.0, 2.0, 3.0))
    arms = {arm.name: np.array([[2.0], [4.0], [6.0]]) for arm in risk.ARMS}
    arms["prv_worst_fit, gaussian"] = np.array([[1.0], [2.0], [6.0]])
    arms["prv_worst_fit, n-sigma"] = np.array([[10.0], [20.0], [30.0]])
    cause_text = {claim.label: claim.ours for claim in risk.claims(Violations(settings, arms))}
    density = "prv_worst_fit: density at equal violations"
    assert cause_text[f"{density}, gaussian / monte-carlo"] == "1.250 (1 of 1 workloads)"
    assert cause_text[f"{density}, n-sigma / monte-carlo"] == "- (0 of 1 workloads)"
    assert cause_text["prv_worst_fit: gaussian / monte-carlo"].mean == pytest.approx((0.5 + 0.5 + 1.0) / 3)


def test_risk_study_tells_what_every_estimator_did_and_goes_on(tmp_path, monkeypatch):
    """Violations, densities, times and calibration of every estimator, in figures and plots."""
    monkeypatch.setattr(calibration, "FIRST_HOURS", 0)
    given = (*ONE_SETTING[:-1], "1")
    one = study(tmp_path / "one", "risk", *given, "--jobs", "1")
    assert set(one["settings"][0]["violations"]) == {arm.name for arm in risk.ARMS}
    assert [immovable["label"] for immovable in one["calibration"]] == [*risk.ESTIMATORS]
    assert all(sum(immovable["looks"]) == 8 for immovable in one["calibration"]), "eight nodes, once"
    assert f"placement of a tenant, {risk.COMPARED}" in one["counts"]
    for name in ("risk.png", "calibration.png"):
        assert (tmp_path / "one" / name).stat().st_size > 10_000
    again = study(tmp_path / "one", "risk", *given, "--jobs", "1")
    assert again == one, "nothing was run again"
