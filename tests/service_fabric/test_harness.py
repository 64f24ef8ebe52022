"""The harness itself: reading, conversion and evaluation, without a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from plb import Energy, Move, MoveKind, Phase, Plan, Reason, Role
from tests.service_fabric.adapter import OPERATIONS, Player
from tests.service_fabric.described import partition_from
from tests.service_fabric.report import failed_text, features_of, passed_table, suites_of, summary
from tests.service_fabric.run import Outcome, run_scenario, run_scenarios
from tests.service_fabric.scenario import (
    Scenario,
    ScenarioFileError,
    read_open,
    read_scenarios,
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


# conversion


def test_unknown_flags_are_refused() -> None:
    """The message names them."""
    with pytest.raises(NotImplementedError, match="'odd'"):
        partition_from(partition(replica("primary", 0, flags=["odd"])), stateful=True, on_every_node=False, nodes={0})


# collection and evaluation


@needs_shared
def test_a_failed_expectation_has_expected_and_actual_values() -> None:
    """It also has its line and the actions."""
    player = Player(scenario(), {}, seed=0)
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
