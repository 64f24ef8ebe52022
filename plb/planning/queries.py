"""Queries of an engine: replicas, loads of nodes, service domains."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from plb.array_types import NOWHERE
from plb.model import Role
from plb.planning.scheduler import Scheduler
from plb.planning.service_domains import ServiceDomain
from plb.state.cluster_state import ClusterState
from plb.state.node_loads import standing_load


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
        PlacedReplica(row, Role(int(table.role[row])), _name_of(state, int(table.node[row])), bool(table.leaving[row]))
        for row in record.rows
        if not (everywhere and table.node[row] == NOWHERE)
    ]
    return tuple(sorted(found, key=lambda replica: replica.leaving))


def loads_of_nodes(state: ClusterState) -> dict[str, dict[str, float]]:
    """Return the load of every node by metric, in user units; departing replicas do not count."""
    quanta, load = state.quanta, standing_load(state)
    names = state.config.metric_names
    return {
        node.name: {name: quanta.to_user(name, int(load[index, metric])) for metric, name in enumerate(names)}
        for index, node in enumerate(state.nodes)
    }


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
