"""Updates of nodes, services and partitions in the state; a refused update changes nothing."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from plb.array_types import Int
from plb.errors import ConflictError, InvalidValueError
from plb.model import Node, Partition, Replica, Role, Service, UpgradeMark
from plb.model.expressions import parse_expression
from plb.phrasing import listed
from plb.state.cluster_state import ClusterState, FeasibilityClass, PartitionRecord
from plb.state.partition_matching import match_slots
from plb.state.role_slots import default_loads, expected_load, fill_up, link, roles_of, trim_waiting
from plb.validation import check_metrics, check_names


def put_node(state: ClusterState, node: Node) -> Node | None:
    """Add a node, or replace the one with this name; return the previous description, or None."""
    quanta = state.quanta.copy()
    capacity = quanta.capacities(f"node {node.name}", node.capacities)
    state.quanta = quanta
    state.node_version += 1
    index = state.node_index.get(node.name)
    if index is None:
        state.node_index[node.name] = len(state.nodes)
        state.nodes.append(node)
        state.capacity = np.vstack([state.capacity, capacity])
        state.structure_version += 1
        return None
    before, state.nodes[index] = state.nodes[index], node
    if _differ_in_availability(before, node):
        state.availability_changes[index] = state.node_version
    else:
        state.capacity[index] = capacity
        state.structure_version += 1
    return before


def _differ_in_availability(before: Node, after: Node) -> bool:
    """Return whether nothing of a node but its being in service has changed."""
    return after == attrs.evolve(
        before,
        up=after.up,
        deactivation_intent=after.deactivation_intent,
        deactivation_status=after.deactivation_status,
    )


def remove_node(state: ClusterState, name: str) -> Node:
    """Remove a node without replicas, and return it; the indices of later nodes decrease by one."""
    index, table = state.node(name), state.rows
    rows = np.flatnonzero(table.used & (table.node == index)).tolist()
    if rows:
        partitions = listed(list(dict.fromkeys(state.row_partition[row] for row in rows)))
        raise ConflictError(f"node {name}: holds replicas of {partitions}; move or remove them first")
    node = state.nodes.pop(index)
    state.node_index = {other.name: position for position, other in enumerate(state.nodes)}
    state.capacity = np.delete(state.capacity, index, axis=0)
    table.node[table.node > index] -= 1
    state.node_version += 1
    state.structure_version += 1
    return node


def put_service(state: ClusterState, service: Service) -> None:
    """Add a service, or replace the one of this name; partitions that exist keep their replicas."""
    item = f"service {service.name}"
    index = state.service_index.get(service.name)
    if index is not None and service.stateful != state.services[index].stateful:
        raise ConflictError(f"{item}: stateful cannot change")
    joins = index is None or service.application != state.services[index].application
    if joins and service.application in state.applications.removed:
        raise ConflictError(f"{item}: application {service.application} was removed; make it again first")
    for role, load in service.default_load.items():
        state.quanta.copy().loads(item, f"default_load[{role.name}]", load)
    state.quanta.copy().loads(item, "limits", service.limits)
    check_metrics(item, "metrics", service.metrics or (), state.quanta.index)
    if index is not None:
        _replace_service(state, index, service)
        return
    feasibility_class = _feasibility_class(state, service)
    index = _free_index(state)
    state.services[index], state.service_partitions[index] = service, {}
    state.service_version[index] = state.load_version[index] = 0
    state.services_version += 1
    application = state.applications.entry_of(service.application)
    state.service_table.put(index, service, feasibility_class, state.services_version, application)
    state.applications.join(index, service.application)
    state.service_index[service.name] = index


def _free_index(state: ClusterState) -> int:
    """Return the index of a new service: the smallest of a removed one, or the next; its entries have to be set."""
    if state.free_services:
        return heapq.heappop(state.free_services)
    state.services.append(Service("none"))
    state.service_partitions.append({})
    state.service_version.append(0)
    state.load_version.append(0)
    return len(state.services) - 1


def _replace_service(state: ClusterState, index: int, service: Service) -> None:
    """Replace a service if each of its default loads fits the quanta; if replicas have them, their sums have to fit."""
    records = [*state.service_partitions[index].values()]
    quanta = state.quanta.copy()
    defaults = default_loads(quanta, service) if records else {}
    feasibility_class = _feasibility_class(state, service)
    state.quanta = quanta
    state.applications.leave(index, state.services[index].application)
    state.applications.join(index, service.application)
    state.services[index] = service
    state.default_loads.pop(index, None)
    state.service_version[index] += 1
    state.services_version += 1
    application = state.applications.entry_of(service.application)
    state.service_table.put(index, service, feasibility_class, state.services_version, application)
    rows = np.flatnonzero(state.rows.used & (state.rows.service == index))
    state.rows.changes.note_many(rows)
    for record in records:
        record.version += 1
        trim_waiting(state, record)
        _apply_service(state, record, service, defaults)
    if service.metrics is not None:
        rows = np.flatnonzero(state.rows.used & (state.rows.service == index))  # with those of a higher target
        state.rows.load[rows] *= state.service_table.has_metric[index]


def _apply_service(
    state: ClusterState, record: PartitionRecord, service: Service, defaults: Mapping[Role, Int]
) -> None:
    """Give a partition the slots of a higher target, and replicas without a report their default loads."""
    for row in record.rows:
        role = Role(state.rows.role[row])
        keeps = state.rows.reported[row] or state.rows.leaving[row] or state.rows.dropped[row]
        if not keeps and (role is Role.PRIMARY or not record.secondary_load):
            state.rows.load[row] = expected_load(state, record, role, defaults[role])
    if not service.on_every_node:
        fill_up(state, record, defaults)
        link(state, record)


def _feasibility_class(state: ClusterState, service: Service) -> int:
    """Return the index of the requirements of a service on nodes; services with the same requirements share it.

    New requirements take the place of some that no service has any more.
    """
    key = (service.placement_constraint, service.blocked_nodes)
    known = state.feasibility_class_index.get(key)
    if known is not None:
        return known
    expression = parse_expression(service.placement_constraint, f"service {service.name}")
    made, table = len(state.feasibility_classes), state.service_table
    used = np.bincount(table.feasibility_class, minlength=made) > 0  # also that without requirements
    index = int(used.argmin())
    if used[index]:
        index = made
        state.feasibility_classes.append(FeasibilityClass(expression, service.blocked_nodes))
    else:
        state.feasibility_class_index = {of: one for of, one in state.feasibility_class_index.items() if one != index}
        state.feasibility_classes[index] = FeasibilityClass(expression, service.blocked_nodes)
    state.feasibility_class_index[key] = index
    state.structure_version += 1
    return index


def remove_service(state: ClusterState, name: str) -> int:
    """Remove a service that has no partitions; return its index, which a later service may get."""
    index = state.service(name)
    if state.service_partitions[index]:
        holder = next(iter(state.service_partitions[index]))
        raise ConflictError(f"service {name}: still has partition {holder}; remove its partitions first")
    del state.service_index[name]
    state.applications.leave(index, state.services[index].application)
    state.default_loads.pop(index, None)
    state.services_version += 1
    state.service_table.remove(index, state.services_version)
    heapq.heappush(state.free_services, index)
    return index


def put_upgraded_domains(state: ClusterState, domains: Iterable[str]) -> None:
    """Note which upgrade domains are done."""
    state.upgraded_domains = frozenset(check_names("engine", "upgraded domains", domains))
    state.node_version += 1
    state.structure_version += 1


def put_partition(state: ClusterState, partition: Partition) -> None:
    """Add a partition, or bring the known one to the replicas given; slots keep age and demand where they can."""
    item = f"partition {partition.name}"
    service = state.service(partition.service, item)
    described = state.services[service]
    placed = _on_nodes(state, item, partition, described)
    quanta, defaults = state.quanta, state.default_loads.get(service)
    if defaults is None:
        quanta = quanta.copy()
        defaults = default_loads(quanta, described)
    record = state.partitions.get(partition.name)
    if record is not None and record.service != service:
        raise ConflictError(f"{item}: belongs to service {state.services[record.service].name}; it cannot change")
    if record is not None and _says_nothing_new(record, partition):
        record.version += 1
        return
    state.quanta, state.default_loads[service] = quanta, defaults
    if record is None:
        record = PartitionRecord(partition.name, service, partition.created, [], state.partitions_made)
        state.add_partition(record)
    record.missing, record.described = partition.missing, (partition.version, partition.missing)
    if (partition.missing or 0) < 0:
        state.reported_surplus.add(partition.name)
    else:
        state.reported_surplus.discard(partition.name)
    record.version += 1
    record.still = partition.in_transition or partition.in_quorum_loss
    marked = any(replica.upgrade is not UpgradeMark.NONE for replica in partition.replicas)
    record.upgrading = partition.upgrading or marked
    match_slots(state, record, placed, defaults)
    state.service_version[service] += 1


def _on_nodes(state: ClusterState, item: str, partition: Partition, service: Service) -> list[tuple[Replica, int]]:
    """Return replicas with the indices of their nodes, refusing roles that the service does not have."""
    if not partition.replicas:
        return []
    allowed = roles_of(service)
    placed = []
    for replica in partition.replicas:
        if replica.role not in allowed:
            names = " or ".join(role.name for role in allowed)
            raise InvalidValueError(item, "replicas", replica.role, f"{names} for service {service.name}")
        placed.append((replica, state.node(replica.node, item)))
    return placed


def _says_nothing_new(record: PartitionRecord, partition: Partition) -> bool:
    """Return whether a description repeats the known one (docs/service-fabric.md, Loads)."""
    return partition.version is not None and (partition.version, partition.missing) == record.described


def remove_partition(state: ClusterState, name: str) -> None:
    """Remove a partition and its replicas."""
    record = state.partition(name)
    for row in record.rows:
        del state.row_partition[row]
        state.rows.release(row)
    state.forget_partition(record)
