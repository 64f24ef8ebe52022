"""An engine that is stopped between two changes, of which the second undoes the first, knows that all is as before.

In each story, balancing or repair has ended, so that it does not run again. The engine that was never stopped and its
twin have to agree on that.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from plb import (
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.model.outcome import Idle
from plb.risk import DemandHistory

from .twins import check_same_arrays, check_same_state, restored

INSTANCE = Role.INSTANCE


def engine_of(*, history: DemandHistory | None = None, **settings: Any) -> PlacementAndLoadBalancing:
    """Return three nodes with uneven instances of a service, so that balancing has work."""
    config = PlbConfig(metrics=[Metric("cpu")], **{"w_imbalance": 1000.0, **settings})
    engine = PlacementAndLoadBalancing(config, seed=3, history=history)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("web", stateful=False))
    for index in range(4):
        engine.update_partition(Partition(f"w{index}", service="web", replicas=[Replica(INSTANCE, f"n{index % 2}")]))
        engine.report_load(f"w{index}", f"n{index % 2}", {"cpu": 5.0 + index})
    return engine


def ended(engine: PlacementAndLoadBalancing) -> PlacementAndLoadBalancing:
    """Balance until an engine has nothing to do; return it."""
    for _ in range(2):
        engine.apply(engine.balance(now=0.0))
    assert engine.balance(now=0.0).end_reason.startswith("nothing has changed")
    return engine


def check_both(engine: PlacementAndLoadBalancing, twin: PlacementAndLoadBalancing, *, unchanged: bool = True) -> None:
    """Compare the next plans; `unchanged`: balancing does not run, because nothing has changed."""
    plans = [one.balance(now=0.0) for one in (engine, twin)]
    assert plans[0] == plans[1]
    assert (plans[0].end_reason.startswith("nothing has changed")) == unchanged
    check_same_arrays(engine, twin, 0.0)


def test_settings_that_return():
    """Other settings end the memory only when they are used."""
    engine = ended(engine_of())
    known = engine.config
    engine.configure(attrs.evolve(known, w_imbalance=500.0, held_out_nodes=1))
    twin = restored(engine)
    check_same_state(engine, twin)
    for one in (engine, twin):
        one.configure(known)
    check_both(engine, twin)


def test_settings_that_change_and_stay():
    """The twin searches with the new ones."""
    engine = ended(engine_of())
    engine.configure(attrs.evolve(engine.config, w_imbalance=500.0))
    check_both(engine, restored(engine), unchanged=False)


def test_loads_that_return():
    """A report between is as if never made."""
    engine = ended(engine_of())
    node = engine.replicas("w0")[0].node
    engine.report_load("w0", node, {"cpu": 50.0})
    twin = restored(engine)
    for one in (engine, twin):
        one.report_load("w0", node, {"cpu": 5.0})
    check_both(engine, twin)


def test_loads_that_change_and_stay():
    """The twin knows what a search has ended with, although it never had that load itself."""
    engine = ended(engine_of())
    engine.report_load("w0", engine.replicas("w0")[0].node, {"cpu": 50.0})
    check_both(engine, restored(engine), unchanged=False)


def test_load_that_no_plan_accepts_and_that_is_corrected():
    """Only the next plan refuses it, as without a snapshot; once corrected, nothing has changed."""
    engine = engine_of()
    metric = attrs.evolve(engine.config.metrics[0], balancing_by_percentage=True)
    engine.configure(attrs.evolve(engine.config, metrics=[metric]))
    ended(engine)
    place = engine.replicas("w0")[0].node
    engine.report_load("w0", place, {"cpu": 200_000.0})
    twin = restored(engine)
    for one in (engine, twin):
        one.report_load("w0", place, {"cpu": 5.0})
    check_both(engine, twin)
    engine.report_load("w0", place, {"cpu": 200_000.0})
    for one in (engine, restored(engine)):
        with pytest.raises(InvalidValueError, match="load of a node over the least capacity"):
            one.balance(now=0.0)


def test_twin_of_a_twin():
    """A second stop before the next plan loses nothing, and keeps the first change and the second."""
    engine = ended(engine_of())
    places = {name: engine.replicas(name)[0].node for name in ("w0", "w1")}
    engine.report_load("w0", places["w0"], {"cpu": 50.0})
    twin = restored(engine)
    for one in (engine, twin):
        one.report_load("w1", places["w1"], {"cpu": 60.0})
    twin = restored(twin)
    check_same_state(engine, twin)
    for one in (engine, twin):
        one.report_load("w0", places["w0"], {"cpu": 5.0})
        one.report_load("w1", places["w1"], {"cpu": 6.0})
    check_both(engine, twin)


def test_partition_that_makes_a_local_domain_and_leaves():
    """Its service is balanced by itself while it has two partitions."""
    engine = engine_of(local_domain_weight=0.25)
    engine.update_service(Service("alone", stateful=False))
    engine.update_partition(Partition("a0", service="alone", replicas=[Replica(INSTANCE, "n2")]))
    ended(engine)
    engine.update_partition(Partition("a1", service="alone", replicas=[Replica(INSTANCE, "n1")]))
    twin = restored(engine)
    for one in (engine, twin):
        one.remove_partition("a1")
    check_both(engine, twin)


def with_child(parents: int) -> PlacementAndLoadBalancing:
    """Return an engine with partitions of a parent, the second without replicas, and a child on another node."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], w_imbalance=1000.0), seed=1)
    for index in range(2):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("parent", stateful=False))
    engine.update_service(Service("child", stateful=False, affinity_to="parent"))
    engine.update_partition(Partition("c", service="child", replicas=[Replica(INSTANCE, "n0")]))
    engine.update_partition(Partition("a", service="parent", replicas=[Replica(INSTANCE, "n0")]))
    if parents == 2:
        engine.update_partition(Partition("b", service="parent", missing=0))
    engine.report_load("c", "n0", {"cpu": 3.0})
    return engine


def test_parent_that_leaves_and_returns():
    """The child has the same parent as when the search ended."""
    engine = with_child(1)
    for _ in range(2):
        engine.apply(engine.balance(now=0.0))
    place = engine.replicas("a")[0].node
    engine.remove_partition("a")
    twin = restored(engine)
    for one in (engine, twin):
        one.update_partition(Partition("a", service="parent", replicas=[Replica(INSTANCE, place)]))
    plans = [one.balance(now=0.0) for one in (engine, twin)]
    assert plans[0] == plans[1]
    assert [plan.outcomes[0].end_reason for plan in plans] == [plans[0].end_reason] * 2
    check_same_arrays(engine, twin, 0.0)


def test_partition_without_replicas_that_leaves():
    """No row has changed, but a child follows its parent again."""
    engine = with_child(2)
    engine.update_partition(Partition("c", service="child", replicas=[Replica(INSTANCE, "n1")]))
    assert engine.repair().moves == ()
    engine.remove_partition("b")
    twin = restored(engine)
    plans = [one.repair() for one in (engine, twin)]
    assert plans[0] == plans[1]
    assert [move.target for move in plans[1].moves] == ["n0"]
    check_same_arrays(engine, twin, 0.0)


def test_departing_end_in_a_row_that_was_sampled_before():
    """What is left of earlier samples in the row of a departing end is part of what a search has ended with."""
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["x"],
        role=[INSTANCE],
        lifetime=[1e6],
        initial=[[2.0]],
        level=[[7.0]],
        growth=[[0.0]],
        maximum=[[50.0]],
    )
    engine = engine_of(history=history, w_failovers=0.1)
    engine.update_partition(Partition("old", service="web", replicas=[Replica(INSTANCE, "n2")]))
    engine.violations()
    engine.remove_partition("old")
    at = engine.replicas("w0")[0].node
    described = Partition("w0", service="web", replicas=[Replica(INSTANCE, "n2", pinned=True)])
    both = attrs.evolve(described, replicas=[*described.replicas, Replica(INSTANCE, at, leaving=True)])
    engine.update_partition(both)
    ended(engine)
    engine.update_partition(described)
    twin = restored(engine, history)
    for one in (engine, twin):
        one.update_partition(both)
    check_both(engine, twin)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_throttles_and_delays_continue(steps):
    """One action for each refresh, with its intervals, throttles and moves under way, at any moment of the story."""
    settings = {
        "one_action_per_refresh": True,
        "global_movement_throttle_threshold": 2,
        "movement_per_partition_throttle_threshold": 1,
        "min_load_balancing_interval": 10.0,
        "balancing_delay_after_new_node": 5.0,
        "max_movement_execution_time": 100.0,
    }
    engine = engine_of(**settings)
    engine.update_node(Node("n3", capacities={"cpu": 100}), now=3.0)
    seen = set()
    for step in range(8):
        if step == steps:
            twin = restored(engine)
            check_same_state(engine, twin)
        now = 4.0 * step
        plan = engine.refresh(now)
        seen |= {*plan.outcomes[0].idle.values()}
        engine.apply(plan)
        if step >= steps:
            assert twin.refresh(now) == plan
            twin.apply(plan)
            check_same_state(engine, twin)
    assert seen & {Idle.NODE_EVENT, Idle.UNDER_WAY, Idle.THROTTLED, Idle.PARTITIONS_THROTTLED, Idle.NOT_DUE}
