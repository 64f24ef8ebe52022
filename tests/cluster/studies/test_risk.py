"""The study of risk: densities at equal violations, and the whole command."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.studies import risk
from cluster.studies.design import StudySetting
from cluster.studies.figures import Violations
from tests.cluster.small_studies import ONE_SETTING, study


def test_density_at_equal_violations_is_interpolated():
    """Half the violations occur at a higher density.

    An estimator with too many violations at all densities has none.
    """
    settings = tuple(StudySetting("w", 80.0, density) for density in (1.0, 2.0, 3.0))
    arms = {arm.name: np.array([[2.0], [4.0], [6.0]]) for arm in risk.ARMS}
    arms["prv_worst_fit, gaussian"] = np.array([[1.0], [2.0], [6.0]])
    arms["prv_worst_fit, n-sigma"] = np.array([[10.0], [20.0], [30.0]])
    study = risk.RiskStudy(None)
    claims = {claim.label: claim.ours for claim in study.claims(Violations(settings, arms))}
    density = "prv_worst_fit: density at equal violations"
    assert claims[f"{density}, gaussian / monte-carlo"] == "1.250 (1 of 1 workloads)"
    assert claims[f"{density}, n-sigma / monte-carlo"] == "- (0 of 1 workloads)"
    assert claims["prv_worst_fit: gaussian / monte-carlo"].mean == pytest.approx((0.5 + 0.5 + 1.0) / 3)


def test_risk_study_has_the_figures_of_every_estimator_and_resumes(tmp_path):
    """Figures and plots contain violations, densities and times of every estimator."""
    given = (*ONE_SETTING[:-1], "1")
    one = study(tmp_path / "one", "risk", *given, "--jobs", "1")
    assert set(one["settings"][0]["violations"]) == {arm.name for arm in risk.ARMS}
    assert f"placement of a tenant, {risk.RiskStudy.compared}" in one["counts"]
    assert (tmp_path / "one" / "risk.png").stat().st_size > 10_000
    again = study(tmp_path / "one", "risk", *given, "--jobs", "1")
    assert again == one, "no run was repeated"
