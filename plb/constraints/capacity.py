"""Capacity: a node accepts a replica only if its load stays within its limit (docs/constraints/capacity.md)."""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution


@kernel(inline=True)
def overfills(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `row` would overfill `target`.

    Parameters
    ----------
    outgoing
        A row that leaves `target` in exchange, or a standby on `target` that `row` replaces, or NOWHERE.
    """
    if exceeds_capacity(
        problem.limit,
        problem.leaving_load,
        solution.node_load,
        problem.load[row],
        problem.load[outgoing],
        target,
    ):
        return True
    return problem.tight and _exceeds_tight_limits(problem, solution, row, outgoing, target)


@kernel
def _exceeds_tight_limits(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `row` would use capacity reserved for new replicas, or capacity that is free only after moves."""
    origin_node = problem.origin[row]
    if origin_node != NOWHERE and exceeds_capacity(
        problem.move_limit,
        problem.leaving_load,
        solution.node_load,
        problem.load[row],
        problem.load[outgoing],
        target,
    ):
        return True
    return (
        problem.counts_departed
        and origin_node != target
        and _overcommits_temporarily(problem, solution, row, outgoing, target)
    )


@kernel
def _overcommits_temporarily(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether `target`, not the origin of `row`, would exceed its limit until the plan is executed."""
    replaced = outgoing if outgoing == NOWHERE or _is_free_at_once(problem, row, outgoing, target) else NOWHERE
    for metric in range(problem.load.shape[1]):
        growth = problem.load[row, metric] - problem.load[replaced, metric]
        present = solution.node_load[target, metric] + problem.leaving_load[target, metric]
        if growth > 0 and present + solution.departed[target, metric] + growth > problem.limit[target, metric]:
            return True
    return False


@kernel
def _is_free_at_once(problem: Problem, row: int, outgoing: int, target: int) -> bool:
    """Return whether the load of `outgoing` is free at once: it came by this plan, or only swaps its role."""
    if problem.origin[outgoing] != target:
        return True
    other = problem.sibling[row]
    while other != row:
        if other == outgoing:
            return True
        other = problem.sibling[other]
    return False


@kernel
def leave_behind(problem: Problem, solution: Solution, row: int, sign: int) -> None:
    """Add `sign` times the load that `row` has moved off its origin, less that of a sibling that swapped with it."""
    origin_node = problem.origin[row]
    if origin_node == NOWHERE or solution.node[row] == origin_node:
        return
    replacement = NOWHERE
    other = problem.sibling[row]
    while other != row:
        crossed = solution.node[other] == origin_node and problem.origin[other] == solution.node[row]
        if crossed and not problem.unspread[other]:
            replacement = other
        other = problem.sibling[other]
    for metric in range(problem.load.shape[1]):
        freed = problem.load[row, metric] - problem.load[replacement, metric]
        solution.departed[origin_node, metric] += sign * max(0, freed)


@kernel(inline=True)
def exceeds_capacity(limit: Int, leaving_load: Int, node_load: Int, incoming: Int, outgoing: Int, target: int) -> bool:
    """Return whether the load of `target` would grow and exceed its limit for some metric.

    Only metrics whose load grows are checked: a node above its limit may keep its load, but not gain any. Load of
    leaving replicas counts.

    Parameters
    ----------
    limit, leaving_load, node_load
        (N, R) quanta.
    incoming, outgoing
        (R,) quanta that `target` gains and loses.
    """
    for metric in range(incoming.shape[0]):
        growth = incoming[metric] - outgoing[metric]
        if growth > 0:
            load = node_load[target, metric] + leaving_load[target, metric] + growth
            if load > limit[target, metric]:
                return True
    return False
