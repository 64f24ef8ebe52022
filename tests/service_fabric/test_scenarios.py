"""Behaviour scenarios of the original engine, one test each; skipped without the shared folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service_fabric.report import failed_text
from tests.service_fabric.run import SEED, run_scenario
from tests.service_fabric.scenario import Scenario, read_open, read_scenarios, read_settings, scenario_files

FILES = scenario_files()
SCENARIOS = tuple(one for file in FILES if file.exists() for one in read_scenarios(file))
OPEN = read_open(Path(__file__).parent / "open.txt")
"""Reasons of the open scenarios by name; `python -m tests.service_fabric` shows their expectations."""

pytestmark = pytest.mark.skipif(not SCENARIOS, reason=f"{FILES[0]} is missing; PLB_SHARED sets the folder")
passing = pytest.mark.parametrize(
    "scenario", [scenario for scenario in SCENARIOS if scenario.name not in OPEN], ids=lambda scenario: scenario.name
)


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return read_settings()


@passing
def test_scenario(scenario: Scenario, settings: dict[str, Any]) -> None:
    outcome = run_scenario(scenario, settings)
    assert outcome.passed, failed_text(outcome, verbose=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 10))
@passing
def test_scenario_with_another_seed(scenario: Scenario, settings: dict[str, Any], seed: int) -> None:
    outcome = run_scenario(scenario, settings, seed=seed)
    assert outcome.passed, failed_text(outcome, verbose=True)


def test_open_scenarios_exist_and_have_reasons() -> None:
    assert {scenario.name for scenario in SCENARIOS} >= OPEN.keys()
    assert all(OPEN.values())
