"""The runs of a study of policies: every arm in every setting and repeat, and the task of each run."""

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
"""[1] section 8.3: its simulator does not enforce fault and upgrade domains."""
SCENARIO = "study"
MOST_SAMPLES = 10_000_000
"""Limit of the samples of tenants and of tasks: a thousand times those of [1] and [2]."""


@attrs.frozen
class StudySetting:
    """Tenants, hardware and density of a comparison of arms.

    Parameters
    ----------
    workload
        Name of the synthetic region, or of the traces.
    vcores
        VCores of each node.
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
    """The runs of a study of policies.

    Parameters
    ----------
    settings, arms
        Every arm runs in every setting.
    repeats
        Runs of each arm in each setting. All arms have the same tenants in a repeat.
    days
        Simulated days of each run.
    seed
        Seed of all random numbers.
    tables
        The sections of a scenario that are the same for all runs.
    variants
        The fields of ``[workload]`` that define a workload, by its name.
    varies_hardware
        True: the nodes have the vCores of the setting.
    digests
        Digests of the regions and of the files that the runs read.
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
        """Return all runs. Runs with the same tenants are consecutive."""
        return [
            self._task(setting, arm, repeat)
            for setting in self.settings
            for repeat in range(self.repeats)
            for arm in self.arms
        ]

    def scenario(self, setting: StudySetting, arm: Arm) -> dict[str, Any]:
        """Return the scenario of an arm in a setting, as the contents of a scenario file."""
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
    """Return the digests on which the runs of a workload depend: without those of other regions."""
    regions = {fields.get("region") for fields in variants.values()}
    region = variants.get(workload, {}).get("region")
    return {name: value for name, value in digests.items() if name == region or name not in regions}


def digest(*values: Mapping[str, Any]) -> str:
    """Return a short digest of plain JSON values and of the version of this package."""
    text = json.dumps([version("plb"), *map(dict, values)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
