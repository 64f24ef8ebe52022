"""Sensitivity of the results to the parameters of the tenants that [1] does not publish: each is changed alone.

With another parameter the same density is another load. A pilot of the original energy finds for each change
the density at which it has about as many violations as without the change, or the nearest density.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from cluster.errors import DensityError
from cluster.runs.sweep import Task
from cluster.studies.base import MODIFIED, ORIGINAL, OVERLOAD, QUICK_HISTORY_TENANTS, Base
from cluster.studies.design import Design, digest, inputs_of, run_simulation
from cluster.studies.figures import Claim, ClaimTable, PolicyStudy, figure_of_ratios
from cluster.studies.request import PILOT_SEED, Pilot, StudyRequest
from cluster.studies.runner import Failures, Row, run_tasks
from cluster.studies.violations import Violations
from plb.array_types import Float
from workloads.region_parameters import RegionParameters, Usage, highest
from workloads.regions import REGIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 2
FACTOR = 1.5
"""Every free parameter is divided and multiplied by this, within its range."""
PILOT = Pilot("sensitivity", 80.0, 10.0, {}, (30.0,), repeats=1)
"""Finds the density at which the original has 30 violations in a run."""
ARMS = (ORIGINAL, MODIFIED, OVERLOAD)
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
QUICK = ("size_bias", "memory.median")


def with_variants(base: Base, names: Sequence[str] = FREE) -> Base:
    """Return a base with less history whose workloads are the regions, unchanged and with each parameter changed.

    `names`: of the parameters.
    """
    variants: dict[str, Mapping[str, Any]] = {}
    for region in base.workloads:
        variants[region] = {"region": region}
        for name in names:
            field, _, part = name.partition(".")
            for value in values_of(REGIONS[region], name):
                parameters = {field: {part: value} if part else value}
                variants[f"{region}, {name} {value:g}"] = {"region": region, "region_parameters": parameters}
    workload = {**base.tables["workload"], "history_tenants": QUICK_HISTORY_TENANTS}
    return attrs.evolve(
        base, workloads=tuple(variants), tables={**base.tables, "workload": workload}, variants=variants
    )


def values_of(region: RegionParameters, name: str) -> Iterator[float]:
    """Yield the values to which a region's parameter, named `name`, is changed: by the factor, within its range."""
    field, _, part = name.partition(".")
    parameter = getattr(region, field)
    present_value = getattr(parameter, part) if isinstance(parameter, Usage) else parameter
    for value in (present_value / FACTOR, present_value * FACTOR):
        allowed_value = min(value, highest(name))
        if allowed_value != present_value:
            yield round(allowed_value, 6)


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
    """Violations with each parameter changed."""

    name = "sensitivity"
    compared = MODIFIED.name
    plot = "sensitivity.png"

    failed: Failures = ()
    """Tasks of the pilot that failed. The study has no setting for their workloads."""

    @classmethod
    def of(cls, request: StudyRequest) -> SensitivityStudy:
        """Return the study that a user requests; unless it is quick, a pilot finds the densities now."""
        base = with_variants(request.base, QUICK if request.quick else FREE)

        def design_at(densities: Mapping[str, Sequence[float]]) -> Design:
            variants_request = attrs.evolve(request, base=base)
            return variants_request.design_at(
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
        """Return our ratios over all changes, and the changes under which they are least and largest."""
        pairs = ((ORIGINAL.name, self.compared), (OVERLOAD.name, self.compared))
        mean_claims = [Claim(f"{above} / {below}", "", violations.ratio([above], below)) for above, below in pairs]
        return [*mean_claims, *(claim for above, below in pairs for claim in _extremes(violations, above, below))]

    def tables(self, violations: Violations) -> list[ClaimTable]:
        """Return the table of the mean violations under each change."""
        return [
            ClaimTable(
                violations.settings,
                {arm.name: violations.means(arm.name) for arm in ARMS},
                {},
                ORIGINAL.name,
                self.compared,
            )
        ]


def _extremes(violations: Violations, above: str, below: str) -> Iterator[Claim]:
    """Yield the settings with the least and the largest ratio of the violations of two arms.

    `above`, `below`: names of the arms; settings without violations of `below` do not count.
    """
    is_defined = violations.means(below) > 0
    if not is_defined.any():
        return
    names = [setting.workload for setting, counts in zip(violations.settings, is_defined, strict=True) if counts]
    ratios: Float = violations.means(above)[is_defined] / violations.means(below)[is_defined]
    for word, index in (("least", int(ratios.argmin())), ("largest", int(ratios.argmax()))):
        yield Claim(f"{word} {above} / {below}", "", f"{ratios[index]:.2f} ({names[index]})")
