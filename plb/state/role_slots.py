"""The role slots of a partition: made, removed, adapted to a target number, and matched to described replicas."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.model import Replica, ReplicaState, Role, Service, UpgradeMark
from plb.model.quanta import MetricQuanta
from plb.model.role import PRIMARY, ROLES
from plb.risk.counter_based_random import replica_key
from plb.state.cluster_state import ClusterState, PartitionRecord

if TYPE_CHECKING:
    from plb.state.topology import Topology


def roles_of(service: Service) -> tuple[Role, ...]:
    """Return the roles that replicas of a service can have."""
    return (Role.PRIMARY, Role.SECONDARY) if service.stateful else (Role.INSTANCE,)


def default_loads(quanta: MetricQuanta, service: Service) -> dict[Role, Int]:
    """Return for each role of a service the load of a replica until its first report, (R,) quanta.

    `quanta` is changed: the loads fix the quanta that are open.
    """
    loads = {role: service.default_load.get(role, {}) for role in roles_of(service)}
    item = f"service {service.name}"
    return {role: quanta.loads(item, f"default_load[{role.name}]", load) for role, load in loads.items()}


def next_role(state: ClusterState, record: PartitionRecord) -> Role:
    """Return the role of the next replica to be added: for a stateful partition without a primary, the primary."""
    if not state.services[record.service].stateful:
        return Role.INSTANCE
    return Role.SECONDARY if has_primary(state, record) else Role.PRIMARY


def has_primary(state: ClusterState, record: PartitionRecord) -> bool:
    """Return whether a partition has a primary, also one that moves away or is to be swapped out, or a slot for it."""
    table = state.rows
    primaries = [row for row in record.rows if table.role[row] == PRIMARY]
    return any(not table.dropping[row] or table.swaps_out[row] for row in primaries)


def slots_of(state: ClusterState, record: PartitionRecord) -> list[int]:
    """Return the rows of replicas that the partition should have: all but departing ends and standbys."""
    table = state.rows
    return [row for row in record.rows if not (table.leaving[row] or table.standby[row])]


def rows_in_order(state: ClusterState, records: Iterable[PartitionRecord]) -> Int:
    """Return the rows of the partitions of `records`, (m,), the departing ends of each partition last.

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
    """Return whether each of `rows`, (m,), is a ready replica that no move under way and no pin holds, (m,)."""
    table = state.rows
    free: Bool = table.used & ~(table.leaving | table.standby | table.still | table.pinned)
    free &= table.arriving == NOWHERE
    return free[rows]


def new_slot(state: ClusterState, record: PartitionRecord, role: Role, default: Int) -> int:
    """Add an empty slot of a role to a partition and return its row; `default`: (R,) quanta without a reported load.

    The caller links the rows.
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
    """Return the load of a replica without a report, (R,): the reported load of its role, else `default`, quanta."""
    load = default.copy()
    for name, value in record.role_load.get(role, {}).items():
        load[state.quanta.index[name]] = state.quanta.loads("", "", {name: value})[state.quanta.index[name]]
    has_metric = state.service_table.has_metric[record.service]
    return load if has_metric.all() else load * has_metric


def load_of_next_primary(state: ClusterState, record: PartitionRecord) -> Int:
    """Return the load of the next primary of a partition without one, (R,) quanta: of its empty slot, or a new one."""
    table = state.rows
    for row in slots_of(state, record):
        if table.role[row] == PRIMARY and table.node[row] == NOWHERE:
            load: Int = table.load[row]
            return load
    service = state.services[record.service]
    return expected_load(state, record, Role.PRIMARY, default_loads(state.quanta, service)[Role.PRIMARY])


def slot_key(record: PartitionRecord, slot: int) -> int:
    """Return the key with which slot number `slot` of a partition samples its traces; each promotion changes it."""
    name = f"{record.name}@{record.promotions}" if record.promotions else record.name
    while len(record.slot_keys) <= slot:
        record.slot_keys += (replica_key(name, len(record.slot_keys)),)
    return record.slot_keys[slot]


def note_promotion(state: ClusterState, record: PartitionRecord, row: int) -> None:
    """Give the primary's slot, `row`, a new key for its samples, because another replica has become the primary."""
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
    for sibling in state.partitions[state.row_partition[row]].rows:
        if state.rows.arriving[sibling] == row:
            state.rows.arriving[sibling] = NOWHERE
    del state.row_partition[row]
    state.rows.release(row)


def remove_slot(state: ClusterState, record: PartitionRecord, row: int) -> None:
    """Remove the slot `row` from a partition; the caller then closes the ring of siblings by `link`."""
    release(state, row)
    record.rows.remove(row)


def link(state: ClusterState, record: PartitionRecord) -> None:
    """Make the rows of a partition a ring: `RowTable.sibling` of each is the next, and of the last the first."""
    for row, successor in zip(record.rows, record.rows[1:] + record.rows[:1], strict=True):
        state.rows.sibling[row] = successor
    state.rows.changes.note(record.rows)


def _target(state: ClusterState, record: PartitionRecord, standing: int) -> int:
    """Return how many replicas a partition with `standing` placed ones should have; 0 for services on every node."""
    service = state.services[record.service]
    if service.on_every_node:
        return 0
    return service.target_replicas if record.missing is None else standing + max(0, record.missing)


def trim(state: ClusterState, record: PartitionRecord, role: Role, empty: list[int], standing: int) -> None:
    """Remove the last of the `empty` slots of a role beyond the target of a partition with `standing` placed replicas.

    The slot of a primary stays.
    """
    missing = sum(1 for row in record.rows if state.rows.node[row] == NOWHERE)
    surplus = standing + missing - _target(state, record, standing)
    for row in reversed(empty):
        if surplus <= 0 or role == Role.PRIMARY:
            return
        remove_slot(state, record, row)
        surplus -= 1


def trim_all(state: ClusterState, record: PartitionRecord) -> None:
    """Remove the empty slots of all roles beyond the target of a partition."""
    table = state.rows
    empty = [row for row in record.rows if table.node[row] == NOWHERE and table.role[row] != PRIMARY]
    standing = sum(1 for row in slots_of(state, record) if table.node[row] != NOWHERE)
    for role in {Role(table.role[row]) for row in empty}:
        trim(state, record, role, [row for row in empty if table.role[row] == int(role)], standing)
    link(state, record)


def fill_up(state: ClusterState, record: PartitionRecord, defaults: Mapping[Role, Int], *, led: bool = False) -> None:
    """Add empty slots up to the target, a primary first if there is none; `led`: a departing replica is primary.

    `defaults`: `default_loads` of the service. The caller links the rows.
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
    """Do `fill_every_node` for a partition, and set `PartitionRecord.misplaced`."""
    service, table = state.services[record.service], state.rows
    feasible = topology.feasibility_classes[state.service_table.feasibility_class[record.service]]
    taken = {int(table.node[row]) for row in record.rows if table.node[row] != NOWHERE and not table.vacant[row]}
    missing = sum(1 for node in np.flatnonzero(topology.receives[2] & feasible).tolist() if node not in taken)
    empty = [row for row in record.rows if table.node[row] == NOWHERE]
    for row in empty[missing:]:
        remove_slot(state, record, row)
    defaults = default_loads(state.quanta, service)
    for _ in range(missing - len(empty)):
        role = next_role(state, record)
        new_slot(state, record, role, defaults[role])
    infeasible = topology.drained | ~feasible
    record.misplaced = 0 if missing else sum(1 for node in taken if infeasible[node])
    link(state, record)


def surplus_of(state: ClusterState, record: PartitionRecord) -> int:
    """Return how many replicas a partition has above its target, or as its description says; 0 if none."""
    service = state.services[record.service]
    if service.on_every_node:
        return record.misplaced
    if record.missing is not None:
        return max(0, -record.missing)
    return max(0, len(slots_of(state, record)) - service.target_replicas) if service.target_replicas else 0


End = tuple[Role, int, bool, bool, int]
"""Identity of a departing end or standby: role, node, whether it leaves, whether it is vacant, a running number."""


MOVING_STATES = frozenset({ReplicaState.READY, ReplicaState.IN_BUILD, ReplicaState.DOWN})
"""The states of replicas of which a move may be under way."""


@attrs.frozen(eq=False)
class _Seat:
    """The slot that a described replica gets."""

    row: int
    """Row of the slot."""
    replica: Replica
    node: int
    """Index of the replica's node."""


def match_slots(
    state: ClusterState,
    record: PartitionRecord,
    placed: Sequence[tuple[Replica, int]],
    defaults: Mapping[Role, Int],
) -> None:
    """Bring the rows of a partition to its described replicas: slots, departing ends and standbys.

    A replica gets the slot of its role on its node, else a free or a new one. `placed`: each replica with the index of
    its node; `defaults`: `default_loads` of the service.
    """
    table = state.rows
    placed = [(_as_it_counts(record, replica, len(placed)), node) for replica, node in placed]
    slots = slots_of(state, record)
    node_before = {row: int(table.node[row]) for row in slots}
    standing = [(replica, node) for replica, node in placed if _holds_slot(replica)]
    ends = _ends_of(placed)
    end_rows = _keep_ends(state, record, slots, ends)
    record.rows = slots
    seats, free = _seats(state, record, standing, node_before, defaults)
    _take_seats(state, record, seats, node_before)
    for role, rows in free.items():
        for row in rows:
            table.node[row], table.still[row] = NOWHERE, record.still
            table.pinned[row] = table.building[row] = False
            table.swaps_out[row] = table.regains[row] = table.kept[row] = False
        trim(state, record, role, rows, len(standing))
    led = any(_still_leads(replica) for replica, _ in placed)
    for row in list(record.rows) if led else ():
        if table.role[row] == PRIMARY and table.node[row] == NOWHERE:  # it waits for a place
            remove_slot(state, record, row)
    fill_up(state, record, defaults, led=led)
    record.rows += end_rows.values()
    for end, replica in ends.items():
        if end not in end_rows:
            end_rows[end] = _add_end(state, record, replica.role, end[1], defaults, node_before)
        _describe_end(state, end_rows[end], replica)
    if record.still:
        table.still[record.rows] = True
    table.upgrading[record.rows] = record.upgrading
    _set_marked(state, record)
    link(state, record)


def _as_it_counts(record: PartitionRecord, replica: Replica, replicas: int) -> Replica:
    """Return the replica as the partition counts it; `replicas`: how many are described.

    A single replica that an upgrade will replace stays, so that the new one is in another domain.
    """
    replaced = replicas == 1 and replica.upgrade is UpgradeMark.SWAP_OUT and (record.missing or 0) > 0
    return attrs.evolve(replica, to_be_dropped=False) if replaced and replica.to_be_dropped else replica


def _still_leads(replica: Replica) -> bool:
    """Return whether a replica on its way out is still the primary."""
    leads = not replica.to_be_dropped or replica.upgrade is UpgradeMark.SWAP_OUT
    return replica.role is Role.PRIMARY and replica.disappears and leads


def _keep_ends(
    state: ClusterState, record: PartitionRecord, slots: Container[int], ends: Mapping[End, Replica]
) -> dict[End, int]:
    """Return the rows of the departing ends and standbys of `ends` that the partition has; free the rows of others.

    `slots`: the rows of the partition that are neither.
    """
    table = state.rows
    end_rows: dict[End, int] = {}
    for row in record.rows:
        if row in slots:
            continue
        role, node = Role(table.role[row]), int(table.node[row])
        end = _next_end(end_rows, role, node, leaves=bool(table.leaving[row]), vacant=bool(table.vacant[row]))
        if end in ends:
            end_rows[end] = row
        else:
            release(state, row)
    return end_rows


def _seats(
    state: ClusterState,
    record: PartitionRecord,
    standing: Sequence[tuple[Replica, int]],
    node_before: Mapping[int, int],
    defaults: Mapping[Role, Int],
) -> tuple[list[_Seat], dict[Role, list[int]]]:
    """Return the slot of each `standing` replica, and by role the slots that no replica gets.

    `standing`: each replica that holds a slot, with its node; `node_before`: present node of each slot; `defaults`:
    `default_loads` of the service.
    """
    free: dict[Role, list[int]] = {role: [] for role in defaults}
    for row in record.rows:
        free[ROLES[state.rows.role[row]]].append(row)
    seats, later = [], []
    for replica, node in standing:
        slots_on_node = [row for row in free[replica.role] if node_before[row] == node]
        if slots_on_node:
            free[replica.role].remove(slots_on_node[0])
            seats.append(_Seat(slots_on_node[0], replica, node))
        else:
            later.append((replica, node))
    for replica, node in later:
        role = replica.role
        row = free[role].pop(0) if free[role] else new_slot(state, record, role, defaults[role])
        seats.append(_Seat(row, replica, node))
    return seats, free


def _take_seats(
    state: ClusterState, record: PartitionRecord, seats: Sequence[_Seat], node_before: Mapping[int, int]
) -> None:
    """Enter the described replicas in the rows of their slots, `seats`; `node_before`: node of each slot until now."""
    table = state.rows
    secondaries = {seat.node for seat in seats if seat.replica.role is Role.SECONDARY}
    for seat in seats:
        row, replica = seat.row, seat.replica
        _detect_promotion(state, record, row, seat.node, node_before, secondaries)
        table.node[row], table.pinned[row] = seat.node, replica.pinned
        table.still[row] = record.still or replica.state is not ReplicaState.READY
        table.building[row] = replica.state is ReplicaState.IN_BUILD
        _note_mark(state, row, replica)


def _note_mark(state: ClusterState, row: int, replica: Replica) -> None:
    """Record the mark of an upgrade on a replica's row; a replica that disappears does not ask for the primary."""
    table, asks = state.rows, replica.upgrade is UpgradeMark.PRIMARY_RETURNS
    table.swaps_out[row] = replica.upgrade is UpgradeMark.SWAP_OUT
    table.regains[row] = asks and replica.role is Role.SECONDARY and not replica.disappears
    table.kept[row] = replica.upgrade is UpgradeMark.REPLICA_RETURNS


def _set_marked(state: ClusterState, record: PartitionRecord) -> None:
    """Set `RowTable.marked`, which no repair moves, for the rows of a partition from the marks of upgrades."""
    table, rows = state.rows, np.array(record.rows, np.int64)
    if not record.upgrading:  # no replica is marked
        table.marked[rows] = False
        return
    returns = bool(table.regains[rows].any())
    has_mark = table.swaps_out[rows] | table.regains[rows] | table.kept[rows]
    table.marked[rows] = has_mark | ((table.role[rows] == PRIMARY) & returns)


def _detect_promotion(
    state: ClusterState,
    record: PartitionRecord,
    row: int,
    node: int,
    node_before: Mapping[int, int],
    secondaries: set[int],
) -> None:
    """Sample the slot `row` again if a secondary became the primary and the old primary did not become a secondary.

    `node`: the new node of the slot; `node_before`: node of each slot until now; `secondaries`: nodes of secondaries.
    """
    old_node = node_before.get(row, NOWHERE)
    if old_node in (NOWHERE, node) or state.rows.role[row] != PRIMARY:
        return
    sibling_nodes = {sibling_node for sibling, sibling_node in node_before.items() if sibling != row}
    if node in sibling_nodes and old_node not in secondaries:
        note_promotion(state, record, row)


def _add_end(
    state: ClusterState,
    record: PartitionRecord,
    role: Role,
    node: int,
    defaults: Mapping[Role, Int],
    node_before: Mapping[int, int],
) -> int:
    """Add a departing end or standby on `node` and return its row; until its own report it has the load of its slot.

    `defaults`: `default_loads` of the service; `node_before`: node of each slot until now.
    """
    table = state.rows
    moved = [
        row for row in record.rows if node_before.get(row) == node != table.node[row] and table.role[row] == int(role)
    ]
    slots = moved or [row for row in record.rows if table.role[row] == int(role)]
    end = new_slot(state, record, role, table.load[slots[-1]].copy() if slots else defaults[role])
    table.node[end] = node
    if moved:
        table.arriving[moved[0]] = end
    return end


def _describe_end(state: ClusterState, row: int, replica: Replica) -> None:
    """Enter a replica without a slot in its row: it is a standby, or leaves."""
    table = state.rows
    table.still[row] = True
    table.leaving[row] = _leaves(replica)
    table.standby[row] = replica.state is ReplicaState.STANDBY or _is_vacant(replica)
    table.vacant[row] = _is_vacant(replica)
    table.dropping[row] = replica.to_be_dropped
    table.moving[row] = replica.leaving and not replica.to_be_dropped and replica.state in MOVING_STATES
    _note_mark(state, row, replica)
    table.dropped[row] = replica.state is ReplicaState.DROPPED
    if table.dropped[row]:
        table.load[row] = 0


def _ends_of(placed: Iterable[tuple[Replica, int]]) -> dict[End, Replica]:
    """Return by identity the replicas that hold no slot; `placed`: each replica with its node."""
    ends: dict[End, Replica] = {}
    for replica, node in placed:
        if not _holds_slot(replica):
            end = _next_end(ends, replica.role, node, leaves=_leaves(replica), vacant=_is_vacant(replica))
            ends[end] = replica
    return ends


def _next_end(taken: Container[End], role: Role, node: int, *, leaves: bool, vacant: bool) -> End:
    """Return the identity of this role, node and kind, `leaves` and `vacant`, with the first number not `taken`."""
    return next(end for number in count() if (end := (role, node, leaves, vacant, number)) not in taken)


def _holds_slot(replica: Replica) -> bool:
    """Return whether a replica counts towards the target of its partition."""
    return not replica.disappears and replica.state not in (ReplicaState.STANDBY, ReplicaState.DROPPED)


def _leaves(replica: Replica) -> bool:
    """Return whether a replica without a slot is on its way out; else it is a standby, or the place of one."""
    gone = replica.state is ReplicaState.DROPPED and replica.upgrade is UpgradeMark.NONE
    return replica.disappears or gone


def _is_vacant(replica: Replica) -> bool:
    """Return whether a replica without a slot was dropped and only reserves its place for a new one."""
    return replica.state is ReplicaState.DROPPED and not _leaves(replica)
