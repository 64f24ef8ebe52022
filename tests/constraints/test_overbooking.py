"""Over-booking of nodes: what counts the capacity, and what the total capacity with the over-booked part."""

from __future__ import annotations

import math
from fractions import Fraction

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Application,
    ConflictError,
    InsufficientCapacityError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.model.quanta import UNLIMITED
from plb.state.topology import LARGEST_THRESHOLD
from plb.testing import busy_clusters, configuration_of
from tests.engine.stories import add_instance, engine_with
from tests.engine.strategies import examples

SHARES = [0.1, 0.35, 1.0, 3.0, None]


def overbooked(share: float | None, **fields) -> Metric:
    """Return the metric of the tests, which may be over-booked by a share; None: without limit."""
    return Metric("cpu", **{"quantum": 1.0, "violation_threshold": 1.0, **fields}, node_overbooking_percentage=share)


@pytest.mark.parametrize("overbooking", [0.1, None])
def test_a_metric_has_a_buffer_or_is_overbooked(overbooking):
    """Both together are refused, also under their original names."""
    message = "metric cpu: node_buffer_percentage and node_overbooking_percentage exclude each other"
    with pytest.raises(ConflictError, match=message):
        Metric("cpu", node_buffer_percentage=0.1, node_overbooking_percentage=overbooking)
    given = {"NodeBufferPercentage": {"cpu": 0.1}, "NodeOverbookingPercentage": {"cpu": overbooking or -1}}
    with pytest.raises(ConflictError, match=message):
        PlbConfig.from_service_fabric(given, metrics=[Metric("cpu")])


@pytest.mark.parametrize(("share", "largest"), [(0.0, 10), (0.25, 12), (1.0, 20), (None, 1000)])
def test_new_replicas_fill_a_node_to_its_total_capacity(share, largest):
    """Of a capacity of 10 and over-booking of a quarter the total is 12.5, in whole quanta 12."""
    for load, fits in ((largest, True), (largest + 1, share is None)):
        engine = engine_with({"n0": 10}, {}, metric=overbooked(share))
        add_instance(engine, load)
        assert bool(engine.place().moves) is fits


@examples(60)
@given(busy_clusters(), st.sampled_from(SHARES))
def test_balancing_overbooks_no_node(cluster, share):
    """A node that gains load stays within its capacity, or does not exceed its earlier load."""
    metrics = tuple(attrs.evolve(one, node_overbooking_percentage=share) for one in cluster.metrics)
    engine = attrs.evolve(cluster, metrics=metrics).engine()
    before = configuration_of(engine)
    engine.apply(engine.balance(budget=240))
    after = configuration_of(engine).solution.node_load
    grown = after > before.solution.node_load
    assert (~grown | (after + before.problem.leaving_load <= engine._state.capacity)).all()


@examples(100)
@given(
    st.integers(0, 300),
    st.sampled_from(SHARES),
    st.sampled_from([0.5, 0.95, 1.0]),
    st.sampled_from(["threshold", "capacity"]),
)
def test_limits_follow_from_the_total_capacity(capacity, share, threshold, kind):
    """The threshold is f·(1 + o)·c, the limit just below it or (1 + o)·c; moves and repairs keep to the capacity."""
    metric = overbooked(share, violation_threshold=threshold)
    engine = engine_with({"n0": capacity}, {}, metric=metric, capacity_limit=kind)
    problem = configuration_of(engine).problem
    found = [int(of[0, 0]) for of in (problem.limit, problem.threshold, problem.repair_limit, problem.move_limit)]
    if share is None:
        assert found == [UNLIMITED, LARGEST_THRESHOLD, capacity, capacity]
        return
    total = capacity + math.floor(Fraction(str(share)) * capacity)
    reached = max(1, math.ceil(Fraction(str(threshold)) * total))
    limit = total if kind == "capacity" else reached - 1
    assert found == [limit, reached, min(limit, capacity), min(limit, capacity)]


@pytest.mark.parametrize("settings", [{}, {"policy": "prv_worst_fit"}])
@pytest.mark.parametrize(("load", "moved"), [(10, False), (11, True)])
@pytest.mark.parametrize("share", [0.5, None])
def test_repair_brings_a_node_back_to_its_capacity(share, load, moved, settings):
    """A node above its capacity is relieved by a move to one with room below its own; then there is nothing to do."""
    metric = overbooked(share)
    nodes, loads = {"n0": 10, "n1": 10, "n2": 20}, {"a": ("n0", load), "b": ("n1", 10)}
    engine = engine_with(nodes, loads, metric=metric, **settings)
    plan = engine.repair()
    assert [(move.source, move.target) for move in plan.moves] == [("n0", "n2")] * moved
    assert [move.reason.numbers for move in plan.moves] == [{"load": load, "limit": 10}] * moved
    engine.apply(plan)
    assert not engine.repair().moves


def test_alternatives_and_scores_of_new_replicas_use_the_total():
    """The other node takes a waiting replica of 11, and not the placed one, for which only the capacity counts."""
    engine = engine_with({"n0": 10, "n1": 10}, {"a": ("n0", 11)}, metric=overbooked(0.5))
    (stands,) = engine.alternatives("a")
    assert [one.changes for one in stands.closed] == [("1 more cpu must be free on n1 (it needs 11 and 10 is free)",)]
    add_instance(engine, 11)
    (waits,) = engine.alternatives("new")
    assert [place.node for place in waits.places] == ["n1"]
    assert engine.score("new").fits.tolist() == [False, True]


@pytest.mark.parametrize("share", [0.5, None])
def test_admission_and_total_capacities_count_the_capacity(share):
    engine = engine_with({"n0": 10}, {}, metric=overbooked(share))
    assert engine.total_capacities() == {"cpu": 10}
    engine.update_application(Application("fits", minimum_nodes=1, node_reservation={"cpu": 10}))
    engine.configure(attrs.evolve(engine.config, refuse_applications_without_capacity=True))
    with pytest.raises(InsufficientCapacityError, match="needs 1 cpu, but the cluster has 0 left"):
        engine.update_application(Application("large", minimum_nodes=1, node_reservation={"cpu": 1}))


@pytest.mark.parametrize("relaxes", [True, False])
@pytest.mark.parametrize(("share", "swaps"), [(0.5, True), (0.0, False)])
def test_roles_handed_over_for_an_upgrade_may_use_the_total(share, swaps, relaxes):
    """The new primary makes its node exceed the capacity, not the total; without either the setting decides."""
    config = PlbConfig(
        metrics=[overbooked(share)], capacity_limit="capacity", relax_capacity_constraint_for_upgrade=relaxes
    )
    engine = PlacementAndLoadBalancing(config, seed=1)
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 10}))
    engine.update_service(Service("db", target_replicas=2))
    upgraded = Replica(Role.PRIMARY, "n0", upgrade="swap_out")
    engine.update_partition(Partition("db/0", service="db", replicas=[upgraded, Replica(Role.SECONDARY, "n1")]))
    engine.report_role_load("db/0", Role.PRIMARY, {"cpu": 12})
    assert bool(engine.place().moves) is (swaps or relaxes)


@pytest.mark.parametrize("policy", ["prv_worst_fit", "prv_best_fit", "first_fit"])
def test_policies_place_new_replicas_up_to_the_total(policy):
    engine = engine_with({"n0": 10}, {"a": ("n0", 10)}, metric=overbooked(0.5), policy=policy)
    for load, fits in ((6, False), (5, True)):
        add_instance(engine, load)
        assert bool(engine.place().moves) is fits
