"""Tables that follow from the nodes alone: limits, thresholds, domains and the feasible nodes of each service.

They are computed again only if a node, a feasibility class or a quantum changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.model import DeactivationIntent, DeactivationStatus, Node
from plb.model.move import Phase
from plb.model.resolution import UNLIMITED
from plb.model.rules import Rule
from plb.settings.config import CapacityLimit
from plb.state.cluster import ClusterState, FeasibilityClass
from plb.state.in_build import is_any_build_limited, most_in_build

LARGEST_THRESHOLD = 2**31 - 1
"""Thresholds of per-repetition aggregates are 32-bit; this one is never reached."""


@attrs.frozen(eq=False)
class Topology:
    """Arrays of the nodes; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    limit: Int
    move_limit: Int
    buffered: bool
    threshold: Int32
    inverse_capacity: Float
    counted: Bool
    watched: Bool
    receives: Bool
    targets: Int
    domain: Int32
    parent: Int32
    siblings: Int32
    domain_rule: Int
    feasibility_classes: Bool
    upgraded: Bool
    throttles: bool
    most_in_build: Int


def topology_version(state: ClusterState) -> tuple[object, ...]:
    """Return what a topology depends on; equal versions mean equal topologies."""
    return (state.node_version, len(state.feasibility_classes), state.config, state.quanta.quanta.tobytes())


def build_topology(state: ClusterState) -> Topology:
    """Return the topology of the present nodes."""
    receives = receiving_nodes(state.nodes)
    counted = receives[0].copy()
    limit, threshold = _limits(state)
    feasibility_classes = feasible_nodes(state, primary=False)
    domain, parent, siblings, rule = domain_levels(state, receives[1] & feasibility_classes)
    if any(feasibility_class.expression.binds_primary_only for feasibility_class in state.feasibility_classes):
        feasibility_classes = np.concatenate([feasibility_classes, feasible_nodes(state, primary=True)])
        siblings = np.concatenate([siblings, siblings])
    return Topology(
        version=topology_version(state),
        limit=limit,
        move_limit=_without_buffer(state, limit),
        buffered=any(metric.node_buffer_percentage > 0.0 for metric in state.config.metrics),
        threshold=threshold,
        inverse_capacity=_inverse(state.capacity),
        counted=counted,
        watched=counted | evacuating_nodes(state.nodes),
        receives=receives,
        targets=np.flatnonzero(receives.any(axis=0)),
        domain=domain,
        parent=parent,
        siblings=siblings,
        domain_rule=rule,
        feasibility_classes=feasibility_classes,
        upgraded=_upgraded_nodes(state),
        throttles=is_any_build_limited(state.config),
        most_in_build=most_in_build(state, Phase.PLACEMENT),
    )


def _upgraded_nodes(state: ClusterState) -> Bool:
    """Return `Problem.upgraded`, (N,)."""
    done = state.upgraded_domains if state.config.prefer_upgraded_uds else frozenset()
    return np.array([node.upgrade_domain_name in done for node in state.nodes], np.bool_)


def receiving_nodes(nodes: Sequence[Node]) -> Bool:
    """Return `Problem.receives`: which nodes take an existing replica, a new one, a new one that is on every node.

    A node that is paused or restarts takes new replicas until its safety check is complete, then only those of
    stateless services on every node, and existing ones never; one that is removed takes nothing.
    """
    receives = np.zeros((3, len(nodes)), np.bool_)
    for index, node in enumerate(nodes):
        active = node.deactivation_intent is DeactivationIntent.NONE
        comes_back = node.deactivation_intent in (DeactivationIntent.PAUSE, DeactivationIntent.RESTART)
        checking = comes_back and node.deactivation_status is DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
        checked = comes_back and node.deactivation_status is DeactivationStatus.SAFETY_CHECK_COMPLETE
        receives[:, index] = active, active or checking, active or checking or checked
        receives[:, index] &= node.up
    return receives


def _limits(state: ClusterState) -> tuple[Int, Int32]:
    """Return limit and threshold of every node, both (N, R) in quanta."""
    limit = np.full_like(state.capacity, UNLIMITED)
    threshold = np.full(state.capacity.shape, LARGEST_THRESHOLD, np.int32)
    for metric, description in enumerate(state.config.metrics):
        for capacity in np.unique(state.capacity[:, metric]):
            if capacity >= UNLIMITED:
                continue
            nodes = state.capacity[:, metric] == capacity
            reached = state.quanta.threshold(description, int(capacity))
            threshold[nodes, metric] = min(reached, LARGEST_THRESHOLD)
            inclusive = state.config.capacity_limit is CapacityLimit.CAPACITY
            limit[nodes, metric] = capacity if inclusive else reached - 1
    return limit, threshold


def _without_buffer(state: ClusterState, limit: Int) -> Int:
    """Return the limit of replicas that move, (N, R) in quanta: at most floor((1 - b)·c) with a buffer b."""
    left = limit.copy()
    for metric, description in enumerate(state.config.metrics):
        share = 1 - Fraction(str(description.node_buffer_percentage))
        for capacity in np.unique(state.capacity[:, metric]) if share < 1 else ():
            if capacity < UNLIMITED:
                nodes = state.capacity[:, metric] == capacity
                left[nodes, metric] = np.minimum(limit[nodes, metric], math.floor(share * int(capacity)))
    return left


def _inverse(capacity: Int) -> Float:
    inverse = np.zeros(capacity.shape)
    real = (capacity > 0) & (capacity < UNLIMITED)
    inverse[real] = 1.0 / capacity[real]
    return inverse


def evacuating_nodes(nodes: Sequence[Node]) -> Bool:
    """Return from which deactivated nodes a repair may move replicas: they restart or go, and are being checked."""
    goes = (DeactivationIntent.RESTART, DeactivationIntent.REMOVE_DATA, DeactivationIntent.REMOVE_NODE)
    checking = DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
    found = [node.up and node.deactivation_intent in goes and node.deactivation_status is checking for node in nodes]
    return np.array(found, np.bool_)


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


def domain_paths(state: ClusterState) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return fault and upgrade domain of every node as paths; if these are off, each node has its own."""
    config = state.config
    fault = [node.fault_domain_path if config.fault_domain_enabled else (node.name,) for node in state.nodes]
    upgrade: list[tuple[str, ...]] = [
        (node.upgrade_domain_name if config.upgrade_domain_enabled else node.name,) for node in state.nodes
    ]
    return fault, upgrade


def domain_levels(state: ClusterState, usable_nodes: Bool) -> tuple[Int32, Int32, Int32, Int]:
    """Return domain and parent, (N, D), usable siblings for each class, (X, N, D), and the rule of each level, (D,).

    A tree in which every node has its own top-level domain constrains nothing and is omitted.
    """
    levels: list[tuple[list[tuple[str, ...]], Rule]] = []
    paths, upgrade = domain_paths(state)
    if state.config.fault_domain_constraint_priority >= 0 and len({path[0] for path in paths}) < len(paths):
        deepest = max(len(path) for path in paths)
        levels += [([path[:depth] for path in paths], Rule.FAULT_DOMAIN) for depth in range(1, deepest + 1)]
    if state.config.upgrade_domain_constraint_priority >= 0 and len(set(upgrade)) < len(upgrade):
        levels.append((upgrade, Rule.UPGRADE_DOMAIN))
    domain = np.zeros((len(paths), len(levels)), np.int32)
    parent = np.zeros_like(domain)
    siblings = np.zeros((len(usable_nodes), *domain.shape), np.int32)
    for level, (names, _) in enumerate(levels):
        above = [name[:-1] if len(name) > level else name for name in names]
        if levels[level][1] is Rule.UPGRADE_DOMAIN:
            above = [()] * len(names)
        domain[:, level] = _codes(names)
        parent[:, level] = _codes(above)
        for group in np.unique(parent[:, level]):
            inside = parent[:, level] == group
            for feasibility_class, nodes in enumerate(usable_nodes):
                usable = np.unique(domain[inside & nodes, level])
                siblings[feasibility_class, inside & np.isin(domain[:, level], usable), level] = len(usable)
    return domain, parent, siblings, np.array([rule for _, rule in levels], np.int64)


def _codes(names: list[tuple[str, ...]]) -> Int:
    index = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([index[name] for name in names], np.int64)
