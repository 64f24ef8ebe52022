"""Replica exclusion: no two replicas of a partition on one node (docs/constraints/exclusion.md)."""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel(inline=True)
def is_excluded(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether a replica of the same partition is on `target`, or was there before the search.

    A node that a sibling leaves in the same plan stays excluded, so that the moves of a plan can run in any order. For
    the same reason a row that has swapped roles with a sibling can only swap back. A replica may replace a standby. If
    moves may be chained, a node that a sibling leaves is allowed while the moves of the partition have a valid order.
    """
    node, origin, sibling, chains = solution.node, problem.origin, problem.sibling, problem.chains
    origin_node = origin[row]
    other = sibling[row]
    while other != row:
        if problem.standbys > 0 and problem.standby[other]:
            other = sibling[other]
            continue
        if node[other] == target:
            return True
        if not chains and (origin[other] == target or (origin_node != NOWHERE and node[other] == origin_node)):
            return True
        other = sibling[other]
    if not chains or origin_node == NOWHERE or target == origin_node:
        return False
    return _closes_cycle(node, origin, sibling, problem.role, row, target)


@kernel
def _closes_cycle(node: Int, origin: Int, sibling: Int, role: Int, row: int, target: int) -> bool:
    """Return whether the move of `row` to `target` closes a cycle of siblings that each take the next one's node.

    Two siblings of different roles may form a cycle: that is a swap.
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
    """Return whether a swap of `row` and its sibling `partner` would cause moves that depend on their order.

    Two siblings may exchange their origins, which is one swap in the plan, or return from such a swap. Otherwise
    neither may be on the origin of a sibling.

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
