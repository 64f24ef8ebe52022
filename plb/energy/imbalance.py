"""Imbalance I(X): the weighted mean over metrics of the coefficient of variation of node load.

``d = sqrt(max(0, n·Σx²/(Σx)² − 1))``, 0 where Σx = 0 (docs/terms/imbalance.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import kernel
from plb.state.cluster_state import ClusterState


@kernel(inline=True)
def deviation(nodes: int, total: int, squares: int) -> float:
    """Return the coefficient of variation of a load over `nodes` nodes from Σx = `total` and Σx² = `squares`."""
    if total == 0:
        return 0.0
    mean_square_ratio = float(nodes) * float(squares) / (float(total) * float(total))
    return math.sqrt(max(0.0, mean_square_ratio - 1.0))


@kernel(inline=True)
def imbalance(nodes: Int, total: Int, squares: Int, metric_weight: Float) -> float:
    """Return I(X) for these sums.

    Parameters
    ----------
    nodes
        (R,) number of counted nodes of each metric.
    total, squares
        (R,) Σx and Σx² over the counted nodes.
    metric_weight
        (R,); all zero gives 0.
    """
    weighted = 0.0
    weights = 0.0
    for metric in range(total.shape[0]):
        weighted += metric_weight[metric] * deviation(nodes[metric], total[metric], squares[metric])
        weights += metric_weight[metric]
    return weighted / weights if weights > 0.0 else 0.0


@kernel(inline=True)
def imbalance_after(
    nodes: Int,
    total: Int,
    squares: Int,
    metric_weight: Float,
    node_load: Int,
    counted: Bool,
    incoming: Int,
    outgoing: Int,
    source: int,
    target: int,
) -> float:
    """Return I(X) after `target` gains `incoming` − `outgoing` and `source` loses as much; O(R).

    Parameters
    ----------
    nodes, total, squares, metric_weight
        As in `imbalance`.
    node_load, counted
        (N, R) quanta, and whether the node is counted for the metric.
    incoming, outgoing
        (R,) quanta.
    source
        A node, or NOWHERE for an unplaced replica.
    """
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
        weighted += metric_weight[metric] * deviation(nodes[metric], new_total, new_squares)
        weights += metric_weight[metric]
    return weighted / weights if weights > 0.0 else 0.0


def metric_weights(state: ClusterState, services: Iterable[int]) -> Float:
    """Return the weight of every metric in the imbalance, (R,).

    The weight of the metric comes first; else it is the mean of the weights of the services, and 0 if none
    has it (docs/terms/imbalance.md). Services without weights have all metrics at 1.
    """
    given = [state.services[service].metrics for service in services]
    weights = np.zeros(len(state.config.metrics))
    for index, metric in enumerate(state.config.metrics):
        found = [metric.weight if of is None else of[metric.name] for of in given if of is None or metric.name in of]
        if found or not given:
            mean = float(np.mean(found or [metric.weight]))
            weights[index] = mean if metric.global_weight is None else metric.global_weight
    return weights
