"""Moves of a plan that change no more than the places of replicas: checked and carried out without an object for each.

New replicas on nodes without a standby, moves and swaps are plain, as long as all moves of their partition are and fit;
all others are left to `plb.state.move_checks` and `plb.state.applied_moves`. Shapes: m moves, M rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import by_pointer, kernel
from plb.model.move import MoveKind
from plb.model.plan_moves import KINDS, PlanMoves
from plb.model.role import PRIMARY, SECONDARY
from plb.state.cluster_state import ClusterState

_ADD, _MOVE, _SWAP = (KINDS.index(kind) for kind in (MoveKind.ADD, MoveKind.MOVE, MoveKind.SWAP))
_UNKNOWN = -2
"""Stands for a node that is not known."""


@by_pointer
class PlainMoves(NamedTuple):
    """The moves of a plan in order, of which some are plain."""

    is_plain: Bool
    """(m,)"""
    first: Int
    """(m,) first row of the partition, or NOWHERE."""
    kind: Int
    """(m,) numbers of `KINDS`."""
    role: Int
    """(m,)"""
    source: Int
    """(m,) index of the node, NOWHERE, or `_UNKNOWN`."""
    target: Int
    """(m,) likewise."""
    requested: Int
    """(m,) the row that the plan asks for, or NOWHERE."""
    row: Int
    """(m,) the row that moves."""
    partner: Int
    """(m,) the row with which it swaps roles, or NOWHERE."""


@by_pointer
class _Replicas(NamedTuple):
    """The arrays of the replica table that tell where replicas are, and what the moves before leave there."""

    node: Int
    sibling: Int
    role: Int
    leaving: Bool
    standby: Bool
    swaps_out: Bool
    regains: Bool
    held: Int
    """(M,) the node on which the row leaves a departing end, or NOWHERE; empty if rows leave none."""
    is_odd: Bool
    """(M,) whether a move of the partition with this first row is not plain."""


def find_plain(state: ClusterState, moves: PlanMoves, *, leaving: bool) -> PlainMoves:
    """Return which moves are plain and fit one after another; with `leaving`, they keep departing ends."""
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
    concerned = np.zeros(state.rows.capacity, np.bool_)
    _carry_out(plain, _replicas_of(state, leaving=False), concerned)
    return np.flatnonzero(concerned)


def _replicas_of(state: ClusterState, *, leaving: bool) -> _Replicas:
    table = state.rows
    return _Replicas(
        node=table.node,
        sibling=table.sibling,
        role=table.role,
        leaving=table.leaving,
        standby=table.standby,
        swaps_out=table.swaps_out,
        regains=table.regains,
        held=np.full(table.capacity if leaving else 0, NOWHERE),
        is_odd=np.zeros(table.capacity, np.bool_),
    )


def _first_row(state: ClusterState, name: str) -> int:
    record = state.partitions.get(name)
    return record.rows[0] if record is not None and record.rows else NOWHERE


def _indices(node_index: Mapping[str, int], names: Sequence[str | None]) -> Int:
    """Return the indices of nodes."""
    return np.array([NOWHERE if name is None else node_index.get(name, _UNKNOWN) for name in names], np.int64)


@kernel
def _mark_plain(moves: PlainMoves, replicas: _Replicas) -> None:
    """Find which moves are plain, and return the replicas to their places."""
    for move in range(moves.row.shape[0]):
        moves.is_plain[move] = moves.first[move] != NOWHERE and _find_rows(moves, replicas, move)
        if moves.is_plain[move]:
            _go(moves, replicas, move)
        elif moves.first[move] != NOWHERE:
            replicas.is_odd[moves.first[move]] = True
    for move in range(moves.row.shape[0] - 1, -1, -1):
        if moves.is_plain[move]:
            replicas.node[moves.row[move]] = moves.source[move]
            if moves.partner[move] != NOWHERE:
                replicas.node[moves.partner[move]] = moves.target[move]
            moves.is_plain[move] = not replicas.is_odd[moves.first[move]]


@kernel
def _go(moves: PlainMoves, replicas: _Replicas, move: int) -> None:
    """Put the replicas of a move on their nodes."""
    replicas.node[moves.row[move]] = moves.target[move]
    if moves.partner[move] != NOWHERE:
        replicas.node[moves.partner[move]] = moves.source[move]
    if moves.kind[move] == _MOVE and replicas.held.shape[0]:
        replicas.held[moves.row[move]] = moves.source[move]


@kernel
def _find_rows(moves: PlainMoves, replicas: _Replicas, move: int) -> bool:
    """Find the rows of a move; return whether it is plain and fits after those before it."""
    kind, source, target = moves.kind[move], moves.source[move], moves.target[move]
    if target < 0 or (source == NOWHERE) != (kind == _ADD):
        return False
    row = moves.row[move] = _slot_on(moves, replicas, move, moves.role[move], source)
    if row == NOWHERE:
        return False
    if kind == _SWAP and moves.role[move] == PRIMARY:
        moves.partner[move] = _slot_on(moves, replicas, move, SECONDARY, target)
        return bool(moves.partner[move] != NOWHERE)
    if kind == _MOVE and replicas.held.shape[0] and replicas.held[row] != NOWHERE:
        return False
    return (kind in (_ADD, _MOVE)) and _is_vacant(moves, replicas, move)


@kernel
def _slot_on(moves: PlainMoves, replicas: _Replicas, move: int, role: int, node: int) -> int:
    """Return a slot of a role on a node: that which the move asks for if it is one, else the first, or NOWHERE."""
    found = NOWHERE
    row = moves.first[move]
    while True:
        is_slot = not (replicas.leaving[row] or replicas.standby[row])
        if is_slot and replicas.node[row] == node and replicas.role[row] == role:
            if row == moves.requested[move]:
                return int(row)
            if found == NOWHERE:
                found = int(row)
        row = replicas.sibling[row]
        if row == moves.first[move]:
            return found


@kernel
def _is_vacant(moves: PlainMoves, replicas: _Replicas, move: int) -> bool:
    """Return whether the target has no replica of the partition, and a new primary is the only one."""
    adds_primary = moves.kind[move] == _ADD and moves.role[move] == PRIMARY
    row = moves.first[move]
    while True:
        if replicas.node[row] == moves.target[move]:
            return False
        if replicas.held.shape[0] and replicas.held[row] == moves.target[move]:
            return False
        is_slot = not (replicas.leaving[row] or replicas.standby[row])
        if adds_primary and is_slot and replicas.role[row] == PRIMARY and replicas.node[row] != NOWHERE:
            return False
        row = replicas.sibling[row]
        if row == moves.first[move]:
            return True


@kernel
def _carry_out(moves: PlainMoves, replicas: _Replicas, concerned: Bool) -> None:
    """Put the replicas of all plain moves on their nodes, and mark the rows of their partitions, (M,)."""
    for move in range(moves.row.shape[0]):
        if moves.is_plain[move]:
            _go(moves, replicas, move)
            if moves.partner[move] != NOWHERE:
                _answer_upgrade(moves, replicas, move)
            row = moves.row[move]
            while not concerned[row]:
                concerned[row] = True
                row = replicas.sibling[row]


@kernel
def _answer_upgrade(moves: PlainMoves, replicas: _Replicas, move: int) -> None:
    """Clear the marks of upgrades that a swap answers."""
    replicas.swaps_out[moves.row[move]] = False
    row = moves.partner[move]
    while replicas.regains[moves.partner[move]]:
        row = replicas.sibling[row]
        replicas.regains[row] = False
