"""Throttling: a limit on the replicas in build on a node at a time (docs/constraints/budgets.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.description import RuleDescription
from plb.model.move import Phase
from plb.model.role import INSTANCE, PRIMARY
from plb.model.rules import Rule, RuleMask
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology

RULE = int(Rule.THROTTLING)
NODE_TYPE = "NodeType"
"""The node property by whose value the limits are set."""
NO_LIMIT = 2**31
"""A limit that is never reached."""


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether `target` has no free build slot for replica `row`; a return to the origin is never throttled."""
    if not problem.throttles or not enforced >> RULE & 1 or problem.origin[row] == target:
        return False
    if is_exempt(problem, row):
        return False
    return bool(problem.in_build[target] + solution.arrivals[target] >= problem.most_in_build[target])


@kernel
def is_exempt(problem: Problem, row: int) -> bool:
    """Return whether no limit applies to `row`: a child, an instance, or a primary whose partition has no replica yet.

    Standbys do not count.
    """
    if problem.role[row] == INSTANCE or problem.parent_row[row] != NOWHERE:
        return True
    if problem.role[row] != PRIMARY or problem.origin[row] != NOWHERE:
        return False
    sibling = problem.sibling[row]
    while sibling != row:
        if problem.origin[sibling] != NOWHERE and not problem.standby[sibling]:
            return False
        sibling = problem.sibling[sibling]
    return True


@kernel
def arrive(problem: Problem, solution: Solution, row: int, sign: int) -> None:
    """Add `sign` to the arrivals of the node of replica `row` if this plan builds `row` there.

    A replica that swaps roles with a sibling is already built; one that takes the node of a moving sibling is not.
    """
    node = solution.node[row]
    if node == NOWHERE or node == problem.origin[row]:
        return
    sibling = problem.sibling[row]
    while sibling != row:
        crossed = problem.origin[sibling] == node and solution.node[sibling] == problem.origin[row]
        if crossed and problem.origin[row] != NOWHERE and not problem.unspread[sibling]:
            return
        sibling = problem.sibling[sibling]
    solution.arrivals[node] += sign


def most_in_build(state: ClusterState, phase: Phase) -> Int:
    """Return `Problem.most_in_build` in a phase, (N,): the smaller of the general limit and the limit of the phase."""
    limits = _limits(state.config, phase)
    if not limits:
        return np.full(len(state.nodes), NO_LIMIT)
    return np.array([limits.get(node.properties.get(NODE_TYPE, ""), NO_LIMIT) for node in state.nodes], np.int64)


def _fields(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the fields of `Problem` that only this rule needs, by name."""
    table, config = state.rows, state.config
    building = table.node[table.building & (table.node != NOWHERE)]
    return {
        "throttles": config.throttling_constraint_priority >= 0 and any(_limits(config, phase) for phase in Phase),
        "in_build": np.bincount(building, minlength=len(state.nodes)).astype(np.int64),
        "most_in_build": most_in_build(state, Phase.PLACEMENT),
    }


def _limits(config: PlbConfig, phase: Phase) -> Mapping[str, int]:
    """Return the limits of a phase by node type; none if the phase is not throttled, or for a setting of 0."""
    is_throttled, phase_limits = {
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
    if not is_throttled:
        return {}
    limits: dict[str, int] = {}
    for node_type, most in (*config.maximum_in_build_replicas_per_node.items(), *phase_limits.items()):
        if most > 0:
            limits[node_type] = min(most, limits.get(node_type, most))
    return limits


DESCRIPTION = RuleDescription(
    Rule.THROTTLING,
    words="the limit of replicas in build is reached",
    priority=lambda config: config.throttling_constraint_priority,
    concerns=lambda problem, _row: problem.throttles,
    fields=_fields,
)
