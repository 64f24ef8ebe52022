"""Local load-balancing domains: services whose load is also balanced by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Bool
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology


def local_domains(state: ClusterState, topology: Topology, services: Iterable[int]) -> dict[str, Any]:
    """Return the fields of `Problem` on local load-balancing domains (docs/terms/imbalance.md).

    One for each service with at least two partitions and a weight above 0, with the weights of the service.
    """
    config = state.config
    local_of = np.full(max(1, len(state.services)), NOWHERE)
    weights: list[list[float]] = []
    counted: list[Bool] = []
    if config.local_domain_weight > 0.0:
        for service in services:
            given = state.services[service].metrics
            of_service = [metric.weight if given is None else given.get(metric.name, 0.0) for metric in config.metrics]
            if state.partition_count[service] >= 2 and sum(of_service) > 0.0:
                local_of[service] = len(weights)
                weights.append(of_service)
                counted.append(
                    topology.counted & topology.feasibility_classes[state.service_feasibility_class[service]]
                )
    nodes = np.array(counted, np.bool_).reshape(len(weights), len(topology.counted))
    return {
        "local_of": local_of,
        "local_weight": np.array(weights).reshape(len(weights), len(config.metrics)),
        "local_counted": nodes,
        "local_nodes": nodes.sum(axis=1),
        "uneven": np.zeros((1 + len(weights), len(config.metrics)), np.bool_),
    }
