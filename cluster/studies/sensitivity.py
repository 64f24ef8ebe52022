"""Sensitivity of the results to the parameters of the tenants that [1] does not publish, which change together.

Each population is a region with a random factor for every such parameter. With other parameters the same density is
another load. A pilot of the original energy finds the density of each population at which it has a given number of
avoidable violations, or the nearest density.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from cluster.errors import DensityError
from cluster.runs.sweep import Task
from cluster.studies.base import MODIFIED, ORIGINAL, OVERLOAD, QUICK_HISTORY_TENANTS, Base
from cluster.studies.design import Design, StudySetting, digest, inputs_of, run_simulation
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy, figure_of_ratios
from cluster.studies.request import PILOT_SEED, Pilot, StudyRequest
from cluster.studies.runner import Failures, Row, run_tasks
from cluster.studies.violations import Pairs, Violations
from workloads.region_parameters import RegionParameters, highest, lowest
from workloads.regions import REGIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS, POPULATIONS, QUICK_POPULATIONS = 2, 8, 2
"""Repeats of a population, and populations of a region."""
FACTOR = 1.5
"""Largest factor of a parameter; its logarithm is uniform between the negative and the positive logarithm of this."""
QUANTILES = (0.1, 0.5, 0.9)
FIRST_SEED = 2001
"""Seed of the factors of the first population."""
PILOT = Pilot("sensitivity", 80.0, 10.0, {}, (30.0,), repeats=1)
"""Finds the density at which the original has 30 avoidable violations in a run."""
ARMS = (ORIGINAL, MODIFIED, OVERLOAD)
PAIRS = ((ORIGINAL.name, MODIFIED.name), (ORIGINAL.name, OVERLOAD.name), (MODIFIED.name, OVERLOAD.name))
"""Arms whose violations are compared: the second ones are divisors."""
FREE = (
    "local_share",
    "serverless_share",
    "size_bias",
    "lifetime_median_hours",
    "lifetime_sigma",
    "window_days",
    "disk_growth_ratio",
    "growth_sigma",
    "disk_grower_share",
    "memory_grower_share",
    "initial_high",
    "creep",
    "disk_noise",
    "memory_noise",
    "serverless_reclaim_share",
    "cpu.median",
    "cpu.sigma",
    "memory.median",
    "memory.sigma",
    "disk_local.median",
    "disk_local.sigma",
    "disk_tempdb.median",
    "disk_tempdb.sigma",
    "size_correlation",
    "lifetime_correlation",
    "cpu_regime_hours",
    "cpu_regime_sigma",
    "cpu_white_sigma",
    "cpu_daily",
    "secondary_cpu_high",
    "secondary_memory_low",
)
"""The free parameters of `workloads.region_parameters` that do not depend on another of these parameters."""


def with_populations(base: Base, count: int) -> Base:
    """Return a base with less history whose workloads are `count` populations of each region.

    Each has tenants of its own; with one seed, all populations of a region would have nearly the same tenants.
    """
    variants: dict[str, Mapping[str, Any]] = {}
    for region in base.workloads:
        for index in range(count):
            parameters = random_parameters(REGIONS[region], index)
            name = f"{region}, population {index + 1}"
            variants[name] = {"region": region, "region_parameters": parameters, "trace_seed": index}
    workload = {**base.tables["workload"], "history_tenants": QUICK_HISTORY_TENANTS}
    return attrs.evolve(
        base, workloads=tuple(variants), tables={**base.tables, "workload": workload}, variants=variants
    )


def random_parameters(region: RegionParameters, index: int) -> dict[str, Any]:
    """Return the free parameters of a region, each times a random factor, within its range; `index`: of the population.

    They have the form of ``region_parameters`` in a scenario.
    """
    rng = np.random.default_rng((FIRST_SEED + index, region.stream))
    parameters: dict[str, Any] = {}
    for name, factor in zip(FREE, FACTOR ** rng.uniform(-1.0, 1.0, len(FREE)), strict=True):
        field, _, part = name.partition(".")
        usual = getattr(getattr(region, field), part) if part else getattr(region, field)
        value = round(float(np.clip(factor * usual, lowest(name), highest(name))), 6)
        if part:
            parameters.setdefault(field, {})[part] = value
        else:
            parameters[field] = value
    return parameters


def pilot_tasks(base: Base) -> list[Task]:
    """Return the tasks of the pilot, one for each workload of a base."""
    tasks = []
    for name in base.workloads:
        variants = {name: base.variants[name]}
        workload_base = attrs.evolve(base, workloads=(name,), variants=variants, digests=inputs_of(base, name))
        arguments = {"workload": name, "base": attrs.asdict(workload_base), "pilot": attrs.asdict(PILOT)}
        plain_arguments = json.loads(json.dumps(arguments))
        tasks.append(Task(f"{name}, {digest(plain_arguments)}", plain_arguments))
    return tasks


def run_pilot(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the pilot of one workload, a task of `pilot_tasks`; its total is the density that it finds."""
    fields = arguments["base"]
    base = Base(**{**fields, "workloads": tuple(fields["workloads"])})
    (density,) = PILOT.densities(base, _rows_of)[arguments["workload"]]
    return {"totals": {"density": density}, "timings": {}}


def _rows_of(_step: int, design: Design) -> Sequence[Row]:
    """Return the rows of the runs of a design, made in this process; none at a density that the cluster cannot hold."""
    try:
        return [{**task.arguments, **run_simulation(task.arguments)["totals"]} for task in design.tasks()]
    except DensityError:
        return ()


@attrs.frozen(eq=False)
class SensitivityStudy(PolicyStudy):
    """Violations in random populations."""

    name = "sensitivity"
    compared = MODIFIED.name
    plot = "sensitivity.png"

    failed: Failures = ()
    """Tasks of the pilot that failed. The study has no setting for their workloads."""

    @classmethod
    def of(cls, request: StudyRequest) -> SensitivityStudy:
        """Return the study that a user requests; unless it is quick, a pilot finds the densities now."""
        base = with_populations(request.base, QUICK_POPULATIONS if request.quick else POPULATIONS)

        def design_at(densities: Mapping[str, Sequence[float]]) -> Design:
            population_request = attrs.evolve(request, base=base)
            return population_request.design_at(
                PILOT.settings(base, densities), ARMS, repeats=REPEATS, days=PILOT.days, engine=PILOT.engine
            )

        design = design_at(dict.fromkeys(base.workloads, (base.density,)))  # raises errors before the pilot runs
        if request.quick:
            return cls(design)
        finished = run_tasks("pilot", run_pilot, pilot_tasks(base), request.output.below("pilot"), {"seed": PILOT_SEED})
        return cls(design_at({row["workload"]: (row["density"],) for row in finished.rows}), finished.failed)

    def figure(self, table: ClaimTable, title: str) -> Figure:
        """Return the plot of the ratios by setting."""
        return figure_of_ratios(table, title)

    def failed_before(self) -> Failures:
        """Return the tasks of the pilot that failed."""
        return self.failed

    def claims(self, violations: Violations) -> list[Claim]:
        """Return our ratios over all populations and by region, their quantiles, and outcomes by population."""
        regions = dict.fromkeys(setting.workload.partition(",")[0] for setting in violations.settings)
        claims = []
        for above, below in PAIRS:
            label = f"{above} / {below}"
            claims.append(Claim(label, "", violations.ratio_of_independent(above, below)))
            for region in regions:
                of_region = violations.where(partial(is_in, region))
                claims.append(Claim(f"{label}, {region}", "", of_region.ratio_of_independent(above, below)))
            ratios = violations.ratios([above], below)
            if len(ratios):
                in_words = ", ".join(f"{ratio:.2f}" for ratio in np.quantile(ratios, QUANTILES))
                claims.append(Claim(f"{label}: 10, 50 and 90 % of populations", "", in_words))
            differences = violations.means(below) - violations.means(above)
            claims.append(Claim(f"{below} against {above}, populations", "", str(Pairs.of(differences.tolist()))))
        return claims

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the table of the mean violations in each population."""
        return [
            ClaimTable(
                violations.settings,
                {arm.name: violations.means(arm.name) for arm in ARMS},
                {},
                ORIGINAL.name,
                self.compared,
            )
        ]


def is_in(region: str, setting: StudySetting) -> bool:
    """Return whether the population of a setting is of a region."""
    return setting.workload.startswith(f"{region},")
