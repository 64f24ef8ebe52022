"""Section ``[workload]`` of a scenario: its tenants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from cluster.scenario.sections import LONGEST, Section, count, number, span
from plb import InvalidValueError, PlbError, UnknownNameError
from workloads.region_parameters import RegionParameters
from workloads.regions import REGIONS

MOST_DENSITY = 1e100
"""Up to this density the promised demand is a finite number, so that `DensityError` can report the shortfall."""
MOST_TENANTS = 1_000_000
"""Maximum size of a demand history."""
MOST_SHARE = 1000.0
"""Maximum size of a sample of tenants, as a multiple of those in the traces."""
OF_PLANS = ("plan", "nodes", "plan_hours")
"""Fields of `Workload` that apply only to tenants of a plan."""
NOT_OF_PLANS = (
    *("region", "density", "density_end", "history_tenants", "history_share", "initial_demand_percentile"),
    *("pair_share", "window_days", "trace_seed"),
)
"""Fields of `Workload` that do not apply to tenants of a plan."""
OF_TRACES = ("arrivals", "from_hours", "history", "history_path", "simulated_share", "each_repeat")
"""Fields of `Workload` that apply only to tenants of real traces; results have them if they differ from the default."""
NOT_OF_RECORDED = ("density", "density_end", "pair_share")
"""Fields of `Workload` that do not apply to recorded arrivals."""
OF_REPORTS = ("initial_demand_percentile", "oracle_hours", "oracle_after_hours")
"""Fields of `Workload` that affect reports to the engine, but neither tenants nor history."""


@attrs.frozen(kw_only=True)
class Growth(Section):
    """A temporary increase of the demand of one tenant class.

    Parameters
    ----------
    tenant_class
        The class, or a pattern: ``"BC_*"`` matches every class whose name starts with BC_, ``"*"`` matches all.
    at_hours, hours
        Begin, since the start of the run, and duration.
    factor
        Factor on the demand.
    """

    tenant_class: str
    at_hours: float = span(attrs.NOTHING)
    hours: float = span(attrs.NOTHING, low_open=True)
    factor: float = number(attrs.NOTHING)


@attrs.frozen(kw_only=True)
class Workload(Section):
    """The source of the tenants and their density.

    Parameters
    ----------
    kind
        ``"region"`` (synthetic), ``"bitbrains"``, ``"traces"`` (the project's trace format) or ``"plan"``: the
        applications of a plan of `plb provision`, placed from the start as in the plan.
    region
        Name of the synthetic region.
    arrivals
        ``"generated"``: tenants arrive when the density asks for them; ``"recorded"``: those of real traces arrive and
        depart when they did.
    from_hours
        Begin of the run in the recorded time, hours since the first tenant of the traces began.
    region_parameters
        Changed parameters of the region, such as ``{ size_bias = 1.2, cpu.median = 0.1 }``; see
        `workloads.region_parameters.RegionParameters`.
    path
        Directory of the traces, which `plb simulate --traces` overrides; for a plan, the instance that was planned.
    plan
        File of the plan.
    nodes
        Kinds of nodes of the instance, as for `plb provision --node`; empty: the kinds in the instance.
    plan_hours
        Time that the time points of a plan's demand cover; then they repeat.
    density
        Tenant density: mean over nodes of the sum of MaxUsage over capacity, for `density_metric` ([1] section 8.1).
    density_end
        Density at the end of the run, with a linear increase from `density`. None: constant.
    density_metric
        The metric of the density.
    history_tenants
        Number of past tenants in the demand history of a synthetic region.
    history_share
        Share of the tenants of real traces that forms the history; the others are simulated. 0: there is no history.
    history
        ``"share"``: the history is a random share of the tenants; ``"before"``: those that ended before the begin of
        the run, with recorded arrivals.
    history_path
        Directory of other traces that form the history; all tenants of the traces are then simulated.
    simulated_share
        With recorded arrivals, the share of the families outside the history that is simulated; above 1 only if each
        repeat resamples.
    each_repeat
        ``"same"``: all repeats have the same history and the same tenants to simulate; ``"split"``: each repeat splits
        the traces anew; ``"resample"``: it also draws the families to simulate with replacement.
    initial_demand_percentile
        Percentile of the initial demand of the class in the history that is reported for a new replica ([1] section
        8.2).
    oracle_hours
        If not 0, the largest demand within this many hours is reported instead of the present demand: an exact
        prediction ([1] section 8.2: 24).
    oracle_after_hours
        Minimum age of a tenant for such a prediction; a real predictor needs observations first.
    growth
        Classes whose demand grows for a while, such as ``[{ tenant_class = "GP_*", at_hours = 24.0, hours = 6.0, factor
        = 1.5 }]``. The demand history does not include this growth.
    pair_share
        Share of the tenants that arrive as pairs: the second is bound to the first by an aligned affinity, and both
        have the same number of replicas.
    window_days
        Maximum lifetime of a Bitbrains tenant.
    trace_seed
        Seed of a synthetic region, and of the split of real traces. If repeats split anew, repeat i has this seed + i.
    """

    kind: Literal["region", "bitbrains", "traces", "plan"] = "region"
    region: str = "region1"
    arrivals: Literal["generated", "recorded"] = "generated"
    from_hours: float = span(0.0)
    region_parameters: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    path: str | None = None
    plan: str | None = None
    nodes: tuple[str, ...] = ()
    plan_hours: float = span(24.0, low_open=True)
    density: float = number(2.0, high=MOST_DENSITY, low_open=True)
    density_end: float | None = number(None, high=MOST_DENSITY, low_open=True)
    density_metric: str = "cpu"
    history_tenants: int = count(20_000, low=1, high=MOST_TENANTS)
    history_share: float = number(0.5, high=0.99)
    history: Literal["share", "before"] = "share"
    history_path: str | None = None
    simulated_share: float = number(1.0, high=MOST_SHARE, low_open=True)
    each_repeat: Literal["same", "split", "resample"] = "same"
    initial_demand_percentile: float = number(50.0, high=100.0)
    oracle_hours: float = span(0.0)
    oracle_after_hours: float = span(24.0)
    growth: tuple[Growth, ...] = ()
    pair_share: float = number(0.0, high=1.0)
    window_days: float = number(7.0, low=1 / 24, high=LONGEST)
    trace_seed: int = count(0)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield invalid parameters of the region, and fields that do not apply to the kind of workload.

        Fields with their default values are always valid.
        """
        parameters, kind = values.get("region_parameters", {}), values.get("kind", "region")
        region = values.get("region", attrs.fields(cls).region.default)
        if parameters and kind != "region":
            allowed = 'none except with kind = "region"'
            yield "region_parameters", InvalidValueError("workload", "region_parameters", dict(parameters), allowed)
        elif region in REGIONS:  # an unknown region is reported when the workload is read
            for error in REGIONS[region].refused(parameters):
                yield "region_parameters", error
        allowed = 'the default with kind = "plan"' if kind == "plan" else 'none except with kind = "plan"'
        for name in NOT_OF_PLANS if kind == "plan" else OF_PLANS:
            if cls._differs(values, name):
                yield name, InvalidValueError("workload", name, values[name], allowed)
        if kind in ("region", "plan"):
            for name in filter(lambda name: cls._differs(values, name), OF_TRACES):
                allowed = 'the default except with the tenants of traces, kind = "traces" or "bitbrains"'
                yield name, InvalidValueError("workload", name, values[name], allowed)
            if kind == "region" and values.get("history_share") == 0.0:
                allowed = 'above 0 with kind = "region", whose history has history_tenants past tenants'
                yield "history_share", InvalidValueError("workload", "history_share", 0.0, allowed)
        else:
            yield from cls._conflicts_of_traces(values)

    @classmethod
    def _differs(cls, values: Mapping[str, Any], name: str) -> bool:
        """Return whether a field is given and differs from its default."""
        default = getattr(attrs.fields(cls), name).default
        return bool(values.get(name, default) != default)

    @classmethod
    def _conflicts_of_traces(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield fields that do not apply to the arrivals or to the history of real traces."""
        if values.get("arrivals") == "recorded":
            allowed = 'the default with arrivals = "recorded": the traces determine who is there'
            refused = dict.fromkeys(NOT_OF_RECORDED, allowed)
        else:
            allowed = 'the default, except with arrivals = "recorded"'
            refused = dict.fromkeys(("from_hours", "history", "simulated_share"), allowed)
        other = [name for name in ("history", "history_path") if cls._differs(values, name)]
        if other:
            refused["history_share"] = f"the default with {other[0]}, which replaces it"
        if len(other) == 2:
            refused["history_path"] = 'none with history = "before", which replaces it'
        for name, allowed in refused.items():
            if cls._differs(values, name):
                yield name, InvalidValueError("workload", name, values[name], allowed)
        yield from cls._conflicts_of_repeats(values)

    @classmethod
    def _conflicts_of_repeats(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        each, share = values.get("each_repeat", "same"), values.get("simulated_share", 1.0)
        if share > 1.0 and each != "resample":
            allowed = 'at most 1, except with each_repeat = "resample"'
            yield "simulated_share", InvalidValueError("workload", "simulated_share", share, allowed)
        if each == "resample" and values.get("arrivals") != "recorded":
            allowed = '"same" or "split", except with arrivals = "recorded"'
            yield "each_repeat", InvalidValueError("workload", "each_repeat", each, allowed)
        is_split = not cls._differs(values, "history") and not values.get("history_path")
        is_split &= values.get("history_share", 0.5) > 0.0
        if each == "split" and not is_split and share == 1.0:
            allowed = '"same" or "resample", as all repeats have all tenants; or a simulated_share below 1'
            yield "each_repeat", InvalidValueError("workload", "each_repeat", each, allowed)

    @property
    def has_history(self) -> bool:
        """Whether there are past tenants."""
        return self.history_share > 0.0 or self.replaces_share

    @property
    def replaces_share(self) -> bool:
        """Whether the history is not a share of the traces."""
        return self.history != "share" or self.history_path is not None

    @property
    def without_effect(self) -> tuple[str, ...]:
        """Fields of real traces that have their defaults, and fields that do not apply to the arrivals and the history.

        Results leave them out.
        """
        defaults = attrs.fields(Workload)
        found = [name for name in OF_TRACES if getattr(self, name) == getattr(defaults, name).default]
        found += NOT_OF_RECORDED if self.arrivals == "recorded" else ()
        return (*found, *(("history_share",) if self.replaces_share else ()))

    def parameters_of_region(self) -> RegionParameters:
        """Return the parameters of the synthetic region, with the changes applied."""
        if self.region not in REGIONS:
            raise UnknownNameError("region", self.region, REGIONS, "workload.region")
        return REGIONS[self.region].changed(self.region_parameters)
