"""Runs scenarios: their steps and their expectations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
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
    """Those of the first seed with any."""
    failed_seeds: tuple[int, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every step ran and every expectation holds, with every seed."""
        return not self.failures


def run_scenarios(
    scenarios: Sequence[Scenario], settings: Mapping[str, Any], *, seeds: Sequence[int] = (SEED,), workers: int = 1
) -> list[Outcome]:
    """Return the outcomes of scenarios in their order, with each of some seeds, run by a number of processes."""
    run = partial(_run_with_seeds, settings=settings, seeds=seeds)
    if workers == 1:
        return [run(scenario) for scenario in scenarios]
    with ProcessPoolExecutor(workers) as pool:
        return [*pool.map(run, scenarios)]


def _run_with_seeds(scenario: Scenario, *, settings: Mapping[str, Any], seeds: Sequence[int]) -> Outcome:
    outcomes = {seed: run_scenario(scenario, settings, seed=seed) for seed in seeds}
    failed = tuple(seed for seed, outcome in outcomes.items() if not outcome.passed)
    return Outcome(scenario, outcomes[failed[0]].failures if failed else (), failed)


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
    return Outcome(scenario, tuple(failures), (seed,) if failures else ())


def _raised(error: Exception, where: str, player: Player | None) -> Failure:
    texts = player.texts() if player else ()
    return Failure(None, f"{where} to be played", f"{type(error).__name__}: {error}", texts, format_exc())
