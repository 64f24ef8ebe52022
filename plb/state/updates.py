"""Updates of nodes, services and applications in the state; a refused update changes nothing."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import Int
from plb.errors import ConflictError, UnknownNameError
from plb.model import Node, Role, Service
from plb.model.expressions import parse_expression
from plb.model.service import Application
from plb.phrasing import listed
from plb.state.cluster_state import ClusterState, FeasibilityClass, PartitionRecord
from plb.state.role_slots import default_loads, expected_load, fill_up, link, trim_waiting
from plb.validation import check_distinct, check_metrics, check_names


def put_nodes(state: ClusterState, nodes: Sequence[Node]) -> list[Node | None]:
    """Add nodes, or replace those of the same names; return the previous description of each, or None."""
    check_distinct("node", [node.name for node in nodes])
    quanta = state.quanta.copy()
    capacities = [quanta.capacities(f"node {node.name}", node.capacities) for node in nodes]
    state.quanta = quanta
    added = [capacity for node, capacity in zip(nodes, capacities, strict=True) if node.name not in state.node_index]
    state.capacity = np.vstack([state.capacity, *added])
    return [_put_node(state, node, capacity) for node, capacity in zip(nodes, capacities, strict=True)]


def _put_node(state: ClusterState, node: Node, capacity: Int) -> Node | None:
    """Enter a node, whose capacity is in the array if it is new; return its previous description."""
    state.node_version += 1
    index = state.node_index.setdefault(node.name, len(state.nodes))
    if index == len(state.nodes):
        state.nodes.append(node)
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
    """Return whether a node has changed in its availability only."""
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
    state.node_index = {later.name: position for position, later in enumerate(state.nodes)}
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
    _check_parents(state, service)
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


def _check_parents(state: ClusterState, service: Service) -> None:
    """Raise `ConflictError` if the parents of a service lead back to it, so that each would wait for the next."""
    line, parent = {service.name: None}, service.affinity_to
    while parent in state.service_index and parent not in line:
        line[parent] = None
        parent = state.services[state.service_index[parent]].affinity_to
    if parent == service.name:
        raise ConflictError(f"service {parent}: affinity_to makes a circle: {' -> '.join([*line, parent])}")


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
    """Return the index of the requirements of a service on nodes; new ones take the index of unused requirements."""
    key, indices = (service.placement_constraint, service.blocked_nodes), state.feasibility_class_index
    if key in indices:
        return indices[key]
    expression = parse_expression(service.placement_constraint, f"service {service.name}")
    made, table = len(state.feasibility_classes), state.service_table
    used = np.bincount(table.feasibility_class, minlength=made) > 0  # the class without requirements always is
    index = made if used.all() else int(used.argmin())
    state.feasibility_classes[index : index + 1] = [FeasibilityClass(expression, service.blocked_nodes)]
    state.feasibility_class_index = {of: number for of, number in indices.items() if number != index}
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


def put_application(state: ClusterState, application: Application) -> None:
    """Add an application, or replace the one of this name; the services that name it belong to it."""
    table, quanta = state.applications, state.quanta.copy()
    before = _described(state, application.name)
    table.put(application, quanta)
    state.quanta = quanta
    _note_change(state, application.name, before)


def application_named(state: ClusterState, name: str) -> Application:
    """Return an application."""
    applications = state.applications.applications
    if not isinstance(name, str) or name not in applications:
        raise UnknownNameError("application", name, applications)
    return applications[name]


def remove_application(state: ClusterState, name: str) -> None:
    """Remove an application; its services keep its name, without limits."""
    application_named(state, name)
    before = _described(state, name)
    state.applications.remove(name)
    _note_change(state, name, before)


def _described(state: ClusterState, name: str) -> tuple[int, bool]:
    """Return the entry of an application, and whether upgraded domains attract its replicas."""
    application = state.applications.applications.get(name)
    return state.applications.entry_of(name), application is not None and bool(application.upgraded_domains)


def _note_change(state: ClusterState, name: str, before: tuple[int, bool]) -> None:
    """Note that an application has changed from what was `_described`, so that searches describe its services again."""
    state.services_version += 1
    after, table = _described(state, name), state.service_table
    for service in state.applications.services.get(name, ()):
        state.service_version[service] += 1
        if after != before:
            table.application[service] = after[0]
            for record in state.service_partitions[service].values():
                state.rows.changes.note(record.rows)
