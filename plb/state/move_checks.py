"""Checks whether the moves of a plan can be applied in sequence, without applying them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from plb.array_types import NOWHERE
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.model.move import Move, MoveKind, Reason
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.role_slots import slots_of
from plb.validation import check_items, check_kind, check_whole

ENDS = {
    MoveKind.ADD: (False, True),
    MoveKind.MOVE: (True, True),
    MoveKind.SWAP: (True, True),
    MoveKind.DROP: (True, False),
    MoveKind.PROMOTE: (False, True),
    MoveKind.VOID: (True, False),
}
"""Whether a move of each kind has a source, and whether it has a target."""
ONLY_ROLE = {MoveKind.SWAP: Role.PRIMARY, MoveKind.PROMOTE: Role.SECONDARY}
"""Role of the replica of a move of these kinds."""


def check_moves(state: ClusterState, moves: Sequence[Move], *, leaving: bool) -> None:
    """Raise `ConflictError` if `moves` cannot be applied in sequence; changes nothing."""
    replay = _Replay(state, leaving)
    for move in check_items("plan", "moves", moves, Move):
        _check_fields(move)
        replay.make(move)


def preferred(rows: Sequence[int], requested: int) -> int:
    """Return the requested row if it is among `rows`, else the first, or NOWHERE."""
    return requested if requested in rows else next(iter(rows), NOWHERE)


def _check_fields(move: Move) -> None:
    """Raise an error for a move whose fields do not fit its kind."""
    check_kind("move", "kind", move.kind, MoveKind)
    check_kind("move", "role", move.role, Role)
    check_kind("move", "reason", move.reason, Reason)
    check_whole("move", "index", move.index)
    for field, has in zip(("source", "target"), ENDS[move.kind], strict=True):
        if (getattr(move, field) is not None) != has:
            allowed = f"{'the name of a node' if has else 'None'} for kind {move.kind.value}"
            raise InvalidValueError("move", field, getattr(move, field), allowed)
    if move.role is not ONLY_ROLE.get(move.kind, move.role):
        allowed = f"{ONLY_ROLE[move.kind]!r} for kind {move.kind.value}"
        raise InvalidValueError("move", "role", move.role, allowed)


@attrs.define(eq=False)
class _Replay:
    """The nodes and the roles of replicas after the checked moves."""

    state: ClusterState
    leaving: bool
    node: dict[int, int] = attrs.field(factory=dict)
    role: dict[int, Role] = attrs.field(factory=dict)
    gone: set[int] = attrs.field(factory=set)
    """Rows that were dropped, replaced, or abandoned for a promoted one."""
    occupied: set[tuple[str, int]] = attrs.field(factory=set)
    """Nodes that departing ends will hold."""

    def make(self, move: Move) -> None:
        """Record a move that was checked."""
        state = self.state
        record = state.partition(move.partition)
        source = NOWHERE if move.source is None else state.node(move.source)
        target = NOWHERE if move.target is None else state.node(move.target)
        if move.kind is MoveKind.PROMOTE:
            self._promote(record, move, target)
        elif move.kind is MoveKind.VOID:
            self._give_up(record, move, source)
        elif move.kind is MoveKind.DROP:
            self.gone.add(self._row_of(move, source, self._rows_of(record)))
        elif move.kind is MoveKind.SWAP:
            self._swap(record, move, source, target)
        else:
            self._move(record, move, source, target)

    def _rows_of(self, record: PartitionRecord) -> list[int]:
        return [row for row in record.rows if row not in self.gone]

    def _slots_of(self, record: PartitionRecord) -> list[int]:
        return [row for row in slots_of(self.state, record) if row not in self.gone]

    def _node_of(self, row: int) -> int:
        return self.node.get(row, int(self.state.rows.node[row]))

    def _role_of(self, row: int) -> Role:
        return self.role.get(row, Role(int(self.state.rows.role[row])))

    def _row_of(self, move: Move, node: int, rows: Sequence[int]) -> int:
        """Return the row of `rows` that a move is of."""
        fitting = [row for row in rows if self._node_of(row) == node and self._role_of(row) == move.role]
        row = preferred(fitting, move.index)
        if row == NOWHERE:
            raise ConflictError(f"{move}: there is no such replica any more; make a new plan")
        return row

    def _move(self, record: PartitionRecord, move: Move, source: int, target: int) -> None:
        row = self._row_of(move, source, self._slots_of(record))
        there = [other for other in self._rows_of(record) if self._node_of(other) == target]
        standbys = [other for other in there if self.state.rows.standby[other]]
        if len(there) > len(standbys) or (record.name, target) in self.occupied:
            raise ConflictError(f"{move}: a replica of the partition is on {move.target}; make a new plan")
        if self.leaving and move.kind is MoveKind.MOVE:
            self.occupied.add((record.name, source))
        self.gone.update(standbys)
        self.node[row] = target

    def _swap(self, record: PartitionRecord, move: Move, source: int, target: int) -> None:
        slots = self._slots_of(record)
        row = self._row_of(move, source, slots)
        on_target = [other for other in slots if self._node_of(other) == target]
        partner = next((other for other in on_target if self._role_of(other) == Role.SECONDARY), NOWHERE)
        if partner == NOWHERE:
            raise ConflictError(f"{move}: no secondary is on {move.target} any more; make a new plan")
        self.node[row], self.node[partner] = target, source

    def _promote(self, record: PartitionRecord, move: Move, node: int) -> None:
        slots = self._slots_of(record)
        row = self._row_of(move, node, slots)
        primaries = [other for other in slots if self._role_of(other) == Role.PRIMARY]
        for primary in primaries:
            if self._node_of(primary) != NOWHERE:
                at_node = self.state.nodes[self._node_of(primary)].name
                raise ConflictError(f"{move}: a primary is on {at_node}; make a new plan")
        self.gone.update(primaries)
        self.role[row] = Role.PRIMARY

    def _give_up(self, record: PartitionRecord, move: Move, node: int) -> None:
        table = self.state.rows
        row = self._row_of(move, node, self._slots_of(record))
        if answers_return(move):
            asks = any(table.regains[other] for other in self._slots_of(record))
        else:
            asks = bool(table.swaps_out[row])
        if not asks:
            raise ConflictError(f"{move}: no upgrade asks for that any more; make a new plan")


def answers_return(move: Move) -> bool:
    """Return whether a move of kind void is for a role that cannot return, not for one that cannot be moved."""
    return move.reason.rule == "upgraded"
