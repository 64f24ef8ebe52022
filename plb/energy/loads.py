"""Loads of nodes, and exact integer sums over them: Σx and Σx² of each metric."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel
def change_load(node_load: Int, total: Int, squares: Int, counted: Bool, node: int, load: Int, sign: int) -> None:
    """Add `sign`·`load` to the load of `node`, and to the sums of the metrics for which the node is counted.

    Changing x to x + c changes Σx² by c·(2x + c).

    Parameters
    ----------
    node_load
        (N, R) quanta.
    counted
        (N, R)
    total, squares
        (R,) Σx and Σx² over the counted nodes.
    load
        (R,) quanta.
    """
    for metric in range(load.shape[0]):
        change = sign * load[metric]
        if counted[node, metric]:
            total[metric] += change
            squares[metric] += change * (2 * node_load[node, metric] + change)
        node_load[node, metric] += change


def load_by_hand(problem: Problem, solution: Solution) -> Float:
    """Return the load of every node, (N, R) in quanta, summed row by row in plain NumPy."""
    rows = np.flatnonzero((solution.node != NOWHERE) & ~problem.leaving)
    load = np.zeros(problem.limit.shape)
    np.add.at(load, solution.node[rows], problem.load[rows].astype(np.float64))
    return load
