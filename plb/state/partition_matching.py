"""Matches the replicas that the host describes to the role slots of their partition."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import count

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.model import Replica, ReplicaState, Role, UpgradeMark
from plb.model.role import PRIMARY, ROLES
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.role_slots import fill_up, link, new_slot, note_promotion, release, remove_slot, slots_of, trim

End = tuple[Role, int, bool, bool, int]
"""Identity of replicas without a slot: role, node, whether it leaves or is a standby, and whether that was dropped.

The last number tells apart several that are equal otherwise.
"""


MOVING_STATES = frozenset({ReplicaState.READY, ReplicaState.IN_BUILD, ReplicaState.DOWN})
"""The states of replicas of which a move may be under way."""


@attrs.frozen(eq=False)
class _Seat:
    """A replica with its new slot and its node."""

    row: int
    replica: Replica
    node: int


def match_slots(
    state: ClusterState,
    record: PartitionRecord,
    placed: Sequence[tuple[Replica, int]],
    defaults: Mapping[Role, Int],
) -> None:
    """Give every replica a slot of its role: the one already on its node, else any free one, else a new one.

    `placed`: the replicas, each with the index of its node.
    `defaults`: for each role of the service, (R,) quanta that a new replica carries.
    """
    table = state.rows
    placed = [(_as_it_counts(record, replica, len(placed)), node) for replica, node in placed]
    slots = slots_of(state, record)
    before = {row: int(table.node[row]) for row in slots}
    standing = [(replica, node) for replica, node in placed if _holds_slot(replica)]
    others = _without_slot(placed)
    kept = _keep_ends(state, record, before, others)
    record.rows = slots
    seats, free = _seats(state, record, standing, before, defaults)
    _take_seats(state, record, seats, before)
    for role, rows in free.items():
        for row in rows:
            table.node[row], table.still[row] = NOWHERE, record.still
            table.pinned[row] = table.building[row] = False
            table.swaps_out[row] = table.regains[row] = table.kept[row] = False
        trim(state, record, role, rows, len(standing))
    led = any(_still_leads(replica) for replica, _ in placed)
    if led:
        _remove_waiting_primary(state, record)
    fill_up(state, record, defaults, led=led)
    record.rows += kept.values()
    for key, replica in others.items():
        if key not in kept:
            kept[key] = _note_departure(state, record, replica.role, key[1], defaults, before)
        _describe(state, kept[key], replica)
    if record.still:
        table.still[record.rows] = True
    table.upgrading[record.rows] = record.upgrading
    _note_marked(state, record)
    link(state, record)


def _as_it_counts(record: PartitionRecord, replica: Replica, replicas: int) -> Replica:
    """Return a replica; the only one, to be dropped once an upgrade has replaced it, counts as one that stays.

    The replica that replaces it is then placed in another domain.
    """
    replaced = replicas == 1 and replica.upgrade is UpgradeMark.SWAP_OUT and (record.missing or 0) > 0
    return attrs.evolve(replica, to_be_dropped=False) if replaced and replica.to_be_dropped else replica


def _still_leads(replica: Replica) -> bool:
    """Return whether a replica on its way out is still the primary."""
    leads = not replica.to_be_dropped or replica.upgrade is UpgradeMark.SWAP_OUT
    return replica.role is Role.PRIMARY and replica.disappears and leads


def _remove_waiting_primary(state: ClusterState, record: PartitionRecord) -> None:
    """Remove the slot of a primary that waits for a place."""
    table = state.rows
    for row in [row for row in record.rows if table.role[row] == PRIMARY and table.node[row] == NOWHERE]:
        remove_slot(state, record, row)


def _keep_ends(
    state: ClusterState, record: PartitionRecord, before: Mapping[int, int], others: Mapping[End, Replica]
) -> dict[End, int]:
    """Return the rows of the remaining departing ends and standbys; the rows of the others are freed."""
    table = state.rows
    kept: dict[End, int] = {}
    for row in record.rows:
        if row in before:
            continue
        role, node = Role(table.role[row]), int(table.node[row])
        key = _next_end(kept, role, node, leaves=bool(table.leaving[row]), vacant=bool(table.vacant[row]))
        if key in others:
            kept[key] = row
        else:
            release(state, row)
    return kept


def _seats(
    state: ClusterState,
    record: PartitionRecord,
    standing: Sequence[tuple[Replica, int]],
    before: Mapping[int, int],
    defaults: Mapping[Role, Int],
) -> tuple[list[_Seat], dict[Role, list[int]]]:
    """Return the slot of each placed replica, and the remaining rows by role.

    `before`: present node of each slot.
    """
    free: dict[Role, list[int]] = {role: [] for role in defaults}
    for row in record.rows:
        free[ROLES[state.rows.role[row]]].append(row)
    seats, later = [], []
    for replica, node in standing:
        same = [row for row in free[replica.role] if before[row] == node]
        if same:
            free[replica.role].remove(same[0])
            seats.append(_Seat(same[0], replica, node))
        else:
            later.append((replica, node))
    for replica, node in later:
        role = replica.role
        row = free[role].pop(0) if free[role] else new_slot(state, record, role, defaults[role])
        seats.append(_Seat(row, replica, node))
    return seats, free


def _take_seats(
    state: ClusterState, record: PartitionRecord, seats: Sequence[_Seat], before: Mapping[int, int]
) -> None:
    table = state.rows
    secondaries = {seat.node for seat in seats if seat.replica.role is Role.SECONDARY}
    for seat in seats:
        row, replica = seat.row, seat.replica
        _note_promotion(state, record, row, seat.node, before, secondaries)
        table.node[row], table.pinned[row] = seat.node, replica.pinned
        table.still[row] = record.still or replica.state is not ReplicaState.READY
        table.building[row] = replica.state is ReplicaState.IN_BUILD
        _note_mark(state, row, replica)


def _note_mark(state: ClusterState, row: int, replica: Replica) -> None:
    """Record the mark of an upgrade; one that asks for the primary has no effect on a replica that disappears."""
    table, asks = state.rows, replica.upgrade is UpgradeMark.PRIMARY_RETURNS
    table.swaps_out[row] = replica.upgrade is UpgradeMark.SWAP_OUT
    table.regains[row] = asks and replica.role is Role.SECONDARY and not replica.disappears
    table.kept[row] = replica.upgrade is UpgradeMark.REPLICA_RETURNS


def _note_marked(state: ClusterState, record: PartitionRecord) -> None:
    """Record which replicas no repair moves while the partition is upgraded."""
    table, rows = state.rows, np.array(record.rows, np.int64)
    if not record.upgrading:  # no replica is marked
        table.marked[rows] = False
        return
    returns = bool(table.regains[rows].any())
    own = table.swaps_out[rows] | table.regains[rows] | table.kept[rows]
    table.marked[rows] = own | ((table.role[rows] == PRIMARY) & returns)


def _note_promotion(
    state: ClusterState,
    record: PartitionRecord,
    row: int,
    node: int,
    before: Mapping[int, int],
    secondaries: set[int],
) -> None:
    """Sample again if a secondary became the primary and the old primary did not become a secondary."""
    came_from = before.get(row, NOWHERE)
    if came_from in (NOWHERE, node) or state.rows.role[row] != PRIMARY:
        return
    others = {at for other, at in before.items() if other != row}
    if node in others and came_from not in secondaries:
        note_promotion(state, record, row)


def _note_departure(
    state: ClusterState,
    record: PartitionRecord,
    role: Role,
    node: int,
    defaults: Mapping[Role, Int],
    before: Mapping[int, int],
) -> int:
    """Add a departing end, with the load of its slot, until its own report."""
    table = state.rows
    moved = [row for row in record.rows if before.get(row) == node != table.node[row] and table.role[row] == int(role)]
    twins = moved or [row for row in record.rows if table.role[row] == int(role)]
    end = new_slot(state, record, role, table.load[twins[-1]].copy() if twins else defaults[role])
    table.node[end] = node
    if moved:
        table.arriving[moved[0]] = end
    return end


def _describe(state: ClusterState, row: int, replica: Replica) -> None:
    """Record the kind of a replica without a slot: a standby, or one that leaves."""
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


def _without_slot(placed: Iterable[tuple[Replica, int]]) -> dict[End, Replica]:
    """Return the replicas that hold no slot, by their identity."""
    others: dict[End, Replica] = {}
    for replica, node in placed:
        if not _holds_slot(replica):
            key = _next_end(others, replica.role, node, leaves=_leaves(replica), vacant=_is_vacant(replica))
            others[key] = replica
    return others


def _next_end(known: Container[End], role: Role, node: int, *, leaves: bool, vacant: bool) -> End:
    """Return the first identity of this role, node and kind that is not known."""
    return next(key for number in count() if (key := (role, node, leaves, vacant, number)) not in known)


def _holds_slot(replica: Replica) -> bool:
    """Return whether a replica is one of those that the partition should have."""
    return not replica.disappears and replica.state not in (ReplicaState.STANDBY, ReplicaState.DROPPED)


def _leaves(replica: Replica) -> bool:
    """Return whether a replica without a slot is on its way out; else it is a standby, or holds a place for one."""
    gone = replica.state is ReplicaState.DROPPED and replica.upgrade is UpgradeMark.NONE
    return replica.disappears or gone


def _is_vacant(replica: Replica) -> bool:
    """Return whether a replica without a slot only reserves a place for one."""
    return replica.state is ReplicaState.DROPPED and not _leaves(replica)
