"""A copied engine, and one that is pickled and read back, is a separate engine that makes the same plans."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.testing import all_clusters

from .fingerprint import snapshot
from .strategies import examples

WAYS = {"copied": copy.deepcopy, "pickled": lambda engine: pickle.loads(pickle.dumps(engine))}


@examples(30)
@given(all_clusters(), st.sampled_from(sorted(WAYS)), st.integers(0, 2))
def test_twin_makes_the_same_plans(cluster, way, plans):
    """The plans are equal after any number of earlier plans, and stay equal."""
    engine = cluster.engine()
    for now in range(plans):
        engine.apply(engine.refresh(float(now), budget=60))
    twin = WAYS[way](engine)
    assert snapshot(twin) == snapshot(engine)
    for now in (10.0, 20.0):
        plan = engine.refresh(now, budget=60)
        assert twin.refresh(now, budget=60) == plan
        engine.apply(plan)
        twin.apply(plan)


@pytest.mark.parametrize("way", WAYS)
def test_twin_shares_nothing_that_changes(way, small_cluster):
    """A report to one engine does not change the other."""
    engine = small_cluster.engine()
    engine.refresh(0.0, budget=40)
    twin = WAYS[way](engine)
    before = snapshot(engine)
    twin.report_load("db/0", "n0", {"cpu": 9})
    twin.remove_partition("web/0")
    twin.refresh(5.0, budget=40)
    assert snapshot(engine) == before


def test_descriptions_stay_read_only(small_cluster):
    node = copy.deepcopy(small_cluster.nodes[0])
    assert node == small_cluster.nodes[0]
    with pytest.raises(TypeError):
        node.capacities["cpu"] = 3
