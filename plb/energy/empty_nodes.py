"""Reserved nodes: the distance of the emptiest nodes from being empty.

For each node that a metric reserves, the emptiest remaining node is selected. With `empty_across_domains` it comes from
the fault and upgrade domains with the fewest selected nodes. With `empty_overlap` the selection compares occupancy
summed over all reserving metrics. With p the excess of a selected node over its empty limit as a share of its capacity,
the lack is ``Σ (2 − (1 − p)² − [p = 0])``: 0 if enough nodes are empty, 2 for each node that does not exist.
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.state.arrays import Problem, Solution

_REWARD = 2.0
"""Reduction of the lack by an empty node; 1 of it only if the node is exactly within its empty limit."""


@kernel
def lack_of_empty_nodes(problem: Problem, solution: Solution, metric: int) -> float:
    """Return the lack of empty nodes and mark the selected nodes in `solution.picked`; O(N·target_empty)."""
    for node in range(solution.picked.shape[0]):
        solution.picked[node] = 0
        for kind in range(2):
            solution.uses[kind, problem.group[kind, node]] = 0
    lack = _REWARD * problem.target_empty[metric]
    for _ in range(problem.target_empty[metric]):
        node = _next_pick(problem, solution, metric)
        if node == NOWHERE:
            return float(lack)
        solution.picked[node] = 1
        for kind in range(2):
            solution.uses[kind, problem.group[kind, node]] += 1
        above = _share_above_limit(problem, solution, metric, node)
        lack -= (1.0 - above) * (1.0 - above)
        if above == 0.0:
            lack -= 1.0
    return float(lack)


@kernel
def _next_pick(problem: Problem, solution: Solution, metric: int) -> int:
    """Return the node to select next, or NOWHERE; ties go to the first."""
    chosen = NOWHERE
    fewest = 0
    least = 0.0
    for node in range(solution.picked.shape[0]):
        if solution.picked[node] == 1 or not problem.counted_for[node, metric]:
            continue
        uses = 0
        if problem.empty_across_domains[metric]:
            for kind in range(2):
                uses += solution.uses[kind, problem.group[kind, node]]
        occupied = 0.0
        for other in range(problem.load.shape[1]):
            if other == metric or (problem.empty_overlap and problem.reserving[other]):
                occupied += _share_above_limit(problem, solution, other, node)
        if chosen == NOWHERE or uses < fewest or (uses == fewest and occupied < least):
            chosen = node
            fewest = uses
            least = occupied
    return int(chosen)


@kernel
def _share_above_limit(problem: Problem, solution: Solution, metric: int, node: int) -> float:
    """Return the excess of the node over its empty limit as a share of its capacity, at most 1."""
    above = solution.node_load[node, metric] - problem.empty_limit[node, metric]
    if above <= 0:
        return 0.0
    if problem.inverse_capacity[node, metric] == 0.0:
        return 1.0
    return float(min(1.0, above * problem.inverse_capacity[node, metric]))
