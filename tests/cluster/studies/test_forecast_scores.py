"""Scores of predicted probabilities, compared with counts one prediction at a time."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.studies.forecast_scores import BINS, NodePredictions, scores_of

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
