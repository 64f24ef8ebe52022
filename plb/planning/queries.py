"""Queries of an engine: replicas, loads of nodes, service domains."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import attrs

from plb.array_types import NOWHERE, Int
from plb.model import Role
from plb.model.role import ROLES
from plb.planning.scheduler import Scheduler
from plb.planning.service_domains import ServiceDomain
from plb.state.cluster_state import ClusterState


@attrs.frozen
class PlacedReplica:
    """A replica as the engine has it.

    Parameters
    ----------
    index
        Its row in bulk reports; stays the same while the replica exists, also when it moves.
    role
        Its role.
    node
        Name of its node; None while it waits for a place.
    leaving
        True for the departing end of a move under way.
    """

    index: int
    role: Role
    node: str | None
    leaving: bool


@attrs.frozen
class DomainState:
    """Services that are searched together.

    Parameters
    ----------
    name
        Name of its first service.
    services, metrics
        Names of its services and of the metrics that they have.
    last_action
        What the last refresh that did not pass it over did for it, under Service Fabric's name, such as
        ``"NewReplicaPlacement"``.
    """

    name: str
    services: tuple[str, ...]
    metrics: tuple[str, ...]
    last_action: str


def placed_replicas(state: ClusterState, partition: str) -> tuple[PlacedReplica, ...]:
    """Return the replicas of a partition: its role slots in order, then departing ends."""
    table, record = state.rows, state.partition(partition)
    everywhere = state.services[record.service].on_every_node
    found = [
        PlacedReplica(row, ROLES[table.role[row]], _name_of(state, int(table.node[row])), bool(table.leaving[row]))
        for row in record.rows
        if not (everywhere and table.node[row] == NOWHERE)
    ]
    return tuple(sorted(found, key=attrgetter("leaving")))


def loads_of_nodes(state: ClusterState, node_load: Int) -> dict[str, dict[str, float]]:
    """Return the load of every node by metric, in user units.

    Parameters
    ----------
    node_load
        (N, R) quanta, without departing replicas.
    """
    names = state.config.metric_names
    loads = (node_load * state.quanta.quanta).tolist()
    return {node.name: dict(zip(names, load, strict=True)) for node, load in zip(state.nodes, loads, strict=True)}


def states_of_domains(
    state: ClusterState, scheduler: Scheduler, domains: Iterable[ServiceDomain]
) -> tuple[DomainState, ...]:
    """Return the service domains with what the last refresh did for each."""
    return tuple(
        DomainState(
            name=state.services[domain.key].name,
            services=tuple(state.services[index].name for index in domain.services),
            metrics=tuple(sorted(domain.metrics)),
            last_action=scheduler.last_action(domain.key).value,
        )
        for domain in domains
    )


def _name_of(state: ClusterState, node: int) -> str | None:
    return None if node == NOWHERE else state.nodes[node].name
