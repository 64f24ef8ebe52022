"""Steps in larger neighbourhoods: they keep every rule and sum, get replicas past full nodes, and are counted."""

from __future__ import annotations

from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Checks, Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.compiler import Stream
from plb.energy.node_sums import insert_in_list, random_row_on, remove_from_list
from plb.evaluation.delta import compare_with_scratch
from plb.search.annealing import annealing
from plb.search.annealing.move_generation import Choice
from plb.search.annealing.neighbourhoods import (
    LEAST_PART,
    NEIGHBOURHOODS,
    NODE,
    PARTITION,
    STRETCH,
    adapt_parts,
    new_neighbourhoods,
    note_step,
    random_neighbourhood,
)
from plb.search.transactions import into_single_moves, new_transaction, redo_transaction, try_move, undo_transaction
from plb.state.arrays import Proposal
from plb.testing import all_clusters, busy_clusters, configuration_of
from tests.engine.strategies import examples
from tests.extensions.proposing import Anything, SwiftAnything, SwiftRotation
from tests.extensions.test_compiled_terms import NotOnLast, Occupied, OccupiedWithSums
from tests.search.random_proposals import random_proposals


class Move(NamedTuple):
    """A move of a transaction."""

    row: int
    source: int
    target: int


LARGER = {"larger_neighbourhood_share": 1.0, "exchange_moved_replicas": True, "similar_exchange_share": 0.5}


def things(violations):
    """Return what is broken, without by how much; a node up to its limit is not."""
    violations = [one for one in violations if one.rule != "capacity" or one.load > one.limit]
    parts = ("partition", "node", "metric", "domain")
    return {(one.rule, *(getattr(one, part, None) for part in parts)) for one in violations}


def only(neighbourhoods, **settings):
    """Return what a cluster's engine gets such that it searches nothing else than these neighbourhoods."""
    names = [one.name for one in neighbourhoods]
    extensions = {"extension_neighbourhoods": neighbourhoods}
    return {"extensions": extensions, "larger_neighbourhoods": names, "larger_neighbourhood_share": 1.0, **settings}


BOTH = [Anything(), SwiftAnything()]
WITH_OTHERS = {
    "extension_terms": [Occupied(), OccupiedWithSums()],
    "extension_constraints": [NotOnLast()],
    "extension_neighbourhoods": BOTH,
}
kinds = st.sampled_from([LARGER, only(BOTH), only(BOTH, extensions=WITH_OTHERS)])
"""What an engine gets such that it searches built-in neighbourhoods or those of users, also beside their terms."""


@pytest.mark.kernels
@examples(80)
@given(all_clusters(), kinds)
def test_steps_keep_sums_exact_and_break_no_rule(cluster, kind):
    """All sums are compared with those from scratch after every step; nothing is broken that was not."""
    engine = cluster.engine(checks=Checks.STEP, **kind)
    before = things(engine.violations())
    plan = engine.balance(budget=200)
    assert plan.energy_after.total <= plan.energy_before.total
    engine.apply(plan)
    assert things(engine.violations()) <= before


@examples(50)
@given(busy_clusters(), st.sampled_from([LARGER, only(BOTH), only([SwiftAnything(), SwiftRotation()])]))
def test_plan_does_not_depend_on_threads_or_copies(cluster, kind):
    """Chains that run one after the other in place, and on threads with copies, find the same; so do two engines."""
    plans = []
    for least, threads in ((10**9, 1), (0, 3), (0, 3)):
        with patch.object(annealing, "THREADED_PROPOSALS", least):
            plans.append(cluster.engine(**{**kind, "threads": threads, "chains": 3}).balance(budget=300))
    assert plans[0] == plans[1] == plans[2]


@examples(60)
@given(all_clusters(), st.sampled_from([{"w_failovers": 0.1}, LARGER, only(BOTH)]), st.integers(2, 40))
def test_full_log_changes_no_sum_and_keeps_the_best(cluster, kind, size):
    """A log that is full again and again loses the start, but never the best solution, nor its violations."""
    engine, twin = (cluster.engine(checks=Checks.STEP, **kind) for _ in range(2))
    with patch.object(annealing, "UNDO_LOG_SIZE", size):
        plan = engine.balance(budget=160)
    assert plan.energy_after.total <= plan.energy_before.total
    for one in (engine, twin):
        one.apply(plan)
    assert engine.violations() == twin.violations()


@examples(80)
@given(all_clusters(), kinds, st.integers(0, 400))
def test_what_a_step_asks_and_tries_counts_as_proposals(cluster, kind, budget):
    proposals = cluster.engine(**kind).balance(budget=budget).proposals
    tried, accepted = proposals.tried_by_neighbourhood, proposals.accepted_by_neighbourhood
    assert proposals.generated <= budget
    assert set(accepted) <= set(tried) <= set(kind.get("larger_neighbourhoods", NEIGHBOURHOODS))
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
        if solution.node[row] != target:
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


@examples(60)
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 100)), min_size=5, max_size=5),
    st.floats(0.0, 1.0),
    st.integers(1, 30),
)
def test_parts_of_the_budget_are_kept_whatever_is_won(results, budget_share, stretches):
    """Single proposals have their share; the parts of the others add up to 1, and none falls below the least."""
    of_chain = new_neighbourhoods(range(1, len(results)), budget_share)
    for _ in range(stretches):
        for number, (won, cost) in enumerate(results):
            for _ in range(STRETCH // cost // 4 + 1):
                note_step(of_chain, number, cost, won, 0.0)
        adapt_parts(of_chain)
        assert not of_chain.cost.any(), "the next stretch has begun"
    assert of_chain.part[1:].sum() == pytest.approx(1.0)
    assert of_chain.part[1:].min() >= LEAST_PART - 1e-9
    cost = of_chain.probability * np.array([1, *(cost for _, cost in results[1:])])
    assert cost[1:].sum() / cost.sum() == pytest.approx(budget_share)
    assert cost[1:] == pytest.approx(of_chain.part[1:] * cost[1:].sum())
    rates = np.maximum(0.0, [won / cost for won, cost in results[1:]])
    for first in range(len(rates)):
        for second in range(len(rates)):
            if rates[first] > rates[second]:
                assert of_chain.part[1 + first] >= of_chain.part[1 + second]


def test_neighbourhoods_are_drawn_by_their_probabilities():
    of_chain = new_neighbourhoods([PARTITION, NODE], 0.9)
    of_chain.probability[:] = 0.2, 0.7, 0.1
    rng = Stream(np.random.SeedSequence(5))
    drawn = np.bincount([random_neighbourhood(of_chain, rng) for _ in range(20_000)], minlength=3)
    assert drawn / 20_000 == pytest.approx(of_chain.probability, abs=0.02)


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
    plan = full_nodes(larger_neighbourhood_share=0.5).balance(budget=4000)
    assert {(move.partition, move.target) for move in plan.moves} == {("one", "b"), ("two", "a"), ("three", "a")}
    assert plan.energy_after.imbalance == 0.0
    assert plan.proposals.accepted_by_neighbourhood


class Company:
    """A replica of the service lead has at least three others on its node."""

    name = "company"

    def refuses(self, configuration, proposal):
        """Refuse a proposal that breaks the constraint for a replica; one that is alone already may be left."""
        before = set(self.broken(configuration))
        back = configuration.apply(proposal)
        after = set(self.broken(configuration))
        configuration.apply(back)
        return not after <= before

    def broken(self, configuration):
        """Return the replicas of the service that have fewer others."""
        rows = [row for row in configuration.rows.tolist() if configuration.service_of(row).name == "lead"]
        return [row for row in rows if len(configuration.rows_on(configuration.node_of(row))) < 4]


def test_step_breaks_no_constraint_that_each_of_its_moves_alone_would_break():
    """Each of two replicas that leave together finds the constraint broken by the other one."""
    config = PlbConfig(
        metrics=[Metric("cpu")], w_imbalance=1000.0, max_percentage_to_move=1.0, larger_neighbourhood_share=0.9
    )
    engine = PlacementAndLoadBalancing(config, seed=0, extension_constraints=[Company()])
    for name in ("a", "b", "c"):
        engine.update_node(Node(name, capacities={"cpu": 100}))
    for service, count in (("lead", 1), ("web", 3)):
        engine.update_service(Service(service, stateful=False))
        for number in range(count):
            replica = Replica(Role.INSTANCE, "a", pinned=service == "lead")
            engine.update_partition(Partition(f"{service}/{number}", service=service, replicas=[replica]))
            engine.report_load(f"{service}/{number}", "a", {"cpu": 10})
    plan = engine.balance(budget=2000)
    assert plan.proposals.tried_by_neighbourhood
    assert plan.proposals.refused_by_rule["company"] > 0
    assert plan.moves == ()


def circle(*neighbourhoods, pinned=(), larger_neighbourhood_share=0.5, **settings):
    """Return three full nodes whose replicas may each go to the next one only, and lower the energy only together."""
    config = PlbConfig(
        metrics=[Metric("cpu"), Metric("memory")],
        w_imbalance=1000.0,
        max_percentage_to_move=1.0,
        capacity_limit="capacity",
        larger_neighbourhood_share=larger_neighbourhood_share,
        **settings,
    )
    engine = PlacementAndLoadBalancing(config, seed=3, extension_neighbourhoods=neighbourhoods)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10}, properties={"place": str(index)}))
    for index, memory in enumerate((30, 0, 0)):
        places = f"place == {index} || place == {(index + 1) % 3}"
        engine.update_service(Service(f"s{index}", stateful=False, placement_constraint=places))
        replica = Replica(Role.INSTANCE, f"n{index}", pinned=index in pinned)
        engine.update_partition(Partition(f"p{index}", service=f"s{index}", replicas=[replica]))
        engine.report_load(f"p{index}", f"n{index}", {"cpu": 6, "memory": memory})
    # memory that cannot move is on the node of p0
    engine.update_service(Service("fixed", stateful=False))
    engine.update_partition(Partition("fixed", service="fixed", replicas=[Replica(Role.INSTANCE, "n0", pinned=True)]))
    engine.report_load("fixed", "n0", {"cpu": 0, "memory": 30})
    return engine


def test_ejection_chain_moves_replicas_in_a_circle():
    """Each may only take the place of the next one, so all three move or none."""
    assert not circle(larger_neighbourhood_share=0.0).balance(budget=4000).moves
    plan = circle().balance(budget=4000)
    assert {(move.partition, move.target) for move in plan.moves} == {("p0", "n1"), ("p1", "n2"), ("p2", "n0")}
    assert plan.proposals.accepted_by_neighbourhood.get("ejection_chain", 0) > 0


def test_step_counts_as_more_proposals_where_nodes_have_many_replicas():
    """Each of its moves walks over the list of a node, so the same budget has fewer steps."""
    steps = []
    for bystanders in (0, 600):
        engine = circle(larger_neighbourhood_share=1.0, larger_neighbourhoods=["ejection_chain"])
        engine.update_service(Service("idle", stateful=False))
        for number in range(bystanders):
            replica = Replica(Role.INSTANCE, f"n{number % 3}", pinned=True)
            engine.update_partition(Partition(f"idle/{number}", service="idle", replicas=[replica]))
        proposals = engine.balance(budget=4000).proposals
        assert proposals.generated <= 4000
        steps.append(proposals.tried_by_neighbourhood["ejection_chain"])
    assert steps[1] < steps[0] / 2


def test_settings_can_be_changed_between_plans():
    """The lists of rows on nodes come and go with the setting."""
    engine = full_nodes()
    assert not engine.balance(budget=4000).moves
    engine.configure(full_nodes(larger_neighbourhood_share=0.5).config)
    assert engine.balance(budget=4000).moves
    engine.configure(full_nodes().config)
    assert not engine.balance(budget=4000).moves


@examples(40)
@given(busy_clusters(), st.integers(0, 2**32 - 1))
def test_replicas_that_have_moved_are_exchanged_where_the_settings_ask_for_it(cluster, seed):
    """With all replicas moved, only returns, retargets and substitutes are proposed otherwise."""
    configuration = configuration_of(cluster.engine())
    problem, solution = configuration.problem, configuration.solution
    movable = np.flatnonzero(problem.movable & (solution.node >= 0))
    moved = movable[:2]
    if len(moved) < 2 or len(problem.limit) < 3:
        return
    for row in moved.tolist():
        target = next(n for n in range(len(problem.limit)) if n != problem.origin[row])
        configuration.apply(Proposal(row, target))
    for share in (0.0, 1.0):
        choice = Choice(movable[:0], moved, len(moved), 0, 0.0, 0.0, exchanges_of_moved=share)
        for row, target, partner in random_proposals(configuration, choice, seed, 60):
            if row != NOWHERE and partner != NOWHERE and share:
                assert partner in moved
                assert target == solution.node[partner]
            elif row != NOWHERE:
                assert not share, "all proposals are exchanges"


@pytest.mark.parametrize("larger", [1, 2, 10, 11, 40])
def test_any_number_of_neighbourhoods_shares_the_budget(larger):
    """The least parts of many are smaller, so that the one that wins has at least half of the budget."""
    of_chain = new_neighbourhoods(range(1, larger + 1), 0.5)
    for _ in range(60):
        for number in range(1, larger + 1):
            note_step(of_chain, number, STRETCH, 1.0 if number == larger else 0.0, 0.0)
        adapt_parts(of_chain)
    least = min(LEAST_PART, 0.5 / larger)
    assert of_chain.part[1:-1] == pytest.approx(least, rel=1e-6)
    assert of_chain.part[-1] == pytest.approx(1.0 - (larger - 1) * least)


@pytest.mark.kernels
@examples(60)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=20))
def test_list_of_a_node_has_the_rows_that_have_joined_and_not_left(changes):
    """It is ascending and without repetitions, also where a row joins or leaves again."""
    first, following, expected = np.full(1, NOWHERE), np.full(7, NOWHERE), set()
    for row, joins in changes:
        (insert_in_list if joins else remove_from_list)(first, following, row, 0)
        expected = expected | {row} if joins else expected - {row}
    listed, row = [], int(first[0])
    while row != NOWHERE and len(listed) <= len(expected):
        listed.append(row)
        row = int(following[row])
    assert listed == sorted(expected)


@pytest.mark.kernels
@examples(30)
@given(all_clusters(), st.integers(0, 99))
def test_any_movable_row_of_a_node_is_drawn_and_no_other(cluster, seed):
    configuration, rng = configuration_of(cluster.engine(**LARGER)), Stream(seed)
    problem, solution = configuration.problem, configuration.solution
    for node in range(configuration.nodes):
        movable = {row for row in configuration.rows_on(node).tolist() if problem.movable[row]}
        draws = 40 * len(movable) + 1
        assert {random_row_on(problem, solution, node, rng) for _ in range(draws)} == (movable or {NOWHERE})


@pytest.mark.parametrize(
    ("replicas", "partitions", "idle"),
    [(1, 1, {"partition", "service"}), (1, 2, {"partition"}), (2, 1, {"service"}), (2, 2, set())],
)
def test_neighbourhoods_that_cannot_apply_take_no_budget(replicas: int, partitions: int, idle: set[str]):
    config = PlbConfig(
        metrics=[Metric("cpu")], w_imbalance=1000.0, max_percentage_to_move=1.0, larger_neighbourhood_share=0.5
    )
    engine = PlacementAndLoadBalancing(config, seed=1)
    for node in range(5):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 100}))
    for service in range(6):
        engine.update_service(Service(f"s{service}", stateful=False, target_replicas=replicas))
        for number in range(partitions):
            name, nodes = f"s{service}/{number}", [f"n{node}" for node in range(replicas)]
            there = [Replica(Role.INSTANCE, node) for node in nodes]
            engine.update_partition(Partition(name, service=f"s{service}", replicas=there))
            for node in nodes:
                engine.report_load(name, node, {"cpu": 1 + service})
    tried = engine.balance(budget=5_000).proposals.tried_by_neighbourhood
    assert {name for name in NEIGHBOURHOODS if not tried.get(name)} == idle
