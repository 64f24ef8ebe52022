"""The rows on each node as linked lists, in ascending order, for searches and tests that ask for the rows of one node.

The order is that of the rows, and not that in which they came, so a list depends on the places alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform
from plb.state.arrays import Problem, Solution


def new_lists(problem: Problem) -> dict[str, Any]:
    """Return empty lists; arrays of size 0 where none are kept."""
    nodes, rows = (len(problem.limit), len(problem.origin)) if problem.lists_rows else (0, 0)
    return {"first_on": np.full(nodes, NOWHERE, np.int64), "next_on": np.full(rows, NOWHERE, np.int64)}


@kernel
def change_list(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Insert `row` into the list of `node` (`sign` 1), or remove it (−1), where lists are kept."""
    if problem.lists_rows and sign > 0:
        stand_in_list(solution.first_on, solution.next_on, row, node)
    elif problem.lists_rows:
        leave_list(solution.first_on, solution.next_on, row, node)


@kernel
def list_rows(problem: Problem, solution: Solution) -> None:
    """Insert all rows into the lists; the last row first, which needs no search."""
    for row in range(solution.node.shape[0] - 1, -1, -1):
        if solution.node[row] != NOWHERE and not problem.leaving[row]:
            change_list(problem, solution, row, solution.node[row], 1)


@kernel
def stand_in_list(first_on: Int, next_on: Int, row: int, node: int) -> None:
    """Insert a row into the list of rows on a node, in ascending order, unless it is in the list.

    It is there if an extension in Python has failed before it took back what it tried: the search goes on to the next
    point at which it can end, and must not make the list a circle.

    Parameters
    ----------
    first_on, next_on
        As in `plb.state.arrays.Solution`; modified.
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
def leave_list(first_on: Int, next_on: Int, row: int, node: int) -> None:
    """Remove a row from the list of rows on a node, if it is in the list; see `stand_in_list`."""
    before = NOWHERE
    at = first_on[node]
    while at != row:
        if at == NOWHERE:
            return
        before = at
        at = next_on[at]
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
    left = int(uniform(rng) * movable)
    row = solution.first_on[node]
    while left > 0 or not problem.movable[row]:
        left -= problem.movable[row]
        row = solution.next_on[row]
    return int(row)
