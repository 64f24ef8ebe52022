"""New replicas without a node are placed again, with new ones in their way; others leave for what is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Node, Partition, PlacementAndLoadBalancing, Service
from plb.array_types import NOWHERE
from plb.compiler import Stream
from plb.evaluation.delta import compare_with_scratch
from plb.model.rules import ALL_RULES
from plb.search.placement import _place_randomly
from plb.search.result import Search
from plb.testing import clusters
from tests.engine.stories import add_instance, engine_on, search_of
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


def placed(engine: PlacementAndLoadBalancing, seed: int, tries: int, *, together: bool) -> list[tuple[int, int]]:
    """Place all missing replicas in so many tries; return each with the node that it got, and check all sums."""
    run = search_of(engine)
    table, solution = engine._state.rows, run.solution.copy()
    rows = np.flatnonzero(table.used & ~table.leaving & (solution.node == NOWHERE))
    ring = [min(engine._state.partitions[engine._state.row_partition[row]].rows) for row in rows.tolist()]
    order = np.lexsort((rows, ring))
    rows, groups = rows[order], np.array(ring, np.int64)[order] if len(rows) else rows
    groups = groups if together else np.full(len(rows), NOWHERE)
    _place_randomly(Search(run.problem, solution, run.config), rows, groups, ALL_RULES, tries, Stream(seed))
    compare_with_scratch(run.problem, solution, "after the tries")
    nodes = solution.node[rows].tolist()
    for group in {*groups.tolist()} - {NOWHERE}:
        of_group = [node == NOWHERE for node, other in zip(nodes, groups.tolist(), strict=True) if other == group]
        assert all(of_group) or not any(of_group), "a group is placed all or not at all"
    return [*zip(rows.tolist(), nodes, strict=True)]


@examples(40)
@given(cluster=clusters(), seed=st.integers(0, 2**31), together=st.booleans())
def test_more_tries_place_as_many_or_more(cluster, seed, together):
    """The first try is the same; without a replica that finds no node it is the only one."""
    engine = cluster.engine()
    once = placed(engine, seed, 1, together=together)
    often = placed(engine, seed, 10, together=together)
    assert sum(node != NOWHERE for _, node in often) >= sum(node != NOWHERE for _, node in once)
    if all(node != NOWHERE for _, node in once):
        assert often == once


def two_full_nodes() -> PlacementAndLoadBalancing:
    """Return an engine in which one large new replica and four small ones fill two nodes."""
    engine = engine_on(*(Node(name, capacities={"cpu": 13}) for name in ("n0", "n1")))
    add_instance(engine, 4, name="small", instances=1)
    for index in range(3):
        engine.update_partition(Partition(f"small{index}", service="small-service"))
    add_instance(engine, 8, name="large")
    return engine


def test_smaller_new_replicas_make_way():
    """The last replica is the largest: it finds a node only where three of the others are together."""
    engine = two_full_nodes()
    first_tries = [placed(engine, seed, 1, together=False)[-1][1] for seed in range(20)]
    assert NOWHERE in first_tries
    for seed in range(20):
        assert all(node != NOWHERE for _, node in placed(engine, seed, 20, together=False))


def test_siblings_that_stay_keep_their_spread():
    """Where a replica makes way and finds no node again, its siblings do not stay in one fault domain."""
    nodes = (Node(f"n{n}", capacities={"cpu": 20}, fault_domain=f"fd:/{n % 2}") for n in range(6))
    engine = engine_on(*nodes)
    for name, load in (("small", 5), ("large", 9)):
        engine.update_service(Service(name, stateful=False, target_replicas=3, default_load={2: {"cpu": load}}))
        for index in range(3):
            engine.update_partition(Partition(f"{name}/{index}", service=name))
    for seed in range(100):
        found: dict[str, list[int]] = {}
        for row, node in placed(engine, seed, 20, together=False):
            if node != NOWHERE:
                found.setdefault(engine._state.row_partition[row], []).append(node % 2)
        assert all(abs(2 * sum(domains) - len(domains)) <= 1 for domains in found.values())


def test_what_is_in_nobodys_way_stays():
    """A child and its parents aside, replicas are placed again only on a few nodes that are cleared."""
    engine = engine_on(*(Node(f"n{index}", capacities={"cpu": 10}) for index in range(60)))
    engine.update_service(Service("small", stateful=False, default_load={2: {"cpu": 6}}))
    for index in range(60):
        engine.update_partition(Partition(f"small/{index}", service="small"))
    add_instance(engine, 20, name="never")
    once, often = (placed(engine, 7, tries, together=False) for tries in (1, 2))
    assert once == often
    assert often[-1][1] == NOWHERE
