"""Feasible nodes: those on which the placement constraint and the blocklist of a service allow replicas."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plb.array_types import Bool
from plb.model import Node
from plb.state.cluster_state import ClusterState, FeasibilityClass


def feasible_nodes(state: ClusterState, *, primary: bool) -> Bool:
    """Return the feasible nodes of each feasibility class, (X, N): not blocked, and with a true expression."""
    properties = [node.placement_properties for node in state.nodes]

    def feasible(feasibility_class: FeasibilityClass, node: Node, has: Mapping[str, str]) -> bool:
        return node.name not in feasibility_class.blocked and feasibility_class.expression.holds(has, primary=primary)

    found = [
        [feasible(feasibility_class, node, has) for node, has in zip(state.nodes, properties, strict=True)]
        for feasibility_class in state.feasibility_classes
    ]
    return np.array(found, np.bool_).reshape(len(state.feasibility_classes), len(state.nodes))


def blocked_nodes(state: ClusterState) -> Bool | None:
    """Return `Topology.blocked`, (X, N+1); None if no node is blocked."""
    classes = state.feasibility_classes
    if not any(feasibility_class.blocked for feasibility_class in classes):
        return None
    blocked = [[node.name in feasibility_class.blocked for node in state.nodes] for feasibility_class in classes]
    return np.array([[*of_class, False] for of_class in blocked], np.bool_)
