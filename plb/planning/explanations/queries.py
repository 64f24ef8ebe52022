"""Answers about the described cluster, and the refusal of applications and services that exceed the capacity left.

The capacity left is the capacity of nodes in service, less buffers, less loads, less what applications have reserved
and do not use (docs/constraints/applications.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.errors import ConflictError, InsufficientCapacityError, InvalidValueError
from plb.model import DeactivationIntent, Role, Service
from plb.model.quanta import UNLIMITED, MetricQuanta
from plb.model.role import ROLES, check_role
from plb.model.service import Application
from plb.planning.scheduler import Scheduler
from plb.planning.service_domains import ServiceDomain
from plb.state.cluster_state import ClusterState, standing_load
from plb.state.role_slots import default_loads, expected_load, roles_of, rows_in_order
from plb.state.topology import Topology
from plb.validation import ReadOnlyMapping


@attrs.frozen
class PlacedReplica:
    """A replica as the engine has it."""

    index: int
    """Its row in bulk reports; stays the same while the replica exists, also when it moves."""
    role: Role
    node: str | None
    """Name of its node; None while it waits for a place."""
    leaving: bool
    """True for the departing end of a move under way."""
    load: Mapping[str, float] = attrs.field(hash=False)
    """Its load by metric, in user units: the reported, or else the default one. A dropped replica has none."""
    in_build: bool
    """Whether its data are being copied."""


@attrs.frozen
class DomainState:
    """Services that are searched together."""

    name: str
    """Name of its first service."""
    services: tuple[str, ...]
    metrics: tuple[str, ...]
    """Names of its services and of the metrics that they have."""
    last_action: str
    """What the last refresh that did not pass it over did for it, under Service Fabric's name, such as
    ``"NewReplicaPlacement"``.
    """


def placed_replicas(state: ClusterState, partition: str) -> tuple[PlacedReplica, ...]:
    """Return the replicas of a partition, by its name: its role slots in order, then departing ends."""
    table, names = state.rows, state.config.metric_names
    rows = rows_in_order(state, [state.partition(partition)])
    columns = rows, table.role[rows], table.node[rows], table.leaving[rows], table.building[rows]
    loads = (table.load[rows] * state.quanta.quanta).tolist()
    return tuple(
        PlacedReplica(
            index=row,
            role=ROLES[role],
            node=None if node == NOWHERE else state.nodes[node].name,
            leaving=leaving,
            load=ReadOnlyMapping(dict(zip(names, load, strict=True))),
            in_build=building,
        )
        for (row, role, node, leaving, building), load in zip(
            zip(*(column.tolist() for column in columns), strict=True), loads, strict=True
        )
    )


def rows_on(state: ClusterState, partitions: Sequence[str], nodes: Sequence[str]) -> Int:
    """Return the row of the replica of each partition on a node, (m,), both by name; departing ends do not count."""
    table = state.rows
    records, node_index = state.partitions, state.node_index
    unknown = next((name for name in partitions if name not in records), None)
    if unknown is not None:
        state.partition(unknown)  # raises
    # an unknown node has an index that no replica has
    node = np.array([node_index.get(name, NOWHERE - 1) for name in nodes], np.int64)
    rows = np.full(len(node), NOWHERE)
    first = np.array([records[name].rows[0] if records[name].rows else NOWHERE for name in partitions], np.int64)
    waiting = np.flatnonzero(first != NOWHERE)
    row = first[waiting]
    while len(waiting):
        is_found = (table.node[row] == node[waiting]) & ~table.leaving[row]
        rows[waiting[is_found]] = row[is_found]
        row = table.sibling[row]
        goes_on = row != first[waiting]
        waiting, row = waiting[goes_on], row[goes_on]
    for position in np.flatnonzero(rows == NOWHERE)[:1].tolist():
        raise ConflictError(f"loads: partition {partitions[position]} has no replica on node {nodes[position]}")
    return rows


def partitions_on(state: ClusterState, node: str) -> tuple[str, ...]:
    """Return the names of the partitions with a replica on a node, given by its name, in the order of their rows."""
    rows = np.flatnonzero(state.rows.node == state.node(node)).tolist()
    return tuple(dict.fromkeys(state.row_partition[row] for row in rows))


def load_of_next(state: ClusterState, partition: str, role: Role | str) -> dict[str, float]:
    """Return the load of the next replica with this role in a partition, by metric in user units."""
    record, role = state.partition(partition), check_role(f"partition {partition}", "role", role)
    service = state.services[record.service]
    if role not in roles_of(service):
        names = " or ".join(allowed.name for allowed in roles_of(service))
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
    """Return the load of every node by metric, in user units; `node_load`: (N, R) quanta without departing replicas."""
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
    """Return `load`, (R,) quanta, by metric in user units."""
    return dict(zip(state.config.metric_names, (load * state.quanta.quanta).tolist(), strict=True))


def check_application(state: ClusterState, application: Application, topology: Topology) -> None:
    """Raise `InsufficientCapacityError` if the cluster has no room for what an application reserves beyond its use.

    If it replaces an application of its name, only what it reserves in addition needs room.
    """
    before = state.applications.applications.get(application.name)
    quanta, used = state.quanta.copy(), _used_by(state, application.name)
    additional = np.maximum(0, _reserved(quanta, application) - used)
    if before is not None:
        additional -= np.maximum(0, _reserved(quanta, before) - used)
    _check(quanta, f"application {application.name}", additional, _capacity_left(state, topology))


def check_service(state: ClusterState, service: Service, topology: Topology) -> None:
    """Raise `InsufficientCapacityError` if a partition of a new service needs more than the cluster has left for it.

    The unused reservation of its application is left for it.
    """
    if service.name in state.service_index:
        return
    quanta = state.quanta.copy()
    loads = default_loads(quanta, service)
    counted_nodes = int(np.count_nonzero(topology.counted))
    replicas = counted_nodes if service.on_every_node else max(1, service.target_replicas)
    first_role, other_role = (Role.PRIMARY, Role.SECONDARY) if service.stateful else (Role.INSTANCE, Role.INSTANCE)
    needed = loads[first_role] + (replicas - 1) * loads[other_role]
    capacity_left = _capacity_left(state, topology)
    application = state.applications.applications.get(service.application or "")
    if application is not None:
        capacity_left += _unused(state, application)
    _check(quanta, f"service {service.name}", needed, capacity_left)


def _check(quanta: MetricQuanta, item: str, needed: Int, left: Int) -> None:
    """Raise `InsufficientCapacityError` for `item` and the first metric with more `needed` than `left`, (R,) quanta."""
    short_metrics = np.flatnonzero((needed > 0) & (needed > left))
    if len(short_metrics):
        name = quanta.metrics[int(short_metrics[0])].name
        numbers = (
            quanta.to_user(name, int(quanta_of_metrics[short_metrics[0]])) for quanta_of_metrics in (needed, left)
        )
        raise InsufficientCapacityError(item, name, *numbers)


def _capacity_left(state: ClusterState, topology: Topology) -> Int:
    """Return what the cluster has left of each metric, (R,) quanta; `UNLIMITED` where a node has no capacity."""
    counted = topology.counted
    limit = topology.move_limit[counted]
    unlimited = (limit >= UNLIMITED).any(axis=0)
    capacity_left = np.where(unlimited, 0, limit).sum(axis=0) - standing_load(state)[counted].sum(axis=0)
    for application in state.applications.applications.values():
        capacity_left -= _unused(state, application)
    return np.asarray(np.where(unlimited, UNLIMITED, capacity_left), np.int64)


def _unused(state: ClusterState, application: Application) -> Int:
    """Return what an application reserves for its fewest nodes and does not use, (R,) quanta."""
    return np.asarray(np.maximum(0, _reserved(state.quanta, application) - _used_by(state, application.name)), np.int64)


def _reserved(quanta: MetricQuanta, application: Application) -> Int:
    """Return what an application reserves for its fewest nodes, (R,) quanta; `quanta` gets new metrics."""
    amounts = quanta.loads(f"application {application.name}", "node_reservation", application.node_reservation)
    return np.asarray(application.minimum_nodes * amounts, np.int64)


def _used_by(state: ClusterState, name: str) -> Int:
    """Return the load of the placed replicas of an application, by its name, (R,) quanta."""
    rows = [
        row
        for service in state.applications.services.get(name, ())
        for record in state.service_partitions[service].values()
        for row in record.rows
        if state.rows.node[row] != NOWHERE and not state.rows.leaving[row]
    ]
    return np.asarray(state.rows.load[rows].sum(axis=0), np.int64)
