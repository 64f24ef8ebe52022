"""Tiny clusters with explicit tenants, for stories with exact logs of events."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.recorder import RunResult
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import TenantSequence, with_scaling
from cluster.simulation.tenant_pools import Source, TracePool
from plb.model import Role
from plb.risk import DemandHistory
from tests.cluster.small_runs import SMALL
from workloads.trace import MetricInfo, TraceSet, bounds_of

DISK = (MetricInfo("disk", "GB"),)


@attrs.frozen
class Tenant:
    """A tenant with an arrival time. Each replica has the given disk demand, one value per step of 10 minutes."""

    name: str
    arrival: int
    demand: Sequence[float]
    replicas: int = 1


def traces_of(tenants: Sequence[Tenant], metrics: tuple[MetricInfo, ...] = DISK) -> TraceSet:
    """Return the traces of tenants."""
    life = np.array([len(tenant.demand) for tenant in tenants], np.int32)
    count = len(tenants)
    series = [
        (index, role)
        for index, tenant in enumerate(tenants)
        for role in (Role.PRIMARY, Role.SECONDARY)[: min(2, tenant.replicas)]
    ]
    return TraceSet(
        metrics=metrics,
        classes=("any",),
        tenant=np.array([tenant.name for tenant in tenants]),
        class_code=np.zeros(count, np.int16),
        replicas=np.array([tenant.replicas for tenant in tenants], np.int8),
        lifetime_steps=life,
        censored=np.zeros(count, np.bool_),
        max_usage=np.array([[max(tenant.demand)] for tenant in tenants], np.float32),
        series_tenant=np.array([index for index, _ in series], np.int32),
        series_role=np.array([role for _, role in series], np.int8),
        series_start=bounds_of(life[[index for index, _ in series]]),
        values=np.array([[value] for index, _ in series for value in tenants[index].demand], np.float32),
    )


def source_of(traces: TraceSet, initial: float = 20.0) -> Source:
    """Return a workload whose history gives every tenant `initial` GB at the start."""
    one = [[initial]]
    history = DemandHistory.from_columns(
        ["disk"],
        tenant_class=["any"],
        role=[Role.PRIMARY],
        lifetime=[1e6],
        level=one,
        initial=one,
        growth=[[0.0]],
        maximum=one,
    )
    return Source(traces.metrics, 600.0, history, np.array([-1]), TracePool(traces), {"rule": "made by hand"})


def scenario_of(
    nodes: int, hours: float, capacity: float = 100.0, *, sections: dict[str, Any] | None = None, **cluster: Any
) -> Scenario:
    """Return a scenario of equal nodes with disk only and irrelevant domains; `sections` adds to it."""
    table = {"nodes": nodes, "capacities": {"disk": capacity}, "upgrade_domains": nodes, "fault_domains": nodes}
    return scenario_from(
        {
            "cluster": table | cluster,
            "workload": {"density_metric": "disk"},
            "run": {"days": hours / 24, "policies": ["original"]},
            **(sections or {}),
        }
    )


def simulation_of(scenario: Scenario, tenants: Sequence[Tenant], initial: float = 20.0) -> Simulation:
    """Return a simulation of these tenants, which must be in order of arrival."""
    traces = traces_of(tenants)
    arrival = np.array([tenant.arrival for tenant in tenants], np.int64)
    capacity = scenario.cluster.nodes * scenario.cluster.capacity["disk"]
    sequence = with_scaling(TenantSequence(traces, arrival, len(tenants), capacity, 0), scenario.scaling)
    return Simulation(scenario, source_of(traces, initial), sequence, "original", 0)


def story(scenario: Scenario, tenants: Sequence[Tenant], initial: float = 20.0) -> RunResult:
    """Run these tenants to the end, and return the result."""
    return simulation_of(scenario, tenants, initial).run()


def small_region(**run: Any) -> dict[str, Any]:
    """Return the tables of a scenario of ten nodes with tenants of a region; it runs in about a second."""
    tables = tomllib.loads(SMALL)
    tables["cluster"]["fault_domains"] = 5
    return {**tables, "run": {"days": 0.25, "seed": 3, **run}}
