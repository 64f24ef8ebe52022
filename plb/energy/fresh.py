"""Every sum of a solution computed from scratch: how a search starts, and what increments are checked against."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.arrays import IMBALANCE, LOCAL_SCORES, NOWHERE, Int, Int32, Problem, Solution
from plb.constraints.capacity import leave_behind
from plb.constraints.throttling import arrive
from plb.energy.failovers import count_all_violations
from plb.energy.fragmentation import fragmentation_after
from plb.energy.score import PLAIN_SPREAD
from plb.energy.spread import PARTS, change_domains, local_score, spread
from plb.kernel import kernel
from plb.model import Role


def fresh_solution(problem: Problem, node: Int) -> Solution:
    """Return the solution in which row i stands on ``node[i]``, every sum formed anew.

    Parameters
    ----------
    node
        (M,) node of each row, or NOWHERE; not copied.
    """
    standing = np.flatnonzero((node != NOWHERE) & ~problem.leaving)
    displaced = np.flatnonzero((problem.origin != NOWHERE) & (node != NOWHERE) & (node != problem.origin))
    node_load = np.zeros(problem.limit.shape, np.int64)
    np.add.at(node_load, node[standing], problem.load[standing])
    counted = _as_counted(problem, node_load)
    peaks = _peaks(problem, node, standing)
    movement = total_movement(problem, node, problem.move_cost, problem.swap_cost, problem.add_cost)
    moves = total_movement(problem, node, problem.unit_cost, int(problem.unit_cost[0]), 0)
    none = problem.load[NOWHERE]
    fragmentation = fragmentation_after(
        problem.held_out, problem.inverse_capacity, node_load, none, none, NOWHERE, NOWHERE
    )
    solution = Solution(
        node=node,
        node_load=node_load,
        total=counted.sum(axis=0),
        squares=(counted * counted).sum(axis=0),
        **peaks,
        terms=np.array([0.0, fragmentation]),
        counts=np.array([peaks["violating"].sum(), movement, moves, len(displaced), 0], np.int64),
        **_displacements(problem, node, displaced),
        **_empty_books(problem),
    )
    _sum_spread(problem, solution, standing)
    _fill_books(problem, solution)
    solution.terms[IMBALANCE] = spread(problem, solution)
    return solution


def _peaks(problem: Problem, node: Int, standing: Int) -> dict[str, Any]:
    """Return what `Solution` says of the repetitions: the peaks summed by node, and the violations."""
    nodes, metrics = problem.limit.shape
    repetitions = problem.peak.shape[2]
    aggregate = np.zeros((nodes, metrics, repetitions), np.int32)
    ceiling = np.zeros((nodes, metrics), np.int64)
    violating = np.zeros(nodes, np.int64)
    if repetitions:
        _sum_peaks(aggregate, problem.peak, node, standing)
        np.add.at(ceiling, node[standing], problem.peak_ceiling[standing])
        count_all_violations(aggregate, problem.threshold, problem.counted, violating)
    return {"aggregate": aggregate, "ceiling": ceiling, "violating": violating}


def _displacements(problem: Problem, node: Int, displaced: Int) -> dict[str, Any]:
    """Return what `Solution` says of the `displaced` rows: their list, and the moves by node and by service."""
    listed = np.zeros(len(node), np.int64)
    listed[: len(displaced)] = displaced
    displaced_at = np.full(len(node), NOWHERE, np.int64)
    displaced_at[displaced] = np.arange(len(displaced))
    node_moves = np.zeros(len(problem.limit), np.int64)
    for ends in (node, problem.origin):
        np.add.at(node_moves, ends[displaced], 1)
    service_moves = np.zeros(len(problem.max_service_moves), np.int64)
    np.add.at(service_moves, problem.service[displaced], 1)
    return {
        "displaced": listed,
        "displaced_at": displaced_at,
        "node_moves": node_moves,
        "service_moves": service_moves,
    }


def _empty_books(problem: Problem) -> dict[str, Any]:
    """Return the arrays of `Solution` that are filled row by row, and scratch; without room where nobody asks."""
    nodes, metrics = problem.limit.shape
    locals_ = len(problem.local_nodes)
    groups = int(problem.groups.max()) if problem.defragmented.any() else 0
    picks = bool(problem.reserving.any())
    return {
        "departed": np.zeros((nodes if problem.keeps_departed else 0, metrics), np.int64),
        "arrivals": np.zeros(nodes if problem.throttles else 0, np.int64),
        "local_load": np.zeros((locals_, nodes, metrics), np.int64),
        "local_total": np.zeros((locals_, metrics), np.int64),
        "local_squares": np.zeros((locals_, metrics), np.int64),
        "local_score": np.zeros(locals_, np.int64),
        "group_load": np.zeros((2, groups, metrics), np.int64),
        "hit": np.zeros(problem.peak.shape[2], np.int32),
        "picked": np.zeros(nodes if picks else 0, np.int64),
        "uses": np.zeros((2, max(1, int(problem.groups.max())) if picks else 0), np.int64),
    }


@kernel
def _sum_spread(problem: Problem, solution: Solution, standing: Int) -> None:
    """Form the sums of local domains and of groups of nodes; the local scores follow from them."""
    if problem.weights[PLAIN_SPREAD] > 0.0:
        return
    for local in range(solution.local_score.shape[0]):
        solution.local_score[local] = local_score(problem, solution, local)
        solution.counts[LOCAL_SCORES] += solution.local_score[local]
    for row in standing:
        change_domains(problem, solution, row, solution.node[row], 1)


@kernel
def _fill_books(problem: Problem, solution: Solution) -> None:
    """Note what leaves each node and what is built there by the moves so far, where that is asked for."""
    for row in range(solution.node.shape[0]):
        if problem.keeps_departed:
            leave_behind(problem, solution, row, 1)
        if problem.throttles:
            arrive(problem, solution, row, 1)


def _as_counted(problem: Problem, node_load: Int) -> Int:
    """Return the x of Σx and Σx² of every node, (N, R), 0 where it does not count (`plb.energy.spread.counted_as`)."""
    share = problem.by_percentage
    counted = node_load >> problem.coarseness
    counted[:, share] = node_load[:, share] * PARTS // problem.capacity[:, share]
    return np.where(problem.counted_for, counted, 0)


@kernel
def _sum_peaks(aggregate: Int32, peak: Int32, node: Int, standing: Int) -> None:
    for row in standing:
        for metric in range(peak.shape[1]):
            for k in range(peak.shape[2]):
                aggregate[node[row], metric, k] += peak[row, metric, k]


def total_movement(problem: Problem, node: Int, cost: Int, swap_cost: int, add_cost: int) -> int:
    """Return m of a whole solution: displaced rows at their cost, swapped pairs at that of a swap, adds at theirs."""
    added = (problem.origin == NOWHERE) & (node != NOWHERE)
    displaced = (problem.origin != NOWHERE) & (node != NOWHERE) & (node != problem.origin)
    movement = int(cost[displaced].sum()) + add_cost * int(added.sum())
    for primary in np.flatnonzero(displaced & (problem.role == Role.PRIMARY)):
        other = int(problem.sibling[primary])
        while other != primary:
            secondary = problem.role[other] == Role.SECONDARY and not problem.leaving[other]
            crossed = node[other] == problem.origin[primary] and node[primary] == problem.origin[other]
            if secondary and crossed:
                movement += swap_cost - int(cost[primary]) - int(cost[other])
                break
            other = int(problem.sibling[other])
    return movement
