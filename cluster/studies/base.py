"""The cluster and the tenants of a study: the synthetic regions, or a scenario file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from cluster.errors import ScenarioError, ScenarioProblem
from cluster.scenario.scenario import Scenario, file_of
from cluster.scenario.scenario_file import override, read_scenario
from cluster.scenario.workload_sections import OF_REPORTS
from cluster.simulation.tenant_pools import check_inputs
from plb.validation import check_known
from workloads.regions import REGIONS

NOTHING: Mapping[str, Any] = MappingProxyType({})
INITIAL_DEMAND_PERCENTILES = (50, 80, 90, 95, 99)
"""[1] section 8.2."""
ORACLE_HOURS = 24.0
"""[1] section 8.2."""
WITHOUT_PROBABILITIES = (
    "best_fit_sum",
    "best_fit_max",
    "worst_fit_sum",
    "worst_fit_max",
    "standard_deviation",
    "inner_product",
    "repacking",
)
"""The placement algorithms that [1] section 8.3 compares with."""
WITH_PROBABILITIES = ("prv_best_fit", "prv_worst_fit")
"""PrV-BestFit and PrV-WorstFit, [1] section 6."""


@attrs.frozen
class Arm:
    """A policy with its own settings."""

    name: str
    """Name in tables."""
    policy: str
    """Name of a built-in policy of scenarios."""
    workload: Mapping[str, Any] = NOTHING
    """Fields of ``[workload]`` in which the arm differs. None of them changes the tenants."""
    engine: Mapping[str, Any] = NOTHING
    """Fields of `plb.PlbConfig` in which the arm differs from its policy."""


ORIGINAL = Arm("original", "original")
MODIFIED = Arm("modified", "modified")
OVERLOAD = Arm("expected_overload", "expected_overload")


def with_oracle(arm: Arm) -> Arm:
    """Return an arm that reports the largest future demand of the next hours instead of the present demand."""
    return attrs.evolve(arm, name=f"{arm.name}+oracle", workload={**arm.workload, "oracle_hours": ORACLE_HOURS})


def with_initial_demand(arm: Arm, percentile: int) -> Arm:
    """Return an arm that assumes this percentile of the initial demand for a new replica."""
    workload = {**arm.workload, "initial_demand_percentile": float(percentile)}
    return attrs.evolve(arm, name=f"{arm.name}@p{percentile}", workload=workload)


PLACEMENT_ARMS = tuple(Arm(name, name) for name in WITHOUT_PROBABILITIES)
BY_PEAKS = tuple(Arm(name, name) for name in WITH_PROBABILITIES)
"""The policies with probabilities, evaluated by peaks as in [1] section 7."""
AT_DEPARTURES = tuple(Arm(f"{name}, timeline", name, engine={"evaluation": "timeline"}) for name in WITH_PROBABILITIES)
"""The same policies, evaluated at departures as in [1] sections 5.3 and 6."""
HISTORY_TENANTS, QUICK_HISTORY_TENANTS = 80_000, 20_000
"""Past tenants of a region. 80,000 tenants of region1 have 100,000 traces; [1] section 8.1 has 115,000."""
OF_STUDIES = ("density_end", *(name for name in OF_REPORTS if name != "past_days"))
"""Fields of ``[workload]`` that studies set."""
SET_BY_STUDIES = "studies set this; remove it"


@attrs.frozen
class Base:
    """What all runs of a study have in common."""

    workloads: tuple[str, ...]
    """Names of the workloads: the regions, or the scenario."""
    density: float
    """A usual density; 0: the arrivals are recorded, and there is none."""
    tables: Mapping[str, Any]
    """The sections of a scenario that are the same for all runs."""
    variants: Mapping[str, Mapping[str, Any]] = NOTHING
    """The fields of ``[workload]`` that define a workload, by its name."""
    vcores: float | None = None
    """Capacity of a node of the scenario for the metric of the density. None: as in [1]; studies vary it."""
    digests: Mapping[str, str] = NOTHING
    """Digests of the regions and of the files that the runs read."""

    @property
    def is_of_regions(self) -> bool:
        """Whether this is the cluster of [1] with tenants of the synthetic regions."""
        return self.vcores is None

    def digests_of(self, workload: str) -> Mapping[str, str]:
        """Return the digests on which the runs of a workload depend, by name: all except digests of other regions."""
        regions = {fields.get("region") for fields in self.variants.values()}
        region = self.variants.get(workload, {}).get("region")
        return {name: value for name, value in self.digests.items() if name == region or name not in regions}


def base_of(region: Sequence[str] | None, scenario: Path | None, traces: Path | None, *, quick: bool) -> Base:
    """Return the base of a scenario file, or else of regions; with `quick`, regions have fewer past tenants.

    `traces`: other traces than in the scenario file.
    """
    if scenario is not None:
        return base_of_scenario(scenario, traces)
    return base_of_regions(region or (), QUICK_HISTORY_TENANTS if quick else HISTORY_TENANTS)


def base_of_regions(names: Sequence[str] = (), history_tenants: int = HISTORY_TENANTS) -> Base:
    """Return the base of synthetic regions; without names, of all of them."""
    for name in names:
        check_known("region", name, REGIONS)
    regions = tuple(dict.fromkeys(names)) or tuple(REGIONS)
    tables = {"workload": {"kind": "region", "history_tenants": history_tenants}}
    variants = {name: {"region": name} for name in regions}
    return Base(regions, 2.0, tables, variants, digests={name: REGIONS[name].digest() for name in regions})


def base_of_scenario(path: Path, traces: Path | None = None) -> Base:
    """Return the base of a scenario file, perhaps with other traces, without its policies, days, seed and repeats.

    Raise `ScenarioError` if it sets a field that studies set, or its traces are missing or cannot be used as it says.
    """
    scenario = override(read_scenario(path), traces=traces)
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    workload = {**tables.get("workload", {}), "kind": scenario.workload.kind}
    problems = [ScenarioProblem(f"workload.{name}", SET_BY_STUDIES) for name in OF_STUDIES if name in workload]
    if scenario.workload.kind == "plan":
        problems.append(
            ScenarioProblem("workload.kind", "studies vary the density of the tenants; a plan has fixed tenants")
        )
    if "policy" in tables.get("engine", {}):
        problems.append(ScenarioProblem("engine.policy", SET_BY_STUDIES))
    if problems:
        raise ScenarioError(str(path), problems)
    if scenario.workload.kind != "region":
        paths = {name: getattr(scenario.workload, name) for name in ("path", "history_path")}
        paths = {name: str(Path(path_text).resolve()) for name, path_text in paths.items() if path_text is not None}
        workload |= paths
        scenario = attrs.evolve(scenario, workload=attrs.evolve(scenario.workload, **paths))
        check_inputs(scenario)
    name = scenario.workload.region if scenario.workload.kind == "region" else scenario.name
    workload.pop("density", None)
    other_tables = {key: value for key, value in tables.items() if key not in ("name", "run", "policies")}
    run = {"fill_hours": scenario.run.fill_hours}
    extensions = {"extensions": list(scenario.extensions)} if scenario.extensions else {}
    return Base(
        (name,),
        0.0 if scenario.workload.arrivals == "recorded" else scenario.workload.density,
        {**other_tables, "workload": workload, "run": run, **extensions},
        vcores=scenario.cluster.capacity[scenario.workload.density_metric],
        digests=digests_of_inputs(scenario),
    )


def digests_of_inputs(scenario: Scenario) -> dict[str, str]:
    """Return the SHA-256 of every file that a scenario without a plan reads, by path, and the digest of its region."""
    workload = scenario.workload
    region = {"region": workload.parameters_of_region().digest()} if workload.kind == "region" else {}
    paths = [path for path in (workload.path, workload.history_path) if path is not None]
    traces: list[Path] = []
    if workload.kind != "region":
        traces = [file for path in paths for file in sorted(Path(path).rglob("*")) if file.is_file()]
    own = [Path(file_of(reference)) for reference in scenario.extensions]
    files = {str(file): sha256(file.read_bytes()).hexdigest() for file in (*own, *traces)}
    return files | region
