"""The largest number of replicas of a partition in a domain: an even spread, a quorum, or one replica a domain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Int
from plb.constraints.domains import ANY
from plb.model.expressions import FaultDomainPolicy
from plb.model.rules import Rule
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology


class SpreadKind(NamedTuple):
    """What the limits of a service depend on."""

    feasibility_class: int
    target_replicas: int
    on_every_node: bool


@attrs.frozen(eq=False)
class DomainLimits:
    """The limits of all services."""

    most_in_domain: Int
    """`Problem.most_in_domain`, (S, D)."""
    of_kind: dict[SpreadKind, Int]
    """The limits of each kind of service, (D,)."""
    topology: Topology
    services_version: int
    """Those for which the limits hold."""


def domain_limits(state: ClusterState, topology: Topology, earlier: DomainLimits | None = None) -> DomainLimits:
    """Return the limits of all services; arrays of `earlier` limits that still hold are kept and brought up to date."""
    table = state.service_table
    if earlier is not None and len(earlier.most_in_domain) == table.capacity and _hold(state, topology, earlier):
        most, of_kind, changed = earlier.most_in_domain, earlier.of_kind, table.changed_since(earlier.services_version)
    else:
        most, of_kind = np.zeros((table.capacity, len(topology.domain_rule)), np.int64), {}
        changed = np.arange(table.capacity)
    _set_limits(state, topology, most, of_kind, changed)
    return DomainLimits(most, of_kind, topology, state.services_version)


def _hold(state: ClusterState, topology: Topology, earlier: DomainLimits) -> bool:
    """Return whether the limits of each kind are the same with another topology."""
    if topology is earlier.topology:
        return True
    return all(np.array_equal(_limits(state, topology, kind), limits) for kind, limits in earlier.of_kind.items())


def _set_limits(
    state: ClusterState, topology: Topology, most: Int, of_kind: dict[SpreadKind, Int], services: Int
) -> None:
    """Set the limits of some services in `most`, (S, D); kinds that are new are added to `of_kind`."""
    table = state.service_table
    columns = table.feasibility_class[services], table.target_replicas[services], table.on_every_node[services]
    for service, *values in zip(services.tolist(), *(column.tolist() for column in columns), strict=True):
        kind = SpreadKind(*values)
        if kind not in of_kind:
            of_kind[kind] = _limits(state, topology, kind)
        most[service] = of_kind[kind]


def _limits(state: ClusterState, topology: Topology, kind: SpreadKind) -> Int:
    """Return the limits of a kind of service, (D,)."""
    most = np.zeros(len(topology.domain_rule), np.int64)
    if kind.on_every_node:
        most[:] = ANY
        return most
    policy = state.feasibility_classes[kind.feasibility_class].expression.fault_domain_policy
    fault = topology.domain_rule == int(Rule.FAULT_DOMAIN)
    for rule in _rules_with_quorum(state, topology, kind):
        most[topology.domain_rule == int(rule)] = ANY
        _limit_to_quorum(most, topology, kind, rule)
    if policy is FaultDomainPolicy.IGNORE:
        most[fault] = ANY
    if policy is FaultDomainPolicy.NONPACKING:
        most[fault] = ANY
        most[np.flatnonzero(fault)[:1]] = 1
    return most


def _rules_with_quorum(state: ClusterState, topology: Topology, kind: SpreadKind) -> Iterable[Rule]:
    """Return the kinds of domains in which a service keeps a quorum instead of an even spread."""
    config, target = state.config, kind.target_replicas
    counts = {}
    for rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN):
        levels = np.flatnonzero(topology.domain_rule == int(rule))
        usable = topology.siblings[kind.feasibility_class, :, levels[-1]] > 0 if len(levels) else np.zeros(0, np.bool_)
        counts[rule] = len(np.unique(topology.domain[usable, levels[-1]])) if len(levels) else 0
    nodes = int((topology.counted & topology.feasibility_classes[kind.feasibility_class]).sum())
    even = all(count > 0 and target % count == 0 for count in counts.values())
    auto = config.quorum_based_logic_auto_switch and target > 0 and even and nodes <= math.prod(counts.values())
    chosen = {
        Rule.FAULT_DOMAIN: config.quorum_based_replica_distribution_per_fault_domains,
        Rule.UPGRADE_DOMAIN: config.quorum_based_replica_distribution_per_upgrade_domains,
    }
    return [rule for rule, is_chosen in chosen.items() if auto or is_chosen]


def _limit_to_quorum(most: Int, topology: Topology, kind: SpreadKind, rule: Rule) -> None:
    """Set the most replicas at the first level that has two usable domains, so that losing one keeps a quorum."""
    target = kind.target_replicas
    for level in np.flatnonzero(topology.domain_rule == int(rule)):
        domains = len(np.unique(topology.domain[topology.siblings[kind.feasibility_class, :, level] > 0, level]))
        if domains >= 2:
            limit = max(target - (target // 2 + 1), 1)
            most[level] = limit + 1 if domains * limit < target else limit
            return
