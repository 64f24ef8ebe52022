"""Checks whether the moves of a plan can be applied in sequence, without applying them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.model.move import Move, MoveKind, Reason
from plb.model.plan_moves import PlanMoves
from plb.model.role import PRIMARY, ROLES
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.plain_moves import PlainMoves, find_plain
from plb.validation import check_items, check_kind, check_whole

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
    """Raise `ConflictError` if `moves` cannot be applied in sequence; changes nothing.

    Return which moves of an engine's plan are plain; None: the moves were made by hand.
    """
    replay = _Replay(state, leaving)
    if not isinstance(moves, PlanMoves):
        replay.make_all(check_items("plan", "moves", moves, Move))
        return None
    plain = find_plain(state, moves, leaving=leaving)
    replay.make_all(moves[place] for place in np.flatnonzero(~plain.is_plain).tolist())
    return plain


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
class _Slot:
    """A replica after the checked moves."""

    row: int
    node: int
    role: Role
    leaving: bool
    standby: bool


@attrs.define(eq=False)
class _Replay:
    """The replicas of the partitions after the checked moves, without those that were dropped or replaced."""

    state: ClusterState
    leaving: bool
    replicas: dict[str, list[_Slot]] = attrs.field(factory=dict)
    """By partition, if it has a move."""
    occupied: set[tuple[str, int]] = attrs.field(factory=set)
    """Nodes that departing ends will hold."""

    def make_all(self, moves: Iterable[Move]) -> None:
        """Check and record moves."""
        for move in moves:
            _check_fields(move)
            self._make(move)

    def _make(self, move: Move) -> None:
        state = self.state
        replicas = self._replicas_of(state.partition(move.partition))
        source = NOWHERE if move.source is None else state.node(move.source)
        target = NOWHERE if move.target is None else state.node(move.target)
        if move.kind is ADD or move.kind is MOVE:
            self._move(replicas, move, source, target)
        elif move.kind is SWAP:
            _swap(replicas, move, source, target)
        elif move.kind is DROP:
            replicas.remove(_slot_of(move, source, replicas))
        elif move.kind is PROMOTE:
            self._promote(replicas, move, target)
        else:
            self._give_up(replicas, move, source)

    def _replicas_of(self, record: PartitionRecord) -> list[_Slot]:
        found = self.replicas.get(record.name)
        if found is None:
            table = self.state.rows
            found = self.replicas[record.name] = [
                _Slot(row, table.node[row], ROLES[table.role[row]], table.leaving[row], table.standby[row])
                for row in record.rows
            ]
        return found

    def _move(self, replicas: list[_Slot], move: Move, source: int, target: int) -> None:
        slots = _slots_of(replicas)
        if adds_second_primary(move, ((slot.role, slot.node) for slot in slots)):
            moved = _slot_of(attrs.evolve(move, role=Role.SECONDARY), source, slots)
            moved.role = Role.PRIMARY
            next(slot for slot in slots if slot.role is Role.PRIMARY).role = Role.SECONDARY
        else:
            moved = _slot_of(move, source, slots)
        there = [other for other in replicas if other.node == target]
        if not all(other.standby for other in there) or (move.partition, target) in self.occupied:
            raise ConflictError(f"{move}: a replica of the partition is on {move.target}; make a new plan")
        if self.leaving and move.kind is MOVE:
            self.occupied.add((move.partition, source))
        for standby in there:
            replicas.remove(standby)
        moved.node = target

    def _promote(self, replicas: list[_Slot], move: Move, node: int) -> None:
        slots = _slots_of(replicas)
        promoted = _slot_of(move, node, slots)
        for primary in [slot for slot in slots if slot.role is Role.PRIMARY]:
            if primary.node != NOWHERE:
                at_node = self.state.nodes[primary.node].name
                raise ConflictError(f"{move}: a primary is on {at_node}; make a new plan")
            replicas.remove(primary)
        promoted.role = Role.PRIMARY

    def _give_up(self, replicas: list[_Slot], move: Move, node: int) -> None:
        table = self.state.rows
        if not any(one.node == node and one.role is move.role for one in replicas):
            raise ConflictError(f"{move}: there is no such replica any more; make a new plan")
        marks = (table.regains, table.kept) if answers_return(move) else (table.swaps_out,)
        if not any(mark[one.row] for one in replicas for mark in marks):
            raise ConflictError(f"{move}: no upgrade asks for that any more; make a new plan")


def _slots_of(replicas: Iterable[_Slot]) -> list[_Slot]:
    """Return the replicas that the partition should have: all but departing ends and standbys."""
    return [one for one in replicas if not (one.leaving or one.standby)]


def _slot_of(move: Move, node: int, slots: Iterable[_Slot]) -> _Slot:
    """Return the replica of `slots` that a move is of."""
    fitting = [slot for slot in slots if slot.node == node and slot.role is move.role]
    if not fitting:
        raise ConflictError(f"{move}: there is no such replica any more; make a new plan")
    return next((slot for slot in fitting if slot.row == move.index), fitting[0])


def _swap(replicas: list[_Slot], move: Move, source: int, target: int) -> None:
    slots = _slots_of(replicas)
    moved = _slot_of(move, source, slots)
    partner = next((slot for slot in slots if slot.node == target and slot.role is Role.SECONDARY), None)
    if partner is None:
        raise ConflictError(f"{move}: no secondary is on {move.target} any more; make a new plan")
    moved.node, partner.node = target, source


def adds_second_primary(move: Move, slots: Iterable[tuple[int, int]]) -> bool:
    """Return whether a move adds a primary beside the present one, which becomes a secondary.

    Parameters
    ----------
    slots
        Role and node of each replica that the partition should have.
    """
    if move.kind is not ADD or move.role is not Role.PRIMARY:
        return False
    return any(role == PRIMARY and node != NOWHERE for role, node in slots)


def answers_return(move: Move) -> bool:
    """Return whether a move of kind void is for a role that cannot return, not for one that cannot be moved."""
    return move.reason.rule == "upgraded"
