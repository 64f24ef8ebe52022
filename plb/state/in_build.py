"""Limits on replicas in build, by node and phase (docs/constraints/throttling.md)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plb.array_types import Int
from plb.model.move import Phase
from plb.settings.config import PlbConfig
from plb.state.cluster_state import ClusterState

NODE_TYPE = "NodeType"
"""The node property that the limits go by."""
NO_LIMIT = 2**31
"""Stands for any number of replicas."""


def is_any_build_limited(config: PlbConfig) -> bool:
    """Return whether some phase keeps to a limit on replicas in build."""
    return config.throttling_constraint_priority >= 0 and any(_limits(config, phase) for phase in Phase)


def most_in_build(state: ClusterState, phase: Phase) -> Int:
    """Return `Problem.most_in_build`, (N,): the smaller of the general limit and that of the phase."""
    limits = _limits(state.config, phase)
    return np.array([limits.get(node.properties.get(NODE_TYPE, ""), NO_LIMIT) for node in state.nodes], np.int64)


def replicas_in_build(state: ClusterState) -> Int:
    """Return `Problem.in_build`, (N,)."""
    table = state.rows
    return np.bincount(table.node[table.building & (table.node >= 0)], minlength=len(state.nodes)).astype(np.int64)


def _limits(config: PlbConfig, phase: Phase) -> Mapping[str, int]:
    """Return the limit of a phase by node type; none where the phase is not throttled. 0 means no limit."""
    throttled, of_phase = {
        Phase.PLACEMENT: (
            config.throttle_placement_phase,
            config.maximum_in_build_replicas_per_node_placement_throttle,
        ),
        Phase.REPAIR: (
            config.throttle_constraint_check_phase,
            config.maximum_in_build_replicas_per_node_constraint_check_throttle,
        ),
        Phase.BALANCING: (
            config.throttle_balancing_phase,
            config.maximum_in_build_replicas_per_node_balancing_throttle,
        ),
    }[phase]
    if not throttled:
        return {}
    both = (*config.maximum_in_build_replicas_per_node.items(), *of_phase.items())
    found: dict[str, int] = {}
    for kind, most in both:
        if most > 0:
            found[kind] = min(most, found.get(kind, most))
    return found
