"""Draining: nodes that are to be removed are emptied by repairs, and the plan says what stays there."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import Budget, Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.errors import UnknownNameError
from plb.model.move import Phase
from plb.model.outcome import Idle, Immovable
from plb.planning.explanations.omissions import Omission
from plb.testing import all_clusters

REMOVALS = ("remove_data", "remove_node")


def engine_of(nodes, places, *, load=1, capacity=100, policy=None, **fields):
    """Return an engine with a stateful partition for each tuple of node numbers, the primary first."""
    config = PlbConfig(metrics=[Metric("cpu")], policy=policy or "annealing", **fields)
    engine = PlacementAndLoadBalancing(config, seed=3)
    for index in range(nodes):
        engine.update_node(Node(f"n{index}", capacities={"cpu": capacity}, fault_domain=f"fd:/r{index % 4}"))
    engine.update_service(Service("db", default_load={role: {"cpu": load} for role in (Role.PRIMARY, Role.SECONDARY)}))
    for number, chosen in enumerate(places):
        replicas = [Replica(Role.SECONDARY if slot else Role.PRIMARY, f"n{node}") for slot, node in enumerate(chosen)]
        engine.update_partition(Partition(f"db/{number}", service="db", replicas=replicas))
    return engine


def on_node(engine, name):
    names = engine._state.partition_names()
    return [partition for partition in names for replica in engine.replicas(partition) if replica.node == name]


def others(violations):
    return {str(violation) for violation in violations if violation.rule != "node"}


@st.composite
def clusters(draw):
    """Draw places of partitions on eight nodes in four racks, with room, and one or two nodes to be removed."""
    chosen = st.lists(st.integers(0, 7), min_size=1, max_size=3, unique_by=lambda node: node % 4)
    places = draw(st.lists(chosen, min_size=1, max_size=12))
    return places, draw(st.lists(st.integers(0, 7), min_size=1, max_size=2, unique=True))


@given(clusters(), st.sampled_from([None, "first_fit"]))
@settings(max_examples=40, deadline=None)
def test_repair_empties_a_node_where_others_have_room(cluster, policy):
    """Nothing is left there, only what stood there has moved, and no rule is newly broken."""
    places, removed = cluster
    engine = engine_of(8, places, policy=policy)
    before = others(engine.violations(soft=True))
    names = {f"n{node}" for node in removed}
    for name in sorted(names):
        engine.drain_node(name)
    listed = {(violation.partition, violation.node) for violation in engine.violations() if violation.rule == "node"}
    assert listed == {(partition, name) for name in names for partition in on_node(engine, name)}
    plan = engine.repair()
    drains = [move for move in plan.moves if move.reason.rule == "node"]
    assert {(move.partition, move.source) for move in drains} == listed
    assert not plan.undrained
    engine.apply(plan)
    assert not any(on_node(engine, name) for name in names)
    assert others(engine.violations(soft=True)) <= before
    for name in names:
        engine.remove_node(name)


@given(st.integers(1, 4), st.integers(1, 12))
@settings(max_examples=20, deadline=None)
def test_node_empties_over_several_plans(most, partitions):
    """Each plan has as many moves as it may have, and names the replicas that wait."""
    engine = engine_of(4, [(0,)] * partitions, max_moves=most)
    engine.drain_node("n0")
    left = partitions
    while left:
        plan = engine.repair()
        assert len(plan.moves) == min(most, left)
        left -= len(plan.moves)
        assert [one.ruled_out for one in plan.undrained] == [{"moves": 4}] * left
        assert all("no moves left" in str(one) for one in plan.undrained)
        assert plan.bound_by == (("moves",) if left else ())
        engine.apply(plan)
        assert len(on_node(engine, "n0")) == left
    assert not engine.repair().moves


def test_budget_of_a_node_holds_its_replicas():
    """The plan names this budget for those that wait."""
    engine = engine_of(4, [(0,), (0,), (1,), (1,)], max_moves_per_node=1)
    engine.drain_node("n0")
    plan = engine.repair()
    assert len(plan.moves) == 1
    assert [one.ruled_out for one in plan.undrained] == [{"node_moves": 4}]


def test_replica_that_fits_nowhere_is_named_with_the_rules():
    """Every node counts once; the plan explains the partition by it, also when nothing is tried again."""
    engine = engine_of(3, [(0, 1), (2,)], load=6, capacity=10)
    engine.drain_node("n0")
    for _ in range(2):
        plan = engine.repair()
        assert not plan.moves
        (stays,) = plan.undrained
        assert (stays.partition, stays.role, stays.node) == ("db/0", Role.PRIMARY, "n0")
        assert stays.ruled_out == {"node": 1, "exclusion": 1, "capacity": 1}
        assert "stays on node n0, which is to be emptied: it fits on none of 3 nodes" in plan.explain("db/0")


def test_only_the_first_of_many_replicas_have_numbers(monkeypatch):
    """The others have the number of nodes by rule."""
    numbered = undrained_without_room()
    monkeypatch.setattr("plb.planning.explanations.diagnosis.MOST_DIAGNOSED", 0)
    counted = undrained_without_room()
    assert [one.ruled_out for one in counted] == [one.ruled_out for one in numbered]
    assert "on n1" in str(numbered[0])
    assert "on n1" not in str(counted[0])


def undrained_without_room():
    """Return what stays on a node whose replica fits on no other."""
    engine = engine_of(3, [(0, 1), (2,)], load=6, capacity=10)
    engine.drain_node("n0")
    return engine.repair().undrained


def test_replica_with_an_open_node_waits_for_a_later_plan():
    """A constraint check without attempts moves nothing, and the plan does not claim that a rule refuses the node."""
    engine = engine_of(3, [(0,)])
    engine.drain_node("n0")
    planner = engine._planner
    run = planner.search(None, 0.0, Budget.of(None), [])
    run.log.note_idle(Phase.REPAIR, Idle.NOTHING_BROKEN)
    (stays,) = run.plan([], None).undrained
    assert (stays.diagnosis, stays.immovable) == ((), None)
    assert str(stays).endswith("is to be emptied: a later plan may move it")


@pytest.mark.parametrize(
    ("replica", "why"), [({"pinned": True}, Immovable.PINNED), ({"state": "in_build"}, Immovable.NOT_READY)]
)
def test_replica_that_may_not_move_is_named_with_the_reason(replica, why):
    """It is a violation all the same."""
    engine = engine_of(3, [(0,)])
    engine.update_partition(Partition("db/0", service="db", replicas=[Replica(Role.PRIMARY, "n0", **replica)]))
    engine.drain_node("n0")
    assert [violation.rule for violation in engine.violations()] == ["node"]
    plan = engine.repair()
    assert [one.immovable for one in plan.undrained] == [why]
    assert f"it is {why.value}" in str(plan.undrained[0])


@pytest.mark.parametrize("intent", REMOVALS)
@pytest.mark.parametrize("status", ["none", "safety_check_in_progress", "safety_check_complete", "complete"])
def test_intents_of_removal_drain(intent, status):
    """In each status but that in which the node comes back."""
    engine = engine_of(2, [(0,)])
    engine.update_node(node_of(engine, deactivation_intent=intent, deactivation_status=status))
    assert [move.target for move in engine.refresh(0.0).moves] == ["n1"]


@pytest.mark.parametrize(
    "state",
    [
        {"deactivation_intent": "pause"},
        {"deactivation_intent": "restart", "deactivation_status": "safety_check_in_progress"},
        {"deactivation_intent": "remove_node", "deactivation_status": "activation_in_progress"},
        {"deactivation_intent": "remove_node", "up": False},
    ],
)
def test_other_states_do_not_drain(state):
    """Nothing moves, and no rule is broken."""
    engine = engine_of(2, [(0,)])
    engine.update_node(node_of(engine, **state))
    plan = engine.refresh(0.0)
    assert (*broken(engine), *plan.moves, *plan.undrained) == ()


def broken(engine):
    """Return the violations of rules."""
    return [violation for violation in engine.violations() if not isinstance(violation, Omission)]


def node_of(engine, **fields):
    return attrs.evolve(engine._state.nodes[0], **fields)


@given(clusters())
@settings(max_examples=20, deadline=None)
def test_replicas_of_a_drained_node_that_is_down_are_replaced_and_not_listed(cluster):
    """No plan moves them; once they are described as gone, placement puts others elsewhere, and the node can go."""
    places, (down, *_) = cluster
    engine = engine_of(8, places)
    name = f"n{down}"
    engine.update_node(Node(name, capacities={"cpu": 100}, fault_domain=f"fd:/r{down % 4}", up=False))
    engine.drain_node(name)
    left = on_node(engine, name)
    plan = engine.repair()
    assert not [move for move in plan.moves if move.source == name]
    assert not plan.undrained
    assert not [violation for violation in broken(engine) if violation.rule == "node"]
    for partition in left:
        replicas = [Replica(one.role, one.node) for one in engine.replicas(partition) if one.node != name]
        engine.update_partition(Partition(partition, service="db", replicas=replicas, missing=1))
    added = [move for move in engine.place().moves if move.kind is MoveKind.ADD]
    assert sorted(move.partition for move in added) == sorted(left)
    assert name not in {move.target for move in added}
    engine.remove_node(name)


def test_drained_node_that_comes_up_again_is_emptied():
    """Its replicas are listed from then on."""
    engine = engine_of(3, [(0,), (0,)])
    node = Node("n0", capacities={"cpu": 100}, fault_domain="fd:/r0", deactivation_intent="remove_node")
    engine.update_node(attrs.evolve(node, up=False))
    assert not broken(engine)
    engine.update_node(node)
    assert len(engine.violations()) == 2
    assert len(engine.repair().moves) == 2


def test_service_fabric_leaves_nodes_that_are_removed_alone():
    """Its failover manager replaces their replicas."""
    config = PlbConfig.from_service_fabric({}, metrics=[Metric("cpu")])
    engine = engine_of(2, [(0,)])
    engine.configure(config)
    engine.drain_node("n0")
    plan = engine.repair()
    assert (*engine.violations(), *plan.moves, *plan.undrained) == ()


def test_undrained_node_is_back_in_service():
    """It keeps its replicas and takes others; a name that is not known is an error."""
    engine = engine_of(2, [(0,)])
    engine.drain_node("n0")
    engine.undrain_node("n0")
    assert (*engine.violations(), *engine.repair().moves) == ()
    engine.drain_node("n1")
    assert not engine.repair().moves
    for verb in (engine.drain_node, engine.undrain_node):
        with pytest.raises(UnknownNameError, match="n7"):
            verb("n7")


def test_child_leaves_with_its_parent():
    engine = engine_of(3, [(0,)])
    engine.update_service(Service("log", affinity_to="db"))
    engine.update_partition(Partition("log/0", service="log", replicas=[Replica(Role.PRIMARY, "n0")]))
    engine.drain_node("n0")
    engine.apply(engine.repair())
    places = {replica.node for name in ("db/0", "log/0") for replica in engine.replicas(name)}
    assert len(places) == 1
    assert not places & {"n0"}


def test_replica_of_a_service_on_every_node_is_dropped():
    """Placement drops it, as no other node can take it."""
    engine = engine_of(3, [])
    engine.update_service(Service("agent", stateful=False, on_every_node=True))
    engine.update_partition(Partition("agent/0", service="agent"))
    engine.apply(engine.refresh(0.0))
    engine.drain_node("n1")
    engine.apply(engine.refresh(1.0))
    assert sorted(replica.node for replica in engine.replicas("agent/0")) == ["n0", "n2"]
    assert not engine.violations()


@given(all_clusters(), st.sampled_from(["place", "repair", "balance", "refresh"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_nothing_moves_where_all_nodes_are_drained(cluster, call, one_action):
    """Every call ends, whatever is overloaded or broken, though no node may be a target."""
    engine = cluster.engine(one_action_per_refresh=one_action)
    for node in cluster.nodes:
        engine.update_node(attrs.evolve(node, deactivation_intent="remove_node"))
    plan = engine.refresh(0.0, budget=120) if call == "refresh" else getattr(engine, call)(budget=120)
    assert {move.kind for move in plan.moves}.isdisjoint({MoveKind.ADD, MoveKind.MOVE})


def test_overloaded_node_that_is_drained_alone_keeps_its_replicas():
    """There is neither a target nor a sibling with which a replica could swap its role."""
    engine = engine_of(1, [(0,), (0,)], capacity=1, one_action_per_refresh=True)
    engine.drain_node("n0")
    plan = engine.repair(budget=100)
    assert not plan.moves
    assert {undrained.node for undrained in plan.undrained} == {"n0"}
