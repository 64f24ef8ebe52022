"""The even spread of a partition over domains, compared with counts by domain."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plb.state.arrays import NOWHERE
from plb.state.spread import spreads_badly

pytestmark = pytest.mark.kernels


def is_refused(domains: list[int], places: list[int], row: int, target: int) -> bool:
    """Return whether `row` on `target` spreads badly: domain of each node, and node of each replica of a partition."""
    others = Counter(domains[node] for index, node in enumerate(places) if index != row and node != NOWHERE)
    to, replicas, share = domains[target], others.total() + 1, (others.total() + 1) / len(set(domains))
    if len(places) == 1:
        return False
    if places[row] != NOWHERE:
        source = domains[places[row]]
        if source == to:
            return False
        if others[source] + 1 <= share:
            return True
    if others[to] == 0:
        return False
    if others[to] >= share:
        return True
    floor = replicas // len(set(domains))
    return others[to] >= floor and any(others[domain] < floor for domain in domains)


@st.composite
def moves(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """Generate the domain of each node, the nodes of the replicas of a partition, one of the replicas, and a target."""
    count = draw(st.integers(1, 4))
    domains = [*range(count), *draw(st.lists(st.integers(0, count - 1), max_size=3))]
    nodes = st.integers(0, len(domains) - 1)
    places = draw(st.lists(nodes | st.just(NOWHERE), min_size=1, max_size=9))
    return domains, places, draw(st.integers(0, len(places) - 1)), draw(nodes)


@example(([0, 1, 2], [NOWHERE, 0, 2, 2], 0, 0))  # at the floor, and domain 1 is empty
@example(([0, 1, 2], [2, 0, 1, 2, 2], 0, 0))  # no domain is below the floor
@example(([0, 1], [0, 1, 1, 1], 0, 1))  # a move that leaves its domain below the floor
@given(moves())
def test_a_spread_is_refused_at_the_ceiling_and_below_the_floor(move: tuple[list[int], list[int], int, int]) -> None:
    domains, places, row, target = move
    count = len(set(domains))
    levels = [np.array(values, np.int32) for values in (domains, [0] * len(domains), [count] * len(domains))]
    ring, unspread = np.roll(np.arange(len(places)), -1), np.zeros(len(places), np.bool_)
    refused = spreads_badly(*levels, np.array(places), ring, unspread, False, row, target)
    assert refused == is_refused(domains, places, row, target)
