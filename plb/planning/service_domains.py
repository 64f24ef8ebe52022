"""Service domains: services that share a metric, an affinity or an application with limits are searched together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from plb.model import Service
from plb.state.cluster_state import ClusterState
from plb.state.service_table import ServiceTable
from plb.validation import ReadOnlyMapping

NO_APPLICATIONS: Mapping[str, Collection[str]] = ReadOnlyMapping({})
"""No applications with limits."""


@attrs.frozen
class ServiceDomain:
    """Services of a common search.

    Parameters
    ----------
    key
        Index of the first of its services, by which the scheduler knows it again.
    services
        Indices of its services, in the order in which they were made.
    metrics
        Names of the metrics that any of them has.
    """

    key: int
    services: tuple[int, ...]
    metrics: frozenset[str]


class ServiceDomains:
    """The service domains of a cluster; they are found again only after its services have changed.

    Parameters
    ----------
    state
        The described cluster.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._found: list[ServiceDomain] = []
        self._found_version = -1
        self._undivided = -1, False
        """Version of the services, and whether they are one domain."""

    def found(self) -> list[ServiceDomain]:
        """Return the service domains."""
        state = self._state
        if self._found_version != state.services_version:
            limited = state.applications.reserved_metrics()
            self._found = service_domains(state.living_services(), state.config.metric_names, limited)
            self._found_version = state.services_version
        return self._found

    def units(self) -> list[ServiceDomain | None]:
        """Return the units of separate searches: the service domains, or a single None if all services are one."""
        if self._undivided[0] != self._state.services_version:
            self._undivided = self._state.services_version, _share_a_metric(self._state.service_table)
        found = [] if self._undivided[1] else self.found()
        return [*found] if len(found) > 1 else [None]

    def unit_of(self, service: int) -> ServiceDomain | None:
        """Return the unit of a separate search to which a service belongs."""
        return next(unit for unit in self.units() if unit is None or service in unit.services)


def _share_a_metric(table: ServiceTable) -> bool:
    """Return whether all services have a metric in common, so that they are one domain."""
    return bool(table.has_metric[table.living].all(axis=0).any())


def service_domains(
    services: Mapping[int, Service],
    all_metrics: Sequence[str],
    limited: Mapping[str, Collection[str]] = NO_APPLICATIONS,
) -> list[ServiceDomain]:
    """Return the domains of services, by the first service of each.

    Parameters
    ----------
    services
        By index, in the order in which they were made.
    all_metrics
        Metrics of a service that names none.
    limited
        The applications with limits, whose services are one domain, and the metrics that each reserves: services with
        such a metric belong to the domain as well.
    """
    indices = [*services]
    known = {service.name: place for place, service in enumerate(services.values())}
    root = list(range(len(indices)))

    def find(place: int) -> int:
        while root[place] != place:
            root[place] = root[root[place]]
            place = root[place]
        return place

    def unite(one: int, other: int) -> None:
        first, second = sorted((find(one), find(other)))
        root[second] = first

    holder: dict[str, int] = {}
    member: dict[str, int] = {}
    for place, service in enumerate(services.values()):
        for metric in _metrics_of(service, all_metrics):
            unite(place, holder.setdefault(metric, place))
        if service.affinity_to in known:
            unite(place, known[service.affinity_to])
        if service.application is not None and service.application in limited:
            unite(place, member.setdefault(service.application, place))
            for metric in limited[service.application]:
                unite(place, holder.setdefault(metric, place))
    members: dict[int, list[int]] = {}
    for place, index in enumerate(indices):
        members.setdefault(find(place), []).append(index)
    return [
        ServiceDomain(
            found[0], tuple(found), frozenset().union(*(_metrics_of(services[i], all_metrics) for i in found))
        )
        for _, found in sorted(members.items())
    ]


def _metrics_of(service: Service, all_metrics: Sequence[str]) -> Iterable[str]:
    """Return the names of the metrics of a service."""
    return all_metrics if service.metrics is None else service.metrics
