"""Runs scenario files and reports: ``python -m tests.service_fabric [FILE …] [--seed N] [--seeds N] [--workers N]``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from tests.service_fabric.report import failed_text, features_of, passed_table, suites_of, summary
from tests.service_fabric.run import SEED, run_scenarios
from tests.service_fabric.scenario import ScenarioFileError, read_scenarios, read_settings, scenario_files


def _arguments(given: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.service_fabric", description="Run Service Fabric scenarios.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="scenario files; default: the shared ones")
    parser.add_argument("--seed", type=int, default=SEED, help=f"first seed of the engine (default: {SEED})")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds that have to pass (default: 1)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--name", default="", metavar="SUBSTRING", help="run scenarios whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="list what passed, and show where exceptions came from")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the selected scenarios; return 1 if any failed, and 2 if a file cannot be read."""
    arguments = _arguments(given)
    files = arguments.files or scenario_files()
    try:
        by_file = {file: [one for one in read_scenarios(file) if arguments.name in one.name] for file in files}
        settings = read_settings()
    except (OSError, ScenarioFileError) as error:
        print(error, file=sys.stderr)
        return 2
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    scenarios = [scenario for chosen in by_file.values() for scenario in chosen]
    outcomes = run_scenarios(scenarios, settings, seeds=seeds, workers=arguments.workers)
    print(passed_table("suite", outcomes, suites_of), end="\n\n")
    print(passed_table("feature", outcomes, features_of), end="\n\n")
    for outcome in outcomes:
        if not outcome.passed:
            print(failed_text(outcome, verbose=arguments.verbose))
        elif arguments.verbose:
            print(f"PASSED {outcome.scenario.name}")
    for file, chosen in by_file.items():
        names = {scenario.name for scenario in chosen}
        print(f"{file.name}: {summary([outcome for outcome in outcomes if outcome.scenario.name in names])}")
    print(f"all: {summary(outcomes)}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
