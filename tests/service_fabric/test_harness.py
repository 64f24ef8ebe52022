"""The harness itself: reading, conversion and evaluation, without a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from plb import Energy, Move, MoveKind, Phase, Plan, Reason, Role
from plb.model import ReplicaState, UpgradeMark
from tests.service_fabric.actions import CollectedActions, domains_with_moves
from tests.service_fabric.adapter import OPERATIONS, Player, seen_at
from tests.service_fabric.described import (
    ALL_ELIGIBLE_NODES,
    default_loads,
    metrics_of,
    node_from,
    partition_from,
    service_from,
    stateful_services,
)
from tests.service_fabric.report import failed_text, features_of, passed_table, suites_of, summary
from tests.service_fabric.run import Outcome, run_scenario, run_scenarios
from tests.service_fabric.scenario import (
    Scenario,
    ScenarioFileError,
    read_open,
    read_scenarios,
    read_settings,
    scenario_files,
    shared_folder,
)
from tests.service_fabric.verdicts import Failure, describe, verdict_of

NO_DEACTIVATION = {"intent": "none", "status": "none"}
needs_shared = pytest.mark.skipif(not shared_folder().exists(), reason=f"{shared_folder()} is not here")


def scenario(*steps: dict[str, Any], name: str = "Small", features: tuple[str, ...] = ()) -> Scenario:
    """Return a scenario with some steps."""
    return Scenario(name, "Suite", features, steps)


def node(identifier: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a node step."""
    step = {"op": "node", "id": identifier, "up": True, "deactivation": NO_DEACTIVATION, "node_properties": {}}
    return {**step, "fd": None, "fd_path": [], "ud": None, "capacities": {}, **fields}


def service(name: str = "web", **fields: Any) -> dict[str, Any]:
    """Return a service step."""
    step = {"op": "service", "name": name, "service_type": "Type", "stateful": True, "placement_constraint": ""}
    step |= {"affinity_parent": "", "aligned_affinity": True, "metrics": [], "default_move_cost": "low"}
    return {**step, "on_every_node": False, "target_replica_set_size": 0, "application": "", **fields}


def partition(*replicas: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a partition step."""
    step = {"op": "partition", "id": 0, "service": "web", "version": 0, "replicas": list(replicas), "replica_diff": 0}
    return {**step, "flags": [], "reconfiguration_in_progress": False, "in_quorum_lost": False, **fields}


def replica(role: str, at: int, **fields: Any) -> dict[str, Any]:
    """Return a replica of a partition step."""
    return {"role": role, "node": at, "state": "ready", "up": True, "flags": [], **fields}


def plan(*moves: Move) -> Plan:
    """Return a plan with some moves."""
    return Plan(moves, NO_ENERGY, NO_ENERGY)


def move(name: str, role: Role, source: str | None, target: str, kind: MoveKind = MoveKind.MOVE) -> Move:
    """Return a move with an arbitrary reason."""
    return Move(kind, name, role, source, target, Reason(Phase.BALANCING, "energy"), 1.0)


NO_ENERGY = Energy(**{field.name: 0.0 for field in attrs.fields(Energy) if field.default is attrs.NOTHING})


# reading


def test_every_bad_line_is_named(tmp_path: Path) -> None:
    """The message contains the file, and line and error of every bad line."""
    good = {"name": "A", "suite": "S", "features": [], "steps": []}
    lines = [json.dumps(good), "{", "[]", "", json.dumps({**good, "steps": [{"id": 0}]}), json.dumps({"name": "B"})]
    file = tmp_path / "scenarios.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(ScenarioFileError) as raised:
        read_scenarios(file)
    problems = str(raised.value).splitlines()
    assert [line.removeprefix(f"{file}:").split(":")[0] for line in problems] == ["2", "3", "5", "6"]
    assert "not JSON" in problems[0]
    assert "a scenario is an object, not list" in problems[1]
    assert "scenario A: step 0 has no op" in problems[2]
    assert "scenario B: suite is missing or no str" in problems[3]


@needs_shared
def test_every_shared_operation_is_supported() -> None:
    """Every operation in the shared scenarios has a method."""
    used = {step["op"] for file in scenario_files() for one in read_scenarios(file) for step in one.steps}
    assert used - {"expect"} <= OPERATIONS.keys()


@needs_shared
def test_settings_of_the_tests_override_the_defaults() -> None:
    """A setting of the original tests has their value, and all others have the default."""
    settings = read_settings()
    assert settings["SimulatedAnnealingIterationsPerRound"] == 100
    assert settings["MoveCostOffset"] == 1000


# conversion


def test_built_in_metrics_ignore_the_written_loads() -> None:
    """Count metrics count replicas; any other metric has its written loads."""
    metrics = [{"name": name, "weight": 1.0, "primary": 7, "secondary": 5} for name in ("ReplicaCount", "CPU")]
    assert default_loads(service(metrics=metrics), stateful=True) == {
        Role.PRIMARY: {"ReplicaCount": 1, "CPU": 7},
        Role.SECONDARY: {"ReplicaCount": 1, "CPU": 5},
    }
    assert default_loads(service(metrics=metrics), stateful=False) == {Role.INSTANCE: {"ReplicaCount": 0, "CPU": 5}}


def test_a_single_replica_has_the_primary_load_in_both_roles() -> None:
    """With target size 1, the secondary of a stateful service also has the primary load."""
    step = service(metrics=[{"name": "CPU", "weight": 1.0, "primary": 7, "secondary": 5}], target_replica_set_size=1)
    assert default_loads(step, stateful=True)[Role.SECONDARY] == {"CPU": 7}


def test_a_service_without_metrics_has_count_metrics() -> None:
    """It has three built-in metrics, which the engine receives."""
    assert service_from(service(), stateful=True, blocked_nodes=[3]).metrics == {
        "PrimaryCount": 1.0,
        "ReplicaCount": 0.3,
        "Count": 0.1,
    }
    assert [metric.name for metric in metrics_of(scenario(service()))] == ["PrimaryCount", "ReplicaCount", "Count"]


def test_a_primary_makes_its_service_stateful() -> None:
    """A service that is marked stateless and has a primary is stateful in the engine."""
    steps = (service(stateful=False), service("api", stateful=False), partition(replica("primary", 0)))
    assert stateful_services(scenario(*steps)) == {"web"}


def test_domains_are_properties_of_a_node() -> None:
    """Fault and upgrade domain are default properties of a node. Unknown metrics have no limit."""
    step = node(fd="dc0/r1", fd_path=["dc0", "r1"], ud="2", node_properties={"UpgradeDomain": "own"})
    made = node_from({**step, "capacities": {"CPU": 5, "unknown": 1}}, {"CPU"})
    assert made.fault_domain_path == ("dc0", "r1")
    assert made.properties == {"FaultDomain": "fd:/dc0/r1", "UpgradeDomain": "own"}
    assert made.capacities == {"CPU": 5}


@pytest.mark.parametrize(
    ("written", "role", "state", "leaving"),
    [
        (replica("primary", 0), Role.PRIMARY, ReplicaState.READY, False),
        (replica("standby", 0, state="standby"), Role.SECONDARY, ReplicaState.STANDBY, False),
        (replica("none", 0), Role.SECONDARY, ReplicaState.DROPPED, False),
        (replica("secondary", 0, state="inbuild"), Role.SECONDARY, ReplicaState.IN_BUILD, False),
        (replica("primary", 0, up=False), Role.PRIMARY, ReplicaState.DOWN, False),
        (replica("secondary", 0, flags=["move_in_progress"]), Role.SECONDARY, ReplicaState.READY, True),
    ],
    ids=lambda value: value["role"] if isinstance(value, dict) else None,
)
def test_roles_states_and_flags(written: dict[str, Any], role: Role, state: ReplicaState, leaving: bool) -> None:
    """The written fields of a replica give its role, its state and whether it leaves."""
    made = partition_from(partition(written), stateful=True, on_every_node=False, nodes={0}).replicas[0]
    assert (made.role, made.state, made.leaving) == (role, state, leaving)


@pytest.mark.parametrize(
    ("written", "mark"),
    [
        (replica("primary", 0, flags=["primary_to_be_swapped_out", "preferred_primary_location"]), "swap_out"),
        (replica("secondary", 0, flags=["primary_to_be_swapped_out"]), "none"),
        (replica("secondary", 0, flags=["primary_to_be_placed"]), "primary_returns"),
        (replica("standby", 0, state="standby", flags=["replica_to_be_placed"]), "replica_returns"),
    ],
    ids=lambda value: "-".join(value["flags"]) if isinstance(value, dict) else None,
)
def test_marks_of_the_upgrade_pass(written: dict[str, Any], mark: str) -> None:
    """A mark acts on the roles that it concerns."""
    made = partition_from(partition(written, flags=["upgrading"]), stateful=True, on_every_node=False, nodes={0})
    assert made.replicas[0].upgrade is UpgradeMark(mark)
    assert (made.upgrading, made.in_transition) == (True, False)


def test_a_replica_to_be_promoted_does_not_move() -> None:
    """It is in transition."""
    written = replica("secondary", 0, flags=["to_be_promoted"])
    made = partition_from(partition(written), stateful=True, on_every_node=False, nodes={0})
    assert made.replicas[0].pinned


def test_unknown_flags_are_refused() -> None:
    """The message names them."""
    with pytest.raises(NotImplementedError, match="'odd'"):
        partition_from(partition(replica("primary", 0, flags=["odd"])), stateful=True, on_every_node=False, nodes={0})


def test_replicas_on_unknown_nodes_are_omitted() -> None:
    """The original ignores them."""
    step = partition(replica("secondary", 1), replica("secondary", 9))
    made = partition_from(step, stateful=False, on_every_node=False, nodes={0, 1})
    assert [(one.role, one.node) for one in made.replicas] == [(Role.INSTANCE, "1")]


def test_a_dropped_replica_is_omitted_unless_its_place_is_kept() -> None:
    """A mark of the upgrade pass keeps it."""
    written = replica("dropped", 0), replica("dropped", 1, flags=["replica_to_be_placed"])
    made = partition_from(partition(*written), stateful=True, on_every_node=False, nodes={0, 1})
    assert [(one.node, one.state) for one in made.replicas] == [("1", ReplicaState.DROPPED)]


@pytest.mark.parametrize(
    ("flag", "leaving", "dropped"),
    [
        ("move_in_progress", True, False),
        ("to_be_dropped_by_fm", False, True),
        ("to_be_dropped_by_plb", False, True),
        ("to_be_dropped_for_node_deactivation", False, True),
    ],
)
def test_moving_away_and_to_be_dropped_are_two_states(flag: str, *, leaving: bool, dropped: bool) -> None:
    """Each flag gives one of them."""
    written = replica("secondary", 0, flags=[flag])
    made = partition_from(partition(written), stateful=True, on_every_node=False, nodes={0}).replicas[0]
    assert (made.leaving, made.to_be_dropped) == (leaving, dropped)


def test_a_replica_without_a_role_has_no_load_and_occupies_its_node() -> None:
    """No other replica of its partition is placed there."""
    made = partition_from(partition(replica("none", 0)), stateful=True, on_every_node=False, nodes={0, 1})
    assert [(one.node, one.state) for one in made.replicas] == [("0", ReplicaState.DROPPED)]


def test_the_largest_difference_requests_every_free_node() -> None:
    """Without the flag of the service, it is the number of free nodes. With the flag, the engine counts them."""
    step = partition(replica("secondary", 1), replica_diff=ALL_ELIGIBLE_NODES)
    assert partition_from(step, stateful=False, on_every_node=False, nodes={0, 1, 2}).missing == 2
    assert partition_from(step, stateful=False, on_every_node=True, nodes={0, 1, 2}).missing is None


def test_a_refresh_ahead_of_the_clock_has_a_later_time() -> None:
    """The time is one second later, unless the refresh is raw."""
    assert [seen_at(0.0, raw=False), seen_at(10.0, raw=False), seen_at(10.0, raw=True)] == [0.0, 11.0, 10.0]


# running steps


class Recorder:
    """Replaces the engine and records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def note(*arguments: Any, **_: Any) -> Plan:
            self.calls.append((name, *(getattr(argument, "name", argument) for argument in arguments)))
            return plan()

        return note

    def take(self) -> list[tuple[Any, ...]]:
        """Return the calls so far and remove them."""
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Return the replacement of the engine for the test."""
    made = Recorder()
    monkeypatch.setattr("tests.service_fabric.adapter.PlacementAndLoadBalancing", lambda *_, **__: made)
    monkeypatch.setattr(Player, "_config", lambda _: None)
    return made


def player_of(*steps: dict[str, Any], **settings: Any) -> Player:
    """Return a player that has run some steps."""
    player = Player(scenario(*steps), {"UseSeparateSecondaryLoad": True, **settings}, seed=0)
    for step in steps:
        player.play(step)
    return player


def test_updates_are_ordered_by_kind(recorder: Recorder) -> None:
    """Services take effect at once. Other updates wait for the refresh and are ordered by kind."""
    load = {"op": "load", "id": 0, "service": "web", "metric": "Count", "primary": 3, "secondary": 1}
    player = player_of(load, partition(), node(), service(), {"op": "refresh", "at": 10.0})
    assert recorder.take() == [
        ("update_service", "web"),
        ("update_node", "0"),
        ("update_partition", "0"),
        ("report_role_load", "0", "PRIMARY", {"Count": 3}),
        ("report_role_load", "0", "SECONDARY", {"Count": 1}),
        ("refresh", 11.0),
    ]
    player.play({"op": "process_pending"})
    assert recorder.take() == []


def test_every_update_of_a_partition_is_forwarded(recorder: Recorder) -> None:
    """An update without changes also matters: it reports that no issued move of the partition is under way."""
    steps = [partition(), partition(replica("primary", 0)), partition(replica_diff=1), partition(version=1)]
    player_of(node(), service(), *steps, {"op": "process_pending"})
    assert [call for call in recorder.take() if call[0] == "update_partition"] == [("update_partition", "0")] * 4


def test_loads_of_secondaries_are_reported_by_node(recorder: Recorder) -> None:
    """Loads on unknown nodes are omitted."""
    load = {"op": "load", "id": 0, "service": "web", "metric": "Count", "secondary_per_node": {"1": 3, "9": 4}}
    steps = [node(0), node(1), service(), partition(replica("secondary", 1)), load, {"op": "process_pending"}]
    player_of(*steps)
    assert recorder.take()[4:] == [("report_secondary_loads", "0", {"1": {"Count": 3}})]


def test_reset_loads_wait_with_reports(recorder: Recorder) -> None:
    """Those of unknown partitions are omitted."""
    resets = [{"op": "reset_load", "id": number, "service": "web"} for number in (0, 7)]
    player_of(node(0), service(), partition(), *resets, {"op": "process_pending"})
    assert recorder.take()[-1] == ("reset_load", "0")


def test_one_move_cost_of_all_secondaries_is_that_of_the_role(recorder: Recorder) -> None:
    """It is given by role or by node. Costs that differ by node are refused."""
    steps = [node(0), service(), partition(), {"op": "process_pending"}]
    report = {"op": "move_cost", "id": 0, "service": "web", "stateful": True, "primary": "low"}
    expected = [("report_move_cost", "0", "PRIMARY", "low"), ("report_move_cost", "0", "SECONDARY", "high")]
    for secondaries in ({"secondary": "high"}, {"secondary_per_node": {"1": "high", "2": "high"}}):
        player_of(*steps, {**report, **secondaries}, {"op": "process_pending"})
        assert recorder.take()[3:] == expected
    with pytest.raises(NotImplementedError, match="differs by secondary"):
        player_of(*steps, {**report, "secondary_per_node": {"1": "high", "2": "low"}}, {"op": "process_pending"})


def test_a_refresh_without_nodes_does_nothing(recorder: Recorder) -> None:
    """The engine is not called."""
    player_of(service(), partition(), {"op": "refresh", "at": 0.0})
    assert [call[0] for call in recorder.take()] == ["update_service", "update_partition"]


def test_maps_of_metrics_omit_unknown_metrics() -> None:
    """The engine refuses entries for metrics without a service. Maps of node types are unchanged."""
    settings = {"MetricActivityThresholds": {"CPU": 3, "Other": 4}, "MaximumInBuildReplicasPerNode": {"Big": 2}}
    one = service(metrics=[{"name": "CPU", "weight": 1.0, "primary": 1, "secondary": 1}])
    config = Player(scenario(one), settings, seed=0)._config()
    assert [(metric.name, metric.activity_threshold) for metric in config.metrics] == [("CPU", 3)]
    assert config.maximum_in_build_replicas_per_node == {"Big": 2}


@pytest.mark.parametrize(("written", "kept"), [("zone == a", "zone == a"), ("zone ==", ""), ("&&", "")])
def test_an_invalid_constraint_has_no_effect(written: str, kept: str) -> None:
    """The original ignores it; the engine would refuse it."""
    made = service_from(service(placement_constraint=written), stateful=True, blocked_nodes=())
    assert made.placement_constraint == kept


def test_a_block_list_applies_to_existing_services(recorder: Recorder) -> None:
    """An updated service type updates its services."""
    player_of(service(), {"op": "service_type", "name": "Type", "blocklist": [1]})
    assert recorder.take() == [("update_service", "web")] * 2


def test_the_failover_table_is_applied_as_updates(recorder: Recorder) -> None:
    """The next processing applies the pushed partitions; a clear removes them."""
    noted = {**partition(), "op": "fm_partition"}
    steps = [service(), noted, {"op": "clear"}, {"op": "fm_push"}, noted, {"op": "fm_push"}, {"op": "process_pending"}]
    player_of(*steps)
    assert recorder.take()[1:] == [("update_partition", "0")]


@pytest.mark.usefixtures("recorder")
def test_an_unknown_operation_is_refused() -> None:
    """The message contains its name."""
    with pytest.raises(NotImplementedError, match="'dispose'"):
        player_of({"op": "dispose"})


def test_a_cluster_upgrade_names_its_domains_while_it_runs(recorder: Recorder) -> None:
    """Without one in progress there are none."""
    step = {"op": "cluster_upgrade", "in_progress": True, "completed_uds": ["UD0"]}
    player = Player(scenario(), {}, seed=0)
    domains: list[tuple[str, ...]] = []
    player._engine.update_upgraded_domains = domains.append  # type: ignore[method-assign,assignment]
    player.play(step)
    player.play({**step, "in_progress": False})
    assert domains == [["UD0"], ()]
    assert not recorder.take()


def test_phases_are_switched_off_by_settings() -> None:
    """A phase that is switched on keeps the setting of the scenario."""
    player = Player(scenario(service()), {"LoadBalancingEnabled": False}, seed=0)
    player.play({"op": "movement_enabled", "constraint_check": False, "balancing": True})
    config = player._config()
    assert (config.constraint_check_enabled, config.load_balancing_enabled) == (False, False)


def test_an_application_with_its_services_is_handed_over() -> None:
    """Amounts of -1 are none, and what the cluster cannot hold is an error of the update."""
    amounts = {"total_capacity": -1, "max_instance_capacity": 8, "reservation_capacity": 5}
    fields = {"minimum_nodes": 0, "scaleout_count": 2, "upgrade_in_progress": False, "upgrade_completed_uds": []}
    application = {"op": "application", "name": "app", "capacities": {"Count": amounts}, **fields}
    player = Player(scenario(service(), application), {}, seed=0)
    for step in (service(), application):
        player.play(step)
    (found,) = player._engine.applications
    assert (found.most_nodes, found.total_capacity) == (2, {})
    assert player.update_error == "Success"
    player.play(application | {"minimum_nodes": 2})
    assert player.update_error == "InsufficientClusterCapacity"
    player.play({"op": "delete_application", "name": "app"})
    assert player._engine.applications == ()


# collection and evaluation


def test_a_partition_keeps_its_first_actions() -> None:
    """Actions accumulate over refreshes. A second plan adds only to other partitions."""
    actions = CollectedActions()
    actions.collect(plan(move("10", Role.PRIMARY, "0", "1"), move("2", Role.INSTANCE, None, "3", MoveKind.ADD)))
    actions.collect(plan(move("10", Role.PRIMARY, "0", "5"), move("3", Role.PRIMARY, "1", "2", MoveKind.SWAP)))
    assert actions.partitions == actions.raw_count == 3
    if shared_folder().exists():
        assert actions.texts() == ("2 add instance 3", "3 swap primary 1<=>2", "10 move primary 0=>1")


@needs_shared
def test_secondaries_of_services_described_as_stateless_are_instances() -> None:
    """The engine calls them secondaries if one of the replicas is a primary."""
    actions = CollectedActions()
    actions.collect(plan(move("0", Role.SECONDARY, None, "2", MoveKind.ADD)))
    assert actions.texts() == ("0 add secondary 2",)
    assert actions.texts(stateless={0}) == ("0 add instance 2",)


@needs_shared
def test_moves_that_exchange_nodes_are_one_text() -> None:
    """A primary and a secondary that exchange nodes are printed as one swap and count as two raw actions."""
    actions = CollectedActions()
    actions.collect(plan(move("0", Role.PRIMARY, "1", "2"), move("0", Role.SECONDARY, "2", "1")))
    assert actions.texts() == ("0 swap primary 1<=>2",)
    assert actions.raw_count == 2


def test_domains_with_moves_are_counted_once() -> None:
    """Two partitions of one domain count as one update."""
    moves = [move(name, Role.PRIMARY, "0", "1") for name in ("0", "1", "2")]
    assert domains_with_moves(moves, {"0": "a", "1": "a", "2": "b"}) == 2


@needs_shared
@pytest.mark.usefixtures("recorder")
def test_a_failed_expectation_has_expected_and_actual_values() -> None:
    """It also has its line and the actions."""
    player = player_of()
    player.actions.collect(plan(move("0", Role.PRIMARY, "1", "2")))
    requested = {"op": "expect", "type": "count_if", "pattern": "0 move * *=>3", "cmp": "==", "value": 1, "line": 7}
    failure = verdict_of(requested, player)
    assert failure == Failure(7, "count_if '0 move * *=>3' == 1", "0", ("0 move primary 1=>2",))
    assert verdict_of({**requested, "pattern": "0 move * *=>2"}, player) is None


@needs_shared
@pytest.mark.parametrize(
    ("fields", "actual"),
    [
        ({"type": "load_value_is", "node": 1, "role": "secondary", "load": 3, "effective": False, "value": True}, "7"),
        ({"type": "load_value_is", "node": 9, "role": "secondary", "load": 1, "effective": False, "value": True}, "0"),
        ({"type": "load_value_is", "node": 9, "role": "secondary", "load": 1, "effective": True, "value": True}, "7"),
        ({"type": "in_build_count", "node": 1, "cmp": "==", "value": 2}, "1"),
        ({"type": "in_build_count", "node": 0, "cmp": "==", "value": 2}, "0"),
        ({"type": "total_cluster_capacity", "cmp": "<", "value": 5}, "5.0"),
        ({"type": "update_error", "cmp": "==", "value": "InsufficientClusterCapacity"}, "Success"),
    ],
    ids=lambda value: f"{value['type']}-{value.get('node')}" if isinstance(value, dict) else None,
)
def test_queries_of_the_engine_are_judged(fields: dict[str, Any], actual: str) -> None:
    """Loads of replicas, replicas in build and the capacity of nodes in service."""
    one = service(metrics=[{"name": "CPU", "weight": 1.0, "primary": 1, "secondary": 2}])
    replicas = replica("primary", 0), replica("secondary", 1, state="inbuild")
    load = {"op": "load", "id": 0, "service": "web", "metric": "CPU", "secondary_per_node": {"1": 7}}
    nodes = node(0, capacities={"CPU": 5}), node(1), node(2, up=False, capacities={"CPU": 9})
    steps = (*nodes, one, partition(*replicas), load, {"op": "process_pending"})
    player = Player(scenario(*steps), {}, seed=0)
    for step in steps:
        player.play(step)
    failure = verdict_of({"op": "expect", "line": 7, "service": "web", "id": 0, "metric": "CPU", **fields}, player)
    assert failure is not None
    assert failure.actual == actual


@needs_shared
def test_processes_do_not_change_outcomes() -> None:
    """The order is that of the scenarios, and a scenario passes if it does with every seed."""
    good = scenario({"op": "expect", "type": "count", "cmp": "==", "value": 0, "line": 1}, name="Good")
    bad = scenario({"op": "dispose"}, name="Bad")
    outcomes = run_scenarios([bad, good], {}, seeds=(1, 2), workers=2)
    assert [(one.scenario.name, one.failed_seeds) for one in outcomes] == [("Bad", (1, 2)), ("Good", ())]
    assert [one.passed for one in outcomes] == [False, True]


def test_open_scenarios_have_reasons(tmp_path: Path) -> None:
    """A line has a name and its reason; comments are passed over."""
    file = tmp_path / "open.txt"
    file.write_text("# why\n\nOne: no groups\n")
    assert read_open(file) == {"One": "no groups"}


def test_expressions_are_printed() -> None:
    """The text has the infix notation of the file."""
    expression = {"op": "==", "a": [{"fn": "count_if", "pred": {"match": "0 *"}}, {"fn": "service_domains"}]}
    assert describe({"type": "expr", "expr": expression}) == "(count_if '0 *' == service_domains)"
    assert describe({"type": "action", "value": "LoadBalancing"}) == "action LoadBalancing"


@pytest.mark.usefixtures("recorder")
def test_a_step_that_raises_is_a_failure() -> None:
    """The scenario ends, and the message is kept."""
    outcome = run_scenario(scenario({"op": "dispose"}), {})
    (failure,) = outcome.failures
    assert failure.expected == "step 0 (dispose) to be played"
    assert failure.actual.startswith("NotImplementedError: op 'dispose'")


def test_the_report_counts_by_feature() -> None:
    """A scenario counts in every row of its features and once in the summary."""
    good = Outcome(scenario(features=("moves", "stateful")), ())
    bad = Outcome(scenario(name="Bad", features=("moves",)), (Failure(7, "count == 1", "0", ("0 drop primary 1",)),))
    assert passed_table("suite", [good, bad], suites_of).splitlines() == [
        "suite  passed  failed",
        "Suite       1       1",
    ]
    assert passed_table("feature", [good, bad], features_of).splitlines() == [
        "feature   passed  failed",
        "moves          1       1",
        "stateful       1       0",
    ]
    assert failed_text(bad).splitlines() == [
        "FAILED Bad",
        "  line 7: expected count == 1",
        "    actual 0",
        "    actions: 0 drop primary 1",
    ]
    many = attrs.evolve(bad, failures=(Failure(7, "count == 1", "14", ("0 drop primary 1",) * 14),))
    assert failed_text(many).endswith("0 drop primary 1; and 2 more")
    assert failed_text(many, verbose=True).endswith("; 0 drop primary 1")
    assert summary([good, bad]) == "1 passed, 1 failed"
