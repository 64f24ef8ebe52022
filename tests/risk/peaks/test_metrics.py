"""Savings, violation rate and severity, by machine and by cell."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plb.risk.peaks import cell_metrics, machine_metrics, savings_ratio, violation_severity, violations

NONE = float("nan")
MACHINE = np.array([4, 4, 4, 9, 9])
TIME = np.array([0, 300, 600, 0, 300])
LIMIT = np.array([10.0, 10.0, 10.0, 4.0, 0.0])
PEAK = np.array([5.0, 8.0, 9.0, 3.0, 0.0])
ORACLE = np.array([8.0, 8.0, NONE, 4.0, 0.0])


def test_metrics_by_machine_are_means_over_its_steps():
    """Steps without an oracle do not count; a limit of 0 has no savings."""
    found = machine_metrics(MACHINE, LIMIT, PEAK, ORACLE)
    assert found.machine.tolist() == [4, 9]
    assert found.steps.tolist() == [2, 2]
    np.testing.assert_allclose(found.savings, [(0.5 + 0.2) / 2, (0.25 + 0.0) / 2])
    np.testing.assert_allclose(found.violation_rate, [0.5, 0.5])
    np.testing.assert_allclose(found.violation_severity, [3 / 8 / 2, 1 / 4 / 2])


def test_savings_of_the_cell_compare_total_limits():
    """Savings compare the sums of all machines at each time, not their ratios."""
    found = cell_metrics(TIME, LIMIT, PEAK, ORACLE)
    assert found.time.tolist() == [0, 300]
    np.testing.assert_allclose(found.savings, [1 - 8 / 14, 1 - 8 / 10])
    np.testing.assert_allclose(found.violation_rate, [1.0, 0.0])
    np.testing.assert_allclose(found.violation_severity, [(3 / 8 + 1 / 4) / 2, 0.0])


def test_rounding_is_no_violation():
    """A prediction may be a billionth below the oracle."""
    oracle = np.array([1.0, 1.0, 1e-30, 0.0])
    peak = np.array([1.0 - 1e-10, 1.0 - 1e-8, 1e-30 * (1 - 1e-8), 0.0])
    assert violations(peak, oracle).tolist() == [False, True, True, False]
    assert (violation_severity(peak, oracle) > 0.0).tolist() == [False, True, True, False]


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=30))
def test_metrics_are_within_their_ranges(rows: list[tuple[float, float, float]]):
    limit, peak, oracle = (np.array(column) for column in zip(*rows, strict=True))
    saved = savings_ratio(np.minimum(peak, limit), limit)
    assert ((saved >= 0) & (saved <= 1)).all()
    severity = violation_severity(peak, oracle)
    assert ((severity > 0) == violations(peak, oracle)).all()
    assert (severity <= 1).all()
