"""Reports of loads and move costs, entered in the state (docs/service-fabric.md, Loads)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import kernel
from plb.errors import ConflictError, InvalidValueError
from plb.model import MoveCost, Role, check_move_cost, check_role
from plb.state.cluster_state import NO_REPORTS, ClusterState, PartitionRecord
from plb.state.role_slots import default_loads, expected_load, roles_of
from plb.validation import check_loads, check_mapping


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
    quanta = state.quanta.copy()
    new = quanta.loads(item, "load", loads)
    state.quanta = quanta
    reports = state.service_table.has_metric[state.rows.service[row]]
    for name, value in loads.items():
        metric = quanta.index[name]
        if reports[metric]:
            state.rows.load[row, metric] = new[metric]
            state.rows.largest_demand[row, metric] = max(state.rows.largest_demand[row, metric], value)
    state.rows.reported[row] = True
    state.rows.note_samples(np.array([row]))
    state.rows.changes.note((row,), loads_only=True)
    state.load_version[state.rows.service[row]] += 1


def set_role_load(
    state: ClusterState, partition: str, role: Role | str, loads: Mapping[str, float], *, only_to_come: bool = False
) -> None:
    """Set the load of all present and new replicas of a role without their own report, or only of new ones."""
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
        concerned = state.rows.node[row] == NOWHERE if only_to_come else not state.rows.reported[row]
        if state.rows.role[row] == int(role) and concerned and not state.rows.dropped[row]:
            for metric in [quanta.index[name] for name in loads]:
                state.rows.load[row, metric] = new[metric] * state.service_table.has_metric[record.service, metric]
    state.rows.changes.note(record.rows, loads_only=True)
    state.load_version[record.service] += 1


def set_secondary_loads(state: ClusterState, partition: str, loads: Mapping[str, Mapping[str, float]]) -> None:
    """Set the loads of secondaries, or instances, by node and metric; new ones have the rounded mean of present ones.

    A placed replica keeps its load until it is reported. Without `use_separate_secondary_load` all have the mean of the
    reported ones (docs/service-fabric.md, Loads).
    """
    item = f"partition {partition}"
    checked = check_mapping(item, "loads", loads, "a mapping of nodes to loads")
    loads = {node: check_loads(item, f"loads[{node}]", load) for node, load in checked.items()}
    record = state.partition(partition)
    role = Role.SECONDARY if state.services[record.service].stateful else Role.INSTANCE
    at = {name: state.node(name, item) for name in loads}
    quanta = state.quanta.copy()
    for name, load in loads.items():
        quanta.loads(item, f"loads[{name}]", load)
    reported = [*dict.fromkeys(metric for load in loads.values() for metric in load)]
    for metric in reported:
        by_node = {name: load[metric] for name, load in loads.items() if metric in load}
        together = {**record.secondary_load.get(metric, {}), **by_node}
        record.secondary_load = {**record.secondary_load, metric: together}
    if not state.config.use_separate_secondary_load:
        means = {metric: _mean(record.secondary_load[metric].values()) for metric in reported}
        set_role_load(state, partition, role, means)
        return
    rows = [row for row in record.rows if state.rows.role[row] == int(role) and state.rows.node[row] != NOWHERE]
    for name, load in loads.items():
        for row in rows:
            if state.rows.node[row] == at[name]:
                _set_load(state, row, item, load)
    everywhere = state.services[record.service].on_every_node
    if rows and not (everywhere and state.config.use_default_load_for_service_on_every_node):
        columns = {metric: state.rows.load[rows, state.quanta.index[metric]] for metric in reported}
        means = {metric: _mean(state.quanta.in_user_units(metric, of).tolist()) for metric, of in columns.items()}
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
    """Set what moving the replicas of a role costs."""
    item = f"partition {partition}"
    role, cost = check_role(item, "role", role), check_move_cost(item, cost)
    record = state.partition(partition)
    _check_role(state, record, role)
    record.move_cost = {**record.move_cost, role: cost}
    state.rows.changes.note(record.rows)
    state.load_version[record.service] += 1


def _check_role(state: ClusterState, record: PartitionRecord, role: Role) -> None:
    """Refuse a role that no replica of the partition can have."""
    roles = roles_of(state.services[record.service])
    if role not in roles:
        names = " or ".join(allowed.name for allowed in roles)
        raise InvalidValueError(f"partition {record.name}", "role", role, names)


def set_loads(state: ClusterState, replica_index: npt.ArrayLike, reported: npt.ArrayLike) -> None:
    """Set the loads of many rows at once; shapes (m,) and (m, R), user units. Checked as a whole first."""
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
    changed, services = np.empty(len(rows), np.int64), np.zeros(len(state.services), np.bool_)
    entered = (table.load, table.largest_demand, table.reported, table.service)
    count = enter_loads(rows, new, loads, *entered, changed, services)
    table.note_samples(rows)
    table.changes.note_many(rows.copy() if table.keeps_samples else changed[:count], loads_only=True)
    for service in np.flatnonzero(services).tolist():
        state.load_version[service] += 1


@kernel
def is_plain(rows: Int, loads: Float, used: Bool) -> bool:
    """Return whether rows, (m,), are ascending and `used`, (M,), and all loads, (m, R), finite and at least 0."""
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
    services: Bool,
) -> int:
    """Enter reports in the rows, and return how many rows have changed: the first entries of `changed`, (m,).

    `rows`, `new`, `demand`: (m,), (m, R) quanta and (m, R) user units: the reports.
    `load`, `largest_demand`, `reported`: (M+1, R) quanta, (M, R) user units and (M,): modified.
    `services`: (S,) set to true for services with a report.
    """
    count = 0
    for position in range(len(rows)):
        row = rows[position]
        is_changed = not reported[row]
        reported[row] = True
        services[service[row]] = True
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
    """Return values as an array of one of these kinds of numbers, as NumPy has them by letter, or refuse them."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # for example rows of several lengths
        raise InvalidValueError("report_loads", field, values, allowed) from None
    if array.size and array.dtype.kind not in kinds:
        raise InvalidValueError("report_loads", field, values, allowed)
    return array if array.size else np.zeros(array.shape)


def _check_bulk(state: ClusterState, rows: Int, loads: Float) -> None:
    """Raise an error for bulk reports with invalid shapes, an unknown row, one row twice, or an invalid load."""
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
