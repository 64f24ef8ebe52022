"""Errors that random events (`test_state_machine`) revealed, one small example each."""

from __future__ import annotations

import numpy as np

from plb import Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.compiler import Stream, kernel
from plb.evaluation.delta import compare_with_scratch
from plb.extensions.configuration import Proposal
from plb.model.rules import Rule
from plb.search.extension_state import constraints_of
from plb.search.move_order import Steps, executable_order
from plb.search.repair.affinity_moves import bring_parent
from plb.search.transactions import Draft, new_transaction
from plb.testing import configuration_of

from .stories import search_of


def cluster(nodes: int = 3, metrics: tuple[str, ...] = ("cpu",), **settings: object) -> PlacementAndLoadBalancing:
    """Return an engine with some nodes of capacity 20, which may be filled completely."""
    made = PlbConfig(metrics=[Metric(name, quantum=1.0) for name in metrics], capacity_limit="capacity", **settings)
    engine = PlacementAndLoadBalancing(made, seed=1)
    for index in range(nodes):
        engine.update_node(Node(f"n{index}", capacities=dict.fromkeys(metrics, 20)))
    return engine


def instances(engine: PlacementAndLoadBalancing, service: str, loads: dict[str, tuple[str, dict[str, float]]]) -> None:
    """Add partitions of one instance each: name, node and load."""
    for name, (node, load) in loads.items():
        engine.update_partition(Partition(name, service=service, replicas=[Replica(Role.INSTANCE, node)]))
        engine.report_load(name, node, load)


def test_partition_named_twice_is_reduced_once():
    """Two of four replicas are too many, even if the partition is named twice."""
    engine = cluster(nodes=4)
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    ends = [Replica(Role.INSTANCE, f"n{index}") for index in range(4)]
    engine.update_partition(Partition("w", service="web", replicas=ends))
    assert [move.kind for move in engine.place(["w", "w"]).moves] == [MoveKind.DROP] * 2


def test_budget_of_moves_is_that_of_the_plan():
    """Service domains that are searched separately share the budget."""
    for budget in ({"max_moves": 1}, {"max_moves_per_node": 1}):
        engine = cluster(metrics=("cpu", "memory"), w_imbalance=1000.0, **budget)
        for metric in ("cpu", "memory"):
            engine.update_service(Service(metric, stateful=False, metrics={metric: 1.0}))
            instances(engine, metric, {f"{metric}{i}": ("n0", {metric: 6}) for i in range(3)})
        assert len(engine.balance().moves) == 1


def test_metric_that_a_service_does_not_have_does_not_count():
    """The engine ignores its default and its reports; otherwise two service domains could fill one node."""
    engine = cluster(metrics=("cpu", "memory"))
    load = {"cpu": 5, "memory": 7}
    engine.update_service(Service("web", stateful=False, metrics={"cpu": 1.0}, default_load={Role.INSTANCE: load}))
    engine.update_partition(Partition("w", service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
    assert configuration_of(engine).solution.node_load[0].tolist() == [5, 0]
    engine.report_load("w", "n0", {"cpu": 6, "memory": 8})
    engine.report_role_load("w", Role.INSTANCE, {"memory": 9})
    assert configuration_of(engine).solution.node_load[0].tolist() == [6, 0]
    engine.report_loads([engine.replicas("w")[0].index], [[4, 9]])
    assert configuration_of(engine).solution.node_load[0].tolist() == [4, 0]


def test_removed_service_does_not_count():
    """The energy is that of an engine that never knew the service."""
    informed, plain = (cluster(metrics=("cpu", "memory")) for _ in range(2))
    informed.update_service(Service("gone", stateful=False, metrics={"cpu": 9.0, "memory": 1.0}))
    for engine in (informed, plain):
        engine.update_service(Service("web", stateful=False, metrics={"cpu": 1.0, "memory": 4.0}))
        instances(engine, "web", {"w": ("n0", {"cpu": 5, "memory": 1}), "v": ("n1", {"memory": 3})})
    informed.remove_service("gone")
    assert informed.balance().energy_before == plain.balance().energy_before


def test_dropping_a_leaving_replica_keeps_the_sums_right():
    """None of the sums included it."""
    engine = cluster(checks="phase")
    engine.update_service(Service("web", stateful=False, target_replicas=1))
    ends = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n1", leaving=True)]
    engine.update_partition(Partition("w", service="web", replicas=ends, missing=-1))
    for node in ("n0", "n1"):
        engine.report_load("w", node, {"cpu": 5})
    plan = engine.place()
    assert [(move.kind, move.source) for move in plan.moves] == [(MoveKind.DROP, "n1")]
    assert plan.energy_after.imbalance == plan.energy_before.imbalance


def test_repair_without_an_improvement_moves_nothing():
    """A move within a crowded fault domain does not help while the other domain has no free capacity."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], w_imbalance=1000.0), seed=0)
    for name in ("a1", "a2", "a3", "b1"):
        engine.update_node(Node(name, capacities={"cpu": 0 if name == "b1" else 100}, fault_domain=f"fd:/{name[0]}"))
    engine.update_service(Service("db", target_replicas=2))
    ends = [Replica(Role.PRIMARY, "a1"), Replica(Role.SECONDARY, "a2")]
    engine.update_partition(Partition("d", service="db", replicas=ends))
    engine.update_service(Service("web", stateful=False))
    instances(engine, "web", {"w": ("a2", {"cpu": 50})})
    for node in ("a1", "a2"):
        engine.report_load("d", node, {"cpu": 10})
    assert engine.repair().moves == ()


def test_swap_waits_for_the_move_that_frees_capacity():
    """The node of the secondary is full until another replica has left it."""
    engine = cluster()
    engine.update_service(Service("db", target_replicas=2))
    engine.update_service(Service("web", stateful=False))
    ends = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("d", service="db", replicas=ends))
    instances(engine, "web", {"w": ("n1", {"cpu": 15})})
    engine.report_load("d", "n0", {"cpu": 8})
    primary, secondary = (r.index for r in engine.replicas("d"))
    (other,) = (r.index for r in engine.replicas("w"))
    configuration = configuration_of(engine)
    configuration.apply(Proposal(other, 2))
    configuration.apply(Proposal(primary, 1, secondary))
    steps = Steps(np.array([primary, other]), np.array([secondary, -1]))
    order = executable_order(configuration.problem, configuration.solution, steps)
    assert (order.row.tolist(), order.partner.tolist()) == ([other, primary], [-1, secondary])


@kernel
def _bring_parent(problem, solution, extension_state, enforced, row, rng, transaction):
    """Move the parent of a row to it."""
    return bring_parent(problem, solution, Draft(extension_state, rng, transaction), enforced, row)


def test_parent_that_cannot_come_to_its_child_is_not_moved_to_its_own_node():
    """A move from there to there would count its demand twice, and nothing would correct this."""
    engine = cluster(estimator="gaussian", w_failovers=1.0)
    engine.update_service(Service("parent", stateful=False, blocked_nodes=["n1", "n2"]))
    engine.update_service(Service("child", stateful=False, blocked_nodes=["n0", "n2"], affinity_to="parent"))
    instances(engine, "parent", {"p": ("n0", {"cpu": 10})})
    instances(engine, "child", {"c": ("n1", {"cpu": 10})})
    run = search_of(engine)
    constraints = constraints_of(None, run.problem, run.solution)
    (child,) = (replica.index for replica in engine.replicas("c"))
    rng, transaction = Stream(np.random.SeedSequence(1)), new_transaction(4)
    bound = 1 << Rule.PLACEMENT
    with constraints.calls():
        moved = _bring_parent(run.problem, run.solution, constraints.state, bound, child, rng, transaction)
    assert not moved
    compare_with_scratch(run.problem, run.solution, "after the attempt")
