"""Checks whether the moves of a plan can be applied in sequence, without applying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import by_pointer, kernel
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.model.move import Move, MoveKind, Reason
from plb.model.plan import KINDS, PlanMoves
from plb.model.role import PRIMARY, ROLES, SECONDARY
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.validation import check_items, check_kind, check_whole

_ADD, _MOVE, _SWAP = (KINDS.index(kind) for kind in (MoveKind.ADD, MoveKind.MOVE, MoveKind.SWAP))
_UNKNOWN = -2
"""Index of a node whose name the state does not have."""


@by_pointer
class PlainMoves(NamedTuple):
    """The m moves of a plan in order.

    A plain move is an add, a move or a swap that fits after the moves before it and replaces no standby or primary, in
    a partition with no other kind of move; a kernel applies all plain ones at once.
    """

    is_plain: Bool
    """(m,) whether the move is plain."""
    first: Int
    """(m,) first row of the partition, or NOWHERE."""
    kind: Int
    """(m,) position in `KINDS`."""
    role: Int
    """(m,) value of `Role`."""
    source: Int
    """(m,) index of the node, NOWHERE, or `_UNKNOWN`."""
    target: Int
    """(m,) index of the node, NOWHERE, or `_UNKNOWN`."""
    requested: Int
    """(m,) the row that the plan names, or NOWHERE."""
    row: Int
    """(m,) the row that moves; NOWHERE if no row fits."""
    partner: Int
    """(m,) the row with which it swaps roles, or NOWHERE."""


@by_pointer
class _Replicas(NamedTuple):
    """Arrays of `RowTable` with where replicas are, and what the preceding moves of the plan leave behind."""

    node: Int
    sibling: Int
    role: Int
    leaving: Bool
    standby: Bool
    swaps_out: Bool
    regains: Bool
    end_node: Int
    """(M,) the node on which the row leaves a departing end, or NOWHERE; empty if rows leave none."""
    has_special_move: Bool
    """(M,) at the first row of a partition, whether a move of the partition is not plain."""


def find_plain(state: ClusterState, moves: PlanMoves, *, leaving: bool) -> PlainMoves:
    """Return the moves with their rows, and which are plain (`PlainMoves`); `leaving`: moves keep departing ends."""
    plain = PlainMoves(
        is_plain=np.ones(len(moves), np.bool_),
        first=np.array([_first_row(state, name) for name in moves.partition], np.int64),
        kind=moves.kind.copy(),  # kernels take arrays that are writeable
        role=moves.role.copy(),
        source=_indices(state.node_index, moves.source),
        target=_indices(state.node_index, moves.target),
        requested=moves.row.copy(),
        row=np.full(len(moves), NOWHERE),
        partner=np.full(len(moves), NOWHERE),
    )
    _mark_plain(plain, _replicas_of(state, leaving=leaving))
    return plain


def carry_out(state: ClusterState, plain: PlainMoves) -> Int:
    """Put the replicas of all plain moves on their targets; return all rows of their partitions, ascending."""
    changed = np.zeros(state.rows.capacity, np.bool_)
    _carry_out(plain, _replicas_of(state, leaving=False), changed)
    return np.flatnonzero(changed)


def _replicas_of(state: ClusterState, *, leaving: bool) -> _Replicas:
    """Return the arrays of the present replicas, before any move; with `leaving`, moves keep departing ends."""
    table = state.rows
    return _Replicas(
        node=table.node,
        sibling=table.sibling,
        role=table.role,
        leaving=table.leaving,
        standby=table.standby,
        swaps_out=table.swaps_out,
        regains=table.regains,
        end_node=np.full(table.capacity if leaving else 0, NOWHERE),
        has_special_move=np.zeros(table.capacity, np.bool_),
    )


def _first_row(state: ClusterState, name: str) -> int:
    """Return the first row of a partition, or NOWHERE for an unknown name and for a partition without rows."""
    record = state.partitions.get(name)
    return record.rows[0] if record is not None and record.rows else NOWHERE


def _indices(node_index: Mapping[str, int], names: Sequence[str | None]) -> Int:
    """Return the indices of nodes, (m,): NOWHERE for None, `_UNKNOWN` for a name that `node_index` does not have."""
    return np.array([NOWHERE if name is None else node_index.get(name, _UNKNOWN) for name in names], np.int64)


@kernel
def _mark_plain(moves: PlainMoves, replicas: _Replicas) -> None:
    """Set which moves are plain, and their rows: make them one after another, then put the replicas back."""
    for move in range(moves.row.shape[0]):
        moves.is_plain[move] = moves.first[move] != NOWHERE and _find_rows(moves, replicas, move)
        if moves.is_plain[move]:
            _make(moves, replicas, move)
        elif moves.first[move] != NOWHERE:
            replicas.has_special_move[moves.first[move]] = True
    for move in range(moves.row.shape[0] - 1, -1, -1):
        if moves.is_plain[move]:
            replicas.node[moves.row[move]] = moves.source[move]
            if moves.partner[move] != NOWHERE:
                replicas.node[moves.partner[move]] = moves.target[move]
            moves.is_plain[move] = not replicas.has_special_move[moves.first[move]]


@kernel
def _make(moves: PlainMoves, replicas: _Replicas, move: int) -> None:
    """Put the replicas of the plain move of number `move` on their new nodes."""
    replicas.node[moves.row[move]] = moves.target[move]
    if moves.partner[move] != NOWHERE:
        replicas.node[moves.partner[move]] = moves.source[move]
    if moves.kind[move] == _MOVE and replicas.end_node.shape[0]:
        replicas.end_node[moves.row[move]] = moves.source[move]


@kernel
def _find_rows(moves: PlainMoves, replicas: _Replicas, move: int) -> bool:
    """Set `row` and `partner` of the move of number `move`; return whether it fits after the moves before it."""
    kind, source, target = moves.kind[move], moves.source[move], moves.target[move]
    if target < 0 or (source == NOWHERE) != (kind == _ADD):
        return False
    row = moves.row[move] = _slot_on(moves, replicas, move, moves.role[move], source)
    if row == NOWHERE:
        return False
    if kind == _SWAP and moves.role[move] == PRIMARY:
        moves.partner[move] = _slot_on(moves, replicas, move, SECONDARY, target)
        return bool(moves.partner[move] != NOWHERE)
    if kind == _MOVE and replicas.end_node.shape[0] and replicas.end_node[row] != NOWHERE:
        return False
    return (kind in (_ADD, _MOVE)) and _is_vacant(moves, replicas, move)


@kernel
def _slot_on(moves: PlainMoves, replicas: _Replicas, move: int, role: int, node: int) -> int:
    """Return a slot of the move's partition with a role on a node: the requested row if it fits, else the first.

    NOWHERE if there is none.
    """
    first = NOWHERE
    row = moves.first[move]
    while True:
        is_slot = not (replicas.leaving[row] or replicas.standby[row])
        if is_slot and replicas.node[row] == node and replicas.role[row] == role:
            if row == moves.requested[move]:
                return int(row)
            if first == NOWHERE:
                first = int(row)
        row = replicas.sibling[row]
        if row == moves.first[move]:
            return first


@kernel
def _is_vacant(moves: PlainMoves, replicas: _Replicas, move: int) -> bool:
    """Return whether the target of the move of number `move` has no replica of the partition.

    For a new primary, also whether no primary is placed.
    """
    adds_primary = moves.kind[move] == _ADD and moves.role[move] == PRIMARY
    row = moves.first[move]
    while True:
        if replicas.node[row] == moves.target[move]:
            return False
        if replicas.end_node.shape[0] and replicas.end_node[row] == moves.target[move]:
            return False
        is_slot = not (replicas.leaving[row] or replicas.standby[row])
        if adds_primary and is_slot and replicas.role[row] == PRIMARY and replicas.node[row] != NOWHERE:
            return False
        row = replicas.sibling[row]
        if row == moves.first[move]:
            return True


@kernel
def _carry_out(moves: PlainMoves, replicas: _Replicas, changed: Bool) -> None:
    """Put the replicas of all plain moves on their nodes, and set `changed`, (M,), for all rows of their partitions."""
    for move in range(moves.row.shape[0]):
        if moves.is_plain[move]:
            _make(moves, replicas, move)
            if moves.partner[move] != NOWHERE:
                _answer_upgrade(moves, replicas, move)
            row = moves.row[move]
            while not changed[row]:
                changed[row] = True
                row = replicas.sibling[row]


@kernel
def _answer_upgrade(moves: PlainMoves, replicas: _Replicas, move: int) -> None:
    """Clear the marks of upgrades that the swap of number `move` answers."""
    replicas.swaps_out[moves.row[move]] = False
    row = moves.partner[move]
    while replicas.regains[moves.partner[move]]:
        row = replicas.sibling[row]
        replicas.regains[row] = False


ADD, MOVE, SWAP, DROP, PROMOTE, VOID = MoveKind
"""The kinds, as Python 3.11 takes long to read a member from its class."""
ENDS = {
    ADD: (False, True),
    MOVE: (True, True),
    SWAP: (True, True),
    DROP: (True, False),
    PROMOTE: (False, True),
    VOID: (True, False),
}
"""Whether a move of each kind has a source, and whether it has a target."""
ONLY_ROLE = {SWAP: Role.PRIMARY, PROMOTE: Role.SECONDARY}
"""Role of the replica of a move of these kinds."""


def check_moves(state: ClusterState, moves: Sequence[Move], *, leaving: bool) -> PlainMoves | None:
    """Raise `ConflictError` if `moves` cannot be applied in sequence; `leaving`: replicas also stay on their sources.

    Return the moves of an engine's plan with their rows; None for other sequences.
    """
    replay = _Replay(state, leaving)
    if not isinstance(moves, PlanMoves):
        replay.make_all(check_items("plan", "moves", moves, Move))
        return None
    plain = find_plain(state, moves, leaving=leaving)
    replay.make_all(moves[index] for index in np.flatnonzero(~plain.is_plain).tolist())
    return plain


def _check_fields(move: Move) -> None:
    """Raise an error for a move whose role, source, target or index does not fit its kind."""
    check_kind("move", "kind", move.kind, MoveKind)
    check_kind("move", "role", move.role, Role)
    check_kind("move", "reason", move.reason, Reason)
    check_whole("move", "index", move.index)
    for field, is_required in zip(("source", "target"), ENDS[move.kind], strict=True):
        if (getattr(move, field) is not None) != is_required:
            allowed = f"{'the name of a node' if is_required else 'None'} for kind {move.kind.value}"
            raise InvalidValueError("move", field, getattr(move, field), allowed)
    if move.role is not ONLY_ROLE.get(move.kind, move.role):
        allowed = f"{ONLY_ROLE[move.kind]!r} for kind {move.kind.value}"
        raise InvalidValueError("move", "role", move.role, allowed)


@attrs.define(eq=False)
class _Slot:
    """A replica after the moves that were checked so far."""

    row: int
    node: int
    """Index, or NOWHERE."""
    role: Role
    leaving: bool
    """Whether it is only the departing end of a move."""
    standby: bool
    """Whether it is a standby, which a new replica may replace."""


@attrs.define(eq=False)
class _Replay:
    """The replicas of the partitions after the moves that were checked so far."""

    state: ClusterState
    leaving: bool
    """Whether replicas that move leave a departing end on their source, which still takes up that node."""
    replicas: dict[str, list[_Slot]] = attrs.field(factory=dict)
    """By name of a partition with a move, its replicas without dropped and replaced ones."""
    occupied: set[tuple[str, int]] = attrs.field(factory=set)
    """Name of the partition and index of the node of each departing end that the moves leave."""

    def make_all(self, moves: Iterable[Move]) -> None:
        """Check moves one after the other, and record what they change in `replicas`; the state stays as it is."""
        for move in moves:
            _check_fields(move)
            self._make(move)

    def _make(self, move: Move) -> None:
        """Check a move whose fields are valid, and record what it changes."""
        state = self.state
        replicas = self._replicas_of(state.partition(move.partition))
        source = NOWHERE if move.source is None else state.node(move.source)
        target = NOWHERE if move.target is None else state.node(move.target)
        if move.kind is ADD or move.kind is MOVE:
            self._arrive(replicas, move, source, target)
        elif move.kind is SWAP:
            _swap(replicas, move, source, target)
        elif move.kind is DROP:
            replicas.remove(_slot_of(move, source, replicas))
        elif move.kind is PROMOTE:
            self._promote(replicas, move, target)
        else:
            self._check_void(replicas, move, source)

    def _replicas_of(self, record: PartitionRecord) -> list[_Slot]:
        """Return the replicas of a partition after the moves that were checked so far, to be changed in place."""
        if record.name not in self.replicas:
            table = self.state.rows
            self.replicas[record.name] = [
                _Slot(row, table.node[row], ROLES[table.role[row]], table.leaving[row], table.standby[row])
                for row in record.rows
            ]
        return self.replicas[record.name]

    def _arrive(self, replicas: list[_Slot], move: Move, source: int, target: int) -> None:
        """Check and record an add or a move from node `source` to node `target`, indices.

        `replicas`: of the partition. A primary that is added beside another makes the other one a secondary. A replica
        may return to the node of its own departing end.
        """
        slots = _slots_of(replicas)
        if adds_second_primary(move, ((slot.role, slot.node) for slot in slots)):
            moved = _slot_of(attrs.evolve(move, role=Role.SECONDARY), source, slots)
            moved.role = Role.PRIMARY
            next(slot for slot in slots if slot.role is Role.PRIMARY).role = Role.SECONDARY
        else:
            moved = _slot_of(move, source, slots)
        on_target = [replica for replica in replicas if replica.node == target]
        own_end = self.state.rows.arriving[moved.row] if move.kind is MOVE else NOWHERE
        is_free = all(replica.standby or replica.row == own_end for replica in on_target)
        if not is_free or (move.partition, target) in self.occupied:
            raise ConflictError(f"{move}: a replica of the partition is on {move.target}; make a new plan")
        if self.leaving and move.kind is MOVE:
            self.occupied.add((move.partition, source))
        for replaced in on_target:
            replicas.remove(replaced)
        moved.node = target

    def _promote(self, replicas: list[_Slot], move: Move, node: int) -> None:
        """Check and record the promotion of the secondary on `node`; `replicas`: of the partition.

        An empty slot of the primary is removed.
        """
        slots = _slots_of(replicas)
        promoted = _slot_of(move, node, slots)
        for primary in [slot for slot in slots if slot.role is Role.PRIMARY]:
            if primary.node != NOWHERE:
                at_node = self.state.nodes[primary.node].name
                raise ConflictError(f"{move}: a primary is on {at_node}; make a new plan")
            replicas.remove(primary)
        promoted.role = Role.PRIMARY

    def _check_void(self, replicas: list[_Slot], move: Move, node: int) -> None:
        """Check that the replica of a void move is on `node`, and that an upgrade marks the partition for it."""
        table = self.state.rows
        if not any(replica.node == node and replica.role is move.role for replica in replicas):
            raise ConflictError(f"{move}: there is no such replica any more; make a new plan")
        marks = (table.regains, table.kept) if answers_return(move) else (table.swaps_out,)
        if not any(mark[replica.row] for replica in replicas for mark in marks):
            raise ConflictError(f"{move}: no upgrade asks for that any more; make a new plan")


def _slots_of(replicas: Iterable[_Slot]) -> list[_Slot]:
    """Return the replicas that the partition should have: all but departing ends and standbys."""
    return [replica for replica in replicas if not (replica.leaving or replica.standby)]


def _slot_of(move: Move, node: int, slots: Iterable[_Slot]) -> _Slot:
    """Return the replica of `slots` on the node `node` that a move names: the row `move.index` if it fits."""
    fitting = [slot for slot in slots if slot.node == node and slot.role is move.role]
    if not fitting:
        raise ConflictError(f"{move}: there is no such replica any more; make a new plan")
    return next((slot for slot in fitting if slot.row == move.index), fitting[0])


def _swap(replicas: list[_Slot], move: Move, source: int, target: int) -> None:
    """Check and record a swap of the primary on `source` with the secondary on `target`, both of `replicas`."""
    slots = _slots_of(replicas)
    moved = _slot_of(move, source, slots)
    partner = next((slot for slot in slots if slot.node == target and slot.role is Role.SECONDARY), None)
    if partner is None:
        raise ConflictError(f"{move}: no secondary is on {move.target} any more; make a new plan")
    moved.node, partner.node = target, source


def adds_second_primary(move: Move, slots: Iterable[tuple[int, int]]) -> bool:
    """Return whether a move adds a primary beside the present one among `slots`: role and node of each."""
    if move.kind is not ADD or move.role is not Role.PRIMARY:
        return False
    return any(role == PRIMARY and node != NOWHERE for role, node in slots)


def answers_return(move: Move) -> bool:
    """Return whether a move of kind void tells that a role cannot return, not that it cannot be swapped out."""
    return move.reason.rule == "upgraded"
