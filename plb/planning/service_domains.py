"""Service domains: services that share a metric or an affinity are searched together, others separately."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from plb.model import Service
from plb.state.service_table import ServiceTable


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


def share_a_metric(table: ServiceTable) -> bool:
    """Return whether all services have a metric in common, so that they are one domain."""
    return bool(table.has_metric[table.living].all(axis=0).any())


def service_domains(services: Sequence[Service | None], all_metrics: Sequence[str]) -> list[ServiceDomain]:
    """Return the domains of services, by the first service of each.

    Parameters
    ----------
    services
        By index; None if a service was removed.
    all_metrics
        Metrics of a service that names none.
    """
    known = {service.name: index for index, service in enumerate(services) if service is not None}
    root = list(range(len(services)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = root[root[index]]
            index = root[index]
        return index

    def unite(one: int, other: int) -> None:
        first, second = sorted((find(one), find(other)))
        root[second] = first

    holder: dict[str, int] = {}
    for index, service in enumerate(services):
        if service is None:
            continue
        for metric in all_metrics if service.metrics is None else service.metrics:
            unite(index, holder.setdefault(metric, index))
        if service.affinity_to in known:
            unite(index, known[service.affinity_to])
    members: dict[int, list[int]] = {}
    for index, service in enumerate(services):
        if service is not None:
            members.setdefault(find(index), []).append(index)
    return [
        ServiceDomain(key, tuple(found), frozenset(_metrics_of(services, found, all_metrics)))
        for key, found in sorted(members.items())
    ]


def _metrics_of(services: Sequence[Service | None], members: Sequence[int], all_metrics: Sequence[str]) -> set[str]:
    metrics: set[str] = set()
    for index in members:
        service = services[index]
        if service is not None:
            metrics.update(all_metrics if service.metrics is None else service.metrics)
    return metrics
