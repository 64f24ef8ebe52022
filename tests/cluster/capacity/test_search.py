"""The search, compared with an exhaustive search on synthetic curves."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cluster.capacity.question import least_sufficient


def searched(sufficient, start, lowest, highest, first_step):
    """Return the result of the search, and the tried places in order."""
    search = least_sufficient(start, lowest, highest, first_step)
    tried = [next(search)]
    while True:
        try:
            tried.append(search.send(tried[-1] in sufficient))
        except StopIteration as end:
            return end.value, tried


@st.composite
def lines(draw):
    """Return both ends of a line, a start on it, and a first step."""
    lowest = draw(st.integers(-60, 60))
    highest = draw(st.integers(lowest, lowest + 120))
    return draw(st.integers(lowest, highest)), lowest, highest, draw(st.integers(1, 9))


@given(lines(), st.integers(-70, 190))
def test_smallest_sufficient_place_is_found_on_a_monotone_curve(line, edge):
    """Exhaustive search gives the same place, and None if no place suffices."""
    _, lowest, highest, _ = line
    sufficient = {place for place in range(lowest, highest + 1) if place >= edge}
    assert searched(sufficient, *line)[0] == min(sufficient, default=None)


@given(lines(), st.sets(st.integers(-60, 180)))
def test_answer_suffices_and_its_predecessor_fails_on_any_curve(line, sufficient):
    """The curve need not be monotone. Without an answer, the last place was tried and fails."""
    _, lowest, highest, _ = line
    found, tried = searched(sufficient, *line)
    assert len(set(tried)) == len(tried)
    assert all(lowest <= place <= highest for place in tried)
    if found is None:
        assert highest in tried
        assert highest not in sufficient
    else:
        assert found in tried
        assert found in sufficient
        assert found == lowest or (found - 1 in tried and found - 1 not in sufficient)


@given(lines(), st.integers(-70, 190))
def test_number_of_tries_is_logarithmic(line, edge):
    """The bound is twice the logarithm of the distance, plus a constant."""
    start, lowest, highest, _ = line
    sufficient = {place for place in range(lowest, highest + 1) if place >= edge}
    found, tried = searched(sufficient, *line)
    distance = abs(start - (highest if found is None else found))
    assert len(tried) <= 2 * math.log2(distance + line[3] + 1) + 4
