"""Sums of a node after a replica joins, leaves or replaces another: kernels compared with plain NumPy."""

from __future__ import annotations

import itertools
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.energy.expected_failovers import violations_with
from plb.energy.expected_overload import overload_with
from plb.energy.node_sums import change_aggregate, change_load
from plb.energy.score import UNITS
from tests.engine.oracle import overload_by_hand
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


class OnNode(NamedTuple):
    """Peaks of the replicas on a node, of one of them, and of one that may join; peaks are (R, K) quanta."""

    staying: np.ndarray
    outgoing: np.ndarray
    incoming: np.ndarray
    threshold: np.ndarray
    scratch: np.ndarray
    slack: np.ndarray
    windows: np.ndarray

    @property
    def aggregate(self) -> np.ndarray:
        """The sums of the node before any change."""
        return self.staying + self.outgoing

    @property
    def ceiling(self) -> np.ndarray:
        """An upper bound of these sums for each metric, not always the least one."""
        return (self.staying.max(axis=1) + self.outgoing.max(axis=1) + self.slack).astype(np.int64)

    @property
    def incoming_ceiling(self) -> np.ndarray:
        """The largest peak of the replica that may join."""
        return self.incoming.max(axis=1).astype(np.int64)


@st.composite
def nodes_with_peaks(draw: st.DrawFn) -> OnNode:
    """Draw small peaks, so that sums are often at, above or below a threshold; the scratch has any values."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    metrics, repetitions = random.randint(1, 3), random.randint(1, 5)

    def numbers(most: int, *shape: int, least: int = 0) -> np.ndarray:
        return np.array([random.randint(least, most) for _ in range(int(np.prod(shape)))]).reshape(shape)

    peaks = [numbers(most, metrics, repetitions).astype(np.int32) for most in (6, 3, 3)]
    threshold = numbers(12, metrics, least=1).astype(np.int32)
    windows = np.array([random.randint(1, repetitions), random.randint(0, repetitions - 1)])
    return OnNode(*peaks, threshold, numbers(1, repetitions).astype(np.uint8), numbers(2, metrics), windows)


def violations(threshold: np.ndarray, sums: np.ndarray, windows: np.ndarray) -> int:
    """Return the number of windows, each listed from its columns, with a metric that reaches its threshold."""
    reached, (length, first) = (sums >= threshold[:, None]).any(axis=0).tolist(), windows.tolist()
    in_time = reached[first:] + reached[:first]
    return sum(any(in_time[at : at + length]) for at in range(len(in_time) - length + 1))


@examples(200)
@given(nodes_with_peaks())
def test_violations_after_a_change_equal_those_of_the_new_sums(node):
    """A replica joins, leaves, replaces another or neither; the scratch has any values before, and then marks them."""
    bounds, ceilings = (node.aggregate, node.threshold), (node.ceiling, node.incoming_ceiling)
    for incoming, outgoing in itertools.product((node.incoming, None), (node.outgoing, None)):
        sums = node.aggregate + (0 if incoming is None else incoming) - (0 if outgoing is None else outgoing)
        hit = node.scratch.copy()
        found = violations_with(*bounds, ceilings, incoming, outgoing, hit, node.windows)
        assert found == violations(node.threshold, sums, node.windows)
        if found and node.windows[0] == 1:
            assert hit.tolist() == (sums >= node.threshold[:, None]).any(axis=0).tolist()


@examples(150)
@given(nodes_with_peaks())
def test_overload_after_a_change_equals_that_of_the_new_sums(node):
    """It is the sum over metrics of the excess in shares of the threshold; exactly at the threshold it is 0."""
    nothing = np.zeros_like(node.incoming)
    none = np.zeros_like(node.incoming_ceiling)

    def right(sums: np.ndarray) -> int:
        return sum(overload_by_hand(row.tolist(), int(t)) for row, t in zip(sums, node.threshold, strict=True))

    of_node = (node.aggregate, node.ceiling, node.threshold)
    found = overload_with(*of_node, node.incoming, node.incoming_ceiling, node.outgoing)
    assert found == right(node.staying + node.incoming)
    assert overload_with(*of_node, nothing, none, nothing) == right(node.aggregate)


def test_overload_is_counted_in_shares_of_the_threshold_up_to_a_thousand():
    """1.5 times the threshold gives half a unit; a metric counts at most 1024 times its threshold."""
    aggregate, nothing, none = np.array([[6, 4]], np.int32), np.zeros((1, 2), np.int32), np.zeros(1, np.int64)
    assert UNITS == 2**20
    found = overload_with(aggregate, np.array([6]), np.array([4], np.int32), nothing, none, nothing)
    assert found == UNITS // 2
    huge = aggregate * 10**6
    found = overload_with(huge, np.array([6 * 10**6]), np.array([1], np.int32), nothing, none, nothing)
    assert found == 2 * 1024 * UNITS


@examples(100)
@given(nodes_with_peaks(), st.integers(0, 1))
def test_peaks_are_added_to_and_taken_from_one_node_only(node, at):
    """Sums of the other node stay; subtraction restores the sums."""
    aggregate = np.stack([node.staying, node.staying])
    ceiling = np.stack([node.ceiling, node.ceiling])
    change_aggregate(aggregate, ceiling, at, node.incoming, node.incoming_ceiling, 1)
    assert (aggregate[at] == node.staying + node.incoming).all()
    assert (ceiling[at] == node.ceiling + node.incoming_ceiling).all()
    assert (aggregate[1 - at] == node.staying).all()
    assert (ceiling[1 - at] == node.ceiling).all()
    change_aggregate(aggregate, ceiling, at, node.incoming, node.incoming_ceiling, -1)
    assert (aggregate == node.staying).all()
    assert (ceiling == node.ceiling).all()


loads_of_nodes = st.integers(1, 3).flatmap(
    lambda metrics: st.tuples(
        st.lists(st.lists(st.integers(0, 9), min_size=metrics, max_size=metrics), min_size=2, max_size=2),
        st.lists(st.lists(st.booleans(), min_size=metrics, max_size=metrics), min_size=2, max_size=2),
        st.lists(st.integers(0, 9), min_size=metrics, max_size=metrics),
    )
)


@examples(100)
@given(loads_of_nodes, st.integers(0, 1), st.sampled_from([1, -1]))
def test_sums_of_loads_and_squares_are_right_after_a_change(drawn, at, sign):
    """They cover the nodes that count for the metric; the load of the node changes in any case."""
    before, counted, load = np.array(drawn[0]), np.array(drawn[1]), np.array(drawn[2])
    total, squares = (before * counted).sum(axis=0), (before**2 * counted).sum(axis=0)
    after = before.copy()
    after[at] += sign * load
    change_load(before, total, squares, counted, at, load, sign)
    assert (before == after).all()
    assert (total == (after * counted).sum(axis=0)).all()
    assert (squares == (after**2 * counted).sum(axis=0)).all()
