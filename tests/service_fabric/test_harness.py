"""The harness itself: reading, conversion and evaluation, without a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from plb import Energy, Move, MoveKind, Phase, Plan, Reason, Role
from tests.service_fabric.adapter import Player
from tests.service_fabric.report import failed_text, features_of, passed_table, suites_of, summary
from tests.service_fabric.run import Outcome, run_scenario
from tests.service_fabric.scenario import (
    Scenario,
    ScenarioFileError,
    read_open,
    read_scenarios,
    shared_folder,
)
from tests.service_fabric.verdicts import Failure, verdict_of

needs_shared = pytest.mark.skipif(not shared_folder().exists(), reason=f"{shared_folder()} is not here")


def scenario(*steps: dict[str, Any], name: str = "Small", features: tuple[str, ...] = ()) -> Scenario:
    return Scenario(name, "Suite", features, steps)


def plan(*moves: Move) -> Plan:
    return Plan(moves, NO_ENERGY, NO_ENERGY)


def move(name: str, role: Role, source: str | None, target: str, kind: MoveKind = MoveKind.MOVE) -> Move:
    return Move(kind, name, role, source, target, Reason(Phase.BALANCING, "energy"), 1.0)


NO_ENERGY = Energy(**{field.name: 0.0 for field in attrs.fields(Energy) if field.default is attrs.NOTHING})


def test_every_bad_line_is_named(tmp_path: Path) -> None:
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
def test_a_failed_expectation_has_expected_and_actual_values() -> None:
    player = Player(scenario(), {}, seed=0)
    player.actions.collect(plan(move("0", Role.PRIMARY, "1", "2")))
    requested = {"op": "expect", "type": "count_if", "pattern": "0 move * *=>3", "cmp": "==", "value": 1, "line": 7}
    failure = verdict_of(requested, player)
    assert failure == Failure(7, "count_if '0 move * *=>3' == 1", "0", ("0 move primary 1=>2",))
    assert verdict_of({**requested, "pattern": "0 move * *=>2"}, player) is None


def test_open_scenarios_have_reasons(tmp_path: Path) -> None:
    file = tmp_path / "open.txt"
    file.write_text("# why\n\nOne: no groups\n")
    assert read_open(file) == {"One": "no groups"}


def test_a_step_that_raises_is_a_failure() -> None:
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
