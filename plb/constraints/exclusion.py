"""Replica exclusion: no two replicas of a partition on one node (semantics.md section 4)."""

from __future__ import annotations

from plb.arrays import Int
from plb.kernel import kernel


@kernel(inline=True)
def is_excluded(node: Int, origin: Int, sibling: Int, row: int, target: int) -> bool:
    """Tell whether a replica of the same partition stands on `target`, or stood there before this search.

    A node that a sibling leaves in the same plan stays closed, so that the moves of a plan can run in any order.

    Parameters
    ----------
    node, origin, sibling
        (M,) each, see `plb.arrays`.
    """
    other = sibling[row]
    while other != row:
        if node[other] == target or origin[other] == target:
            return True
        other = sibling[other]
    return False
