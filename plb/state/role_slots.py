"""The role slots of a partition: created, removed, and adapted to the target number of its service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.model import Role, Service
from plb.model.quanta import MetricQuanta
from plb.model.role import PRIMARY
from plb.risk.counter_based_random import replica_key
from plb.state.cluster_state import ClusterState, PartitionRecord

if TYPE_CHECKING:
    from plb.state.topology import Topology


def roles_of(service: Service) -> tuple[Role, ...]:
    """Return the roles that replicas of a service can have."""
    return (Role.PRIMARY, Role.SECONDARY) if service.stateful else (Role.INSTANCE,)


def default_loads(quanta: MetricQuanta, service: Service) -> dict[Role, Int]:
    """Return, for each role of a service, the load of a replica until its first report: (R,) quanta.

    `quanta`: fixes quanta by the first value of a metric.
    """
    loads = {role: service.default_load.get(role, {}) for role in roles_of(service)}
    item = f"service {service.name}"
    return {role: quanta.loads(item, f"default_load[{role.name}]", load) for role, load in loads.items()}


def next_role(state: ClusterState, record: PartitionRecord) -> Role:
    """Return the role of the next replica to be added: a primary first if a stateful partition is to have none yet."""
    if not state.services[record.service].stateful:
        return Role.INSTANCE
    return Role.SECONDARY if has_primary(state, record) else Role.PRIMARY


def has_primary(state: ClusterState, record: PartitionRecord) -> bool:
    """Return whether a partition has a primary, or a slot for one.

    One that moves away is still the primary; one that is to be dropped is not, unless it is to be swapped out.
    """
    table = state.rows
    primaries = [row for row in record.rows if table.role[row] == PRIMARY]
    return any(not table.dropping[row] or table.swaps_out[row] for row in primaries)


def slots_of(state: ClusterState, record: PartitionRecord) -> list[int]:
    """Return the rows of replicas that the partition should have: all but departing ends and standbys."""
    table = state.rows
    return [row for row in record.rows if not (table.leaving[row] or table.standby[row])]


def rows_in_order(state: ClusterState, records: Iterable[PartitionRecord]) -> Int:
    """Return the rows of partitions, (m,): those of each in order, its departing ends last.

    Missing replicas of services on every node are left out.
    """
    table, records = state.rows, [*records]
    rows = np.array([row for record in records for row in record.rows], np.int64)
    if table.leaving[rows].any():
        partition = np.repeat(np.arange(len(records)), [len(record.rows) for record in records])
        rows = rows[np.lexsort((table.leaving[rows], partition))]
    everywhere = state.service_table.on_every_node
    if everywhere.any():
        rows = rows[~everywhere[table.service[rows]] | (table.node[rows] != NOWHERE)]
    return rows


def may_change_role(state: ClusterState, rows: Sequence[int] | slice = slice(None)) -> Bool:
    """Return which of `rows` are ready replicas that no move under way and no pin holds, of their shape."""
    table = state.rows
    free: Bool = table.used & ~(table.leaving | table.standby | table.still | table.pinned)
    free &= table.arriving == NOWHERE
    return free[rows]


def new_slot(state: ClusterState, record: PartitionRecord, role: Role, default: Int) -> int:
    """Add an empty slot and return its row.

    `default`: (R,) quanta of load for metrics without a report for its role.
    """
    table = state.rows
    row = int(table.take(1)[0])
    table.role[row] = role
    table.load[row] = expected_load(state, record, role, default)
    table.service[row] = record.service
    table.created[row] = record.created
    table.key[row] = _free_key(state, record)
    table.still[row], table.upgrading[row] = record.still, record.upgrading
    record.rows.append(row)
    state.row_partition[row] = record.name
    return row


def expected_load(state: ClusterState, record: PartitionRecord, role: Role, default: Int) -> Int:
    """Return the load of a replica without a report: that of its role."""
    load = default.copy()
    for name, value in record.role_load.get(role, {}).items():
        load[state.quanta.index[name]] = state.quanta.loads("", "", {name: value})[state.quanta.index[name]]
    has_metric = state.service_table.has_metric[record.service]
    return load if has_metric.all() else load * has_metric


def load_of_next_primary(state: ClusterState, record: PartitionRecord) -> Int:
    """Return the load of the next primary of a partition without one, (R,): that of the slot that waits for it.

    Without such a slot, it is that of a new slot.
    """
    table = state.rows
    for row in slots_of(state, record):
        if table.role[row] == PRIMARY and table.node[row] == NOWHERE:
            load: Int = table.load[row]
            return load
    service = state.services[record.service]
    return expected_load(state, record, Role.PRIMARY, default_loads(state.quanta, service)[Role.PRIMARY])


def slot_key(record: PartitionRecord, slot: int) -> int:
    """Return the key with which the slot of this number samples its traces; another one after each promotion."""
    name = f"{record.name}@{record.promotions}" if record.promotions else record.name
    while len(record.slot_keys) <= slot:
        record.slot_keys += (replica_key(name, len(record.slot_keys)),)
    return record.slot_keys[slot]


def note_promotion(state: ClusterState, record: PartitionRecord, row: int) -> None:
    """Sample the traces of the slot of the primary again, because another replica has become the primary."""
    record.promotions += 1
    record.slot_keys = ()
    state.rows.key[row] = slot_key(record, record.rows.index(row))
    state.rows.changes.note((row,))


def _free_key(state: ClusterState, record: PartitionRecord) -> int:
    """Return the key of the first slot number that no row of the partition has: no two rows share their samples."""
    if not record.rows:
        return slot_key(record, 0)
    taken = set(state.rows.key[record.rows].tolist())
    return next(key for slot in count() if (key := slot_key(record, slot)) not in taken)


def release(state: ClusterState, row: int) -> None:
    """Free the row of a slot; the caller updates the rows of its partition."""
    for other in state.partitions[state.row_partition[row]].rows:
        if state.rows.arriving[other] == row:
            state.rows.arriving[other] = NOWHERE
    del state.row_partition[row]
    state.rows.release(row)


def remove_slot(state: ClusterState, record: PartitionRecord, row: int) -> None:
    """Remove a slot from a partition; `link` closes the ring again."""
    release(state, row)
    record.rows.remove(row)


def link(state: ClusterState, record: PartitionRecord) -> None:
    """Make the rows of a partition one ring of siblings."""
    for row, successor in zip(record.rows, record.rows[1:] + record.rows[:1], strict=True):
        state.rows.sibling[row] = successor
    state.rows.changes.note(record.rows)


def _target(state: ClusterState, record: PartitionRecord, standing: int) -> int:
    """Return how many replicas a partition should have of which `standing` are there."""
    service = state.services[record.service]
    if service.on_every_node:
        return 0
    return service.target_replicas if record.missing is None else standing + max(0, record.missing)


def trim(state: ClusterState, record: PartitionRecord, role: Role, free: list[int], standing: int) -> None:
    """Remove empty slots beyond the target of the service.

    `free`: rows of empty slots of this role; `standing`: replicas of the partition that have a node.
    """
    waiting = sum(1 for row in record.rows if state.rows.node[row] == NOWHERE)
    surplus = standing + waiting - _target(state, record, standing)
    for row in reversed(free):
        if surplus <= 0 or role == Role.PRIMARY:
            return
        remove_slot(state, record, row)
        surplus -= 1


def trim_waiting(state: ClusterState, record: PartitionRecord) -> None:
    """Remove the slots that a lower target leaves unused."""
    table = state.rows
    waiting = [row for row in record.rows if table.node[row] == NOWHERE and table.role[row] != PRIMARY]
    standing = sum(1 for row in slots_of(state, record) if table.node[row] != NOWHERE)
    for role in {Role(table.role[row]) for row in waiting}:
        trim(state, record, role, [row for row in waiting if table.role[row] == int(role)], standing)
    link(state, record)


def fill_up(state: ClusterState, record: PartitionRecord, defaults: Mapping[Role, Int], *, led: bool = False) -> None:
    """Add empty slots up to the target: a primary first if a stateful partition has none.

    `led`: whether it has a primary whose row is not made yet.
    """
    slots = slots_of(state, record)
    standing = sum(1 for row in slots if state.rows.node[row] != NOWHERE)
    role = Role.SECONDARY if led else next_role(state, record)
    for _ in range(_target(state, record, standing) - len(slots)):
        new_slot(state, record, role, defaults[role])
        role = Role.SECONDARY if role is Role.PRIMARY else role


def fill_every_node(state: ClusterState, topology: Topology) -> None:
    """Give every partition that is on every node as many slots as there are nodes without one of its replicas."""
    for record in state.partitions_everywhere():
        _fill_nodes_of(state, topology, record)


def _fill_nodes_of(state: ClusterState, topology: Topology, record: PartitionRecord) -> None:
    service, table = state.services[record.service], state.rows
    feasibility_classes = topology.feasibility_classes[state.service_table.feasibility_class[record.service]]
    taken = {int(table.node[row]) for row in record.rows if table.node[row] != NOWHERE and not table.vacant[row]}
    requested = sum(
        1 for node in np.flatnonzero(topology.receives[2] & feasibility_classes).tolist() if node not in taken
    )
    waiting = [row for row in record.rows if table.node[row] == NOWHERE]
    for row in waiting[requested:]:
        remove_slot(state, record, row)
    defaults = default_loads(state.quanta, service)
    for _ in range(requested - len(waiting)):
        role = next_role(state, record)
        new_slot(state, record, role, defaults[role])
    wrong = topology.drained | ~feasibility_classes
    record.misplaced = 0 if requested else sum(1 for node in taken if wrong[node])
    link(state, record)


def surplus_of(state: ClusterState, record: PartitionRecord) -> int:
    """Return how many replicas a partition has too many."""
    service = state.services[record.service]
    if service.on_every_node:
        return record.misplaced
    if record.missing is not None:
        return max(0, -record.missing)
    return max(0, len(slots_of(state, record)) - service.target_replicas) if service.target_replicas else 0
