"""What is kept of the rows of a node: sums of loads and of peaks by repetition, and a list of the rows.

All sums are exact integers. A list is in ascending order of the rows, so that it depends on their nodes alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Float, Int, Int32
from plb.compiler import Stream, kernel, uniform
from plb.state.arrays import Problem, Solution


def load_by_hand(problem: Problem, solution: Solution) -> Float:
    """Return the load of every node, (N, R) in quanta, summed row by row in plain NumPy."""
    rows = np.flatnonzero((solution.node != NOWHERE) & ~problem.leaving)
    load = np.zeros(problem.limit.shape)
    np.add.at(load, solution.node[rows], problem.load[rows].astype(np.float64))
    return load


@kernel
def evaluates_peaks(problem: Problem) -> bool:
    """Return whether a term that is computed from peaks contributes to the energy."""
    weights = problem.weights
    return bool(problem.peak.shape[2] > 0 and (weights.expected_failovers > 0.0 or weights.expected_overload > 0.0))


@kernel
def may_lower_target(problem: Problem, partner: int) -> bool:
    """Return whether a proposal with this `partner` may lower the violations and the overload of its target.

    It may in an exchange, where `partner` is a row, and with estimators.
    """
    return bool(partner != NOWHERE or problem.estimator_rows.shape[0] > 0)


@kernel
def total_without(total: int, by_node: Int, source: int, target: int) -> int:
    """Return a total of contributions `by_node`, (N,), without `source` and `target`, each perhaps NOWHERE."""
    if target != NOWHERE:
        total -= by_node[target]
    if source != NOWHERE:
        total -= by_node[source]
    return int(total)


@kernel
def replace_share(by_node: Int, node: int, value: int) -> int:
    """Set the contribution of a node in `by_node`, (N,), to `value`; return by how much their total rises.

    `node` may be NOWHERE.
    """
    if node == NOWHERE:
        return 0
    rise = value - by_node[node]
    by_node[node] = value
    return int(rise)


@kernel
def change_aggregate(aggregate: Int32, ceiling: Int, node: int, peak: Int32, peak_ceiling: Int, sign: int) -> None:
    """Add `sign` times a replica's `peak`, (R, K), and `peak_ceiling`, (R,), to the sums of `node`.

    `aggregate`, (N, R, K), and `ceiling`, (N, R): of `Solution`.
    """
    for metric in range(peak.shape[0]):
        ceiling[node, metric] += sign * peak_ceiling[metric]
        if sign > 0:
            for k in range(peak.shape[1]):
                aggregate[node, metric, k] += peak[metric, k]
        else:
            for k in range(peak.shape[1]):
                aggregate[node, metric, k] -= peak[metric, k]


@kernel
def add_peaks(problem: Problem, solution: Solution) -> None:
    """Add the peaks of all rows to the sums of their nodes; departing ends are not counted."""
    for row in range(solution.node.shape[0]):
        node = solution.node[row]
        if node == NOWHERE or problem.leaving[row]:
            continue
        for metric in range(problem.peak.shape[1]):
            solution.ceiling[node, metric] += problem.peak_ceiling[row, metric]
            _add(solution.aggregate[node, metric], problem.peak[row, metric])


@kernel
def _add(aggregate: Int32, peak: Int32) -> None:
    """Add the peaks of a row, `peak`, to the sums of its node, `aggregate`, (K,) each; a kernel, to be vectorized."""
    for k in range(aggregate.shape[0]):
        aggregate[k] += peak[k]


def peaks_by_hand(problem: Problem, solution: Solution, node: int) -> Int:
    """Return the sums of the peaks on a node, (R, K) quanta, in plain NumPy."""
    total: Int = problem.peak[:-1][(solution.node == node) & ~problem.leaving].sum(axis=0, dtype=np.int64)
    return total


def new_lists(problem: Problem) -> dict[str, Any]:
    """Return the arrays of empty lists in `Solution`, by name; they have size 0 if `Problem.lists_rows` is off."""
    nodes, rows = (len(problem.limit), len(problem.origin)) if problem.lists_rows else (0, 0)
    return {"first_on": np.full(nodes, NOWHERE, np.int64), "next_on": np.full(rows, NOWHERE, np.int64)}


@kernel
def change_list(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Insert replica `row` into the list of `node` (`sign` 1), or remove it (−1), where lists are kept."""
    if problem.lists_rows and sign > 0:
        insert_in_list(solution.first_on, solution.next_on, row, node)
    elif problem.lists_rows:
        remove_from_list(solution.first_on, solution.next_on, row, node)


@kernel
def list_rows(problem: Problem, solution: Solution) -> None:
    """Insert all rows into the lists; the last row first, which needs no search."""
    for row in range(solution.node.shape[0] - 1, -1, -1):
        if solution.node[row] != NOWHERE and not problem.leaving[row]:
            change_list(problem, solution, row, solution.node[row], 1)


@kernel
def insert_in_list(first_on: Int, next_on: Int, row: int, node: int) -> None:
    """Insert a row into the list of rows on a node, in ascending order, unless it is in the list.

    It is there if an extension in Python has failed before it undid a trial: the search goes on to the next point at
    which it can end, and must not make the list a circle. `first_on`, `next_on`: arrays of `Solution`.
    """
    before = NOWHERE
    after = first_on[node]
    while after != NOWHERE and after < row:
        before = after
        after = next_on[after]
    if after == row:
        return
    next_on[row] = after
    if before == NOWHERE:
        first_on[node] = row
    else:
        next_on[before] = row


@kernel
def remove_from_list(first_on: Int, next_on: Int, row: int, node: int) -> None:
    """Remove a row from the list of rows on a node, if it is in the list; `first_on`, `next_on`: of `Solution`."""
    before = NOWHERE
    current = first_on[node]
    while current != row:
        if current == NOWHERE:
            return
        before = current
        current = next_on[current]
    if before == NOWHERE:
        first_on[node] = next_on[row]
    else:
        next_on[before] = next_on[row]
    next_on[row] = NOWHERE


@kernel
def random_row_on(problem: Problem, solution: Solution, node: int, rng: Stream) -> int:
    """Return a random movable row on a node, or NOWHERE if there is none."""
    movable = 0
    row = solution.first_on[node]
    while row != NOWHERE:
        movable += problem.movable[row]
        row = solution.next_on[row]
    if movable == 0:
        return NOWHERE
    skipped = int(uniform(rng) * movable)
    row = solution.first_on[node]
    while skipped > 0 or not problem.movable[row]:
        skipped -= problem.movable[row]
        row = solution.next_on[row]
    return int(row)
