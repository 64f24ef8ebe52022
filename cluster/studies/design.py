"""The runs of a study of policies: every arm in every setting and repeat, and the task of each run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from cluster.runs.sweep import Task
from cluster.scenario.digests import code_of_tenants_in
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_sections import OF_REPORTS
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from cluster.studies.base import NOTHING, Arm, Base
from cluster.studies.runner import Study

if TYPE_CHECKING:
    from cluster.simulation.recorder import RunResult

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
"""Largest number of samples of tenants or of tasks: a thousand times the numbers in [1] and [2]."""


@attrs.frozen
class StudySetting:
    """Tenants, hardware and density of a comparison of arms."""

    workload: str
    """Name of the synthetic region, or of the traces."""
    vcores: float
    """VCores of each node."""
    density: float
    """Tenant density; 0: the arrivals are recorded, and there is none."""

    @property
    def name(self) -> str:
        """The setting in words."""
        return f"{self.workload}, {self.vcores:g} vCores, {self.tenants}"

    @property
    def tenants(self) -> str:
        """The density in words, or ``"recorded arrivals"`` without one."""
        return f"density {self.density:g}" if self.density else "recorded arrivals"

    @property
    def shown_density(self) -> str:
        """The density as a number in a table or on an axis, or ``"recorded"`` without one."""
        return f"{self.density:g}" if self.density else "recorded"


def _each_once(settings: Iterable[StudySetting]) -> tuple[StudySetting, ...]:
    """Return settings without repetitions."""
    return tuple(dict.fromkeys(settings))


def _all(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Return arms as a tuple."""
    return tuple(arms)


@attrs.frozen
class Design:
    """The runs of a study of policies; they are checked as a scenario is."""

    base: Base
    """Cluster and tenants."""
    settings: tuple[StudySetting, ...] = attrs.field(converter=_each_once)
    """The settings; equal settings count once."""
    arms: tuple[Arm, ...] = attrs.field(converter=_all)
    """The arms, which all run in every setting."""
    repeats: int
    """Runs of each arm in each setting. All arms have the same tenants in a repeat."""
    days: float
    """Simulated days of each run."""
    seed: int
    """Seed of all random numbers."""
    engine: Mapping[str, Any] = NOTHING
    """Further settings of all arms, fields of `plb.PlbConfig`."""
    splits_anew: bool = False
    """True: every repeat has its own split into past and simulated tenants; False: all have the same past."""

    def __attrs_post_init__(self) -> None:
        if self.settings:
            for arm in self.arms:
                scenario_from(self.scenario(self.settings[0], arm), source="study").check_history()

    @property
    def tables(self) -> Mapping[str, Any]:
        """The sections of a scenario that are the same for all runs."""
        return {**self.base.tables, "engine": {**self.base.tables.get("engine", {}), **self.engine}}

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
        tables = self.tables
        cluster, workload = ({**tables.get(name, {})} for name in ("cluster", "workload"))
        if self.base.is_of_regions:
            cluster["vcores"] = setting.vcores
        workload |= self.base.variants.get(setting.workload, {})
        if setting.density:
            workload["density"] = setting.density
        return {
            **tables,
            "name": SCENARIO,
            "cluster": cluster,
            "workload": {**workload, **arm.workload},
            "run": {**tables.get("run", {}), "days": self.days, "seed": self.seed, "policies": [arm.policy]},
            "engine": {**BUDGET, **tables["engine"]},
            "policies": {arm.policy: dict(arm.engine)},
        }

    def described(self) -> dict[str, Any]:
        """Return the design as plain JSON values."""
        arms = [{**attrs.asdict(arm), "workload": dict(arm.workload), "engine": dict(arm.engine)} for arm in self.arms]
        settings = [attrs.asdict(setting) for setting in self.settings]
        numbers: dict[str, Any] = {"repeats": self.repeats, "days": self.days, "seed": self.seed}
        if self.splits_anew:
            numbers["splits_anew"] = True
        variants = {name: dict(fields) for name, fields in self.base.variants.items()}
        inputs = {"tables": self.tables, "workloads": variants, "digests": inputs_of(self.base, *self.base.workloads)}
        return {"settings": settings, "arms": arms, **numbers, **inputs}

    def _task(self, setting: StudySetting, arm: Arm, repeat: int) -> Task:
        """Return the task of a run."""
        scenario = self.scenario(setting, arm)
        if self.splits_anew:
            workload = scenario["workload"]
            scenario["workload"] = {**workload, "trace_seed": workload.get("trace_seed", 0) + repeat}
        arguments = {**attrs.asdict(setting), "arm": arm.name, "repeat": repeat, "scenario": scenario}
        key = digest(scenario, inputs_of(self.base, setting.workload))
        return Task(f"{setting.name}, {arm.name}, repeat {repeat}, {key}", arguments)


def inputs_of(base: Base, *workloads: str) -> dict[str, str]:
    """Return the digests of the inputs of workloads of a base, and of the code that makes the tenants of regions."""
    digests = {name: value for workload in workloads for name, value in base.digests_of(workload).items()}
    return digests | code_of_tenants_in(str(base.tables["workload"]["kind"]))


def digest(*values: Mapping[str, Any]) -> str:
    """Return a short digest of plain JSON values. The code of runs is no part of it, as journals record that."""
    text = json.dumps([*map(dict, values)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def alike(settings: Iterable[StudySetting]) -> list[list[StudySetting]]:
    """Return groups of settings that differ in their density alone."""
    groups: dict[tuple[str, float], list[StudySetting]] = {}
    for setting in settings:
        groups.setdefault((setting.workload, setting.vcores), []).append(setting)
    return list(groups.values())


def middle_of_each(settings: Sequence[StudySetting], count: int) -> list[StudySetting]:
    """Return the settings with the `count` middle densities of each workload and kind of node; ties go upwards."""
    middle_settings = []
    for settings_of_workload in alike(settings):
        first_index = max(0, len(settings_of_workload) - count + 1) // 2
        middle_settings += sorted(settings_of_workload, key=lambda setting: setting.density)[
            first_index : first_index + count
        ]
    return middle_settings


NOT_OF_TENANTS = ("density", "density_end", "growth", "pair_share")
"""Fields of ``[workload]`` that change the arrivals, but not the source of tenants and history."""


def run_simulation(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Simulate a task of `Design`, given its arguments; return totals and timings."""
    scenario, source, tenants, repeat = prepared(arguments)
    return totals_and_timings(scenario, source, tenants, scenario.run.policies[0], repeat)


def totals_and_timings(
    scenario: Scenario, source: Source, tenants: TenantSequence, policy: str, repeat: int
) -> dict[str, Any]:
    """Simulate one run; return totals and timings."""
    from cluster.simulation.simulation import Simulation

    result = require_complete(Simulation(scenario, source, tenants, policy, repeat).run())
    return {"totals": result.totals, "timings": result.timings}


def on_one_thread(scenario: Scenario) -> Scenario:
    """Return a scenario whose engine has one thread by default, because there is a process for each core."""
    return attrs.evolve(scenario, engine={"threads": 1, **scenario.engine})


@attrs.frozen(eq=False)
class SimulatedStudy(Study):
    """A study whose tasks are the simulated runs of a design."""

    run = staticmethod(run_simulation)

    design: Design
    """Settings, arms and repeats."""

    def described(self) -> Mapping[str, Any]:
        """Return the design as plain JSON values."""
        return self.design.described()

    def tasks(self) -> Sequence[Task]:
        """Return the runs of every arm in every setting and repeat."""
        return self.design.tasks()


def require_complete(result: RunResult) -> RunResult:
    """Return the result of a complete run; raise `KeyboardInterrupt` for an incomplete one.

    An incomplete run would count too few violations, so it has no result.
    """
    if not result.complete:
        raise KeyboardInterrupt
    return result


def prepared(arguments: Mapping[str, Any]) -> tuple[Scenario, Source, TenantSequence, int]:
    """Return scenario, source, tenants and number of the repeat of a task with these `arguments`.

    Source and tenants are kept for the next task.
    """
    tables, repeat = arguments["scenario"], int(arguments["repeat"])
    return (
        on_one_thread(scenario_from(tables)),
        _source(_origin(tables)).of_repeat(repeat),
        _tenants(_common(tables), repeat),
        repeat,
    )


def _common(tables: Mapping[str, Any]) -> str:
    """Return a key of everything in the tables of a scenario on which the tenants depend."""
    run, workload = _without(tables["run"], ("policies",)), _without(tables["workload"], OF_REPORTS)
    return json.dumps({**tables, "run": run, "workload": workload, "engine": {}, "policies": {}}, sort_keys=True)


def _origin(tables: Mapping[str, Any]) -> str:
    """Return a key of everything in the tables of a scenario on which its source of tenants depends."""
    workload = _without(tables["workload"], (*OF_REPORTS, *NOT_OF_TENANTS))
    run = {"days": tables["run"]["days"]}
    origin = {"name": tables["name"], "workload": workload, "cluster": tables["cluster"], "run": run}
    return json.dumps(origin, sort_keys=True)


def _without(table: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a table without the named fields."""
    return {name: value for name, value in table.items() if name not in names}


@lru_cache(maxsize=4)
def _source(origin: str) -> Source:
    """Return the source of tenants of the scenario whose key by `_origin`, tables as JSON, is `origin`."""
    return read_source(_scenario(json.loads(origin)))


@lru_cache(maxsize=1)  # runs with the same tenants are consecutive, and traces are large
def _tenants(common: str, repeat: int) -> TenantSequence:
    """Return the tenants of a repeat of the scenario whose key by `_common`, tables as JSON, is `common`."""
    tables = json.loads(common)
    return make_tenants(_scenario(tables), _source(_origin(tables)).of_repeat(repeat), repeat)


def _scenario(tables: Mapping[str, Any]) -> Scenario:
    """Return the scenario of tables, with any policy."""
    return scenario_from({**tables, "run": {**tables.get("run", {}), "policies": ["original"]}})
