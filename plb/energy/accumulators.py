"""Exact sums over node loads: Σx and Σx² a metric, kept as whole numbers (design section 5)."""

from __future__ import annotations

from plb.arrays import Int
from plb.kernel import kernel


@kernel
def change_load(node_load: Int, total: Int, squares: Int, counted: bool, node: int, load: Int, sign: int) -> None:
    """Add `sign`·`load` to the load of `node`, and to the sums if the node is counted.

    Changing x to x + c changes Σx² by c·(2x + c).

    Parameters
    ----------
    node_load
        (N, R) steps.
    total, squares
        (R,) Σx and Σx² over the counted nodes.
    load
        (R,) steps.
    """
    for metric in range(load.shape[0]):
        change = sign * load[metric]
        if counted:
            total[metric] += change
            squares[metric] += change * (2 * node_load[node, metric] + change)
        node_load[node, metric] += change
