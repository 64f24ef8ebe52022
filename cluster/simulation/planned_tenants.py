"""Tenants that a plan of `plb provision` places: read, checked, and brought onto the nodes of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from cluster.errors import ScenarioError, ScenarioProblem
from cluster.scenario.scenario import Scenario
from plb.provisioning import ProvisioningPlan
from workloads.provisioning import NodeSpec, read_instance, read_plan
from workloads.provisioning.building import user_nodes
from workloads.provisioning.source import parse_nodes
from workloads.provisioning.tenants import PlannedTenants, tenants_of_plan

FAULTS_SHOWN = 3
"""Of a plan that is refused."""

Ints = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class PlanPool:
    """The tenants of a plan, and the nodes on which they stand.

    Parameters
    ----------
    tenants
        Them.
    place
        (N,) node of the cluster for each node of the plan, numbered as in `PlannedTenants`.
    """

    tenants: PlannedTenants
    place: Ints


def read_plan_pool(scenario: Scenario) -> PlanPool:
    """Read the plan of a scenario, and find the nodes of the cluster for those of the plan.

    Raises
    ------
    ScenarioError
        A file is not named, the plan has faults, or the cluster lacks nodes that it needs.
    TraceError, InvalidValueError, ConflictError
        As `read_instance` and `read_plan` do.
    """
    workload = scenario.workload
    for name, what in (("path", "the instance that was planned"), ("plan", "the file of the plan")):
        if getattr(workload, name) is None:
            raise _refusal(scenario, f"workload.{name}", f'kind = "plan" needs {what}')
    assert workload.path is not None
    assert workload.plan is not None
    instance = read_instance(workload.path, parse_nodes(workload.nodes) if workload.nodes else None)
    plan = read_plan(workload.plan, instance)
    faults = plan.faults()
    if faults:
        more = f" (and {len(faults) - FAULTS_SHOWN:,} more faults)" if len(faults) > FAULTS_SHOWN else ""
        raise _refusal(scenario, "workload.plan", f"{workload.plan}: {'; '.join(faults[:FAULTS_SHOWN])}{more}")
    place = _places(scenario, plan)
    # an oracle looks beyond the end of the run
    hours = 24.0 * scenario.run.days + workload.oracle_hours
    step = scenario.cluster.metering_minutes * 60
    return PlanPool(tenants_of_plan(plan, plan_hours=workload.plan_hours, hours=hours, step_seconds=step), place)


def used_kinds(plan: ProvisioningPlan) -> list[tuple[int, NodeSpec]]:
    """Return how many nodes of each kind a plan uses, and what they have in user units; kinds without any left out."""
    used = np.bincount(plan.kind, minlength=len(plan.instance.nodes)).tolist()
    return [(count, node) for count, node in zip(used, user_nodes(plan.instance), strict=True) if count]


def _places(scenario: Scenario, plan: ProvisioningPlan) -> Ints:
    """Return the node of the cluster for each node of a plan: the first ones of the kind that stands for its type.

    The kinds of the cluster stand for the types in use, in order; a kind may have nodes to spare.
    """
    there = [(first, nodes, capacity) for first, nodes, capacity in _kinds(scenario) if nodes]
    places = []
    for number, (needed, spec) in enumerate(used_kinds(plan)):
        item = f"node type {spec.name}"
        if number >= len(there) or there[number][1] < needed:
            found = there[number][1] if number < len(there) else 0
            message = f"{item}: the plan needs {needed:,} nodes, kind {number + 1} of the cluster has {found:,}"
            raise _refusal(scenario, "cluster.groups" if number else "cluster.nodes", message)
        first, _, capacity = there[number]
        for resource, value in zip(plan.instance.resources, spec.capacity, strict=True):
            if capacity.get(resource, np.inf) < value:
                message = f"{item}: the plan counts on {value:g} {resource}, the cluster has {capacity[resource]:g}"
                raise _refusal(scenario, "cluster.groups" if number else "cluster.capacities", message)
        places.append(first + np.arange(needed))
    return np.concatenate(places)


def _kinds(scenario: Scenario) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield the first node of each kind of nodes of the cluster, their number and their capacity."""
    first = 0
    for nodes, capacity in scenario.cluster.kinds:
        yield first, nodes, dict(capacity)
        first += nodes


def _refusal(scenario: Scenario, place: str, message: str) -> ScenarioError:
    return ScenarioError(scenario.name, [ScenarioProblem(place, message)])
