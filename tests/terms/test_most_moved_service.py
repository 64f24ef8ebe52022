"""The most moved service: by hand, after random walks with exact sums, beside an enumeration, and with bad input."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import InvalidValueError
from plb.ready_made import MostMovedService, SafetyCapacity
from plb.testing import all_clusters, verify
from tests.machines import short_machine_of
from tests.terms.walks import assert_sums_follow, engine_with, least

pytestmark = pytest.mark.kernels

TestMostMoved = short_machine_of(MostMovedService())


@settings(max_examples=60, deadline=None)
@given(all_clusters(), st.data())
def test_sums_follow_every_walk_and_its_way_back(cluster, data):
    """Also with swaps of roles, exchanges, new replicas and dropped ones."""
    assert_sums_follow(MostMovedService(), cluster, data)


def test_moves_by_hand():
    """Replicas of one partition are of one service; the others have services of their own."""
    replicas = [(0, 1, "p"), (1, 1, "p"), (2, 1, "p"), (0, 1, "q"), (1, 1, "q")]
    facts = verify(MostMovedService()).given(nodes=6, replicas=replicas)
    facts.totals(0).moves((0, 3)).totals(1).moves((1, 4)).totals(2).moves((3, 4)).totals(2).changes_by(2)
    facts.moves((0, 0)).totals(1).moves((4, 5)).totals(2).moves((3, 0)).totals(1).changes_by(1)
    facts.exchanges((1, 4)).totals(1).moves((1, 1)).totals(1).moves((4, 1)).totals(0).changes_by(0)


def test_a_swap_of_roles_is_no_move():
    """If one of both goes on, both have moved."""
    facts = verify(MostMovedService()).given(nodes=3, replicas=[(0, 1, "p"), (1, 1, "p")])
    facts.exchanges((0, 1)).changes_by(0).moves((0, 2)).changes_by(2).moves((0, 1)).changes_by(0).totals(0)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.tuples(st.integers(1, 3), st.integers(0, 4)), st.sampled_from("ab")), min_size=1, max_size=5)
)
def test_search_weighs_moves_against_load(replicas: list[tuple[tuple[int, int], str]]):
    """With a cost of load beside it, the energy is the least over all placements."""
    loads, services = [load for load, _ in replicas], [service for _, service in replicas]
    if sum(cpu for cpu, _ in loads) > 10 or sum(disk for _, disk in loads) > 20:
        return
    engine = engine_with(MostMovedService(), loads, services, SafetyCapacity({"cpu": 0.1}, weights={"cpu": 0.75}))

    def cost(nodes: tuple[int, ...], sums: list[tuple[int, int]]) -> float:
        moved = [service for service, node in zip(services, nodes, strict=True) if node > 0]
        return max(map(moved.count, services)) + 0.75 * sum(max(0, cpu - 1) for cpu, _ in sums)

    plan = engine.balance(budget=5_000)
    assert sum(plan.energy_after.extension_terms.values()) == least(loads, cost)


def test_a_bad_name_is_refused():
    with pytest.raises(InvalidValueError, match="energy term: name = ''"):
        MostMovedService(name="")
