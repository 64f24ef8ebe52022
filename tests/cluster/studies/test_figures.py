"""Figures of studies, compared with results by hand."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.studies.design import StudySetting
from cluster.studies.figures import violations_of


def rows(counts):
    """Return runs with these violations by density and arm."""
    return [
        {"workload": "w", "vcores": 80.0, "density": density, "arm": arm, "repeat": repeat, "violations": count}
        for density, of_arms in counts.items()
        for arm, of_repeats in of_arms.items()
        for repeat, count in enumerate(of_repeats)
        if count is not None
    ]


def settings_of(counts):
    """Return a setting for each density."""
    return [StudySetting("w", 80.0, density) for density in counts]


def found_of(counts):
    """Return the violations of runs, given by density and arm."""
    return violations_of(settings_of(counts), rows(counts))


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 20), min_size=2, max_size=2), min_size=3, max_size=3), min_size=1, max_size=4
    )
)
def test_ratio_is_the_mean_of_the_ratios_of_means(table):
    """Settings in which the second arm has no violations are omitted and counted."""
    counts = {float(index): dict(zip("abc", of_arms, strict=True)) for index, of_arms in enumerate(table)}
    ratio = found_of(counts).ratio(["a", "b"], "c")
    expected = [
        min(sum(of_arms["a"]), sum(of_arms["b"])) / sum(of_arms["c"])
        for of_arms in counts.values()
        if sum(of_arms["c"])
    ]
    assert (ratio.settings, ratio.without) == (len(expected), len(counts) - len(expected))
    if expected:
        assert math.isclose(ratio.mean, float(np.mean(expected)))
        assert ratio.low is None or ratio.low <= ratio.mean * (1 + 1e-9)
        assert ratio.high is None or ratio.high >= ratio.mean * (1 - 1e-9)
    else:
        assert ratio.mean is None


def test_interval_has_no_width_where_repeats_agree_and_is_missing_for_one_repeat():
    """The interval describes only the variation between repeats."""
    alike = found_of({1.0: {"a": [6, 6, 6], "b": [2, 2, 2]}, 2.0: {"a": [4, 4, 4], "b": [4, 4, 4]}}).ratio(["a"], "b")
    assert (alike.mean, alike.low, alike.high) == (2.0, 2.0, 2.0)
    once = found_of({1.0: {"a": [6], "b": [2]}}).ratio(["a"], "b")
    assert (once.mean, once.low, once.high) == (3.0, None, None)


def test_interval_without_the_mean_is_omitted():
    """In each setting, one of two repeats has almost no violations, so most resamples have a larger ratio."""
    few = found_of({1.0: {"a": [10, 10], "b": [1, 9]}}).ratio(["a"], "b")
    assert few.low < few.mean == 2.0 < few.high
    many = found_of({float(number): {"a": [10, 10], "b": [1, 9]} for number in range(60)}).ratio(["a"], "b")
    assert (many.mean, many.low, many.high) == (2.0, None, None)


def test_ties_count_as_equally_good():
    """A setting without violations in both arms is a tie."""
    found = found_of({1.0: {"a": [0], "b": [0]}, 2.0: {"a": [3], "b": [3]}, 3.0: {"a": [4], "b": [3]}})
    assert found.at_least_as_good("a", ["b"]) == 2
    assert found.at_least_as_good("b", ["a"]) == 3


def test_failed_repeat_is_omitted_for_all_arms():
    """The comparison uses only repeats of all arms. A setting without such a repeat is omitted."""
    counts = {1.0: {"a": [5, 7, 9], "b": [1, None, 3]}, 2.0: {"a": [2, 4, 6], "b": [1, 1, 1]}}
    found = found_of(counts)
    assert found.counts["a"].tolist() == [[5, 9], [2, 4]]
    assert found.counts["b"].tolist() == [[1, 3], [1, 1]]
    assert found_of({1.0: {"a": [5], "b": [None]}, 2.0: {"a": [2], "b": [1]}}).settings == (
        StudySetting("w", 80.0, 2.0),
    )
