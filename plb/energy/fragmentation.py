"""The term fragmentation, F(X): the load on held-out nodes (docs/terms/fragmentation.md).

``F = Σ over held-out nodes of the mean over metrics of load/capacity``. It is recomputed from integers whenever a
held-out node changes, so that no rounding errors accumulate.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.energy.node_sums import load_by_hand
from plb.energy.score import TermDescription
from plb.state.arrays import Problem, Proposal, Solution
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology


@kernel(inline=True)
def after(problem: Problem, solution: Solution, proposal: Proposal) -> float:
    """Return the fragmentation after a proposal; the present value if the proposal changes no held-out node."""
    held_out = problem.held_out
    if not (_is_held_out(held_out, proposal.target) or _is_held_out(held_out, proposal.source)):
        return float(solution.totals.fragmentation)
    return _fragmentation_after(problem, solution, proposal)


@kernel
def apply(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Update the fragmentation for a proposal whose rows have yet to move."""
    solution.totals.fragmentation = after(problem, solution, proposal)


@kernel
def from_scratch(problem: Problem, solution: Solution) -> None:
    """Compute the fragmentation from the loads of the nodes."""
    no_move = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    solution.totals.fragmentation = _fragmentation_after(problem, solution, no_move)


@kernel(inline=True)
def _is_held_out(held_out: Int, node: int) -> bool:
    """Return whether `node` is one of the nodes `held_out`, (h,)."""
    for held_out_node in held_out:  # noqa: SIM110 (compiled; a generator would not be)
        if held_out_node == node:
            return True
    return False


@kernel(inline=True)
def _fragmentation_after(problem: Problem, solution: Solution, proposal: Proposal) -> float:
    """Return F(X), the load of held-out nodes as a share, summed over the nodes, after a proposal; O(R) per node."""
    incoming, outgoing = problem.load[proposal.row], problem.load[proposal.partner]
    metrics = solution.node_load.shape[1]
    fragmentation = 0.0
    for node in problem.held_out:
        share = 0.0
        for metric in range(metrics):
            load = solution.node_load[node, metric]
            if node == proposal.target:
                load += incoming[metric] - outgoing[metric]
            if node == proposal.source:
                load -= incoming[metric] - outgoing[metric]
            share += float(load) * problem.inverse_capacity[node, metric]
        fragmentation += share / metrics
    return fragmentation


def held_out_nodes(state: ClusterState, topology: Topology, load: Int) -> Int:
    """Return the indices of `config.held_out_nodes` receiving nodes with the least load, ascending.

    The load of a node is the largest load/capacity of a metric, W_Max in [1] equation (4). `load`: (N, R) quanta
    without departing replicas.
    """
    if not state.config.held_out_nodes:
        return np.zeros(0, np.int64)
    fullest = (load * topology.inverse_capacity).max(axis=1)
    order = np.argsort(fullest[topology.targets], kind="stable")
    return np.sort(topology.targets[order[: state.config.held_out_nodes]])


def _total(problem: Problem, solution: Solution) -> float:
    """Return F from the loads of the held-out nodes, summed row by row."""
    share = load_by_hand(problem, solution)[problem.held_out] * problem.inverse_capacity[problem.held_out]
    return float(share.mean(axis=1).sum())


DESCRIPTION = TermDescription("fragmentation", after, weight=lambda config: config.w_fragmentation, total=_total)
