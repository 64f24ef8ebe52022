"""Balancing that begins where an earlier plan leads, and replaces it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plb import (
    Budget,
    ConflictError,
    InvalidValueError,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.model import DeactivationIntent
from plb.model.move import MoveKind
from plb.testing import busy_clusters
from tests.engine.extension_constraints import OffLastNode
from tests.engine.stories import CPU, add_instance, engine_with
from tests.engine.strategies import examples

NODES = {f"n{node}": 100.0 for node in range(6)}
CROWDED = {f"web/{index}": (f"n{index % 2}", 1.0 + index % 7) for index in range(24)}


def crowded(**settings):
    """Return an engine with all replicas on two of six nodes."""
    return engine_with(NODES, CROWDED, **settings)


def ends_of(plan):
    """Return source and target of each move."""
    return {(move.partition, move.source): move.target for move in plan.moves}


@examples(60)
@given(busy_clusters(), st.integers(1, 300), st.integers(1, 300))
def test_a_plan_from_a_plan_is_no_worse_and_moves_from_the_present_nodes(cluster, first, second):
    """It replaces the earlier one: both start with the same energy, and it can be applied without that."""
    engine = cluster.engine()
    plan = engine.balance(budget=first)
    assume(plan.moves)
    names = [partition.name for partition in cluster.partitions]
    present = {name: [replica.node for replica in engine.replicas(name)] for name in names}
    again = engine.balance(budget=second, start=plan)
    assert again.energy_before.total == pytest.approx(plan.energy_before.total)
    assert again.energy_after.total <= plan.energy_after.total + 1e-9 * abs(plan.energy_after.total)
    assert all(move.source in present[move.partition] for move in again.moves)
    engine.apply(again)


@pytest.mark.parametrize(
    "settings", [{}, {"ignore_cost_in_scoring": True}, {"max_moves": 3}, {"cooling": "by_round"}], ids=str
)
def test_a_long_search_in_several_calls_never_loses_what_it_has(settings):
    """Whatever moves cost and however the search cools; the limit of moves counts all of them together."""
    engine, plan, energies = crowded(**settings), None, []
    for _ in range(5):
        plan = engine.balance(budget=Budget(200), start=plan)
        energies.append(plan.energy_after.total)
        assert len(plan.moves) <= settings.get("max_moves", 24)
    assert energies == sorted(energies, reverse=True)
    assert energies[0] < plan.energy_before.total


def test_calls_without_a_start_forget_what_a_replica_has_moved():
    """From its first node a replica moves once, however many plans it takes."""
    engine, plan = crowded(), None
    for _ in range(3):
        plan = engine.balance(start=plan)
    assert len(plan.moves) == len({(move.partition, move.source) for move in plan.moves})
    assert plan.energy_after.movement == len(plan.moves)


def test_a_start_without_moves_is_the_present_cluster():
    """Also when it is a plan that found nothing."""
    engine = engine_with({"n0": 9, "n1": 9}, {"a": ("n0", 2), "b": ("n1", 2)})
    nothing = engine.balance()
    assert not nothing.moves
    assert not engine.balance(start=nothing).moves


def test_swaps_of_roles_are_a_start():
    """Both replicas begin on the nodes of each other."""
    engine = engine_with({"n0": None, "n1": None}, {}, swap_primary_probability=1.0)
    engine.update_service(Service("db"))
    for index in range(4):
        replicas = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
        engine.update_partition(Partition(f"db/{index}", service="db", replicas=replicas))
        engine.report_load(f"db/{index}", "n0", {"cpu": 10})
        engine.report_load(f"db/{index}", "n1", {"cpu": 1})
    plan = engine.balance()
    assert {move.kind for move in plan.moves} == {MoveKind.SWAP}
    assert ends_of(engine.balance(budget=1, start=plan)) == ends_of(plan)


def test_a_plan_of_another_kind_is_refused():
    engine = crowded()
    add_instance(engine, 1.0)
    plan = engine.place()
    with pytest.raises(InvalidValueError, match="start"):
        engine.balance(start=plan)
    with pytest.raises(InvalidValueError, match="start"):
        engine.balance(start=plan.moves)


def applied(engine, plan):
    """Apply the plan, so that its moves are made already."""
    engine.apply(plan)


def filled(engine, plan):
    """Let the replica of the first move outgrow its new node alone."""
    move = plan.moves[0]
    engine.report_load(move.partition, move.source, {"cpu": 1000.0})


def drained(engine, plan):
    """Begin to empty the node that the first move reaches."""
    engine.update_node(Node(plan.moves[0].target, deactivation_intent=DeactivationIntent.REMOVE_NODE))


@pytest.mark.parametrize(("change", "words"), [(applied, "new plan"), (filled, "capacity"), (drained, "hard rule")])
def test_a_plan_that_no_longer_fits_is_refused(change, words):
    """The engine is as it was before the call."""
    engine, twin = crowded(), crowded()
    for one in (engine, twin):
        plan = one.balance()
        change(one, plan)
    with pytest.raises(ConflictError, match=words):
        engine.balance(start=plan)
    assert engine.node_loads() == twin.node_loads()
    assert engine.balance() == twin.balance()


@pytest.mark.parametrize("seed", [22, 30])
def test_a_start_may_have_the_swap_that_exceeds_the_limit_by_one_replica(seed):
    """A quarter of six replicas may move; a move and a swap displace three."""
    nodes = [Node(f"n{index}", capacities={"cpu": 100.0}) for index in range(4)]
    settings = {"max_percentage_to_move": 0.25, "swap_primary_probability": 0.5, "cooling": "by_round", "chains": 1}
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[CPU], w_imbalance=1000.0, **settings), seed=seed)
    for node in nodes:
        engine.update_node(node)
    engine.update_service(Service("db", stateful=True))
    for index in range(3):
        name, loads = f"db/{index}", {f"n{index % 2}": 40.0, "n2": 3.0}
        replicas = [Replica(role, node) for role, node in zip((Role.PRIMARY, Role.SECONDARY), loads, strict=True)]
        engine.update_partition(Partition(name, service="db", replicas=replicas))
        for node, load in loads.items():
            engine.report_load(name, node, {"cpu": load})
    plan = engine.balance(budget=20)
    assert {move.kind for move in plan.moves} == {MoveKind.MOVE, MoveKind.SWAP}
    assert len(engine.balance(budget=20, start=plan).moves) >= 1


@pytest.mark.parametrize(
    "limit",
    [
        {"max_moves": 3},
        {"max_moves": 0},
        {"max_moves_per_node": 1},
        {"max_percentage_to_move": 0.05},
        {"in_build_throttling_enabled": True, "in_build_throttling_global_max_value": 2},
    ],
    ids=str,
)
def test_a_start_with_more_moves_than_allowed_is_refused(limit):
    """As after a change of the settings between two calls."""
    plan = crowded().balance()
    with pytest.raises(ConflictError, match="with the plan of start"):
        crowded(**limit).balance(start=plan)


def test_a_start_that_breaks_a_constraint_of_users_is_refused():
    plan = crowded().balance()
    assert "n3" in {move.target for move in plan.moves}
    engine = PlacementAndLoadBalancing.from_snapshot(crowded().snapshot(), extension_constraints=[OffLastNode()])
    with pytest.raises(ConflictError, match="off_last_node"):
        engine.balance(start=plan)
