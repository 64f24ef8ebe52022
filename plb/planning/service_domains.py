"""Service domains: services that share a metric, an affinity or an application with limits are searched together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE
from plb.model import Service
from plb.model.outcome import Immovable
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState


@attrs.frozen
class ServiceDomain:
    """Services of a common search."""

    key: int
    """Index of the first of its services, by which the scheduler knows it again."""
    services: tuple[int, ...]
    """Indices of its services, in the order in which they were made."""
    metrics: frozenset[str]
    """Names of the metrics that any of them has."""


class ServiceDomains:
    """The service domains of a cluster; they are found again only after its services have changed."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._domains: list[ServiceDomain] = []
        self._version = -1
        """Version of the services for which the domains hold."""
        self._undivided = -1, False
        """Version of the services, and whether they are one domain."""

    def found(self) -> list[ServiceDomain]:
        """Return the service domains of the present services, kept until services change."""
        state = self._state
        if self._version != state.services_version:
            limited = state.applications.reserved_metrics()
            self._domains = service_domains(state.living_services(), state.config.metric_names, limited)
            self._version = state.services_version
        return self._domains

    def units(self) -> list[ServiceDomain | None]:
        """Return the units of separate searches: the service domains, or a single None if all services are one."""
        if self._undivided[0] != self._state.services_version:
            table = self._state.service_table
            shares_a_metric = bool(table.has_metric[table.living].all(axis=0).any())
            self._undivided = self._state.services_version, shares_a_metric
        domains = [] if self._undivided[1] else self.found()
        return [*domains] if len(domains) > 1 else [None]

    def unit_of(self, service: int) -> ServiceDomain | None:
        """Return the unit of a separate search to which the service with this index belongs."""
        return next(unit for unit in self.units() if unit is None or service in unit.services)


def service_domains(
    services: Mapping[int, Service],
    all_metrics: Sequence[str],
    limited: Mapping[str, Collection[str]],
) -> list[ServiceDomain]:
    """Return the domains of `services`, by index, in the order of the first service of each.

    `all_metrics`: names of the metrics of a service that names none. `limited`: the applications with limits, whose
    services are one domain, and the metrics that each reserves: services with such a metric belong to the domain too.
    """
    indices = [*services]
    position_of = {service.name: position for position, service in enumerate(services.values())}
    root = list(range(len(indices)))

    def find(position: int) -> int:
        """Return the root of the set of the service at `position`, by union-find."""
        while root[position] != position:
            root[position] = root[root[position]]
            position = root[position]
        return position

    def unite(position: int, other_position: int) -> None:
        """Join the sets of the services at `position` and `other_position`; the root is the first of all."""
        first, second = sorted((find(position), find(other_position)))
        root[second] = first

    first_with_metric: dict[str, int] = {}
    first_of_application: dict[str, int] = {}
    for position, service in enumerate(services.values()):
        for metric in _metrics_of(service, all_metrics):
            unite(position, first_with_metric.setdefault(metric, position))
        if service.affinity_to in position_of:
            unite(position, position_of[service.affinity_to])
        if service.application is not None and service.application in limited:
            unite(position, first_of_application.setdefault(service.application, position))
            for metric in limited[service.application]:
                unite(position, first_with_metric.setdefault(metric, position))
    services_of_root: dict[int, list[int]] = {}
    for position, index in enumerate(indices):
        services_of_root.setdefault(find(position), []).append(index)
    return [
        ServiceDomain(
            group[0], tuple(group), frozenset().union(*(_metrics_of(services[i], all_metrics) for i in group))
        )
        for _, group in sorted(services_of_root.items())
    ]


def _metrics_of(service: Service, all_metrics: Sequence[str]) -> Iterable[str]:
    """Return the names of the metrics of a service: `all_metrics` if it names none."""
    return all_metrics if service.metrics is None else service.metrics


def concerned(state: ClusterState, domain: ServiceDomain | None) -> tuple[str, Sequence[str]]:
    """Return the name of the first service of a domain (None: of all services), and the names of its partitions."""
    if domain is None:
        return next(iter(state.service_index), ""), state.partition_names()
    services = set(domain.services)
    names = tuple(record.name for record in state.partitions.values() if record.service in services)
    return state.services[domain.key].name, names


def immovable_replicas(
    state: ClusterState, problem: Problem, domain: ServiceDomain | None, rows: Iterable[int]
) -> dict[str, dict[Immovable, int]]:
    """Return how many of the immovable `rows` each partition of a domain (None: all services) has, by reason."""
    by_partition: dict[str, Counter[Immovable]] = {}
    for row in rows:
        if domain is not None and int(problem.service[row]) not in domain.services:
            continue
        by_partition.setdefault(state.row_partition[row], Counter())[why_immovable(state, problem, row)] += 1
    return {name: dict(counts) for name, counts in by_partition.items()}


def why_immovable(state: ClusterState, problem: Problem, row: int) -> Immovable:
    """Return why the placed replica `row`, which no plan may move, is immovable."""
    table = state.rows
    if table.pinned[row]:
        return Immovable.PINNED
    if state.partitions[state.row_partition[row]].still:
        return Immovable.IN_TRANSITION
    if table.upgrading[row]:
        return Immovable.UPGRADING
    if table.still[row]:
        return Immovable.NOT_READY
    if table.arriving[row] != NOWHERE:
        return Immovable.UNDER_WAY
    node = int(problem.origin[row])
    if not problem.watched[node]:
        return Immovable.NODE_DEACTIVATED if state.nodes[node].up else Immovable.NODE_DOWN
    blocked = state.feasibility_class_of(int(problem.service[row])).blocked
    return Immovable.NODE_BLOCKED if state.nodes[node].name in blocked else Immovable.THROTTLED


def waits_for_upgrade(state: ClusterState, domain: ServiceDomain | None) -> bool:
    """Return whether balancing of a domain, None: of all services, waits for the upgrade of a partition."""
    if state.config.allow_balancing_during_application_upgrade:
        return False
    rows = state.rows
    services = rows.service[rows.used & rows.upgrading]
    return bool(len(services) if domain is None else np.isin(services, domain.services).any())


def number_of_replicas(state: ClusterState) -> int:
    """Return the number of placed replicas of the whole cluster."""
    rows = state.rows
    return int((rows.used & (rows.node >= 0)).sum())
