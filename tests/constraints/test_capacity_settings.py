"""Settings of capacity: transient overcommit, node buffer, replicas in build."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.evaluation.delta import compare_with_scratch
from plb.model import ReplicaState
from plb.testing import all_clusters, busy_clusters, configuration_of, walks
from tests.engine.stories import engine_with
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

LIMITED = {"maximum_in_build_replicas_per_node": {"small": 1}}


@examples(60)
@given(all_clusters(), st.data())
def test_sums_of_departures_and_arrivals_are_exact(cluster, data):
    """After any walk they equal those from scratch; after the way back they are empty again."""
    configuration = configuration_of(cluster.engine(prevent_transient_overcommit=True, **LIMITED))
    start, done = configuration.solution.copy(), []
    for proposal in data.draw(walks(configuration)):
        done.append(configuration.apply(proposal))
        compare_with_scratch(configuration.problem, configuration.solution, "walk")
    for proposal in reversed(done):
        configuration.apply(proposal)
    assert configuration.solution.departed.tolist() == start.departed.tolist()
    assert configuration.solution.arrivals.tolist() == start.arrivals.tolist()


@examples(80)
@given(busy_clusters())
def test_no_order_of_moves_overfills_a_node(cluster):
    """Present and arriving replicas of a node fit together; a swap of roles counts by the load that it adds."""
    engine = cluster.engine(prevent_transient_overcommit=True)
    plan = engine.balance(budget=240)
    problem = configuration_of(engine).problem
    load = problem.load
    most = {}
    for move in plan.moves:
        source, target = (engine._state.node_index[name] for name in (move.source, move.target))
        if move.kind is MoveKind.SWAP:
            ring = engine._state.partitions[move.partition].rows
            other = next(r for r in ring if problem.origin[r] == target and problem.role[r] == Role.SECONDARY)
            gains = [(target, load[move.index] - load[other]), (source, load[other] - load[move.index])]
        else:
            gains = [(target, load[move.index])]
        for node, gain in gains:
            most[node] = most.get(node, 0) + gain.clip(0)
    before = configuration_of(engine).solution.node_load + problem.leaving_load
    for node, gain in most.items():
        assert ((gain == 0) | (before[node] + gain <= problem.limit[node])).all()


def test_constraint_check_may_use_capacity_freed_in_the_same_plan():
    engine = engine_with({"n0": 10, "n1": 10}, {"a": ("n0", 6), "b": ("n0", 6)}, prevent_transient_overcommit=True)
    assert [m.kind for m in engine.repair().moves] == [MoveKind.MOVE]


def with_memory(loads, placed, **memory):
    """Return an engine with nodes n0 to n2 of 10 memory: replicas by node, CPU and memory, some with allowed nodes."""
    metrics = [Metric("cpu"), Metric("memory", **memory)]
    config = PlbConfig(metrics=metrics, w_imbalance=1000.0, max_percentage_to_move=1.0, capacity_limit="capacity")
    engine = PlacementAndLoadBalancing(config, seed=3)
    for name in ("n0", "n1", "n2"):
        engine.update_node(Node(name, capacities={"memory": 10}, properties={"name": name}))
    for name, (node, cpu, used) in loads.items():
        allowed = " || ".join(f"name == {one}" for one in placed.get(name, (node,)))
        engine.update_service(Service(name, stateful=False, placement_constraint=allowed))
        engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(name, node, {"cpu": cpu, "memory": used})
    return engine


@pytest.mark.parametrize(("transient", "moves"), [(False, 2), (True, 0)])
def test_load_of_a_transient_metric_leaves_with_the_end_of_the_plan(transient, moves):
    """Two replicas exchange their nodes for CPU; their memory, if it counts on both, does not fit twice."""
    loads = {"a": ("n0", 30, 6), "b": ("n1", 2, 6), "c": ("n0", 30, 0), "d": ("n1", 2, 0), "e": ("n2", 32, 0)}
    both = ("n0", "n1")
    assert len(with_memory(loads, {"a": both, "b": both}, transient=transient).balance().moves) == moves


@pytest.mark.parametrize(("transient", "moved"), [(False, {"a", "b"}), (True, {"b"})])
def test_transient_metric_counts_on_both_nodes_in_repairs(transient, moved):
    """Replica b has to leave n1; the place that it frees is for a, which has to leave n0, if it is free at once."""
    loads = {"a": ("n0", 0, 6), "c": ("n0", 0, 6), "b": ("n1", 0, 6)}
    engine = with_memory(loads, {"a": ("n0", "n1"), "b": ("n2",)}, transient=transient)
    assert {move.partition for move in engine.repair().moves} == moved


@pytest.mark.parametrize(("counts", "moves"), [(True, 0), (False, 1)])
@pytest.mark.parametrize(("verb", "capacity"), [("balance", 10), ("repair", 6)])
def test_disappearing_load_counts_unless_set_otherwise(verb, capacity, counts, moves):
    """One of two instances is to leave n0; the load that leaves n1 excludes it there only if it counts."""
    engine = engine_with(
        {"n0": capacity, "n1": 10},
        {"a": ("n0", 4), "b": ("n0", 4)},
        prevent_transient_overcommit=True,
        count_disappearing_load_for_simulated_annealing=counts,
    )
    leaving = Replica(Role.INSTANCE, "n1", leaving=True)
    engine.update_partition(Partition("gone", service="web", replicas=[leaving], missing=0))
    engine.report_load("gone", "n1", {"cpu": 8})
    assert len(getattr(engine, verb)().moves) == moves


@pytest.mark.parametrize(("capacity", "moves"), [(10, 0), (8, 1), (4, 2), (0, 3)])
def test_capacity_below_the_load_is_accepted_and_mended(capacity, moves):
    """Three instances of 3 leave a node of which the capacity falls until the others fit; new ones go elsewhere."""
    metric = Metric("cpu", quantum=1.0, violation_threshold=1.0)
    engine = engine_with({"n0": 10, "n1": 20}, dict.fromkeys("abc", ("n0", 3)), metric=metric)
    engine.update_node(Node("n0", capacities={"cpu": capacity}))
    assert bool(engine.violations()) is bool(moves)
    plan = engine.repair()
    assert [(move.source, move.target, move.reason.rule) for move in plan.moves] == [("n0", "n1", "capacity")] * moves
    engine.apply(plan)
    assert not engine.violations()


@pytest.mark.parametrize("settings", [{}, {"policy": "prv_worst_fit"}])
@pytest.mark.parametrize(("buffer", "moved"), [(0.0, False), (0.2, False), (0.3, True)])
def test_repair_frees_the_buffer(buffer, moved, settings):
    """A load of 8 on a capacity of 10 is in the buffer of 0.3. It moves where it is in no buffer, and stays there."""
    metric = Metric("cpu", quantum=1.0, violation_threshold=1.0, node_buffer_percentage=buffer)
    engine = engine_with({"n0": 10, "n1": 11, "n2": 20}, {"a": ("n0", 8)}, metric=metric, **settings)
    plan = engine.repair()
    assert [(move.source, move.target) for move in plan.moves] == [("n0", "n2")] * moved
    engine.apply(plan)
    assert not engine.repair().moves


@examples(60)
@given(busy_clusters(), st.sampled_from([0.1, 0.35, 0.9, 1.0]))
def test_balancing_fills_no_node_into_its_buffer(cluster, buffer):
    """A node that gains load stays within (1 - b) of its capacity, or does not exceed its earlier load."""
    cluster = attrs.evolve(
        cluster, metrics=tuple(attrs.evolve(m, node_buffer_percentage=buffer) for m in cluster.metrics)
    )
    engine = cluster.engine()
    before = configuration_of(engine)
    engine.apply(engine.balance(budget=240))
    after = configuration_of(engine).solution.node_load
    grown = after > before.solution.node_load
    most = (engine._state.capacity * (1 - buffer)) + 1e-6
    assert (~grown | (after + before.problem.leaving_load <= most)).all()


def typed(nodes: int = 2) -> list[Node]:
    return [Node(f"n{index}", capacities={"cpu": 100}, properties={"NodeType": "small"}) for index in range(nodes)]


def stateful_engine(nodes: int = 2, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with small nodes, a node without a limit, and a service of two replicas."""
    engine = engine_with([*typed(nodes), Node("big", capacities={"cpu": 200})], {}, **settings)
    engine.update_service(Service("db", target_replicas=2))
    return engine


def add_pair(engine: PlacementAndLoadBalancing, name: str, *replicas: Replica) -> None:
    """Add a partition with its primary on the node without a limit."""
    engine.update_partition(Partition(name, service="db", replicas=[Replica(Role.PRIMARY, "big"), *replicas]))


@pytest.mark.parametrize(
    ("settings", "built"),
    [
        ({"throttle_placement_phase": True, **LIMITED}, 2),
        ({"throttle_placement_phase": False, **LIMITED}, 6),
        ({"throttle_placement_phase": True, "maximum_in_build_replicas_per_node": {"large": 1}}, 6),
        ({"throttle_placement_phase": True, "maximum_in_build_replicas_per_node": {"small": 0}}, 6),
        ({"throttle_placement_phase": True, **LIMITED, "throttling_constraint_priority": -1}, 6),
        ({"throttle_placement_phase": True, **LIMITED, "throttling_constraint_priority": 1}, 6),
        (
            {
                "throttle_placement_phase": True,
                **LIMITED,
                "throttling_constraint_priority": 2,
                "relax_constraint_for_placement": False,
            },
            2,
        ),
        (
            {
                "throttle_placement_phase": True,
                "maximum_in_build_replicas_per_node": {"small": 3},
                "maximum_in_build_replicas_per_node_placement_throttle": {"small": 2},
            },
            4,
        ),
    ],
)
def test_placement_builds_replicas_up_to_its_limit(settings, built):
    """Two nodes get six new secondaries; the smaller limit holds, a soft one may be relaxed, and 0 means no limit."""
    engine = stateful_engine(**settings)
    for index in range(6):
        add_pair(engine, f"p{index}")
    plan = engine.place()
    assert len(plan.moves) == built
    assert all(dict(refused.ruled_out) == {"exclusion": 1, "throttling": 2} for refused in plan.unplaced)


@pytest.mark.parametrize(("stateful", "parent"), [(False, None), (True, None), (True, "db")])
def test_instances_children_and_first_primaries_are_never_throttled(stateful, parent):
    """A node with a replica in build gets them; a new primary beside a secondary waits."""
    engine = stateful_engine(1, throttle_placement_phase=True, **LIMITED)
    add_pair(engine, "old", Replica(Role.SECONDARY, "n0", state=ReplicaState.IN_BUILD))
    service = Service(
        "other", stateful=stateful, affinity_to=parent, aligned=False, placement_constraint="NodeType == small"
    )
    engine.update_service(service)
    engine.update_partition(Partition("other/0", service="other"))
    assert [move.target for move in engine.place().moves] == ["n0"]
    secondary = Replica(Role.SECONDARY, "big")
    engine.update_service(Service("late", target_replicas=2))
    engine.update_partition(Partition("late/0", service="late", replicas=[secondary]))
    assert {move.partition for move in engine.place().moves} == {"other/0"}


@pytest.mark.parametrize(
    ("phase", "verb"),
    [("constraint_check", "repair"), ("balancing", "balance")],
)
def test_other_phases_observe_their_limits(phase, verb):
    """Four primaries would have to move to the second node, which may build one at a time."""
    limits = {f"throttle_{phase}_phase": True, f"maximum_in_build_replicas_per_node_{phase}_throttle": {"small": 1}}
    for on, moves in ((True, 1), (False, 4)):
        settings = {"throttle_balancing_phase": False, **limits, f"throttle_{phase}_phase": on}
        engine = engine_with(typed(), {}, **settings)
        engine.update_service(Service("db"))
        for index in range(8):
            engine.update_partition(Partition(f"p{index}", service="db", replicas=[Replica(Role.PRIMARY, "n0")]))
            engine.report_load(f"p{index}", "n0", {"cpu": 25})
        assert len(getattr(engine, verb)().moves) == moves


@examples(60)
@given(busy_clusters(), st.integers(1, 2))
def test_no_phase_builds_more_than_the_limit(cluster, most):
    """New and moved replicas on a node stay within the limit, but for those that are never throttled.

    The new replicas of a partition without any may exchange their roles.
    """
    nodes = tuple(attrs.evolve(n, properties={**n.properties, "NodeType": "small"}) for n in cluster.nodes)
    limits = {"maximum_in_build_replicas_per_node": {"small": most}}
    phases = {f"throttle_{phase}_phase": True for phase in ("placement", "constraint_check", "balancing")}
    engine = attrs.evolve(cluster, nodes=nodes).engine(**limits, **phases)
    children = {service.name for service in cluster.services if service.affinity_to is not None}
    throttled = {one.name for one in cluster.partitions if one.service not in children}
    for verb in ("place", "repair", "balance"):
        plan = getattr(engine, verb)(budget=120)
        begun = {move.partition for move in plan.moves if move.kind is MoveKind.ADD and move.role is Role.PRIMARY}
        arriving = [move for move in plan.moves if move.kind in (MoveKind.ADD, MoveKind.MOVE)]
        counted = [move for move in arriving if move.partition in throttled - begun]
        built = [move.target for move in counted if move.role is not Role.INSTANCE]
        assert all(built.count(node) <= most for node in built)
