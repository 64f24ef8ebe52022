"""From the state to the arrays of a search: the one place where what users said becomes what kernels run on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from plb.arrays import NOWHERE, TENTHS, Bool, Float, Int, Problem, Solution
from plb.config import PlbConfig
from plb.constraints import Rule
from plb.constraints.affinity import FOLLOWS, FREE, STRANDED
from plb.constraints.domains import ANY
from plb.constraints.range import LARGEST_SUM
from plb.energy.fresh import fresh_solution
from plb.energy.score import weights_of
from plb.errors import InvalidValueError
from plb.expressions import FaultDomainPolicy
from plb.model import MoveCost, Role, Service
from plb.outlook import Outlook
from plb.service_domains import ServiceDomain
from plb.state import ClusterState, PartitionRecord
from plb.steps import UNLIMITED
from plb.topology import Topology

NO_BUDGET = 2**31
"""Stands for a budget without limit."""


def build_problem(
    state: ClusterState, topology: Topology, outlook: Outlook, domain: ServiceDomain | None = None
) -> Problem:
    """Return the arrays of a search over the present state; most are views of the state's own.

    Parameters
    ----------
    topology
        What follows from the nodes.
    outlook
        The sampled demand of every row; without history it has no repetitions.
    domain
        The service domain that is searched; None: all services at once.
    """
    config, table = state.config, state.rows
    leaving_load = np.zeros_like(state.capacity)
    leaving = np.flatnonzero(table.leaving)
    np.add.at(leaving_load, table.node[leaving], table.load[leaving])
    room = table.room
    services = range(len(state.services)) if domain is None else domain.services
    member = table.used if domain is None else table.used & np.isin(table.service, services)
    suit = _by_service(state, state.service_suit, np.int64)
    counted_for = _counted_for(state, topology, services)
    movable = member & ~table.leaving & ~table.standby & ~table.still & ~table.pinned & (table.arriving == NOWHERE)
    movable &= _may_leave(topology)[table.node] & ~_is_blocked(state, table.node, suit)
    tenths = np.full(room, TENTHS, np.int64)
    return Problem(
        limit=topology.limit,
        threshold=topology.threshold,
        inverse_capacity=topology.inverse_capacity,
        leaving_load=leaving_load,
        counted=topology.counted,
        counted_for=counted_for,
        nodes_of_metric=counted_for.sum(axis=0),
        receives=topology.receives,
        targets=topology.targets,
        held_out=held_out_nodes(state, topology),
        domain=topology.domain,
        parent=topology.parent,
        siblings=topology.siblings,
        most_in_domain=most_in_domain(state, topology),
        domain_rule=topology.domain_rule,
        suits=topology.suits,
        load=table.load,
        sibling=table.sibling,
        role=table.role,
        leaving=table.leaving,
        service=table.service,
        suit=suit,
        kind=_kinds(state),
        prefers_siblings=_prefers_siblings(state),
        parents_move=config.move_parent_to_fix_affinity_violation,
        unspread=table.leaving | table.standby,
        standby=table.standby,
        **affinities(state),
        movable=movable,
        move_cost=_move_costs(state) if config.use_move_cost_reports else tenths,
        unit_cost=tenths,
        origin=table.node.copy(),
        peak=outlook.peak,
        peak_ceiling=outlook.peak_ceiling,
        metric_weight=metric_weights(state, services),
        weights=weights_of(
            config,
            replicas=int((member & ~table.leaving).sum()),
            repetitions=outlook.peak.shape[2],
            plain_spread=config.local_domain_weight == 0.0 and not any(m.defragmentation for m in config.metrics),
        ),
        **local_domains(state, topology, services),
        **node_groups(state, topology),
        swap_cost=round(TENTHS * config.swap_cost) if config.use_move_cost_reports else TENTHS,
        add_cost=0 if config.use_move_cost_reports else TENTHS,
        max_moves=NO_BUDGET if config.max_moves is None else config.max_moves,
        max_node_moves=NO_BUDGET if config.max_moves_per_node is None else config.max_moves_per_node,
        max_service_moves=np.array(
            [NO_BUDGET if s.max_moves is None else s.max_moves for s in state.services] or [NO_BUDGET], np.int64
        ),
    )


def start_solution(problem: Problem, metrics: Sequence[str] = ()) -> Solution:
    """Return the solution in which every replica stands where it stands now.

    Parameters
    ----------
    metrics
        Names of the metrics, for messages; without them their numbers stand.

    Raises
    ------
    InvalidValueError
        If n·load² could leave 64 bits.
    """
    solution = fresh_solution(problem, problem.origin.copy())
    _check_range(problem, solution, metrics)
    return solution


def _check_range(problem: Problem, solution: Solution, metrics: Sequence[str]) -> None:
    """Refuse loads and peaks whose sums could overflow (design section 14)."""
    if (highest_sum := int(solution.ceiling.max(initial=0))) > LARGEST_SUM:
        allowed = f"at most {LARGEST_SUM}: give a coarser Metric(step=...)"
        raise InvalidValueError("demand history", "peaks of one node in steps", highest_sum, allowed)
    nodes = len(problem.limit)
    everything = problem.load.sum(axis=0)
    for metric, name in enumerate(metrics or range(problem.limit.shape[1])):
        limits = problem.limit[:, metric]
        bounded = limits[limits < UNLIMITED]
        highest = max(int(solution.node_load[:, metric].max(initial=0)), int(bounded.max(initial=0)))
        if len(bounded) < nodes:
            highest = max(highest, int(everything[metric]))
        if nodes * highest**2 >= 2**63:
            raise InvalidValueError(
                f"metric {name}", "load of a node in steps", highest, "n·load² < 2^63: a coarser step"
            )


def affinities(state: ClusterState) -> dict[str, Any]:
    """Return what `Problem` says of children and their parents (semantics.md section 4, affinity)."""
    room = state.rows.room
    found: dict[str, Any] = {name: np.full(room, NOWHERE) for name in ("parent_row", "first_child", "next_child")}
    found |= {
        "affinity": np.zeros(room, np.int64),
        "aligned": np.zeros(room, np.bool_),
        "loose": np.zeros(room, np.bool_),
    }
    partitions: dict[int, list[PartitionRecord]] = {}
    if any(service.affinity_to is not None for service in state.services):
        for record in state.partitions.values():
            partitions.setdefault(record.service, []).append(record)
    for record in [record for records in partitions.values() for record in records]:
        service = state.services[record.service]
        if service.affinity_to is None or service.affinity_to not in state.service_index:
            continue
        parents = partitions.get(state.service_index[service.affinity_to], [])
        rows = record.rows
        if len(parents) != 1 or not parents[0].rows or not rows:
            alone = not parents and state.config.place_child_without_parent
            found["affinity"][rows] = FREE if alone else STRANDED
            continue
        above = parents[0].rows
        if not state.config.place_child_without_parent and (state.rows.node[above] == NOWHERE).all():
            found["affinity"][rows] = STRANDED
            continue
        found["affinity"][rows], found["parent_row"][rows] = FOLLOWS, above[0]
        found["next_child"][rows] = found["first_child"][above[0]]
        found["first_child"][above] = rows[0]
        found["aligned"][rows] = service.aligned
        larger = service.target_replicas > state.services[parents[0].service].target_replicas > 0
        found["loose"][rows] = larger and state.config.allow_higher_child_target_replica_count_for_affinity
    return found


def most_in_domain(state: ClusterState, topology: Topology) -> Int:
    """Return `Problem.most_in_domain`, (S, D) (semantics.md section 4, FD / UD)."""
    most = np.zeros((max(1, len(state.services)), len(topology.domain_rule)), np.int64)
    for index, service in enumerate(state.services):
        suit = state.service_suit[index]
        policy = state.suits[suit].expression.fault_domain_policy
        fault = topology.domain_rule == Rule.FAULT_DOMAIN
        for rule, enabled in _quorum_rules(state, topology, suit, service).items():
            if enabled:
                most[index, topology.domain_rule == rule] = ANY
                _limit_to_quorum(most[index], topology, suit, rule, service.target_replicas)
        if policy is FaultDomainPolicy.IGNORE:
            most[index, fault] = ANY
        if policy is FaultDomainPolicy.NONPACKING:
            most[index, fault] = ANY
            most[index, np.flatnonzero(fault)[:1]] = 1
        if service.on_every_node:
            most[index] = ANY
    return most


def _quorum_rules(state: ClusterState, topology: Topology, suit: int, service: Service) -> dict[Rule, bool]:
    """Return for which kinds of domains a service keeps a quorum instead of an even spread."""
    config, target = state.config, service.target_replicas
    counts = {}
    for rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN):
        levels = np.flatnonzero(topology.domain_rule == rule)
        usable = topology.siblings[suit, levels[-1]] > 0 if len(levels) else np.zeros(0, np.bool_)
        counts[rule] = len(np.unique(topology.domain[levels[-1], usable])) if len(levels) else 0
    nodes = int((topology.counted & topology.suits[suit]).sum())
    even = all(count > 0 and target % count == 0 for count in counts.values())
    auto = config.quorum_based_logic_auto_switch and target > 0 and even and nodes <= math.prod(counts.values())
    return {
        Rule.FAULT_DOMAIN: auto or config.quorum_based_replica_distribution_per_fault_domains,
        Rule.UPGRADE_DOMAIN: auto or config.quorum_based_replica_distribution_per_upgrade_domains,
    }


def _limit_to_quorum(most: Int, topology: Topology, suit: int, rule: Rule, target: int) -> None:
    """Set the most replicas at the first level that has two usable domains, so that losing one keeps a quorum."""
    for level in np.flatnonzero(topology.domain_rule == rule):
        domains = len(np.unique(topology.domain[level, topology.siblings[suit, level] > 0]))
        if domains >= 2:
            limit = max(target - (target // 2 + 1), 1)
            most[level] = limit + 1 if domains * limit < target else limit
            return


def metric_weights(state: ClusterState, services: Iterable[int]) -> Float:
    """Return the weight of every metric in the imbalance, (R,).

    A weight of the metric's own comes first; else it is the mean of those that the services give it, and 0 where none
    of them has it (semantics.md section 2, global domain). Services that give no weights have all metrics at 1.
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
    """Return `Problem.counted_for`, (N, R): a node counts for a metric if it suits some service that has it.

    Services that stand on every node do not speak for a metric.
    """
    names = state.config.metric_names
    suited = np.zeros((len(topology.counted), len(names)), np.bool_)
    spoken = np.zeros(len(names), np.bool_)
    for service in services:
        described = state.services[service]
        if not described.on_every_node:
            has = [described.metrics is None or name in described.metrics for name in names]
            suited[:, has] |= topology.suits[state.service_suit[service]][:, None]
            spoken[has] = True
    counted: Bool = topology.counted[:, None] & (suited | ~spoken)
    return counted


def local_domains(state: ClusterState, topology: Topology, services: Iterable[int]) -> dict[str, Any]:
    """Return what `Problem` says of local load-balancing domains (semantics.md section 2).

    One for each service with at least two partitions and some weight, with that service's own weights.
    """
    config = state.config
    local_of = np.full(max(1, len(state.services)), NOWHERE)
    weights: list[list[float]] = []
    counted: list[Bool] = []
    if config.local_domain_weight > 0.0:
        partitions = Counter(record.service for record in state.partitions.values())
        for service in services:
            given = state.services[service].metrics
            own = [metric.weight if given is None else given.get(metric.name, 0.0) for metric in config.metrics]
            if partitions[service] >= 2 and sum(own) > 0.0:
                local_of[service] = len(weights)
                weights.append(own)
                counted.append(topology.counted & topology.suits[state.service_suit[service]])
    nodes = np.array(counted, np.bool_).reshape(len(weights), len(topology.counted))
    return {
        "local_of": local_of,
        "local_weight": np.array(weights).reshape(len(weights), len(config.metrics)),
        "local_counted": nodes,
        "local_nodes": nodes.sum(axis=1),
    }


def node_groups(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return the leaf fault domains and upgrade domains that have a counted node, for defragmented metrics."""
    config = state.config
    group = np.zeros((2, len(state.nodes)), np.int64)
    groups = np.zeros(2, np.int64)
    names = (
        ["/".join(node.fault_domain_path) for node in state.nodes],
        [node.upgrade_domain_name for node in state.nodes],
    )
    for kind, of_kind in enumerate(names):
        known = {name: index for index, name in enumerate(dict.fromkeys(np.array(of_kind)[topology.counted].tolist()))}
        group[kind] = [known.get(name, 0) for name in of_kind]
        groups[kind] = len(known)
    factors = (
        config.defragmentation_nodes_std_dev_factor,
        config.defragmentation_fds_std_dev_factor,
        config.defragmentation_uds_std_dev_factor,
    )
    defragmented = np.array([metric.defragmentation for metric in config.metrics], np.bool_)
    return {"defragmented": defragmented, "spread_factor": np.array(factors), "group": group, "groups": groups}


def _may_leave(topology: Topology) -> Bool:
    """Return which nodes a replica may leave, (N + 1,); the last, for rows without a node, is true."""
    return np.append(topology.counted, True)


def _is_blocked(state: ClusterState, node: Int, suit: Int) -> Bool:
    """Return which rows stand on a node that is blocked for their service, (M,)."""
    if not any(of.blocked for of in state.suits):
        return np.zeros(len(node), np.bool_)
    blocked = np.array([[one.name in of.blocked for one in state.nodes] + [False] for of in state.suits], np.bool_)
    found: Bool = blocked[suit, node]
    return found


def _kinds(state: ClusterState) -> Int:
    """Return `Problem.kind`, (M,): 0 for a replica that stands, 1 for a new one, 2 if it is stateless on every node."""
    everywhere = _by_service(state, [s.on_every_node and not s.stateful for s in state.services], np.bool_)
    kinds: Int = np.where(state.rows.node != NOWHERE, 0, np.where(everywhere, 2, 1))
    return kinds


def _prefers_siblings(state: ClusterState) -> Bool:
    """Return `Problem.prefers_siblings`: all that stand, and new ones where the partition has a standby."""
    table = state.rows
    everywhere = _by_service(state, [s.on_every_node for s in state.services], np.bool_)
    prefers: Bool = (table.node != NOWHERE) & ~everywhere
    for row in np.flatnonzero(table.standby).tolist():
        prefers[state.partitions[state.row_partition[row]].rows] = True
    return prefers


def _by_service(state: ClusterState, values: list[int], dtype: type) -> np.ndarray:
    """Return a value of each row's service."""
    return np.array(values or [0], dtype)[state.rows.service]


def _move_costs(state: ClusterState) -> Int:
    values = move_cost_values(state.config)
    costs: Int = _by_service(state, [values[s.move_cost] for s in state.services], np.int64)
    for record in state.partitions.values():
        for row in record.rows if record.move_cost else ():
            cost = record.move_cost.get(Role(int(state.rows.role[row])))
            if cost is not None:
                costs[row] = values[cost]
    return costs


def move_cost_values(config: PlbConfig) -> dict[MoveCost, int]:
    """Return what a move of each cost counts, in tenths of a move."""
    values = {
        MoveCost.ZERO: config.move_cost_zero_value,
        MoveCost.LOW: config.move_cost_low_value,
        MoveCost.MEDIUM: config.move_cost_medium_value,
        MoveCost.HIGH: config.move_cost_high_value,
    }
    return {cost: round(TENTHS * value) for cost, value in values.items()}


def held_out_nodes(state: ClusterState, topology: Topology) -> Int:
    """Return the M nodes that are up and of least W_Max = max over metrics of load/capacity ([1] equation (4))."""
    if not state.config.held_out_nodes:
        return np.zeros(0, np.int64)
    node_load = np.zeros(state.capacity.shape)
    standing = np.flatnonzero((state.rows.node >= 0) & ~state.rows.leaving)
    np.add.at(node_load, state.rows.node[standing], state.rows.load[standing])
    fullest = (node_load * topology.inverse_capacity).max(axis=1)
    order = np.argsort(fullest[topology.targets], kind="stable")
    return np.sort(topology.targets[order[: state.config.held_out_nodes]])
