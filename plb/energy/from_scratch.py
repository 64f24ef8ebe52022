"""Every sum of a solution computed from scratch: how a search starts, and what increments are checked against."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.capacity import leave_behind
from plb.constraints.throttling import arrive
from plb.energy.aggregates import PeakSums, peak_sums
from plb.energy.failovers import mark_violations
from plb.energy.fragmentation import fragmentation_after
from plb.energy.score import PLAIN_SPREAD
from plb.energy.spread import change_domains, counted_as, local_score, spread
from plb.energy.timeline import count_lasting, stand_in_list
from plb.model import Role
from plb.state.arrays import (
    DISPLACED,
    FRAGMENTATION,
    IMBALANCE,
    LOCAL_SCORES,
    MOVEMENT,
    MOVES,
    OVERLOAD,
    VIOLATIONS,
    Problem,
    Solution,
)

_PRIMARY = int(Role.PRIMARY)
_SECONDARY = int(Role.SECONDARY)


def solution_from_scratch(problem: Problem, node: Int, sums: PeakSums | None = None) -> Solution:
    """Return the solution in which row i stands on ``node[i]``, every sum formed anew.

    Parameters
    ----------
    node
        (M,) node of each row, or NOWHERE; not copied.
    sums
        The sums of peaks, where they are known; not copied. None: they are formed, too.
    """
    solution = _without_sums(problem, node, peak_sums(problem, node) if sums is None else sums)
    _sum_up(problem, solution)
    return solution


def _without_sums(problem: Problem, node: Int, sums: PeakSums) -> Solution:
    """Return a solution whose sums are all zero, those of peaks aside; arrays that nobody asks for have no room."""
    nodes, metrics = problem.limit.shape
    locals_ = len(problem.local_nodes)
    groups = int(problem.groups.max()) if problem.defragmented.any() else 0
    picks = bool(problem.reserving.any())
    return Solution(
        node=node,
        node_load=np.zeros((nodes, metrics), np.int64),
        total=np.zeros(metrics, np.int64),
        squares=np.zeros(metrics, np.int64),
        aggregate=sums.aggregate,
        ceiling=sums.ceiling,
        violating=sums.violating,
        overload=sums.overload,
        terms=np.zeros(2),
        counts=np.zeros(6, np.int64),
        displaced=np.zeros(len(node), np.int64),
        displaced_at=np.full(len(node), NOWHERE, np.int64),
        node_moves=np.zeros(nodes, np.int64),
        service_moves=np.zeros(len(problem.max_service_moves), np.int64),
        departed=np.zeros((nodes if problem.keeps_departed else 0, metrics), np.int64),
        arrivals=np.zeros(nodes if problem.throttles else 0, np.int64),
        local_load=np.zeros((locals_, nodes, metrics), np.int64),
        local_total=np.zeros((locals_, metrics), np.int64),
        local_squares=np.zeros((locals_, metrics), np.int64),
        local_score=np.zeros(locals_, np.int64),
        group_load=np.zeros((2, groups, metrics), np.int64),
        first_on=np.full(nodes if problem.timeline else 0, NOWHERE, np.int64),
        next_on=np.full(len(node) if problem.timeline else 0, NOWHERE, np.int64),
        hit=np.zeros(problem.peak.shape[2], np.uint8),
        picked=np.zeros(nodes if picks else 0, np.int64),
        uses=np.zeros((2, max(1, int(problem.groups.max())) if picks else 0), np.int64),
    )


@kernel
def _sum_up(problem: Problem, solution: Solution) -> None:
    """Form every sum of a solution in which all but those of peaks are zero."""
    for row in range(solution.node.shape[0]):
        if solution.node[row] != NOWHERE:
            _note_displacement(problem, solution, row)
            if not problem.leaving[row]:
                _add_load(problem, solution, row, solution.node[row])
    _sum_nodes(problem, solution)
    if problem.timeline:
        _keep_lasting(problem, solution)
    solution.counts[VIOLATIONS] = solution.violating.sum()
    solution.counts[OVERLOAD] = solution.overload.sum()
    solution.counts[MOVEMENT] = total_movement(
        problem, solution.node, problem.move_cost, problem.swap_cost, problem.add_cost
    )
    solution.counts[MOVES] = total_movement(problem, solution.node, problem.unit_cost, problem.unit_cost[0], 0)
    _sum_spread(problem, solution)
    _fill_books(problem, solution)
    none = problem.load[NOWHERE]
    solution.terms[FRAGMENTATION] = fragmentation_after(
        problem.held_out, problem.inverse_capacity, solution.node_load, none, none, NOWHERE, NOWHERE
    )
    solution.terms[IMBALANCE] = spread(problem, solution)


@kernel
def _note_displacement(problem: Problem, solution: Solution, row: int) -> None:
    """Note a row that stands elsewhere than before the search."""
    origin = problem.origin[row]
    at = solution.node[row]
    if origin in (NOWHERE, at):
        return
    solution.displaced[solution.counts[DISPLACED]] = row
    solution.displaced_at[row] = solution.counts[DISPLACED]
    solution.counts[DISPLACED] += 1
    solution.node_moves[at] += 1
    solution.node_moves[origin] += 1
    solution.service_moves[problem.service[row]] += 1


@kernel
def _add_load(problem: Problem, solution: Solution, row: int, at: int) -> None:
    """Add the load of a row to that of its node."""
    for metric in range(problem.load.shape[1]):
        solution.node_load[at, metric] += problem.load[row, metric]


@kernel
def _sum_nodes(problem: Problem, solution: Solution) -> None:
    """Form Σx and Σx² over the nodes that count."""
    for node in range(solution.node_load.shape[0]):
        for metric in range(solution.node_load.shape[1]):
            if problem.counted_for[node, metric]:
                counted = counted_as(problem, node, metric, solution.node_load[node, metric])
                solution.total[metric] += counted
                solution.squares[metric] += counted * counted


@kernel
def _keep_lasting(problem: Problem, solution: Solution) -> None:
    """List the rows of each node, and count only repetitions that are in violation at some departure."""
    for row in range(solution.node.shape[0] - 1, -1, -1):
        if solution.node[row] != NOWHERE and not problem.leaving[row]:
            stand_in_list(solution.first_on, solution.next_on, row, solution.node[row])
    for node in range(solution.violating.shape[0]):
        if solution.violating[node] > 0:
            mark_violations(solution.aggregate[node], problem.threshold[node], solution.hit)
            solution.violating[node] = count_lasting(problem, solution, node, NOWHERE, NOWHERE)


@kernel
def _sum_spread(problem: Problem, solution: Solution) -> None:
    """Form the sums of local domains and of groups of nodes; the local scores follow from them."""
    if problem.weights[PLAIN_SPREAD] > 0.0:
        return
    for local in range(solution.local_score.shape[0]):
        solution.local_score[local] = local_score(problem, solution, local)
        solution.counts[LOCAL_SCORES] += solution.local_score[local]
    for row in range(solution.node.shape[0]):
        if solution.node[row] != NOWHERE and not problem.leaving[row]:
            change_domains(problem, solution, row, solution.node[row], 1)


@kernel
def _fill_books(problem: Problem, solution: Solution) -> None:
    """Note what leaves each node and what is built there by the moves so far, where that is asked for."""
    if not (problem.keeps_departed or problem.throttles):
        return
    for row in range(solution.node.shape[0]):
        if problem.keeps_departed:
            leave_behind(problem, solution, row, 1)
        if problem.throttles:
            arrive(problem, solution, row, 1)


@kernel
def total_movement(problem: Problem, node: Int, cost: Int, swap_cost: int, add_cost: int) -> int:
    """Return m of a whole solution: displaced rows at their cost, swapped pairs at that of a swap, adds at theirs.

    Parameters
    ----------
    node
        (M,) where the rows stand.
    cost
        (M,) tenths that a move of each row costs.
    swap_cost, add_cost
        Tenths.
    """
    movement = 0
    for row in range(node.shape[0]):
        if node[row] in (NOWHERE, problem.origin[row]):
            continue
        if problem.origin[row] == NOWHERE:
            movement += add_cost
            continue
        movement += cost[row]
        if problem.role[row] == _PRIMARY:
            other = _swapped_with(problem, node, row)
            if other != NOWHERE:
                movement += swap_cost - cost[row] - cost[other]
    return int(movement)


@kernel
def _swapped_with(problem: Problem, node: Int, primary: int) -> int:
    """Return the secondary that changed places with a displaced primary, or NOWHERE."""
    other = problem.sibling[primary]
    while other != primary:
        secondary = problem.role[other] == _SECONDARY and not problem.leaving[other]
        if secondary and node[other] == problem.origin[primary] and node[primary] == problem.origin[other]:
            return int(other)
        other = problem.sibling[other]
    return NOWHERE
