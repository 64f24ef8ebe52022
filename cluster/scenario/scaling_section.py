"""Sections ``[scaling.NAME]`` of a scenario: auto scaling of the tenants of some classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from cluster.scenario.sections import Section, count, number, span
from plb import InvalidValueError, PlbError

MOST_SCALED = 100
"""Largest number of instances or partitions of a tenant."""


@attrs.frozen(kw_only=True)
class Scaling(Section):
    """When tenants get further instances or partitions, or lose some, as Service Fabric scales services.

    Their demand is shared by the instances that have a place, or by the partitions. Thresholds are compared with the
    mean reported load of the tenant's replicas.

    Parameters
    ----------
    tenant_class
        The class, or a pattern, as of `cluster.scenario.workload_section.Growth`. The tenants run as stateless
        instances if instances are scaled.
    metric
        Name of the metric (``MetricName``).
    lower_load
        Below this mean load the tenant loses instances or partitions (``LowerLoadThreshold``).
    upper_load
        Above this mean load it gets further ones (``UpperLoadThreshold``).
    interval_minutes
        Time between two looks at a tenant (``ScaleInterval``). Each falls on a metering.
    mechanism
        ``"instances"`` (``PartitionInstanceCountScaleMechanism``) or ``"partitions"``
        (``AddRemoveIncrementalNamedPartitionScalingMechanism``).
    minimum, maximum
        Fewest and most instances or partitions.
    increment
        Number of instances or partitions by which a look changes the tenant at most (``ScaleIncrement``).
    primary_only
        Whether only the loads of primaries count (``UseOnlyPrimaryLoad``), if partitions are scaled.
    """

    tenant_class: str = "*"
    metric: str = "cpu"
    lower_load: float = number(0.0)
    upper_load: float = number(attrs.NOTHING, low_open=True)
    interval_minutes: float = span(30.0, low_open=True)
    mechanism: Literal["instances", "partitions"] = "instances"
    minimum: int = count(1, low=1, high=MOST_SCALED)
    maximum: int = count(MOST_SCALED // 10, low=1, high=MOST_SCALED)
    increment: int = count(1, low=1, high=MOST_SCALED)
    primary_only: bool = False

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield thresholds and numbers in the wrong order, and a missing threshold."""
        given = {field.name: values.get(field.name, field.default) for field in attrs.fields(cls)}
        if given["upper_load"] is attrs.NOTHING:
            yield "upper_load", InvalidValueError("scaling", "upper_load", None, "a load above which to scale out")
        elif given["lower_load"] >= given["upper_load"]:
            allowed = f"below upper_load, {given['upper_load']:g}"
            yield "lower_load", InvalidValueError("scaling", "lower_load", given["lower_load"], allowed)
        if given["minimum"] > given["maximum"]:
            allowed = f"at most maximum, {given['maximum']}"
            yield "minimum", InvalidValueError("scaling", "minimum", given["minimum"], allowed)
        if given["primary_only"] and given["mechanism"] == "instances":
            allowed = 'false with mechanism = "instances", which have no primary'
            yield "primary_only", InvalidValueError("scaling", "primary_only", True, allowed)

    def wanted(self, present: int, load: float) -> int:
        """Return the number of instances or partitions of a tenant that has `present`, with this mean load."""
        if load > self.upper_load:
            return max(present, min(present + self.increment, self.maximum))
        if load < self.lower_load:
            return min(present, max(present - self.increment, self.minimum))
        return present
