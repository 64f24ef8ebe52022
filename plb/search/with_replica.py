"""What each node would be with a further replica: one call for all nodes."""

from __future__ import annotations

from plb.arrays import NOWHERE, Int, Problem, Solution
from plb.compiler import kernel
from plb.search.transition import violations_at_target


@kernel
def count_violations_with(problem: Problem, solution: Solution, row: int, found: Int) -> None:
    """Count the repetitions in which each node would be in violation if `row` stood there.

    Parameters
    ----------
    found
        (N,) changed; 0 for nodes that do not count.
    """
    for node in range(found.shape[0]):
        if solution.node[row] == node:
            found[node] = solution.violating[node]
        else:
            found[node] = violations_at_target(problem, solution, row, node, NOWHERE)
