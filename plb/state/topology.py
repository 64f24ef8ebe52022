"""Tables that follow from nodes and metrics alone: limits, domains, feasible nodes, and strategies of placement.

Those of nodes are computed again only if a node, a feasibility class or a quantum changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.model import DeactivationIntent, DeactivationStatus, Metric, Node
from plb.model.metric import PlacementStrategy
from plb.model.quanta import UNLIMITED
from plb.model.rules import Rule
from plb.settings.config import CapacityLimit
from plb.state.cluster_state import ClusterState


def receiving_nodes(nodes: Sequence[Node]) -> Bool:
    """Return `Problem.receives`: which nodes take an existing replica, a new one, a new one that is on every node.

    A node that is paused or restarts takes new replicas until its safety check is complete, then only replicas of
    stateless services on every node, and never existing ones; a node that is removed takes nothing.
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


def evacuating_nodes(nodes: Sequence[Node]) -> Bool:
    """Return whether a repair may move replicas from each node, (N,): it restarts or goes, and its check is running."""
    goes = (DeactivationIntent.RESTART, DeactivationIntent.REMOVE_DATA, DeactivationIntent.REMOVE_NODE)
    checking = DeactivationStatus.SAFETY_CHECK_IN_PROGRESS
    evacuates = [
        node.up and node.deactivation_intent in goes and node.deactivation_status is checking for node in nodes
    ]
    return np.array(evacuates, np.bool_)


def drained_nodes(nodes: Sequence[Node], *, drains: bool) -> Bool:
    """Return `Problem.drained`, (N,): a node to be removed that is not being activated again; none without `drains`."""
    goes = (DeactivationIntent.REMOVE_DATA, DeactivationIntent.REMOVE_NODE)
    back = DeactivationStatus.ACTIVATION_IN_PROGRESS
    drained = [node.up and node.deactivation_intent in goes and node.deactivation_status is not back for node in nodes]
    return np.array(drained, np.bool_) & drains


def feasible_nodes(state: ClusterState, *, primary: bool) -> Bool:
    """Return the feasible nodes of each feasibility class, (X, N): not blocked, and with a true expression.

    `primary`: for primaries, to which clauses of an expression may apply alone.
    """
    compares = any(feasibility_class.expression.properties for feasibility_class in state.feasibility_classes)
    properties = [node.placement_properties for node in state.nodes] if compares else []
    feasible = np.empty((len(state.feasibility_classes), len(state.nodes)), np.bool_)
    for feasible_of_class, feasibility_class in zip(feasible, state.feasibility_classes, strict=True):
        expression, blocked = feasibility_class.expression, feasibility_class.blocked
        if expression.properties:
            feasible_of_class[:] = [
                expression.holds(node_properties, primary=primary) for node_properties in properties
            ]
        else:
            feasible_of_class[:] = expression.holds({}, primary=primary)
        feasible_of_class[[state.node_index[name] for name in blocked if name in state.node_index]] = False
    return feasible


def blocked_nodes(state: ClusterState) -> Bool | None:
    """Return `Topology.blocked`, (X, N+1); None if no node is blocked."""
    classes = state.feasibility_classes
    if not any(feasibility_class.blocked for feasibility_class in classes):
        return None
    blocked = [[node.name in feasibility_class.blocked for node in state.nodes] for feasibility_class in classes]
    return np.array([[*blocked_of_class, False] for blocked_of_class in blocked], np.bool_)


def domain_paths(state: ClusterState) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the fault domain and the upgrade domain of every node as paths, (N,) each.

    If the settings turn a kind of domains off, each node has its own.
    """
    config = state.config
    fault = [node.fault_domain_path if config.fault_domain_enabled else (node.name,) for node in state.nodes]
    upgrade: list[tuple[str, ...]] = [
        (node.upgrade_domain_name if config.upgrade_domain_enabled else node.name,) for node in state.nodes
    ]
    return fault, upgrade


def domain_levels(state: ClusterState, usable_nodes: Bool) -> tuple[Int32, Int32, Int32, Int]:
    """Return `Problem.domain`, `parent`, both (N, D), `siblings`, (X, N, D), and `domain_rule`, (D,).

    `usable_nodes`: (X, N) whether replicas of a feasibility class may be placed on a node. A kind of domains in which
    every node has its own top-level domain constrains nothing and is omitted.
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


def _codes(paths: list[tuple[str, ...]]) -> Int:
    """Return a number for each path, (N,): equal paths have equal numbers, from 0 in the order of their occurrence."""
    code_of = {path: code for code, path in enumerate(dict.fromkeys(paths))}
    return np.array([code_of[path] for path in paths], np.int64)


LARGEST_THRESHOLD = 2**31 - 1
"""Thresholds of per-repetition aggregates are 32-bit; this one is never reached."""


def total_capacity(metric: Metric, capacity: int) -> int:
    """Return the total capacity of a node with a `capacity`, both in quanta: floor((1 + o)·c) with over-booking o."""
    overbooking = metric.node_overbooking_percentage
    if capacity >= UNLIMITED or overbooking is None:
        return UNLIMITED
    return min(UNLIMITED, math.floor((1 + Fraction(str(overbooking))) * capacity))


def limits_and_thresholds(state: ClusterState) -> tuple[Int, Int32]:
    """Return `Problem.limit` and `Problem.threshold`, both (N, R) quanta."""
    limit = np.full_like(state.capacity, UNLIMITED)
    threshold = np.full(state.capacity.shape, LARGEST_THRESHOLD, np.int32)
    inclusive = state.config.capacity_limit is CapacityLimit.CAPACITY
    for metric, description in enumerate(state.config.metrics):
        for capacity in np.unique(state.capacity[:, metric]):
            total = total_capacity(description, int(capacity))
            if total < UNLIMITED:
                nodes = state.capacity[:, metric] == capacity
                reached = state.quanta.threshold(description, total)
                threshold[nodes, metric] = min(reached, LARGEST_THRESHOLD)
                limit[nodes, metric] = total if inclusive else reached - 1
    return limit, threshold


def buffered_limits(state: ClusterState, limit: Int) -> Int:
    """Return `limit` reduced by the buffers of nodes, both (N, R) quanta: at most floor((1 - b)·c) with a buffer b."""
    buffered = limit.copy()
    for metric, description in enumerate(state.config.metrics):
        usable_share = 1 - Fraction(str(description.node_buffer_percentage))
        for capacity in np.unique(state.capacity[:, metric]) if description.keeps_capacity_free else ():
            if capacity < UNLIMITED:
                nodes = state.capacity[:, metric] == capacity
                buffered[nodes, metric] = np.minimum(limit[nodes, metric], math.floor(usable_share * int(capacity)))
    return buffered


def inverse_of_capacity(capacity: Int) -> Float:
    """Return 1/capacity, (N, R) in 1/quanta; 0 where the capacity is unlimited or 0."""
    inverse = np.zeros(capacity.shape)
    real = (capacity > 0) & (capacity < UNLIMITED)
    inverse[real] = 1.0 / capacity[real]
    return inverse


def move_limits(limit: Int, buffered: Int, load: Int) -> Int:
    """Return `Problem.move_limit`; all (N, R) quanta: a node whose `load` is above its `buffered` limit may keep it."""
    return np.minimum(limit, np.maximum(buffered, load))


@attrs.frozen(eq=False)
class Topology:
    """Arrays of the nodes; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    """`topology_version` of the state for which it was made."""
    structure: tuple[object, ...]
    """The part of `version` on which all but the availability of the nodes depends."""
    limit: Int
    move_limit: Int
    """`buffered_limits`: without the load that a node above its buffered limit may keep."""
    buffered: bool
    """Whether any metric has a buffer."""
    threshold: Int32
    inverse_capacity: Float
    counted: Bool
    watched: Bool
    drained: Bool
    receives: Bool
    targets: Int
    domain: Int32
    parent: Int32
    siblings: Int32
    domain_rule: Int
    feasibility_classes: Bool
    blocked: Bool | None
    """(X, N+1) for each feasibility class, whether a node is blocked; the last entry is no node. None without one."""
    upgraded: Bool
    token: object = attrs.field(factory=object)
    """Identifies the topology."""
    follows: object = None
    """Token of the topology from which this one differs in the availability of `changed_nodes`; None: there is none."""
    changed_nodes: tuple[int, ...] = ()
    """Indices of nodes."""

    @property
    def node_version(self) -> int:
        """Version of the nodes for which it was made."""
        version = self.version[0]
        assert isinstance(version, int)
        return version


def topology_version(state: ClusterState) -> tuple[object, ...]:
    """Return what a topology depends on; equal versions mean equal topologies."""
    return (state.node_version, *_structure(state))


def _structure(state: ClusterState) -> tuple[object, ...]:
    """Return `Topology.structure`: what a topology depends on besides the availability of nodes."""
    return (state.structure_version, state.config, state.quanta.quanta.tobytes())


def present_topology(state: ClusterState, before: Topology | None) -> Topology:
    """Return the topology of the present nodes: `before` while it holds, else made from it or new."""
    if before is not None and before.version == topology_version(state):
        return before
    if before is None or before.structure != _structure(state):
        return build_topology(state)
    for index, version in list(state.availability_changes.items()):
        if version <= before.node_version:  # later changes are needed again if this call ends in an error
            del state.availability_changes[index]
    return _with_availability(state, before, sorted(state.availability_changes)) or build_topology(state)


def _with_availability(state: ClusterState, before: Topology, nodes: list[int]) -> Topology | None:
    """Return the topology `before` after changes of the availability of `nodes`, indices.

    None if other domains than before have usable nodes.
    """
    changed = [state.nodes[index] for index in nodes]
    receives, watched, drained = before.receives.copy(), before.watched.copy(), before.drained.copy()
    receives[:, nodes] = receiving_nodes(changed)
    drained[nodes] = drained_nodes(changed, drains=state.config.drain_removed_nodes)
    watched[nodes] = receives[0, nodes] | evacuating_nodes(changed) | drained[nodes]
    classes = before.feasibility_classes[: len(state.feasibility_classes)]
    usable = classes & before.receives[1], classes & receives[1]
    for index in nodes:
        for level in range(before.domain.shape[1]):
            inside = before.domain[:, level] == before.domain[index, level]
            if not np.array_equal(*(usable_nodes[:, inside].any(axis=1) for usable_nodes in usable)):
                return None
    return attrs.evolve(
        before,
        version=topology_version(state),
        receives=receives,
        counted=receives[0].copy(),
        watched=watched,
        drained=drained,
        targets=np.flatnonzero(receives.any(axis=0)),
        token=object(),
        follows=before.token,
        changed_nodes=tuple(nodes),
    )


def build_topology(state: ClusterState) -> Topology:
    """Return the tables of the present nodes, all computed anew."""
    receives = receiving_nodes(state.nodes)
    counted = receives[0].copy()
    drained = drained_nodes(state.nodes, drains=state.config.drain_removed_nodes)
    limit, threshold = limits_and_thresholds(state)
    feasibility_classes = feasible_nodes(state, primary=False)
    domain, parent, siblings, rule = domain_levels(state, receives[1] & feasibility_classes)
    if any(feasibility_class.expression.binds_primary_only for feasibility_class in state.feasibility_classes):
        feasibility_classes = np.concatenate([feasibility_classes, feasible_nodes(state, primary=True)])
        siblings = np.concatenate([siblings, siblings])
    return Topology(
        version=topology_version(state),
        structure=_structure(state),
        limit=limit,
        move_limit=buffered_limits(state, limit),
        buffered=any(metric.keeps_capacity_free for metric in state.config.metrics),
        threshold=threshold,
        inverse_capacity=inverse_of_capacity(state.capacity),
        counted=counted,
        watched=counted | evacuating_nodes(state.nodes) | drained,
        drained=drained,
        receives=receives,
        targets=np.flatnonzero(receives.any(axis=0)),
        domain=domain,
        parent=parent,
        siblings=siblings,
        domain_rule=rule,
        feasibility_classes=feasibility_classes,
        blocked=blocked_nodes(state),
        upgraded=_upgraded_nodes(state),
    )


def _upgraded_nodes(state: ClusterState) -> Bool:
    """Return `Problem.upgraded`, (N,): whether a running upgrade has completed the domain; false if not preferred."""
    upgraded = state.upgraded_domains if state.config.prefer_upgraded_uds else frozenset()
    return np.array([node.upgrade_domain_name in upgraded for node in state.nodes], np.bool_)


PACKING = (PlacementStrategy.RESERVATION_AND_PACK, PlacementStrategy.DEFRAGMENTATION)
RESERVING = (
    PlacementStrategy.RESERVATION_AND_BALANCE,
    PlacementStrategy.RESERVATION,
    PlacementStrategy.RESERVATION_AND_PACK,
)
ALMOST_ALL = 0.999
"""Weight of empty nodes if the balance of the others decides between equal configurations."""


def strategy_of(metric: Metric) -> PlacementStrategy:
    """Return the placement strategy of a metric: the configured one, else the one that `defragmentation` means."""
    if metric.placement_strategy is not None:
        return metric.placement_strategy
    if not metric.defragmentation:
        return PlacementStrategy.BALANCING
    scoped = metric.scoped_defragmentation
    return PlacementStrategy.RESERVATION_AND_BALANCE if scoped else PlacementStrategy.DEFRAGMENTATION


def packs(metric: Metric) -> bool:
    """Return whether the load of the metric is to be packed on few nodes."""
    return strategy_of(metric) in PACKING


def reserves(metric: Metric) -> bool:
    """Return whether nodes are to be kept empty, up to the capacity reserved on them (scoped defragmentation)."""
    return strategy_of(metric) in RESERVING


def is_packed(metric: Metric) -> bool:
    """Return whether the metric is packed on few nodes, or nodes are kept empty for it."""
    return packs(metric) or reserves(metric)


def emptiness_weights(metric: Metric) -> tuple[float, float]:
    """Return the weights of empty and of other nodes in the imbalance of a metric (`Problem.empty_weight`)."""
    strategy = strategy_of(metric)
    default = 1.0 if strategy is PlacementStrategy.RESERVATION else ALMOST_ALL
    empty = default if metric.empty_node_weight is None else metric.empty_node_weight
    non_empty = max(0.0, 1.0 - empty) if metric.non_empty_node_weight is None else metric.non_empty_node_weight
    return empty, 0.0 if strategy is PlacementStrategy.RESERVATION else non_empty


def target_empty_nodes(metric: Metric, nodes: int) -> int:
    """Return how many of a number of `nodes` are to be empty for a metric."""
    requested = metric.empty_nodes or 0.0
    return math.floor(requested * nodes) if requested < 1 else int(requested)


def empty_limits(state: ClusterState) -> Int:
    """Return the load in quanta up to which a node counts as empty, (N, R); below 0: never."""
    limits = np.zeros_like(state.capacity)
    for index, metric in enumerate(state.config.metrics):
        quantum = float(state.quanta.quanta[index])
        if not reserves(metric):  # docs/service-fabric.md, Balancing thresholds
            limits[:, index] = math.floor(_in_quanta(metric.activity_threshold, quantum))
        elif metric.reserved_load is None:
            limits[:, index] = math.floor(_in_quanta(metric.empty_node_load, quantum))
        else:
            bounded = state.capacity[:, index] < UNLIMITED
            load_limit = state.capacity[:, index] - math.ceil(_in_quanta(metric.reserved_load, quantum))
            limits[:, index] = np.where(bounded, np.maximum(load_limit, -1), UNLIMITED)
    return limits


def _in_quanta(load: float, quantum: float) -> float:
    """Return a load in quanta of a size `quantum`, both in user units; at most `UNLIMITED`, which no node's reaches."""
    return min(load / quantum, float(UNLIMITED))


def packing_tables(state: ClusterState, counted_for: Bool) -> dict[str, Any]:
    """Return the fields of `Problem` on placement strategies, by name; `counted_for`: (N, R) nodes that count."""
    metrics = state.config.metrics
    weights = np.array([emptiness_weights(metric) for metric in metrics])
    requested = [target_empty_nodes(metric, int(counted_for[:, index].sum())) for index, metric in enumerate(metrics)]
    return {
        "defragmented": np.array([packs(metric) for metric in metrics], np.bool_),
        "reserving": np.array([reserves(metric) for metric in metrics], np.bool_),
        "empty_weight": weights[:, 0].copy(),
        "other_weight": weights[:, 1].copy(),
        "target_empty": np.array(requested, np.int64),
        "empty_limit": empty_limits(state),
        "empty_across_domains": np.array([metric.empty_nodes_across_domains for metric in metrics], np.bool_),
        "empty_overlap": state.config.nodes_with_reserved_load_overlap,
    }


def node_groups(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return `Problem.group`, `groups` and `deviation_factor` by name; no groups unless a metric `is_packed`."""
    config = state.config
    group = np.zeros((2, len(state.nodes)), np.int64)
    groups = np.zeros(2, np.int64)
    packed = any(is_packed(metric) for metric in config.metrics)
    for kind, paths in enumerate(domain_paths(state) if packed else ()):
        names = ["/".join(path) for path in paths]
        counted = dict.fromkeys(np.array(names)[topology.counted].tolist())
        index_of = {name: index for index, name in enumerate(counted)}
        group[kind] = [index_of.get(name, 0) for name in names]
        groups[kind] = len(index_of)
    factors = (
        config.defragmentation_nodes_std_dev_factor,
        config.defragmentation_fds_std_dev_factor,
        config.defragmentation_uds_std_dev_factor,
    )
    return {"deviation_factor": np.array(factors), "group": group, "groups": groups}
