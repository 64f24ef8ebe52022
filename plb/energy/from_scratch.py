"""Computation of all sums of a solution from scratch, for the start of a search and for self-checks."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.capacity import leave_behind
from plb.constraints.throttling import arrive
from plb.energy.aggregates import PeakSums, peak_sums
from plb.energy.failovers import mark_violations
from plb.energy.fragmentation import fragmentation_after
from plb.energy.imbalance import change_domains, counted_as, load_deviation, local_score
from plb.energy.movement import total_movement
from plb.energy.score import PLAIN_DEVIATION
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
    """Return the solution with row i on ``node[i]``, with all sums computed from scratch.

    Parameters
    ----------
    node
        (M,) node of each row, or NOWHERE; not copied.
    sums
        The sums of peaks if known; not copied. None: they are computed.
    """
    solution = _without_sums(problem, node, peak_sums(problem, node) if sums is None else sums)
    _sum_up(problem, solution)
    return solution


def _without_sums(problem: Problem, node: Int, sums: PeakSums) -> Solution:
    """Return a solution with the given sums of peaks and zeros in all other sums; unused arrays have size 0."""
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
    """Compute all sums of a solution in which all sums but those of peaks are 0."""
    for row in range(solution.node.shape[0]):
        if solution.node[row] != NOWHERE:
            _record_displacement(problem, solution, row)
            if not problem.leaving[row]:
                _add_load(problem, solution, row, solution.node[row])
    sum_nodes(problem, solution)
    if problem.timeline:
        _list_rows(problem, solution)
        for node in range(solution.violating.shape[0]):
            count_lasting_at(problem, solution, node)
    solution.counts[MOVEMENT] = total_movement(
        problem, solution.node, problem.move_cost, problem.swap_cost, problem.add_cost
    )
    solution.counts[MOVES] = total_movement(problem, solution.node, problem.unit_cost, problem.unit_cost[0], 0)
    _sum_load_deviation(problem, solution)
    _sum_departed_and_arrivals(problem, solution)
    sum_terms(problem, solution)


@kernel
def sum_terms(problem: Problem, solution: Solution) -> None:
    """Compute what follows from the sums of each node: violations, overload, fragmentation and imbalance."""
    solution.counts[VIOLATIONS] = solution.violating.sum()
    solution.counts[OVERLOAD] = solution.overload.sum()
    none = problem.load[NOWHERE]
    solution.terms[FRAGMENTATION] = fragmentation_after(
        problem.held_out, problem.inverse_capacity, solution.node_load, none, none, NOWHERE, NOWHERE
    )
    solution.terms[IMBALANCE] = load_deviation(problem, solution)


@kernel
def _record_displacement(problem: Problem, solution: Solution, row: int) -> None:
    """Add a row to the list of displaced rows and the move counts if it is not on its origin."""
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
    """Add the load of a row to the load of its node."""
    for metric in range(problem.load.shape[1]):
        solution.node_load[at, metric] += problem.load[row, metric]


@kernel
def sum_nodes(problem: Problem, solution: Solution) -> None:
    """Compute Σx and Σx² over the counted nodes."""
    for node in range(solution.node_load.shape[0]):
        for metric in range(solution.node_load.shape[1]):
            if problem.counted_for[node, metric]:
                counted = counted_as(problem, node, metric, solution.node_load[node, metric])
                solution.total[metric] += counted
                solution.squares[metric] += counted * counted


@kernel
def _list_rows(problem: Problem, solution: Solution) -> None:
    """Build the list of rows of each node."""
    for row in range(solution.node.shape[0] - 1, -1, -1):
        if solution.node[row] != NOWHERE and not problem.leaving[row]:
            stand_in_list(solution.first_on, solution.next_on, row, solution.node[row])


@kernel
def count_lasting_violations(problem: Problem, solution: Solution, which: Bool) -> None:
    """Count, on the nodes in `which`, (N,), only the repetitions that are in violation at some departure."""
    for node in range(which.shape[0]):
        if which[node]:
            count_lasting_at(problem, solution, node)


@kernel
def count_lasting_at(problem: Problem, solution: Solution, node: int) -> None:
    """Count, on one node, only the repetitions that are in violation at some departure."""
    if solution.violating[node] > 0:
        mark_violations(solution.aggregate[node], problem.threshold[node], solution.hit)
        solution.violating[node] = count_lasting(problem, solution, node, NOWHERE, NOWHERE)


@kernel
def _sum_load_deviation(problem: Problem, solution: Solution) -> None:
    """Compute the sums of local domains and of groups of nodes, and the local scores."""
    if problem.weights[PLAIN_DEVIATION] > 0.0:
        return
    for local in range(solution.local_score.shape[0]):
        solution.local_score[local] = local_score(problem, solution, local)
        solution.counts[LOCAL_SCORES] += solution.local_score[local]
    for row in range(solution.node.shape[0]):
        if solution.node[row] != NOWHERE and not problem.leaving[row]:
            change_domains(problem, solution, row, solution.node[row], 1)


@kernel
def _sum_departed_and_arrivals(problem: Problem, solution: Solution) -> None:
    """Compute the departed load and the arrivals of each node, if the problem uses them."""
    if not (problem.keeps_departed or problem.throttles):
        return
    for row in range(solution.node.shape[0]):
        if problem.keeps_departed:
            leave_behind(problem, solution, row, 1)
        if problem.throttles:
            arrive(problem, solution, row, 1)
