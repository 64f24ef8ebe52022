"""Queries of an engine: replicas, loads of nodes, service domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from plb.array_types import NOWHERE, Int
from plb.errors import InvalidValueError
from plb.model import DeactivationIntent, Role
from plb.model.role import ROLES, check_role
from plb.planning.scheduler import Scheduler
from plb.planning.service_domains import ServiceDomain
from plb.state.cluster_state import ClusterState
from plb.state.role_slots import default_loads, expected_load, roles_of, rows_in_order
from plb.validation import ReadOnlyMapping


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
    load
        Its load by metric, in user units: the reported, or else the default one. A dropped replica has none.
    in_build
        Whether its data are being copied.
    """

    index: int
    role: Role
    node: str | None
    leaving: bool
    load: Mapping[str, float] = attrs.field(hash=False)
    in_build: bool


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
    table, names = state.rows, state.config.metric_names
    rows = rows_in_order(state, [state.partition(partition)])
    columns = rows, table.role[rows], table.node[rows], table.leaving[rows], table.building[rows]
    loads = (table.load[rows] * state.quanta.quanta).tolist()
    return tuple(
        PlacedReplica(
            index=row,
            role=ROLES[role],
            node=_name_of(state, node),
            leaving=leaving,
            load=ReadOnlyMapping(dict(zip(names, load, strict=True))),
            in_build=building,
        )
        for (row, role, node, leaving, building), load in zip(
            zip(*(column.tolist() for column in columns), strict=True), loads, strict=True
        )
    )


def load_of_next(state: ClusterState, partition: str, role: Role | str) -> dict[str, float]:
    """Return the load of the next replica of a role, by metric in user units."""
    record, role = state.partition(partition), check_role(f"partition {partition}", "role", role)
    service = state.services[record.service]
    if role not in roles_of(service):
        names = " or ".join(one.name for one in roles_of(service))
        raise InvalidValueError(f"partition {partition}", "role", role, names)
    default = default_loads(state.quanta.copy(), service)[role]
    return _by_metric(state, expected_load(state, record, role, default))


def total_capacities(state: ClusterState) -> dict[str, float]:
    """Return the capacity by metric of the nodes that are up and not deactivated, in user units."""
    capacities = dict.fromkeys(state.config.metric_names, 0.0)
    for node in state.nodes:
        if node.up and node.deactivation_intent is DeactivationIntent.NONE:
            for metric, capacity in node.capacities.items():
                capacities[metric] += capacity
    return capacities


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


def _by_metric(state: ClusterState, load: Int) -> dict[str, float]:
    """Return a load, (R,) quanta, by metric in user units."""
    return dict(zip(state.config.metric_names, (load * state.quanta.quanta).tolist(), strict=True))


def _name_of(state: ClusterState, node: int) -> str | None:
    return None if node == NOWHERE else state.nodes[node].name
