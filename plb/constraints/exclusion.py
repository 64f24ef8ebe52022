"""Replica exclusion: no two replicas of a partition on one node (semantics.md section 4)."""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel(inline=True)
def is_excluded(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Tell whether a replica of the same partition stands on `target`, or stood there before this search.

    A node that a sibling leaves in the same plan stays closed, so that the moves of a plan can run in any order. For
    the same reason a row that has swapped roles with a sibling can only swap back. A replica may take the place of a
    standby. Where moves may be chained, a node that a sibling leaves is open, as long as the moves of the partition
    still have an order.
    """
    node, origin, sibling, chains = solution.node, problem.origin, problem.sibling, problem.chains
    home = origin[row]
    other = sibling[row]
    while other != row:
        if problem.standbys > 0 and problem.standby[other]:
            other = sibling[other]
            continue
        if node[other] == target:
            return True
        if not chains and (origin[other] == target or (home != NOWHERE and node[other] == home)):
            return True
        other = sibling[other]
    if not chains or home == NOWHERE or target == home:
        return False
    return _closes_circle(node, origin, sibling, problem.role, row, target)


@kernel
def _closes_circle(node: Int, origin: Int, sibling: Int, role: Int, row: int, target: int) -> bool:
    """Tell whether siblings that each take the node of the next would end on the node that `row` leaves.

    Two of different roles may: that is a swap.
    """
    at = target
    while True:
        after = NOWHERE
        other = sibling[row]
        while other != row:
            swaps = at == target and node[other] == origin[row] and role[other] != role[row]
            if origin[other] == at and node[other] != at and not swaps:
                after = node[other]
            other = sibling[other]
        if after == NOWHERE:
            return False
        if after == origin[row]:
            return True
        at = after


@kernel(inline=True)
def swap_is_excluded(node: Int, origin: Int, sibling: Int, row: int, partner: int) -> bool:
    """Tell whether a swap of `row` and its sibling `partner` would leave moves that need an order.

    Two siblings may take each other's origin, which is one swap in the plan, or come back from that; else neither may
    stand where a sibling stood before this search.

    Parameters
    ----------
    node, origin, sibling
        (M,) each, see `plb.state.arrays`.
    """
    here = node[row]
    there = node[partner]
    crosses = here == origin[row] and there == origin[partner]
    returns = there == origin[row] and here == origin[partner]
    if crosses or returns:
        return False
    if here == origin[row] or there == origin[partner]:
        return True
    other = sibling[row]
    while other != row:
        if other != partner:
            on_origin = node[other] != NOWHERE and (node[other] == origin[row] or node[other] == origin[partner])
            if on_origin or origin[other] == here or origin[other] == there:
                return True
        other = sibling[other]
    return False
