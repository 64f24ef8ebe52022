"""Plans that are made or changed by hand: each move is checked against the cluster after the moves before it."""

from __future__ import annotations

import attrs
import pytest

from plb import ConflictError, Energy, Move, MoveKind, Phase, Plan, Reason, Replica, Role, Service

from .fingerprint import snapshot
from .stories import add_partition, engine_on

pytestmark = pytest.mark.kernels

NOTHING = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
P, S = Role.PRIMARY, Role.SECONDARY
BACK = Replica(S, "n0", upgrade="primary_returns")


def move(kind, role, source, target):
    return Move(kind, "db/0", role, source, target, Reason(Phase.PLACEMENT, "energy"), 0.0)


def engine_of(*replicas, target=2):
    """Return an engine with one partition on four nodes."""
    engine = engine_on("n0", "n1", "n2", "n3")
    engine.update_service(Service("db", target_replicas=target))
    add_partition(engine, "db/0", *replicas)
    return engine


def places(engine):
    return {(one.role, one.node) for one in engine.replicas("db/0") if one.node is not None}


PROMOTE = move(MoveKind.PROMOTE, S, None, "n0")


@pytest.mark.parametrize(
    ("then", "end"),
    [
        (move(MoveKind.SWAP, P, "n0", "n1"), {(P, "n1"), (S, "n0")}),
        (move(MoveKind.MOVE, P, "n0", "n2"), {(P, "n2"), (S, "n1")}),
        (move(MoveKind.ADD, S, None, "n3"), {(P, "n0"), (S, "n1"), (S, "n3")}),
    ],
)
def test_promoted_replica_is_the_primary_for_the_moves_after_it(then, end):
    engine = engine_of(BACK, Replica(S, "n1"), target=4)
    engine.apply(Plan((PROMOTE, then), NOTHING, NOTHING))
    assert places(engine) == end


@pytest.mark.parametrize(
    "then",
    [
        move(MoveKind.PROMOTE, S, None, "n1"),
        move(MoveKind.MOVE, S, "n0", "n2"),
        move(MoveKind.DROP, S, "n0", None),
        move(MoveKind.ADD, P, None, "n2"),
    ],
    ids=str,
)
def test_promoted_replica_is_no_longer_a_secondary(then):
    """There is no second primary; the plan is refused as a whole."""
    engine = engine_of(BACK, Replica(S, "n1"))
    before = snapshot(engine)
    with pytest.raises(ConflictError, match="make a new plan"):
        engine.apply(Plan((PROMOTE, then), NOTHING, NOTHING))
    assert snapshot(engine) == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (move(MoveKind.DROP, S, "n1", None), move(MoveKind.ADD, S, None, "n2")),
        (move(MoveKind.MOVE, S, "n1", "n2"), move(MoveKind.DROP, S, "n2", None)),
    ],
    ids=["a dropped replica is added again", "a replaced standby is dropped"],
)
def test_removed_replica_cannot_move(first, then):
    """The replica may be a dropped one, or a standby whose place was taken."""
    engine = engine_of(Replica(P, "n0"), Replica(S, "n1"), Replica(S, "n2", state="standby"))
    if first.kind is MoveKind.MOVE:
        engine.apply(Plan((first, then), NOTHING, NOTHING))
        assert places(engine) == {(P, "n0")}
        return
    before = snapshot(engine)
    with pytest.raises(ConflictError, match="no such replica"):
        engine.apply(Plan((first, then), NOTHING, NOTHING))
    assert snapshot(engine) == before


def engine_without_return():
    """Return an engine in which the primary may not return to its node, which is blocked for the service."""
    engine = engine_of(Replica(P, "n0"), Replica(S, "n1"), Replica(S, "n2"))
    engine.update_service(Service("db", target_replicas=3, blocked_nodes={"n1"}))
    add_partition(engine, "db/0", Replica(P, "n0"), Replica(S, "n1", upgrade="primary_returns"), Replica(S, "n2"))
    return engine


def test_stale_void_leaves_newer_marks():
    """It belongs to an upgrade that is over; the next one asks for something else."""
    engine = engine_without_return()
    plan = engine.place()
    assert [one.kind for one in plan.moves] == [MoveKind.VOID]
    add_partition(engine, "db/0", Replica(P, "n0", upgrade="swap_out"), Replica(S, "n1"), Replica(S, "n2"))
    with pytest.raises(ConflictError, match="no upgrade asks for that any more"):
        engine.apply(plan)
    assert [str(one) for one in engine.place().moves] == ["swap primary of db/0 from n0 to n2"]


def test_void_that_is_applied_twice_is_stale():
    """No mark is left to answer."""
    engine = engine_without_return()
    plan = engine.place()
    engine.apply(plan)
    with pytest.raises(ConflictError, match="no upgrade asks for that any more"):
        engine.apply(plan)


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"leaving": True}, S),
        ({"to_be_dropped": True}, P),
        ({"to_be_dropped": True, "upgrade": "swap_out"}, S),
        ({"leaving": True, "to_be_dropped": True}, P),
    ],
    ids=str,
)
def test_primary_that_moves_away_is_still_the_primary(fields, role):
    """A secondary is added beside it. One that is to be dropped is replaced, unless it is to be swapped out."""
    engine = engine_of(Replica(P, "n0", **fields), target=0)
    engine.update_service(Service("db", target_replicas=1))
    assert [(one.kind, one.role) for one in engine.place().moves] == [(MoveKind.ADD, role)]


@pytest.mark.parametrize("settings", [{}, {"combination": "service_fabric"}])
def test_energy_after_a_promotion_is_the_energy_once_it_is_applied(settings):
    """The replica has the load of a primary; the change of its role is no movement."""
    engine = engine_on("n0", "n1", "n2", **settings)
    loads = {P: {"cpu": 10.0}, S: {"cpu": 2.0}}
    engine.update_service(Service("db", target_replicas=2, default_load=loads))
    add_partition(engine, "db/0", BACK, Replica(S, "n1"))
    plan = engine.place()
    assert [one.kind for one in plan.moves] == [MoveKind.PROMOTE]
    engine.apply(plan)
    assert engine.repair().energy_before == plan.energy_after


def test_energy_after_counts_no_standby_whose_place_is_taken():
    """The new replica alone has the load."""
    engine = engine_on("n0", "n1", preferred_location_constraint_priority=0)
    engine.update_service(Service("db", target_replicas=2, default_load={P: {"cpu": 4.0}, S: {"cpu": 4.0}}))
    add_partition(engine, "db/0", Replica(P, "n0"), Replica(S, "n1", state="standby"))
    plan = engine.place()
    assert [str(one) for one in plan.moves] == ["add secondary of db/0 on n1"]
    engine.apply(plan)
    assert attrs.evolve(plan.energy_after, movement=0, total=0) == attrs.evolve(
        engine.balance(budget=0).energy_before, total=0
    )
    assert plan.energy_after.imbalance == 0
