"""Plans report the energy and placement that they reach, and end where nothing can be better."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, MoveKind, Node, Partition, Phase, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.score import weights_in_balancing
from plb.energy.terms import energy_of_solution
from plb.risk import DemandHistory
from plb.testing import all_clusters, configuration_of
from tests.engine.oracle import after_plan, placement_of
from tests.engine.stories import add_partition, engine_on, engine_with
from tests.engine.strategies import examples

VERBS = {
    "place": lambda engine: engine.place(budget=240),
    "repair": lambda engine: engine.repair(budget=240),
    "balance": lambda engine: engine.balance(budget=240),
    "refresh": lambda engine: engine.refresh(0.0, budget=240),
}


@pytest.mark.parametrize("verb", VERBS)
@examples(80)
@given(cluster=all_clusters())
def test_moves_applied_one_by_one_give_the_configuration_of_the_plan(verb, cluster):
    """Each move is accepted in the order of the plan; the result has the predicted placement and energy."""
    engine = cluster.engine()
    before = placement_of(engine, cluster)
    start = configuration_of(engine)
    plan = VERBS[verb](engine)
    problem = start.problem
    if Phase.BALANCING in plan.phases:
        problem = problem._replace(weights=weights_in_balancing(problem, start.solution))
    assert plan.energy_before == energy_of_solution(problem, start.solution)
    assert plan.energy_before.movement == 0
    for move in plan.moves:
        engine.apply(attrs.evolve(plan, moves=(move,)))
    assert placement_of(engine, cluster) == after_plan(before, plan)
    reached = solution_from_scratch(start.problem, engine._state.rows.node.copy())
    assert energy_of_solution(problem, reached) == plan.energy_after
    assert sum(move.cost for move in plan.moves) == pytest.approx(plan.energy_after.movement)
    waiting = [r for r in placement_of(engine, cluster).values() if r.node is None]
    if "place" in verb or verb == "refresh":
        assert sorted((u.partition, u.role) for u in plan.unplaced) == sorted((r.partition, r.role) for r in waiting)


@examples(80)
@given(all_clusters(), st.data())
def test_moves_of_existing_replicas_can_run_in_any_order(cluster, data):
    """Except for swaps of roles, no target had a replica of the partition, so moves do not have to wait."""
    engine = cluster.engine(swap_primary_probability=0.5, exchange_probability=0.3, w_imbalance=100.0)
    plan = engine.balance(budget=600)
    shuffled = attrs.evolve(plan, moves=tuple(data.draw(st.permutations(plan.moves))))
    expected = after_plan(placement_of(engine, cluster), plan)
    engine.apply(shuffled)
    assert placement_of(engine, cluster) == expected


@examples(80)
@given(all_clusters())
def test_soft_upgrade_domains_are_relaxed_only_if_nothing_else_fits(cluster):
    """If all replicas have a place under hard upgrade domains, soft ones lead to the same plan."""
    changes = {"fault_domain_constraint_priority": 0, "move_existing_replica_for_placement": False}
    hard = cluster.engine(upgrade_domain_constraint_priority=0, **changes).place(budget=240)
    soft = cluster.engine(upgrade_domain_constraint_priority=1, **changes).place(budget=240)
    assert len(soft.unplaced) <= len(hard.unplaced)
    if not hard.unplaced:
        assert soft == hard


@examples(80)
@given(all_clusters())
def test_balancing_never_raises_the_energy(cluster):
    """In repeated balancing, each plan lowers the energy or has no moves."""
    engine = cluster.engine()
    for _ in range(3):
        plan = engine.balance(budget=240)
        assert plan.energy_after.total <= plan.energy_before.total
        assert bool(plan.moves) == (plan.energy_after.total < plan.energy_before.total)
        engine.apply(plan)


def uneven_cluster(**config: object) -> PlacementAndLoadBalancing:
    """Return four nodes with all replicas on the first two."""
    replicas = {f"web/{index}": (f"n{index % 2}", 4) for index in range(6)}
    return engine_with({f"n{index}": 20 for index in range(4)}, replicas, **config)


def test_refresh_balances_only_without_placement_or_repair():
    """Placement and repair run before balancing, which waits for a refresh without work for them."""
    engine = uneven_cluster()
    engine.update_partition(Partition("web/new", service="web"))
    first = engine.refresh(0.0)
    assert first.phases == (Phase.PLACEMENT,)
    assert [move.kind for move in first.moves] == [MoveKind.ADD]
    engine.apply(first)
    second = engine.refresh(1.0)
    assert second.phases == (Phase.BALANCING,)
    assert {move.kind for move in second.moves} == {MoveKind.MOVE}


def test_phase_runs_again_only_after_its_interval():
    """A phase with an interval of 60 s that ran at 0 is due at 60, not at 59; None means never."""
    engine = uneven_cluster(min_load_balancing_interval=60.0, min_constraint_check_interval=None)
    assert engine.refresh(0.0).phases == (Phase.BALANCING,)
    assert engine.refresh(59.0).phases == ()
    assert engine.refresh(60.0).phases == (Phase.BALANCING,)


def test_eviction_moves_a_placed_replica():
    """A placed replica moves to free capacity for a new one that fits nowhere; the reasons name this."""
    engine = engine_on(Node("small", capacities={"cpu": 5}), Node("large", capacities={"cpu": 10}))
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 8}}))
    engine.update_partition(Partition("old", service="web", replicas=[Replica(Role.INSTANCE, "large")]))
    engine.report_load("old", "large", {"cpu": 4})
    engine.update_partition(Partition("new", service="web"))
    plan = engine.place()
    assert [str(move) for move in plan.moves] == [
        "move instance of old from large to small",
        "add instance of new on large",
    ]
    assert plan.explain("old") == "Move instance of old from large to small: frees capacity on node large for new."
    assert plan.explain("new") == "Add instance of new on large: a replica is missing."
    pinned = Replica(Role.INSTANCE, "large", pinned=True)
    engine.update_partition(Partition("old", service="web", replicas=[pinned]))
    assert [u.partition for u in engine.place().unplaced] == ["new"]


@pytest.mark.parametrize("overloaded", ["primary", "secondary"])
def test_swap_names_its_overloaded_node(overloaded):
    """On two nodes only a swap of roles helps; its reason is the overloaded node, whichever replica leaves it."""
    config = PlbConfig(
        metrics=[Metric("cpu", violation_threshold=1.0)], max_percentage_to_move=1.0, swap_primary_probability=0.5
    )
    engine = PlacementAndLoadBalancing(config)
    engine.update_node(Node("small", capacities={"cpu": 50}))
    engine.update_node(Node("large", capacities={"cpu": 100}))
    engine.update_service(Service("db", target_replicas=2))
    heavy, light = (Role.PRIMARY, Role.SECONDARY) if overloaded == "primary" else (Role.SECONDARY, Role.PRIMARY)
    add_partition(engine, "db/0", Replica(heavy, "small"), Replica(light, "large"))
    engine.report_load("db/0", "small", {"cpu": 60})
    engine.report_load("db/0", "large", {"cpu": 20})
    plan = engine.repair()
    assert [(move.kind, move.reason.rule, move.reason.node) for move in plan.moves] == [
        (MoveKind.SWAP, "capacity", "small")
    ]


def test_repair_of_a_soft_rule_leaves_no_hard_rule_broken():
    """One call repairs the overload as well, although that takes a place that the soft upgrade domains oppose."""
    config = PlbConfig(metrics=[Metric("m")], fault_domain_constraint_priority=-1)
    engine = PlacementAndLoadBalancing(config, seed=3)
    for name, domain in (("n0", "u0"), ("n1", "u0"), ("n2", "u1"), ("n3", "u1")):
        engine.update_node(Node(name, capacities={"m": 100}, upgrade_domain=domain))
    engine.update_service(Service("pair", target_replicas=2))
    engine.update_service(Service("single"))

    add_partition(engine, "pair/a", Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n2", pinned=True))
    add_partition(engine, "pair/b", Replica(Role.PRIMARY, "n1", pinned=True), Replica(Role.SECONDARY, "n0"))
    add_partition(engine, "single/0", Replica(Role.PRIMARY, "n0", pinned=True))
    add_partition(engine, "single/1", Replica(Role.PRIMARY, "n1", pinned=True))
    reports = (("pair/a", "n0", 60), ("pair/b", "n1", 0), ("single/0", "n0", 60), ("single/1", "n1", 90))
    for name, node, load in reports:
        engine.report_load(name, node, {"m": load})
    plan = engine.repair()
    assert ("pair/a", "n0") in [(move.partition, move.source) for move in plan.moves]
    engine.apply(plan)
    assert engine.violations() == ()


def test_evictions_keep_the_sums_of_peaks_within_their_range():
    """If the peaks of one node would exceed 32 bits, the new replica gets no place; no sum overflows."""
    history = DemandHistory.from_columns(
        ("m",),
        tenant_class=["a", "b"],
        role=[0, 0],
        lifetime=[1e9] * 2,
        level=[[1.2e5], [1.0]],
        initial=[[1.0], [1.0]],
        growth=[[6e8], [0.0]],
        maximum=[[1.2e5], [1e5]],
    )
    config = PlbConfig(metrics=[Metric("m")], repetitions=4, replay="as_recorded")
    engine = PlacementAndLoadBalancing(config, seed=1, history=history)
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"m": 100}))
    for name, of_class, load in (("a", "a", 20), ("b", "b", 45), ("full", "b", 46), ("new", "a", 50)):
        loads = {Role.PRIMARY: {"m": load}}
        engine.update_service(Service(name, tenant_class=of_class, default_load=loads))
    for name in ("a/0", "a/1", "b/0"):
        add_partition(engine, name, Replica(Role.PRIMARY, "n0"))
    add_partition(engine, "full/0", Replica(Role.PRIMARY, "n1", pinned=True))
    add_partition(engine, "new/0")
    plan = engine.place()
    assert plan.moves == ()
    assert len(plan.unplaced) == 1
    engine.balance()  # a search may start from these sums


def test_lower_target_removes_waiting_replicas():
    """Slots that wait are removed when the service wants fewer replicas; placed replicas stay."""
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("db", target_replicas=4))
    add_partition(engine, "db/0", Replica(Role.PRIMARY, "n0"))
    engine.update_service(Service("db", target_replicas=2))
    assert len(engine.place().moves) == 1


def test_an_upgrade_may_hold_balancing_back() -> None:
    """Balancing waits while a partition of the service domain is upgraded; other domains are balanced."""
    config = PlbConfig(metrics=[Metric("cpu"), Metric("disk")], allow_balancing_during_application_upgrade=False)
    engine = PlacementAndLoadBalancing(config, seed=1)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100.0, "disk": 100.0}))
    for metric in ("cpu", "disk"):
        engine.update_service(Service(metric, stateful=False, metrics={metric: 1.0}))
    for number, metric in enumerate(["cpu", "cpu", "cpu", "disk", "disk", "disk"]):
        name = f"{metric}/{number}"
        replicas = [Replica(Role.INSTANCE, "n0")]
        engine.update_partition(Partition(name, service=metric, replicas=replicas, upgrading=number == 0))
        engine.report_load(name, "n0", {metric: 10.0})
    moved = {move.partition.split("/")[0] for move in engine.balance().moves}
    assert moved == {"disk"}
    engine.update_partition(Partition("cpu/0", service="cpu", replicas=[Replica(Role.INSTANCE, "n0")]))
    assert {move.partition.split("/")[0] for move in engine.balance().moves} == {"cpu", "disk"}


SECONDS = 100.0


def engine_everywhere(*nodes: Node | str, stateful: bool = False, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with a service on every node, which has a replica on n0."""
    engine = engine_on("n0", *nodes, **settings)
    engine.update_service(Service("agent", stateful=stateful, on_every_node=True))
    add_partition(engine, "agent/0", Replica(Role.PRIMARY if stateful else Role.INSTANCE, "n0"))
    return engine


@pytest.mark.parametrize(
    ("intent", "status", "placed", "missed"),
    [
        ("restart", "safety_check_in_progress", True, True),
        ("pause", "safety_check_complete", True, True),
        ("restart", "complete", False, False),
        ("remove_node", "safety_check_in_progress", False, False),
    ],
)
@pytest.mark.parametrize("stateful", [False, True])
def test_nodes_that_come_back_miss_a_replica(intent, status, placed, missed, stateful):
    """Until they are down, those that pause or restart do; a stateful service gets none after the safety check."""
    node = Node("n1", deactivation_intent=intent, deactivation_status=status)
    plan = engine_everywhere(node, stateful=stateful).place()
    placed = placed and not (stateful and status == "safety_check_complete")
    assert [move.target for move in plan.moves] == ["n1"] * placed
    assert len(plan.unplaced) == (missed and not placed)


def test_placement_runs_in_turn_although_nothing_is_missing():
    """It leaves room for the other phases, and moves no replicas."""
    engine = engine_everywhere(one_action_per_refresh=True, plb_action_retry_times=1)
    actions = [engine.refresh(index * SECONDS).actions["agent"] for index in range(3)]
    assert actions == ["NewReplicaPlacement"] * 3
    engine.update_node(Node("n1", up=False))
    assert not engine.refresh(SECONDS * 4).moves
