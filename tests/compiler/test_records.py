"""Records: numbers with names that kernels and Python change in place."""

from __future__ import annotations

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import InvalidValueError
from plb.compiler import Record, by_pointer, kernel
from tests.engine.strategies import examples


class Tally(Record):
    """A number of every kind."""

    late: bool
    count: int
    share: float


class Factors(NamedTuple):
    """Numbers that kernels only read."""

    doubled: bool
    share: float


@by_pointer
class Tallies(NamedTuple):
    """A record and a tuple of numbers between arrays."""

    before: np.ndarray
    tally: Tally
    factors: Factors
    after: np.ndarray


@kernel
def note(tally: Tally, count: int, share: float) -> None:
    tally.count += count
    tally.share = tally.share + share
    tally.late = tally.count > 3


@kernel
def note_by_pointer(tallies: Tallies, count: int) -> float:
    """Add to the record of a tuple, and return what surrounds it."""
    note(tallies.tally, 2 * count if tallies.factors.doubled else count, tallies.factors.share)
    return float(tallies.before[0] + tallies.after[-1])


@pytest.mark.kernels
@examples(30)
@given(st.lists(st.tuples(st.integers(-9, 9), st.booleans(), st.floats(-2, 2)), max_size=4))
def test_kernels_change_the_record_that_python_reads(steps):
    """Whether it is handed over alone or within a tuple; the arrays and numbers around it are what they were."""
    tally, count, share = Tally.new(), 0, 0.0
    for number, doubled, more in steps:
        tallies = Tallies(np.full(2, 4), tally, Factors(doubled, more), np.full(3, 5))
        assert note_by_pointer(tallies, number) == 9.0
        note(tally, 1, 0.5)
        count, share = count + (2 * number if doubled else number) + 1, share + more + 0.5
        assert (tally.count, tally.share, tally.late) == (count, share, count > 3)


@pytest.mark.parametrize("copied", [Tally.copy, copy.deepcopy, lambda tally: pickle.loads(pickle.dumps(tally))])
def test_copy_of_a_record_is_its_own(copied):
    tally = Tally.new()
    tally.count = 3
    other = copied(tally)
    note(other, 1, 0.25)
    assert type(other) is Tally
    assert (tally.tolist(), other.tolist()) == ((False, 3, 0.0), (True, 4, 0.25))


def test_name_of_a_method_is_refused():
    """Python would find the method, and kernels the number."""
    with pytest.raises(InvalidValueError, match=r"record .*Rounds: name = 'round' is not allowed"):

        class Rounds(Record):
            round: int
