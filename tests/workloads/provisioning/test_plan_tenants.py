"""The tenants of a plan: layers of replicas on different nodes, and their demand over time."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import ceil

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import InvalidValueError
from plb.model import Role
from plb.provisioning import Affinity, Instance, NodeType, ProvisioningPlan, provision
from tests.cluster.small_provisioning import base
from tests.workloads.provisioning.test_plan_files import plans
from workloads.provisioning import tenants
from workloads.provisioning.tenants import PlannedTenants, tenants_of_plan
from workloads.provisioning.user_units import user_demand

DAY = 86_400


def of(
    plan: ProvisioningPlan, plan_hours: float = 24.0, hours: float = 24.0, step_seconds: int = 600
) -> PlannedTenants:
    return tenants_of_plan(plan, plan_hours=plan_hours, hours=hours, step_seconds=step_seconds)


def nodes_by_kind(plan: ProvisioningPlan) -> dict[int, int]:
    """Return, for each node of a plan, its number after sorting by node type."""
    ordered = sorted(range(plan.nodes), key=lambda node: (int(plan.kind[node]), node))
    return {node: number for number, node in enumerate(ordered)}


def places_of(planned: PlannedTenants) -> list[list[int]]:
    bounds = planned.start.tolist()
    return [planned.node[first:last].tolist() for first, last in pairwise(bounds)]


def plan_of(applications: tuple[str, ...], nodes: int, rows: list[tuple[int, int, int]]) -> ProvisioningPlan:
    """Return a plan on equal nodes from rows of application, node and count."""
    application, node, count = np.array(rows, np.int32).T
    instance = Instance(
        name="small",
        resources=("cpu",),
        applications=applications,
        replicas=np.bincount(application, count, len(applications)),
        demand=np.arange(1, len(applications) + 1, dtype=np.int32).reshape(-1, 1, 1),
        affinity=Affinity.from_columns([], [], [], len(applications)),
        nodes=(NodeType("node", np.array([10**6], np.int32)),),
        units=(1.0,),
    )
    return ProvisioningPlan(instance, np.zeros(nodes, np.int32), application, node, count, "by hand", 0.0, 1)


@given(plans())
def test_layers_are_the_replicas_of_the_plan_on_different_nodes(plan: ProvisioningPlan) -> None:
    planned = of(plan)
    traces, places, number = planned.traces, places_of(planned), nodes_by_kind(plan)
    assert all(len(set(nodes)) == len(nodes) <= 127 for nodes in places)
    assert traces.replicas.tolist() == [len(nodes) for nodes in places]
    names = traces.class_names().tolist()
    counts = Counter((name, node) for name, nodes in zip(names, places, strict=True) for node in nodes)
    rows = zip(plan.application.tolist(), plan.node.tolist(), plan.count.tolist(), strict=True)
    assert counts == {(plan.instance.applications[app], number[node]): count for app, node, count in rows}


@given(plans())
def test_names_identify_application_and_layer(plan: ProvisioningPlan) -> None:
    """Names are unique. The first layer has the name of the application, which is also the class and family."""
    traces = of(plan).traces
    names, classes = traces.tenant_names().tolist(), traces.class_names().tolist()
    assert len(set(names)) == len(names)
    first = dict(reversed(list(zip(classes, names, strict=True))))
    assert all(name == tenant_class for tenant_class, name in first.items())
    for name, tenant_class in zip(names, classes, strict=True):
        assert re.fullmatch(rf"{re.escape(tenant_class)}(/\d+)?", name)
    assert [plan.instance.applications[family] for family in traces.family] == classes


@given(plans(), st.sampled_from([1.0, 7.0, 24.0]), st.sampled_from([0.5, 24.0, 30.0]), st.sampled_from([600, 420]))
def test_demand_of_a_node_equals_the_plan(plan, plan_hours, hours, step_seconds) -> None:
    """At the end of each step, the sum on every node and for every resource is that of the time point of the plan."""
    planned = of(plan, plan_hours, hours, step_seconds)
    traces, number = planned.traces, nodes_by_kind(plan)
    steps = int(traces.lifetime_steps[0])
    assert steps * traces.step_seconds > hours * 3600 >= (steps - 1) * traces.step_seconds
    values = traces.values.reshape(traces.tenants, steps, -1)
    sums = np.zeros((plan.nodes, steps, values.shape[2]))
    for tenant, nodes in enumerate(places_of(planned)):
        sums[nodes] += values[tenant]
    demand = user_demand(plan.instance)
    long = Fraction(round(plan_hours * 3600), plan.instance.time_points)
    for step in range(steps):
        point = (ceil((step + 1) * round(traces.step_seconds) / long) - 1) % plan.instance.time_points
        expected = np.zeros((plan.nodes, values.shape[2]))
        for app, node, count in zip(plan.application, plan.node, plan.count, strict=True):
            expected[number[int(node)]] += count * demand[app, :, point]
        assert sums[:, step] == pytest.approx(expected, rel=1e-6)


def test_a_layer_on_many_nodes_is_divided() -> None:
    """A tenant has at most 127 replicas.

    The first layer, on 300 nodes, gives three tenants, and the second, on 2, gives one.
    """
    plan = plan_of(("a",), 300, [(0, node, 2 if node in (5, 9) else 1) for node in range(300)])
    planned = of(plan)
    assert planned.traces.replicas.tolist() == [127, 127, 46, 2]
    assert planned.traces.tenant_names().tolist() == ["a", "a/2", "a/3", "a/4"]
    assert places_of(planned)[3] == [5, 9]


def test_names_of_layers_avoid_names_of_applications() -> None:
    plan = plan_of(("a", "a/2", "a/2/2"), 1, [(0, 0, 3), (1, 0, 2), (2, 0, 1)])
    assert of(plan).traces.tenant_names().tolist() == ["a", "a/3", "a/4", "a/2", "a/2/3", "a/2/2"]


def test_a_time_point_of_whole_seconds_is_a_step() -> None:
    """One point gives a step per day.

    98 points over 24.5 hours give quarters of an hour; over 24 hours, they are sampled.
    """
    constant, varying = (provision(base(points=points), "FF") for points in (1, 98))
    assert (of(constant).traces.step_seconds, of(constant).traces.lifetime_steps[0]) == (DAY, 2)
    assert of(varying, 24.5).traces.step_seconds == 900
    assert (of(varying).traces.step_seconds, of(varying).traces.lifetime_steps[0]) == (600, 145)


def test_replicas_are_instances_without_trend() -> None:
    traces = of(provision(base(points=4), "FF")).traces
    assert set(traces.series_role.tolist()) == {Role.INSTANCE}
    assert [(metric.name, metric.unit, metric.trend) for metric in traces.metrics] == [
        ("cpu", "cores", False),
        ("memory", "GB", False),
    ]
    assert traces.censored.all()
    highest = traces.values.reshape(traces.tenants, -1, 2).max(axis=1)
    assert np.array_equal(traces.max_usage, highest)


def test_the_history_contains_each_application_once() -> None:
    instance = base(points=4)
    history = of(provision(instance, "FF")).history()
    assert len(history) == len(instance.applications)
    codes = [history.class_code(name) for name in instance.applications]
    order = [history.tenant_class.tolist().index(code) for code in codes]
    assert history.maximum[order] == pytest.approx(user_demand(instance).max(axis=2), rel=1e-6)


def test_very_many_applications_have_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace set has a limited number of classes. Families distinguish the applications."""
    plan = plan_of(("a", "b"), 1, [(0, 0, 1), (1, 0, 1)])
    assert of(plan).traces.classes == ("a", "b")
    monkeypatch.setattr(tenants, "MOST_CLASSES", 1)
    traces = of(plan).traces
    assert (traces.classes, traces.class_code.tolist(), traces.family.tolist()) == (("application",), [0, 0], [0, 1])
    assert len(of(plan).history()) == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"plan_hours": 0.001}, "plan_hours"), ({"hours": 0.0}, "hours"), ({"step_seconds": 0}, "step_seconds")],
)
def test_times_out_of_range_are_refused(changes: dict[str, float], field: str) -> None:
    plan = provision(base(points=98), "FF")
    with pytest.raises(InvalidValueError, match=rf"plan: {field} = "):
        of(plan, **changes)


def test_the_order_of_rows_does_not_matter() -> None:
    plan = provision(base(), "FF")
    order = np.random.default_rng(1).permutation(len(plan.node))
    columns = {name: getattr(plan, name)[order] for name in ("application", "node", "count")}
    first, second = of(plan), of(attrs.evolve(plan, **columns))
    assert places_of(first) == places_of(second)
    assert first.traces.tenant_names().tolist() == second.traces.tenant_names().tolist()
