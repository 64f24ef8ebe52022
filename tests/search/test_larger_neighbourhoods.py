"""Steps in larger neighbourhoods: they keep every rule and sum, get replicas past full nodes, and are counted."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Checks, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.evaluation.self_checks import compare_with_scratch
from plb.search import annealing, neighbourhoods
from plb.search.balancing import order_of_sizes
from plb.search.move_generation import Choice, generate_proposal
from plb.search.neighbourhoods import (
    LEAST_SHARE,
    MOST_ASKED,
    NEIGHBOURHOODS,
    NODE,
    PARTITION,
    SERVICE,
    SINGLE,
    STRETCH,
    adapt_shares,
    new_neighbourhoods,
    note_step,
    random_neighbourhood,
)
from plb.search.transactions import (
    into_single_moves,
    new_transaction,
    redo_transaction,
    try_move,
    undo_transaction,
)
from plb.testing import all_clusters, busy_clusters, configuration_of
from tests.engine.strategies import examples


class Move(NamedTuple):
    """A move of a transaction."""

    row: int
    source: int
    target: int


@kernel
def _draw(problem, solution, choice, rng, drawn):
    """Write row, target and partner of random proposals."""
    for number in range(drawn.shape[0]):
        proposal = generate_proposal(problem, solution, choice, rng)
        drawn[number, 0], drawn[number, 1], drawn[number, 2] = proposal.row, proposal.target, proposal.partner


LARGER = {"larger_neighbourhoods": True, "similar_exchange_share": 0.5}


def things(violations):
    """Return what is broken, without by how much; a node up to its limit is not."""
    violations = [one for one in violations if one.rule != "capacity" or one.load > one.limit]
    parts = ("partition", "node", "metric", "domain")
    return {(one.rule, *(getattr(one, part, None) for part in parts)) for one in violations}


@examples(80)
@given(all_clusters())
def test_steps_keep_sums_exact_and_break_no_rule(cluster):
    """All sums are compared with those from scratch after every step; nothing is broken that was not."""
    engine = cluster.engine(checks=Checks.STEP, **LARGER)
    before = things(engine.violations())
    plan = engine.balance(budget=240)
    assert plan.energy_after.total <= plan.energy_before.total
    engine.apply(plan)
    assert things(engine.violations()) <= before


@examples(40)
@given(busy_clusters())
def test_plan_does_not_depend_on_threads_or_copies(cluster):
    """Chains that run one after the other in place, and on threads with copies, find the same."""
    plans = []
    for least, threads in ((10**9, 1), (0, 3)):
        with patch.object(annealing, "THREADED_PROPOSALS", least):
            plans.append(cluster.engine(threads=threads, chains=3, **LARGER).balance(budget=300))
    assert plans[0] == plans[1]


@examples(60)
@given(all_clusters(), st.integers(2, 40))
def test_full_log_changes_no_sum_and_keeps_the_best(cluster, size):
    """A log that is full again and again loses the start, but never the best solution."""
    engine = cluster.engine(checks=Checks.STEP, **LARGER)
    with patch.object(annealing, "UNDO_LOG_SIZE", size):
        plan = engine.balance(budget=160)
    assert plan.energy_after.total <= plan.energy_before.total


@examples(60)
@given(all_clusters(), st.integers(0, 400))
def test_what_a_step_asks_and_tries_counts_as_proposals(cluster, budget):
    """A budget is never exceeded, and steps are counted by neighbourhood."""
    proposals = cluster.engine(**LARGER).balance(budget=budget).proposals
    tried, accepted = proposals.tried_by_neighbourhood, proposals.accepted_by_neighbourhood
    assert proposals.generated <= budget
    assert set(accepted) <= set(tried) <= set(NEIGHBOURHOODS)
    assert all(accepted[name] <= tried[name] for name in accepted)
    assert sum(tried.values()) <= proposals.generated
    assert sum(accepted.values()) <= proposals.accepted


@examples(60)
@given(all_clusters(), st.data())
def test_transaction_is_undone_into_one_move_of_each_row(cluster, data):
    """The moves lead from the solution before, which is restored, to the one that the transaction had reached."""
    configuration = configuration_of(cluster.engine())
    problem, solution = configuration.problem, configuration.solution
    rows = np.flatnonzero(problem.movable & (solution.node != NOWHERE)).tolist()
    if not rows:
        return
    before, transaction = solution.copy(), new_transaction(12)
    steps = st.tuples(st.sampled_from(rows), st.integers(NOWHERE, len(problem.limit) - 1))
    for row, target in data.draw(st.lists(steps, max_size=12)):
        try_move(problem, solution, transaction, row, target)
    reached = solution.node.copy()
    tried = int(transaction.length[0])
    undo_transaction(problem, solution, transaction, 0)
    into_single_moves(solution, transaction, tried)
    assert np.array_equal(solution.node, before.node)
    assert np.array_equal(solution.node_load, before.node_load)
    length = int(transaction.length[0])
    moves = [Move(*(int(array[entry]) for array in transaction[:3])) for entry in range(length)]
    assert {move.row for move in moves} == set(np.flatnonzero(reached != before.node).tolist())
    assert len({move.row for move in moves}) == len(moves)
    assert all(move.source == before.node[move.row] for move in moves)
    redo_transaction(problem, solution, transaction)
    assert np.array_equal(solution.node, reached)
    compare_with_scratch(problem, solution, "after the moves")


@pytest.fixture(autouse=True)
def _often():
    """Larger neighbourhoods have all steps at first."""
    with patch.object(neighbourhoods, "FIRST_SHARE", 1.0 / len(NEIGHBOURHOODS)):
        yield


@examples(100)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 100)), min_size=5, max_size=5),
    st.integers(1, 200),
)
def test_shares_follow_what_each_neighbourhood_wins_for_its_cost(results, rounds):
    """They stay probabilities, none falls below its least share, and the cost that each gets follows its winnings."""
    of_chain = new_neighbourhoods(len(results) - 1)
    for _ in range(rounds):
        for number, (won, cost) in enumerate(results):
            for _ in range(60):
                note_step(of_chain, number, cost, won / 60, 0.0)
            of_chain.cost[0] += STRETCH
        of_chain.cost[0] -= STRETCH * len(results)
        before = of_chain.share.copy()
        adapt_shares(of_chain)
        if of_chain.cost.any():
            assert (of_chain.share == before).all(), "the stretch has not ended"
            of_chain.won[:], of_chain.cost[:], of_chain.steps[:] = 0.0, 0, 0
    assert of_chain.share.sum() == pytest.approx(1.0)
    if any(won for won, _ in results):
        assert of_chain.share.min() >= LEAST_SHARE / 2


def test_share_of_the_budget_is_that_of_the_winnings():
    """Two neighbourhoods of which one wins twice as much for its cost get twice as much of the budget."""
    of_chain = new_neighbourhoods(1)
    for _ in range(200):
        for number, cost, won in ((SINGLE, 1, 1.0), (1, 20, 40.0)):
            for _ in range(STRETCH // cost):
                note_step(of_chain, number, cost, won, 0.0)
        adapt_shares(of_chain)
    cost_of_each = of_chain.share * (1, 20)
    assert cost_of_each[1] / cost_of_each[0] == pytest.approx(2.0, rel=1e-6)


def test_neighbourhoods_are_drawn_by_their_shares():
    """In 20,000 draws each comes as often as its share says."""
    of_chain = new_neighbourhoods(2)
    of_chain.share[:] = 0.2, 0.7, 0.1
    rng = Stream(np.random.SeedSequence(5))
    drawn = np.bincount([random_neighbourhood(of_chain, rng) for _ in range(20_000)], minlength=3)
    assert drawn / 20_000 == pytest.approx(of_chain.share, abs=0.02)


def full_nodes(**settings):
    """Return two nodes that are full of CPU, where only an exchange of one replica against two evens out the memory."""
    metrics = [Metric("cpu", weight=0.0, global_weight=0.0), Metric("memory")]
    config = PlbConfig(
        metrics=metrics, w_imbalance=1000.0, max_percentage_to_move=1.0, capacity_limit="capacity", **settings
    )
    engine = PlacementAndLoadBalancing(config, seed=3)
    for name in ("a", "b"):
        engine.update_node(Node(name, capacities={"cpu": 10}))
    engine.update_service(Service("web", stateful=False))
    loads = {"one": ("a", 6, 10), "two": ("b", 3, 0), "three": ("b", 3, 0), "stays": ("a", 4, 10), "rest": ("b", 4, 0)}
    for name, (node, cpu, memory) in loads.items():
        pinned = name in ("stays", "rest")
        replica = Replica(Role.INSTANCE, node, pinned=pinned)
        engine.update_partition(Partition(name, service="web", replicas=[replica]))
        engine.report_load(name, node, {"cpu": cpu, "memory": memory})
    return engine


def test_larger_steps_get_replicas_past_full_nodes():
    """No single move and no exchange of two is possible; one replica against two is."""
    assert not full_nodes().balance(budget=4000).moves
    plan = full_nodes(larger_neighbourhoods=True).balance(budget=4000)
    assert {(move.partition, move.target) for move in plan.moves} == {("one", "b"), ("two", "a"), ("three", "a")}
    assert plan.energy_after.imbalance == 0.0
    assert plan.proposals.accepted_by_neighbourhood


def circle(**settings):
    """Return three full nodes whose replicas may each go to the next one only, and lower the energy only together."""
    config = PlbConfig(
        metrics=[Metric("cpu"), Metric("memory")],
        w_imbalance=1000.0,
        max_percentage_to_move=1.0,
        capacity_limit="capacity",
        **settings,
    )
    engine = PlacementAndLoadBalancing(config, seed=3)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10}, properties={"place": str(index)}))
    loads = (30, 0, 0)
    for index in range(3):
        places = f"place == {index} || place == {(index + 1) % 3}"
        engine.update_service(Service(f"s{index}", stateful=False, placement_constraint=places))
        replica = Replica(Role.INSTANCE, f"n{index}")
        engine.update_partition(Partition(f"p{index}", service=f"s{index}", replicas=[replica]))
        engine.report_load(f"p{index}", f"n{index}", {"cpu": 6, "memory": loads[index]})
    # memory that cannot move lies on the node that p0 stands on
    engine.update_service(Service("fixed", stateful=False))
    engine.update_partition(Partition("fixed", service="fixed", replicas=[Replica(Role.INSTANCE, "n0", pinned=True)]))
    engine.report_load("fixed", "n0", {"cpu": 0, "memory": 30})
    return engine


def test_ejection_chain_moves_replicas_in_a_circle():
    """Each may only take the place of the next one, so all three move or none."""
    assert not circle().balance(budget=4000).moves
    plan = circle(larger_neighbourhoods=True).balance(budget=4000)
    assert {(move.partition, move.target) for move in plan.moves} == {("p0", "n1"), ("p1", "n2"), ("p2", "n0")}
    assert plan.proposals.accepted_by_neighbourhood.get("ejection_chain", 0) > 0


def test_small_budgets_leave_no_room_for_larger_steps():
    """A step is made only if the budget holds all moves that it may try."""
    plan = full_nodes(larger_neighbourhoods=True, chains=1).balance(budget=60)
    assert plan.proposals.generated == 60 < MOST_ASKED
    assert not plan.proposals.tried_by_neighbourhood


def test_settings_can_be_changed_between_plans():
    """The lists of rows on nodes come and go with the setting."""
    engine = full_nodes()
    assert not engine.balance(budget=4000).moves
    engine.configure(full_nodes(larger_neighbourhoods=True).config)
    assert engine.balance(budget=4000).moves
    engine.configure(full_nodes().config)
    assert not engine.balance(budget=4000).moves


@examples(60)
@given(busy_clusters(), st.integers(0, 2**32 - 1))
def test_exchanges_of_similar_size_are_exchanges_of_movable_rows(cluster, seed):
    """Also where the plan before has moved most of them; the order is that of the sizes."""
    engine = cluster.engine(similar_exchange_share=1.0, exchange_probability=1.0)
    configuration = configuration_of(engine)
    problem, solution = configuration.problem, configuration.solution
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    if len(movable) < 2:
        return
    fields = order_of_sizes(problem, movable, engine.config)
    load = problem.load[movable] / np.maximum(1, problem.load[movable].sum(axis=0))
    sizes = dict(zip(movable.tolist(), load.sum(axis=1), strict=True))
    order = fields["by_size"].tolist()
    assert sorted(order) == movable.tolist()
    assert all(sizes[first] <= sizes[second] for first, second in pairwise(order))
    choice = Choice(movable[:0], movable, len(movable), 0, 0.0, 1.0, **fields)
    rng = Stream(np.random.SeedSequence(seed))
    drawn = np.empty((50, 3), np.int64)
    _draw(problem, solution, choice, rng, drawn)
    for row, target, partner in drawn.tolist():
        if row != NOWHERE:
            assert partner in sizes
            assert target == solution.node[partner]


def test_names_of_neighbourhoods_are_in_the_order_of_their_numbers():
    """Plans show names, kernels use numbers."""
    assert [NEIGHBOURHOODS[number - 1] for number in (PARTITION, NODE, SERVICE)] == ["partition", "node", "service"]
