"""Biased sampling: only moves that may balance an unbalanced metric are proposed (docs/service-fabric.md, Proposals).

A replica is worth moving if it takes load of an unbalanced metric, over all services or in its local domain, off a node
above the mean of the metric. A node is worth reaching if it is below the mean of such a metric. Load of a metric that
is packed or reserves nodes is worth moving from and to any node: nodes that should become empty may be above the mean.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform
from plb.energy.imbalance import counted_as
from plb.model.role import PRIMARY
from plb.state.arrays import Problem, Solution

BIASED_SAMPLES = 16
"""Largest number of samples of a replica or a node."""


@kernel
def replica_worth_moving(problem: Problem, solution: Solution, movable: Int, row: int, rng: Stream) -> int:
    """Return the first of `row` and random rows of `movable` that is worth moving, or NOWHERE if none was found."""
    for _ in range(BIASED_SAMPLES):
        if _is_worth(problem, solution, row, solution.node[row], 1):
            return row
        row = movable[int(uniform(rng) * movable.shape[0])]
    return NOWHERE


@kernel
def node_worth_reaching(problem: Problem, solution: Solution, row: int, rng: Stream) -> int:
    """Return a random target that is worth reaching for `row`, or the node of `row` if none was found."""
    targets = problem.targets
    for _ in range(BIASED_SAMPLES):
        target = targets[int(uniform(rng) * targets.shape[0])]
        if _is_worth(problem, solution, row, target, -1):
            return int(target)
    return int(solution.node[row])


@kernel
def is_worth_swapping(problem: Problem, solution: Solution, row: int, partner: int) -> bool:
    """Return whether a role swap moves load of an unbalanced metric off a node above the mean, or to one below it.

    Only the node of the primary is checked.
    """
    primary = row if problem.role[row] == PRIMARY else partner
    secondary = partner if primary == row else row
    node = solution.node[primary]
    for metric in range(problem.load.shape[1]):
        leaving = problem.load[primary, metric] - problem.load[secondary, metric]
        if _may_balance(problem, solution, row, metric, node, leaving):
            return True
    return False


@kernel
def _is_worth(problem: Problem, solution: Solution, row: int, node: int, side: int) -> bool:
    """Return whether `row` may balance a metric by leaving `node` (`side` 1) or by moving there (-1)."""
    for metric in range(problem.load.shape[1]):
        if _may_balance(problem, solution, row, metric, node, side * problem.load[row, metric]):
            return True
    return False


@kernel
def _may_balance(problem: Problem, solution: Solution, row: int, metric: int, node: int, leaving: int) -> bool:
    """Return whether load that leaves `node` (below 0: arrives there) may balance a metric for `row`."""
    if leaving == 0:
        return False
    if _packs_any(problem, metric):
        return True
    if problem.uneven[0, metric] and leaving * _above_mean(problem, solution, metric, node) > 0:
        return True
    local = problem.local_of[problem.service[row]]
    within = local != NOWHERE and problem.uneven[1 + local, metric]
    return bool(within and leaving * _above_local_mean(problem, solution, local, metric, node) > 0)


@kernel
def _packs_any(problem: Problem, metric: int) -> bool:
    """Return whether the metric is unbalanced and is packed or reserves nodes."""
    return bool(problem.uneven[0, metric] and (problem.defragmented[metric] or problem.reserving[metric]))


@kernel
def _above_mean(problem: Problem, solution: Solution, metric: int, node: int) -> int:
    """Return 1, 0 or -1: whether the load of `node` is above, at or below the mean of the counted nodes."""
    load = counted_as(problem, node, metric, solution.node_load[node, metric])
    return _sign(load * problem.nodes_of_metric[metric] - solution.total[metric])


@kernel
def _above_local_mean(problem: Problem, solution: Solution, local: int, metric: int, node: int) -> int:
    """Return 1, 0 or -1, as `_above_mean`, for the load of a local domain."""
    load = counted_as(problem, node, metric, solution.local_load[local, node, metric])
    return _sign(load * problem.local_nodes[local] - solution.local_total[local, metric])


@kernel
def _sign(value: int) -> int:
    return 1 if value > 0 else (-1 if value < 0 else 0)
