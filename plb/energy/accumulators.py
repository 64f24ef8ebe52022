"""Exact integer sums over node loads: Σx and Σx² of each metric."""

from __future__ import annotations

from plb.array_types import Bool, Int
from plb.compiler import kernel


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
