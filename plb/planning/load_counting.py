"""How loads of nodes are counted in Σx and Σx²: in quanta, in parts of the capacity, or more coarsely.

Capacities and loads of nodes stay in quanta, so feasibility is never rounded.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Int
from plb.energy.imbalance import PARTS
from plb.errors import InvalidValueError
from plb.model.quanta import UNLIMITED
from plb.state.cluster_state import ClusterState
from plb.state.node_loads import standing_load
from plb.state.topology import Topology

LARGEST_SQUARES = 2**63
"""Upper bound of n·x² of the fullest node."""


def counting(
    state: ClusterState, topology: Topology, everything: Int, node_load: Int | None = None
) -> tuple[Bool, Int]:
    """Return `Problem.by_percentage` and `Problem.coarseness`, (R,) each.

    A metric is balanced by percentage only where every node has a capacity for it, above 0. Where n·x² would leave 64
    bits, x loses as few binary digits as necessary; Σx and Σx² remain whole numbers.

    Parameters
    ----------
    everything
        (R,) load of all replicas in quanta.
    node_load
        (N, R) load of every node in quanta, without departing replicas; None: it is summed up.

    Raises
    ------
    InvalidValueError
        The load of a node is so large a multiple of its capacity that its percentage cannot be squared.
    """
    by_percentage = np.array([metric.balancing_by_percentage for metric in state.config.metrics], np.bool_)
    by_percentage &= ((state.capacity > 0) & (state.capacity < UNLIMITED)).all(axis=0)
    coarseness = np.zeros(len(by_percentage), np.int64)
    nodes = len(state.capacity)
    if not by_percentage.any() and nodes * float(everything.sum()) ** 2 < LARGEST_SQUARES / 2:
        return by_percentage, coarseness  # all loads of all metrics on one node would still fit
    highest = _highest_loads(topology, everything, standing_load(state) if node_load is None else node_load)
    for metric in np.flatnonzero(~by_percentage):
        while nodes * (int(highest[metric]) >> int(coarseness[metric])) ** 2 >= LARGEST_SQUARES:
            coarseness[metric] += 1
    for metric in np.flatnonzero(by_percentage):
        _check_percentage(state, int(metric), nodes, int(highest[metric]))
    return by_percentage, coarseness


def _highest_loads(topology: Topology, everything: Int, node_load: Int) -> Int:
    """Return the largest load in quanta that a node may have of each metric, (R,)."""
    bounded = np.where(topology.limit < UNLIMITED, topology.limit, everything)
    highest: Int = np.maximum(node_load.max(axis=0, initial=0), bounded.max(axis=0, initial=0))
    highest = np.minimum(highest, everything)
    return highest


def _check_percentage(state: ClusterState, metric: int, nodes: int, highest: int) -> None:
    """Refuse a percentage that could not be squared, were the fullest load on the smallest node."""
    smallest = int(state.capacity[:, metric].min())
    parts = highest * PARTS // smallest
    if highest * PARTS >= 2**63 or nodes * parts**2 >= LARGEST_SQUARES:
        raise InvalidValueError(
            f"metric {state.config.metrics[metric].name}",
            "load of a node over the least capacity",
            highest / smallest,
            "n·(load·2^20/capacity)² < 2^63: without balancing_by_percentage",
        )
