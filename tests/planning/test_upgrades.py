"""Upgrades: primaries hand over their role and get it back, places are kept, upgraded domains are preferred."""

from __future__ import annotations

from typing import Any

import pytest

from plb import (
    Application,
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
from plb.model import DeactivationIntent, DeactivationStatus, UpgradeMark
from plb.model.move import Phase
from tests.engine.stories import add_partition, engine_on

pytestmark = pytest.mark.kernels

P, S2 = Role.PRIMARY, Role.SECONDARY
LOADS = {Role.PRIMARY: {"cpu": 10.0}, Role.SECONDARY: {"cpu": 2.0}}
DOMAINS = [Node(f"n{index}", upgrade_domain=f"u{index}") for index in range(3)]
RESTARTING = Node(
    "n0",
    deactivation_intent=DeactivationIntent.RESTART,
    deactivation_status=DeactivationStatus.SAFETY_CHECK_IN_PROGRESS,
)


def primary(node: str, **fields: Any) -> Replica:
    return Replica(Role.PRIMARY, node, **fields)


def secondary(node: str, **fields: Any) -> Replica:
    return Replica(Role.SECONDARY, node, **fields)


def engine_of(*nodes: Node | str, replicas: int = 3, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with one stateful service; a primary has load 10, a secondary 2."""
    engine = engine_on(*nodes, **settings)
    engine.update_service(Service("db", target_replicas=replicas, default_load=LOADS))
    return engine


def limited(name: str, cpu: float, **fields: Any) -> Node:
    return Node(name, capacities={"cpu": cpu}, **fields)


def texts(plan: Plan) -> list[str]:
    return [str(move) for move in plan.moves]


def test_marked_primary_swaps_with_the_secondary_of_least_energy() -> None:
    """Of two secondaries the one on the emptier node becomes the primary; the plan gives the reason."""
    engine = engine_of("n0", "n1", "n2", "n3")
    add_partition(engine, "db/other", primary("n1"), secondary("n3"), missing=0)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    plan = engine.place()
    assert texts(plan) == ["swap primary of db/0 from n0 to n2"]
    assert plan.explain("db/0") == "Swap primary of db/0 from n0 to n2: node n0 is about to be upgraded."
    engine.apply(plan)
    assert not engine.place().moves, "the mark is cleared"
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n2"), (S2, "n0"), (S2, "n1")}


def test_role_that_cannot_return_stays_and_loses_its_mark() -> None:
    """The plan names the node that the role should return to."""
    engine = engine_of("n0", limited("n1", 5), replicas=2, relax_capacity_constraint_for_upgrade=False)
    add_partition(engine, "db/0", primary("n0"), secondary("n1", upgrade="primary_returns"))
    plan = engine.place()
    assert [(m.kind, m.source, m.reason.node) for m in plan.moves] == [(MoveKind.VOID, "n1", "n1")]
    engine.apply(plan)
    assert not engine.place().moves


def test_pinned_unready_or_out_of_service_secondary_does_not_take_the_role() -> None:
    """If no secondary is left, the role stays, and the mark waits for a later plan."""
    paused = Node("n4", deactivation_intent=DeactivationIntent.PAUSE)
    engine = engine_of("n0", "n1", "n2", Node("n3", up=False), paused, replicas=5)
    others = [secondary("n1", pinned=True), secondary("n2", state="in_build"), secondary("n3"), secondary("n4")]
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), *others)
    assert not engine.place().moves
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), *others[1:])
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n1"]


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("in_service", [True, False])
def test_void_tells_that_a_single_replica_cannot_move(*, allowed: bool, in_service: bool) -> None:
    """It is issued while single replicas may move in upgrades, and all secondaries are on deactivated nodes."""
    intent = DeactivationIntent.NONE if in_service else DeactivationIntent.RESTART
    node = Node("n1", deactivation_intent=intent)
    engine = engine_of("n0", node, replicas=1, is_singleton_replica_move_allowed_during_upgrade=allowed)
    taker = secondary("n1", pinned=in_service)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), taker, missing=0)
    plan = engine.place()
    told = allowed and not in_service
    assert [(m.kind, m.source, m.target) for m in plan.moves] == [(MoveKind.VOID, "n0", None)] * told
    if told:
        assert plan.explain("db/0") == (
            "Leave primary of db/0 on n0, because its role cannot change: node n0 is about to be upgraded."
        )
        engine.apply(plan)
        assert not engine.place().moves


def test_void_tells_that_the_only_secondary_moves_away() -> None:
    """The move of the single replica was given up, and the upgrade would wait for it."""
    engine = engine_of("n0", "n1", replicas=1, is_singleton_replica_move_allowed_during_upgrade=True)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1", leaving=True), missing=0)
    plan = engine.place()
    assert [(m.kind, m.role, m.source) for m in plan.moves] == [(MoveKind.VOID, S2, "n1")]
    engine.apply(plan)
    assert not engine.place().moves


def test_new_primary_is_in_another_upgrade_domain() -> None:
    """The whole domain of the old one is upgraded; the node with the least energy is in it."""
    nodes = [Node(f"n{index}", upgrade_domain=domain) for index, domain in enumerate("aabb")]
    engine = engine_of(*nodes)
    add_partition(engine, "db/other", primary("n2"), missing=0)
    marked = primary("n0", upgrade="swap_out")
    add_partition(engine, "db/0", marked, secondary("n1"), secondary("n2"))
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n2"]
    add_partition(engine, "db/0", marked, secondary("n1"), missing=0)
    assert not engine.place().moves
    free = engine_of(*nodes, upgrade_domain_constraint_priority=-1)
    add_partition(free, "db/0", marked, secondary("n1"), missing=0)
    assert texts(free.place()) == ["swap primary of db/0 from n0 to n1"]


@pytest.mark.parametrize("fields", [{"leaving": True}, {"to_be_dropped": True}], ids=str)
def test_secondary_is_promoted_if_the_marked_primary_disappears(fields: dict[str, bool]) -> None:
    """A swap would give the role of a secondary to a replica on its way out."""
    engine = engine_of("n0", "n1", "n2")
    marked = primary("n0", upgrade="swap_out", **fields)
    add_partition(engine, "db/0", marked, secondary("n1"), missing=1)
    assert sorted(texts(engine.place())) == ["add secondary of db/0 on n2", "promote secondary of db/0 on n1"]


def test_return_waits_while_the_primary_moves_away() -> None:
    engine = engine_of("n0", "n1", "n2")
    add_partition(engine, "db/0", primary("n0", leaving=True), secondary("n1", upgrade="primary_returns"), missing=0)
    assert not engine.place().moves


def test_role_returns_to_a_replica_in_build() -> None:
    """The host asks for this replica."""
    engine = engine_of("n0", "n1")
    back = secondary("n1", state="in_build", upgrade="primary_returns")
    add_partition(engine, "db/0", primary("n0"), back, missing=0)
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n1"]


@pytest.mark.parametrize("state", ["standby", "dropped"])
def test_missing_replica_becomes_the_primary_on_a_kept_place(state: str) -> None:
    """The primary returns to its place by a new replica; the present primary becomes a secondary."""
    engine = engine_of("n0", "n1", "n2", "n3")
    add_partition(
        engine, "db/0", primary("n0"), secondary("n1"), secondary("n3", state=state, upgrade="primary_returns")
    )
    plan = engine.place()
    assert texts(plan) == ["add primary of db/0 on n3"]
    engine.apply(plan)
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n3"), (S2, "n0"), (S2, "n1")}
    assert engine.node_loads()["n3"] == {"cpu": 10.0}
    assert not engine.place().moves


@pytest.mark.parametrize("missing", [0, 1])
def test_place_without_capacity_for_the_primary_is_given_up(missing: int) -> None:
    """A missing replica is placed as a secondary."""
    engine = engine_of("n0", "n1", limited("n2", 5))
    place = secondary("n2", state="dropped", upgrade="primary_returns")
    add_partition(engine, "db/0", primary("n0"), place, missing=missing)
    plan = engine.place()
    assert [(m.kind, m.source) for m in plan.moves if m.kind is MoveKind.VOID] == [(MoveKind.VOID, "n2")]
    assert [m.role for m in plan.moves if m.kind is MoveKind.ADD] == [S2] * missing
    engine.apply(plan)
    assert not engine.place().moves


def test_primary_does_not_return_without_a_missing_replica() -> None:
    """Nothing is built for it."""
    engine = engine_of("n0", "n1")
    add_partition(engine, "db/0", primary("n0"), secondary("n1", state="standby", upgrade="primary_returns"), missing=0)
    assert not engine.place().moves


def test_kept_place_that_the_rules_refuse_is_given_up() -> None:
    """The missing replica goes elsewhere."""
    engine = engine_of("n0", limited("n1", 1), "n2", replicas=2)
    add_partition(engine, "db/0", primary("n0"), secondary("n1", state="dropped", upgrade="replica_returns"))
    plan = engine.place()
    assert {(m.kind, m.source, m.target) for m in plan.moves} == {
        (MoveKind.VOID, "n1", None),
        (MoveKind.ADD, None, "n2"),
    }
    engine.apply(plan)
    assert not engine.place().moves


def test_primary_on_a_restarting_node_hands_over_its_role() -> None:
    """The role leaves the node, and no replica arrives there."""
    engine = engine_of(RESTARTING, "n1", replicas=2)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"))
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n1"]


@pytest.mark.parametrize("relaxes", [True, False])
def test_capacity_is_relaxed_only_by_the_settings(*, relaxes: bool) -> None:
    """A node with enough free capacity comes first; without one, a node is overfilled or the role stays."""
    settings = {"relax_capacity_constraint_for_upgrade": relaxes, "capacity_limit": "capacity"}
    replicas = [primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2")]
    large = engine_of(limited("n0", 10), limited("n1", 5), limited("n2", 10), **settings)
    add_partition(large, "db/0", *replicas)
    assert texts(large.place()) == ["swap primary of db/0 from n0 to n2"]
    small = engine_of(limited("n0", 10), limited("n1", 5), limited("n2", 5), **settings)
    add_partition(small, "db/0", *replicas)
    assert [move.kind for move in small.place().moves] == [MoveKind.SWAP] * relaxes


def test_placement_constraint_of_the_primary_is_kept() -> None:
    engine = engine_on("n0", "n1", Node("n2", properties={"ssd": "true"}))
    engine.update_service(Service("db", target_replicas=3, placement_constraint="ssd ^P true"))
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n2"]


def test_budget_of_moves_delays_the_swap() -> None:
    """The role waits for the next plan, and no move reports that it cannot be handed over."""
    engine = engine_of("n0", "n1", max_moves=0)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), missing=0)
    plan = engine.place()
    assert not plan.moves
    assert plan.bound_by == ("moves",)


def parent_and_child(engine: PlacementAndLoadBalancing) -> None:
    """Add a parent and an aligned child on the same nodes; the parent's primary is marked for a swap."""
    engine.update_service(Service("child", target_replicas=3, affinity_to="db", aligned=True, default_load=LOADS))
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    add_partition(engine, "child/0", primary("n0"), secondary("n1", pinned=True), secondary("n2"))


@pytest.mark.parametrize("together", [True, False])
def test_aligned_primaries_swap_together_if_that_is_checked(*, together: bool) -> None:
    """They go only to a node that all of them may use; otherwise the marked one goes alone to its best node."""
    engine = engine_of("n0", "n1", "n2", "n3", check_aligned_affinity_for_upgrade=together)
    parent_and_child(engine)
    plan = engine.place()
    if together:
        assert {str(m) for m in plan.moves} == {f"swap primary of {n} from n0 to n2" for n in ("db/0", "child/0")}
        engine.apply(plan)
        assert not engine.violations()
    else:
        assert [m.partition for m in plan.moves] == ["db/0"]


def test_secondary_is_promoted_if_there_is_no_primary() -> None:
    """It becomes the primary on the marked node; a secondary is missing after that."""
    engine = engine_of("n0", "n1", "n2", "n3")
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"))
    plan = engine.place()
    assert texts(plan) == ["promote secondary of db/0 on n0"]
    assert (plan.moves[0].source, plan.moves[0].reason.phase) == (None, Phase.PLACEMENT)
    engine.apply(plan)
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n0"), (S2, "n1"), (S2, None)}
    assert engine.node_loads()["n0"] == {"cpu": 10.0}
    assert [(m.kind, m.role) for m in engine.place().moves] == [(MoveKind.ADD, S2)]


def test_promotion_of_a_complete_partition_adds_no_replica() -> None:
    """No slot waits for the primary before, and none is left after."""
    engine = engine_of("n0", "n1", replicas=2)
    add_partition(engine, "db/0", secondary("n0"), secondary("n1", upgrade="primary_returns"))
    engine.apply(engine.place())
    assert {(r.role, r.node) for r in engine.replicas("db/0")} == {(P, "n1"), (S2, "n0")}


@pytest.mark.parametrize(
    ("replicas", "kind"),
    [
        ((primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2")), MoveKind.SWAP),
        ((secondary("n0", upgrade="primary_returns"), secondary("n1")), MoveKind.PROMOTE),
    ],
)
def test_surplus_is_dropped_before_the_role_changes(replicas: tuple[Replica, ...], kind: MoveKind) -> None:
    """One plan does both, and does not drop the replica that becomes the primary."""
    engine = engine_of("n0", "n1", "n2")
    add_partition(engine, "db/0", *replicas, missing=-1)
    plan = engine.place()
    assert {move.kind for move in plan.moves} == {kind, MoveKind.DROP}
    engine.apply(plan)
    left = [replica.role for replica in engine.replicas("db/0") if replica.node]
    assert left == ([P, S2] if kind is MoveKind.SWAP else [P])


@pytest.mark.parametrize("state", ["standby", "dropped"])
def test_promotion_does_not_count_a_standby_as_a_replica(state: str) -> None:
    """A standby does not count towards the target of the partition."""
    engine = engine_of("n0", "n1", "n2", "n3")
    kept = secondary("n3", state=state, upgrade="replica_returns")
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"), kept)
    engine.apply(engine.place())
    assert [(move.kind, move.role) for move in engine.place().moves] == [(MoveKind.ADD, S2)]


def test_promotions_and_new_replicas_of_one_plan_share_the_capacity_of_a_node() -> None:
    """The node has capacity for one primary and one secondary, and then for no new replica."""
    settings = {"relax_capacity_constraint_for_upgrade": False, "capacity_limit": "capacity"}
    engine = engine_of(limited("n0", 12), limited("n1", 4), **settings)
    for index in range(2):
        add_partition(engine, f"db/{index}", secondary("n0", upgrade="primary_returns"), missing=0)
    engine.update_service(Service("web", stateful=False, default_load={Role.INSTANCE: {"cpu": 5.0}}))
    add_partition(engine, "web/0")
    plan = engine.refresh(0.0)
    assert [(move.kind, move.partition) for move in plan.moves] == [(MoveKind.PROMOTE, "db/0"), (MoveKind.VOID, "db/1")]
    assert Phase.BALANCING not in plan.phases
    engine.apply(plan)
    assert engine.node_loads()["n0"] == {"cpu": 12.0}


def test_promoted_replica_has_the_reported_load_of_the_primary() -> None:
    """The previous primary had a load beyond the capacity of the node."""
    settings = {"relax_capacity_constraint_for_upgrade": False, "capacity_limit": "capacity"}
    engine = engine_of(limited("n0", 12), "n1", **settings)
    add_partition(engine, "db/0", primary("n1"), secondary("n0"), missing=0)
    engine.report_load("db/0", "n1", {"cpu": 50.0})
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), missing=0)
    assert [move.kind for move in engine.place().moves] == [MoveKind.VOID]


def test_new_primary_is_placed_if_no_secondary_can_be_promoted() -> None:
    """The plan reports that the role cannot change; the next one places a new primary."""
    engine = engine_of(limited("n0", 5), "n1", replicas=2, relax_capacity_constraint_for_upgrade=False)
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"))
    plan = engine.place()
    assert plan.explain("db/0") == (
        "Leave secondary of db/0 on n0, because its role cannot change: "
        "node n0 has been upgraded, and the primary was on it before."
    )
    engine.apply(plan)
    assert texts(engine.place()) == ["add primary of db/0 on n1"]


def test_pin_of_a_promoted_replica_does_not_hold_for_a_new_secondary() -> None:
    """The pin stays with the replica that is now the primary."""
    engine = engine_of("n0", "n1", "n2", w_imbalance=1e6)
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), secondary("n1"))
    plan = engine.place()
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns", pinned=True), secondary("n1"))
    engine.apply(plan)
    engine.apply(engine.place())
    assert "2 in a partition that is being upgraded, 1 pinned." in engine.balance().explain("db/0")


def test_role_returns_to_one_of_two_marked_replicas() -> None:
    """The role does not move on to the other marked replica."""
    engine = engine_of("n0", "n1", "n2")
    back = [secondary(node, upgrade="primary_returns") for node in ("n1", "n2")]
    add_partition(engine, "db/0", primary("n0"), *back)
    engine.apply(engine.place())
    assert not engine.place().moves


def test_restored_standby_has_its_load_again() -> None:
    """A place without a replica has no load."""
    engine = engine_of("n0", "n1")
    for state, load in (("standby", 2.0), ("dropped", 0.0), ("standby", 2.0)):
        add_partition(engine, "db/0", primary("n0"), secondary("n1", state=state, upgrade="replica_returns"), missing=0)
        assert engine.node_loads()["n1"] == {"cpu": load}, state


def test_service_on_every_node_returns_to_a_kept_place() -> None:
    engine = engine_of("n0", "n1")
    engine.update_service(Service("every", on_every_node=True))
    add_partition(engine, "every/0", primary("n0"), secondary("n1", state="dropped", upgrade="replica_returns"))
    assert texts(engine.place()) == ["add secondary of every/0 on n1"]


@pytest.mark.parametrize("relaxes", [True, False])
def test_promotion_keeps_to_capacity(*, relaxes: bool) -> None:
    settings = {"relax_capacity_constraint_for_upgrade": relaxes, "capacity_limit": "capacity"}
    engine = engine_of(limited("n0", 5), limited("n1", 20), **settings)
    add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), missing=0)
    assert [m.kind for m in engine.place().moves] == [MoveKind.PROMOTE if relaxes else MoveKind.VOID]


def test_only_the_upgrade_moves_a_marked_partition() -> None:
    """Its replicas are immovable; the plan gives the reason."""
    engine = engine_of("n0", "n1", "n2", w_imbalance=1e6)
    for index in range(3):
        add_partition(engine, f"db/{index}", primary("n0"), secondary("n1", upgrade="replica_returns"), missing=0)
    plan = engine.balance()
    assert not plan.moves
    assert "2 replicas of it may not move: 2 in a partition that is being upgraded." in plan.explain("db/0")


@pytest.mark.parametrize(("leaves", "target"), [(True, "n1"), (False, "n0")])
def test_aligned_child_follows_any_replica_of_a_parent_without_a_primary(*, leaves: bool, target: str) -> None:
    """A primary that disappears is none."""
    engine = engine_of("n0", "n1", "n2")
    engine.update_service(Service("child", target_replicas=1, affinity_to="db", aligned=True))
    add_partition(engine, "child/0", primary("n2"))
    add_partition(engine, "db/0", primary("n0"), secondary("n1"), missing=0)
    assert [move.target for move in engine.repair().moves] == ["n0"]
    add_partition(engine, "db/0", primary("n0", leaving=leaves), secondary("n1"), missing=0)
    assert [move.target for move in engine.repair().moves] == [target]


@pytest.mark.parametrize(("relaxes", "balances"), [(True, False), (True, True), (False, False)])
def test_affinity_is_relaxed_only_while_balancing_is_off(*, relaxes: bool, balances: bool) -> None:
    """The parent's node has no capacity left for the child."""
    settings = {"relax_affinity_constraint_during_upgrade": relaxes, "load_balancing_enabled": balances}
    engine = engine_of(limited("n0", 10), "n1", replicas=1, move_existing_replica_for_placement=False, **settings)
    engine.update_service(Service("child", target_replicas=1, affinity_to="db", default_load=LOADS))
    add_partition(engine, "db/0", primary("n0"))
    add_partition(engine, "child/0")
    assert [move.target for move in engine.place().moves] == ["n1"] * (relaxes and not balances)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("replicas", "moved"),
    [
        ((primary("n0"), secondary("n1")), {"n0", "n1"}),
        ((primary("n0", upgrade="swap_out"), secondary("n1", pinned=True)), set()),
        ((primary("n0"), secondary("n1", upgrade="primary_returns", state="in_build"), secondary("n2")), {"n2"}),
    ],
    ids=["unmarked", "swap_out", "primary_returns"],
)
def test_repair_of_an_upgraded_partition_spares_the_marks(
    replicas: tuple[Replica, ...], moved: set[str], *, allowed: bool
) -> None:
    """The settings allow repairs at all; balancing moves none of its replicas."""
    full = {"allow_constraint_check_fixes_during_application_upgrade": allowed, "capacity_limit": "capacity"}
    engine = engine_of(*(limited(f"n{index}", 1) for index in range(3)), "n3", "n4", "n5", **full)
    add_partition(engine, "db/0", *replicas, missing=0, upgrading=True)
    assert {move.source for move in engine.repair().moves} == (moved if allowed else set())
    assert not engine.balance().moves


def test_single_replica_that_an_upgrade_replaces_counts_in_its_domains() -> None:
    """The new replica is placed in another domain, and as a secondary."""
    nodes = [Node(f"n{index}", upgrade_domain=domain) for index, domain in enumerate("aab")]
    marked = primary("n0", upgrade="swap_out", to_be_dropped=True)
    for seed in range(5):
        engine = engine_of(*nodes, replicas=1)
        engine.seed = seed
        add_partition(engine, "db/0", marked, missing=1)
        assert texts(engine.place()) == ["add secondary of db/0 on n2"]


@pytest.mark.parametrize(("prefers", "expected"), [(True, {"n1", "n2"}), (False, {"n0"})])
def test_upgraded_domains_are_preferred(*, prefers: bool, expected: set[str]) -> None:
    """New replicas go to nodes of upgraded domains, although another node would have a lower energy."""
    engine = engine_of(*DOMAINS, replicas=1, preferred_location_constraint_priority=2, prefer_upgraded_uds=prefers)
    add_partition(engine, "db/0", primary("n1"))
    add_partition(engine, "db/1", primary("n2"))
    engine.update_upgraded_domains({"u1", "u2"})
    add_partition(engine, "db/new")
    (move,) = engine.place().moves
    assert move.target in expected
    engine.update_upgraded_domains(())
    assert {move.target for move in engine.place().moves} == {"n0"}, "no upgrade is under way"


@pytest.mark.parametrize("state", ["standby", "dropped"])
def test_upgraded_domains_rank_below_a_standby(state: str) -> None:
    """A new replica goes to the standby, or to the kept place, although an upgraded domain is free."""
    engine = engine_of(*DOMAINS, replicas=2, preferred_location_constraint_priority=2)
    engine.update_upgraded_domains({"u1"})
    mark = UpgradeMark.REPLICA_RETURNS if state == "dropped" else UpgradeMark.NONE
    add_partition(engine, "db/0", primary("n0"), secondary("n2", state=state, upgrade=mark))
    assert texts(engine.place()) == ["add secondary of db/0 on n2"]
    add_partition(engine, "db/0", primary("n0"))
    assert texts(engine.place()) == ["add secondary of db/0 on n1"]


def test_role_goes_to_an_upgraded_domain_first() -> None:
    """Another secondary would give a lower energy."""
    engine = engine_of(*DOMAINS, preferred_location_constraint_priority=2)
    engine.update_upgraded_domains({"u1"})
    add_partition(engine, "db/other", primary("n1"), missing=0)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n1"]


def test_new_replicas_keep_to_preferred_places_while_a_primary_returns() -> None:
    """The partition has a place of the upgrade; a hard rule leaves the missing replica without one."""
    engine = engine_of("n0", "n1", "n2", preferred_location_constraint_priority=0)
    add_partition(engine, "db/0", primary("n0"), secondary("n1", upgrade="primary_returns"), missing=1)
    assert texts(engine.place()) == ["swap primary of db/0 from n0 to n1"]


def test_explanation_of_an_unplaced_replica_names_the_upgraded_domains() -> None:
    """The explanation does so if preferred locations are a hard rule."""
    nodes = [limited("n0", 100, upgrade_domain="u0"), limited("n1", 1, upgrade_domain="u1")]
    engine = engine_of(*nodes, replicas=1, preferred_location_constraint_priority=0)
    engine.update_upgraded_domains(["u1"])
    add_partition(engine, "db/0")
    plan = engine.place()
    assert not plan.moves
    assert "upgraded so far are u1" in plan.explain("db/0")
    engine.update_upgraded_domains(["u9"])
    assert "by preferred location (none is in an upgraded domain)" in engine.place().explain("db/0")


@pytest.mark.parametrize(
    ("role", "mark"), [(Role.SECONDARY, "swap_out"), (Role.INSTANCE, "replica_returns"), (Role.INSTANCE, "swap_out")]
)
def test_invalid_marks_are_refused(role: Role, mark: str) -> None:
    """Only a primary can be swapped out, and instances have no roles."""
    with pytest.raises(InvalidValueError, match="upgrade"):
        Replica(role, "n0", upgrade=UpgradeMark(mark))


@pytest.mark.parametrize("kind", [MoveKind.PROMOTE, MoveKind.VOID])
def test_stale_promotion_or_void_is_refused(kind: MoveKind) -> None:
    """A plan may be older than the present state of the cluster."""
    engine = engine_of("n0", "n1", "n2")
    if kind is MoveKind.PROMOTE:
        add_partition(engine, "db/0", secondary("n0", upgrade="primary_returns"), missing=0)
    else:
        engine.update_service(Service("db", target_replicas=3, default_load=LOADS, blocked_nodes={"n0"}))
        add_partition(engine, "db/0", primary("n1"), secondary("n0", upgrade="primary_returns"), missing=0)
    plan = engine.place()
    assert [move.kind for move in plan.moves] == [kind]
    add_partition(engine, "db/0", primary("n1"), secondary("n0"), missing=0)
    before = engine.replicas("db/0")
    with pytest.raises(ConflictError, match="make a new plan"):
        engine.apply(plan)
    assert engine.replicas("db/0") == before


@pytest.mark.parametrize(("avoids", "placed"), [(True, 1), (False, 2)])
def test_single_replica_services_may_avoid_restarting_nodes(*, avoids: bool, placed: int) -> None:
    """Other services may use such nodes until the safety check is over."""
    engine = engine_on(RESTARTING, is_singleton_replica_move_allowed_during_upgrade=avoids)
    for name, replicas in (("single", 1), ("double", 2)):
        engine.update_service(Service(name, target_replicas=replicas))
        add_partition(engine, f"{name}/0")
    assert sum(move.kind is MoveKind.ADD for move in engine.place().moves) == placed


def test_role_goes_to_an_upgraded_domain_of_the_application_first() -> None:
    """Another secondary would give a lower energy; once the upgrade has ended, it gets the role."""
    engine = engine_of(*DOMAINS, preferred_location_constraint_priority=2)
    engine.update_service(Service("db", target_replicas=3, default_load=LOADS, application="a"))
    add_partition(engine, "db/other", primary("n1"), missing=0)
    add_partition(engine, "db/0", primary("n0", upgrade="swap_out"), secondary("n1"), secondary("n2"))
    for runs, expected in ((True, "n1"), (False, "n2")):
        engine.update_application(Application("a", upgrade_in_progress=runs, completed_upgrade_domains={"u1"}))
        assert texts(engine.place()) == [f"swap primary of db/0 from n0 to {expected}"]


@pytest.mark.parametrize(
    ("cluster", "application", "expected"),
    [
        ({"u0", "u1"}, {"u2"}, {"n2"}),
        ({"u1"}, {"u0", "u2"}, {"n1"}),
        ({"u0", "u1"}, {"u0", "u2", "u3"}, {"n2", "n3"}),
        ({"u1", "u2"}, {"u3"}, {"n1", "n2"}),
        ({"u1"}, {"nowhere"}, {"n1"}),
    ],
)
def test_upgrade_that_has_not_reached_the_primary_decides_which_domains_are_preferred(
    cluster: set[str], application: set[str], expected: set[str]
) -> None:
    """The primary is in u0. If both upgrades have reached it, or none, the one with more completed domains decides."""
    nodes = [Node(f"n{i}", upgrade_domain=f"u{i}") for i in range(4)]
    settings = {"preferred_location_constraint_priority": 2, "upgrade_domain_constraint_priority": -1}
    engine = engine_of(*nodes, replicas=2, **settings)
    engine.update_service(Service("db", target_replicas=2, default_load=LOADS, application="a"))
    engine.update_upgraded_domains(cluster)
    engine.update_application(Application("a", upgrade_in_progress=True, completed_upgrade_domains=application))
    add_partition(engine, "db/0", primary("n0"))
    targets = set()
    for seed in range(20):
        engine.seed = seed
        targets |= {move.target for move in engine.place().moves}
    assert targets <= expected
    assert targets
