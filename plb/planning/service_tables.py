"""Tables that follow from services and nodes, computed again only when one of them changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.constraints.domains import ANY
from plb.model import MoveCost, Service
from plb.model.expressions import FaultDomainPolicy
from plb.model.rules import Rule
from plb.settings.config import PlbConfig
from plb.state.arrays import TENTHS
from plb.state.cluster import ClusterState
from plb.state.packing import packing_tables
from plb.state.topology import Topology, domain_paths


@attrs.frozen(eq=False)
class ServiceTables:
    """Arrays of a service domain; see `plb.state.arrays.Problem` for their meaning."""

    version: tuple[object, ...]
    services: Sequence[int]
    counted_for: Bool
    nodes_of_metric: Int
    most_in_domain: Int
    metric_weight: Float
    groups: dict[str, Any]
    """Domains of nodes, and the data of the strategies of the metrics."""
    each: EachService
    """The properties of replicas from their service, for all services."""


@attrs.frozen(eq=False)
class EachService:
    """The properties of the replicas of a service, (S,) each unless stated otherwise.

    Parameters
    ----------
    feasibility_class
        Its requirements on nodes.
    blocked
        (X, N+1) for each feasibility class, whether a node is blocked; the last entry is no node. None without one.
    particular
        Whether a new replica has the class of a placed one.
    everywhere, stateless_everywhere
        Whether it is on every node, and stateless.
    move_cost
        Tenths of a move.
    related
        Whether any service follows another.
    """

    feasibility_class: Int32
    blocked: Bool | None
    particular: Bool
    everywhere: Bool
    stateless_everywhere: Bool
    move_cost: Int
    related: bool


def tables_version(state: ClusterState, topology: Topology) -> tuple[object, ...]:
    """Return what the tables depend on; equal versions mean equal tables."""
    return (topology.version, state.services_version)


def build_tables(state: ClusterState, topology: Topology, services: Sequence[int]) -> ServiceTables:
    """Return the tables of a domain of `services`."""
    counted_for = _counted_for(state, topology, services)
    return ServiceTables(
        version=tables_version(state, topology),
        services=services,
        counted_for=counted_for,
        nodes_of_metric=counted_for.sum(axis=0),
        most_in_domain=most_in_domain(state, topology),
        metric_weight=metric_weights(state, services),
        groups={**node_groups(state, topology), **packing_tables(state, counted_for)},
        each=each_service(state),
    )


def each_service(state: ClusterState) -> EachService:
    """Return what replicas have from their services; without services, there is one for rows that nobody uses."""
    services, config = state.services, state.config
    singletons = config.is_singleton_replica_move_allowed_during_upgrade
    costs = move_cost_values(config)
    blocked = None
    if any(feasibility_class.blocked for feasibility_class in state.feasibility_classes):
        blocked = np.array(
            [
                [node.name in feasibility_class.blocked for node in state.nodes] + [False]
                for feasibility_class in state.feasibility_classes
            ]
        )
    return EachService(
        feasibility_class=np.array(state.service_feasibility_class or [0], np.int32),
        blocked=blocked,
        particular=np.array([singletons and one.target_replicas == 1 for one in services] or [False], np.bool_),
        everywhere=np.array([one.on_every_node for one in services] or [False], np.bool_),
        stateless_everywhere=np.array(
            [one.on_every_node and not one.stateful for one in services] or [False], np.bool_
        ),
        move_cost=np.array([costs[one.move_cost] for one in services] or [0], np.int64),
        related=any(one.affinity_to is not None for one in services),
    )


def move_cost_values(config: PlbConfig) -> dict[MoveCost, int]:
    """Return what a move of each cost counts, in tenths of a move."""
    values = {
        MoveCost.ZERO: config.move_cost_zero_value,
        MoveCost.LOW: config.move_cost_low_value,
        MoveCost.MEDIUM: config.move_cost_medium_value,
        MoveCost.HIGH: config.move_cost_high_value,
    }
    return {cost: round(TENTHS * value) for cost, value in values.items()}


def most_in_domain(state: ClusterState, topology: Topology) -> Int:
    """Return `Problem.most_in_domain`, (S, D) (docs/service-fabric.md, Fault and upgrade domains)."""
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


def metric_weights(state: ClusterState, services: Iterable[int]) -> Float:
    """Return the weight of every metric in the imbalance, (R,).

    The weight of the metric comes first; else it is the mean of the weights of the services, and 0 if none
    has it (docs/service-fabric.md, Score). Services without weights have all metrics at 1.
    """
    given = [state.services[service].metrics for service in services]
    weights = np.zeros(len(state.config.metrics))
    for index, metric in enumerate(state.config.metrics):
        found = [metric.weight if of is None else of[metric.name] for of in given if of is None or metric.name in of]
        if found or not given:
            mean = float(np.mean(found or [metric.weight]))
            weights[index] = mean if metric.global_weight is None else metric.global_weight
    return weights


def _counted_for(state: ClusterState, topology: Topology, services: Iterable[int]) -> Bool:
    """Return `Problem.counted_for`, (N, R): a node counts for a metric if it is feasible for a service with it.

    Services on every node do not count.
    """
    names = state.config.metric_names
    feasible = np.zeros((len(topology.counted), len(names)), np.bool_)
    spoken = np.zeros(len(names), np.bool_)
    for service in services:
        described = state.services[service]
        if not described.on_every_node:
            has = [described.metrics is None or name in described.metrics for name in names]
            feasible[:, has] |= topology.feasibility_classes[state.service_feasibility_class[service]][:, None]
            spoken[has] = True
    counted: Bool = topology.counted[:, None] & (feasible | ~spoken)
    return counted


def node_groups(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the leaf fault domains and upgrade domains that have a counted node, for defragmented metrics."""
    config = state.config
    group = np.zeros((2, len(state.nodes)), np.int64)
    groups = np.zeros(2, np.int64)
    for kind, paths in enumerate(domain_paths(state)):
        of_kind = ["/".join(path) for path in paths]
        known = {name: index for index, name in enumerate(dict.fromkeys(np.array(of_kind)[topology.counted].tolist()))}
        group[kind] = [known.get(name, 0) for name in of_kind]
        groups[kind] = len(known)
    factors = (
        config.defragmentation_nodes_std_dev_factor,
        config.defragmentation_fds_std_dev_factor,
        config.defragmentation_uds_std_dev_factor,
    )
    return {"spread_factor": np.array(factors), "group": group, "groups": groups}
