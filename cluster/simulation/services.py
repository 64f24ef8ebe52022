"""What the engine of a run gets: metrics, nodes, services with the expected demand of new replicas, applications."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeAlias

import attrs
import numpy as np

from cluster.scenario.cluster_sections import ClusterSection
from cluster.scenario.scenario import Scenario
from cluster.scenario.workload_sections import ApplicationsSection, Known
from cluster.simulation.ledger import Ledger, Metering
from cluster.simulation.run_tables import ApplicationTotals
from cluster.simulation.tenancies import Tenancy
from cluster.simulation.tenant_arrivals import TenantSequence
from cluster.simulation.tenant_pools import Source
from plb import Application, Metric, Node, PlacementAndLoadBalancing, Service, UnknownNameError
from plb.array_types import Float, Int
from plb.engine_extensions import among
from plb.model import Role
from plb.model.service import AMOUNTS
from plb.risk import DemandHistory
from plb.risk.estimators import estimator_of, reads_limits
from plb.validation import check_known

NO_APPLICATION = -1


@attrs.frozen(eq=False)
class TenantApplications:
    """The applications of the tenants of a run."""

    applications: tuple[Application, ...]
    """All applications."""
    of_tenant: Int
    """(T,) index of the application of each tenant, or `NO_APPLICATION`."""

    @classmethod
    def of(cls, sections: Mapping[str, ApplicationsSection], sequence: TenantSequence) -> TenantApplications:
        """Return the applications that `sections`, by name, form of the tenants of `sequence`."""
        applications: list[Application] = []
        traces, follows_leader = sequence.traces, (sequence.parent >= 0) | ~sequence.is_tenant
        application_of_row = np.full(len(sequence.arrival), NO_APPLICATION)
        for name, section in sections.items():
            _check_metrics(name, section, traces.metric_names)
            class_matches = np.array([fnmatchcase(class_, section.tenant_class) for class_ in traces.classes], np.bool_)
            if not class_matches.any():
                key = f"applications.{name}.tenant_class"
                raise UnknownNameError("tenant class", section.tenant_class, traces.classes, key)
            member_rows = np.flatnonzero(
                class_matches[traces.class_code] & (application_of_row == NO_APPLICATION) & ~follows_leader
            )
            group_of_member = np.arange(len(member_rows)) // (section.tenants or max(1, len(member_rows)))
            application_of_row[member_rows] = len(applications) + group_of_member
            group_count = int(group_of_member[-1]) + 1 if len(member_rows) else 0
            numbers = (
                [""]
                if group_count == 1 and not section.tenants
                else [f"/{number + 1}" for number in range(group_count)]
            )
            applications += [section.named(f"{name}{number}") for number in numbers]
        leader_row = np.where(sequence.parent >= 0, sequence.parent, sequence.owner)
        application_of_row[follows_leader] = application_of_row[leader_row[follows_leader]]
        return cls(tuple(applications), application_of_row)

    def application_of(self, tenant: int) -> Application | None:
        """Return the application of the tenant of a row; None if it has none."""
        index = int(self.of_tenant[tenant])
        return None if index == NO_APPLICATION else self.applications[index]


def _check_metrics(name: str, section: ApplicationsSection, metrics: Sequence[str]) -> None:
    """Raise an error if the section of applications `name` has an amount in a metric that is missing."""
    for field in AMOUNTS:
        for metric in getattr(section, field):
            check_known("metric", metric, metrics, f"applications.{name}.{field}")


class ApplicationUse:
    """The nodes and loads that applications use, metering by metering; replicas on their way out do not count.

    `nodes`: number of nodes; `metrics`: names of the metrics.
    """

    def __init__(self, applications: TenantApplications, nodes: int, metrics: Sequence[str]) -> None:
        """Begin without meterings; `nodes`: number of nodes of the cluster."""
        count = len(applications.applications)
        self._applications, self._metrics = applications, metrics
        self._meterings = 0
        self._nodes, self._most_nodes = np.zeros(count), np.zeros(count, np.int64)
        """Nodes of each application: the sum and the maximum over the meterings, (A,)."""
        self._load, self._largest, self._largest_on_node = (np.zeros((count, len(metrics))) for _ in range(3))
        """Load of each application: sum and maximum over the meterings, and maximum on a node, (A, R)."""
        self._node_count = nodes

    def meter(self, ledger: Ledger, metering: Metering) -> None:
        """Add the use of nodes and the loads at a metering."""
        if not self._applications.applications:
            return
        application_of_row = self._applications.of_tenant[ledger.tenant[metering.rows]]
        is_counted = (application_of_row != NO_APPLICATION) & ~ledger.leaving[metering.rows]
        rows, application_of_row = metering.rows[is_counted], application_of_row[is_counted]
        shape = (len(self._applications.applications), self._node_count)
        uses_node, load = np.zeros(shape, np.bool_), np.zeros((*shape, len(self._metrics)))
        uses_node[application_of_row, ledger.node[rows]] = True
        np.add.at(load, (application_of_row, ledger.node[rows]), metering.demand[is_counted])
        self._meterings += 1
        self._nodes += uses_node.sum(axis=1)
        np.maximum(self._most_nodes, uses_node.sum(axis=1), out=self._most_nodes)
        self._load += load.sum(axis=1)
        np.maximum(self._largest, load.sum(axis=1), out=self._largest)
        np.maximum(self._largest_on_node, load.max(axis=1, initial=0.0), out=self._largest_on_node)

    def totals(self) -> dict[str, ApplicationTotals]:
        """Return means and maxima over the meterings, by application."""
        meterings = max(1, self._meterings)
        return {
            application.name: ApplicationTotals(
                float(self._nodes[index] / meterings),
                int(self._most_nodes[index]),
                self._by_metric(self._load[index] / meterings),
                self._by_metric(self._largest[index]),
                self._by_metric(self._largest_on_node[index]),
            )
            for index, application in enumerate(self._applications.applications)
        }

    def _by_metric(self, values: np.ndarray) -> dict[str, float]:
        """Return values, (R,), by metric."""
        return dict(zip(self._metrics, values.tolist(), strict=True))


class Services:
    """The services of an engine, created on demand; a tenant is a row of `sequence`.

    All tenants of a class with the same replicas and limits share a service. Limits are MaxUsage, if the engine's
    estimator uses limits. Tenants of different applications have different services. Each tenant of an affinity pair
    has its own service, because an affinity relates services. Each partition of a scaled tenant has its own service,
    because its number of instances changes.

    `percentile`: percentile of past demand that a new replica is expected to have; `knowledge`: how much the engine
    knows of `applications`.
    """

    def __init__(
        self,
        engine: PlacementAndLoadBalancing,
        sequence: TenantSequence,
        history: DemandHistory | None,
        percentile: float,
        applications: TenantApplications,
        knowledge: Known,
    ) -> None:
        """Begin without services; a new replica has the `percentile` of the loads of `history` as its load."""
        self._engine, self._traces = engine, sequence.traces
        # lists, because single elements of arrays take long to read
        self._class: list[int] = sequence.traces.class_code.tolist()
        self._replicas: list[int] = sequence.traces.replicas.tolist()
        self._stateful: list[bool] = (sequence.traces.series_index[:, Role.INSTANCE] < 0).tolist()
        self._parent: list[int] = sequence.parent.tolist()
        self._parents = {*self._parent}
        self._scaled: list[bool] = (sequence.scaling >= 0).tolist()
        self._expected = partial(initial_demand, history, percentile)
        self._applications, self._knows = applications, knowledge
        self._created_applications: set[str] = set()
        self._created: set[str] = set()
        """Names of the services that the engine has."""
        self._services: dict[int, Service] = {}
        """The services of scaled tenants, by row."""
        self._uses_limits = reads_limits(estimator_of(engine.config.estimator))
        self._limits: dict[str, dict[tuple[float, ...], int]] = {}
        """A number for each combination of limits, which has its own service, by the service's name without limits."""

    def of(self, tenant: int) -> str:
        """Return the name of a tenant's service, after creating the service if the engine has none of this name."""
        traces = self._traces
        tenant_class = traces.classes[self._class[tenant]]
        stateful, replicas = self._stateful[tenant], self._replicas[tenant]
        name = f"{tenant_class}/{replicas}" if stateful else f"{tenant_class}/{replicas}/instances"
        limits: dict[str, float] = {}
        if self._uses_limits:
            limits = dict(zip(traces.metric_names, traces.max_usage[tenant].tolist(), strict=True))
            name += self._suffix(name, tuple(limits.values()))
        application = self._application_of(tenant)
        if application is not None:
            name = f"{name}/{application.name}"
        if self._parent[tenant] >= 0 or tenant in self._parents or self._scaled[tenant]:
            name = f"{name}/{traces.tenant[tenant]}"
        if name not in self._created:
            self._create(tenant, name, limits, application)
        return name

    def _create(self, tenant: int, name: str, limits: Mapping[str, float], application: Application | None) -> None:
        """Add service `name` of a tenant, with `limits` by metric, after its application and its parent's service."""
        if application is not None and application.name not in self._created_applications:
            self._engine.update_application(application)
            self._created_applications.add(application.name)
        tenant_class, stateful = self._traces.classes[self._class[tenant]], self._stateful[tenant]
        roles = (Role.PRIMARY, Role.SECONDARY) if stateful else (Role.INSTANCE,)
        service = Service(
            name,
            stateful=stateful,
            tenant_class=tenant_class,
            target_replicas=self._replicas[tenant],
            default_load={role: self._expected(tenant_class, role, self._traces.metric_names) for role in roles},
            limits=limits,
            affinity_to=self.of(self._parent[tenant]) if self._parent[tenant] >= 0 else None,
            application=None if application is None else application.name,
        )
        self._engine.update_service(service)
        if self._scaled[tenant]:
            self._services[tenant] = service
        self._created.add(name)

    def _application_of(self, tenant: int) -> Application | None:
        """Return the application of a tenant as the engine knows it; None if it knows none."""
        application = None if self._knows is Known.NONE else self._applications.application_of(tenant)
        if application is not None and self._knows is Known.WITHOUT_RESERVATIONS:
            return attrs.evolve(application, node_reservation={})
        return application

    def scale(self, tenant: int, instances: int) -> None:
        """Set the number of instances of a tenant that is scaled."""
        self._services[tenant] = attrs.evolve(self._services[tenant], target_replicas=instances)
        self._engine.update_service(self._services[tenant])

    def remove(self, tenant: int) -> None:
        """Remove the service of a scaled tenant; other services stay."""
        service = self._services.pop(tenant, None)
        if service is not None:
            self._engine.remove_service(service.name)
            self._created.discard(service.name)

    def _suffix(self, name: str, limits: tuple[float, ...]) -> str:
        """Return a suffix of service `name` for `limits`, MaxUsage by metric: empty for the first limits, then /2."""
        numbers = self._limits.setdefault(name, {})
        number = numbers.setdefault(limits, len(numbers))
        return f"/{number + 1}" if number else ""

    def tenancy(self, tenant: int, partition: str) -> Tenancy:
        """Return the properties of a tenant that failover depends on; `partition`: the name of its partition."""
        return Tenancy(tenant, partition, self.of(tenant), self._replicas[tenant], self._stateful[tenant])


def initial_demand(
    history: DemandHistory | None, percentile: float, tenant_class: str, role: Role, metrics: tuple[str, ...]
) -> Mapping[str, float]:
    """Return the expected demand of a replica without a report by metric, in user units; empty without a history.

    It is a `percentile` of the first demand of past tenants of the class and role, else of the class, else of all.
    """
    if history is None:
        return {}
    same_class = history.tenant_class == history.class_code(tenant_class)
    for is_chosen in (same_class & (history.role == role), same_class, np.ones(len(history), np.bool_)):
        if is_chosen.any():
            demand = np.percentile(history.initial[is_chosen], percentile, axis=0)
            return {name: float(demand[history.metrics.index(name)]) for name in metrics}
    return {}


def metrics_of(scenario: Scenario, source: Source) -> tuple[Metric, ...]:
    """Return the workload's metrics as metrics of the engine, all with equal weight ([1] section 8.2).

    The quantum of a metric without capacity is about 2^-10 of the largest trace of the history, or of MaxUsage without
    a history, so that the load of a whole cluster stays within the engine's range.
    """
    _check_metric_names(scenario, source)
    threshold = scenario.cluster.violation_threshold
    largest = source.largest_demand()
    return tuple(
        Metric(
            info.name,
            violation_threshold=threshold,
            trend=info.trend,
            quantum=None if info.name in scenario.cluster.capacity else coarse_quantum(largest[info.name]),
            **scenario.metrics.get(info.name, {}),
        )
        for info in source.metrics
    )


def _check_metric_names(scenario: Scenario, source: Source) -> None:
    """Raise an error if the scenario or a policy configures a metric that the workload lacks."""
    names = [info.name for info in source.metrics]
    metrics_by_key = {"metrics": scenario.metrics}
    metrics_by_key |= {
        f"policies.{policy}.metrics": fields.get("metrics", {}) for policy, fields in scenario.policies.items()
    }
    for key, metrics in metrics_by_key.items():
        for name in metrics:
            check_known("metric", name, names, key)


def coarse_quantum(largest: float) -> float:
    """Return a quantum, a power of two of at most 1, such that `largest` is 2^10 to 2^11 quanta if that is possible."""
    return min(1.0, 2.0 ** (math.frexp(largest)[1] - 11)) if largest > 0 else 1.0


def nodes_of(cluster: ClusterSection, metrics: tuple[Metric, ...]) -> list[Node]:
    """Return the nodes of a cluster; node i is in upgrade domain i mod U and, roughly, in fault domain i mod F.

    If U and F have a common factor (10 and 5), ``i mod F`` would put each upgrade domain into few fault domains. So the
    fault domain is shifted by one each time the pairs begin to repeat.
    """
    metric_names = {metric.name for metric in metrics}
    digits = len(str(cluster.nodes - 1))
    period = math.lcm(cluster.upgrade_domains, cluster.fault_domains)
    return [
        Node(
            f"n{number:0{digits}d}",
            capacities={name: value for name, value in capacity.items() if name in metric_names},
            upgrade_domain=f"ud{number % cluster.upgrade_domains}",
            fault_domain=f"fd:/fd{(number + number // period) % cluster.fault_domains}",
        )
        for number, capacity in enumerate(cluster.node_capacities)
    ]


def limits_of(cluster: ClusterSection, metrics: tuple[Metric, ...]) -> tuple[Float, Float]:
    """Return capacities and violation thresholds of all nodes, both (H, R); infinite without a capacity."""
    capacity = np.array([[row.get(metric.name, np.inf) for metric in metrics] for row in cluster.node_capacities])
    return capacity, capacity * np.array([metric.violation_threshold for metric in metrics])


EngineOf: TypeAlias = Callable[..., PlacementAndLoadBalancing]
"""Returns an engine for settings, a `seed`, a `history` and extensions, if there are any."""


def make_engine(
    scenario: Scenario, source: Source, policy: str, seed: int, engine_of: EngineOf = PlacementAndLoadBalancing
) -> PlacementAndLoadBalancing:
    """Return an engine for a policy of the scenario, with its nodes.

    `source`: the workload; `seed`: of the engine.
    """
    metrics = metrics_of(scenario, source)
    config = scenario.config(policy, metrics)
    extensions = among(scenario.extension_objects, config) if scenario.extensions else {}
    engine = engine_of(config, seed=seed, history=source.history, **extensions)
    for node in nodes_of(scenario.cluster, metrics):
        engine.update_node(node)
    return engine
