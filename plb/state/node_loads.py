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


def reserved_load(state: ClusterState) -> Int:
    """Return what every node keeps free for applications beyond their loads in quanta, (N, R)."""
    table, applications = state.rows, state.applications
    kept = np.zeros_like(state.capacity)
    if not applications.reserves:
        return kept
    rows = np.flatnonzero(table.used & (table.node != NOWHERE) & ~table.leaving)
    application = state.service_table.application[table.service[rows]]
    rows, application = rows[application != NOWHERE], application[application != NOWHERE]
    places, place = np.unique(np.stack([application, table.node[rows]], axis=1), axis=0, return_inverse=True)
    load = np.zeros((len(places), kept.shape[1]), np.int64)
    np.add.at(load, place.reshape(-1), table.load[rows])
    np.add.at(kept, places[:, 1], np.maximum(0, applications.reservation[places[:, 0]] - load))
    return kept
