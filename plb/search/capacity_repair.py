"""Repair of overloaded nodes: random replicas move away, or swap their role with a lighter one."""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel, uniform
from plb.constraints.capacity import RULE, excess_of
from plb.search.application_repair import holds_reservation, relieve_by
from plb.search.extension_kernels import ExtensionState
from plb.search.preferred_swaps import move_or_swap
from plb.search.repair_lists import RepairState, RowsOnNodes, list_rows_on_nodes, next_listed_node, note_moves
from plb.search.role_swaps import swap_with_lighter
from plb.search.transactions import has_capacity
from plb.state.arrays import Problem, Solution


@kernel
def unload(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    swaps: bool,
    prefers: bool,
    rng: Stream,
    state: RepairState,
) -> None:
    """Move random replicas off each overloaded node until it is within its limits or no replica can leave."""
    node = next_listed_node(state.suspects, NOWHERE)
    while node != NOWHERE:
        for metric in range(problem.limit.shape[1] if problem.watched[node] else 0):
            while excess_of(problem, solution, node, metric) > 0:
                list_rows_on_nodes(solution, state.on_nodes)
                begun = state.transaction.length[0]
                if not _take_load_off(
                    problem, solution, extension_state, enforced, node, metric, swaps, prefers, rng, state
                ):
                    break
                note_moves(problem, solution, state, begun)
        node = next_listed_node(state.suspects, node)


@kernel
def _take_load_off(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    node: int,
    metric: int,
    swaps: bool,
    prefers: bool,
    rng: Stream,
    state: RepairState,
) -> bool:
    """Move a replica off `node`, or swap its role with a lighter one; return whether that was possible."""
    row = _random_leaver(problem, solution, enforced, node, metric, rng, state.on_nodes)
    if row == NOWHERE or not has_capacity(solution, state.transaction):
        return False
    if prefers and move_or_swap(problem, solution, extension_state, enforced, row, metric, rng, state.transaction):
        return True
    if relieve_by(problem, solution, extension_state, enforced, row, metric, rng, state):
        return True
    if _relieve(problem, solution, extension_state, enforced, node, metric, False, rng, state):
        return True
    return swaps and _relieve(problem, solution, extension_state, enforced, node, metric, True, rng, state)


@kernel
def _random_leaver(
    problem: Problem, solution: Solution, enforced: int, node: int, metric: int, rng: Stream, on_nodes: RowsOnNodes
) -> int:
    """Return a random replica that may leave `node` to reduce its load of `metric`, or NOWHERE."""
    chosen = NOWHERE
    seen = 0
    row = on_nodes.first[node]
    while row != NOWHERE:
        if _may_leave(problem, solution, enforced, row, metric):
            seen += 1
            if uniform(rng) * seen < 1.0:
                chosen = row
        row = on_nodes.following[row]
    return int(chosen)


@kernel
def _may_leave(problem: Problem, solution: Solution, enforced: int, row: int, metric: int) -> bool:
    """Return whether `row` is movable and has load of `metric`, or its application a reservation.

    Where capacity does not bind, a replica that has moved stays: otherwise it could move back and forth.
    """
    settled = not enforced >> RULE & 1 and solution.node[row] != problem.origin[row]
    is_heavy = problem.load[row, metric] > 0 or holds_reservation(problem, row, metric)
    return bool(problem.movable[row] and is_heavy and not settled)


@kernel
def _relieve(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    node: int,
    metric: int,
    swaps: bool,
    rng: Stream,
    state: RepairState,
) -> bool:
    """Reduce the load of `node` by the first replica, from a random one on, that can; return whether one could.

    Parameters
    ----------
    swaps
        Whether a replica swaps its role with a lighter one; otherwise it moves away.
    """
    on_nodes = state.on_nodes
    rows = 0
    row = on_nodes.first[node]
    while row != NOWHERE:
        rows += 1
        row = on_nodes.following[row]
    row = on_nodes.first[node]
    for _ in range(int(uniform(rng) * rows)):
        row = on_nodes.following[row]
    for _ in range(rows):
        if swaps:
            relieved = swap_with_lighter(
                problem, solution, extension_state, enforced, row, metric, rng, state.transaction
            )
        else:
            relieved = _may_leave(problem, solution, enforced, row, metric) and relieve_by(
                problem, solution, extension_state, enforced, row, metric, rng, state
            )
        if relieved:
            return True
        row = on_nodes.following[row]
        if row == NOWHERE:
            row = on_nodes.first[node]
    return False
