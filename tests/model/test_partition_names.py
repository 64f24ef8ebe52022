"""Names of partitions in plans: they share one list, and do not change when it grows."""

from __future__ import annotations

import pickle
from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from plb.model.partition import PartitionNames

names = st.lists(st.text(max_size=3), max_size=6)


@given(names, names)
def test_names_are_those_of_a_tuple_made_at_the_same_time(first, later):
    """Each way to read them gives what the tuple gives, also after the list has grown."""
    shared = list(first)
    view, expected = PartitionNames(shared), tuple(first)
    shared += later
    assert tuple(view) == expected
    assert view == expected
    assert list(expected) == view
    assert len(view) == len(expected)
    assert hash(view) == hash(expected)
    assert repr(view) == repr(expected)
    assert [view[at] for at in range(-len(expected), len(expected))] == [*expected, *expected]
    assert view[1:] == list(expected[1:])
    assert all((name in view) == (name in expected) for name in (*first, *later, 1))
    assert (PartitionNames(shared) == view) == (not later)


@given(names)
def test_copies_share_nothing(first):
    """A copy and a pickled one are equal, and the list of the first may grow."""
    shared = list(first)
    view = PartitionNames(shared)
    copies = deepcopy(view), pickle.loads(pickle.dumps(view))
    shared.append("later")
    assert copies == (view, view)
    assert view != "later"
    assert view != 1
