"""What each node would be with a further replica: one call for all nodes."""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.evaluation.delta import violations_at_target
from plb.state.arrays import Problem, Solution


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
