"""Applies the moves of plans in sequence, and keeps their departing ends."""

from __future__ import annotations

from collections.abc import Sequence

from plb.array_types import NOWHERE
from plb.errors import ConflictError
from plb.model import Role
from plb.model.move import Move
from plb.model.plan import KINDS, PlanMoves
from plb.model.role import PRIMARY, ROLES
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.move_checks import (
    ADD,
    DROP,
    MOVE,
    PROMOTE,
    SWAP,
    VOID,
    adds_second_primary,
    answers_return,
    carry_out,
    check_moves,
)
from plb.state.role_slots import (
    default_loads,
    fill_up,
    link,
    load_of_next_primary,
    new_slot,
    note_promotion,
    remove_slot,
    slots_of,
    trim_all,
)


def apply_moves(state: ClusterState, moves: Sequence[Move], *, leaving: bool) -> None:
    """Check moves, and place their replicas on their targets; `leaving`: they stay on the sources as departing ends.

    Raise `ConflictError` if a move does not fit; nothing is changed then.
    """
    plain = check_moves(state, moves, leaving=leaving)
    if plain is None or not isinstance(moves, PlanMoves):
        for move in moves:
            _apply(state, move, leaving=leaving)
        return
    state.rows.changes.note_many(carry_out(state, plain))
    rows, sources = plain.row.tolist(), plain.source.tolist()
    columns = zip(plain.is_plain.tolist(), moves.partition, moves.kind.tolist(), rows, sources, strict=True)
    for index, (is_plain, name, kind, row, source) in enumerate(columns):
        if not is_plain:
            _apply(state, moves[index], leaving=leaving)
            continue
        record = state.partitions[name]
        _raise_versions(state, record, leaving=leaving)
        if KINDS[kind] is ADD:
            _lower_missing(record)
        elif leaving and KINDS[kind] is MOVE:
            _add_departing_end(state, record, row, source)


def vacate(state: ClusterState, partition: str, node: str) -> None:
    """Remove the departing end of a move on the node `node` from the partition `partition`, both names."""
    record = state.partition(partition)
    index = state.node(node, f"partition {partition}")
    for row in record.rows:
        if state.rows.leaving[row] and state.rows.node[row] == index:
            remove_slot(state, record, row)
            link(state, record)
            _raise_versions(state, record, leaving=False)
            return
    raise ConflictError(f"partition {partition}: no replica is leaving node {node}")


def _raise_versions(state: ClusterState, record: PartitionRecord, *, leaving: bool) -> None:
    """Raise the version of a partition's service, and of the partition unless its moves are under way (`leaving`)."""
    state.service_version[record.service] += 1
    record.version += not leaving


def _lower_missing(record: PartitionRecord) -> None:
    """Count one missing replica less, because it was placed."""
    if record.missing is not None and record.missing > 0:
        record.missing -= 1


def _add_departing_end(state: ClusterState, record: PartitionRecord, row: int, source: int) -> None:
    """Add the departing end of a replica, `row`, on the node `source`, from which it has moved."""
    table = state.rows
    end = new_slot(state, record, ROLES[table.role[row]], table.load[row].copy())
    table.node[end], table.leaving[end] = source, True
    table.arriving[row] = end
    link(state, record)


def _apply(state: ClusterState, move: Move, *, leaving: bool) -> None:
    """Apply a move that was checked; with `leaving`, a replica that moves keeps a departing end on its source."""
    record = state.partition(move.partition)
    source = NOWHERE if move.source is None else state.node(move.source)
    target = NOWHERE if move.target is None else state.node(move.target)
    table = state.rows
    table.changes.note(record.rows)
    _raise_versions(state, record, leaving=leaving)
    if move.kind is DROP:
        _drop(state, record, source, move)
        return
    if move.kind is VOID:
        for mark in (table.regains, table.kept) if answers_return(move) else (table.swaps_out,):
            mark[record.rows] = False
        return
    if move.kind is PROMOTE:
        _promote(state, record, target)
        return
    slots = slots_of(state, record)
    if adds_second_primary(move, ((table.role[row], table.node[row]) for row in slots)):
        _add_primary(state, record, target)
        return
    row = _slot_on(state, record, move.role, source, move.index)
    if move.kind is SWAP:
        partner = _slot_on(state, record, Role.SECONDARY, target)
        table.node[partner] = source
        table.swaps_out[row] = False
        if table.regains[partner]:
            table.regains[record.rows] = False
    else:
        _remove_replaced(state, record, target)
        if move.kind is ADD:
            _lower_missing(record)
    table.node[row] = target
    if leaving and move.kind is MOVE:
        _add_departing_end(state, record, row, source)


def _add_primary(state: ClusterState, record: PartitionRecord, node: int) -> None:
    """Place a missing replica as the primary; the present primary becomes a secondary on its node."""
    table = state.rows
    primary = next(row for row in slots_of(state, record) if table.role[row] == PRIMARY)
    added = _slot_on(state, record, Role.SECONDARY, NOWHERE)
    _remove_replaced(state, record, node)
    table.node[added], table.node[primary] = table.node[primary], node
    for flags in (table.still, table.pinned, table.building):
        flags[added], flags[primary] = flags[primary], False
    table.still[primary] = record.still
    table.regains[record.rows] = False
    _lower_missing(record)
    note_promotion(state, record, primary)


def _promote(state: ClusterState, record: PartitionRecord, node: int) -> None:
    """Make the secondary on `node` the primary: the slot of the primary gets this node, the secondary's gets none."""
    table = state.rows
    secondary = _slot_on(state, record, Role.SECONDARY, node)
    primary = _slot_on(state, record, Role.PRIMARY, NOWHERE)
    if primary == NOWHERE:
        primary = new_slot(state, record, Role.PRIMARY, load_of_next_primary(state, record))
    table.node[primary], table.node[secondary] = node, NOWHERE
    for flags in (table.still, table.pinned, table.building):
        flags[primary], flags[secondary] = flags[secondary], False
    table.still[secondary] = record.still
    table.regains[record.rows] = False
    note_promotion(state, record, primary)
    if state.services[record.service].on_every_node:
        link(state, record)
    else:
        trim_all(state, record)


def _remove_replaced(state: ClusterState, record: PartitionRecord, node: int) -> None:
    """Remove what a replica replaces on `node`: a standby, or the departing end that it returns to."""
    table = state.rows
    on_node = [row for row in record.rows if table.node[row] == node]
    for row in [row for row in on_node if table.standby[row] or table.leaving[row]]:
        remove_slot(state, record, row)
        link(state, record)


def _drop(state: ClusterState, record: PartitionRecord, source: int, move: Move) -> None:
    """Remove the replica with the role of `move` on the node `source`: the row `move.index` if it is there."""
    role = int(move.role)
    rows = [row for row in record.rows if state.rows.node[row] == source and state.rows.role[row] == role]
    remove_slot(state, record, move.index if move.index in rows else rows[0])
    if record.missing is not None and record.missing < 0:
        record.missing += 1
    # a plan may be older than the target of the service
    fill_up(state, record, default_loads(state.quanta, state.services[record.service]))
    link(state, record)


def _slot_on(state: ClusterState, record: PartitionRecord, role: Role, node: int, index: int = NOWHERE) -> int:
    """Return a slot of a role on a node: the row `index` if it is such a slot, else the first; NOWHERE without any."""
    table, role_code = state.rows, int(role)
    for row in [index, *record.rows] if index in record.rows else record.rows:
        if table.node[row] == node and table.role[row] == role_code and not (table.leaving[row] or table.standby[row]):
            return row
    return NOWHERE
