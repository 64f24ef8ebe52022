"""A small cluster; a study of it takes a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cluster.studies.base import MODIFIED, ORIGINAL, Base, base_of_regions
from cluster.studies.design import Design, StudySetting
from tests.command_line import plb

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

ONE_SETTING = ("--density", "0.5", "--days", "0.05", "--repeats", "2")
THIN = ("--density", "0.5", "--days", "0.02")
"""Options of a study whose figures do not matter: few tenants, for half an hour."""


def small_study(folder: Path, name: str, *arguments: Any, more: str = "") -> Any:
    """Run a study of the small cluster, with more lines of its scenario; return the result of the command."""
    scenario = folder.parent / "small.toml"
    scenario.write_text(SMALL + more)
    return plb("study", name, "--scenario", scenario, "--out", folder, *arguments)


def study(folder: Path, name: str, *arguments: Any) -> dict:
    """Run a small study and return its figures."""
    figures = folder.parent / f"{folder.name}.json"
    result = small_study(folder, name, "--json", figures, "--quiet", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(figures.read_text())


def design_of(base: Base | None = None, arms: Any = (ORIGINAL, MODIFIED), density: float = 2.0, **how: Any) -> Design:
    """Return a design with a setting for each workload; by default a day of region1."""
    base = base or base_of_regions(["region1"])
    settings = [StudySetting(name, base.vcores or 80.0, density) for name in base.workloads]
    return Design(base, settings, arms, **{"days": 1.0, "repeats": 1, "seed": 0, "engine": {}, **how})
