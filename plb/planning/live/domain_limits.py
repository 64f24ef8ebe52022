"""The largest number of replicas of a partition in a domain: an even spread, a quorum, or one replica a domain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Int
from plb.model.expressions import FaultDomainPolicy
from plb.model.rules import Rule
from plb.state.cluster_state import ClusterState
from plb.state.spread import ANY
from plb.state.topology import Topology


class SpreadKind(NamedTuple):
    """What the limits of a service depend on."""

    feasibility_class: int
    """Index of the feasibility class of the service."""
    target_replicas: int
    """Of a partition; 0: any number."""
    on_every_node: bool
    """Whether the service has a replica on every node."""


@attrs.frozen(eq=False)
class DomainLimits:
    """The limits of all services."""

    most_in_domain: Int
    """`Problem.most_in_domain`, (S, D)."""
    of_kind: dict[SpreadKind, Int]
    """The limits of each kind of service, (D,)."""
    topology: Topology
    """The topology for which the limits hold."""
    services_version: int
    """The version of the services for which the limits hold."""


def domain_limits(state: ClusterState, topology: Topology, earlier: DomainLimits | None = None) -> DomainLimits:
    """Return the limits of all services; arrays of `earlier` limits that still hold are kept and brought up to date."""
    table = state.service_table
    if earlier is not None and len(earlier.most_in_domain) == table.capacity and _hold(state, topology, earlier):
        most_in_domain, limits_of_kind = earlier.most_in_domain, earlier.of_kind
        changed_services = table.changed_since(earlier.services_version)
    else:
        most_in_domain, limits_of_kind = np.zeros((table.capacity, len(topology.domain_rule)), np.int64), {}
        changed_services = np.arange(table.capacity)
    _set_limits(state, topology, most_in_domain, limits_of_kind, changed_services)
    return DomainLimits(most_in_domain, limits_of_kind, topology, state.services_version)


def _hold(state: ClusterState, topology: Topology, earlier: DomainLimits) -> bool:
    """Return whether the limits of each kind are the same with another topology."""
    if topology is earlier.topology:
        return True
    return all(np.array_equal(_limits(state, topology, kind), limits) for kind, limits in earlier.of_kind.items())


def _set_limits(
    state: ClusterState, topology: Topology, most_in_domain: Int, limits_of_kind: dict[SpreadKind, Int], services: Int
) -> None:
    """Set the limits of `services`, by index, in `most_in_domain`, (S, D), and of new kinds in `limits_of_kind`."""
    table = state.service_table
    columns = table.feasibility_class[services], table.target_replicas[services], table.on_every_node[services]
    for service, *values in zip(services.tolist(), *(column.tolist() for column in columns), strict=True):
        kind = SpreadKind(*values)
        if kind not in limits_of_kind:
            limits_of_kind[kind] = _limits(state, topology, kind)
        most_in_domain[service] = limits_of_kind[kind]


def _limits(state: ClusterState, topology: Topology, kind: SpreadKind) -> Int:
    """Return the most replicas of a partition in one domain of each level, (D,), for services of this kind."""
    limits = np.zeros(len(topology.domain_rule), np.int64)
    if kind.on_every_node:
        limits[:] = ANY
        return limits
    policy = state.feasibility_classes[kind.feasibility_class].expression.fault_domain_policy
    is_fault = topology.domain_rule == int(Rule.FAULT_DOMAIN)
    for rule in _rules_with_quorum(state, topology, kind):
        limits[topology.domain_rule == int(rule)] = ANY
        _limit_to_quorum(limits, topology, kind, rule)
    if policy is FaultDomainPolicy.IGNORE:
        limits[is_fault] = ANY
    if policy is FaultDomainPolicy.NONPACKING:
        limits[is_fault] = ANY
        limits[np.flatnonzero(is_fault)[:1]] = 1
    return limits


def _rules_with_quorum(state: ClusterState, topology: Topology, kind: SpreadKind) -> Iterable[Rule]:
    """Return the rules on fault or upgrade domains for which a service keeps a quorum and not an even spread."""
    config, target = state.config, kind.target_replicas
    domains_of_rule = {}
    for rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN):
        levels = np.flatnonzero(topology.domain_rule == int(rule))
        is_usable = (
            topology.siblings[kind.feasibility_class, :, levels[-1]] > 0 if len(levels) else np.zeros(0, np.bool_)
        )
        domains_of_rule[rule] = len(np.unique(topology.domain[is_usable, levels[-1]])) if len(levels) else 0
    nodes = int((topology.counted & topology.feasibility_classes[kind.feasibility_class]).sum())
    is_even = all(count > 0 and target % count == 0 for count in domains_of_rule.values())
    is_automatic = (
        config.quorum_based_logic_auto_switch
        and target > 0
        and is_even
        and nodes <= math.prod(domains_of_rule.values())
    )
    is_configured = {
        Rule.FAULT_DOMAIN: config.quorum_based_replica_distribution_per_fault_domains,
        Rule.UPGRADE_DOMAIN: config.quorum_based_replica_distribution_per_upgrade_domains,
    }
    return [rule for rule, is_quorum in is_configured.items() if is_automatic or is_quorum]


def _limit_to_quorum(limits: Int, topology: Topology, kind: SpreadKind, rule: Rule) -> None:
    """Set the entry of `limits`, (D,), at the first level of `rule` with two usable domains, to keep a quorum."""
    target = kind.target_replicas
    for level in np.flatnonzero(topology.domain_rule == int(rule)):
        domains = len(np.unique(topology.domain[topology.siblings[kind.feasibility_class, :, level] > 0, level]))
        if domains >= 2:
            limit = max(target - (target // 2 + 1), 1)
            limits[level] = limit + 1 if domains * limit < target else limit
            return
