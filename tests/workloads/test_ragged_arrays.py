"""Reductions over segments, compared with plain NumPy on each segment."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import trace

LISTS = st.lists(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=9), min_size=1, max_size=6)


@given(LISTS, st.sampled_from([0.1, 0.5, 0.9, 0.95, 1.0]))
def test_reductions_agree_with_each_segment(parts: list[list[float]], share: float) -> None:
    rows = np.array([value for part in parts for value in part], np.float32)
    bounds = trace.bounds_of(np.array([len(part) for part in parts]))
    assert trace.maximum(rows, bounds).tolist() == [max(part) for part in parts]
    assert trace.minimum(rows, bounds).tolist() == [min(part) for part in parts]
    np.testing.assert_allclose(trace.mean(rows, bounds), [np.mean(part) for part in parts], rtol=1e-6)
    ranked = [sorted(part)[math.ceil(round(share * len(part), 9)) - 1] for part in parts]
    assert trace.percentile(rows, bounds, share).tolist() == ranked
    assert trace.step_of_row(bounds).tolist() == [k for part in parts for k in range(len(part))]
    assert trace.per_row(np.arange(len(parts)), bounds).tolist() == [i for i, part in enumerate(parts) for _ in part]


@given(LISTS)
def test_first_where_finds_the_first_row_or_the_end(parts: list[list[float]]) -> None:
    rows = np.array([value for part in parts for value in part], np.float32)
    bounds = trace.bounds_of(np.array([len(part) for part in parts]))
    expected = [next((k for k, value in enumerate(part) if value > 50), len(part)) for part in parts]
    assert trace.first_where(rows > 50, bounds).tolist() == expected


def test_negative_zero_does_not_change_the_percentile() -> None:
    """A negative zero, which has a large bit pattern, counts as zero."""
    rows = np.array([-0.0, 1.0, 2.0], np.float32)
    assert trace.percentile(rows, np.array([0, 3]), 0.9)[0] == pytest.approx(2.0)
    assert trace.percentile(rows, np.array([0, 3]), 0.1)[0] == pytest.approx(0.0)


@given(LISTS, st.integers(0, 12))
def test_highest_ahead_is_limited_to_the_horizon_and_the_segment(parts: list[list[float]], steps: int) -> None:
    rows = np.array([value for part in parts for value in part], np.float32)
    bounds = trace.bounds_of(np.array([len(part) for part in parts]))
    expected = [max(part[k : k + steps + 1]) for part in parts for k in range(len(part))]
    assert trace.highest_ahead(rows, bounds, steps).tolist() == expected
    both = trace.highest_ahead(np.stack([rows, -rows], axis=1), bounds, steps)
    assert both[:, 0].tolist() == expected


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_rows_of_chosen_segments(lengths: list[int], data: st.DataObject) -> None:
    bounds = trace.bounds_of(np.array(lengths))
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=8))
    rows, result = trace.rows_of(np.array(chosen, np.int64), bounds)
    expected = [list(range(bounds[place], bounds[place + 1])) for place in chosen]
    assert [rows[a:b].tolist() for a, b in pairwise(result)] == expected
    assert result[-1] == len(rows) == sum(map(len, expected))
