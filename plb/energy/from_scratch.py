"""Computation of all sums of a solution from scratch, for the start of a search and for self-checks."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints import application_sums
from plb.constraints.capacity import leave_behind
from plb.constraints.throttling import arrive
from plb.energy import terms
from plb.energy.node_sums import add_peaks, list_rows, new_lists
from plb.state.arrays import SCRATCH, Problem, Solution, Totals


def solution_from_scratch(problem: Problem, node: Int) -> Solution:
    """Return the solution with row i on ``node[i]``, (M,), and all sums computed from scratch; `node` is not copied."""
    solution = _without_sums(problem, node)
    _add_rows(problem, solution)
    add_peaks(problem, solution)
    terms.count_again(problem, solution, np.ones(len(problem.limit), np.bool_))
    terms.sum_up(problem, solution)
    return solution


def take_over(solution: Solution, source: Solution) -> None:
    """Copy the sums of `source`, of the same problem, into the arrays of `solution`, which keeps its nodes."""
    for name in set(Solution._fields) - {"node", "totals", *SCRATCH}:
        getattr(solution, name)[...] = getattr(source, name)
    for name in Totals.names():
        setattr(solution.totals, name, getattr(source.totals, name))


def _without_sums(problem: Problem, node: Int) -> Solution:
    """Return a solution with row i on ``node[i]``, (M,), and zeros in all sums; unused arrays have size 0."""
    nodes, metrics = problem.limit.shape
    return Solution(
        node=node,
        node_load=np.zeros((nodes, metrics), np.int64),
        aggregate=np.zeros((nodes, metrics, problem.peak.shape[2]), np.int32),
        ceiling=np.zeros((nodes, metrics), np.int64),
        totals=Totals.new(),
        journal=np.zeros((0, 3), np.int64),
        displaced=np.zeros(len(node), np.int64),
        displaced_at=np.full(len(node), NOWHERE, np.int64),
        node_moves=np.zeros(nodes, np.int64),
        service_moves=np.zeros(len(problem.max_service_moves), np.int64),
        departed=np.zeros((nodes if problem.keeps_departed else 0, metrics), np.int64),
        arrivals=np.zeros(nodes if problem.throttles else 0, np.int64),
        **terms.new_sums(problem),
        **application_sums.new_sums(problem),
        **new_lists(problem),
    )


@kernel
def _add_rows(problem: Problem, solution: Solution) -> None:
    """Compute the sums that follow from the nodes and the loads of the rows; all are 0 before."""
    for row in range(solution.node.shape[0]):
        if solution.node[row] != NOWHERE:
            _record_displacement(problem, solution, row)
            if not problem.leaving[row]:
                _add_load(problem, solution, row, solution.node[row])
                if problem.grouped:
                    application_sums.count_replica(problem, solution, row, solution.node[row], 1)
        if problem.keeps_departed:
            leave_behind(problem, solution, row, 1)
        if problem.throttles:
            arrive(problem, solution, row, 1)
    terms.add_rows(problem, solution)
    list_rows(problem, solution)


@kernel
def _record_displacement(problem: Problem, solution: Solution, row: int) -> None:
    """Add a row to the list of displaced rows and the move counts if it is not on its origin."""
    origin = problem.origin[row]
    node = solution.node[row]
    if origin in (NOWHERE, node):
        return
    solution.displaced[solution.totals.displaced] = row
    solution.displaced_at[row] = solution.totals.displaced
    solution.totals.displaced += 1
    solution.node_moves[node] += 1
    solution.node_moves[origin] += 1
    solution.service_moves[problem.service[row]] += 1


@kernel
def _add_load(problem: Problem, solution: Solution, row: int, node: int) -> None:
    """Add the load of a row to the load of a node."""
    for metric in range(problem.load.shape[1]):
        solution.node_load[node, metric] += problem.load[row, metric]
