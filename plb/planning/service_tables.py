"""Tables that follow from services and nodes, computed again only when one of them changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.constraints.domain_limits import most_in_domain
from plb.energy.imbalance import metric_weights
from plb.energy.movement import move_cost_values
from plb.state.cluster_state import ClusterState
from plb.state.defragmentation import node_groups, packing_tables
from plb.state.topology import Topology


@attrs.frozen(eq=False)
class ServiceTables:
    """Arrays of a service domain; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    services_version: int
    services: Sequence[int]
    counted_for: Bool
    nodes_of_metric: Int
    most_in_domain: Int
    metric_weight: Float
    groups: dict[str, Any]
    """Domains of nodes, and the data of the strategies of the metrics."""
    each: EachService
    """The properties of replicas from their service, for all services."""


@attrs.frozen(eq=False)
class EachService:
    """The properties of the replicas of a service, (S,) each unless stated otherwise.

    Parameters
    ----------
    feasibility_class
        Its requirements on nodes.
    blocked
        (X, N+1) for each feasibility class, whether a node is blocked; the last entry is no node. None without one.
    particular
        Whether a new replica has the class of a placed one.
    everywhere, stateless_everywhere
        Whether it is on every node, and stateless.
    move_cost
        Tenths of a move.
    related
        Whether any service follows another.
    """

    feasibility_class: Int32
    blocked: Bool | None
    particular: Bool
    everywhere: Bool
    stateless_everywhere: Bool
    move_cost: Int
    related: bool


def tables_version(state: ClusterState, topology: Topology) -> tuple[object, ...]:
    """Return what the tables depend on; equal versions mean equal tables."""
    return (topology.version, state.services_version)


def build_tables(state: ClusterState, topology: Topology, services: Sequence[int]) -> ServiceTables:
    """Return the tables of a domain of `services`."""
    counted_for = _counted_for(state, topology, services)
    return ServiceTables(
        version=tables_version(state, topology),
        services_version=state.services_version,
        services=services,
        counted_for=counted_for,
        nodes_of_metric=counted_for.sum(axis=0),
        most_in_domain=most_in_domain(state, topology),
        metric_weight=metric_weights(state, services),
        groups={**node_groups(state, topology), **packing_tables(state, counted_for)},
        each=each_service(state),
    )


def each_service(state: ClusterState) -> EachService:
    """Return the properties of replicas from their services; without services, one entry for unused rows."""
    services, config = state.services, state.config
    singletons = config.is_singleton_replica_move_allowed_during_upgrade
    costs = move_cost_values(config)
    blocked = None
    if any(feasibility_class.blocked for feasibility_class in state.feasibility_classes):
        blocked = np.array(
            [
                [node.name in feasibility_class.blocked for node in state.nodes] + [False]
                for feasibility_class in state.feasibility_classes
            ]
        )
    return EachService(
        feasibility_class=np.array(state.service_feasibility_class or [0], np.int32),
        blocked=blocked,
        particular=np.array([singletons and one.target_replicas == 1 for one in services] or [False], np.bool_),
        everywhere=np.array([one.on_every_node for one in services] or [False], np.bool_),
        stateless_everywhere=np.array(
            [one.on_every_node and not one.stateful for one in services] or [False], np.bool_
        ),
        move_cost=np.array([costs[one.move_cost] for one in services] or [0], np.int64),
        related=any(one.affinity_to is not None for one in services),
    )


def _counted_for(state: ClusterState, topology: Topology, services: Iterable[int]) -> Bool:
    """Return `Problem.counted_for`, (N, R): a node counts for a metric if it is feasible for a service with it.

    Services on every node do not count.
    """
    names = state.config.metric_names
    feasible = np.zeros((len(topology.counted), len(names)), np.bool_)
    spoken = np.zeros(len(names), np.bool_)
    for service in services:
        described = state.services[service]
        if not described.on_every_node:
            has = [described.metrics is None or name in described.metrics for name in names]
            feasible[:, has] |= topology.feasibility_classes[state.service_feasibility_class[service]][:, None]
            spoken[has] = True
    counted: Bool = topology.counted[:, None] & (feasible | ~spoken)
    return counted
