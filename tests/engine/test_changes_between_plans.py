"""Changes that a host makes between plans count in the next plan."""

from __future__ import annotations

import attrs
import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from tests.engine.stories import engine_on

INSTANCE, PRIMARY, SECONDARY = Role.INSTANCE, Role.PRIMARY, Role.SECONDARY


def nodes_of(engine: PlacementAndLoadBalancing, partition: str) -> list[str | None]:
    return [replica.node for replica in engine.replicas(partition)]


def test_repairs_with_a_budget_of_moves_continue_until_all_is_repaired():
    """With one move for each plan, every service domain gets its turn."""
    engine = engine_on("n0", "n1", "n2", metrics="a b", max_moves=1)
    for service in "ab":
        engine.update_service(Service(service, stateful=False, metrics={service: 1}, blocked_nodes={"n1"}))
        for index in range(2):
            engine.update_partition(Partition(f"{service}{index}", service=service, replicas=[Replica(INSTANCE, "n0")]))
        engine.update_service(Service(service, stateful=False, metrics={service: 1}, placement_constraint="ok == yes"))
    engine.update_node(Node("n2", properties={"ok": "yes"}))
    for _ in range(4):
        plan = engine.repair()
        assert len(plan.moves) == 1
        engine.apply(plan)
    assert engine.violations() == ()
    assert engine.repair().moves == ()


@pytest.mark.parametrize("budget", ["max_moves", "max_moves_per_node"])
def test_balancing_under_a_budget_reaches_every_domain(budget):
    """The next service domain gets the budget that the first one leaves, plan after plan."""
    engine = engine_on("n0", "n1", metrics="a b", w_imbalance=1000.0, w_failovers=0.0, **{budget: 1})
    for service in "ab":
        engine.update_service(Service(service, stateful=False, metrics={service: 1}))
        for index in range(4):
            engine.update_partition(Partition(f"{service}{index}", service=service, replicas=[Replica(INSTANCE, "n0")]))
            engine.report_load(f"{service}{index}", "n0", {service: 10})
    for _ in range(6):
        engine.apply(engine.balance())
    assert engine.node_loads() == {"n0": {"a": 20, "b": 20}, "n1": {"a": 20, "b": 20}}


@pytest.mark.parametrize("seed", range(6))
def test_light_check_keeps_the_present_spread(seed):
    """While repairs of the spread over domains wait, no move breaks it."""
    settings = {"ConstraintFixPartialDelayAfterNewNode": 120, "MinConstraintCheckInterval": 0}
    engine = PlacementAndLoadBalancing(PlbConfig.from_service_fabric(settings, metrics=[Metric("cpu")]), seed=seed)
    engine.update_service(Service("s", target_replicas=2, placement_constraint="ok == yes"))
    for index, domain in enumerate("aabb"):
        fit = {} if index == 2 else {"ok": "yes"}
        engine.update_node(Node(f"n{index}", fault_domain=f"fd:/{domain}", properties=fit), now=0.0)
    engine.update_partition(Partition("p", service="s", replicas=[Replica(PRIMARY, "n0"), Replica(SECONDARY, "n2")]))
    plan = engine.refresh(10.0)
    assert [(move.source, move.target) for move in plan.moves] == [("n2", "n3")]


def test_repair_runs_again_when_the_child_can_move_to_its_parent():
    """A second partition of the parent, without replicas, keeps the child in its place until it is removed."""
    engine = engine_on("n0", "n1")
    engine.update_service(Service("parent", stateful=False))
    engine.update_service(Service("child", stateful=False, affinity_to="parent"))
    engine.update_partition(Partition("a", service="parent", replicas=[Replica(INSTANCE, "n0")]))
    engine.update_partition(Partition("b", service="parent", missing=0))
    engine.update_partition(Partition("c", service="child", replicas=[Replica(INSTANCE, "n1")]))
    assert engine.repair().moves == ()
    engine.remove_partition("b")
    engine.apply(engine.repair())
    assert nodes_of(engine, "c") == ["n0"]


def test_higher_target_adds_replicas_to_place():
    """The host does not have to report the partition again."""
    engine = engine_on("n0", "n1", "n2")
    engine.update_service(Service("s"))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(PRIMARY, "n0")]))
    engine.update_service(Service("s", target_replicas=3))
    engine.apply(engine.place())
    assert sorted(nodes_of(engine, "p")) == ["n0", "n1", "n2"]


def test_default_loads_count_until_a_report():
    """A changed default counts at once; a metric that the service gets back has its last load again."""
    engine = engine_on("n0", metrics="cpu memory")
    service = Service("s", default_load={PRIMARY: {"cpu": 5, "memory": 20}})
    engine.update_service(service)
    engine.update_partition(Partition("p", service="s", replicas=[Replica(PRIMARY, "n0")]))
    engine.update_service(attrs.evolve(service, metrics={"cpu": 1}))
    assert engine.node_loads() == {"n0": {"cpu": 5, "memory": 0}}
    engine.update_service(attrs.evolve(service, default_load={PRIMARY: {"cpu": 9, "memory": 30}}))
    assert engine.node_loads() == {"n0": {"cpu": 9, "memory": 30}}
    engine.report_load("p", "n0", {"cpu": 1})
    engine.update_service(service)
    assert engine.node_loads() == {"n0": {"cpu": 1, "memory": 30}}


def test_description_repeated_after_a_drop_changes_nothing():
    """The dropped replica does not come back."""
    engine = engine_on("n0", "n1", "n2")
    engine.update_service(Service("s", stateful=False, target_replicas=0))
    replicas = [Replica(INSTANCE, f"n{index}") for index in range(3)]
    described = Partition("p", service="s", version=1, missing=-1, replicas=replicas)
    engine.update_partition(described)
    engine.apply(engine.place())
    left = nodes_of(engine, "p")
    engine.update_partition(described)
    assert nodes_of(engine, "p") == left
    assert len(left) == 2


@pytest.mark.parametrize("leaving", [False, True])
def test_a_missing_replica_that_was_placed_is_no_longer_missing(leaving):
    """The reported number decreases with each replica that is added, not only with a new report."""
    engine = engine_on("n0", "n1", "n2", "n3", "n4")
    service = Service("s", stateful=False, target_replicas=0)
    engine.update_service(service)
    engine.update_partition(Partition("p", service="s", replicas=[Replica(INSTANCE, "n0")], missing=2))
    engine.apply(engine.place(), leaving=leaving)
    placed = nodes_of(engine, "p")
    engine.update_service(attrs.evolve(service, move_cost="high"))
    assert nodes_of(engine, "p") == placed
    assert len(placed) == 3
    assert engine.refresh(0.0).moves == ()


def test_a_stateful_service_on_every_node_has_a_primary():
    """The first replica to be added is the primary."""
    engine = engine_on("n0", "n1", "n2")
    engine.update_service(Service("s", on_every_node=True))
    engine.update_partition(Partition("p", service="s"))
    engine.apply(engine.place())
    assert sorted(replica.role.name for replica in engine.replicas("p")) == ["PRIMARY", "SECONDARY", "SECONDARY"]


def test_expected_failovers_can_be_switched_on(small_cluster):
    """They equal those of an engine that had them from the start."""
    engine, always = small_cluster.engine(w_failovers=0.0, w_overload=0.0), small_cluster.engine(w_failovers=0.5)
    assert engine.balance().energy_before.expected_failovers == 0
    engine.configure(attrs.evolve(always.config, repetitions=4))
    assert engine.balance().energy_before == always.balance().energy_before
