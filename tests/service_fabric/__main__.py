"""Runs scenario files and reports: ``python -m tests.service_fabric [FILE …] [--seed N] [--name SUBSTRING]``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from tests.service_fabric.report import failed_text, feature_table, summary
from tests.service_fabric.run import SEED, run_scenario
from tests.service_fabric.scenario import Scenario, ScenarioFileError, read_scenarios, read_settings, scenario_file


def _arguments(given: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.service_fabric", description="Run Service Fabric scenarios.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="scenario files; default: the shared one")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the engine (default: {SEED})")
    parser.add_argument("--name", default="", metavar="SUBSTRING", help="run scenarios whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="list what passed, and show where exceptions came from")
    return parser.parse_args(given)


def _chosen(files: Sequence[Path], part: str) -> list[Scenario]:
    return [scenario for file in files for scenario in read_scenarios(file) if part in scenario.name]


def main(given: Sequence[str] | None = None) -> int:
    """Run the selected scenarios; return 1 if any failed, and 2 if a file cannot be read."""
    arguments = _arguments(given)
    try:
        scenarios = _chosen(arguments.files or [scenario_file()], arguments.name)
        settings = read_settings()
    except (OSError, ScenarioFileError) as error:
        print(error, file=sys.stderr)
        return 2
    outcomes = [run_scenario(scenario, settings, seed=arguments.seed) for scenario in scenarios]
    print(feature_table(outcomes), end="\n\n")
    for outcome in outcomes:
        if not outcome.passed:
            print(failed_text(outcome, verbose=arguments.verbose))
        elif arguments.verbose:
            print(f"PASSED {outcome.scenario.name}")
    print(summary(outcomes))
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
