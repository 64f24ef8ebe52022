"""Re-packing ([1] section 8.3) moves few and smaller replicas, and only to free enough capacity."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.policies.repacking import Repacking
from plb.testing import clusters, configuration_of
from tests.engine.counted import Counted
from tests.engine.strategies import examples
from tests.machines import short_policy_test

pytestmark = pytest.mark.kernels

test_repacking, test_repacking_in_few_classes = (
    short_policy_test(Repacking()),
    short_policy_test(Repacking(size_classes=3)),
)


def size_class(counted, row, node, classes):
    """Return i with the largest share of the replica in (1/(i+1), 1/i], at most `classes`."""
    largest = max(counted.share(node, [row]))
    return next((i for i in range(1, classes) if largest > Fraction(1, i + 1)), classes)


@examples(200)
@given(cluster=clusters(with_history=False), classes=st.integers(1, 8), most_moves=st.integers(0, 3))
def test_repacking_moves_few_smaller_replicas_off_the_first_feasible_node(cluster, classes, most_moves):
    """No rule refuses a move in its turn, and the replica then fits on the node that they leave."""
    configuration = configuration_of(cluster.engine())
    policy = Repacking(size_classes=classes, most_moves=most_moves)
    for row in configuration.rows.tolist():
        before = configuration.nodes_for(row).tolist()
        moves = policy.evict(configuration, row)
        assert len(moves) <= most_moves
        counted = Counted(configuration)
        backs = []
        for move in moves:
            source = configuration.node_of(move.row)
            assert size_class(counted, move.row, source, classes) > size_class(counted, row, source, classes)
            assert move.target == configuration.nodes_for(move.row)[0]
            assert configuration.refusal(move) is None
            backs.append((source, configuration.apply(move)))
        if moves:
            nodes = configuration.nodes_for(row)
            chosen = policy.choose(configuration, row, nodes)
            assert {source for source, _ in backs} == {chosen}
            assert chosen not in before
            assert all(chosen < node for node in before), "nodes where it fits without moves come later"
        for _, back in reversed(backs):
            configuration.apply(back)


def filled(nodes, **settings):
    """Return an engine with nodes of capacity 20, which may be filled completely, with these loads on each."""
    config = PlbConfig(metrics=[Metric("cpu")], capacity_limit="capacity", **settings)
    engine = PlacementAndLoadBalancing(config)
    for node, loads in enumerate(nodes):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 20}))
        for index, load in enumerate(loads):
            name = f"{node}/{index}"
            engine.update_service(Service(name, stateful=False, default_load={Role.INSTANCE: {"cpu": load}}))
            engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, f"n{node}")]))
    return engine


def packed(nodes, waiting, **settings):
    """Return the target of a waiting load, and of the replicas that move for it."""
    engine = filled(nodes, policy="repacking", **settings)
    engine.update_service(Service("new", stateful=False, default_load={Role.INSTANCE: {"cpu": waiting}}))
    engine.update_partition(Partition("new", service="new"))
    return {move.partition: move.target for move in engine.place().moves}


@pytest.mark.parametrize(
    ("nodes", "waiting", "moves"),
    [
        pytest.param([[4, 6], []], 10, {"new": "n0"}, id="it fits next to all"),
        pytest.param([[4, 7], []], 10, {"0/0": "n1", "new": "n0"}, id="the larger class of two smaller replicas stays"),
        pytest.param([[4, 8], [19]], 8, {"new": "n0"}, id="it fits and fills the node"),
        pytest.param([[9, 9], []], 8, {"new": "n1"}, id="no replica has a smaller class"),
        pytest.param([[7, 8], []], 11, {"0/1": "n1", "new": "n0"}, id="the first of one class stays"),
        pytest.param([[4, 7], [18], []], 10, {"0/0": "n2", "new": "n0"}, id="evicted replicas go by first fit"),
        pytest.param([[11, 9], [18], []], 10, {"new": "n2"}, id="no free capacity next to larger replicas"),
        pytest.param([[11, 4], [20]], 9, {}, id="an evicted replica would have no node"),
        pytest.param([[1] * 20, [10], []], 10, {**{f"0/{i}": "n1" for i in range(10, 20)}, "new": "n0"}, id="ten"),
        pytest.param([[1] * 20, []], 11, {"new": "n1"}, id="eleven are too many"),
    ],
)
def test_repacking_of_examples(nodes, waiting, moves):
    assert packed(nodes, waiting) == moves


def test_repacking_checks_only_the_metrics_of_the_replica():
    """On a node that is too full of memory, a replica without memory finds free capacity of cpu."""
    config = PlbConfig(metrics=[Metric("cpu"), Metric("memory")], policy="repacking", capacity_limit="capacity")
    engine = PlacementAndLoadBalancing(config)
    for node in range(2):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 20, "memory": 20}))
    for name, load, replicas in (
        ("large", {"cpu": 11, "memory": 30}, [Replica(Role.INSTANCE, "n0")]),
        ("small", {"cpu": 4}, [Replica(Role.INSTANCE, "n0")]),
        ("new", {"cpu": 9}, []),
    ):
        engine.update_service(Service(name, stateful=False, default_load={Role.INSTANCE: load}))
        engine.update_partition(Partition(name, service=name, replicas=replicas))
    assert {move.partition: move.target for move in engine.place().moves} == {"small": "n1", "new": "n0"}


def test_repacking_moves_nothing_if_placement_must_not():
    assert packed([[4, 7], []], 10, move_existing_replica_for_placement=False) == {"new": "n1"}
    assert packed([[4, 7], []], 10, policy_options={"most_moves": 0}) == {"new": "n1"}


def test_repacking_evicts_for_a_failover():
    """Such moves do not lower the energy; their reasons name the replica."""
    engine = filled([[4, 6, 6], [10, 9], [17], [14]], policy="repacking")
    engine.report_load("1/0", "n1", {"cpu": 13.0})
    reasons = {move.partition: move.reason for move in engine.repair().moves}
    assert {name: (reason.rule, reason.other) for name, reason in reasons.items()} == {
        "0/2": ("eviction", "1/1"),
        "1/1": ("capacity", None),
    }
