"""From the state to the arrays of a search: the one place where what users said becomes what kernels run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from plb.arrays import NOWHERE, TENTHS, Bool, Int, Problem, Solution
from plb.config import PlbConfig
from plb.constraints.affinity import FOLLOWS, FREE, STRANDED
from plb.constraints.range import LARGEST_SUM
from plb.counting import counting, standing_load
from plb.energy.fresh import fresh_solution
from plb.energy.score import weights_of
from plb.errors import InvalidValueError
from plb.gathering import gathers
from plb.in_build import is_any_build_limited, most_in_build, replicas_in_build
from plb.model import MoveCost, Role
from plb.outlook import Outlook
from plb.plan import Phase
from plb.service_tables import ServiceTables
from plb.state import ClusterState, PartitionRecord
from plb.topology import Topology

NO_BUDGET = 2**31
"""Stands for a budget without limit."""


def build_problem(state: ClusterState, topology: Topology, outlook: Outlook, tables: ServiceTables) -> Problem:
    """Return the arrays of a search over the present state; most are views of the state's own.

    Parameters
    ----------
    topology
        What follows from the nodes.
    outlook
        The sampled demand of every row; without history it has no repetitions.
    tables
        What follows from the services that are searched.
    """
    config, table = state.config, state.rows
    leaving_load = np.zeros_like(state.capacity)
    leaving = np.flatnonzero(table.leaving)
    np.add.at(leaving_load, table.node[leaving], table.load[leaving])
    room = table.room
    everything = len(tables.services) == len(state.services)
    member = table.used if everything else table.used & np.isin(table.service, tables.services)
    suit = _by_service(state, state.service_suit, np.int64)
    free = member & ~table.leaving & ~table.standby & ~table.still & ~table.pinned & (table.arriving == NOWHERE)
    free &= ~_is_blocked(state, table.node, suit)
    tenths = np.full(room, TENTHS, np.int64)
    by_percentage, coarseness = counting(state, topology)
    return Problem(
        limit=topology.limit,
        move_limit=move_limit(state, topology),
        threshold=topology.threshold,
        inverse_capacity=topology.inverse_capacity,
        leaving_load=leaving_load,
        tight=config.prevent_transient_overcommit or topology.buffered,
        keeps_departed=config.prevent_transient_overcommit,
        counts_departed=config.prevent_transient_overcommit,
        throttles=is_any_build_limited(config),
        in_build=replicas_in_build(state),
        most_in_build=most_in_build(state, Phase.PLACEMENT),
        counted=topology.counted,
        watched=topology.watched,
        counted_for=tables.counted_for,
        nodes_of_metric=tables.nodes_of_metric,
        receives=topology.receives,
        targets=topology.targets,
        held_out=held_out_nodes(state, topology),
        domain=topology.domain,
        parent=topology.parent,
        siblings=topology.siblings,
        most_in_domain=tables.most_in_domain,
        domain_rule=topology.domain_rule,
        suits=topology.suits,
        chains=config.allow_chained_moves,
        load=table.load,
        sibling=table.sibling,
        role=table.role,
        leaving=table.leaving,
        service=table.service,
        suit=_suits_by_role(state, suit),
        kind=_kinds(state),
        prefers_siblings=_prefers_siblings(state),
        parents_move=config.move_parent_to_fix_affinity_violation,
        unspread=table.leaving | table.standby,
        standby=table.standby,
        standbys=int(table.standby.sum()),
        **affinities(state),
        movable=free & _with_nowhere(topology.counted)[table.node],
        mendable=free & _with_nowhere(topology.watched)[table.node],
        move_cost=_move_costs(state) if config.use_move_cost_reports else tenths,
        unit_cost=tenths,
        origin=table.node.copy(),
        peak=outlook.peak,
        peak_ceiling=outlook.peak_ceiling,
        metric_weight=tables.metric_weight,
        weights=weights_of(
            config,
            replicas=int((member & ~table.leaving).sum()),
            repetitions=outlook.peak.shape[2],
            plain_spread=config.local_domain_weight == 0.0
            and not any(gathers(metric) for metric in config.metrics)
            and not (by_percentage.any() or coarseness.any()),
        ),
        by_percentage=by_percentage,
        capacity=state.capacity,
        coarseness=coarseness,
        **local_domains(state, topology, tables.services),
        **tables.groups,
        swap_cost=round(TENTHS * config.swap_cost) if config.use_move_cost_reports else TENTHS,
        add_cost=0 if config.use_move_cost_reports else TENTHS,
        max_moves=NO_BUDGET if config.max_moves is None else config.max_moves,
        max_node_moves=np.full(
            len(state.nodes), NO_BUDGET if config.max_moves_per_node is None else config.max_moves_per_node, np.int64
        ),
        max_service_moves=np.array(
            [NO_BUDGET if s.max_moves is None else s.max_moves for s in state.services] or [NO_BUDGET], np.int64
        ),
    )


def start_solution(problem: Problem) -> Solution:
    """Return the solution in which every replica stands where it stands now.

    Raises
    ------
    InvalidValueError
        If the peaks of a node could leave their 32 bits.
    """
    solution = fresh_solution(problem, problem.origin.copy())
    _check_range(solution)
    return solution


def _check_range(solution: Solution) -> None:
    """Refuse peaks whose sums could overflow (design section 14)."""
    if (highest_sum := int(solution.ceiling.max(initial=0))) > LARGEST_SUM:
        allowed = f"at most {LARGEST_SUM}: give a coarser Metric(step=...)"
        raise InvalidValueError("demand history", "peaks of one node in steps", highest_sum, allowed)


def move_limit(state: ClusterState, topology: Topology) -> Int:
    """Return `Problem.move_limit`: what is above it already may stay as full as it is."""
    if not topology.buffered:
        return topology.limit
    return np.minimum(topology.limit, np.maximum(topology.move_limit, standing_load(state)))


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


def _with_nowhere(nodes: Bool) -> Bool:
    """Return `nodes` with a last entry, true, for rows without a node; (N + 1,)."""
    return np.append(nodes, True)


def _suits_by_role(state: ClusterState, suit: Int) -> Int:
    """Return `Problem.suit`, (M,), from what each row's service asks: primaries may ask for more than the others."""
    binds = np.array([of.expression.binds_primary_only for of in state.suits], np.bool_)
    if not binds.any():
        return suit
    return np.where(binds[suit] & (state.rows.role == Role.PRIMARY), suit + len(state.suits), suit)


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
    """Return `Problem.prefers_siblings`: all that stand, and new ones where the partition has a standby.

    Without `prefer_existing_replica_locations`, only those of partitions with a standby.
    """
    table = state.rows
    everywhere = _by_service(state, [s.on_every_node for s in state.services], np.bool_)
    if state.config.preferred_location_constraint_priority < 0:
        return np.zeros(table.room, np.bool_)
    prefers: Bool = (table.node != NOWHERE) & ~everywhere & state.config.prefer_existing_replica_locations
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
