"""Behaviour scenarios of the original engine, one test each; skipped without the shared folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service_fabric.report import failed_text
from tests.service_fabric.run import run_scenario
from tests.service_fabric.scenario import Scenario, read_scenarios, read_settings, scenario_file

FILE = scenario_file()
SCENARIOS = read_scenarios(FILE) if FILE.exists() else ()
LINES = (Path(__file__).parent / "open.txt").read_text().splitlines()
OPEN = {line for line in LINES if not line.startswith("#")}
"""Names of the open scenarios; `python -m tests.service_fabric` shows their expectations."""

pytestmark = pytest.mark.skipif(not SCENARIOS, reason=f"{FILE} is missing; PLB_SHARED sets the folder")


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    """Return the settings of the scenarios."""
    return read_settings()


@pytest.mark.parametrize(
    "scenario", [scenario for scenario in SCENARIOS if scenario.name not in OPEN], ids=lambda scenario: scenario.name
)
def test_scenario(scenario: Scenario, settings: dict[str, Any]) -> None:
    """Every expectation of the scenario holds."""
    outcome = run_scenario(scenario, settings)
    assert outcome.passed, failed_text(outcome, verbose=True)


def test_open_scenarios_exist() -> None:
    """All listed scenarios are in the file."""
    assert {scenario.name for scenario in SCENARIOS} >= OPEN
