"""Runs a scenario: its steps and its expectations."""

from __future__ import annotations

from collections.abc import Mapping
from traceback import format_exc
from typing import Any

import attrs

from tests.service_fabric.adapter import Player
from tests.service_fabric.scenario import Scenario
from tests.service_fabric.verdicts import Failure, verdict_of

SEED = 255
"""InitialRandomSeed of the original."""


@attrs.frozen
class Outcome:
    """The result of a scenario."""

    scenario: Scenario
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """Whether every step ran and every expectation holds."""
        return not self.failures


def run_scenario(scenario: Scenario, settings: Mapping[str, Any], *, seed: int = SEED) -> Outcome:
    """Run a scenario to its end, or to the first step with an error, and return the failures."""
    failures: list[Failure] = []
    player: Player | None = None
    where = "making the engine"
    try:
        player = Player(scenario, settings, seed=seed)
        for index, step in enumerate(scenario.steps):
            where = f"step {index} ({step['op']})"
            if step["op"] != "expect":
                player.play(step)
            elif failure := verdict_of(step, player):
                failures.append(failure)
    except Exception as error:
        failures.append(_raised(error, where, player))
    return Outcome(scenario, tuple(failures))


def _raised(error: Exception, where: str, player: Player | None) -> Failure:
    texts = player.actions.texts() if player else ()
    return Failure(None, f"{where} to be played", f"{type(error).__name__}: {error}", texts, format_exc())
