"""Recalibration: a monotone map that fits outcomes best, compared with pooling of adjacent violators in fractions."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize  # noqa: F401  # its first import takes longer than an example of Hypothesis may
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError
from plb.risk import Recalibration

PROBABILITY = st.floats(0, 1) | st.sampled_from((0.0, 5e-324, 1e-300, 0.25, 0.5, 0.5 + 2**-53, 1.0 - 2**-53, 1.0))
SAMPLES = st.lists(st.tuples(PROBABILITY, st.booleans()), min_size=1, max_size=60)


def pooled(samples):
    """Return mean probability, share of violations and size of each block, as fractions."""
    blocks = []
    for level in sorted({probability for probability, _ in samples}):
        outcomes = [occurred for probability, occurred in samples if probability == level]
        blocks.append([Fraction(level) * len(outcomes), Fraction(sum(outcomes)), len(outcomes)])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]:
            above = blocks.pop()
            blocks[-1] = [one + other for one, other in zip(blocks[-1], above, strict=True)]
    return [(total / size, violations / size, size) for total, violations, size in blocks]


def fitted(samples):
    return Recalibration.fit(*zip(*samples, strict=True))


@given(SAMPLES)
def test_the_points_are_the_blocks_of_the_isotonic_regression(samples):
    """The reference pools adjacent violators one level after the other, without rounding."""
    found, blocks = fitted(samples), pooled(samples)
    assert found.recalibrated == tuple(float(share) for _, share, _ in blocks)
    assert found.predicted == pytest.approx([float(mean) for mean, _, _ in blocks], rel=1e-14)


@given(SAMPLES, st.lists(PROBABILITY, min_size=2))
def test_the_map_is_monotone_and_within_the_shares(samples, others):
    found = fitted(samples)
    ordered = np.sort(np.array([*others, *found.predicted]))
    became = found(ordered)
    assert (np.diff(became) >= 0.0).all()
    assert found.recalibrated[0] <= became[0] <= became[-1] <= found.recalibrated[-1]
    assert found(np.array(found.predicted)).tolist() == list(found.recalibrated)


@given(SAMPLES)
def test_json_holds_the_map(samples):
    found = fitted(samples)
    assert Recalibration.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


@given(st.lists(st.tuples(PROBABILITY, PROBABILITY), min_size=1, unique_by=lambda one: one[0]), st.lists(PROBABILITY))
def test_between_the_points_the_map_is_linear(points, others):
    predicted, recalibrated = (sorted(values) for values in zip(*points, strict=True))
    found = Recalibration(predicted, recalibrated)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.interp(others, predicted, recalibrated)
    usual = np.isfinite(expected) & (expected <= 1.0)  # in an interval of 1e-308 the slope is beyond all numbers
    assert found(others)[usual] == pytest.approx(expected[usual], abs=1e-12)


def test_probabilities_by_node_keep_their_names():
    found = Recalibration((0.2, 0.6), (0.1, 0.3))
    assert found({"n0": 0.0, "n1": 0.4, "n2": 1}) == pytest.approx({"n0": 0.1, "n1": 0.2, "n2": 0.3})
    assert found({}) == {}
    assert found([[0.4], [0.9]]).tolist() == [[pytest.approx(0.2)], [0.3]]
    assert found(0.2).shape == ()
    assert found([]).shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Recalibration.fit([], []), "probability = 'an array of shape (0,)' is not allowed"),
        (lambda: Recalibration.fit([0.1], [True, False]), "equal length, at least 1; occurred has the shape (2,)"),
        (lambda: Recalibration.fit([[0.1]], [[True]]), "an array of shape (1, 1)"),
        (lambda: Recalibration.fit([0.1, 1.5], [True, False]), "probability = 1.5 is not allowed"),
        (lambda: Recalibration.fit([float("nan")], [True]), "probability = nan is not allowed"),
        (lambda: Recalibration.fit(["high"], [True]), "probability = ['high'] is not allowed"),
        (lambda: Recalibration.fit([0.1], [2]), "occurred = [2] is not allowed; expected True or False"),
        (lambda: Recalibration.fit([0.1], ["yes"]), "occurred = ['yes'] is not allowed"),
        (lambda: Recalibration.fit([0.1, 0.2], [[True], [True, False]]), "occurred = [[True], [True, False]]"),
        (lambda: Recalibration((), ()), "predicted = [] is not allowed; expected at least one number"),
        (lambda: Recalibration((0.1, 0.1), (0.2, 0.3)), "predicted = [0.1, 0.1] is not allowed"),
        (lambda: Recalibration((0.1, 0.2), (0.3, 0.2)), "in non-decreasing order"),
        (lambda: Recalibration((0.1, 0.2), (0.3,)), "expected 2 numbers, as many as in predicted"),
        (lambda: Recalibration((0.1,), (1.1,)), "recalibrated[0] = 1.1 is not allowed"),
        (lambda: Recalibration((0.1,), ("a",)), "recalibrated[0] = 'a' is not allowed"),
        (lambda: Recalibration.from_json({"predicted": [0.1]}), "recalibrated = [] is not allowed"),
        (lambda: Recalibration.from_json([0.1]), "json = [0.1] is not allowed"),
        (lambda: Recalibration((0.1,), (0.2,))([-0.1]), "probability = -0.1 is not allowed"),
        (lambda: Recalibration((0.1,), (0.2,))({"n0": 2.0}), "n0 = 2.0 is not allowed"),
    ],
)
def test_wrong_values_are_named(call, message):
    with pytest.raises(InvalidValueError) as error:
        call()
    assert message in str(error.value)
