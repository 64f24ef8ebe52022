"""The study of risk: densities at equal violations, and the whole command."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.studies import risk
from cluster.studies.design import StudySetting, middle_of_each
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


def test_the_default_counts_as_good_where_no_other_estimator_is_better_beyond_the_interval():
    """Fewer violations in each repeat are better; fewer in some repeats, more in others, are not."""
    settings = tuple(StudySetting("w", 80.0, density) for density in (1.0, 2.0, 3.0))
    arms = {arm.name: np.full((3, 5), 10.0) for arm in risk.ARMS}
    arms["expected_overload, gaussian"] = np.array([[9.0] * 5, [4.0, 13.0, 9.0, 14.0, 8.0], [20.0] * 5])
    arms["prv_worst_fit, monte-carlo"] = np.array([[0.0] * 5, [9.0] * 5, [11.0] * 5])
    claims = {claim.label: claim.ours for claim in risk.RiskStudy(None).claims(Violations(settings, arms))}
    assert claims["expected_overload: settings where no estimator is better than monte-carlo"] == "2 of 3"
    assert claims["prv_worst_fit: settings where no estimator is better than monte-carlo"] == "2 of 3"
    assert claims["original / expected_overload, gaussian"].mean == pytest.approx((10 / 9 + 10 / 9.6 + 0.5) / 3)


def test_the_middle_densities_of_each_workload_are_compared():
    """Of five densities, the two from the middle on; a workload with fewer densities keeps all."""
    four = [StudySetting("a", 80.0, density) for density in (4.0, 2.0, 3.0, 1.0)]
    five = [StudySetting("b", 80.0, density) for density in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert [(one.workload, one.density) for one in middle_of_each([*four, *five], 2)] == [
        ("a", 2.0),
        ("a", 3.0),
        ("b", 3.0),
        ("b", 4.0),
    ]
    assert [one.density for one in middle_of_each([*four, *five], 1)] == [3.0, 3.0]
    assert middle_of_each(four[:1], 2) == four[:1]
