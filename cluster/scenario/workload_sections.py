"""Sections of a scenario about tenants: ``[workload]``, ``[applications.NAME]`` and ``[scaling.NAME]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Literal

import attrs

from cluster.scenario.sections import LONGEST, Section, count, number, span
from plb import Application, InvalidValueError, PlbError
from plb.validation import check_known
from workloads.region_parameters import RegionParameters
from workloads.regions import REGIONS

MOST_DENSITY = 1e100
"""Up to this density the promised demand is a finite number, so that `DensityError` can report the shortfall."""
MOST_TENANTS = 1_000_000
"""Maximum size of a demand history."""
MOST_SHARE = 1000.0
"""Maximum size of a sample of tenants, as a multiple of the number of tenants in the traces."""
OF_PLANS = ("plan", "nodes", "plan_hours")
"""Fields of `Workload` that apply only to tenants of a plan."""
NOT_OF_PLANS = (
    *("region", "density", "density_end", "history_tenants", "history_share", "initial_demand_percentile"),
    *("pair_share", "window_days", "trace_seed"),
)
"""Fields of `Workload` that do not apply to tenants of a plan."""
OF_RECORDED = ("from_hours", "past_days", "history", "simulated_share", "utilisation")
"""Fields of `Workload` that apply only to recorded arrivals."""
OF_TRACES = ("arrivals", *OF_RECORDED, "history_path", "each_repeat")
"""Fields of `Workload` that apply only to tenants of real traces; results have them if they differ from the default."""
NOT_OF_RECORDED = ("density", "density_end", "pair_share")
"""Fields of `Workload` that do not apply to recorded arrivals."""
OF_REPORTS = (
    *("past_days", "known_hours", "balanced_hours"),
    *("initial_demand_percentile", "oracle_hours", "oracle_after_hours"),
)
"""Fields of `Workload` that affect reports to the engine, but neither tenants nor history."""


@attrs.frozen(kw_only=True)
class Growth(Section):
    """A temporary increase of the demand of one tenant class."""

    tenant_class: str
    """The class, or a pattern: ``"BC_*"`` matches every class whose name starts with BC_, ``"*"`` matches all."""
    at_hours: float = span(attrs.NOTHING)
    """Begin, since the start of the run."""
    hours: float = span(attrs.NOTHING, low_open=True)
    """Duration."""
    factor: float = number(attrs.NOTHING)
    """Factor on the demand."""


@attrs.frozen(kw_only=True)
class Workload(Section):
    """The source of the tenants and their density."""

    kind: Literal["region", "bitbrains", "traces", "plan"] = "region"
    """``"region"`` (synthetic), ``"bitbrains"``, ``"traces"`` (the project's trace format) or ``"plan"``: the
    applications of a plan of `plb provision`, placed from the start as in the plan.
    """
    region: str = "region1"
    """Name of the synthetic region."""
    arrivals: Literal["generated", "recorded"] = "generated"
    """``"generated"``: tenants arrive when the density asks for them; ``"recorded"``: tenants of real traces arrive
    and depart when they did.
    """
    from_hours: float = span(0.0)
    """Begin of the run in the recorded time, hours since the first tenant of the traces began."""
    past_days: float = number(0.0, high=LONGEST)
    """With recorded arrivals, the days before the begin of the run for which the tenants that are there at the start
    have reported, as far as they lived.
    """
    region_parameters: Mapping[str, Any] = attrs.field(factory=dict, hash=False)
    """Changed parameters of the region, such as ``{ size_bias = 1.2, cpu.median = 0.1 }``; see
    `workloads.region_parameters.RegionParameters`.
    """
    path: str | None = None
    """Directory of the traces, which `plb simulate --traces` overrides; for a plan, the instance that was planned."""
    plan: str | None = None
    """File of the plan."""
    nodes: tuple[str, ...] = ()
    """Kinds of nodes of the instance, as for `plb provision --node`; empty: the kinds in the instance."""
    plan_hours: float = span(24.0, low_open=True)
    """Time that the time points of a plan's demand cover; then they repeat."""
    density: float = number(2.0, high=MOST_DENSITY, low_open=True)
    """Tenant density: mean over nodes of the sum of MaxUsage over capacity, for `density_metric` ([1] section 8.1)."""
    density_end: float | None = number(None, high=MOST_DENSITY, low_open=True)
    """Density at the end of the run, with a linear increase from `density`. None: constant."""
    density_metric: str = "cpu"
    """The metric of the density."""
    history_tenants: int = count(20_000, low=1, high=MOST_TENANTS)
    """Number of past tenants in the demand history of a synthetic region."""
    history_share: float = number(0.5, high=0.99)
    """Share of the tenants of real traces that forms the history; the others are simulated. 0: there is no history."""
    history: Literal["share", "before"] = "share"
    """``"share"``: the history is a random share of the tenants; ``"before"``: with recorded arrivals, the tenants that
    ended before the begin of the run.
    """
    history_path: str | None = None
    """Directory of other traces that form the history; all tenants of the traces are then simulated."""
    simulated_share: float = number(1.0, high=MOST_SHARE, low_open=True)
    """With recorded arrivals, the share of the families outside the history that is simulated; above 1 only if each
    repeat resamples.
    """
    utilisation: float | None = number(None, high=1.0, low_open=True)
    """In place of `simulated_share`: families are drawn until their demand for `density_metric`, mean over the run, is
    this share of the capacity of all nodes; needs ``each_repeat = "resample"``.
    """
    each_repeat: Literal["same", "split", "resample"] = "same"
    """``"same"``: all repeats have the same history and the same tenants to simulate; ``"split"``: each repeat splits
    the traces anew; ``"resample"``: it also draws the families to simulate with replacement.
    """
    initial_demand_percentile: float = number(50.0, high=100.0)
    """Percentile of the initial demand of the class in the history that is reported for a new replica ([1] section
    8.2).
    """
    oracle_hours: float = span(0.0)
    """If not 0, the largest demand within this many hours is reported instead of the present demand: an exact
    prediction ([1] section 8.2: 24).
    """
    oracle_after_hours: float = span(24.0)
    """Minimum age of a tenant for such a prediction; a real predictor needs observations first."""
    known_hours: float = span(0.0)
    """If not 0, the past that is reported has the loads of so many hours later: an estimator that looks back then
    knows the coming hours. Present loads are reported as they are.
    """
    balanced_hours: float = span(0.0)
    """If not 0, balancing sees the mean demand of each replica in so many past hours in place of its present demand."""
    growth: tuple[Growth, ...] = ()
    """Classes whose demand grows for a while, such as ``[{ tenant_class = "GP_*", at_hours = 24.0, hours = 6.0, factor
    = 1.5 }]``. The demand history does not include this growth.
    """
    pair_share: float = number(0.0, high=1.0)
    """Share of the tenants that arrive as pairs: the second is bound to the first by an aligned affinity, and both have
    the same number of replicas.
    """
    window_days: float = number(7.0, low=1 / 24, high=LONGEST)
    """Maximum lifetime of a Bitbrains tenant."""
    trace_seed: int = count(0)
    """Seed of a synthetic region, and of the split of real traces. If repeats split anew, repeat i has this seed + i.
    """

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield invalid parameters of the region, and fields that do not apply to the kind of workload.

        `values`: the fields that the file sets; fields with their default values are always valid.
        """
        parameters, kind = values.get("region_parameters", {}), values.get("kind", "region")
        region = values.get("region", attrs.fields(cls).region.default)
        if parameters and kind != "region":
            allowed = 'none except with kind = "region"'
            yield "region_parameters", InvalidValueError("workload", "region_parameters", dict(parameters), allowed)
        elif region in REGIONS:  # an unknown region is reported when the workload is read
            for error in REGIONS[region].refused(parameters):
                yield "region_parameters", error
        for name, allowed in cls._inapplicable(values, kind):
            if cls._differs(values, name):
                yield name, InvalidValueError("workload", name, values[name], allowed)
        if kind == "region" and values.get("history_share") == 0.0:
            allowed = 'above 0 with kind = "region", whose history has history_tenants past tenants'
            yield "history_share", InvalidValueError("workload", "history_share", 0.0, allowed)
        if kind not in ("region", "plan"):
            yield from cls._conflicts_of_repeats(values)

    @classmethod
    def _differs(cls, values: Mapping[str, Any], name: str) -> bool:
        """Return whether a field is set in `values` and differs from its default."""
        default = getattr(attrs.fields(cls), name).default
        return bool(values.get(name, default) != default)

    @classmethod
    def _inapplicable(cls, values: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
        """Yield each field that does not apply to the kind of tenants, arrivals or history, and its allowed values."""
        is_plan = kind == "plan"
        allowed = 'the default with kind = "plan"' if is_plan else 'none except with kind = "plan"'
        yield from dict.fromkeys(NOT_OF_PLANS if is_plan else OF_PLANS, allowed).items()
        if kind in ("region", "plan"):
            allowed = 'the default except with the tenants of traces, kind = "traces" or "bitbrains"'
            yield from dict.fromkeys(OF_TRACES, allowed).items()
            return
        if values.get("arrivals") == "recorded":
            allowed = 'the default with arrivals = "recorded": the traces determine who is there'
            refused = dict.fromkeys(NOT_OF_RECORDED, allowed)
        else:
            allowed = 'the default, except with arrivals = "recorded"'
            refused = dict.fromkeys(OF_RECORDED, allowed)
        replacing_fields = [name for name in ("history", "history_path") if cls._differs(values, name)]
        if replacing_fields:
            refused["history_share"] = f"the default with {replacing_fields[0]}, which replaces it"
        if len(replacing_fields) == 2:
            refused["history_path"] = 'none with history = "before", which replaces it'
        yield from refused.items()

    @classmethod
    def _conflicts_of_repeats(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield conflicts of the fields of real traces that say what repeats share, each with the field's name."""
        each_repeat, share = values.get("each_repeat", "same"), values.get("simulated_share", 1.0)
        if share > 1.0 and each_repeat != "resample":
            allowed = 'at most 1, except with each_repeat = "resample"'
            yield "simulated_share", InvalidValueError("workload", "simulated_share", share, allowed)
        if values.get("utilisation") is not None:
            if each_repeat != "resample":
                allowed = 'none, except with each_repeat = "resample"'
                yield "utilisation", InvalidValueError("workload", "utilisation", values["utilisation"], allowed)
            if share != 1.0:
                allowed = "the default with utilisation, which replaces it"
                yield "simulated_share", InvalidValueError("workload", "simulated_share", share, allowed)
        if each_repeat == "resample" and values.get("arrivals") != "recorded":
            allowed = '"same" or "split", except with arrivals = "recorded"'
            yield "each_repeat", InvalidValueError("workload", "each_repeat", each_repeat, allowed)
        is_split = not cls._differs(values, "history") and not values.get("history_path")
        is_split &= values.get("history_share", 0.5) > 0.0
        if each_repeat == "split" and not is_split and share == 1.0:
            allowed = '"same" or "resample", as all repeats have all tenants; or a simulated_share below 1'
            yield "each_repeat", InvalidValueError("workload", "each_repeat", each_repeat, allowed)

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
        names = [name for name in OF_TRACES if getattr(self, name) == getattr(defaults, name).default]
        names += NOT_OF_RECORDED if self.arrivals == "recorded" else ()
        return (*names, *(("history_share",) if self.replaces_share else ()))

    def parameters_of_region(self) -> RegionParameters:
        """Return the parameters of the synthetic region, with the changes applied."""
        check_known("region", self.region, REGIONS, "workload.region")
        return REGIONS[self.region].changed(self.region_parameters)


OF_APPLICATIONS = ("most_nodes", "minimum_nodes", "total_capacity", "node_capacity", "node_reservation")
"""The fields of `plb.Application`."""


class Known(Enum):
    """What the engine of a policy knows of the applications of a scenario."""

    ALL = "all"
    WITHOUT_RESERVATIONS = "without reservations"
    NONE = "none"


@attrs.frozen(kw_only=True)
class ApplicationsSection(Section):
    """Tenants of some classes that form applications with common limits.

    A tenant belongs to the first section that matches its class, and the second tenant of an affinity pair to the
    application of the first. A policy with ``applications = "none"`` has no applications, and a policy with
    ``applications = "without reservations"`` has them without reservations.
    """

    tenant_class: str = "*"
    """The class, or a pattern: ``"BC_*"`` matches every class whose name starts with BC_, ``"*"`` matches all."""
    tenants: int = count(0)
    """Number of tenants of each application, in order of arrival; 0: all in one."""
    most_nodes: int = count(0)
    """Most nodes that the replicas of an application use; 0: no limit."""
    minimum_nodes: int = count(0)
    """Number of nodes for which the cluster has to have the reservation left, if the engine checks it."""
    total_capacity: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    """Largest load of an application by metric, such as ``{ cpu = 200.0 }``; missing: no limit."""
    node_capacity: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    """Largest load of an application on one node by metric; missing: no limit."""
    node_reservation: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    """Load by metric that every node with a replica of an application keeps free for it; missing: none."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield the error for limits that an application of the engine refuses."""
        limits = {name: value for name, value in values.items() if name in OF_APPLICATIONS}
        try:
            Application("of the section", **limits)
        except InvalidValueError as error:
            yield error.field.partition("[")[0], error
        except PlbError as error:
            has_too_many = 0 < values.get("most_nodes", 0) < values.get("minimum_nodes", 0)
            yield "minimum_nodes" if has_too_many else "node_reservation", error

    def named(self, name: str) -> Application:
        """Return an application of this section with a name."""
        return Application(name, **{field: getattr(self, field) for field in OF_APPLICATIONS})


MOST_SCALED = 100
"""Largest number of instances or partitions of a tenant."""


@attrs.frozen(kw_only=True)
class Scaling(Section):
    """When tenants get further instances or partitions, or lose some, as Service Fabric scales services.

    Their demand is shared by the instances that have a place, or by the partitions. Thresholds are compared with the
    mean reported load of the tenant's replicas.
    """

    tenant_class: str = "*"
    """The class, or a pattern, as in `Growth`. The tenants run as stateless instances if instances are scaled."""
    metric: str = "cpu"
    """Name of the metric (``MetricName``)."""
    lower_load: float = number(0.0)
    """Below this mean load the tenant loses instances or partitions (``LowerLoadThreshold``)."""
    upper_load: float = number(attrs.NOTHING, low_open=True)
    """Above this mean load the tenant gets further instances or partitions (``UpperLoadThreshold``)."""
    interval_minutes: float = span(30.0, low_open=True)
    """Time between two looks at a tenant (``ScaleInterval``). Each falls on a metering."""
    mechanism: Literal["instances", "partitions"] = "instances"
    """``"instances"`` (``PartitionInstanceCountScaleMechanism``) or ``"partitions"``
    (``AddRemoveIncrementalNamedPartitionScalingMechanism``).
    """
    minimum: int = count(1, low=1, high=MOST_SCALED)
    """Fewest instances or partitions."""
    maximum: int = count(MOST_SCALED // 10, low=1, high=MOST_SCALED)
    """Most instances or partitions."""
    increment: int = count(1, low=1, high=MOST_SCALED)
    """Number of instances or partitions by which a look changes the tenant at most (``ScaleIncrement``)."""
    primary_only: bool = False
    """Whether only the loads of primaries count (``UseOnlyPrimaryLoad``), if partitions are scaled."""

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield thresholds and numbers in the wrong order, and a missing threshold."""
        fields = {field.name: values.get(field.name, field.default) for field in attrs.fields(cls)}
        if fields["upper_load"] is attrs.NOTHING:
            yield "upper_load", InvalidValueError("scaling", "upper_load", None, "a load above which to scale out")
        elif fields["lower_load"] >= fields["upper_load"]:
            allowed = f"below upper_load, {fields['upper_load']:g}"
            yield "lower_load", InvalidValueError("scaling", "lower_load", fields["lower_load"], allowed)
        if fields["minimum"] > fields["maximum"]:
            allowed = f"at most maximum, {fields['maximum']}"
            yield "minimum", InvalidValueError("scaling", "minimum", fields["minimum"], allowed)
        if fields["primary_only"] and fields["mechanism"] == "instances":
            allowed = 'false with mechanism = "instances", which have no primary'
            yield "primary_only", InvalidValueError("scaling", "primary_only", True, allowed)

    def wanted(self, present: int, load: float) -> int:
        """Return the number of instances or partitions that a tenant with `present` and the mean load `load` gets."""
        if load > self.upper_load:
            return max(present, min(present + self.increment, self.maximum))
        if load < self.lower_load:
            return min(present, max(present - self.increment, self.minimum))
        return present
