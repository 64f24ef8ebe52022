"""Applications that use too many nodes or exceed their capacity on a node."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints import application_capacity, scale_out
from plb.search.places import NO_ROWS
from plb.state.arrays import Problem, Solution
from plb.state.replica_table import merged

PARTS = 2.0**20
"""Overloads are summed up in whole parts of a limit, so that sums do not depend on the order of the nodes."""


def broken_applications(problem: Problem, solution: Solution, enforced: int) -> Int:
    """Return the applications, ascending, that break an enforced rule which moves can repair."""
    if not problem.grouped:
        return NO_ROWS
    overfull = application_capacity.overfull(problem, solution, enforced).any(axis=(1, 2))
    return merged(scale_out.broken_applications(problem, solution, enforced), np.flatnonzero(overfull))


def movable_rows_of(problem: Problem, solution: Solution, applications: Int) -> Int:
    """Return the movable placed rows, ascending, of some applications."""
    placed = problem.movable & (solution.node != NOWHERE)
    return np.flatnonzero(placed & np.isin(problem.application, applications))


@kernel
def count_breaches_of(problem: Problem, solution: Solution, enforced: int, application: int) -> tuple[int, float]:
    """Return the number of breaches of an application, and the sum of its overloads relative to its limits.

    A breach is a node too many, or a node on which the load of a metric exceeds the capacity of the application.
    """
    broken = 0
    overload = 0.0
    if enforced >> scale_out.RULE & 1:
        broken += scale_out.nodes_above_limit(problem, solution, application)
    if not enforced >> application_capacity.RULE & 1:
        return broken, overload
    for node in range(solution.application_replicas.shape[1]):
        for metric in range(problem.load.shape[1]):
            excess = application_capacity.excess_on_node(problem, solution, application, node, metric)
            limit = problem.application_node_limit[application, metric]
            if excess > 0:
                broken += 1
                overload += np.floor(excess / max(1, limit) * PARTS) / PARTS
    return broken, overload
