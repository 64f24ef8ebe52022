"""Strategies of metrics: nodes kept empty, load packed on few nodes, and the places of new replicas."""

from __future__ import annotations

import itertools

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.model.metric import PlacementStrategy
from plb.model.rules import ALL_RULES
from plb.planning.rule_priorities import balancing_variants
from plb.search.balancing import Variant, balance
from plb.search.budget import Budget
from plb.search.placement import filtered
from plb.search.transactions import NO_ROWS, moved_rows
from plb.state.topology import emptiness_weights, packs, reserves, strategy_of, target_empty_nodes
from plb.testing import all_clusters, configuration_of, walks
from tests.engine.stories import add_instance, engine_with, search_of
from tests.engine.strategies import examples

PLAIN = Metric("cpu", quantum=1.0, violation_threshold=1.0)
RESERVATION = attrs.evolve(PLAIN, placement_strategy=PlacementStrategy.RESERVATION, empty_nodes=1.0)

STRATEGIES = [
    ({}, PlacementStrategy.BALANCING, False, False),
    ({"defragmentation": True}, PlacementStrategy.DEFRAGMENTATION, True, False),
    ({"scoped_defragmentation": True}, PlacementStrategy.BALANCING, False, False),
    (
        {"defragmentation": True, "scoped_defragmentation": True},
        PlacementStrategy.RESERVATION_AND_BALANCE,
        False,
        True,
    ),
    ({"placement_strategy": 3}, PlacementStrategy.RESERVATION_AND_PACK, True, True),
    ({"placement_strategy": 2, "defragmentation": True}, PlacementStrategy.RESERVATION, False, True),
    ({"placement_strategy": 0, "defragmentation": True}, PlacementStrategy.BALANCING, False, False),
]


@pytest.mark.parametrize(("settings", "strategy", "packing", "reserving"), STRATEGIES)
def test_strategy_is_the_given_one_or_follows_from_the_settings(settings, strategy, packing, reserving):
    metric = Metric("cpu", **settings)
    assert (strategy_of(metric), packs(metric), reserves(metric)) == (strategy, packing, reserving)


@pytest.mark.parametrize(
    ("strategy", "settings", "weights"),
    [
        (2, {}, (1.0, 0.0)),
        (1, {}, (0.999, pytest.approx(0.001))),
        (3, {"empty_node_weight": 0.25}, (0.25, 0.75)),
        (1, {"empty_node_weight": 0.25, "non_empty_node_weight": 0.5}, (0.25, 0.5)),
        (2, {"empty_node_weight": 0.25}, (0.25, 0.0)),
    ],
)
def test_weights_default_by_strategy(strategy, settings, weights):
    """Reservation alone has no weight for balance; otherwise the other nodes have the remaining weight."""
    assert emptiness_weights(Metric("cpu", placement_strategy=strategy, **settings)) == weights


@pytest.mark.parametrize(("requested", "nodes"), [(None, 0), (0.0, 0), (0.5, 3), (0.99, 6), (1.0, 1), (3.0, 3)])
def test_empty_nodes_are_a_share_below_one_and_a_number_from_one(requested, nodes):
    assert target_empty_nodes(Metric("cpu", empty_nodes=requested), 7) == nodes


def imbalance(metric: Metric, loads: list[float], *, capacity: float | None = 10, **settings) -> float:
    """Return the imbalance of nodes with these loads, each in one replica."""
    nodes = {f"n{index}": capacity for index in range(len(loads))}
    replicas = {f"p{index}": (f"n{index}", load) for index, load in enumerate(loads)}
    return float(configuration_of(engine_with(nodes, replicas, metric=metric, **settings)).solution.totals.imbalance)


SCORES = [
    ([0, 5, 5], {}, 0.0),
    ([5, 5, 5], {}, 2 - 0.25),
    ([10, 10, 10], {}, 2.0),
    ([10, 2, 10], {"empty_node_load": 2}, 0.0),
    ([10, 3, 10], {"empty_node_load": 2}, 2 - 0.81),
    ([10, 4, 10], {"reserved_load": 6}, 0.0),
    ([10, 5, 10], {"reserved_load": 6}, 2 - 0.81),
    ([10, 0, 10], {"reserved_load": 11}, 2 - 0.81),
    ([0, 4, 6], {"empty_nodes": 2.0}, 2 - 0.36),
    ([0, 4, 6], {"empty_nodes": 0.7, "empty_node_weight": 0.5}, (2 - 0.36) / 2),
]


@pytest.mark.kernels
@pytest.mark.parametrize(("loads", "settings", "score"), SCORES)
def test_score_of_reservation_is_the_lack_of_empty_nodes(loads, settings, score):
    """The score is 0 for an empty node, and 2 - (1 - p)² for one above its limit by p of its capacity."""
    assert imbalance(attrs.evolve(RESERVATION, **settings), loads) == pytest.approx(score)


@pytest.mark.kernels
def test_node_without_capacity_is_empty_only_without_load():
    """Its load is no share of a capacity."""
    assert imbalance(RESERVATION, [0, 1], capacity=None) == 0.0
    assert imbalance(RESERVATION, [1, 1], capacity=None) == 2.0
    assert imbalance(attrs.evolve(RESERVATION, reserved_load=5), [1, 1], capacity=None) == 0.0


@pytest.mark.kernels
def test_other_nodes_are_balanced_or_packed():
    """The score covers the other nodes: 4 and 8 deviate by 1/3, even if an empty node has a little load."""
    balanced = attrs.evolve(RESERVATION, placement_strategy=1, empty_node_weight=0.5)
    assert imbalance(balanced, [0, 4, 8]) == pytest.approx(0.5 / 3)
    assert imbalance(attrs.evolve(balanced, empty_node_load=3), [3, 4, 8]) == pytest.approx(0.5 / 3)
    packed = attrs.evolve(RESERVATION, placement_strategy=3, empty_node_weight=0.5)
    factors = {f"defragmentation_{of}_std_dev_factor": 0.0 for of in ("fds", "uds")}
    assert imbalance(packed, [0, 4, 8], **factors) == pytest.approx(0.5 * 2 / 3)


@pytest.mark.kernels
@pytest.mark.parametrize(("across", "score"), [(False, 0.0), (True, 2 - 0.25)])
def test_empty_nodes_are_spread_over_domains_if_set(across, score):
    """Both empty nodes are in one fault domain; with domains, the second must be in the other."""
    metric = attrs.evolve(RESERVATION, empty_nodes=2.0, empty_nodes_across_domains=across)
    nodes = [Node(f"n{i}", capacities={"cpu": 10}, fault_domain=f"fd:/{i // 2}") for i in range(4)]
    engine = engine_with(nodes, {"a": ("n2", 5), "b": ("n3", 6)}, metric=metric)
    assert configuration_of(engine).solution.totals.imbalance == pytest.approx(score)


@pytest.mark.kernels
@pytest.mark.parametrize(("overlap", "score"), [(False, 0.0), (True, (0 + 2 - 0.25) / 2)])
def test_empty_nodes_are_the_same_for_all_metrics_if_set(overlap, score):
    """n0 is empty of cpu and n1 of memory; n2 is neither. One node for both is half full in one of them."""
    metrics = [attrs.evolve(RESERVATION, name=name) for name in ("cpu", "memory")]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, nodes_with_reserved_load_overlap=overlap))
    engine.update_service(Service("web", stateful=False))
    for index, loads in enumerate([(0, 5), (6, 0), (9, 9)]):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 10, "memory": 10}))
        engine.update_partition(Partition(f"p{index}", service="web", replicas=[Replica(Role.INSTANCE, f"n{index}")]))
        engine.report_load(f"p{index}", f"n{index}", dict(zip(("cpu", "memory"), loads, strict=True)))
    assert configuration_of(engine).solution.totals.imbalance == pytest.approx(score)


@st.composite
def reserving_clusters(draw):
    cluster = draw(all_clusters())
    metrics = tuple(
        attrs.evolve(
            metric,
            placement_strategy=draw(st.sampled_from(PlacementStrategy)),
            empty_nodes=draw(st.sampled_from([None, 0.4, 1.0, 2.0, 20.0])),
            empty_nodes_across_domains=draw(st.booleans()),
            reserved_load=draw(st.sampled_from([None, 1.0, 30.0])),
            balancing_by_percentage=draw(st.booleans()),
        )
        for metric in cluster.metrics
    )
    return attrs.evolve(cluster, metrics=metrics)


@pytest.mark.kernels
@examples(80)
@given(reserving_clusters(), st.booleans(), st.data())
def test_score_does_not_depend_on_the_order_of_moves(cluster, overlap, data):
    """After any walk it equals the score from scratch, and after the way back the first score."""
    engine = cluster.engine(local_domain_weight=0.25, nodes_with_reserved_load_overlap=overlap)
    configuration = configuration_of(engine)
    start, back = configuration.energy, []
    for proposal in data.draw(walks(configuration)):
        back.append(configuration.apply(proposal))
        configuration.check()
    for proposal in reversed(back):
        configuration.apply(proposal)
    assert configuration.energy == start


@examples(40)
@given(reserving_clusters())
def test_searches_run_with_every_strategy(cluster):
    """Each phase ends, with self-checks on, and balancing does not raise the energy."""
    engine = cluster.engine(checks="phase")
    for verb in ("place", "repair", "balance"):
        plan = getattr(engine, verb)(budget=60)
        if verb == "balance":
            assert plan.energy_after.total <= plan.energy_before.total


def test_balancing_empties_a_reserved_node():
    """One of three nodes is to be empty: its load moves to the others, and a second balancing moves nothing."""
    replicas = {"a": ("n0", 4), "b": ("n1", 3), "c": ("n2", 1)}
    engine = engine_with({f"n{index}": 10 for index in range(3)}, replicas, metric=RESERVATION)
    engine.apply(engine.balance())
    left = {engine.replicas(name)[0].node for name in replicas}
    assert len(left) == 2
    assert engine.balance().moves == ()


@pytest.mark.parametrize(("loads", "needs"), [([0, 4, 4], False), ([0, 4, 8], True), ([1, 4, 4], True)])
def test_reservation_with_balance_needs_both(loads, needs):
    metric = attrs.evolve(RESERVATION, placement_strategy=PlacementStrategy.RESERVATION_AND_BALANCE)
    nodes = {f"n{index}": 10 for index in range(3)}
    engine = engine_with(nodes, {f"p{i}": (f"n{i}", load) for i, load in enumerate(loads)}, metric=metric)
    assert search_of(engine).is_unbalanced is needs


PACKED = attrs.evolve(PLAIN, defragmentation=True)


@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ({"placement_heuristic_incoming_load_factor": 1.0}, {"n0"}),
        ({"placement_heuristic_incoming_load_factor": 1.5}, {"n0", "n1"}),
        ({"placement_heuristic_incoming_load_factor": 4.5}, {"n0", "n1", "n2"}),
        ({"placement_heuristic_empty_space_percent": 0.1}, {"n0", "n1"}),
        ({"placement_heuristic_empty_space_percent": 0.01}, {"n0"}),
        ({"placement_heuristic_empty_space_percent": 0.9}, {"n0", "n1", "n2", "n3"}),
        (
            {"placement_heuristic_incoming_load_factor": 0.5, "placement_heuristic_empty_space_percent": 0.1},
            {"n0", "n1"},
        ),
        ({}, {"n0", "n1", "n2", "n3"}),
    ],
)
def test_new_replicas_go_to_the_fullest_feasible_nodes(settings, targets):
    """Free are 2, 6, 8 and 10. For a load of 2, the fullest nodes are taken until the goal is free."""
    metric = attrs.evolve(PACKED, **settings)
    replicas = {"a": ("n0", 8), "b": ("n1", 4), "c": ("n2", 2)}
    engine = engine_with({f"n{index}": 10 for index in range(4)}, replicas, metric=metric)
    add_instance(engine, 2)
    assert candidates_of(engine) == targets
    assert engine.place().moves[0].target in targets


def candidates_of(engine: PlacementAndLoadBalancing, *partitions: str) -> set[str]:
    """Return the names of the nodes to which the candidate filter limits the replicas of new partitions."""
    configuration = configuration_of(engine)
    rows = [replica.index for name in partitions or ("new",) for replica in engine.replicas(name)]
    few = filtered(configuration.problem, configuration.solution, engine.config, np.array(rows))
    found = configuration.problem.targets if few is None else few.targets
    return {engine._state.nodes[node].name for node in found}


def test_node_without_room_for_the_smallest_new_replica_is_no_candidate():
    """The fullest node has 2 free, and the new replica needs 3."""
    metric = attrs.evolve(PACKED, placement_heuristic_incoming_load_factor=0.1)
    engine = engine_with({"n0": 10, "n1": 10, "n2": 10}, {"a": ("n0", 8), "b": ("n1", 4)}, metric=metric)
    add_instance(engine, 3)
    assert candidates_of(engine) == {"n1"}


RESERVED_LOADS = {"n0": 90, "n1": 70, "n2": 40, "n3": 10, "n4": 0, "n5": 0}


@pytest.mark.parametrize(
    ("strategy", "settings", "targets"),
    [
        (PlacementStrategy.RESERVATION, {}, {"n0", "n1", "n2", "n3"}),
        (PlacementStrategy.RESERVATION_AND_BALANCE, {}, {"n0", "n1", "n2", "n3"}),
        (PlacementStrategy.RESERVATION_AND_BALANCE, {"incoming_load_factor": 1.0}, {"n2", "n3"}),
        (PlacementStrategy.RESERVATION_AND_BALANCE, {"incoming_load_factor": 0.75}, {"n3"}),
        (PlacementStrategy.RESERVATION_AND_BALANCE, {"incoming_load_factor": 3.0}, {"n1", "n2", "n3"}),
        (PlacementStrategy.RESERVATION_AND_BALANCE, {"empty_space_percent": 0.2}, {"n2", "n3"}),
        (PlacementStrategy.RESERVATION_AND_PACK, {"incoming_load_factor": 1.0}, {"n1", "n2"}),
        (PlacementStrategy.RESERVATION_AND_PACK, {"empty_space_percent": 0.01}, {"n1"}),
    ],
)
def test_new_replicas_keep_off_reserved_nodes(strategy, settings, targets):
    """Two nodes are to be empty. For a load of 40, balance needs nodes that take the goal up to the next fuller one.

    The least loaded other node takes 30 until it has 40, then two nodes take 60 until both have 70, and so on. Packing
    takes the fullest with room for it. The share is one of what is free on the nodes to be empty, 200.
    """
    chosen = {f"placement_heuristic_{name}": value for name, value in settings.items()}
    metric = attrs.evolve(PLAIN, placement_strategy=strategy, empty_nodes=2.0, **chosen)
    replicas = {f"on-{node}": (node, load) for node, load in RESERVED_LOADS.items() if load}
    engine = engine_with(dict.fromkeys(RESERVED_LOADS, 100), replicas, metric=metric)
    add_instance(engine, 20)
    add_instance(engine, 20, name="another")
    assert candidates_of(engine, "new", "another") == targets


@pytest.mark.parametrize("strategy", [strategy for strategy in PlacementStrategy if strategy.value])
def test_nodes_without_capacity_are_always_candidates(strategy):
    """One other node is to be empty where the strategy reserves nodes; one is full enough for the new replica."""
    metric = attrs.evolve(
        PLAIN, placement_strategy=strategy, empty_nodes=1.0, placement_heuristic_incoming_load_factor=1.0
    )
    engine = engine_with({"n0": None, "n1": 100, "n2": 100}, {"a": ("n0", 50), "b": ("n1", 50)}, metric=metric)
    add_instance(engine, 20)
    assert candidates_of(engine) == {"n0", "n1"}


def test_each_metric_with_load_has_to_keep_a_candidate():
    """A replica with load of both metrics goes where both keep it; one with load of one metric where this one does."""
    metrics = [
        attrs.evolve(PACKED, name=name, placement_heuristic_incoming_load_factor=factor)
        for name, factor in (("a", 1.0), ("b", 2.0))
    ]
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics), seed=1)
    for name in ("n0", "n1", "n2"):
        engine.update_node(Node(name, capacities={"a": 100, "b": 100}))
    present = {"x": {"a": 50}, "y": {"a": 40, "b": 10}, "z": {"b": 30}}
    new = {"a": {"a": 5}, "b": {"b": 55}, "ab": {"a": 55, "b": 55}}
    for name, load in {**present, **new}.items():
        engine.update_service(Service(name, stateful=False, default_load={Role.INSTANCE: load}))
    for name, node in (("x", "n0"), ("y", "n1"), ("z", "n2")):
        engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, node)]))
    for name in new:
        engine.update_partition(Partition(name, service=name))
    assert candidates_of(engine, "a") == {"n0"}
    assert candidates_of(engine, "b") == {"n1", "n2"}
    assert candidates_of(engine, "ab") == {"n1"}


def test_partition_has_a_candidate_node_for_each_missing_replica():
    """Three instances of one partition need three nodes, even if the first has enough free capacity."""
    metric = attrs.evolve(PACKED, placement_heuristic_incoming_load_factor=0.1)
    engine = engine_with({f"n{index}": 100 for index in range(5)}, {"a": ("n4", 8)}, metric=metric)
    add_instance(engine, 2, instances=3)
    targets = {move.target for move in engine.place().moves}
    assert targets == {"n4", "n0", "n1"}


def test_replica_that_fits_on_no_candidate_goes_elsewhere():
    """The candidate filter is a preference: a replica that is too large for these nodes goes to any other node."""
    metric = attrs.evolve(PACKED, placement_heuristic_incoming_load_factor=0.01)
    engine = engine_with({"n0": 10, "n1": 10}, {"a": ("n0", 8)}, metric=metric)
    add_instance(engine, 5)
    assert [move.target for move in engine.place().moves] == ["n1"]


def test_restricted_search_only_empties_nodes():
    """It moves load from nodes at or below the mean to those above; only such moves help here."""
    engine = engine_with(
        {f"n{index}": 20 for index in range(4)},
        {f"p{node}{index}": (f"n{node}", 1) for node, index in itertools.product(range(4), range(1 + 2))},
        metric=PACKED,
    )
    engine.report_load("p00", "n0", {"cpu": 8})
    run = search_of(engine)
    variants, seed = [Variant(ALL_RULES, 0.0, 0.0, only_empties=True)], np.random.SeedSequence(1)
    balance(run.search_of(run.problem), variants, seed, Budget())
    moved = moved_rows(run.problem, run.solution, NO_ROWS)
    assert len(moved)
    assert set(run.solution.node[moved]) == {0}


@pytest.mark.parametrize("seed", range(4))
def test_restricted_search_moves_no_more_than_what_empties_the_nodes_to_be_empty(seed):
    """Of six nodes with two replicas each, the two emptiest are emptied by four moves, and no other replica moves."""
    engine = engine_with(
        {f"n{index}": 20 for index in range(6)},
        {f"p{node}{index}": (f"n{node}", 2 - node // 4) for node, index in itertools.product(range(6), range(2))},
        metric=attrs.evolve(RESERVATION, empty_nodes=2.0),
        restricted_defragmentation_heuristic_enabled=True,
    )
    run = search_of(engine)
    variants, sequence = [Variant(ALL_RULES, 0.0, 0.0, only_empties=True)], np.random.SeedSequence(seed)
    balance(run.search_of(run.problem), variants, sequence, Budget())
    moved = moved_rows(run.problem, run.solution, NO_ROWS)
    assert sorted(run.problem.origin[moved]) == [4, 4, 5, 5]
    assert not {4, 5} & set(run.solution.node[moved])


@pytest.mark.parametrize("seed", range(4))
def test_packing_moves_the_fewest_replicas(seed):
    """Two replicas join the two on n0; the product form is negative here, and further moves have a cost as well."""
    replicas = {"a": ("n0", 2), "b": ("n0", 2), "c": ("n1", 2), "d": ("n2", 2)}
    engine = engine_with({f"n{index}": 10 for index in range(3)}, replicas, metric=PACKED, combination="service_fabric")
    engine.seed = seed
    assert {(move.partition, move.target) for move in engine.balance().moves} == {("c", "n0"), ("d", "n0")}


@pytest.mark.parametrize(
    ("enabled", "metric", "searches"),
    [(True, PACKED, 2), (True, RESERVATION, 2), (False, PACKED, 1), (False, RESERVATION, 1), (True, PLAIN, 1)],
)
def test_restricted_search_is_added_if_a_metric_is_packed_or_reserves_nodes(enabled, metric, searches):
    engine = engine_with({"n0": 10}, {}, metric=metric, restricted_defragmentation_heuristic_enabled=enabled)
    assert len(balancing_variants(engine.config, slow=False)) == searches
