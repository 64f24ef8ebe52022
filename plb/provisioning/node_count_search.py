"""The number of nodes with which an algorithm is run: as many as it needs, or the fewest at which it succeeds.

An algorithm that opens nodes one by one only needs enough of them. One for a fixed number of nodes is run again and
again: the search bisects the numbers from the lower bound on, or reduces them by a percentage ([3] section 5.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from plb.errors import NoPlanError
from plb.provisioning.algorithm_names import Algorithm
from plb.provisioning.packing import NO_CAPACITY, STOPPED, Packing
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.solver_context import ReportProgress, SolverContext

FIRST_SPARE = 64
"""Nodes of each kind beyond half as many again as the lower bound, at first."""


def with_enough_nodes(
    context: SolverContext, algorithm: Algorithm, pack: Callable[[Packing], int]
) -> tuple[Packing, int]:
    """Fill packings with increasing numbers of nodes of each kind until all fits; return the last, and its result."""
    nodes = min(context.most_nodes, context.lower_bound + context.lower_bound // 2 + FIRST_SPARE)
    while True:
        packing = context.packing(nodes)
        outcome = pack(packing)
        if outcome != NO_CAPACITY:
            return packing, outcome
        if nodes == context.most_nodes:
            raise NoPlanError(context.instance.name, algorithm.name, nodes)
        nodes = min(context.most_nodes, 2 * nodes)


def fewest_nodes(
    context: SolverContext,
    algorithm: Algorithm,
    best: ProvisioningPlan,
    pack: Callable[[Packing], int],
    report: ReportProgress,
) -> ProvisioningPlan:
    """Return the plan with the smallest number of nodes at which an algorithm succeeds ([3] section 5.1).

    Parameters
    ----------
    best
        The plan of First Fit, which gives a sufficient number; if the algorithm fails with it, the result.
    pack
        Runs the algorithm on the nodes of a packing; returns how many replicas are left over, or `STOPPED`.
    """
    most = context.reach(best)

    def succeeds(nodes: int) -> bool:
        """Return whether a number of nodes suffices; if so, its plan becomes the best."""
        nonlocal best
        packing = context.packing_of_first(nodes)
        with context.watched():
            missing = pack(packing)
        if missing == STOPPED:
            return False
        report(f"{algorithm.name}: {nodes:,} nodes {'suffice' if missing == 0 else f'leave {missing:,} replicas over'}")
        if missing == 0:
            best = context.plan(packing, algorithm.name)
        return missing == 0

    if most == 0 or not succeeds(most):  # 0: First Fit passes by the first kind, of which there is no end
        return best
    if algorithm.decrement_percent is None:
        _bisect(context, succeeds, most)
    else:
        step = max(1, math.ceil(context.lower_bound * algorithm.decrement_percent / 100.0))
        while most - step >= context.lower_bound and not context.time_is_over and succeeds(most - step):
            most -= step
    return best


def _bisect(context: SolverContext, succeeds: Callable[[int], bool], most: int) -> None:
    """Bisect the numbers of nodes between the lower bound and one that suffices."""
    low = context.lower_bound
    while low < most and not context.time_is_over:
        nodes = (low + most) // 2
        if succeeds(nodes):
            most = nodes
        else:
            low = nodes + 1
