"""Tables that follow from the nodes alone: limits, thresholds, domains and the feasible nodes of each service.

They are computed again only if a node, a feasibility class or a quantum changes.
"""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.state.cluster_state import ClusterState
from plb.state.deactivation import drained_nodes, evacuating_nodes, receiving_nodes
from plb.state.feasible_nodes import blocked_nodes, feasible_nodes
from plb.state.node_domains import domain_levels
from plb.state.node_limits import buffered_limits, inverse_of_capacity, limits_and_thresholds


@attrs.frozen(eq=False)
class Topology:
    """Arrays of the nodes; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    structure: tuple[object, ...]
    """What all but the availability of the nodes depends on."""
    limit: Int
    move_limit: Int
    buffered: bool
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
    """Token of the topology from which this one differs in the availability of a few nodes; None: there is none."""
    changed_nodes: tuple[int, ...] = ()
    """These nodes."""

    @property
    def node_version(self) -> int:
        """Version of the nodes for which it was made."""
        found = self.version[0]
        assert isinstance(found, int)
        return found


def topology_version(state: ClusterState) -> tuple[object, ...]:
    """Return what a topology depends on; equal versions mean equal topologies."""
    return (state.node_version, *_structure(state))


def _structure(state: ClusterState) -> tuple[object, ...]:
    quanta = state.quanta.quanta.tobytes()
    return (state.structure_version, state.config, quanta)


def present_topology(state: ClusterState, known: Topology | None) -> Topology:
    """Return the topology of the present nodes, as `known` where that holds, else made from it or new."""
    if known is not None and known.version == topology_version(state):
        return known
    if known is None or known.structure != _structure(state):
        return build_topology(state)
    for index, version in list(state.availability_changes.items()):
        if version <= known.node_version:  # the others are needed again if this call ends in an error
            del state.availability_changes[index]
    return _with_availability(state, known, sorted(state.availability_changes)) or build_topology(state)


def _with_availability(state: ClusterState, known: Topology, nodes: list[int]) -> Topology | None:
    """Return a topology after changes of the availability of some nodes; None where other domains are usable."""
    chosen = [state.nodes[index] for index in nodes]
    receives, watched, drained = known.receives.copy(), known.watched.copy(), known.drained.copy()
    receives[:, nodes] = receiving_nodes(chosen)
    drained[nodes] = drained_nodes(chosen, drains=state.config.drain_removed_nodes)
    watched[nodes] = receives[0, nodes] | evacuating_nodes(chosen) | drained[nodes]
    classes = known.feasibility_classes[: len(state.feasibility_classes)]
    usable = classes & known.receives[1], classes & receives[1]
    for index in nodes:
        for level in range(known.domain.shape[1]):
            inside = known.domain[:, level] == known.domain[index, level]
            if not np.array_equal(*(of[:, inside].any(axis=1) for of in usable)):
                return None
    return attrs.evolve(
        known,
        version=topology_version(state),
        receives=receives,
        counted=receives[0].copy(),
        watched=watched,
        drained=drained,
        targets=np.flatnonzero(receives.any(axis=0)),
        token=object(),
        follows=known.token,
        changed_nodes=tuple(nodes),
    )


def build_topology(state: ClusterState) -> Topology:
    """Return the topology of the present nodes."""
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
    """Return `Problem.upgraded`, (N,)."""
    done = state.upgraded_domains if state.config.prefer_upgraded_uds else frozenset()
    return np.array([node.upgrade_domain_name in done for node in state.nodes], np.bool_)
