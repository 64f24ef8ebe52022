"""Limits of nodes in quanta: the capacity limit, the violation threshold, and what moves leave free."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.model import Metric
from plb.model.quanta import UNLIMITED
from plb.settings.config import CapacityLimit
from plb.state.cluster_state import ClusterState

LARGEST_THRESHOLD = 2**31 - 1
"""Thresholds of per-repetition aggregates are 32-bit; this one is never reached."""


def total_capacity(metric: Metric, capacity: int) -> int:
    """Return the total capacity of a node in quanta: floor((1 + o)·c) with over-booking o, or `UNLIMITED`."""
    share = metric.node_overbooking_percentage
    if capacity >= UNLIMITED or share is None:
        return UNLIMITED
    return min(UNLIMITED, math.floor((1 + Fraction(str(share))) * capacity))


def limits_and_thresholds(state: ClusterState) -> tuple[Int, Int32]:
    """Return limit and threshold of every node, both (N, R) in quanta."""
    limit = np.full_like(state.capacity, UNLIMITED)
    threshold = np.full(state.capacity.shape, LARGEST_THRESHOLD, np.int32)
    inclusive = state.config.capacity_limit is CapacityLimit.CAPACITY
    for metric, description in enumerate(state.config.metrics):
        for capacity in np.unique(state.capacity[:, metric]):
            total = total_capacity(description, int(capacity))
            if total >= UNLIMITED:
                continue
            nodes = state.capacity[:, metric] == capacity
            reached = state.quanta.threshold(description, total)
            threshold[nodes, metric] = min(reached, LARGEST_THRESHOLD)
            limit[nodes, metric] = total if inclusive else reached - 1
    return limit, threshold


def buffered_limits(state: ClusterState, limit: Int) -> Int:
    """Return the limit of replicas that move, (N, R) in quanta: at most floor((1 - b)·c) with a buffer b.

    With over-booking that is at most the capacity c.
    """
    left = limit.copy()
    for metric, description in enumerate(state.config.metrics):
        share = 1 - Fraction(str(description.node_buffer_percentage))
        for capacity in np.unique(state.capacity[:, metric]) if description.keeps_capacity_free else ():
            if capacity < UNLIMITED:
                nodes = state.capacity[:, metric] == capacity
                left[nodes, metric] = np.minimum(limit[nodes, metric], math.floor(share * int(capacity)))
    return left


def inverse_of_capacity(capacity: Int) -> Float:
    """Return 1/capacity, (N, R) in 1/quanta; 0 where the capacity is unlimited or 0."""
    inverse = np.zeros(capacity.shape)
    real = (capacity > 0) & (capacity < UNLIMITED)
    inverse[real] = 1.0 / capacity[real]
    return inverse


def move_limits(limit: Int, buffered: Int, load: Int) -> Int:
    """Return `Problem.move_limit`, (N, R) in quanta: a node above its buffered limit may keep its load."""
    return np.minimum(limit, np.maximum(buffered, load))
