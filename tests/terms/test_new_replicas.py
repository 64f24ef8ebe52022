"""New replicas in each ready-made term: the value after a placement is that of its loads and moves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import Partition
from plb.ready_made import MetricBalance, MostMovedService, MoveCostBetweenDomains, SafetyCapacity
from tests.terms.walks import CAPACITIES, NODES, engine_with

pytestmark = pytest.mark.kernels

Loads = dict[str, dict[str, float]]


def above_half(loads: Loads) -> float:
    return sum(max(0.0, load["cpu"] - CAPACITIES["cpu"] / 2) for load in loads.values())


def short_of_disk(loads: Loads) -> float:
    """Return what nodes with free CPU lack of free disk, three units for each."""
    free = [{metric: CAPACITIES[metric] - load[metric] for metric in CAPACITIES} for load in loads.values()]
    return sum(max(0.0, 3 * one["cpu"] - one["disk"]) for one in free)


TERMS = {
    "safety_capacity": (SafetyCapacity({"cpu": 0.5}), above_half),
    "metric_balance": (MetricBalance("cpu", "disk", 3), short_of_disk),
    "move_cost_between_domains": (MoveCostBetweenDomains({}, default=1.0), lambda _: 0.0),
    "most_moved_service": (MostMovedService(), lambda _: 0.0),
}


@pytest.mark.parametrize("name", TERMS)
@settings(max_examples=12, deadline=None)
@given(
    standing=st.lists(st.tuples(st.integers(1, 2), st.integers(0, 4)), min_size=1, max_size=3),
    new=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=3),
)
def test_value_after_a_placement_follows_from_loads(name: str, standing, new):
    """The chain adds it up from changes and compares it with that from scratch; moved are only placed replicas."""
    term, value = TERMS[name]
    engine = engine_with(term, standing, ["s"] * len(standing), checks="step")
    for index, load in enumerate(new):
        engine.update_partition(Partition(f"new{index}", service="s"))
        engine.report_role_load(f"new{index}", "instance", dict(zip(CAPACITIES, load, strict=True)))
    before = value(engine.node_loads())
    plan = engine.place(budget=300)
    engine.apply(plan)
    assert plan.energy_before.extension_terms[name] == before
    assert plan.energy_after.extension_terms[name] == pytest.approx(value(engine.node_loads()))
    assert {move.target for move in plan.moves} <= set(NODES)
    assert len(plan.moves) == len(new)


def test_new_replica_goes_to_where_the_term_is_least():
    """The first node has load up to its safety capacity, and the others have none."""
    engine = engine_with(SafetyCapacity({"cpu": 0.5}), [(5, 0)], ["s"])
    engine.update_partition(Partition("new", service="s"))
    engine.report_role_load("new", "instance", {"cpu": 5})
    plan = engine.place()
    assert plan.moves[0].target in NODES[1:]
    assert plan.energy_after.extension_terms == {"safety_capacity": 0.0}
