"""Tables that follow from services and nodes together, computed again only when one of them changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int
from plb.constraints.domain_limits import DomainLimits, domain_limits
from plb.energy.imbalance import metric_weights
from plb.state.cluster_state import ClusterState
from plb.state.defragmentation import node_groups, packing_tables
from plb.state.topology import Topology


@attrs.frozen(eq=False)
class ServiceTables:
    """Arrays of a service domain; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    services: Sequence[int]
    counted_for: Bool
    nodes_of_metric: Int
    limits: DomainLimits
    """Those of all services."""
    metric_weight: Float
    groups: dict[str, Any]
    """Domains of nodes, and the data of the strategies of the metrics."""


def tables_version(state: ClusterState, topology: Topology) -> tuple[object, ...]:
    """Return what the tables depend on; equal versions mean equal tables."""
    return (topology.version, state.services_version)


def build_tables(
    state: ClusterState, topology: Topology, services: Sequence[int], limits: DomainLimits | None = None
) -> ServiceTables:
    """Return the tables of a domain of `services`.

    Parameters
    ----------
    limits
        Earlier limits of all services, whose array is kept if it holds but for services that have changed since.
    """
    counted_for = _counted_for(state, topology, services)
    return ServiceTables(
        version=tables_version(state, topology),
        services=services,
        counted_for=counted_for,
        nodes_of_metric=counted_for.sum(axis=0),
        limits=domain_limits(state, topology, limits),
        metric_weight=metric_weights(state, services),
        groups={**node_groups(state, topology), **packing_tables(state, counted_for)},
    )


def _counted_for(state: ClusterState, topology: Topology, services: Sequence[int]) -> Bool:
    """Return `Problem.counted_for`, (N, R): a node counts for a metric if it is feasible for a service with it.

    Services on every node do not count.
    """
    table, classes = state.service_table, topology.feasibility_classes
    some = np.array(services, np.int64)
    some = some[~table.on_every_node[some]]
    feasible = np.zeros((len(topology.counted), table.has_metric.shape[1]), np.bool_)
    for metric in range(feasible.shape[1]):
        having = some[table.has_metric[some, metric]]
        present = np.flatnonzero(np.bincount(table.feasibility_class[having], minlength=1))
        feasible[:, metric] = classes[present].any(axis=0) if len(present) else True
    counted: Bool = topology.counted[:, None] & feasible
    return counted
