"""Columns of slots in a ring, and windows of them, compared with lists in order of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.risk.historical_simulation import MISSING, bad_windows, fill_column
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

slots_of_rows = st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=12)


def in_a_ring(values: list[int], first: int) -> np.ndarray:
    """Return values in order of time as a ring whose oldest column is `first`."""
    return np.roll(np.array(values), first)


@examples(300)
@given(slots_of_rows, st.integers(1, 5), st.integers(0, 20), st.integers(0, 11))
def test_slots_that_were_not_lived_through_are_filled_from_those_that_were(slots, day, load, turn):
    """First from a later slot at the same time of the day, then by repetition, then from the load."""
    turn %= len(slots)
    values = in_a_ring([MISSING if value is None else value for value in slots], turn).astype(np.int32)
    column, newest = np.zeros(len(slots), np.int32), (turn - 1) % len(slots)
    fill_column(column, values, load, newest, day, np.zeros((2, len(slots)), np.int64))
    lived = [value for value in reversed(slots) if value is not None]
    right = []
    for at in range(len(slots)):
        later = [value for value in slots[at::day] if value is not None]
        age = len(slots) - 1 - at
        right.append(later[0] if later else lived[age % len(lived)] if lived else load)
    assert column.tolist() == in_a_ring(right, turn).tolist()


@examples(300)
@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 11))
def test_window_is_bad_if_one_of_its_slots_is(hit, length, turn):
    """Windows are those in order of time: none crosses from the newest slot to the oldest."""
    length, turn = min(length, len(hit)), turn % len(hit)
    right = sum(any(hit[at : at + length]) for at in range(len(hit) - length + 1))
    assert bad_windows(in_a_ring(hit, turn).astype(np.uint8), np.array([length, turn])) == right
