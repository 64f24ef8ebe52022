"""What a scenario says of its tenants: section ``[workload]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from cluster.scenario.sections import LONGEST, Section, count, number, span
from plb import InvalidValueError, PlbError, UnknownNameError
from workloads.parameters import RegionParameters
from workloads.regions import REGIONS

MOST_DENSITY = 1e100
"""What tenants then ask for in all is still a finite number, so that `DensityError` says how little of it is there."""
MOST_TENANTS = 1_000_000
"""Of a demand history."""
OF_PLANS = ("plan", "nodes", "plan_hours")
"""Fields of `Workload` that only tenants of a plan have."""
NOT_OF_PLANS = (
    *("region", "density", "density_end", "history_tenants", "history_share", "initial_demand_percentile"),
    *("pair_share", "window_days", "trace_seed"),
)
"""Fields of `Workload` that say nothing of tenants of a plan."""
OF_REPORTS = ("initial_demand_percentile", "oracle_hours", "oracle_after_hours")
"""Fields of `Workload` that change what is reported to the engine, and neither tenants nor history."""


@attrs.frozen(kw_only=True)
class Growth(Section):
    """Tenants of one class whose demand grows at once, for a while.

    Parameters
    ----------
    tenant_class
        The class, or a pattern: ``"BC_*"`` is every class whose name begins so, ``"*"`` every one.
    at_hours, hours
        When, since the start, and for how long.
    factor
        What their demand is multiplied by.
    """

    tenant_class: str
    at_hours: float = span(attrs.NOTHING)
    hours: float = span(attrs.NOTHING, low_open=True)
    factor: float = number(attrs.NOTHING)


@attrs.frozen(kw_only=True)
class Workload(Section):
    """Where the tenants come from, and how densely they are packed.

    Parameters
    ----------
    kind
        ``"region"`` (synthetic), ``"bitbrains"``, ``"traces"`` (the project's own trace format) or ``"plan"``: the
        applications of a plan of `plb provision`, which stand from the start where it says.
    region
        Name of the synthetic region.
    region_parameters
        Parameters of the region that differ, such as ``{ size_bias = 1.2, cpu.median = 0.1 }``; see
        `workloads.parameters.RegionParameters`.
    path
        Directory of the traces; `plb simulate --traces` overrides it. Of a plan: the instance that was planned.
    plan
        File of the plan.
    nodes
        Kinds of nodes of the instance, as `plb provision --node` takes them; none: those that it has without.
    plan_hours
        Time over which the time points of a plan's demand spread; then they begin anew.
    density
        Tenant density: mean over nodes of the sum of MaxUsage by capacity, for `density_metric` ([1] section 8.1).
    density_end
        Density at the end of the run; it rises evenly from `density`. None: it stays.
    density_metric
        The metric that density is about.
    history_tenants
        Past tenants in the demand history of a synthetic region.
    history_share
        Share of the tenants of real traces that become the history; the others are simulated.
    initial_demand_percentile
        Percentile of the initial demand of its class in the history that is reported for a new replica
        ([1] section 8.2).
    oracle_hours
        The largest demand of the next so many hours is reported instead of the present one: an exact prediction
        ([1] section 8.2: 24). 0: the present demand.
    oracle_after_hours
        ... for tenants who arrived so long ago; a predictor has to see them for a while first.
    growth
        Classes whose demand grows for a while, such as ``[{ tenant_class = "GP_*", at_hours = 24.0, hours = 6.0,
        factor = 1.5 }]``. The demand history knows nothing of it.
    pair_share
        Share of the tenants that come as a pair: the second one follows the first by an aligned affinity, and both have
        as many replicas.
    window_days
        Longest life of a Bitbrains tenant.
    trace_seed
        Seed of a synthetic region, and of the split of real traces. The history is the same in all repeats.
    """

    kind: Literal["region", "bitbrains", "traces", "plan"] = "region"
    region: str = "region1"
    region_parameters: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    path: str | None = None
    plan: str | None = None
    nodes: tuple[str, ...] = ()
    plan_hours: float = span(24.0, low_open=True)
    density: float = number(2.0, high=MOST_DENSITY, low_open=True)
    density_end: float | None = number(None, high=MOST_DENSITY, low_open=True)
    density_metric: str = "cpu"
    history_tenants: int = count(20_000, low=1, high=MOST_TENANTS)
    history_share: float = number(0.5, high=0.99, low_open=True)
    initial_demand_percentile: float = number(50.0, high=100.0)
    oracle_hours: float = span(0.0)
    oracle_after_hours: float = span(24.0)
    growth: tuple[Growth, ...] = ()
    pair_share: float = number(0.0, high=1.0)
    window_days: float = number(7.0, low=1 / 24, high=LONGEST)
    trace_seed: int = count(0)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield each parameter that the region does not have or that is out of its range, and what goes with no plan.

        What has its default may stand beside anything.
        """
        parameters, kind = values.get("region_parameters", {}), values.get("kind", "region")
        region = values.get("region", attrs.fields(cls).region.default)
        if parameters and kind != "region":
            allowed = 'none but with kind = "region"'
            yield "region_parameters", InvalidValueError("workload", "region_parameters", dict(parameters), allowed)
        elif region in REGIONS:  # an unknown one is told where the workload is read
            for error in REGIONS[region].refused(parameters):
                yield "region_parameters", error
        allowed = 'the default with kind = "plan"' if kind == "plan" else 'none but with kind = "plan"'
        for name in NOT_OF_PLANS if kind == "plan" else OF_PLANS:
            default = getattr(attrs.fields(cls), name).default
            if values.get(name, default) != default:
                yield name, InvalidValueError("workload", name, values[name], allowed)

    def parameters_of_region(self) -> RegionParameters:
        """Return the synthetic region as it is to be generated."""
        if self.region not in REGIONS:
            raise UnknownNameError("region", self.region, REGIONS, "workload.region")
        return REGIONS[self.region].changed(self.region_parameters)
