"""The Gaussian of a machine's total, compared with formulas in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.risk.gaussian import Total, observe

AMOUNTS = st.floats(0.0, 1e3, allow_subnormal=False)
DEVIATIONS = st.floats(1e-3, 1e3)


@given(st.lists(st.tuples(AMOUNTS, DEVIATIONS, AMOUNTS), min_size=1, max_size=5))
def test_probability_is_the_tail_of_the_normal_distribution(machines: list[tuple[float, float, float]]) -> None:
    """It equals 1 − F(c) by the complementary error function, for many machines at once."""
    mean, deviation, capacity = (np.array(column) for column in zip(*machines, strict=True))
    found = Total(mean, deviation**2).probability_of_reaching(capacity)
    expected = [math.erfc((c - m) / (d * math.sqrt(2.0))) / 2.0 for m, d, c in machines]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-300)


@given(AMOUNTS, AMOUNTS)
def test_without_variance_the_total_is_its_mean(mean: float, capacity: float) -> None:
    found = Total(np.array([mean]), np.zeros(1)).probability_of_reaching(capacity)
    assert found.tolist() == [float(mean >= capacity)]


@given(AMOUNTS, DEVIATIONS, st.floats(1e-6, 1.0 - 1e-6))
def test_percentile_is_reached_with_the_remaining_probability(mean: float, deviation: float, share: float) -> None:
    total = Total(np.array([mean]), np.array([deviation**2]))
    found = total.probability_of_reaching(total.percentile(share))[0]
    assert found == pytest.approx(1.0 - share, rel=1e-6, abs=1e-9)


@given(st.integers(1, 5), st.integers(2, 30), st.integers(1, 3), st.integers(0, 2**32))
def test_realised_totals_have_the_sum_of_all_covariances(tasks: int, count: int, resources: int, seed: int) -> None:
    values = np.random.default_rng(seed).random((tasks, count, resources)) * 100.0
    realised = Total.of_realisations(values)
    pairs = [np.cov(values[:, :, r], ddof=0).reshape(tasks, tasks) for r in range(resources)]
    covariance = np.stack(pairs, axis=-1)
    known = observe(values)
    np.testing.assert_allclose(realised.mean, known.mean.sum(axis=0))
    np.testing.assert_allclose(realised.variance, covariance.sum(axis=(0, 1)), atol=1e-9)
    independent = Total.of_independent(known.mean, known.variance)
    np.testing.assert_allclose(independent.variance, np.trace(covariance))


def test_unlimited_capacity_is_never_reached() -> None:
    assert Total(np.ones(2), np.array([0.0, 4.0])).probability_of_reaching(math.inf).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Total(np.ones(1), -np.ones(1)), InvalidValueError, r"variance\[0\].*>= 0"),
        (lambda: Total(np.ones(1), np.ones(2)), ConflictError, r"shape \(1,\), variance \(2,\)"),
        (lambda: Total(np.ones(1), np.ones(1)).percentile(1.0), InvalidValueError, "share"),
        (lambda: Total(np.ones(1), np.ones(1)).probability_of_reaching(np.nan), InvalidValueError, "capac"),
        (lambda: Total.of_independent(["a"], ["b"]), ConflictError, "no array of numbers"),
    ],
)
def test_bad_values_are_refused(call: Any, kind: type[PlbError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
