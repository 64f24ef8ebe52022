"""The tenants that all policies face: arrivals and departures, known before any policy runs ([1] section 8.1).

Generated arrivals assume that every placement succeeds: the cluster is filled until the tenant density is reached, and
after each departure new tenants are admitted until it is reached again. Recorded arrivals come from the traces. The
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
from plb.validation import check_known
from workloads.trace import MetricInfo, TraceSet, concatenate

LOWER_DENSITY = "a lower workload.density or more nodes"
SECONDS_BETWEEN_RISES = 3600
"""While the density rises, tenants are admitted at least this often."""


class TenantAdmission:
    """Admits tenants of a pool, in its order, whenever the density is below the target.

    `metric`: index of the density's metric; `targets`: promised demand of all tenants in its unit, at the start and at
    `end`, the end of the run; `limit`: (R,) the demand of the first tenants must stay below it. Times are seconds since
    the start, and a tenant has its number in the order of admission.
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
        """Begin without tenants. `metric`: index of the density's metric; `limit`: (R,) load that fills the cluster.

        `targets`: promised demand in the metric at the begin and the end of the run, which lasts `end` seconds.
        """
        self._batches = pool.batches(rng)
        self._limit, self._demand = limit, np.zeros_like(limit)
        self._metric, self._targets, self._end = metric, targets, end
        self._parts: list[TraceSet] = []
        """The batches of the pool so far."""
        self._stock: Iterator[tuple[float, int]] = iter(())
        """Promised demand and lifetime in seconds of the tenants of the last batch that are left."""
        self._active: dict[int, float] = {}
        """Promised demand of the tenants that are present, by number."""
        self._departures: list[tuple[int, int]] = []
        """A heap of departure times and numbers of the present tenants."""
        self._lifetime: list[int] = []
        """Seconds, by number."""
        self.arrival: list[int] = []
        """Arrival times, by number."""

    def fill(self, time: int) -> list[int]:
        """Admit tenants until the target at `time` is reached, and return their numbers."""
        admitted = []
        total, target = sum(self._active.values()), self._target(time)
        while total < target:
            number, (demand, lifetime) = len(self._lifetime), self._next(total, time)
            self._lifetime.append(lifetime)
            self._active[number] = demand
            total += demand
            admitted.append(number)
        return admitted

    def start(self, numbers: list[int], arrival: Int) -> None:
        """Set the `arrival` times, (m,) seconds, of the tenants `numbers`, (m,), and with them their departures."""
        for number, time in zip(numbers, arrival.tolist(), strict=True):
            self.arrival.append(time)
            heapq.heappush(self._departures, (time + self._lifetime[number], number))

    def run(self) -> None:
        """Replace tenants that depart before the end, and admit more as the target rises, hour by hour."""
        rise_times = iter(range(SECONDS_BETWEEN_RISES, math.ceil(self._end), SECONDS_BETWEEN_RISES))
        next_rise = next(rise_times, None) if self._targets[1] > self._targets[0] else None
        while True:
            departure = self._departures[0][0] if self._departures else math.inf
            time = int(min(departure, math.inf if next_rise is None else next_rise, math.ceil(self._end)))
            if time >= self._end:
                return
            if time == next_rise:
                next_rise = next(rise_times, None)
            while self._departures and self._departures[0][0] == time:
                del self._active[heapq.heappop(self._departures)[1]]
            admitted = self.fill(time)
            self.start(admitted, np.full(len(admitted), time))

    def _target(self, time: float) -> float:
        """Return the promised demand of all tenants to reach at `time`, in the unit of the density's metric."""
        first, last = self._targets
        return first + (last - first) * time / self._end

    def traces(self) -> TraceSet:
        """Return the traces of all admitted tenants."""
        return concatenate(self._parts).select(np.arange(len(self._lifetime)))

    def _next(self, total: float, time: int) -> tuple[float, int]:
        """Return promised demand and lifetime, in seconds, of the next tenant of the pool.

        Raise `DensityError` if none is left; its message has the promised demand so far, `total`, and the time.
        """
        tenant = next(self._stock, None)
        while tenant is None:
            batch = next(self._batches, None)
            if batch is None:
                raise DensityError(self._shortage(total, time))
            if not self.arrival and self._parts:  # still the initial fill
                self._check_parts(total)
            self._parts.append(batch)
            pairs = zip(promised(batch, self._metric).tolist(), batch.lifetime_seconds.tolist(), strict=True)
            self._stock = iter(pairs)
            tenant = next(self._stock, None)
        return tenant

    def _check_parts(self, total: float) -> None:
        """Raise `DensityError` if the tenants so far, who promise `total`, need more than the cluster has."""
        part, share = self._parts[-1], total / self._targets[0]
        self._demand += first_demand(part, part.tenants)
        why = f"the tenant density cannot be reached: with {share:.2g} of it reached,"
        why += f" the first {len(self._lifetime)} tenants need"
        check_demand(why, part.metrics, self._demand, self._limit, LOWER_DENSITY)

    def _shortage(self, total: float, time: int) -> str:
        """Return the message that the pool is used up at `time`, with the promised demand `total` reached."""
        share = total / self._target(time)
        return (
            f"the tenant density cannot be reached: all {len(self._lifetime)} tenants of the workload are used up "
            f"after {time / 86400:.2f} days, with {share:.0%} of the density reached; use more traces, a lower "
            "workload.density, fewer nodes or fewer run.days"
        )


def promised(traces: TraceSet, metric: int) -> Float:
    """Return the promised demand of every tenant in a metric, (T,): MaxUsage times the number of replicas."""
    return traces.max_usage[:, metric].astype(np.float64) * traces.replicas


def limit_of(cluster: ClusterSection, metrics: Sequence[MetricInfo]) -> Float:
    """Return the load at which the whole cluster reaches its threshold, (R,); infinite without a capacity."""
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
    """(T,) row of the parent of each tenant in an affinity, or -1."""
    standing: Int = attrs.field(factory=lambda: np.empty(0, np.int64))
    """Indices of the nodes of the instances that are placed from the start, one tenant after the other. Other tenants
    are placed when they arrive.
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
    """(T,) number of the scenario's section of auto scaling for each row, or -1."""
    scales_instances: Bool = attrs.field(
        default=attrs.Factory(lambda self: np.zeros(len(self.arrival), np.bool_), takes_self=True)
    )
    """(T,) whether auto scaling changes the instances of the row, and not its partitions."""
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
        """(T,) departure of each tenant, in whole seconds since the start."""
        return self.created + self.traces.lifetime_seconds

    @property
    def stands(self) -> Bool:
        """(T,) whether the tenant of each row is placed from the start."""
        return np.diff(self.standing_start) > 0

    def nodes_of(self, tenant: int) -> list[int]:
        """Return the indices of the nodes on which the tenant of a row is placed from the start."""
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
    """Generate the tenants of a repeat, whose workload is `source`, or return its recorded or planned tenants.

    `cluster_of_tenants`: nodes that host these tenants instead of the nodes of the scenario, which define the density.
    """
    workload = scenario.workload
    hosting = scenario if cluster_of_tenants is None else attrs.evolve(scenario, cluster=cluster_of_tenants)
    metric = [info.name for info in source.metrics].index(workload.density_metric)
    scenario_capacity, hosting_capacity = (
        cluster.total_capacity(workload.density_metric) for cluster in (scenario.cluster, hosting.cluster)
    )
    if isinstance(source.pool, PlanPool):
        return _planned(source.pool, hosting_capacity, metric)
    if isinstance(source.pool, RecordedPool):
        return _recorded(scenario, hosting, source.pool, hosting_capacity, metric)
    rng = stream(scenario.run.seed, "tenants", repeat)
    limit = limit_of(hosting.cluster, source.metrics)
    end = scenario.run.days * 86400.0
    density_end = workload.density if workload.density_end is None else workload.density_end
    admission = TenantAdmission(
        source.pool, rng, metric, (workload.density * scenario_capacity, density_end * scenario_capacity), end, limit
    )
    initial_tenants = admission.fill(0)
    initial_arrivals = np.arange(len(initial_tenants)) * scenario.run.fill_hours * 3600.0 / max(len(initial_tenants), 1)
    admission.start(initial_tenants, np.floor(initial_arrivals).astype(np.int64))
    admission.run()
    traces, arrival = admission.traces(), np.array(admission.arrival, np.int64)
    _check_feasible(hosting, traces, len(initial_tenants))
    by_arrival = np.argsort(arrival, kind="stable")
    sorted_traces = traces.select(by_arrival)
    parent = _pairs(sorted_traces, arrival[by_arrival], workload.pair_share, stream(scenario.run.seed, "pairs", repeat))
    sequence = TenantSequence(
        sorted_traces, arrival[by_arrival], len(initial_tenants), hosting_capacity, metric, parent
    )
    return with_scaling(sequence, scenario.scaling) if scenario.scaling else sequence


def with_scaling(sequence: TenantSequence, scaling: Mapping[str, Scaling]) -> TenantSequence:
    """Return the tenants; scaled tenants have rows for their further partitions, or instances as replicas.

    `scaling`: the sections of auto scaling by name.
    """
    traces = sequence.traces
    section_of = section_by_class(scaling, traces)
    section_of_tenant = section_of[traces.class_code]
    sections = [*scaling.values()]
    scales_instances = np.array([section.mechanism == "instances" for section in sections] + [False])[section_of_tenant]
    row_counts = np.ones(len(section_of_tenant), np.int64)
    row_counts[~scales_instances & (section_of_tenant >= 0)] = [
        sections[section].maximum
        for section in section_of_tenant[~scales_instances & (section_of_tenant >= 0)].tolist()
    ]
    tenant_of_row = np.repeat(np.arange(len(row_counts)), row_counts)
    first_row = np.cumsum(row_counts) - row_counts
    partition_number = np.arange(len(tenant_of_row)) - first_row[tenant_of_row]
    names = traces.tenant_names()[tenant_of_row].astype(np.object_)
    names[partition_number > 0] = [
        f"{name}/{1 + number}"
        for name, number in zip(names[partition_number > 0], partition_number[partition_number > 0], strict=True)
    ]
    duplicates = set(names[partition_number > 0]) & set(names[partition_number == 0])
    if duplicates:
        raise ConflictError(f"scaling: tenant {min(duplicates)} has the name of a further partition of another tenant")
    row_traces = traces.select(tenant_of_row)
    series_role = row_traces.series_role.copy()
    series_role[scales_instances[tenant_of_row][row_traces.series_tenant]] = Role.INSTANCE
    return TenantSequence(
        attrs.evolve(row_traces, tenant=np.array(names), series_role=series_role),
        sequence.arrival[tenant_of_row],
        int(row_counts[: sequence.first].sum()),
        sequence.total_capacity,
        sequence.density_metric,
        owner=first_row[tenant_of_row],
        scaling=section_of_tenant[tenant_of_row],
        scales_instances=scales_instances[tenant_of_row],
        created=sequence.created[tenant_of_row],
    )


def section_by_class(scaling: Mapping[str, Scaling], traces: TraceSet) -> Int:
    """Return the number of the section of auto scaling of each tenant class, (C,), or -1."""
    section_of = np.full(len(traces.classes), -1)
    has_roles = (traces.replicas > 1) & (traces.series_index[:, Role.INSTANCE] < 0)
    with_roles = {traces.classes[code] for code in np.unique(traces.class_code[has_roles]).tolist()}
    for number, (name, section) in enumerate(scaling.items()):
        class_codes = [
            class_code for class_code, name in enumerate(traces.classes) if fnmatchcase(name, section.tenant_class)
        ]
        if not class_codes:
            raise UnknownNameError("tenant class", section.tenant_class, traces.classes, f"scaling.{name}.tenant_class")
        check_known("metric", section.metric, traces.metric_names, f"scaling.{name}.metric")
        for class_code in class_codes:
            class_name = traces.classes[class_code]
            if section_of[class_code] >= 0:
                first_section = [*scaling][section_of[class_code]]
                raise ConflictError(f"scaling.{name}: class {class_name} is already scaled by scaling.{first_section}")
            if section.mechanism == "instances" and class_name in with_roles:
                raise ConflictError(
                    f"scaling.{name}: tenants of class {class_name} have several replicas with roles; instances are "
                    'scaled of tenants with one replica, partitions (mechanism = "partitions") of all'
                )
            section_of[class_code] = number
    return section_of


def _planned(pool: PlanPool, total_capacity: float, metric: int) -> TenantSequence:
    """Return the tenants of a plan, all placed from the start.

    `total_capacity`: capacity of the cluster in the density's metric, whose index is `metric`.
    """
    tenants = pool.tenants
    tenant_count, nodes = tenants.traces.tenants, pool.place[tenants.node]
    arrival = np.zeros(tenant_count, np.int64)
    return TenantSequence(
        tenants.traces, arrival, tenant_count, total_capacity, metric, standing=nodes, standing_start=tenants.start
    )


def _recorded(
    scenario: Scenario, hosting: Scenario, pool: RecordedPool, total_capacity: float, metric: int
) -> TenantSequence:
    """Return the tenants of the window of a run, at their recorded times.

    `hosting`: the scenario with the nodes that host the tenants; `total_capacity`: their capacity in the density's
    metric, whose index is `metric`.
    """
    traces, created = tenants_in_window(scenario, pool)
    _check_replicas(hosting, traces)
    check_start(hosting, traces, created, limit_of(hosting.cluster, traces.metrics))
    initial_tenants = int((created <= 0).sum())
    sequence = TenantSequence(traces, np.maximum(created, 0), initial_tenants, total_capacity, metric, created=created)
    return with_scaling(sequence, scenario.scaling) if scenario.scaling else sequence


def _pairs(traces: TraceSet, arrival: Int, share: float, rng: np.random.Generator) -> Int:
    """Return the row of the parent of each tenant, (T,), or -1.

    `share` of the tenants take part, at random; a parent and its child have equal replicas and arrive, (T,), together.
    """
    parent = np.full(len(arrival), -1)
    waiting: dict[tuple[int, int], int] = {}
    takes_part = rng.random(len(arrival)) < share
    for tenant in np.flatnonzero(takes_part & (traces.series_index[:, Role.INSTANCE] < 0)).tolist():
        arrival_and_replicas = int(arrival[tenant]), int(traces.replicas[tenant])
        partner = waiting.pop(arrival_and_replicas, None)
        if partner is None:
            waiting[arrival_and_replicas] = tenant
        else:
            parent[tenant] = partner
    return parent


def _check_replicas(scenario: Scenario, traces: TraceSet) -> None:
    """Raise `DensityError` if a tenant has more replicas than the scenario has nodes."""
    nodes = scenario.cluster.nodes
    most_replicas = int(traces.replicas.max())
    if most_replicas > nodes:
        name = traces.class_names()[int(traces.replicas.argmax())]
        raise DensityError(f"tenants of class {name} have {most_replicas} replicas, but the cluster only {nodes} nodes")


def _check_feasible(scenario: Scenario, traces: TraceSet, initial_tenants: int) -> None:
    """Raise `DensityError` if the cluster cannot hold the `initial_tenants` first tenants at their first step."""
    _check_replicas(scenario, traces)
    limit = limit_of(scenario.cluster, traces.metrics)
    why = (
        f"a tenant density of {scenario.workload.density:g} cannot be reached: the first {initial_tenants} tenants need"
    )
    check_demand(why, traces.metrics, first_demand(traces, initial_tenants), limit, LOWER_DENSITY)
