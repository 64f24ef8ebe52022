"""The places to which the moves of an earlier plan lead, from which balancing goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE
from plb.errors import ConflictError, InvalidValueError
from plb.model.move import MoveKind
from plb.model.plan import KINDS, Plan, PlanMoves
from plb.search.repair.breaches import Breaches
from plb.search.transactions import Places
from plb.state.arrays import TENTHS, Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.move_checks import check_moves

ALLOWED = MoveKind.MOVE, MoveKind.SWAP


class Broken(NamedTuple):
    """What is broken."""

    breaches: Breaches
    """Of hard rules."""
    extensions: Mapping[int, str]
    """The rows that break an extension constraint, each with its name."""


def start_of(state: ClusterState, plan: Plan) -> Places:
    """Return the places of the replicas after a plan; refuse a plan that does more than move and swap, or is stale."""
    moves = PlanMoves.of(plan.moves)
    is_refused = ~np.isin(moves.kind, [KINDS.index(kind) for kind in ALLOWED])
    if is_refused.any():
        allowed = "a plan that only moves replicas and swaps roles"
        raise InvalidValueError("balance", "start", str(moves[int(is_refused.argmax())]), allowed)
    checked = check_moves(state, moves, leaving=False)
    assert checked is not None  # as the moves are columns
    if not checked.is_plain.all():
        raise ConflictError(f"{moves[int((~checked.is_plain).argmax())]}: a standby is in its way; make a new plan")
    rows = np.stack([checked.row, checked.partner], axis=1).ravel()
    nodes = np.stack([checked.target, checked.source], axis=1).ravel()
    rows_moved, last_move = np.unique(rows[::-1], return_index=True)
    is_row = rows_moved != NOWHERE
    return Places(rows_moved[is_row], nodes[::-1][last_move[is_row]])


def check_start(
    state: ClusterState, problem: Problem, solution: Solution, start: Places, before: Broken, after: Broken
) -> None:
    """Raise `ConflictError` if a replica that may not move has moved to `start`, or more is broken there.

    `before`, `after`: what is broken on the present nodes, and at the start, where `solution` has all replicas.
    """
    stuck = start.rows[~problem.movable[start.rows]]
    broken_before = {state.row_partition[row] for row in before.breaches.rows.tolist()}
    broken = [
        name for name in map(state.row_partition.__getitem__, after.breaches.rows.tolist()) if name not in broken_before
    ]
    overloaded = np.flatnonzero((after.breaches.overloaded & ~before.breaches.overloaded).any(axis=1))
    applications = np.setdiff1d(after.breaches.applications, before.breaches.applications)
    newly_breaking = sorted(set(after.extensions) - set(before.extensions))
    exceeded = [name for name, is_exceeded in _budgets(problem, solution) if is_exceeded]
    with_start = "with the plan of start; balance without it"
    if len(stuck):
        raise ConflictError(f"partition {state.row_partition[stuck[0]]}: a replica moves that may not, {with_start}")
    if broken:
        raise ConflictError(f"partition {broken[0]}: breaks a hard rule {with_start}")
    if len(overloaded):
        raise ConflictError(f"node {state.nodes[overloaded[0]].name}: exceeds its capacity {with_start}")
    if len(applications):
        names = {entry: name for name, entry in state.applications.entry.items()}
        raise ConflictError(f"application {names[int(applications[0])]}: exceeds a limit {with_start}")
    if newly_breaking:
        row = newly_breaking[0]
        raise ConflictError(f"partition {state.row_partition[row]}: breaks {after.extensions[row]} {with_start}")
    if exceeded:
        raise ConflictError(f"plan: exceeds {exceeded[0]} {with_start}")


def _budgets(problem: Problem, solution: Solution) -> Iterator[tuple[str, bool]]:
    """Yield the name of each budget of moves, with whether a solution exceeds it."""
    totals = solution.totals
    if problem.bounded:
        yield "max_moves", bool(totals.moves > problem.max_moves * TENTHS)
        yield "the moves of a node", bool((solution.node_moves > problem.max_node_moves).any())
        yield "the moves of a service", bool((solution.service_moves > problem.max_service_moves).any())
    if problem.throttled:
        yield "the replicas that may be built", bool(totals.builds > problem.max_builds * TENTHS)
        yield "the swaps of roles", bool(totals.swaps > problem.max_swaps * TENTHS)
    if problem.throttles:
        in_build = problem.in_build + solution.arrivals
        yield "the replicas in build on a node", bool((in_build > problem.most_in_build)[solution.arrivals > 0].any())
