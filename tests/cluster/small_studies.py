"""A small cluster; a study of it takes a second."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cluster.cli.app import app

SMALL = """
name = "small"
[cluster]
nodes = 8
upgrade_domains = 4
fault_domains = 4
[workload]
density = 1.5
history_tenants = 300
[engine]
chains = 1
repetitions = 10
max_simulated_annealing_iterations = 2
simulated_annealing_iterations_per_round = 10
"""

ONE_SETTING = ("--density", "1.5", "--days", "0.05", "--repeats", "2")


def study(folder: Path, name: str, *arguments: str) -> dict:
    """Run a small study and return its figures."""
    scenario = folder.parent / "small.toml"
    scenario.write_text(SMALL)
    figures = folder.parent / f"{folder.name}.json"
    command = ["study", name, "--scenario", str(scenario), "--out", str(folder), "--json", str(figures), "--quiet"]
    result = CliRunner().invoke(app, [*command, *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(figures.read_text())
