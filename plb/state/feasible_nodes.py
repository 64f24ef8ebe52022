"""Feasible nodes: those on which the placement constraint and the blocklist of a service allow replicas."""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool
from plb.state.cluster_state import ClusterState


def feasible_nodes(state: ClusterState, *, primary: bool) -> Bool:
    """Return the feasible nodes of each feasibility class, (X, N): not blocked, and with a true expression."""
    compares = any(of.expression.properties for of in state.feasibility_classes)
    properties = [node.placement_properties for node in state.nodes] if compares else []
    found = np.empty((len(state.feasibility_classes), len(state.nodes)), np.bool_)
    for of_class, feasibility_class in zip(found, state.feasibility_classes, strict=True):
        expression, blocked = feasibility_class.expression, feasibility_class.blocked
        if expression.properties:
            of_class[:] = [expression.holds(has, primary=primary) for has in properties]
        else:
            of_class[:] = expression.holds({}, primary=primary)
        of_class[[state.node_index[name] for name in blocked if name in state.node_index]] = False
    return found


def blocked_nodes(state: ClusterState) -> Bool | None:
    """Return `Topology.blocked`, (X, N+1); None if no node is blocked."""
    classes = state.feasibility_classes
    if not any(feasibility_class.blocked for feasibility_class in classes):
        return None
    blocked = [[node.name in feasibility_class.blocked for node in state.nodes] for feasibility_class in classes]
    return np.array([[*of_class, False] for of_class in blocked], np.bool_)
