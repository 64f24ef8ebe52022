"""Local load-balancing domains: services whose load is also balanced by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from plb.array_types import NOWHERE
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology


def local_domains(state: ClusterState, topology: Topology, services: Iterable[int]) -> dict[str, Any]:
    """Return the fields of `Problem` on local load-balancing domains (docs/terms/imbalance.md).

    One for each service with at least two partitions and a weight above 0, with the weights of the service.
    """
    return local_fields(state, topology, [service for service in services if _is_local(state, service)])


def _is_local(state: ClusterState, service: int) -> bool:
    """Return whether a service is a local domain."""
    if state.config.local_domain_weight == 0.0 or len(state.service_partitions[service]) < 2:
        return False
    return sum(_weights(state, service)) > 0.0


def _weights(state: ClusterState, service: int) -> list[float]:
    """Return the weights of the metrics in the local domain of a service, (R,)."""
    given = state.services[service].metrics
    return [metric.weight if given is None else given.get(metric.name, 0.0) for metric in state.config.metrics]


def local_fields(state: ClusterState, topology: Topology, services: Sequence[int]) -> dict[str, Any]:
    """Return the fields of `Problem` on local domains, which are those of some services, in their order."""
    local_of = np.full(state.service_table.capacity, NOWHERE)
    local_of[services] = np.arange(len(services))
    classes = state.service_table.feasibility_class[services]
    counted = topology.counted & topology.feasibility_classes[classes]
    metrics = len(state.config.metrics)
    return {
        "local_of": local_of,
        "local_weight": np.array([_weights(state, one) for one in services]).reshape(len(services), metrics),
        "local_counted": counted,
        "local_nodes": counted.sum(axis=1),
        "uneven": np.zeros((1 + len(services), metrics), np.bool_),
    }
