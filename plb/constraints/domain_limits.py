"""The largest number of replicas of a partition in a domain: an even spread, a quorum, or one replica a domain."""

from __future__ import annotations

import math

import numpy as np

from plb.array_types import Int
from plb.constraints.domains import ANY
from plb.model import Service
from plb.model.expressions import FaultDomainPolicy
from plb.model.rules import Rule
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology


def most_in_domain(state: ClusterState, topology: Topology) -> Int:
    """Return `Problem.most_in_domain`, (S, D) (docs/constraints/fault_domain.md)."""
    most = np.zeros((max(1, len(state.services)), len(topology.domain_rule)), np.int64)
    for index, service in enumerate(state.services):
        feasibility_class = state.service_feasibility_class[index]
        policy = state.feasibility_classes[feasibility_class].expression.fault_domain_policy
        fault = topology.domain_rule == Rule.FAULT_DOMAIN
        for rule, enabled in _quorum_rules(state, topology, feasibility_class, service).items():
            if enabled:
                most[index, topology.domain_rule == rule] = ANY
                _limit_to_quorum(most[index], topology, feasibility_class, rule, service.target_replicas)
        if policy is FaultDomainPolicy.IGNORE:
            most[index, fault] = ANY
        if policy is FaultDomainPolicy.NONPACKING:
            most[index, fault] = ANY
            most[index, np.flatnonzero(fault)[:1]] = 1
        if service.on_every_node:
            most[index] = ANY
    return most


def _quorum_rules(
    state: ClusterState, topology: Topology, feasibility_class: int, service: Service
) -> dict[Rule, bool]:
    """Return for which kinds of domains a service keeps a quorum instead of an even spread."""
    config, target = state.config, service.target_replicas
    counts = {}
    for rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN):
        levels = np.flatnonzero(topology.domain_rule == rule)
        usable = topology.siblings[feasibility_class, :, levels[-1]] > 0 if len(levels) else np.zeros(0, np.bool_)
        counts[rule] = len(np.unique(topology.domain[usable, levels[-1]])) if len(levels) else 0
    nodes = int((topology.counted & topology.feasibility_classes[feasibility_class]).sum())
    even = all(count > 0 and target % count == 0 for count in counts.values())
    auto = config.quorum_based_logic_auto_switch and target > 0 and even and nodes <= math.prod(counts.values())
    return {
        Rule.FAULT_DOMAIN: auto or config.quorum_based_replica_distribution_per_fault_domains,
        Rule.UPGRADE_DOMAIN: auto or config.quorum_based_replica_distribution_per_upgrade_domains,
    }


def _limit_to_quorum(most: Int, topology: Topology, feasibility_class: int, rule: Rule, target: int) -> None:
    """Set the most replicas at the first level that has two usable domains, so that losing one keeps a quorum."""
    for level in np.flatnonzero(topology.domain_rule == rule):
        domains = len(np.unique(topology.domain[topology.siblings[feasibility_class, :, level] > 0, level]))
        if domains >= 2:
            limit = max(target - (target // 2 + 1), 1)
            most[level] = limit + 1 if domains * limit < target else limit
            return
