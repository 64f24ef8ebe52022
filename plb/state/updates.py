"""Updates of nodes, services, applications, loads and move costs in the state; a refused update changes nothing."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import kernel
from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.model import MoveCost, Node, Role, Service, check_move_cost, check_role
from plb.model.expressions import parse_expression
from plb.model.service import Application
from plb.phrasing import listed
from plb.state.cluster_state import NO_REPORTS, ClusterState, FeasibilityClass, PartitionRecord
from plb.state.role_slots import default_loads, expected_load, fill_up, link, roles_of, trim_all
from plb.validation import check_distinct, check_loads, check_mapping, check_metrics, check_names


def put_nodes(state: ClusterState, nodes: Sequence[Node]) -> list[Node | None]:
    """Add nodes, or replace nodes of the same names; return the previous description of each, or None."""
    check_distinct("node", [node.name for node in nodes])
    quanta = state.quanta.copy()
    capacities = [quanta.capacities(f"node {node.name}", node.capacities) for node in nodes]
    state.quanta = quanta
    added = [capacity for node, capacity in zip(nodes, capacities, strict=True) if node.name not in state.node_index]
    state.capacity = np.vstack([state.capacity, *added])
    return [_put_node(state, node, capacity) for node, capacity in zip(nodes, capacities, strict=True)]


def _put_node(state: ClusterState, node: Node, capacity: Int) -> Node | None:
    """Enter a node and, unless it is new, its `capacity`, (R,) quanta; return its previous description, or None."""
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
    """Return whether two descriptions of a node differ in its availability only."""
    return after == attrs.evolve(
        before,
        up=after.up,
        deactivation_intent=after.deactivation_intent,
        deactivation_status=after.deactivation_status,
    )


def remove_node(state: ClusterState, name: str) -> Node:
    """Remove the node `name`, without replicas, and return it; the indices of later nodes decrease by one."""
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
    """Add a service, or replace its namesake; partitions that exist keep their replicas."""
    item = f"service {service.name}"
    index = state.service_index.get(service.name)
    if index is not None and service.stateful != state.services[index].stateful:
        raise ConflictError(f"{item}: stateful cannot change")
    _check_parents(state, service)
    changes_application = index is None or service.application != state.services[index].application
    if changes_application and service.application in state.applications.removed:
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
    ancestors, parent = {service.name: None}, service.affinity_to
    while parent in state.service_index and parent not in ancestors:
        ancestors[parent] = None
        parent = state.services[state.service_index[parent]].affinity_to
    if parent == service.name:
        raise ConflictError(f"service {parent}: affinity_to makes a circle: {' -> '.join([*ancestors, parent])}")


def _free_index(state: ClusterState) -> int:
    """Return the index for a new service: the smallest of a removed one, or the next; the caller sets its entries."""
    if state.free_services:
        return heapq.heappop(state.free_services)
    state.services.append(Service("none"))
    state.service_partitions.append({})
    state.service_version.append(0)
    state.load_version.append(0)
    return len(state.services) - 1


def _replace_service(state: ClusterState, index: int, service: Service) -> None:
    """Replace the service of this index, and adapt its partitions to its target and its default loads."""
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
        trim_all(state, record)
        _apply_service(state, record, service, defaults)
    if service.metrics is not None:
        rows = np.flatnonzero(state.rows.used & (state.rows.service == index))  # a higher target has added rows
        state.rows.load[rows] *= state.service_table.has_metric[index]


def _apply_service(
    state: ClusterState, record: PartitionRecord, service: Service, defaults: Mapping[Role, Int]
) -> None:
    """Give a partition the slots of a higher target, and replicas without a report their `defaults`, (R,) by role."""
    for row in record.rows:
        role = Role(state.rows.role[row])
        keeps_load = state.rows.reported[row] or state.rows.leaving[row] or state.rows.dropped[row]
        if not keeps_load and (role is Role.PRIMARY or not record.secondary_load):
            state.rows.load[row] = expected_load(state, record, role, defaults[role])
    if not service.on_every_node:
        fill_up(state, record, defaults)
        link(state, record)


def _feasibility_class(state: ClusterState, service: Service) -> int:
    """Return the index of the feasibility class of a service; a new class takes the index of an unused one."""
    key, index_of = (service.placement_constraint, service.blocked_nodes), state.feasibility_class_index
    if key in index_of:
        return index_of[key]
    expression = parse_expression(service.placement_constraint, f"service {service.name}")
    classes, table = len(state.feasibility_classes), state.service_table
    used = np.bincount(table.feasibility_class, minlength=classes) > 0  # the class without requirements always is
    index = classes if used.all() else int(used.argmin())
    state.feasibility_classes[index : index + 1] = [FeasibilityClass(expression, service.blocked_nodes)]
    state.feasibility_class_index = {class_key: number for class_key, number in index_of.items() if number != index}
    state.feasibility_class_index[key] = index
    state.structure_version += 1
    return index


def remove_service(state: ClusterState, name: str) -> int:
    """Remove the service `name`, without partitions; return its index, which a later service may get."""
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
    """Note which upgrade domains are completed in the running upgrade."""
    state.upgraded_domains = frozenset(check_names("engine", "upgraded domains", domains))
    state.node_version += 1
    state.structure_version += 1


def put_application(state: ClusterState, application: Application) -> None:
    """Add an application, or replace its namesake; the services that name it belong to it."""
    table, quanta = state.applications, state.quanta.copy()
    before = _entry_and_attraction(state, application.name)
    table.put(application, quanta)
    state.quanta = quanta
    _note_change(state, application.name, before)


def application_named(state: ClusterState, name: str) -> Application:
    """Return the application with this name; raise `UnknownNameError` if there is none."""
    applications = state.applications.applications
    if not isinstance(name, str) or name not in applications:
        raise UnknownNameError("application", name, applications)
    return applications[name]


def remove_application(state: ClusterState, name: str) -> None:
    """Remove an application; its services keep its name, without limits."""
    application_named(state, name)
    before = _entry_and_attraction(state, name)
    state.applications.remove(name)
    _note_change(state, name, before)


def _entry_and_attraction(state: ClusterState, name: str) -> tuple[int, bool]:
    """Return the entry of the application `name`, or NOWHERE, and whether upgraded domains attract its replicas."""
    application = state.applications.applications.get(name)
    return state.applications.entry_of(name), application is not None and bool(application.upgraded_domains)


def _note_change(state: ClusterState, name: str, before: tuple[int, bool]) -> None:
    """Note that the application `name` has changed, so that searches read its services again.

    `before`: `_entry_and_attraction` before the change.
    """
    state.services_version += 1
    after, table = _entry_and_attraction(state, name), state.service_table
    for service in state.applications.services.get(name, ()):
        state.service_version[service] += 1
        if after != before:
            table.application[service] = after[0]
            for record in state.service_partitions[service].values():
                state.rows.changes.note(record.rows)


def set_load(state: ClusterState, partition: str, node: str, loads: Mapping[str, float]) -> None:
    """Set the load of the replica of a partition on a node; other metrics keep their loads."""
    item = f"partition {partition} on node {node}"
    checked = check_loads(item, "load", loads)
    _set_load(state, _row_on(state, partition, node), item, checked)


def _row_on(state: ClusterState, partition: str, node: str) -> int:
    """Return the row of the replica of `partition` on `node`; the standing one before a leaving one."""
    item = f"partition {partition}"
    index = state.node(node, item)
    rows = [row for row in state.partition(partition).rows if state.rows.node[row] == index]
    if not rows:
        raise ConflictError(f"{item}: has no replica on node {node}")
    return min(rows, key=lambda row: bool(state.rows.leaving[row]))


def _set_load(state: ClusterState, row: int, item: str, loads: Mapping[str, float]) -> None:
    """Enter reported loads of `row`, `item` in errors, by metric in user units; its service may lack some metrics."""
    quanta = state.quanta.copy()
    load_quanta = quanta.loads(item, "load", loads)
    state.quanta = quanta
    has_metric = state.service_table.has_metric[state.rows.service[row]]
    for name, value in loads.items():
        metric = quanta.index[name]
        if has_metric[metric]:
            state.rows.load[row, metric] = load_quanta[metric]
            state.rows.largest_demand[row, metric] = max(state.rows.largest_demand[row, metric], value)
    state.rows.reported[row] = True
    state.rows.note_samples(np.array([row]))
    state.rows.changes.note((row,), loads_only=True)
    state.load_version[state.rows.service[row]] += 1


def set_role_load(
    state: ClusterState, partition: str, role: Role | str, loads: Mapping[str, float], *, only_to_come: bool = False
) -> None:
    """Set the load of all present and new replicas of a role without their own report, if `only_to_come` of new ones.

    `partition`: a name; `loads`: by metric, user units.
    """
    item = f"partition {partition}"
    role = check_role(item, "role", role)
    loads = check_loads(item, f"load[{role.name}]", loads)
    record = state.partition(partition)
    _check_role(state, record, role)
    quanta = state.quanta.copy()
    new = quanta.loads(item, f"load[{role.name}]", loads)
    state.quanta = quanta
    record.role_load = {**record.role_load, role: {**record.role_load.get(role, {}), **loads}}
    for row in record.rows:
        is_set = state.rows.node[row] == NOWHERE if only_to_come else not state.rows.reported[row]
        if state.rows.role[row] == int(role) and is_set and not state.rows.dropped[row]:
            for metric in [quanta.index[name] for name in loads]:
                state.rows.load[row, metric] = new[metric] * state.service_table.has_metric[record.service, metric]
    state.rows.changes.note(record.rows, loads_only=True)
    state.load_version[record.service] += 1


def set_secondary_loads(state: ClusterState, partition: str, loads: Mapping[str, Mapping[str, float]]) -> None:
    """Set the `loads` of secondaries, or instances, by node and metric; new ones have the mean of present ones.

    A placed replica keeps its load until it is reported. Without `use_separate_secondary_load` all have the mean of the
    reported ones (docs/service-fabric.md, Loads). `partition`: a name.
    """
    item = f"partition {partition}"
    checked = check_mapping(item, "loads", loads, "a mapping of nodes to loads")
    loads = {node: check_loads(item, f"loads[{node}]", load) for node, load in checked.items()}
    record = state.partition(partition)
    role = Role.SECONDARY if state.services[record.service].stateful else Role.INSTANCE
    node_of = {name: state.node(name, item) for name in loads}
    quanta = state.quanta.copy()
    for name, load in loads.items():
        quanta.loads(item, f"loads[{name}]", load)
    reported = [*dict.fromkeys(metric for load in loads.values() for metric in load)]
    for metric in reported:
        by_node = {name: load[metric] for name, load in loads.items() if metric in load}
        all_by_node = {**record.secondary_load.get(metric, {}), **by_node}
        record.secondary_load = {**record.secondary_load, metric: all_by_node}
    if not state.config.use_separate_secondary_load:
        means = {metric: _mean(record.secondary_load[metric].values()) for metric in reported}
        set_role_load(state, partition, role, means)
        return
    rows = [row for row in record.rows if state.rows.role[row] == int(role) and state.rows.node[row] != NOWHERE]
    for name, load in loads.items():
        for row in rows:
            if state.rows.node[row] == node_of[name]:
                _set_load(state, row, item, load)
    everywhere = state.services[record.service].on_every_node
    if rows and not (everywhere and state.config.use_default_load_for_service_on_every_node):
        present = {metric: state.rows.load[rows, state.quanta.index[metric]] for metric in reported}
        means = {metric: _mean(state.quanta.in_user_units(metric, load).tolist()) for metric, load in present.items()}
        set_role_load(state, partition, role, means, only_to_come=True)


def _mean(loads: Collection[float]) -> int:
    """Return the mean of loads, rounded to a whole number."""
    return math.floor(sum(loads) / len(loads) + 0.5)


def reset_loads(state: ClusterState, partition: str) -> None:
    """Forget all reported loads of a partition: its replicas have the default loads again, dropped ones none."""
    record, table = state.partition(partition), state.rows
    record.role_load = record.secondary_load = NO_REPORTS
    defaults = default_loads(state.quanta, state.services[record.service])
    for row in record.rows:
        if not table.dropped[row]:
            role = Role(int(table.role[row]))
            table.load[row] = expected_load(state, record, role, defaults[role])
        table.reported[row] = False
        table.largest_demand[row] = 0.0
        table.seen[row] = 0
        table.past.forget(row)
    table.changes.note(record.rows, loads_only=True)
    state.load_version[record.service] += 1


def set_move_cost(state: ClusterState, partition: str, role: Role | str, cost: MoveCost | str | float) -> None:
    """Set what moving the replicas of a role of the partition named `partition` costs."""
    item = f"partition {partition}"
    role, cost = check_role(item, "role", role), check_move_cost(item, cost)
    record = state.partition(partition)
    _check_role(state, record, role)
    record.move_cost = {**record.move_cost, role: cost}
    state.rows.changes.note(record.rows)
    state.load_version[record.service] += 1


def _check_role(state: ClusterState, record: PartitionRecord, role: Role) -> None:
    """Raise `InvalidValueError` for a role that no replica of the partition can have."""
    roles = roles_of(state.services[record.service])
    if role not in roles:
        names = " or ".join(allowed.name for allowed in roles)
        raise InvalidValueError(f"partition {record.name}", "role", role, names)


def set_loads(state: ClusterState, replica_index: npt.ArrayLike, reported: npt.ArrayLike) -> None:
    """Set the loads of many rows at once, checked as a whole first.

    `replica_index`: (m,) rows; `reported`: (m, R) user units.
    """
    rows = np.asarray(_array(replica_index, "replica_index", "iu", "whole numbers"), np.int64, order="C")
    loads = np.asarray(_array(reported, "loads", "iuf", "numbers, one row a replica"), np.float64, order="C")
    if rows.size == 0 and loads.size == 0:
        return  # an empty list has no columns that could be counted
    fits = rows.ndim == 1 and loads.shape == (len(rows), len(state.quanta.metrics))
    if not (fits and is_plain(rows, loads, state.rows.used)):
        _check_bulk(state, rows, loads)
    quanta = state.quanta.copy()
    new = quanta.bulk("report_loads", loads)
    state.quanta = quanta
    table, reports = state.rows, state.service_table.has_metric
    if not reports.all():
        new, loads = new * reports[table.service[rows]], loads * reports[table.service[rows]]
    changed, has_report = np.empty(len(rows), np.int64), np.zeros(len(state.services), np.bool_)
    columns = (table.load, table.largest_demand, table.reported, table.service)
    count = enter_loads(rows, new, loads, *columns, changed, has_report)
    table.note_samples(rows)
    table.changes.note_many(rows.copy() if table.samples.shape[2] else changed[:count], loads_only=True)
    for service in np.flatnonzero(has_report).tolist():
        state.load_version[service] += 1


@kernel
def is_plain(rows: Int, loads: Float, used: Bool) -> bool:
    """Return whether `rows`, (m,), ascend and are `used`, (M,), and all loads, (m, R), are finite and at least 0."""
    last = -1
    for position in range(len(rows)):
        row = rows[position]
        if row <= last or row >= len(used) or not used[row]:
            return False
        for load in loads[position]:
            if not 0.0 <= load < math.inf:
                return False
        last = row
    return True


@kernel
def enter_loads(
    rows: Int,
    new: Int,
    demand: Float,
    load: Int,
    largest_demand: Float,
    reported: Bool,
    service: Int,
    changed: Int,
    has_report: Bool,
) -> int:
    """Enter m reports in the arrays of `RowTable`, and return how many rows have changed.

    `rows`, `new`, `demand`: (m,), (m, R) quanta and (m, R) user units: the reports. `load`, `largest_demand`,
    `reported`, `service`: arrays of `RowTable`; all but `service` are modified. `changed`: (m,) receives the rows that
    have changed; `has_report`: (S,) set to true for services with a report.
    """
    count = 0
    for position in range(len(rows)):
        row = rows[position]
        is_changed = not reported[row]
        reported[row] = True
        has_report[service[row]] = True
        for metric in range(new.shape[1]):
            is_changed |= load[row, metric] != new[position, metric]
            load[row, metric] = new[position, metric]
            if demand[position, metric] > largest_demand[row, metric]:
                largest_demand[row, metric] = demand[position, metric]
                is_changed = True
        if is_changed:
            changed[count] = row
            count += 1
    return count


def _array(values: npt.ArrayLike, field: str, kinds: str, allowed: str) -> npt.NDArray[Any]:
    """Return values as an array whose type is of one of `kinds`, letters of NumPy; else raise `InvalidValueError`.

    `field`, `allowed`: the argument and what it may be, for the error.
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # for example rows of several lengths
        raise InvalidValueError("report_loads", field, values, allowed) from None
    if array.size and array.dtype.kind not in kinds:
        raise InvalidValueError("report_loads", field, values, allowed)
    return array if array.size else np.zeros(array.shape)


def _check_bulk(state: ClusterState, rows: Int, loads: Float) -> None:
    """Raise an error if reports, `rows` (m,) and `loads` (m, R), have a wrong shape, row or load."""
    if rows.ndim != 1:
        raise InvalidValueError("report_loads", "replica_index.shape", rows.shape, "one dimension")
    if loads.shape != (len(rows), len(state.quanta.metrics)):
        expected = f"shape ({len(rows)}, {len(state.quanta.metrics)})"
        raise InvalidValueError("report_loads", "loads.shape", loads.shape, expected)
    if rows.min() < 0 or rows.max() >= state.rows.capacity or not state.rows.used[rows].all():
        bad = next(int(row) for row in rows if not (0 <= row < state.rows.capacity and state.rows.used[row]))
        raise InvalidValueError("report_loads", "replica_index", bad, "an index from replicas()")
    times = np.bincount(rows)
    if times.max() > 1:
        bad = int(np.flatnonzero(times > 1)[0])
        raise InvalidValueError("report_loads", "replica_index", bad, "each index at most once")
    if not np.isfinite(loads).all() or loads.min() < 0:
        at, metric = np.argwhere(~np.isfinite(loads) | (loads < 0))[0]
        name = state.quanta.metrics[metric].name
        item = f"partition {state.row_partition[int(rows[at])]}"
        raise InvalidValueError(item, f"load[{name}]", float(loads[at, metric]), "a finite number >= 0")
