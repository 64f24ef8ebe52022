"""Upgrades: primaries hand over their role and get it back, places are kept, done domains are preferred."""

from __future__ import annotations

from typing import Any

import pytest

from plb import (
    ConflictError,
    InvalidValueError,
    MoveKind,
    Node,
    PlacementAndLoadBalancing,
    Plan,
    Replica,
    Role,
    Service,
)
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState, UpgradeMark
from plb.model.move import Phase
from tests.engine.stories import engine_on, stand

pytestmark = pytest.mark.kernels

P, S2 = Role.PRIMARY, Role.SECONDARY
LOADS = {Role.PRIMARY: {"cpu": 10.0}, Role.SECONDARY: {"cpu": 2.0}}


def primary(node: str, **fields: Any) -> Replica:
    """Return a primary."""
    return Replica(Role.PRIMARY, node, **fields)


def secondary(node: str, **fields: Any) -> Replica:
    """Return a secondary."""
    return Replica(Role.SECONDARY, node, **fields)


def engine_of(*nodes: Node | str, replicas: int = 3, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with one stateful service, whose primaries carry 10 and secondaries 2."""
    engine = engine_on(*nodes, **settings)
    engine.update_service(Service("db", target_replicas=replicas, default_load=LOADS))
    return engine


def limited(name: str, cpu: float, **fields: Any) -> Node:
    """Return a node with a limit."""
    return Node(name, capacities={"cpu": cpu}, **fields)


def texts(plan: Plan) -> list[str]:
    """Return the moves of a plan in words."""
    return [str(move) for move in plan.moves]


def test_a_marked_primary_swaps_with_the_secondary_that_leaves_the_least_energy() -> None:
    """Of two secondaries the one on the emptier node becomes the primary, and the plan says why."""
    engine = engine_of("n0", "n1", "n2", "n3")
    stand(engine, "db/other", primary("n1"), secondary("n3"), missing=0)
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    plan = engine.place()
    assert texts(plan) == ["swap primary of db/0 from n0 to n2"]
    assert plan.explain("db/0") == "Swap primary of db/0 from n0 to n2: node n0 is about to be upgraded."
    engine.apply(plan)
    assert not engine.place().moves, "the mark is done with"
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n2"), (S2, "n0"), (S2, "n1")}


def test_the_role_comes_back_to_the_marked_secondary_and_to_no_other() -> None:
    """The best place for the primary does not matter then."""
    engine = engine_of("n0", "n1", "n2")
    stand(engine, "db/other", primary("n0"), missing=0)
    stand(engine, "db/0", primary("n2"), secondary("n0", upgrade="primary_returns"), secondary("n1"))
    plan = engine.place()
    assert plan.explain("db/0") == (
        "Swap primary of db/0 from n2 to n0: node n0 has been upgraded, and the primary was on it before."
    )
    engine.apply(plan)
    assert not engine.place().moves


def test_a_role_that_cannot_come_back_stays_and_is_not_asked_for_again() -> None:
    """The plan says where it was to go."""
    engine = engine_of("n0", limited("n1", 5), replicas=2, relax_capacity_constraint_for_upgrade=False)
    stand(engine, "db/0", primary("n0"), secondary("n1", upgrade="primary_returns"))
    plan = engine.place()
    assert [(m.kind, m.source, m.reason.node) for m in plan.moves] == [(MoveKind.VOID, "n0", "n1")]
    engine.apply(plan)
    assert not engine.place().moves


def test_no_secondary_that_is_pinned_or_unready_or_out_of_service_takes_the_role() -> None:
    """Where that leaves none, the plan says that the upgrade has to go on without; once."""
    paused = Node("n4", deactivation_intent=DeactivationIntent.PAUSE)
    engine = engine_of("n0", "n1", "n2", Node("n3", up=False), paused, replicas=5)
    others = [secondary("n1", pinned=True), secondary("n2", state="in_build"), secondary("n3"), secondary("n4")]
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), *others)
    plan = engine.place()
    assert [(m.kind, m.source, m.target) for m in plan.moves] == [(MoveKind.VOID, "n0", None)]
    assert plan.explain("db/0") == (
        "Leave primary of db/0 on n0, because its role cannot change: node n0 is about to be upgraded."
    )
    engine.apply(plan)
    assert not engine.place().moves
    assert engine.replicas("db/0")[0].node == "n0"


def test_a_primary_on_a_node_that_is_being_restarted_still_hands_over_its_role() -> None:
    """The role leaves the node, no replica reaches it."""
    restarting = Node(
        "n0",
        deactivation_intent=DeactivationIntent.RESTART,
        deactivation_status=DeactivationStatus.SAFETY_CHECK_IN_PROGRESS,
    )
    engine = engine_of(restarting, "n1", replicas=2)
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"))
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n1"]


@pytest.mark.parametrize("relaxes", [True, False])
def test_capacity_gives_way_only_where_the_settings_say_so(*, relaxes: bool) -> None:
    """A node with room is taken before; with none, one is overfilled or the role stays."""
    settings = {"relax_capacity_constraint_for_upgrade": relaxes, "capacity_limit": "capacity"}
    replicas = [primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2")]
    roomy = engine_of(limited("n0", 10), limited("n1", 5), limited("n2", 10), **settings)
    stand(roomy, "db/0", *replicas)
    assert texts(roomy.place()) == ["swap primary of db/0 from n0 to n2"]
    tight = engine_of(limited("n0", 10), limited("n1", 5), limited("n2", 5), **settings)
    stand(tight, "db/0", *replicas)
    kinds = [move.kind for move in tight.place().moves]
    assert kinds == [MoveKind.SWAP if relaxes else MoveKind.VOID]


def test_a_placement_constraint_that_binds_the_primary_is_kept() -> None:
    """The role goes only where the primary may stand."""
    engine = engine_on("n0", "n1", Node("n2", properties={"ssd": "true"}))
    engine.update_service(Service("db", target_replicas=3, placement_constraint="ssd ^P true"))
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n2"]


def test_a_budget_of_moves_binds_and_is_no_reason_to_give_up() -> None:
    """The role waits for the next plan, and nothing says that it cannot be handed over."""
    engine = engine_of("n0", "n1", max_moves=0)
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), missing=0)
    plan = engine.place()
    assert not plan.moves
    assert plan.bound_by == ("moves",)


def family(engine: PlacementAndLoadBalancing) -> None:
    """Let a parent and an aligned child stand together, of which the parent's primary is to be swapped out."""
    engine.update_service(Service("child", target_replicas=3, affinity_to="db", aligned=True, default_load=LOADS))
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    stand(engine, "child/0", primary("n0"), secondary("n1", pinned=True), secondary("n2"))


@pytest.mark.parametrize("together", [True, False])
def test_aligned_primaries_swap_together_where_that_is_checked(*, together: bool) -> None:
    """Only to a node that all of them can go to; else the marked one goes by itself, to the best."""
    engine = engine_of("n0", "n1", "n2", "n3", check_aligned_affinity_for_upgrade=together)
    family(engine)
    plan = engine.place()
    if together:
        assert {str(m) for m in plan.moves} == {f"swap primary of {n} from n0 to n2" for n in ("db/0", "child/0")}
        engine.apply(plan)
        assert not engine.violations()
    else:
        assert [m.partition for m in plan.moves] == ["db/0"]


def test_a_secondary_is_promoted_where_no_primary_stands() -> None:
    """It becomes the primary where the mark says; a secondary is then missing, not a primary."""
    engine = engine_of("n0", "n1", "n2", "n3")
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"))
    plan = engine.place()
    assert texts(plan) == ["promote secondary of db/0 on n0"]
    assert (plan.moves[0].source, plan.moves[0].reason.phase) == (None, Phase.PLACEMENT)
    engine.apply(plan)
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n0"), (S2, "n1"), (S2, None)}
    assert engine.node_loads()["n0"] == {"cpu": 10.0}
    assert [(m.kind, m.role) for m in engine.place().moves] == [(MoveKind.ADD, S2)]


def test_all_replicas_are_there_and_one_is_promoted() -> None:
    """No slot waits for the primary then, and none is left over after."""
    engine = engine_of("n0", "n1", replicas=2)
    stand(engine, "db/0", secondary("n0"), secondary("n1", upgrade="primary_returns"))
    engine.apply(engine.place())
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n1"), (S2, "n0")}


@pytest.mark.parametrize(
    ("replicas", "kind"),
    [
        ((primary("n0", upgrade="swap_out"), secondary("n1")), MoveKind.SWAP),
        ((secondary("n0", upgrade="primary_returns"), secondary("n1")), MoveKind.PROMOTE),
    ],
)
def test_one_too_many_is_dropped_after_the_role_has_changed(replicas: tuple[Replica, ...], kind: MoveKind) -> None:
    """Not by the same plan: the primary would move there, or the one that becomes the primary would go."""
    engine = engine_of("n0", "n1", "n2")
    stand(engine, "db/0", *replicas, missing=-1)
    plan = engine.place()
    assert [move.kind for move in plan.moves] == [kind]
    engine.apply(plan)
    plan = engine.place()
    assert [(move.kind, move.role) for move in plan.moves] == [(MoveKind.DROP, S2)]
    engine.apply(plan)
    assert [replica.role for replica in engine.replicas("db/0")] == [P]


@pytest.mark.parametrize("state", ["standby", "dropped"])
def test_a_promotion_leaves_missing_what_is_missing_beside_a_standby(state: str) -> None:
    """A standby is none of the replicas that the partition should have."""
    engine = engine_of("n0", "n1", "n2", "n3")
    kept = secondary("n3", state=state, upgrade="replica_returns")
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"), kept)
    engine.apply(engine.place())
    assert [(move.kind, move.role) for move in engine.place().moves] == [(MoveKind.ADD, S2)]


def test_promotions_and_new_replicas_of_one_plan_share_the_capacity_of_a_node() -> None:
    """There is room for one primary beside a secondary, and for no new replica then."""
    settings = {"relax_capacity_constraint_for_upgrade": False, "capacity_limit": "capacity"}
    engine = engine_of(limited("n0", 12), limited("n1", 4), **settings)
    for index in range(2):
        stand(engine, f"db/{index}", secondary("n0", upgrade="primary_returns"), missing=0)
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 5.0}}))
    stand(engine, "web/0")
    plan = engine.refresh(0.0)
    assert [(move.kind, move.partition) for move in plan.moves] == [(MoveKind.PROMOTE, "db/0"), (MoveKind.VOID, "db/1")]
    assert Phase.BALANCING not in plan.phases
    engine.apply(plan)
    assert engine.node_loads()["n0"] == {"cpu": 12.0}


def test_a_promoted_replica_has_the_reported_load_of_the_primary() -> None:
    """The primary before it had outgrown the node."""
    settings = {"relax_capacity_constraint_for_upgrade": False, "capacity_limit": "capacity"}
    engine = engine_of(limited("n0", 12), "n1", **settings)
    stand(engine, "db/0", primary("n1"), secondary("n0"), missing=0)
    engine.report_load("db/0", "n1", {"cpu": 50.0})
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns"), missing=0)
    assert [move.kind for move in engine.place().moves] == [MoveKind.VOID]


def test_where_no_secondary_can_be_promoted_a_new_primary_is_placed() -> None:
    """The plan says that the role cannot change; the next one looks for another place."""
    engine = engine_of(limited("n0", 5), "n1", replicas=2, relax_capacity_constraint_for_upgrade=False)
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns"))
    plan = engine.place()
    assert plan.explain("db/0") == (
        "Leave secondary of db/0 on n0, because its role cannot change: "
        "node n0 has been upgraded, and the primary was on it before."
    )
    engine.apply(plan)
    assert texts(engine.place()) == ["add primary of db/0 on n1"]


def test_a_new_secondary_is_as_free_as_any_although_the_promoted_one_was_pinned_meanwhile() -> None:
    """The pin stays with the replica that is the primary now."""
    engine = engine_of("n0", "n1", "n2", w_imbalance=1e6)
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"))
    plan = engine.place()
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns", pinned=True), secondary("n1"))
    engine.apply(plan)
    engine.apply(engine.place())
    assert "2 in a partition that is being upgraded, 1 pinned." in engine.balance().explain("db/0")


def test_of_two_places_where_the_primary_may_have_stood_one_is_enough() -> None:
    """The role does not go on to the other."""
    engine = engine_of("n0", "n1", "n2")
    back = [secondary(node, upgrade="primary_returns") for node in ("n1", "n2")]
    stand(engine, "db/0", primary("n0"), *back)
    engine.apply(engine.place())
    assert not engine.place().moves


def test_a_restored_standby_has_its_load_again() -> None:
    """Its place alone carried nothing."""
    engine = engine_of("n0", "n1")
    for state, load in (("standby", 2.0), ("dropped", 0.0), ("standby", 2.0)):
        stand(engine, "db/0", primary("n0"), secondary("n1", state=state, upgrade="replica_returns"), missing=0)
        assert engine.node_loads()["n1"] == {"cpu": load}, state


def test_a_service_on_every_node_comes_back_to_a_place_that_is_kept() -> None:
    """The node misses a replica."""
    engine = engine_of("n0", "n1")
    engine.update_service(Service("every", on_every_node=True))
    stand(engine, "every/0", primary("n0"), secondary("n1", state="dropped", upgrade="replica_returns"))
    assert texts(engine.place()) == ["add secondary of every/0 on n1"]


@pytest.mark.parametrize("relaxes", [True, False])
def test_a_promotion_keeps_to_capacity_as_a_swap_does(*, relaxes: bool) -> None:
    """The node has to bear the primary's load."""
    settings = {"relax_capacity_constraint_for_upgrade": relaxes, "capacity_limit": "capacity"}
    engine = engine_of(limited("n0", 5), limited("n1", 20), **settings)
    stand(engine, "db/0", secondary("n0", upgrade="primary_returns"), missing=0)
    assert [m.kind for m in engine.place().moves] == [MoveKind.PROMOTE if relaxes else MoveKind.VOID]


@pytest.mark.parametrize("state", ["standby", "dropped"])
def test_a_missing_replica_comes_back_to_the_place_that_is_kept_for_it(state: str) -> None:
    """The place of one that is gone carries no load, that of a standby a secondary's."""
    engine = engine_of("n0", "n1", "n2", "n3", preferred_location_constraint_priority=2)
    stand(engine, "db/0", primary("n0"), secondary("n1"), secondary("n3", state=state, upgrade="replica_returns"))
    assert engine.node_loads()["n3"] == {"cpu": 2.0 if state == "standby" else 0.0}
    plan = engine.place()
    assert texts(plan) == ["add secondary of db/0 on n3"]
    engine.apply(plan)
    assert len(engine.replicas("db/0")) == 3


def test_nothing_but_the_upgrade_moves_a_marked_partition() -> None:
    """It is held, and the plan says so."""
    engine = engine_of("n0", "n1", "n2", w_imbalance=1e6)
    for index in range(3):
        stand(engine, f"db/{index}", primary("n0"), secondary("n1", upgrade="replica_returns"), missing=0)
    plan = engine.balance()
    assert not plan.moves
    assert "2 replicas of it may not move: 2 in a partition that is being upgraded." in plan.explain("db/0")


@pytest.mark.parametrize(("prefers", "expected"), [(True, {"n1", "n2"}), (False, {"n0"})])
def test_upgraded_domains_are_preferred(*, prefers: bool, expected: set[str]) -> None:
    """New replicas go to nodes of domains that are done, although another node would be better."""
    nodes = [Node(f"n{i}", upgrade_domain=f"u{i}") for i in range(3)]
    engine = engine_of(*nodes, replicas=1, preferred_location_constraint_priority=2, prefer_upgraded_uds=prefers)
    stand(engine, "db/0", primary("n1"))
    stand(engine, "db/1", primary("n2"))
    engine.update_upgraded_domains({"u1", "u2"})
    stand(engine, "db/new")
    (move,) = engine.place().moves
    assert move.target in expected
    engine.update_upgraded_domains(())
    assert {move.target for move in engine.place().moves} == {"n0"}, "no upgrade goes on any more"


def test_why_a_replica_is_placed_nowhere_names_the_upgraded_domains() -> None:
    """Where preferred locations are hard."""
    nodes = [limited("n0", 100, upgrade_domain="u0"), limited("n1", 1, upgrade_domain="u1")]
    engine = engine_of(*nodes, replicas=1, preferred_location_constraint_priority=0)
    engine.update_upgraded_domains(["u1"])
    stand(engine, "db/0")
    plan = engine.place()
    assert not plan.moves
    assert "upgraded so far are u1" in plan.explain("db/0")
    engine.update_upgraded_domains(["u9"])
    assert "by preferred location (none is in an upgraded domain)" in engine.place().explain("db/0")


def test_upgraded_domains_are_several() -> None:
    """One name is not taken for its letters."""
    with pytest.raises(InvalidValueError, match="collection of names"):
        engine_of("n0").update_upgraded_domains("u0")


def test_refresh_with_one_action_hands_roles_over_as_placement() -> None:
    """An upgrade is work for the placement stage."""
    engine = engine_of("n0", "n1", one_action_per_refresh=True)
    stand(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), missing=0)
    plan = engine.refresh(0.0)
    assert (texts(plan), dict(plan.actions)) == (["swap primary of db/0 from n0 to n1"], {"db": "NewReplicaPlacement"})


@pytest.mark.parametrize(
    ("role", "mark"), [(Role.SECONDARY, "swap_out"), (Role.INSTANCE, "replica_returns"), (Role.INSTANCE, "swap_out")]
)
def test_marks_that_make_no_sense_are_refused(role: Role, mark: str) -> None:
    """Only a primary can be swapped out, and instances have no roles."""
    with pytest.raises(InvalidValueError, match="upgrade"):
        Replica(role, "n0", upgrade=UpgradeMark(mark))


@pytest.mark.parametrize("kind", [MoveKind.PROMOTE, MoveKind.VOID])
def test_an_order_that_no_longer_makes_sense_is_refused(kind: MoveKind) -> None:
    """A plan may be older than the cluster."""
    engine = engine_of("n0", "n1", "n2")
    if kind is MoveKind.PROMOTE:
        stand(engine, "db/0", secondary("n0", upgrade="primary_returns"), missing=0)
    else:
        stand(engine, "db/0", primary("n0", upgrade="swap_out"), missing=0)
    plan = engine.place()
    assert [move.kind for move in plan.moves] == [kind]
    stand(engine, "db/0", primary("n1"), secondary("n0"), missing=0)
    before = engine.replicas("db/0")
    with pytest.raises(ConflictError, match="make a new plan"):
        engine.apply(plan)
    assert engine.replicas("db/0") == before


def test_states_by_name() -> None:
    """Marks and states may be given by their values."""
    replica = secondary("n0", state="dropped", upgrade="replica_returns")
    assert (replica.state, replica.upgrade) == (ReplicaState.DROPPED, UpgradeMark.REPLICA_RETURNS)


@pytest.mark.parametrize(("keeps_off", "placed"), [(True, 1), (False, 2)])
def test_services_with_a_single_replica_may_keep_off_nodes_that_are_restarted(*, keeps_off: bool, placed: int) -> None:
    """Others may be placed there until the safety check is over."""
    restarting = Node(
        "n0",
        deactivation_intent=DeactivationIntent.RESTART,
        deactivation_status=DeactivationStatus.SAFETY_CHECK_IN_PROGRESS,
    )
    engine = engine_on(restarting, is_singleton_replica_move_allowed_during_upgrade=keeps_off)
    for name, replicas in (("single", 1), ("double", 2)):
        engine.update_service(Service(name, target_replicas=replicas))
        stand(engine, f"{name}/0")
    assert sum(move.kind is MoveKind.ADD for move in engine.place().moves) == placed
