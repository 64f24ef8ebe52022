"""Scenarios that run in about a second, and their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.results.writing import ResultsFolder
from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.recorder import RunResult

SMALL = """
[cluster]
nodes = 10
upgrade_domains = 5
[workload]
density = 1.5
history_tenants = 300
[run]
days = 0.1
seed = 3
[engine]
chains = 1
max_simulated_annealing_iterations = 2
simulated_annealing_iterations_per_round = 20
repetitions = 20
"""

TWO_CRASHES = (
    (
        SMALL.replace("nodes = 10", "nodes = 5")
        .replace("upgrade_domains = 5", "upgrade_domains = 5\nfault_domains = 5")
        .replace("seed = 3", 'seed = 3\npolicies = ["modified", "first_fit"]')
    )
    + """[faults]
crashes = [{ node = "n3", at_hours = 0.5, hours = 1.4 }, { node = "n1", at_hours = 0.6, hours = 1.4 }]
rebuild_after_minutes = 10.0
"""
)
"""A small cluster with two nodes down for some time, so that tenants with four replicas miss two of them."""


def results_of(folder: Path, sections: dict[str, Any]) -> tuple[Path, list[RunResult]]:
    """Simulate a scenario; return its results directory and its runs."""
    experiment = prepare(scenario_from(sections))
    results, runs = ResultsFolder(folder, experiment.scenario, experiment.source), list(experiment.runs())
    for run in runs:
        results.add(run)
    return folder, runs
