"""The tenants that all policies face: arrivals and departures, known before any policy runs ([1] section 8.1).

Generated arrivals assume that every placement succeeds: the cluster is filled until the tenant density is reached, and
after each departure new tenants are admitted until it is reached again. Recorded ones come from the traces. The
tenants of a plan are on the nodes of the plan from the start, and no others arrive.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import attrs
import numpy as np

from cluster.errors import DensityError
from cluster.scenario.cluster_sections import ClusterSection
from cluster.scenario.scenario import Scenario
from cluster.scenario.workload_sections import Scaling
from cluster.simulation.random_streams import stream
from cluster.simulation.recorded_arrivals import (
    RecordedPool,
    check_demand,
    check_start,
    first_demand,
    tenants_in_window,
)
from cluster.simulation.tenant_pools import PlanPool, Source, TenantPool
from plb import ConflictError, UnknownNameError
from plb.array_types import Bool, Float, Int
from plb.model import Role
from workloads.trace import MetricInfo, TraceSet, concatenate

LOWER_DENSITY = "a lower workload.density or more nodes"
SECONDS_BETWEEN_RISES = 3600
"""While the density rises, tenants are admitted at least this often."""


class TenantAdmission:
    """Admits tenants of a pool, in its order, whenever the density is below the target.

    `targets`: promised demand of all tenants in the metric in its unit, at the start and at `end`; `limit`: (R,) limit
    that the demand of the first tenants must stay below.
    """

    def __init__(
        self,
        pool: TenantPool,
        rng: np.random.Generator,
        metric: int,
        targets: tuple[float, float],
        end: float,
        limit: Float,
    ) -> None:
        self._batches = pool.batches(rng)
        self._limit, self._demand = limit, np.zeros_like(limit)
        self._metric, self._targets, self._end = metric, targets, end
        self._parts: list[TraceSet] = []
        self._stock: Iterator[tuple[float, int]] = iter(())
        self._active: dict[int, float] = {}
        self._departures: list[tuple[int, int]] = []
        self._lifetime: list[int] = []
        self.arrival: list[int] = []

    def fill(self, time: int) -> list[int]:
        """Admit tenants until the target is reached, and return their numbers."""
        admitted = []
        density, target = sum(self._active.values()), self._target(time)
        while density < target:
            number, (weight, life) = len(self._lifetime), self._next(density, time)
            self._lifetime.append(life)
            self._active[number] = weight
            density += weight
            admitted.append(number)
        return admitted

    def start(self, tenants: list[int], arrival: Int) -> None:
        """Set the arrival times of tenants."""
        for number, time in zip(tenants, arrival.tolist(), strict=True):
            self.arrival.append(time)
            heapq.heappush(self._departures, (time + self._lifetime[number], number))

    def run(self) -> None:
        """Replace tenants that depart before the end, and admit more as the target rises."""
        rises = iter(range(SECONDS_BETWEEN_RISES, math.ceil(self._end), SECONDS_BETWEEN_RISES))
        rise = next(rises, None) if self._targets[1] > self._targets[0] else None
        while True:
            departure = self._departures[0][0] if self._departures else math.inf
            time = int(min(departure, math.inf if rise is None else rise, math.ceil(self._end)))
            if time >= self._end:
                return
            if time == rise:
                rise = next(rises, None)
            while self._departures and self._departures[0][0] == time:
                del self._active[heapq.heappop(self._departures)[1]]
            admitted = self.fill(time)
            self.start(admitted, np.full(len(admitted), time))

    def _target(self, time: float) -> float:
        """Return the target of the promised demand at `time`, in units of the density's metric."""
        first, last = self._targets
        return first + (last - first) * time / self._end

    def traces(self) -> TraceSet:
        """Return the traces of all admitted tenants."""
        return concatenate(self._parts).select(np.arange(len(self._lifetime)))

    def _next(self, density: float, time: int) -> tuple[float, int]:
        tenant = next(self._stock, None)
        while tenant is None:
            batch = next(self._batches, None)
            if batch is None:
                raise DensityError(self._shortage(density, time))
            if not self.arrival and self._parts:  # still the initial fill
                self._check_parts(density)
            self._parts.append(batch)
            pairs = zip(promised(batch, self._metric).tolist(), batch.lifetime_seconds.tolist(), strict=True)
            self._stock = iter(pairs)
            tenant = next(self._stock, None)
        return tenant

    def _check_parts(self, density: float) -> None:
        """Raise `DensityError` if the admitted tenants already need more than the cluster has."""
        part, share = self._parts[-1], density / self._targets[0]
        self._demand += first_demand(part, part.tenants)
        why = f"the tenant density cannot be reached: with {share:.2g} of it reached,"
        why += f" the first {len(self._lifetime)} tenants need"
        check_demand(why, part.metrics, self._demand, self._limit, LOWER_DENSITY)

    def _shortage(self, density: float, time: int) -> str:
        share = density / self._target(time)
        return (
            f"the tenant density cannot be reached: all {len(self._lifetime)} tenants of the workload are used up "
            f"after {time / 86400:.2f} days, with {share:.0%} of the density reached; use more traces, a lower "
            "workload.density, fewer nodes or fewer run.days"
        )


def promised(traces: TraceSet, metric: int) -> Float:
    """Return MaxUsage times the number of replicas of every tenant, for one metric."""
    return traces.max_usage[:, metric].astype(np.float64) * traces.replicas


def limit_of(cluster: ClusterSection, metrics: Sequence[MetricInfo]) -> Float:
    """Return the load at which the whole cluster reaches its threshold, by metric; infinite without a capacity."""
    names = [metric.name for metric in metrics]
    total = [cluster.total_capacity(name) if name in cluster.capacity else np.inf for name in names]
    return np.asarray(cluster.violation_threshold * np.array(total))


@attrs.frozen(eq=False)
class TenantSequence:
    """Arrivals, departures and traces of tenants; tenant i is row i in all arrays."""

    traces: TraceSet
    """The tenants in the order of arrival."""
    arrival: Int
    """(T,) whole seconds since the start, ascending."""
    first: int
    """Number of tenants of the initial fill."""
    total_capacity: float
    """Capacity of the whole cluster for the density's metric."""
    density_metric: int
    """Column of the density's metric."""
    parent: Int = attrs.field(default=attrs.Factory(lambda self: np.full(len(self.arrival), -1), takes_self=True))
    """(T,) parent of each tenant in an affinity, or -1."""
    standing: Int = attrs.field(factory=lambda: np.empty(0, np.int64))
    """Nodes of instances that are placed from the start, one tenant after the other. Other tenants are placed when they
    arrive.
    """
    standing_start: Int = attrs.field(
        default=attrs.Factory(lambda self: np.zeros(len(self.arrival) + 1, np.int64), takes_self=True)
    )
    """(T + 1,) bounds of the tenants in `standing`."""
    owner: Int = attrs.field(default=attrs.Factory(lambda self: np.arange(len(self.arrival)), takes_self=True))
    """(T,) row of the tenant of which a row is a partition, perhaps itself. The rows of further partitions follow that
    of their tenant; only auto scaling admits them.
    """
    scaling: Int = attrs.field(default=attrs.Factory(lambda self: np.full(len(self.arrival), -1), takes_self=True))
    """(T,) number of the section of auto scaling of each row, or -1."""
    scales_instances: Bool = attrs.field(
        default=attrs.Factory(lambda self: np.zeros(len(self.arrival), np.bool_), takes_self=True)
    )
    """(T,) whether it scales the instances of the row."""
    created: Int = attrs.field(default=attrs.Factory(lambda self: self.arrival, takes_self=True))
    """(T,) whole seconds since the start at which each tenant was created, where its trace begins: its arrival,
    or below 0 if a recorded tenant is there from the start.
    """

    @property
    def is_tenant(self) -> Bool:
        """(T,) whether a row is a tenant, and not a further partition of one."""
        return np.asarray(self.owner == np.arange(len(self.owner)))

    @property
    def departure(self) -> Int:
        """(T,) whole seconds since the start."""
        return self.created + self.traces.lifetime_seconds

    @property
    def stands(self) -> Bool:
        """(T,) whether a tenant is placed from the start."""
        return np.diff(self.standing_start) > 0

    def nodes_of(self, tenant: int) -> list[int]:
        """Return the nodes on which a tenant is placed from the start."""
        first, last = self.standing_start[tenant : tenant + 2].tolist()
        return [int(node) for node in self.standing[first:last]]

    @property
    def weight(self) -> Float:
        """(T,) contribution of each tenant to the density."""
        return promised(self.traces, self.density_metric) / self.total_capacity

    def density(self, time: float) -> float:
        """Return the density just after `time` if every placement succeeds."""
        active = self.is_tenant & (self.arrival <= time) & (self.departure > time)
        return float(self.weight[active].sum())


def make_tenants(
    scenario: Scenario, source: Source, repeat: int = 0, *, cluster_of_tenants: ClusterSection | None = None
) -> TenantSequence:
    """Generate the tenants of a repeat, whose workload is `source`, or return the recorded or planned ones.

    `cluster_of_tenants`: nodes that host the same tenants instead of the nodes of the scenario, which the density
    counts.
    """
    workload = scenario.workload
    holding = scenario if cluster_of_tenants is None else attrs.evolve(scenario, cluster=cluster_of_tenants)
    metric = [info.name for info in source.metrics].index(workload.density_metric)
    of_scenario, total = (each.cluster.total_capacity(workload.density_metric) for each in (scenario, holding))
    if isinstance(source.pool, PlanPool):
        return _planned(source.pool, total, metric)
    if isinstance(source.pool, RecordedPool):
        return _recorded(scenario, holding, source.pool, total, metric)
    rng = stream(scenario.run.seed, "tenants", repeat)
    limit = limit_of(holding.cluster, source.metrics)
    end = scenario.run.days * 86400.0
    last = workload.density if workload.density_end is None else workload.density_end
    admission = TenantAdmission(
        source.pool, rng, metric, (workload.density * of_scenario, last * of_scenario), end, limit
    )
    fill = admission.fill(0)
    spread = np.arange(len(fill)) * scenario.run.fill_hours * 3600.0 / max(len(fill), 1)
    admission.start(fill, np.floor(spread).astype(np.int64))
    admission.run()
    traces, arrival = admission.traces(), np.array(admission.arrival, np.int64)
    _check_feasible(holding, traces, len(fill))
    order = np.argsort(arrival, kind="stable")
    chosen = traces.select(order)
    parent = _pairs(chosen, arrival[order], workload.pair_share, stream(scenario.run.seed, "pairs", repeat))
    sequence = TenantSequence(chosen, arrival[order], len(fill), total, metric, parent)
    return with_scaling(sequence, scenario.scaling) if scenario.scaling else sequence


def with_scaling(sequence: TenantSequence, scaling: Mapping[str, Scaling]) -> TenantSequence:
    """Return tenants of which scaled ones are instances, or have rows for further partitions."""
    traces = sequence.traces
    section_of = section_by_class(scaling, traces)
    of_tenant = section_of[traces.class_code]
    sections = [*scaling.values()]
    as_instances = np.array([section.mechanism == "instances" for section in sections] + [False])[of_tenant]
    rows = np.ones(len(of_tenant), np.int64)
    rows[~as_instances & (of_tenant >= 0)] = [
        sections[number].maximum for number in of_tenant[~as_instances & (of_tenant >= 0)].tolist()
    ]
    source = np.repeat(np.arange(len(rows)), rows)
    first = np.cumsum(rows) - rows
    number = np.arange(len(source)) - first[source]
    names = traces.tenant_names()[source].astype(np.object_)
    names[number > 0] = [
        f"{name}/{1 + place}" for name, place in zip(names[number > 0], number[number > 0], strict=True)
    ]
    doubled = set(names[number > 0]) & set(names[number == 0])
    if doubled:
        raise ConflictError(f"scaling: tenant {min(doubled)} has the name of a further partition of another tenant")
    taken = traces.select(source)
    role = taken.series_role.copy()
    role[as_instances[source][taken.series_tenant]] = Role.INSTANCE
    return TenantSequence(
        attrs.evolve(taken, tenant=np.array(names), series_role=role),
        sequence.arrival[source],
        int(rows[: sequence.first].sum()),
        sequence.total_capacity,
        sequence.density_metric,
        owner=first[source],
        scaling=of_tenant[source],
        scales_instances=as_instances[source],
        created=sequence.created[source],
    )


def section_by_class(scaling: Mapping[str, Scaling], traces: TraceSet) -> Int:
    """Return the number of the section of each class, (C,), or -1."""
    section_of = np.full(len(traces.classes), -1)
    has_roles = (traces.replicas > 1) & (traces.series_index[:, Role.INSTANCE] < 0)
    with_roles = {traces.classes[code] for code in np.unique(traces.class_code[has_roles]).tolist()}
    for number, (name, section) in enumerate(scaling.items()):
        matches = [index for index, name in enumerate(traces.classes) if fnmatchcase(name, section.tenant_class)]
        if not matches:
            raise UnknownNameError("tenant class", section.tenant_class, traces.classes, f"scaling.{name}.tenant_class")
        if section.metric not in traces.metric_names:
            raise UnknownNameError("metric", section.metric, traces.metric_names, f"scaling.{name}.metric")
        for index in matches:
            class_name = traces.classes[index]
            if section_of[index] >= 0:
                first = [*scaling][section_of[index]]
                raise ConflictError(f"scaling.{name}: class {class_name} is already scaled by scaling.{first}")
            if section.mechanism == "instances" and class_name in with_roles:
                raise ConflictError(
                    f"scaling.{name}: tenants of class {class_name} have several replicas with roles; instances are "
                    'scaled of tenants with one replica, partitions (mechanism = "partitions") of all'
                )
            section_of[index] = number
    return section_of


def _planned(pool: PlanPool, total: float, metric: int) -> TenantSequence:
    """Return the tenants of a plan, all placed from the start."""
    tenants = pool.tenants
    count, standing = tenants.traces.tenants, pool.place[tenants.node]
    arrival = np.zeros(count, np.int64)
    return TenantSequence(
        tenants.traces, arrival, count, total, metric, standing=standing, standing_start=tenants.start
    )


def _recorded(scenario: Scenario, holding: Scenario, pool: RecordedPool, total: float, metric: int) -> TenantSequence:
    """Return the tenants of the window of a run, at their recorded times."""
    traces, created = tenants_in_window(scenario, pool)
    _check_replicas(holding, traces)
    check_start(holding, traces, created, limit_of(holding.cluster, traces.metrics))
    first = int((created <= 0).sum())
    sequence = TenantSequence(traces, np.maximum(created, 0), first, total, metric, created=created)
    return with_scaling(sequence, scenario.scaling) if scenario.scaling else sequence


def _pairs(traces: TraceSet, arrival: Int, share: float, rng: np.random.Generator) -> Int:
    """Return the parent of each tenant, or -1. Pairs are random among simultaneous tenants with equal replicas."""
    parent = np.full(len(arrival), -1)
    waiting: dict[tuple[int, int], int] = {}
    pairs = rng.random(len(arrival)) < share
    for tenant in np.flatnonzero(pairs & (traces.series_index[:, Role.INSTANCE] < 0)).tolist():
        alike = int(arrival[tenant]), int(traces.replicas[tenant])
        first = waiting.pop(alike, None)
        if first is None:
            waiting[alike] = tenant
        else:
            parent[tenant] = first
    return parent


def _check_replicas(scenario: Scenario, traces: TraceSet) -> None:
    nodes = scenario.cluster.nodes
    most = int(traces.replicas.max())
    if most > nodes:
        name = traces.class_names()[int(traces.replicas.argmax())]
        raise DensityError(f"tenants of class {name} have {most} replicas, but the cluster only {nodes} nodes")


def _check_feasible(scenario: Scenario, traces: TraceSet, first: int) -> None:
    _check_replicas(scenario, traces)
    limit = limit_of(scenario.cluster, traces.metrics)
    why = f"a tenant density of {scenario.workload.density:g} cannot be reached: the first {first} tenants need"
    check_demand(why, traces.metrics, first_demand(traces, first), limit, LOWER_DENSITY)
