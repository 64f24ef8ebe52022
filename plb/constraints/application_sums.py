"""The sums of applications: replicas and loads of each on each node, and what nodes keep free for them.

A node with a replica of an application counts at least the reservation of the application instead of its load there
(docs/constraints/applications.md). Leaving replicas do not count. All sums are whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


def new_sums(problem: Problem) -> dict[str, Any]:
    """Return the sums that `Solution` keeps of applications, all 0; without applications they have size 0."""
    applications, metrics = problem.reservation.shape
    nodes = len(problem.limit)
    return {
        "application_load": np.zeros((applications, nodes, metrics), np.int64),
        "application_total": np.zeros((applications, metrics), np.int64),
        "application_replicas": np.zeros((applications, nodes), np.int64),
        "application_nodes": np.zeros(applications, np.int64),
        "reserved": np.zeros((nodes if problem.grouped else 0, metrics), np.int64),
    }


@kernel(shared=True)
def count_replica(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times `row` to the sums of its application on `node`."""
    application = problem.application[row]
    if application == NOWHERE:
        return
    _add_reserved(problem, solution, application, node, -1)
    for metric in range(problem.load.shape[1]):
        change = sign * problem.load[row, metric]
        solution.application_load[application, node, metric] += change
        solution.application_total[application, metric] += change
    before = solution.application_replicas[application, node]
    after = before + sign
    solution.application_replicas[application, node] = after
    solution.application_nodes[application] += int(after > 0) - int(before > 0)
    _add_reserved(problem, solution, application, node, 1)


@kernel
def _add_reserved(problem: Problem, solution: Solution, application: int, node: int, sign: int) -> None:
    """Add `sign` times what `node` keeps free for an application to what it keeps free for all."""
    if problem.reserves:
        for metric in range(problem.reservation.shape[1]):
            solution.reserved[node, metric] += sign * kept_free(problem, solution, application, node, metric, 0, 0)


@kernel
def kept_free(
    problem: Problem, solution: Solution, application: int, node: int, metric: int, growth: int, joining: int
) -> int:
    """Return the reservation of an application that a node keeps free, in quanta.

    Parameters
    ----------
    growth, joining
        Load and number of further replicas of the application there.
    """
    if solution.application_replicas[application, node] + joining <= 0:
        return 0
    load = solution.application_load[application, node, metric] + growth
    return max(0, int(problem.reservation[application, metric] - load))


@kernel
def growth_with_reservations(
    problem: Problem, solution: Solution, row: int, outgoing: int, target: int, metric: int
) -> int:
    """Return by how much load and reservations of `target` grow together if `row` joins and `outgoing` leaves.

    Parameters
    ----------
    outgoing
        A row on `target`, or NOWHERE.
    """
    application = problem.application[row]
    other = NOWHERE if outgoing == NOWHERE else problem.application[outgoing]
    incoming, freed = problem.load[row, metric], problem.load[outgoing, metric]
    growth = incoming - freed
    if application == other and application != NOWHERE:
        return int(growth + _change(problem, solution, application, target, metric, growth, 0))
    if application != NOWHERE:
        growth += _change(problem, solution, application, target, metric, incoming, 1)
    if other != NOWHERE:
        growth += _change(problem, solution, other, target, metric, -freed, -1)
    return int(growth)


@kernel
def _change(
    problem: Problem, solution: Solution, application: int, node: int, metric: int, growth: int, joining: int
) -> int:
    """Return the change of what a node keeps free for an application; parameters of `kept_free`."""
    after = kept_free(problem, solution, application, node, metric, growth, joining)
    return after - kept_free(problem, solution, application, node, metric, 0, 0)


@kernel
def count_leaving(problem: Problem, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of a leaving row to that of its application which leaves `node`."""
    application = problem.application[row]
    if application == NOWHERE:
        return
    for metric in range(problem.load.shape[1]):
        problem.application_leaving[application, node, metric] += sign * problem.load[row, metric]


@kernel
def sum_reserved(problem: Problem, solution: Solution) -> None:
    """Compute what every node keeps free from the sums of the applications."""
    for node in range(solution.reserved.shape[0]):
        for metric in range(solution.reserved.shape[1]):
            kept = 0
            for application in range(problem.reservation.shape[0]):
                kept += kept_free(problem, solution, application, node, metric, 0, 0)
            solution.reserved[node, metric] = kept


@kernel(inline=True)
def occupied(problem: Problem, solution: Solution, node: int, metric: int) -> int:
    """Return the load of a node and what it keeps free for applications, in quanta."""
    load = solution.node_load[node, metric]
    if problem.reserves:
        load += solution.reserved[node, metric]
    return int(load)


def occupied_nodes(problem: Problem, solution: Solution) -> Int:
    """Return the load of every node and what it keeps free for applications, (N, R) in quanta."""
    return solution.node_load + solution.reserved if problem.reserves else solution.node_load
