"""Soft capacity: a search passes through overloaded nodes, and its result overloads none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Checks, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.errors import ConflictError
from plb.search.budget import Budget
from tests.engine.strategies import examples

SOFT = {
    "soft_capacity": True,
    "cooling": "by_budget",
    "max_percentage_to_move": 1.0,
    "simulated_annealing_iterations_per_round": 20,
}


CAPACITY = 20


def engine_of(replicas, *, pair=False, seed=1, **settings):
    """Return four nodes and replicas, each a node and loads, in partitions; `pair`: one more has two without load."""
    metrics = [Metric("a"), Metric("b", transient=True)]
    config = PlbConfig(metrics=metrics, capacity_limit="capacity", **{**SOFT, **settings})
    engine = PlacementAndLoadBalancing(config, seed=seed)
    for number in range(4):
        engine.update_node(Node(f"n{number}", capacities={"a": CAPACITY, "b": CAPACITY}))
    engine.update_service(Service("s", stateful=False))
    for number, (node, loads) in enumerate(replicas):
        places = [Replica(Role.INSTANCE, f"n{node}")]
        engine.update_partition(Partition(f"s/{number}", service="s", replicas=places))
        engine.report_load(f"s/{number}", f"n{node}", dict(zip("ab", loads, strict=True)))
    if pair:
        places = [Replica(Role.INSTANCE, f"n{node}") for node in (0, 1)]
        engine.update_partition(Partition("s/pair", service="s", replicas=places))
    return engine


def loads_after(replicas, moves):
    """Return the load of each node in both metrics, (4, 2), where moved replicas count twice in the second one."""
    loads, target = np.zeros((4, 2)), {move.partition: int(move.target[1:]) for move in moves}
    for number, (node, (first, second)) in enumerate(replicas):
        place = target.get(f"s/{number}", node)
        loads[place] += first, second
        loads[node, 1] += second if place != node else 0
    return loads


def test_replicas_change_places_over_a_full_node():
    """Without exchanges capacity allows no move; where it is soft, the even places are found."""
    replicas = [(0, (10, 0)), (0, (10, 0)), (1, (5, 0)), (1, (6, 0)), (2, (20, 0)), (3, (20, 0))]
    hard = engine_of(replicas, exchange_probability=0.0, w_imbalance=1000.0, soft_capacity=False)
    soft = engine_of(replicas, exchange_probability=0.0, w_imbalance=1000.0)
    assert len(hard.balance(budget=4000).moves) == 0
    plan = soft.balance(budget=4000)
    assert sorted(loads_after(replicas, plan.moves)[:, 0]) == [15, 16, 20, 20]


@examples(40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 9), st.integers(0, 9))), min_size=2, max_size=14),
    st.booleans(),
    st.integers(0, 3),
)
def test_no_node_gets_more_than_it_may_have(replicas, pair, seed):
    """Sums are compared with those from scratch after each step; nodes above capacity at the start gain nothing."""
    engine = engine_of(replicas, pair=pair, seed=seed, checks=Checks.STEP, chains=2)
    plan = engine.balance(budget=120)
    assert plan.energy_after.total <= plan.energy_before.total
    moves = [move for move in plan.moves if move.partition != "s/pair"]
    assert (loads_after(replicas, moves) <= np.maximum(CAPACITY, loads_after(replicas, []))).all()


def test_with_seconds():
    replicas = [(number % 2, (4, 0)) for number in range(8)]
    engine = engine_of(replicas)
    plan = engine.balance(budget=Budget(seconds=0.2))
    assert (loads_after(replicas, plan.moves)[:, 0] == 8).all()


def test_needs_cooling_by_budget():
    with pytest.raises(ConflictError, match="soft_capacity"):
        PlbConfig(metrics=[Metric("a")], soft_capacity=True)
