"""Tenants from a plan of `plb provision`: reads and checks the plan, and maps its nodes to nodes of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from cluster.errors import refusal
from cluster.scenario.scenario import Scenario
from plb.array_types import Int
from plb.provisioning import ProvisioningPlan
from workloads.provisioning import NodeSpec, read_instance, read_plan
from workloads.provisioning.plans import parse_nodes
from workloads.provisioning.tenants import PlannedTenants, tenants_of_plan
from workloads.provisioning.user_units import user_nodes

FAULTS_SHOWN = 3
"""Number of faults that the message about an invalid plan lists."""


@attrs.frozen(eq=False)
class PlanPool:
    """The tenants of a plan, and their nodes."""

    tenants: PlannedTenants
    """The tenants."""
    place: Int
    """(N,) node of the cluster for each node of the plan, in the order of `PlannedTenants`."""


def read_plan_pool(scenario: Scenario) -> PlanPool:
    """Read the plan of a scenario, and map the nodes of the plan to nodes of the cluster.

    Raise `ScenarioError` if a file is not given, the plan has faults, or the cluster has too few or too small nodes.
    Raise `TraceError`, `InvalidValueError` or `ConflictError` as `read_instance` and `read_plan`.
    """
    workload = scenario.workload
    for name, what in (("path", "the instance that was planned"), ("plan", "the file of the plan")):
        if getattr(workload, name) is None:
            raise refusal(scenario.name, f"workload.{name}", f'kind = "plan" needs {what}')
    assert workload.path is not None
    assert workload.plan is not None
    instance = read_instance(workload.path, parse_nodes(workload.nodes) if workload.nodes else None)
    plan = read_plan(workload.plan, instance)
    faults = plan.faults()
    if faults:
        more = f" (and {len(faults) - FAULTS_SHOWN:,} more faults)" if len(faults) > FAULTS_SHOWN else ""
        raise refusal(scenario.name, "workload.plan", f"{workload.plan}: {'; '.join(faults[:FAULTS_SHOWN])}{more}")
    place = _places(scenario, plan)
    # the oracle reads demand beyond the end of the run
    hours = 24.0 * scenario.run.days + workload.oracle_hours
    step = scenario.cluster.metering_minutes * 60
    return PlanPool(tenants_of_plan(plan, plan_hours=workload.plan_hours, hours=hours, step_seconds=step), place)


def used_kinds(plan: ProvisioningPlan) -> list[tuple[int, NodeSpec]]:
    """Return how many nodes of each kind a plan uses, and their capacity in user units; unused kinds are omitted."""
    used = np.bincount(plan.kind, minlength=len(plan.instance.nodes)).tolist()
    return [(count, node) for count, node in zip(used, user_nodes(plan.instance), strict=True) if count]


def _places(scenario: Scenario, plan: ProvisioningPlan) -> Int:
    """Return the node of the cluster for each node of a plan: the first nodes of the kind that matches its type.

    The kinds of the cluster match the used types in order; a kind may have more nodes than the plan uses.
    """
    kinds = [(first, nodes, capacity) for first, nodes, capacity in _kinds(scenario) if nodes]
    places = []
    for number, (needed, spec) in enumerate(used_kinds(plan)):
        item = f"node type {spec.name}"
        if number >= len(kinds) or kinds[number][1] < needed:
            found = kinds[number][1] if number < len(kinds) else 0
            message = f"{item}: the plan needs {needed:,} nodes, kind {number + 1} of the cluster has {found:,}"
            raise refusal(scenario.name, "cluster.groups" if number else "cluster.nodes", message)
        first, _, capacity = kinds[number]
        for resource, value in zip(plan.instance.resources, spec.capacity, strict=True):
            if capacity.get(resource, np.inf) < value:
                message = f"{item}: the plan requires {value:g} {resource}, the cluster has {capacity[resource]:g}"
                raise refusal(scenario.name, "cluster.groups" if number else "cluster.capacities", message)
        places.append(first + np.arange(needed))
    return np.concatenate(places)


def _kinds(scenario: Scenario) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield the first node, the number of nodes and the capacity of each kind of the cluster's nodes."""
    first = 0
    for nodes, capacity in scenario.cluster.kinds:
        yield first, nodes, dict(capacity)
        first += nodes
