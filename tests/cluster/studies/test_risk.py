"""The study of risk: densities at equal violations, and the whole command."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.studies import risk
from cluster.studies.base import base_of_regions
from cluster.studies.design import StudySetting, middle_of_each
from cluster.studies.figures import Violations
from cluster.studies.request import StudyRequest
from cluster.studies.runner import OutputDirectory
from tests.cluster.small_studies import ONE_SETTING, study


def test_density_at_equal_violations_is_interpolated():
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


def test_risk_study_has_the_figures_of_every_estimator(tmp_path):
    one = study(tmp_path / "one", "risk", *ONE_SETTING[:-1], "1", "--jobs", "1")
    assert set(one["settings"][0]["violations"]) == {arm.name for arm in risk.ARMS}
    assert f"placement of a tenant, {risk.RiskStudy.compared}" in one["counts"]
    assert (tmp_path / "one" / "risk.png").stat().st_size > 10_000


BETTER = "settings where no estimator is better than monte-carlo"


def violations(repeats: int, **of_arms: list[list[float]]) -> Violations:
    """Return the violations in as many settings as the arms have, or three: 10 in each run of an arm without counts."""
    count = max((len(counts) for counts in of_arms.values()), default=3)
    settings = tuple(StudySetting("w", 80.0, 1.0 + number) for number in range(count))
    usual = {arm.name: np.full((count, repeats), 10.0) for arm in risk.ARMS}
    return Violations(settings, usual | {name: np.array(counts) for name, counts in of_arms.items()})


def claims_of(found: Violations) -> dict[str, object]:
    """Return the figures by label."""
    return {claim.label: claim.ours for claim in risk.RiskStudy(None).claims(found)}


def test_default_is_good_where_no_other_estimator_is_better_beyond_the_interval():
    """Fewer violations in each repeat are better; fewer in some repeats, more in others, are not.

    In the last setting, the best by its mean varies more and is not certain to be better, but the second best is.
    """
    arms = {
        "expected_overload, gaussian": [[9] * 5, [4, 13, 9, 14, 8], [20] * 5, [0, 0, 20, 4, 16]],
        "expected_overload, n-sigma": [*[[10] * 5] * 3, [9] * 5],
        "prv_worst_fit, monte-carlo": [[0] * 5, [9] * 5, [11] * 5, [10] * 5],
    }
    claims = claims_of(violations(5, **arms))
    assert claims[f"expected_overload: {BETTER}"] == "2 of 4"
    assert claims[f"prv_worst_fit: {BETTER}"] == "3 of 4"
    mean = (10 / 9 + 10 / 9.6 + 10 / 20 + 10 / 8) / 4
    assert claims["original / expected_overload, gaussian"].mean == pytest.approx(mean)


def test_a_single_repeat_does_not_say_whether_the_default_is_good():
    assert [label for label in claims_of(violations(1)) if label.endswith(BETTER)] == []


def test_tables_have_the_original_energy_and_all_estimators_with_each_policy():
    given = {"prv_worst_fit, max": [[1.0], [2.0], [3.0]], "expected_overload, max": [[4.0], [5.0], [6.0]]}
    search, placement = risk.RiskStudy(None).tables(violations(1, **given))
    assert (search.remark, placement.remark) == (", expected_overload", ", prv_worst_fit")
    assert list(search.columns) == list(placement.columns) == ["original", *risk.ESTIMATORS]
    assert search.columns["max"].tolist() == [4.0, 5.0, 6.0]
    assert placement.columns["max"].tolist() == [1.0, 2.0, 3.0]
    assert search.columns["original"].tolist() == placement.columns["original"].tolist() == [10.0] * 3


@pytest.mark.parametrize("given", [None, (1.9,)])
def test_study_has_two_densities_of_each_region_or_those_of_the_user(tmp_path, given):
    """They are the two in the middle of the four of the study of annealing."""
    base = base_of_regions(["region3", "region4"])
    request = StudyRequest(base=base, output=OutputDirectory(tmp_path), densities=given)
    chosen = [(one.workload, one.density) for one in risk.RiskStudy.of(request).design.settings]
    middle = [("region3", 1.29), ("region3", 1.56), ("region4", 1.38), ("region4", 1.54)]
    assert chosen == (middle if given is None else [("region3", 1.9), ("region4", 1.9)])


def test_the_middle_densities_of_each_workload_are_compared():
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
