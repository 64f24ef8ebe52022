"""The places to which the moves of an earlier plan lead, from which balancing goes on."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE
from plb.errors import ConflictError, InvalidValueError
from plb.model.move import MoveKind
from plb.model.plan import Plan
from plb.model.plan_moves import KINDS, PlanMoves
from plb.search.breaches import Breaches
from plb.search.places import Places
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState
from plb.state.move_checks import check_moves
from plb.state.plain_moves import find_plain

ALLOWED = MoveKind.MOVE, MoveKind.SWAP


def start_of(state: ClusterState, plan: Plan) -> Places:
    """Return the places of the replicas after the moves of a plan.

    Raises
    ------
    InvalidValueError
        If the plan does more than move replicas and swap roles.
    ConflictError, UnknownNameError
        If a move no longer fits the cluster.
    """
    moves = PlanMoves.of(plan.moves)
    others = ~np.isin(moves.kind, [KINDS.index(kind) for kind in ALLOWED])
    if others.any():
        allowed = "a plan that only moves replicas and swaps roles"
        raise InvalidValueError("balance", "start", str(moves[int(others.argmax())]), allowed)
    check_moves(state, moves, leaving=False)
    plain = find_plain(state, moves, leaving=False)
    if not plain.is_plain.all():
        raise ConflictError(f"{moves[int((~plain.is_plain).argmax())]}: a standby is in its way; make a new plan")
    rows = np.stack([plain.row, plain.partner], axis=1).ravel()
    nodes = np.stack([plain.target, plain.source], axis=1).ravel()
    latest_first, last = np.unique(rows[::-1], return_index=True)
    there = latest_first != NOWHERE
    return Places(latest_first[there], nodes[::-1][last[there]])


def check_start(state: ClusterState, problem: Problem, start: Places, before: Breaches, after: Breaches) -> None:
    """Raise `ConflictError` if a replica that may not move is elsewhere at a start, or more is broken there.

    A partition that breaks a rule on the present nodes may do so at the start, where other replicas of it may be those
    that have to move.

    Parameters
    ----------
    before, after
        What is broken on the present nodes, and at the start.
    """
    stuck = start.rows[~problem.movable[start.rows]]
    already = {state.row_partition[row] for row in before.rows.tolist()}
    broken = [name for name in map(state.row_partition.__getitem__, after.rows.tolist()) if name not in already]
    overloaded = np.flatnonzero((after.overloaded & ~before.overloaded).any(axis=1))
    applications = np.setdiff1d(after.applications, before.applications)
    again = "with the plan of start; balance without it"
    if len(stuck):
        raise ConflictError(f"partition {state.row_partition[stuck[0]]}: a replica moves that may not, {again}")
    if broken:
        raise ConflictError(f"partition {broken[0]}: breaks a hard rule {again}")
    if len(overloaded):
        raise ConflictError(f"node {state.nodes[overloaded[0]].name}: exceeds its capacity {again}")
    if len(applications):
        names = {entry: name for name, entry in state.applications.entry.items()}
        raise ConflictError(f"application {names[int(applications[0])]}: exceeds a limit {again}")
