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
