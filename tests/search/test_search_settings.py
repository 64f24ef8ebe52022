"""Settings of the searches: time, temperature, cost, and the options of repair and placement."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.bench.engine import bench_cluster
from plb import MoveKind, Node, Partition, Replica, Role, Service
from plb.extensions.configuration import Proposal
from plb.model.rules import Rule
from plb.search.budget import Budget
from plb.testing import all_clusters, busy_clusters, configuration_of, walks
from tests.engine.oracle import sums_from_scratch
from tests.engine.stories import add_instance, engine_with, search_of
from tests.engine.strategies import examples

ENDLESS = {"max_simulated_annealing_iterations": None, "simulated_annealing_iterations_per_round": 100_000}
TIMEOUTS = {
    "place": "placement_search_timeout",
    "repair": "constraint_check_search_timeout",
    "balance": "fast_balancing_search_timeout",
}


def busy(**settings):
    replicas = {f"p{index}": ("n0", 1 + index) for index in range(8)}
    engine = engine_with({"n0": 20, "n1": 40, "n2": 40}, replicas, threads=1, **settings)
    add_instance(engine, 3, instances=2)
    return engine


@pytest.mark.parametrize(("verb", "timeout"), TIMEOUTS.items())
def test_search_ends_at_its_timeout_and_the_plan_reports_it(verb, timeout):
    """A search without other limits ends; one whose rounds end first is as reproducible as without a timeout."""
    ended = getattr(busy(**ENDLESS, **{timeout: 0.0}), verb)()
    assert not ended.reproducible
    assert ended.end_reason == "the time limit was reached"
    ample = getattr(busy(**{timeout: 1e6}), verb)()
    assert ample.reproducible
    assert ample == getattr(busy(), verb)()
    other = next(name for name in TIMEOUTS.values() if name != timeout)
    assert getattr(busy(**{other: 0.0}), verb)().reproducible


def test_placement_without_time_still_places_replicas_that_fit():
    """The time ends annealing, but not the walk over the nodes."""
    assert len(busy(placement_search_timeout=0.0, **ENDLESS).place().moves) == 2


def test_repair_without_time_still_moves_what_has_to_leave():
    """The time ends annealing, but not the random repairs."""
    moves = busy(constraint_check_search_timeout=0.0, **ENDLESS).repair().moves
    assert {move.source for move in moves} == {"n0"}


@pytest.mark.parametrize(
    ("slow", "timeout"), [(False, "fast_balancing_search_timeout"), (True, "slow_balancing_search_timeout")]
)
def test_fast_and_slow_balancing_have_separate_timeouts(slow, timeout):
    for name in ("fast_balancing_search_timeout", "slow_balancing_search_timeout"):
        settings = ENDLESS if name == timeout else {}
        engine = busy(**settings, **{name: 0.0}, one_action_per_refresh=True)
        run = search_of(engine)
        run.balance(slow=slow)
        assert run.plan([], None).reproducible is (name != timeout)


def test_slow_balancing_cools_at_its_own_rate():
    temperatures = set()
    for rate in (0.5, 0.98):
        cooling = {"cooling": "by_round", "initial_temperature": 1.0, "slow_balancing_temperature_decay_rate": rate}
        run = search_of(busy(one_action_per_refresh=True, **cooling))
        run.balance(slow=True)
        temperatures.add(run.plan([], None).temperature)
    assert len(temperatures) == 2


def test_cluster_specific_temperature_of_zero_accepts_only_improvements():
    settings = {"enable_cluster_specific_initial_temperature": True, "cluster_specific_temperature_coefficient": 0.0}
    cold, warm = (busy(cooling="by_round", **extra).balance().proposals.accepted for extra in (settings, {}))
    assert cold < warm


@examples(80)
@given(all_clusters(), st.data())
def test_energy_without_cost_is_the_deviation(cluster, data):
    """The product form has only the deviation; the additive form loses the moves and keeps its other terms."""
    configuration = configuration_of(cluster.engine(ignore_cost_in_scoring=True))
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    config, solution, problem = cluster.config, configuration.solution, configuration.problem
    imbalance, fragmentation = solution.totals.imbalance, solution.totals.fragmentation
    sums = sums_from_scratch(problem, solution.node)
    failovers, overload = (
        sum(sums["violating"]) / problem.weights.repetitions,
        sum(sums["overload"]) / problem.weights.repetitions / 2**20,
    )
    expected = imbalance + config["w_fragmentation"] * fragmentation
    if config["combination"] == "additive":
        expected = config["w_imbalance"] * imbalance + config["w_fragmentation"] * fragmentation
        expected += config["w_failovers"] * failovers if cluster.history else 0.0
        expected += config["w_overload"] * overload if cluster.history else 0.0
    assert configuration.energy == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_dummy_takes_the_last_node_that_fits():
    """Seed and energy do not matter; a full node is skipped."""
    engine = engine_with({"n0": 10, "n1": 10, "n2": 10, "n3": 2}, {}, dummy_plb_enabled=True)
    add_instance(engine, 4, instances=2)
    assert sorted(move.target for move in engine.place().moves) == ["n1", "n2"]


def full_cluster(**settings):
    replicas = {f"p{index}": ("n0", 3) for index in range(3)}
    engine = engine_with({"n0": 9, "n1": 3, "n2": 3, "n3": 3}, replicas, **settings)
    add_instance(engine, 9)
    return engine


@pytest.mark.parametrize(("share", "moves"), [(1.0, 4), (0.67, 4), (0.66, 0), (0.0, 0)])
def test_share_that_may_move_for_placement_is_rounded_up(share, moves):
    assert len(full_cluster(max_percentage_to_move_for_placement=share).place().moves) == moves


@examples(40)
@given(busy_clusters(), st.sampled_from([0.0, 0.1, 0.3]))
def test_placement_moves_no_more_than_its_share(cluster, share):
    engine = cluster.engine(max_percentage_to_move_for_placement=share)
    problem = configuration_of(engine).problem
    movable = int((problem.movable & (problem.origin >= 0)).sum())
    plan = engine.place(budget=120)
    displaced = sum(2 if m.kind is MoveKind.SWAP else m.kind is MoveKind.MOVE for m in plan.moves)
    assert displaced <= math.ceil(share * movable)


def overloaded_pair(**settings):
    engine = engine_with({"n0": 10, "n1": 10}, {}, **settings)
    engine.update_service(Service("db", target_replicas=2))
    replicas = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("db/0", service="db", replicas=replicas))
    engine.update_partition(Partition("fixed", service="web", replicas=[Replica(Role.INSTANCE, "n0", pinned=True)]))
    for partition, node, load in (("db/0", "n0", 8), ("db/0", "n1", 2), ("fixed", "n0", 4)):
        engine.report_load(partition, node, {"cpu": load})
    return engine


@pytest.mark.parametrize(("swaps", "kinds"), [(True, [MoveKind.SWAP]), (False, [])])
def test_constraint_check_swaps_roles_only_if_set(swaps, kinds):
    """A primary of 8 and a pinned 4 are on a node of 10; the node of the secondary has capacity for the primary."""
    plan = overloaded_pair(
        enable_preferred_swap_solution_in_constraint_check=swaps, swap_primary_probability=0
    ).repair()
    assert [move.kind for move in plan.moves] == kinds


def test_score_decides_between_repairs_only_if_set():
    """Three nodes are feasible for the replica that must leave; by score it is always the emptiest."""
    found = {True: set(), False: set()}
    for scores, targets in found.items():
        for seed in range(12):
            engine = engine_with(
                {"n0": 10, "n1": 10, "n2": 10, "n3": 10},
                {"a": ("n0", 6), "b": ("n0", 6), "c": ("n1", 4), "d": ("n2", 3)},
                use_score_in_constraint_check=scores,
                simulated_annealing_iterations_per_round=0,
            )
            engine.seed = seed
            targets.add(engine.repair().moves[0].target)
    assert found[True] == {"n3"}
    assert len(found[False]) > 1


@pytest.mark.parametrize("kind", ["fault", "upgrade"])
@pytest.mark.parametrize(("enabled", "placed"), [(True, 1), (False, 2)])
def test_domains_can_be_turned_off(kind, enabled, placed):
    """Two instances may share a domain, the other being full, only where there are no domains."""
    priorities = {f"{of}_domain_constraint_priority": 0 if of == kind else -1 for of in ("fault", "upgrade")}
    nodes = [
        Node(
            f"n{index}",
            capacities={"cpu": 10 * (index < 2)},
            fault_domain=f"fd:/{index // 2}",
            upgrade_domain=f"u{index // 2}",
        )
        for index in range(3)
    ]
    engine = engine_with(nodes, {}, **priorities, **{f"{kind}_domain_enabled": enabled})
    add_instance(engine, 1, instances=2)
    assert len(engine.place().moves) == placed


@pytest.mark.parametrize(("prefers", "refused"), [(True, Rule.PREFERRED_LOCATION), (False, None)])
def test_existing_locations_are_preferred_unless_set_otherwise(prefers, refused):
    settings = {"preferred_location_constraint_priority": 2, "prefer_existing_replica_locations": prefers}
    configuration = configuration_of(engine_with({"n0": 10, "n1": 10}, {"a": ("n0", 4)}, **settings))
    assert configuration.refusal(Proposal(0, 1)) is refused


@pytest.mark.parametrize("prefers", [True, False])
def test_nodes_of_standbys_are_preferred_with_either_setting(prefers):
    settings = {"preferred_location_constraint_priority": 2, "prefer_existing_replica_locations": prefers}
    engine = engine_with({"n0": 10, "n1": 10, "n2": 10}, {}, **settings)
    engine.update_service(Service("db", target_replicas=1))
    replicas = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1", state="standby")]
    engine.update_partition(Partition("db/0", service="db", replicas=replicas))
    configuration = configuration_of(engine)
    assert configuration.refusal(Proposal(0, 1)) is None
    assert configuration.refusal(Proposal(0, 2)) is Rule.PREFERRED_LOCATION


@pytest.mark.parametrize(("priority", "moves"), [(0, 0), (1, 0), (2, 1), (-1, 1)])
def test_balancing_also_searches_without_preferences(priority, moves):
    """An instance may leave the loaded node only for the domain of its sibling."""
    nodes = [Node(f"n{index}", fault_domain=f"fd:/{index // 2}") for index in range(3)]
    engine = engine_with(nodes, {"fixed": ("n2", 9)}, fault_domain_constraint_priority=priority)
    replicas = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n2")]
    engine.update_partition(Partition("pair", service="web", replicas=replicas))
    for partition, node, load in (("pair", "n0", 4), ("pair", "n2", 4)):
        engine.report_load(partition, node, {"cpu": load})
    engine.update_partition(Partition("fixed", service="web", replicas=[Replica(Role.INSTANCE, "n2", pinned=True)]))
    assert [(move.partition, move.target) for move in engine.balance().moves] == [("pair", "n1")] * moves


def test_search_with_time_does_not_end_after_a_few_short_rounds():
    """Ten short rounds change little with many replicas: each chain first generates one proposal per replica."""
    engine = bench_cluster(40, seed=0)
    engine.configure(
        attrs.evolve(
            engine.config, cooling="by_round", simulated_annealing_iterations_per_round=1, initial_temperature=50.0
        )
    )
    plan = engine.balance(budget=Budget(seconds=30.0))
    assert plan.end_reason == "the energy no longer changes"
    assert plan.proposals.generated >= 4 * 1200


SWAPS_ONLY = {"swap_primary_probability": 1.0, "exchange_probability": 0.0, "allow_chained_moves": True}


@examples(80)
@given(all_clusters())
def test_balancing_with_a_swap_probability_of_one_only_swaps(cluster):
    """Neither a replica that has swapped nor another one moves to a node without a replica of its partition."""
    plan = cluster.engine(w_imbalance=100.0, **SWAPS_ONLY).balance(budget=600)
    assert {move.kind for move in plan.moves} <= {MoveKind.SWAP}


def test_search_with_swaps_only_finds_them():
    """The light primary changes places with its heavy secondary; a move would balance better."""
    engine = engine_with({"n0": 100, "n1": 100, "n2": 100}, {"a": ("n0", 50)}, **SWAPS_ONLY)
    load = {Role.PRIMARY: {"cpu": 20}, Role.SECONDARY: {"cpu": 40}}
    engine.update_service(Service("db", target_replicas=2, default_load=load))
    replicas = [Replica(Role.SECONDARY, "n0"), Replica(Role.PRIMARY, "n1")]
    engine.update_partition(Partition("db/0", service="db", replicas=replicas))
    assert [(move.kind, move.source, move.target) for move in engine.balance().moves] == [(MoveKind.SWAP, "n1", "n0")]
