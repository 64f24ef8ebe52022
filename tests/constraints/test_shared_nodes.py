"""Several replicas of a partition on one node are a violation of replica exclusion, which a repair ends."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from plb import (
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    ReplicaState,
    Role,
    Service,
    SharedNode,
)

NODES = tuple(f"n{number}" for number in range(5))
SHARED = "node n0 holds 2 replicas of db/0; at most one is allowed"


def engine_with(*partitions: list[Replica], **settings: object) -> PlacementAndLoadBalancing:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], **settings), seed=1)
    for name in NODES:
        engine.update_node(Node(name))
    engine.update_service(Service("db", target_replicas=0))
    for number, replicas in enumerate(partitions):
        engine.update_partition(Partition(f"db/{number}", service="db", replicas=replicas))
    return engine


def stateful(nodes: list[str]) -> list[Replica]:
    return [Replica(Role.SECONDARY if number else Role.PRIMARY, node) for number, node in enumerate(nodes)]


def shared(nodes: list[str]) -> Counter[str]:
    return Counter({node: number for node, number in Counter(nodes).items() if number > 1})


PLACES = st.lists(st.lists(st.sampled_from(NODES), min_size=1, max_size=len(NODES)), min_size=1, max_size=3)


@given(PLACES, st.booleans())
@settings(max_examples=60, deadline=None)
def test_each_shared_node_is_told_and_left_by_all_replicas_but_one(places, chained):
    """The plan has a move for each replica too many and none else; primaries stay, and nothing is shared after it."""
    engine = engine_with(*map(stateful, places), allow_chained_moves=chained)
    told = {(found.partition, found.node): found.replicas for found in engine.violations()}
    assert told == {
        (f"db/{number}", node): count for number, nodes in enumerate(places) for node, count in shared(nodes).items()
    }

    plan = engine.refresh(1.0)
    assert len(plan.moves) == sum(count - 1 for nodes in places for count in shared(nodes).values())
    assert all(move.role is Role.SECONDARY for move in plan.moves)
    assert {(move.partition, move.reason.node, move.reason.rule) for move in plan.moves} == {
        (*key, "exclusion") for key in told
    }
    engine.apply(plan)
    assert not engine.violations()
    assert not engine.refresh(2.0).moves


def test_replica_that_may_not_move_stays_and_the_other_leaves():
    """A pinned secondary keeps the node; then the primary moves. Two that may not move share it on."""
    pinned = Replica(Role.SECONDARY, "n0", pinned=True)
    [move] = engine_with([Replica(Role.PRIMARY, "n0"), pinned]).refresh(1.0).moves
    assert (move.role, move.source) == (Role.PRIMARY, "n0")

    engine = engine_with([Replica(Role.PRIMARY, "n0", pinned=True), pinned])
    assert not engine.refresh(1.0).moves
    assert [*map(str, engine.violations())] == [SHARED]


def test_departing_replicas_and_standbys_share_a_node_without_a_violation():
    """They are about to leave, or give way; no replica moves for them, and each is known."""
    leaving = Replica(Role.SECONDARY, "n0", leaving=True)
    standby = Replica(Role.SECONDARY, "n0", state=ReplicaState.STANDBY)
    engine = engine_with([Replica(Role.PRIMARY, "n0"), leaving, leaving, standby])
    assert not engine.violations()
    assert not engine.refresh(1.0).moves
    assert [replica.node for replica in engine.replicas("db/0")] == ["n0"] * 4


def test_moves_under_way_end_the_violation():
    """Once the move has begun, the node holds one replica that stays, and no other one is moved."""
    engine = engine_with(stateful(["n0", "n0"]))
    assert engine.violations() == (SharedNode("db/0", "n0", 2),)
    engine.apply(engine.refresh(1.0), leaving=True)
    assert not engine.violations()
    assert not engine.refresh(2.0).moves
    engine.vacate("db/0", "n0")
    assert len(engine.replicas("db/0")) == 2


def test_replicas_on_a_full_cluster_share_a_node_until_another_is_free():
    """Without a free node, the violation stays, and the replicas stay where they are."""
    engine = engine_with(stateful([*NODES, "n0"]))
    assert not engine.refresh(1.0).moves
    engine.update_node(Node("free"))
    [move] = engine.refresh(2.0).moves
    assert (move.source, move.target) == ("n0", "free")
