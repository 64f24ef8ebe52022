"""Limits of the moves of balancing in an interval hold over all plans, whether a refresh has one action or all."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import ConflictError, Metric, MoveKind, Node, Partition, PlbConfig, Replica, Role, Service
from plb.model.move import Phase
from plb.model.outcome import Idle
from tests.engine.stories import engine_with

NODES = {f"n{number}": 100.0 for number in range(4)}
INTERVAL = 3600.0


def limited_to(moves: int) -> dict[str, Any]:
    """Return settings that allow so many moves of balancing in the interval."""
    return {
        "global_movement_throttle_threshold_for_balancing": moves,
        "global_movement_throttle_counting_interval": INTERVAL,
    }


@settings(max_examples=40, deadline=None)
@given(
    limit=st.integers(1, 4),
    steps=st.lists(
        st.tuples(st.sampled_from([0.0, 600.0, 1800.0, 3600.0]), st.booleans(), st.integers(0, 3)),
        min_size=1,
        max_size=8,
    ),
    one_action=st.booleans(),
)
def test_no_interval_has_more_moves_than_its_limit(limit: int, steps, one_action: bool) -> None:
    """Loads change before each plan, which `refresh` or `balance` makes; some plans are not carried out."""
    engine = engine_with(
        NODES,
        {f"p{number}": (f"n{number % 2}", 5.0) for number in range(16)},
        one_action_per_refresh=one_action,
        **limited_to(limit),
    )
    now, made = 0.0, []
    for step, (wait, refreshes, fate) in enumerate(steps):
        now += wait
        rows = [engine.replicas(f"p{number}")[0].index for number in range(16)]
        engine.report_loads(rows, [[1.0 + (number * 7 + step * 5) % 9] for number in range(16)])
        plan = engine.refresh(now) if refreshes or one_action else engine.balance(now=now)
        if one_action or fate:
            engine.apply(plan)
            made += [now] * len(plan.moves)
        assert all(sum(end - INTERVAL < time <= end for time in made) <= limit for end in made)


def test_a_refresh_says_that_the_limit_of_moves_is_reached() -> None:
    engine = engine_with(
        NODES,
        {f"p{number}": ("n0", 10.0) for number in range(8)},
        global_movement_throttle_threshold=2,
        global_movement_throttle_counting_interval=INTERVAL,
    )
    plan = engine.refresh(0.0)
    assert len(plan.moves) == 2
    engine.apply(plan)
    again = engine.refresh(INTERVAL - 1.0)
    assert not again.moves
    assert again.outcomes[0].idle[Phase.BALANCING] is Idle.THROTTLED
    assert len(engine.refresh(INTERVAL).moves) == 2


def test_a_plan_that_is_not_applied_does_not_count() -> None:
    """Neither does one that goes on from it count its moves twice."""
    engine = engine_with(NODES, {f"p{number}": ("n0", 10.0) for number in range(8)}, **limited_to(6))
    plan = engine.balance(now=0.0)
    again = engine.balance(now=0.0, start=plan)
    assert len(plan.moves) == len(again.moves) == len(engine.balance(now=1.0).moves) == 6
    assert again.energy_after.total <= plan.energy_after.total


@pytest.mark.parametrize("one_action", [False, True])
def test_a_search_that_the_limit_has_stopped_goes_on_when_it_allows_more(one_action: bool) -> None:
    """Only an exchange, of two moves, evens out the loads, and one of two moves has been used."""
    placed = {"a0": ("n0", 10.0), "a1": ("n0", 0.0), "b0": ("n1", 0.0), "b1": ("n1", 0.0), "x": ("n0", 10.0)}
    engine = engine_with({"n0": 20.0, "n1": 20.0}, placed, one_action_per_refresh=one_action, **limited_to(2))
    first = engine.refresh(0.0)
    assert len(first.moves) == 1
    engine.apply(first)
    for name, load in {"a0": 10.0, "a1": 10.0, "b0": 6.0, "b1": 5.0, "x": 0.0}.items():
        engine.report_loads([engine.replicas(name)[0].index], [[load]])
    assert [len(engine.refresh(time).moves) for time in (10.0, 20.0, INTERVAL)] == [0, 0, 2]


def test_a_balancing_without_moves_to_spend_stays_due() -> None:
    engine = engine_with(
        NODES,
        {f"p{number}": ("n0", 10.0) for number in range(8)},
        min_load_balancing_interval=3000.0,
        **limited_to(2),
    )
    made = []
    for now in (0.0, 3000.0, INTERVAL):
        plan = engine.refresh(now)
        engine.apply(plan)
        made.append(len(plan.moves))
    assert made == [2, 0, 2]


def test_a_balanced_cluster_is_not_held_back() -> None:
    engine = engine_with({"n0": 100.0, "n1": 100.0}, {"a": ("n0", 40.0), "b": ("n0", 40.0)}, **limited_to(1))
    engine.apply(engine.refresh(0.0))
    assert engine.refresh(1.0).outcomes[0].idle[Phase.BALANCING] is Idle.BALANCED


def test_moves_of_a_later_time_do_not_count() -> None:
    """The clock of the host starts again."""
    engine = engine_with(NODES, {f"p{number}": ("n0", 10.0) for number in range(8)}, **limited_to(2))
    engine.apply(engine.balance(now=9000.0))
    assert len(engine.balance(now=10.0).moves) == 2


def test_without_an_interval_there_is_no_limit() -> None:
    settings = {**limited_to(1), "global_movement_throttle_counting_interval": 0.0}
    engine = engine_with(NODES, {f"p{number}": ("n0", 10.0) for number in range(8)}, **settings)
    assert len(engine.balance(now=0.0).moves) == 6


def test_after_an_error_moves_of_the_failed_plan_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with(NODES, {"a": ("n0", 40.0), "b": ("n0", 40.0)}, global_movement_throttle_threshold=1)
    with monkeypatch.context() as patched:
        patched.setattr("plb.planning.planner.merged", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.balance(now=0.0)
    assert len(engine.balance(now=0.0).moves) == 1


def test_an_hour_has_no_more_moves_than_its_limit() -> None:
    """Repairs count and wait, too; a plan says that the budget bound it, and the next hour goes on."""
    engine = engine_with(NODES, {f"p{number}": ("n0", 5.0) for number in range(8)}, max_moves_per_hour=3)
    engine.drain_node("n0", now=0.0)
    made = []
    for now in (0.0, 1800.0, 3600.0, 7200.0):
        plan = engine.refresh(now)
        engine.apply(plan)
        made.append((len(plan.moves), "moves" in plan.bound_by))
    assert made == [(3, True), (0, True), (3, True), (2, False)]


def test_moves_for_new_replicas_leave_fewer_to_repairs_of_the_hour() -> None:
    """The new replica of 4 takes the only move; the replica on the node that is drained waits for an hour."""
    engine = engine_with(
        {f"n{number}": 5.0 for number in range(5)},
        {**{f"p{number}": (f"n{number}", 2.0) for number in range(4)}, "p4": ("n4", 1.0)},
        max_moves_per_hour=1,
        load_balancing_enabled=False,
    )
    engine.update_service(Service("large", stateful=False, default_load={"instance": {"cpu": 4.0}}))
    engine.update_partition(Partition("large/0", service="large"))
    engine.drain_node("n4", now=0.0)
    made = []
    for now in (0.0, 3600.0):
        plan = engine.refresh(now)
        engine.apply(plan)
        made.append([move.reason.rule for move in plan.moves if move.kind is MoveKind.MOVE])
    assert made == [["eviction"], ["node"]]


def test_new_replicas_do_not_count_in_the_hour() -> None:
    engine = engine_with(NODES, {}, max_moves_per_hour=0)
    for number in range(4):
        engine.update_partition(Partition(f"p{number}", service="web"))
    assert len(engine.refresh(0.0).moves) == 4


@pytest.mark.parametrize("one_action", [False, True])
def test_changes_of_roles_for_an_upgrade_neither_count_nor_wait(one_action: bool) -> None:
    nodes = [Node(f"n{number}", upgrade_domain=f"ud{number}") for number in range(3)]
    engine = engine_with(nodes, {}, max_moves_per_hour=0, one_action_per_refresh=one_action)
    engine.update_service(Service("db", target_replicas=2))
    marked = [Replica(Role.PRIMARY, "n0", upgrade="swap_out"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("p", service="db", replicas=marked))
    plan = engine.refresh(0.0)
    assert [move.reason.rule for move in plan.moves] == ["upgrade"]
    engine.apply(plan)
    assert engine._planner.scheduler.issued == []


@pytest.mark.parametrize(
    "limit",
    [
        {"global_movement_throttle_threshold_for_placement": 1},
        {"global_movement_throttle_threshold_percentage_for_placement": 0.25},
    ],
)
def test_moves_for_new_replicas_are_limited(limit: dict[str, Any]) -> None:
    """A replica of 4 fits on no node unless another one moves; one such move is allowed in the interval."""
    settings = {**limit, "load_balancing_enabled": False}
    engine = engine_with(
        {f"n{number}": 5.0 for number in range(4)},
        {f"p{number}": (f"n{number}", 2.0) for number in range(4)},
        **settings,
    )
    engine.update_service(Service("large", stateful=False, default_load={"instance": {"cpu": 4.0}}))
    placed = []
    for number, now in enumerate((0.0, 1.0, 600.0)):
        engine.update_partition(Partition(f"large/{number}", service="large"))
        plan = engine.refresh(now)
        engine.apply(plan)
        placed.append(len(plan.unplaced))
    assert placed == [0, 1, 1]


@pytest.mark.parametrize("delay", ["balancing_delay_after_node_down", "balancing_delay_after_new_node"])
def test_balancing_waits_after_an_event_of_a_node(delay: str) -> None:
    """It stays due, whatever its interval."""
    engine = engine_with(
        NODES, {f"p{number}": ("n0", 5.0) for number in range(8)}, min_load_balancing_interval=1e6, **{delay: 100.0}
    )
    engine.update_node(Node("n9"), now=50.0)
    engine.update_node(Node("n9", up=False), now=50.0)
    waits = engine.refresh(149.0)
    assert not waits.moves
    assert waits.outcomes[0].idle[Phase.BALANCING] is Idle.NODE_EVENT
    assert engine.refresh(150.0).moves


@pytest.mark.parametrize(
    "delay", ["constraint_fix_partial_delay_after_node_down", "constraint_fix_partial_delay_after_new_node"]
)
def test_repairs_of_the_spread_wait_after_an_event_of_a_node(delay: str) -> None:
    nodes = [Node(f"n{number}", fault_domain=f"fd:/{number % 2}") for number in range(4)]
    engine = engine_with(nodes, {}, load_balancing_enabled=False, **{delay: 100.0})
    replicas = [Replica(Role.INSTANCE, "n0"), Replica(Role.INSTANCE, "n2")]
    engine.update_service(Service("web", stateful=False, target_replicas=2))
    engine.update_partition(Partition("p", service="web", replicas=replicas))
    engine.update_node(Node("n9", fault_domain="fd:/0"), now=50.0)
    engine.update_node(Node("n9", fault_domain="fd:/0", up=delay.endswith("new_node")), now=50.0)
    assert not engine.refresh(149.0).moves
    assert len(engine.refresh(150.0).moves) == 1


def test_partitions_that_moved_often_stay() -> None:
    """The heavy one has moved once; afterwards only the light ones may, and balancing ends if too many are excluded."""
    engine = engine_with(
        {"n0": 100.0, "n1": 100.0}, {"a": ("n0", 10.0), "b": ("n0", 10.0)}, movement_per_partition_throttle_threshold=1
    )
    first = engine.refresh(0.0)
    engine.apply(first)
    (moved,) = {move.partition for move in first.moves}
    engine.update_partition(Partition(moved, service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
    again = engine.refresh(1.0)
    assert {move.partition for move in again.moves} == {"a", "b"} - {moved}
    engine.configure(attrs.evolve(engine.config, movement_throttled_partitions_percentage_threshold=0.4))
    assert engine.refresh(2.0).outcomes[0].idle[Phase.BALANCING] is Idle.PARTITIONS_THROTTLED
    assert len(engine.refresh(601.0).moves) == 1


@pytest.mark.parametrize(
    ("setting", "needed"),
    [
        ({"max_movement_execution_time": 10.0}, "one_action_per_refresh"),
        ({"plb_action_retry_times": 2}, "one_action_per_refresh"),
        ({"slow_balancing_search_timeout": 1.0}, "one_action_per_refresh"),
        ({"slow_balancing_temperature_decay_rate": 0.5}, "one_action_per_refresh"),
        ({"placement_days": 1.0}, "violation_cost"),
    ],
)
def test_a_setting_without_effect_is_refused(setting: dict[str, Any], needed: str) -> None:
    with pytest.raises(ConflictError, match=f"PlbConfig: {next(iter(setting))} = .* has no effect without {needed}"):
        PlbConfig(metrics=[Metric("cpu")], **setting)
