"""The live arrays follow what is described; `tests/engine/test_state_machine.py` compares them after any events."""

from __future__ import annotations

import heapq
import math

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.evaluation.delta import compare_with_scratch
from plb.planning.live import live_state
from plb.risk import DemandHistory
from plb.state.demand_forecast import NEVER, empty_queue, set_due, take_due
from tests.engine.strategies import examples


def engine_with_growing_demand() -> PlacementAndLoadBalancing:
    """Return an engine with one replica, whose expected demand grows from what it reports."""
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"] * 2,
        role=[Role.INSTANCE] * 2,
        lifetime=[1e6] * 2,
        level=[[40], [60]],
        initial=[[0], [0]],
        growth=[[1000], [1000]],
        maximum=[[90], [90]],
    )
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], repetitions=8), history=history)
    engine.update_node(Node("n0", capacities={"cpu": 64}))
    engine.update_service(Service("s", stateful=False, tenant_class="gold", target_replicas=1))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.INSTANCE, "n0")]))
    engine.report_load("p", "n0", {"cpu": 10})
    return engine


@pytest.mark.parametrize("change", ["report", "time"])
def test_nodes_with_newly_anchored_peaks_are_summed_again(change):
    """A replica keeps its traces; its expected peaks rise after a report, and fall after it has grown."""
    engine = engine_with_growing_demand()
    planner = engine._planner
    before, traces = planner.start(planner.problem(0.0)).copy(), planner.demand_forecast.trace.copy()
    if change == "report":
        engine.report_load("p", "n0", {"cpu": 20})
    problem = planner.problem(600.0 if change == "time" else 0.0)
    after = planner.start(problem)
    assert np.array_equal(planner.demand_forecast.trace, traces)
    assert (np.sign(after.aggregate - before.aggregate) == (1 if change == "report" else -1)).all()
    compare_with_scratch(problem, after, change)


def test_plan_says_how_many_replicas_had_their_demand_renewed():
    """Those that are new, have a report, or have grown; plans with other such numbers are equal."""
    engine = engine_with_growing_demand()
    renewed = [engine.refresh(now).renewed for now in (0.0, 0.0, 60.0, 1200.0)]
    engine.update_partition(Partition("q", service="s"))
    placed = engine.place("q", now=1200.0)
    engine.apply(placed)
    engine.report_load("p", "n0", {"cpu": 30})
    plans = [engine.refresh(1200.0), engine.refresh(1200.0)]
    assert renewed == [1, 0, 0, 1]
    assert placed.renewed == 1
    assert [plan.renewed for plan in plans] == [1, 0]
    assert attrs.evolve(plans[0], renewed=7) == plans[0]


@pytest.mark.kernels
@examples(200)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from([0.0, 1.0, 2.0, 2.0, 5.0, NEVER, -1.0])), max_size=40))
def test_rows_are_taken_from_the_queue_when_they_are_due(settings):
    """The times are kept in a dictionary beside it; a negative time stands for taking what is due at 2."""
    queue, times = empty_queue(8), dict.fromkeys(range(8), NEVER)
    for row, time in settings:
        if time >= 0.0:
            set_due(queue, row, time)
            times[row] = time
            continue
        found = np.zeros(8, np.int64)
        taken = sorted(found[: take_due(queue, 2.0, found)].tolist())
        assert taken == [one for one, at in times.items() if at <= 2.0]
        times.update(dict.fromkeys(taken, NEVER))
    assert queue.size[0] == sum(at < math.inf for at in times.values())
    in_turn = [(times[row], row) for row in range(8) if times[row] < math.inf]
    heapq.heapify(in_turn)
    found = np.zeros(8, np.int64)
    count = take_due(queue, 5.0, found)
    assert [times[row] for row in found[:count].tolist()] == [heapq.heappop(in_turn)[0] for _ in range(count)]
    assert not in_turn


@pytest.mark.kernels
def test_another_replica_makes_no_new_problem():
    """Only the product form depends on the number of replicas; a new problem costs kernels a new pointer."""
    config = PlbConfig(metrics=[Metric("cpu")])
    engine = PlacementAndLoadBalancing(config)
    engine.update_node(Node("n0", capacities={"cpu": 10.0}))
    engine.update_service(Service("web", stateful=False, target_replicas=1))
    engine.update_partition(Partition("web/0", service="web"))
    problem = engine._planner.problem(0.0)
    engine.update_partition(Partition("web/1", service="web"))
    assert engine._planner.problem(0.0) is problem
    engine.configure(PlbConfig(metrics=[Metric("cpu")], combination="service_fabric"))
    offsets = [engine._planner.problem(0.0).weights.product_offset]
    engine.update_partition(Partition("web/2", service="web"))
    offsets.append(engine._planner.problem(0.0).weights.product_offset)
    assert offsets == [2 + config.move_cost_offset, 3 + config.move_cost_offset]


def test_service_for_each_tenant_makes_no_new_arrays():
    """A service that comes, changes or goes costs its own rows; arrays are made new only when they have to grow."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    planner, made = engine._planner, []
    for index in range(4):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100.0}))
    for index in range(60):
        engine.update_service(Service(f"s{index}", stateful=False, target_replicas=2))
        engine.update_partition(Partition(f"s{index}", service=f"s{index}"))
        engine.apply(engine.place(f"s{index}", now=float(index), budget=50))
        engine.update_service(Service(f"s{index}", stateful=False, target_replicas=3))
        engine.apply(engine.place(f"s{index}", now=float(index), budget=50))
        if index % 3 == 0:
            engine.remove_partition(f"s{index}")
            engine.remove_service(f"s{index}")
        origin = planner.problem(float(index)).origin
        made += [] if made and made[-1] is origin else [origin]
    table = engine._state.service_table
    sizes_of_services = {16, 24, 36, 54, 81}
    assert table.capacity in sizes_of_services
    assert len(made) <= len(sizes_of_services) + 3  # the rows have grown twice, from 64 to 144
    assert {len(engine.replicas(f"s{index}")) for index in range(60) if index % 3} == {3}


def test_engine_works_again_after_memory_was_short(monkeypatch):
    """The sums of a new engine do not fit, then they do."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0", capacities={"cpu": 4}))

    def short(*_):
        raise MemoryError

    with monkeypatch.context() as context:
        context.setattr(live_state, "solution_from_scratch", short)
        for _ in range(2):
            with pytest.raises(MemoryError):
                engine.node_loads()
    assert engine.node_loads() == {"n0": {"cpu": 0.0}}
