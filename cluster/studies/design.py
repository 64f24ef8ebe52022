"""What a study runs: every arm in every setting, several times; and the task of each such run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.studies.arms import NOTHING, Arm

BUDGET: Mapping[str, Any] = {
    "chains": 2,
    "max_simulated_annealing_iterations": 25,
    "simulated_annealing_iterations_per_round": 60,
}
"""The proposal budget of ``examples/quickstart.toml``."""
WITHOUT_DOMAINS: Mapping[str, Any] = {"fault_domain_constraint_priority": -1, "upgrade_domain_constraint_priority": -1}
"""[1] section 8.3: that simulator does not enforce fault and upgrade domains."""
SCENARIO = "study"
MOST_SAMPLES = 10_000_000
"""Of compression, and of sums of tasks: a thousand times as many as [1] and [2] draw."""


@attrs.frozen
class StudySetting:
    """Where all arms meet.

    Parameters
    ----------
    workload
        Name of the synthetic region, or of the traces.
    vcores
        Of each node.
    density
        Tenant density.
    """

    workload: str
    vcores: float
    density: float

    @property
    def name(self) -> str:
        """The setting in words."""
        return f"{self.workload}, {self.vcores:g} vCores, density {self.density:g}"


@attrs.frozen
class Design:
    """A study of policies.

    Parameters
    ----------
    settings, arms
        What is combined.
    repeats
        Runs of each arm in each setting; repeat i has the same tenants for all arms.
    days
        Simulated days of each run.
    seed
        Of the tenants and of everything else.
    tables
        The sections of a scenario, as far as they are the same for all.
    variants
        By workload, fields of ``[workload]`` that make it.
    varies_hardware
        Whether the vCores of a setting are those of its nodes.
    digests
        Of all that the runs depend on and the tables do not hold.
    """

    settings: tuple[StudySetting, ...]
    arms: tuple[Arm, ...]
    repeats: int
    days: float
    seed: int
    tables: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    varies_hardware: bool
    digests: Mapping[str, str] = NOTHING

    def tasks(self) -> list[Task]:
        """Return all runs; those with the same tenants follow one another."""
        return [
            self._task(setting, arm, repeat)
            for setting in self.settings
            for repeat in range(self.repeats)
            for arm in self.arms
        ]

    def scenario(self, setting: StudySetting, arm: Arm) -> dict[str, Any]:
        """Return the scenario of an arm in a setting, as a scenario file would say it."""
        cluster, workload = ({**self.tables.get(name, {})} for name in ("cluster", "workload"))
        if self.varies_hardware:
            cluster["vcores"] = setting.vcores
        workload |= self.variants.get(setting.workload, {})
        return {
            **self.tables,
            "name": SCENARIO,
            "cluster": cluster,
            "workload": {**workload, "density": setting.density, **arm.workload},
            "run": {**self.tables.get("run", {}), "days": self.days, "seed": self.seed, "policies": [arm.policy]},
            "engine": {**BUDGET, **self.tables.get("engine", {})},
            "policies": {arm.policy: dict(arm.engine)},
        }

    def described(self) -> dict[str, Any]:
        """Return the design as plain JSON values."""
        arms = [{**attrs.asdict(arm), "workload": dict(arm.workload), "engine": dict(arm.engine)} for arm in self.arms]
        settings = [attrs.asdict(setting) for setting in self.settings]
        numbers = {"repeats": self.repeats, "days": self.days, "seed": self.seed}
        variants = {name: dict(fields) for name, fields in self.variants.items()}
        made_of = {"tables": self.tables, "workloads": variants, "digests": dict(self.digests)}
        return {"settings": settings, "arms": arms, **numbers, **made_of}

    def _task(self, setting: StudySetting, arm: Arm, repeat: int) -> Task:
        scenario = self.scenario(setting, arm)
        arguments = {**attrs.asdict(setting), "arm": arm.name, "repeat": repeat, "scenario": scenario}
        known = digest(scenario, digests_of(setting.workload, self.variants, self.digests))
        return Task(f"{setting.name}, {arm.name}, repeat {repeat}, {known}", arguments)


def digests_of(
    workload: str, variants: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]
) -> Mapping[str, str]:
    """Return what of the digests the runs of a workload depend on: of the regions, its own."""
    regions = {fields.get("region") for fields in variants.values()}
    region = variants.get(workload, {}).get("region")
    return {name: value for name, value in digests.items() if name == region or name not in regions}


def digest(*values: Mapping[str, Any]) -> str:
    """Return a short name of plain JSON values and of the version of this package."""
    text = json.dumps([version("plb"), *map(dict, values)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
