"""Plans that the host carries out: their moves, one after the other, and the departing ends they leave behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plb.arrays import NOWHERE
from plb.errors import ConflictError
from plb.model import Role
from plb.plan import Move, MoveKind
from plb.slots import (
    default_loads,
    fill_up,
    link,
    load_of_next_primary,
    new_slot,
    note_promotion,
    remove_slot,
    slots_of,
    trim_waiting,
)
from plb.state import ClusterState, PartitionRecord


def check_moves(state: ClusterState, moves: Iterable[Move], *, leaving: bool) -> None:
    """Raise `ConflictError` if `moves` cannot be carried out one after the other; changes nothing."""
    table = state.rows
    node: dict[int, int] = {}  # where rows stand after the moves looked at so far
    held: set[tuple[str, int]] = set()  # nodes that departing ends will hold
    for move in moves:
        record = state.partition(move.partition)
        source = NOWHERE if move.source is None else state.node(move.source)
        target = NOWHERE if move.target is None else state.node(move.target)
        at = {row: node.get(row, int(table.node[row])) for row in record.rows}
        if move.kind in (MoveKind.PROMOTE, MoveKind.VOID):
            _check_order(state, record, move, at, max(source, target))
            continue
        drops = move.kind is MoveKind.DROP
        standing = record.rows if drops else slots_of(state, record)
        fitting = [row for row in standing if at[row] == source and table.role[row] == move.role]
        row = _preferred(fitting, move.index)
        on_target = [row for row in record.rows if at[row] == target and not table.standby[row]]
        if row == NOWHERE:
            raise ConflictError(f"{move}: no such replica is there any more; make a new plan")
        if move.kind is MoveKind.SWAP:
            partners = [other for other in on_target if other in standing and table.role[other] == Role.SECONDARY]
            if not partners:
                raise ConflictError(f"{move}: no secondary is on {move.target} any more; make a new plan")
            node[partners[0]] = source
        elif (not drops and on_target) or (move.partition, target) in held:
            raise ConflictError(f"{move}: a replica of the partition is on {move.target}; make a new plan")
        if leaving and move.kind is MoveKind.MOVE:
            held.add((move.partition, source))
        node[row] = target


def _check_order(state: ClusterState, record: PartitionRecord, move: Move, at: Mapping[int, int], node: int) -> None:
    """Raise `ConflictError` if the replica whose role changes, or cannot, is not on `node`, or has no need to."""
    table = state.rows
    standing = [row for row in slots_of(state, record) if at[row] != NOWHERE]
    if not any(table.role[row] == move.role and at[row] == node for row in standing):
        raise ConflictError(f"{move}: no such replica is there any more; make a new plan")
    primary = next((row for row in standing if table.role[row] == Role.PRIMARY), NOWHERE)
    if move.kind is MoveKind.PROMOTE and primary != NOWHERE:
        at_node = state.nodes[at[primary]].name
        raise ConflictError(f"{move}: a primary stands on {at_node}; make a new plan")


def carry_out(state: ClusterState, move: Move, *, leaving: bool) -> None:
    """Let the replica of a move stand on its target; with `leaving`, keep a departing end on the source."""
    record = state.partition(move.partition)
    source = NOWHERE if move.source is None else state.node(move.source)
    target = NOWHERE if move.target is None else state.node(move.target)
    table = state.rows
    state.service_version[record.service] += 1
    record.version += not leaving
    if move.kind is MoveKind.DROP:
        _drop(state, record, source, move)
        return
    if move.kind is MoveKind.VOID:
        table.swaps_out[record.rows] = table.regains[record.rows] = False
        return
    if move.kind is MoveKind.PROMOTE:
        _promote(state, record, target)
        return
    row = _slot_on(state, record, move.role, source, move.index)
    if move.kind is MoveKind.SWAP:
        partner = _slot_on(state, record, Role.SECONDARY, target)
        table.node[partner] = source
        table.swaps_out[row] = False
        if table.regains[partner]:
            table.regains[record.rows] = False
    else:
        _replace_standby(state, record, target)
    table.node[row] = target
    if leaving and move.kind is MoveKind.MOVE:
        end = new_slot(state, record, move.role, table.load[row].copy())
        table.node[end], table.leaving[end] = source, True
        table.arriving[row] = end
        link(state, record)


def _promote(state: ClusterState, record: PartitionRecord, node: int) -> None:
    """Let the secondary on `node` become the primary: the primary's slot takes its node, and its own is empty."""
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
        trim_waiting(state, record)


def _replace_standby(state: ClusterState, record: PartitionRecord, node: int) -> None:
    """Forget the standby on `node`, if there is one: a replica takes its place."""
    for row in [row for row in record.rows if state.rows.standby[row] and state.rows.node[row] == node]:
        remove_slot(state, record, row)
        link(state, record)


def _drop(state: ClusterState, record: PartitionRecord, source: int, move: Move) -> None:
    rows = [row for row in record.rows if state.rows.node[row] == source and state.rows.role[row] == move.role]
    row = _preferred(rows, move.index)
    remove_slot(state, record, row)
    if record.missing is not None:
        record.missing = min(0, record.missing + 1)
    # a plan may be older than the number that the service asks for
    fill_up(state, record, default_loads(state.steps, state.services[record.service], ""))
    link(state, record)


def _slot_on(state: ClusterState, record: PartitionRecord, role: Role, node: int, index: int = NOWHERE) -> int:
    table = state.rows
    fitting = [row for row in slots_of(state, record) if table.node[row] == node and table.role[row] == role]
    return _preferred(fitting, index)


def vacate(state: ClusterState, partition: str, node: str) -> None:
    """Forget the departing end of a move on `node`."""
    record = state.partition(partition)
    index = state.node(node, f"partition {partition}")
    for row in record.rows:
        if state.rows.leaving[row] and state.rows.node[row] == index:
            remove_slot(state, record, row)
            link(state, record)
            state.service_version[record.service] += 1
            record.version += 1
            return
    raise ConflictError(f"partition {partition}: no replica is leaving node {node}")


def _preferred(rows: Sequence[int], wanted: int) -> int:
    """Return the row that is wanted if it is among `rows`, else the first, or NOWHERE."""
    return wanted if wanted in rows else next(iter(rows), NOWHERE)
