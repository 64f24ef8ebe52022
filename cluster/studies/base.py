"""Whose tenants a study is about: the synthetic regions, or those of a scenario file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs

from cluster.errors import ScenarioError, ScenarioProblem
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import override, read_scenario, scenario_from
from cluster.scenario.workload_section import OF_REPORTS
from cluster.simulation.pools import read_traces_of
from cluster.studies.arms import NOTHING, Arm
from cluster.studies.design import Design, StudySetting
from plb import UnknownNameError
from workloads.regions import REGIONS

HISTORY_TENANTS, QUICK_HISTORY_TENANTS = 80_000, 20_000
"""Past tenants of a region; 80,000 of region1 have 100,000 traces ([1] section 8.1: 115,000)."""
OF_STUDIES = ("density_end", *OF_REPORTS)
"""Fields of ``[workload]`` that a study sets by itself."""
SET_BY_STUDIES = "a study sets this by itself; take it out"


@attrs.frozen
class Base:
    """What all runs of a study have in common.

    Parameters
    ----------
    workloads
        Names of the regions, or of the one scenario.
    density
        A usual density there.
    tables
        The sections of a scenario, as far as they are the same for all runs.
    variants
        By workload, fields of ``[workload]`` that make it.
    vcores
        Capacity of a node of the scenario for the metric of the density; None: that of [1], which a study varies.
    digests
        Of all that the runs depend on and the tables do not hold: regions, and files that are read.
    """

    workloads: tuple[str, ...]
    density: float
    tables: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]] = NOTHING
    vcores: float | None = None
    digests: Mapping[str, str] = NOTHING

    @property
    def is_of_regions(self) -> bool:
        """Whether the cluster is that of [1], with tenants of the synthetic regions."""
        return self.vcores is None

    def design(
        self,
        settings: Sequence[StudySetting],
        arms: Sequence[Arm],
        *,
        days: float,
        repeats: int,
        seed: int,
        engine: Mapping[str, Any],
    ) -> Design:
        """Return a study of these arms; `engine`: further settings of all.

        Raises
        ------
        ScenarioError
            No run of it could begin, as its days are too few for the tenants to arrive, for instance.
        """
        found = Design(
            settings=tuple(dict.fromkeys(settings)),
            arms=tuple(arms),
            repeats=repeats,
            days=days,
            seed=seed,
            tables={**self.tables, "engine": {**self.tables.get("engine", {}), **engine}},
            variants=self.variants,
            varies_hardware=self.is_of_regions,
            digests=self.digests,
        )
        if found.settings:
            scenario_from(found.scenario(found.settings[0], found.arms[0]), source="study")
        return found


def base_of(region: Sequence[str] | None, scenario: Path | None, traces: Path | None, *, quick: bool) -> Base:
    """Return what a user names: a scenario file, or regions; `quick`: with fewer past tenants."""
    if scenario is not None:
        return of_scenario(scenario, traces)
    return regions(region or (), QUICK_HISTORY_TENANTS if quick else HISTORY_TENANTS)


def regions(names: Sequence[str] = (), history_tenants: int = HISTORY_TENANTS) -> Base:
    """Return synthetic regions by name; none: all."""
    for name in names:
        if name not in REGIONS:
            raise UnknownNameError("region", name, REGIONS)
    chosen = tuple(dict.fromkeys(names)) or tuple(REGIONS)
    tables = {"workload": {"kind": "region", "history_tenants": history_tenants}}
    variants = {name: {"region": name} for name in chosen}
    return Base(chosen, 2.0, tables, variants, digests={name: REGIONS[name].digest() for name in chosen})


def of_scenario(path: Path, traces: Path | None = None) -> Base:
    """Return the cluster and the tenants of a scenario file; its policies, days, seed and repeats do not count.

    Parameters
    ----------
    traces
        Directory of the traces, instead of that in the file.

    Raises
    ------
    ScenarioError
        If it says what a study sets by itself.
    """
    scenario = override(read_scenario(path), traces=traces)
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    workload = {**tables.get("workload", {}), "kind": scenario.workload.kind}
    problems = [ScenarioProblem(f"workload.{name}", SET_BY_STUDIES) for name in OF_STUDIES if name in workload]
    if scenario.workload.kind == "plan":
        problems.append(ScenarioProblem("workload.kind", "studies pack tenants ever more densely; a plan's stand"))
    if "policy" in tables.get("engine", {}):
        problems.append(ScenarioProblem("engine.policy", SET_BY_STUDIES))
    if problems:
        raise ScenarioError(str(path), problems)
    if scenario.workload.kind != "region":
        workload["path"] = str(Path(scenario.workload.path or "").resolve())
        scenario = attrs.evolve(scenario, workload=attrs.evolve(scenario.workload, path=workload["path"]))
        read_traces_of(scenario.workload)  # refuses what is not there
    name = scenario.workload.region if scenario.workload.kind == "region" else scenario.name
    workload.pop("density", None)
    kept = {key: value for key, value in tables.items() if key not in ("name", "run", "policies")}
    run = {"fill_hours": scenario.run.fill_hours}
    imports = {"imports": list(scenario.imports)} if scenario.imports else {}
    return Base(
        (name,),
        scenario.workload.density,
        {**kept, "workload": workload, "run": run, **imports},
        vcores=scenario.cluster.capacity[scenario.workload.density_metric],
        digests=digests_of_inputs(scenario),
    )


def digests_of_inputs(scenario: Scenario) -> dict[str, str]:
    """Return the SHA-256 of every file that a scenario without a plan reads, by its name, and of its region."""
    workload = scenario.workload
    region = {"region": workload.parameters_of_region().digest()} if workload.kind == "region" else {}
    read: list[Path] = []
    if workload.kind != "region" and workload.path is not None:
        read = [file for file in sorted(Path(workload.path).rglob("*")) if file.is_file()]
    files = {str(file): sha256(file.read_bytes()).hexdigest() for file in (*map(Path, scenario.imports), *read)}
    return files | region
