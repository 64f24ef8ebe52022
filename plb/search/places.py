"""Where the rows are that a search has moved, and the way back to such places.

A search changes the solution that it is given. What it tries and rejects, it undoes; a caller that does not keep its
result returns to the places of before.
"""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Bool, Int
from plb.compiler import kernel
from plb.energy.from_scratch import solution_from_scratch, take_over
from plb.evaluation.delta import move_row
from plb.state.arrays import Problem, Solution
from plb.state.replica_table import merged

SHARE_FOR_ALL = 8
"""If more than one row in so many moves, all sums are computed from scratch, which is faster."""
NO_ROWS: Int = np.zeros(0, np.int64)
"""No row was placed or dropped."""


@attrs.frozen(eq=False)
class Places:
    """Rows that are not on their origins.

    Parameters
    ----------
    rows
        (m,) ascending.
    nodes
        (m,) the node of each, or NOWHERE.
    """

    rows: Int
    nodes: Int

    def of(self, chosen: Bool) -> Places:
        """Return the places of some of the rows, given by a mask, (m,)."""
        return Places(self.rows[chosen], self.nodes[chosen])

    def among(self, rows: Int, origin: Int) -> Int:
        """Return the nodes of rows, (m,), among which are all of these; the others are on their `origin`, (M,)."""
        nodes: Int = origin[rows]
        nodes[rows.searchsorted(self.rows)] = self.nodes
        return nodes


NO_PLACES = Places(NO_ROWS, NO_ROWS)
"""All rows are on their origins."""


def moved_rows(problem: Problem, solution: Solution, others: Int) -> Int:
    """Return the rows that are not on their origins, ascending.

    Parameters
    ----------
    others
        The rows, ascending, that may have been placed or dropped; displaced ones are known.
    """
    displaced = solution.displaced[: solution.totals.displaced]
    if not len(others):
        return np.sort(displaced)
    elsewhere = others[solution.node[others] != problem.origin[others]]
    return merged(np.sort(displaced), elsewhere) if len(displaced) else elsewhere


def places_of(problem: Problem, solution: Solution, others: Int) -> Places:
    """Return the present places; `others` as for `moved_rows`."""
    rows = moved_rows(problem, solution, others)
    return Places(rows, solution.node[rows])


def go_to(problem: Problem, solution: Solution, places: Places, others: Int) -> None:
    """Move the rows to these places, and all that are not among them to their origins; `others` as above."""
    rows = merged(moved_rows(problem, solution, others), places.rows)
    nodes = places.among(rows, problem.origin)
    if len(rows) * SHARE_FOR_ALL <= len(solution.node) or len(solution.journal):
        _move_all(problem, solution, rows, nodes)
        return
    solution.node[rows] = nodes
    take_over(solution, solution_from_scratch(problem, solution.node))


@kernel
def _move_all(problem: Problem, solution: Solution, rows: Int, nodes: Int) -> None:
    """Move each of `rows` to its node of `nodes`."""
    for index in range(rows.shape[0]):
        row = rows[index]
        if problem.leaving[row]:  # a departing end that was dropped: it is in no sum
            solution.node[row] = nodes[index]
        elif solution.node[row] != nodes[index]:
            move_row(problem, solution, row, nodes[index])
