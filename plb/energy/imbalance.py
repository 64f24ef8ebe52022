"""The term imbalance: the deviation of load over nodes, over local domains, and over fault and upgrade domains.

The imbalance I(X) is the weighted mean over metrics of the coefficient of variation of node load,
``d = sqrt(max(0, n·Σx²/(Σx)² − 1))``, 0 where Σx = 0 (docs/terms/imbalance.md).

With local domains and special metrics the deviation is ``A = L·mean(local scores) + (1 − L)·global score``, with L the
weight of the local domains. A service with two or more partitions is a local domain with separate loads and weights. A
defragmented metric contributes ``Fn − Fn·d(nodes) + Ff·d(fault domains) + Fu·d(upgrade domains)`` instead of its
deviation d: it favors uneven nodes and even domains. A metric that reserves nodes contributes a weighted sum of this
value, or of d, over the other nodes and of the lack of empty nodes. Without local domains and such metrics A is I(X).

The lack of empty nodes is their distance from being empty. For each node that a metric reserves, the emptiest remaining
node is selected. With `empty_across_domains` it comes from the fault and upgrade domains with the fewest selected
nodes. With `empty_overlap` the selection compares occupancy summed over all reserving metrics. With p the excess of a
selected node over its empty limit as a share of its capacity, the lack is ``Σ (2 − (1 − p)² − [p = 0])``: 0 if enough
nodes are empty, 2 for each node that does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import kernel
from plb.constraints.description import NamedSolution
from plb.energy.node_sums import load_by_hand
from plb.energy.score import TermDescription
from plb.model.move import Phase, Reason
from plb.state.arrays import Problem, Proposal, Solution
from plb.state.cluster_state import ClusterState

_REWARD = 2.0
"""Reduction of the lack by an empty node; 1 of it only if the node is exactly within its empty limit."""


@kernel
def lack_of_empty_nodes(problem: Problem, solution: Solution, metric: int) -> float:
    """Return the lack of empty nodes for a metric; mark the selected nodes in `solution.picked`; O(N·target_empty)."""
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
    """Return the node to select next as empty for a metric, or NOWHERE; ties go to the first.

    It has the fewest selected nodes in its domains where these count, then the least occupancy.
    """
    best = NOWHERE
    fewest_uses = 0
    least_occupied = 0.0
    for node in range(solution.picked.shape[0]):
        if solution.picked[node] == 1 or not problem.counted_for[node, metric]:
            continue
        uses = 0
        if problem.empty_across_domains[metric]:
            for kind in range(2):
                uses += solution.uses[kind, problem.group[kind, node]]
        occupied = 0.0
        for reserving in range(problem.load.shape[1]):
            if reserving == metric or (problem.empty_overlap and problem.reserving[reserving]):
                occupied += _share_above_limit(problem, solution, reserving, node)
        if best == NOWHERE or uses < fewest_uses or (uses == fewest_uses and occupied < least_occupied):
            best = node
            fewest_uses = uses
            least_occupied = occupied
    return int(best)


@kernel
def _share_above_limit(problem: Problem, solution: Solution, metric: int, node: int) -> float:
    """Return the excess of `metric` on a node over its empty limit, as a share of its capacity, at most 1."""
    above = solution.node_load[node, metric] - problem.empty_limit[node, metric]
    if above <= 0:
        return 0.0
    if problem.inverse_capacity[node, metric] == 0.0:
        return 1.0
    return float(min(1.0, above * problem.inverse_capacity[node, metric]))


UNIT = 2.0**40
"""Local scores are summed as integers in units of 2^-40, so that the sum does not depend on the order of moves."""
PARTS = 2**20
"""Units per capacity of a load that is balanced by percentage."""


@kernel(inline=True)
def after(problem: Problem, solution: Solution, proposal: Proposal) -> float:
    """Return the imbalance after a proposal; only with `Weights.plain_deviation`; O(R)."""
    source, target, node_load, counted = proposal.source, proposal.target, solution.node_load, problem.counted_for
    incoming, outgoing = problem.load[proposal.row], problem.load[proposal.partner]
    # arrays of a record are read again in every round of a loop
    total, squares, weight, nodes = solution.total, solution.squares, problem.metric_weight, problem.nodes_of_metric
    weighted = 0.0
    weights = 0.0
    for metric in range(total.shape[0]):
        change = incoming[metric] - outgoing[metric]
        new_total = total[metric]
        new_squares = squares[metric]
        if counted[target, metric]:
            new_total += change
            new_squares += change * (2 * node_load[target, metric] + change)
        if source != NOWHERE and counted[source, metric]:
            new_total -= change
            new_squares += change * (change - 2 * node_load[source, metric])
        weighted += weight[metric] * _deviation(nodes[metric], new_total, new_squares)
        weights += weight[metric]
    return weighted / weights if weights > 0.0 else 0.0


@kernel(inline=True)
def apply(problem: Problem, solution: Solution) -> None:
    """Compute the imbalance from the sums, after the rows of a proposal have moved."""
    solution.totals.imbalance = load_deviation(problem, solution)


@kernel
def add(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of replica `row` to the load of `node` and to all sums of the imbalance."""
    if not problem.weights.plain_deviation:
        _change_load_deviation(problem, solution, row, node, sign)
        return
    load, node_load, counted = problem.load[row], solution.node_load, problem.counted_for
    total, squares = solution.total, solution.squares
    for metric in range(load.shape[0]):
        change = sign * load[metric]
        if counted[node, metric]:  # changing x to x + c changes Σx² by c·(2x + c)
            total[metric] += change
            squares[metric] += change * (2 * node_load[node, metric] + change)
        node_load[node, metric] += change


@kernel
def from_scratch(problem: Problem, solution: Solution) -> None:
    """Compute all sums of the imbalance, which are 0 before, from the nodes of the rows and the loads of the nodes."""
    sum_nodes(problem, solution)
    if not problem.weights.plain_deviation:
        for local in range(solution.local_score.shape[0]):
            solution.local_score[local] = _local_score(problem, solution, local)
            solution.totals.local_scores += solution.local_score[local]
        for row in range(solution.node.shape[0]):
            if solution.node[row] != NOWHERE and not problem.leaving[row]:
                _change_domains(problem, solution, row, solution.node[row], 1)
    apply(problem, solution)


@kernel
def sum_nodes(problem: Problem, solution: Solution) -> None:
    """Add the loads x of the counted nodes to `Solution.total`, Σx, and `Solution.squares`, Σx²."""
    for node in range(solution.node_load.shape[0]):
        for metric in range(solution.node_load.shape[1]):
            if problem.counted_for[node, metric]:
                x = counted_as(problem, node, metric, solution.node_load[node, metric])
                solution.total[metric] += x
                solution.squares[metric] += x * x


@kernel(inline=True)
def _deviation(nodes: int, total: int, squares: int) -> float:
    """Return the coefficient of variation of a load over `nodes` nodes from Σx = `total` and Σx² = `squares`."""
    if total == 0:
        return 0.0
    mean_square_ratio = float(nodes) * float(squares) / (float(total) * float(total))
    return math.sqrt(max(0.0, mean_square_ratio - 1.0))


@kernel(inline=True)
def imbalance(nodes: Int, total: Int, squares: Int, metric_weight: Float) -> float:
    """Return I(X) for `nodes` n, `total` Σx, `squares` Σx² and `metric_weight`, each (R,); 0 if all weights are."""
    weighted = 0.0
    weights = 0.0
    for metric in range(total.shape[0]):
        weighted += metric_weight[metric] * _deviation(nodes[metric], total[metric], squares[metric])
        weights += metric_weight[metric]
    return weighted / weights if weights > 0.0 else 0.0


@kernel(inline=True)
def counted_as(problem: Problem, node: int, metric: int, load: int) -> int:
    """Return x in Σx and Σx² for a `load` of `metric` on `node`, in quanta.

    By percentage x is floor(load·2^20 / capacity); else it is the load without its last `Problem.coarseness` bits.
    """
    if problem.by_percentage[metric]:
        return int(load * PARTS // problem.capacity[node, metric])
    return int(load >> problem.coarseness[metric])


@kernel
def load_deviation(problem: Problem, solution: Solution) -> float:
    """Return the imbalance of the present sums: A of the module's docstring."""
    if problem.weights.plain_deviation:
        return imbalance(problem.nodes_of_metric, solution.total, solution.squares, problem.metric_weight)
    weighted = 0.0
    weights = 0.0
    for metric in range(solution.total.shape[0]):
        lack = 0.0
        if problem.reserving[metric]:
            lack = lack_of_empty_nodes(problem, solution, metric)
            deviation = _deviation_of_unpicked(problem, solution, metric)
        else:
            deviation = _deviation(problem.nodes_of_metric[metric], solution.total[metric], solution.squares[metric])
        if problem.defragmented[metric]:
            deviation = problem.deviation_factor[0] * (1.0 - deviation)
            for kind in range(2):
                of_domains = _deviation_of_groups(
                    solution.group_load[kind], problem.groups[kind], metric, problem.coarseness[metric]
                )
                deviation += problem.deviation_factor[1 + kind] * of_domains
        if problem.reserving[metric]:
            deviation = problem.other_weight[metric] * deviation + problem.empty_weight[metric] * lack
        weighted += problem.metric_weight[metric] * deviation
        weights += problem.metric_weight[metric]
    global_score = weighted / weights if weights > 0.0 else 0.0
    domains = solution.local_score.shape[0]
    local_score = solution.totals.local_scores / UNIT / domains if domains > 0 else 0.0
    local_share = problem.weights.local_domains
    return float(local_share * local_score + (1.0 - local_share) * global_score)


@kernel
def _deviation_of_unpicked(problem: Problem, solution: Solution, metric: int) -> float:
    """Return the deviation of a metric over the counted nodes that `Solution.picked` does not select to be empty."""
    nodes = problem.nodes_of_metric[metric]
    total = solution.total[metric]
    squares = solution.squares[metric]
    for node in range(solution.picked.shape[0]):
        if solution.picked[node] == 1:
            x = counted_as(problem, node, metric, solution.node_load[node, metric])
            nodes -= 1
            total -= x
            squares -= x * x
    return _deviation(nodes, total, squares)


@kernel
def _deviation_of_groups(load: Int, groups: int, metric: int, coarseness: int) -> float:
    """Return the deviation of a metric over `groups` domains, the first rows of `load`, (G, R) quanta.

    `coarseness`: number of the last bits that are cut from each load.
    """
    total = 0
    squares = 0
    for group in range(groups):
        x = load[group, metric] >> coarseness
        total += x
        squares += x * x
    return _deviation(groups, total, squares)


@kernel
def _change_load_deviation(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of replica `row` to the load of `node` and to all sums of the imbalance."""
    for metric in range(problem.load.shape[1]):
        load = solution.node_load[node, metric]
        solution.node_load[node, metric] = load + sign * problem.load[row, metric]
        if problem.counted_for[node, metric]:
            before = counted_as(problem, node, metric, load)
            growth = counted_as(problem, node, metric, solution.node_load[node, metric]) - before
            solution.total[metric] += growth
            solution.squares[metric] += growth * (2 * before + growth)
    _change_domains(problem, solution, row, node, sign)


@kernel
def _change_domains(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of `row` on `node` to the sums of its local domain and of the node's domains."""
    for metric in range(problem.load.shape[1]):
        change = sign * problem.load[row, metric]
        if problem.counted_for[node, metric] and solution.group_load.shape[1] > 0:
            for kind in range(2):
                solution.group_load[kind, problem.group[kind, node], metric] += change
    local = problem.local_of[problem.service[row]]
    if local != NOWHERE and problem.local_counted[local, node]:
        _change_local(problem, solution, local, row, node, sign)


@kernel
def _change_local(problem: Problem, solution: Solution, local: int, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of `row` on `node` to the sums and the score of its local domain, index `local`."""
    for metric in range(problem.load.shape[1]):
        load = solution.local_load[local, node, metric]
        solution.local_load[local, node, metric] = load + sign * problem.load[row, metric]
        before = counted_as(problem, node, metric, load)
        growth = counted_as(problem, node, metric, solution.local_load[local, node, metric]) - before
        solution.local_total[local, metric] += growth
        solution.local_squares[local, metric] += growth * (2 * before + growth)
    solution.totals.local_scores -= solution.local_score[local]
    solution.local_score[local] = _local_score(problem, solution, local)
    solution.totals.local_scores += solution.local_score[local]


@kernel
def _local_score(problem: Problem, solution: Solution, local: int) -> int:
    """Return the score of the local domain of index `local`, in units of 2^-40."""
    weighted = 0.0
    weights = 0.0
    nodes = problem.local_nodes[local]
    for metric in range(problem.load.shape[1]):
        deviation = _deviation(nodes, solution.local_total[local, metric], solution.local_squares[local, metric])
        if problem.defragmented[metric]:
            deviation = problem.deviation_factor[0] * (1.0 - deviation)
        if problem.reserving[metric]:
            deviation *= problem.other_weight[metric]
        weighted += problem.local_weight[local, metric] * deviation
        weights += problem.local_weight[local, metric]
    return int(weighted / weights * UNIT) if weights > 0.0 else 0


@kernel
def of_node(problem: Problem, solution: Solution, node: int) -> float:
    """Return the part of the imbalance that the load of one node above the mean causes.

    Each metric's deviation is shared among the nodes by the square of their distance from the mean. Packed metrics and
    local domains are left out.
    """
    weighted = 0.0
    weights = 0.0
    for metric in range(solution.total.shape[0]):
        weights += problem.metric_weight[metric]
        nodes, total = problem.nodes_of_metric[metric], solution.total[metric]
        if problem.defragmented[metric] or not problem.counted_for[node, metric] or total == 0:
            continue
        mean = total / nodes
        above = counted_as(problem, node, metric, solution.node_load[node, metric]) - mean
        spread = solution.squares[metric] - mean * total
        if above > 0.0 and spread > 0.0:
            deviation = _deviation(nodes, total, solution.squares[metric])
            weighted += problem.metric_weight[metric] * deviation * above * above / spread
    return weighted / weights if weights > 0.0 else 0.0


def metric_weights(state: ClusterState, services: Sequence[int]) -> Float:
    """Return the weight of every metric in the imbalance of the services of these indices, (R,).

    `Metric.global_weight` comes first; else it is the mean of the weights of the services that have the metric, and 0
    if none has it (docs/terms/imbalance.md). A service without a weight for it has `Metric.weight`.
    """
    table, indices = state.service_table, np.array(services, np.int64)
    weights = np.zeros(len(state.config.metrics))
    for index, metric in enumerate(state.config.metrics):
        weights_of_services = table.metric_weight[indices[table.has_metric[indices, index]], index]
        if len(weights_of_services) or not len(indices):
            mean = (
                np.mean(np.where(np.isnan(weights_of_services), metric.weight, weights_of_services))
                if len(weights_of_services)
                else metric.weight
            )
            weights[index] = mean if metric.global_weight is None else metric.global_weight
    return weights


def _new_sums(problem: Problem) -> dict[str, Any]:
    """Return the arrays of `Solution` that only this term needs, by name, all 0."""
    nodes, metrics = problem.limit.shape
    domains = len(problem.local_nodes)
    groups = int(problem.groups.max())
    reserves = bool(problem.reserving.any())
    return {
        "total": np.zeros(metrics, np.int64),
        "squares": np.zeros(metrics, np.int64),
        "local_load": np.zeros((domains, nodes, metrics), np.int64),
        "local_total": np.zeros((domains, metrics), np.int64),
        "local_squares": np.zeros((domains, metrics), np.int64),
        "local_score": np.zeros(domains, np.int64),
        "group_load": np.zeros((2, groups if problem.defragmented.any() else 0, metrics), np.int64),
        "picked": np.zeros(nodes if reserves else 0, np.int64),
        "uses": np.zeros((2, max(1, groups) if reserves else 0), np.int64),
    }


def _total(problem: Problem, solution: Solution) -> float:
    """Return the imbalance of the loads of the nodes, summed row by row; from `Totals` unless it is the deviation."""
    if not problem.weights.plain_deviation:
        return float(solution.totals.imbalance)
    load, weight = load_by_hand(problem, solution), problem.metric_weight
    weighted = 0.0
    for metric in range(len(weight)):
        loads = load[problem.counted_for[:, metric], metric]
        if loads.sum() > 0:
            weighted += weight[metric] * float(loads.std() / loads.mean())
    return weighted / float(weight.sum()) if weight.sum() > 0 else 0.0


def _reason(named: NamedSolution, after: Solution, phase: Phase) -> Reason:
    """Return as reason the metric whose weighted deviation falls most, or rises most for a packed metric.

    `named`, `after`: the solutions before and after the phase.
    """
    problem = named.problem
    old, new = (_deviations(problem, solution) for solution in (named.solution, after))
    gains = problem.metric_weight * (old - new) * np.where(problem.defragmented, -1, 1)
    best = int(np.argmax(gains))
    if gains[best] <= 0:
        return Reason(phase, "energy", term=DESCRIPTION.name)
    numbers = {"before": float(old[best]), "after": float(new[best])}
    return Reason(phase, "energy", None, named.state.config.metrics[best].name, numbers, term=DESCRIPTION.name)


def _deviations(problem: Problem, solution: Solution) -> Float:
    """Return the deviation of every metric over the counted nodes, (R,)."""
    sums = zip(problem.nodes_of_metric.tolist(), solution.total.tolist(), solution.squares.tolist(), strict=True)
    return np.array([_deviation(nodes, total, squares) for nodes, total, squares in sums])


DESCRIPTION = TermDescription(
    "imbalance",
    after,
    weight=lambda config: config.w_imbalance,
    new_sums=_new_sums,
    total=_total,
    reason=_reason,
)
