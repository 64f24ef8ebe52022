"""The tenants of a plan: their nodes at the start of a simulation, and their demand over time.

In the engine the replicas of a partition are on different nodes; in a plan the replicas of an application need not be.
So an application becomes as many tenants as its largest number of replicas on a node, its *layers*: the k-th has an
instance on every node with at least k replicas of the application. Layers with more nodes than the replicas of a tenant
are cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from plb.array_types import Int, Int32
from plb.model import Role
from plb.provisioning import ProvisioningPlan
from plb.risk.demand_history import DemandHistory
from plb.validation import check_count, check_number
from workloads.compression import compress
from workloads.provisioning.user_units import user_demand
from workloads.trace import HOUR_SECONDS, STEP_SECONDS, MetricInfo, TraceSet, bounds_of
from workloads.trace_validation import MOST_REPLICAS

MOST_CLASSES = 32_767
"""With more applications all tenants have one class, because `TraceSet.class_code` has 16 bits."""
ONE_CLASS = "application"
"""Name of that class."""
UNITS = {"core": "cores", "cpu": "cores", "memory": "GB", "disk": "GB"}
"""Unit of the resources in messages and results."""
SHORTEST_HOURS = 1 / 60
"""Least value of `plan_hours`."""


@attrs.frozen(eq=False)
class PlannedTenants:
    """The tenants of a plan.

    Tenant i has a replica on each of the nodes ``node[start[i]:start[i + 1]]``, all different.
    """

    traces: TraceSet
    """The T tenants by application, then by layer. The first of an application has its name, the others
    ``<application>/2`` and so on. Each application is a tenant class, and a family.
    """
    node: Int32
    """int32 (P,): nodes of the plan, numbered by kind, and within a kind as in the plan."""
    start: Int
    """int64 (T + 1,): bounds of the tenants in `node`."""

    def history(self) -> DemandHistory:
        """Return the demand of each application as a past tenant, so that an estimator has the curve of each."""
        return compress(self.traces.select(np.unique(self.traces.family, return_index=True)[1]))


def tenants_of_plan(
    plan: ProvisioningPlan, *, plan_hours: float, hours: float, step_seconds: int = int(STEP_SECONDS)
) -> PlannedTenants:
    """Return the tenants of a valid plan. They stay longer than a run of `hours`.

    The time points of demand are spread evenly over `plan_hours`, and repeat after them. The sampling interval is the
    time between two of them if that is whole seconds, else `step_seconds`; a sample has the demand at its end.
    """
    check_number("plan", "plan_hours", plan_hours, low=SHORTEST_HOURS)
    check_number("plan", "hours", hours, low_open=True)
    instance, period = plan.instance, round(plan_hours * HOUR_SECONDS)
    is_whole_step = period % instance.time_points == 0
    step = period // instance.time_points if is_whole_step else check_count("plan", "step_seconds", step_seconds, low=1)
    steps = math.floor(hours * HOUR_SECONDS / step) + 1
    owner, node, start = _layers(plan)
    # user units as float32 are off by less than a ten-millionth
    curves = user_demand(instance).astype(np.float32)
    points = _time_points(steps, step, period, instance.time_points)
    class_by_application = len(instance.applications) <= MOST_CLASSES
    traces = TraceSet(
        metrics=tuple(MetricInfo(name, UNITS.get(name, ""), trend=False) for name in instance.resources),
        step_seconds=float(step),
        classes=instance.applications if class_by_application else (ONE_CLASS,),
        tenant=np.array(_names(instance.applications, owner.tolist())),
        family=owner,
        class_code=(owner if class_by_application else np.zeros_like(owner)).astype(np.int16),
        replicas=np.diff(start).astype(np.int8),
        lifetime_steps=np.full(len(owner), steps, np.int32),
        censored=np.ones(len(owner), np.bool_),
        max_usage=curves.max(axis=2)[owner],
        series_tenant=np.arange(len(owner), dtype=np.int32),
        series_role=np.full(len(owner), Role.INSTANCE, np.int8),
        series_start=bounds_of(np.full(len(owner), steps)),
        values=curves.transpose(0, 2, 1)[owner[:, None], points].reshape(-1, len(instance.resources)),
    )
    return PlannedTenants(traces, node, start)


def _layers(plan: ProvisioningPlan) -> tuple[Int, Int32, Int]:
    """Return the application of each tenant, (T,), the node of each replica, and the first replica of each tenant.

    Replicas of an application on one node belong to different layers, and each layer is a tenant, or several if it has
    more than `MOST_REPLICAS` replicas. First replicas are (T + 1,), the last one the number of replicas.
    """
    by_kind = np.empty(plan.nodes, np.int32)
    by_kind[np.argsort(plan.kind, kind="stable")] = np.arange(plan.nodes)
    row = np.repeat(np.arange(len(plan.count)), plan.count)
    layer = np.arange(len(row)) - bounds_of(plan.count)[row]
    application, node = plan.application[row].astype(np.int64), by_kind[plan.node[row]]
    order = np.lexsort((node, layer, application))
    application, layer, node = application[order], layer[order], node[order]
    begins = np.diff(application, prepend=-1).astype(np.bool_) | np.diff(layer, prepend=-1).astype(np.bool_)
    rank = np.arange(len(row)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    first = np.flatnonzero(rank % MOST_REPLICAS == 0)
    return application[first], node, np.append(first, len(row))


def _time_points(steps: int, step: int, period: int, points: int) -> Int:
    """Return the time point of demand at the end of each of `steps` steps of `step` seconds, (steps,).

    `points` time points divide `period` seconds; a time point includes its end, so that integers suffice.
    """
    ends = np.arange(1, steps + 1) * step
    return np.asarray((ends * points - 1) // period % points)


def _names(applications: Sequence[str], owner: Iterable[int]) -> list[str]:
    """Return a name for each tenant, from its application `owner`: that name, for further tenants with a number."""
    used_names, tenants_of = set(applications), dict.fromkeys(range(len(applications)), 0)
    names = []
    for application in owner:
        name = applications[application]
        tenants_of[application] += 1
        if tenants_of[application] > 1:
            while (name := f"{applications[application]}/{tenants_of[application]}") in used_names:
                tenants_of[application] += 1
            used_names.add(name)
        names.append(name)
    return names
