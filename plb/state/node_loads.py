"""Loads of nodes, summed up over the replica table."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.state.cluster_state import ClusterState


def standing_load(state: ClusterState) -> Int:
    """Return the load of every node in quanta, (N, R), without departing replicas."""
    table = state.rows
    return load_by_node(state, (table.node != NOWHERE) & ~table.leaving)


def load_by_node(state: ClusterState, counted: Bool) -> Int:
    """Return the load in quanta of those rows on each node that are `counted`, (M,); shape (N, R)."""
    rows = np.flatnonzero(counted)
    load = np.zeros(state.capacity.shape[::-1], np.int64)
    if len(rows):
        nodes, loads = state.rows.node[rows], state.rows.load[rows]
        for metric, of_metric in enumerate(load):  # metric by metric, as NumPy is ten times faster in one dimension
            np.add.at(of_metric, nodes, loads[:, metric])
    return np.ascontiguousarray(load.T)
