"""The arrays of replicas, and the sums over their rows: changed rows are taken out, described again, and added.

Sums are whole numbers, so they equal sums that are made from scratch.
"""

from __future__ import annotations

from functools import lru_cache
from operator import add, sub
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from plb.array_types import NOWHERE, Bool, Int, Int8, Int32
from plb.compiler import kernel
from plb.constraints.affinity import AFFINITY_CHILD, FREE, STRANDED
from plb.constraints.application_sums import count_leaving, count_replica
from plb.energy.movement import move_cost_values
from plb.energy.terms import add_load_to_terms
from plb.evaluation.delta import add_to_node
from plb.model import MoveCost, Role
from plb.model.role import PRIMARY
from plb.settings.config import PlbConfig
from plb.state.arrays import TENTHS, Problem, Solution
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.demand_forecast import Forecast
from plb.state.replica_table import merged
from plb.state.tables import MOVE_COSTS
from plb.state.topology import Topology

Rows: TypeAlias = Int | slice
"""Some rows: their indices, or a slice of all."""


def arrays_of_replicas(state: ClusterState, topology: Topology, rows: Rows) -> dict[str, Any]:
    """Return the fields of `Problem` on each replica of `rows`, (m,), by name."""
    table = state.rows
    service = np.where(table.used[rows], table.service[rows], state.service_table.none)
    node, leaving, standby = table.node[rows], table.leaving[rows], table.standby[rows]
    feasibility_class = state.service_table.feasibility_class[service]
    immovable = leaving | standby | table.still[rows] | table.pinned[rows]
    may_move = table.used[rows] & ~(immovable | (table.arriving[rows] != NOWHERE))
    if topology.blocked is not None:
        may_move &= ~topology.blocked[feasibility_class, node]
    return {
        "load": table.load[:-1][rows],
        "sibling": table.sibling[rows],
        "role": table.role[rows],
        "leaving": leaving,
        "service": service.astype(np.int32),
        "feasibility_class": _feasibility_classes_by_role(state, feasibility_class, table.role[rows]),
        "kind": _kinds(state, service, node),
        "prefers_siblings": _prefers_siblings(state, service, rows),
        "application": state.service_table.application[service],
        "unspread": leaving | standby,
        "standby": standby,
        "movable": may_move & ~table.upgrading[rows] & _with_nowhere(topology.counted)[node],
        "repairable": may_move & ~_held_by_upgrade(state, rows) & _with_nowhere(topology.watched)[node],
        "origin": node,
        "move_cost": _move_costs(state, service, rows),
    }


def _held_by_upgrade(state: ClusterState, rows: Rows) -> Bool:
    """Return which of replicas `rows` no repair moves because of an upgrade, (m,)."""
    if state.config.allow_constraint_check_fixes_during_application_upgrade:
        return state.rows.marked[rows]
    return state.rows.upgrading[rows]


def costs_of_moves(state: ClusterState) -> dict[str, Any]:
    """Return the fields of `Problem` on the costs of moves that are the same for all replicas, in tenths of a move."""
    config = state.config
    reported = config.use_move_cost_reports
    return {
        "unit_cost": np.full(state.rows.capacity, TENTHS, np.int64),
        "swap_cost": round(TENTHS * config.swap_cost) if reported else TENTHS,
        "add_cost": 0 if reported else TENTHS,
    }


def affinities(state: ClusterState) -> dict[str, Any]:
    """Return the fields of `Problem` on children and their parents (docs/constraints/affinity.md)."""
    children = state.service_table.children()
    fields = {"related": bool(children), "parents_move": _share_with_parents(state.config)}
    if not children:
        return fields | _without_parents(state.rows.capacity)
    fields |= {name: array.copy() for name, array in _without_parents(state.rows.capacity).items()}
    for service in children:
        parent_name = state.services[service].affinity_to
        if parent_name is not None and parent_name in state.service_index:
            parents = [*state.service_partitions[state.service_index[parent_name]].values()]
            for record in state.service_partitions[service].values():
                _tie(state, fields, record, parents)
    return fields


@lru_cache(maxsize=1)
def _without_parents(capacity: int) -> dict[str, Any]:
    """Return the arrays of `affinities` by name, with `capacity` entries each, for rows without parents or children."""
    return {
        "parent_row": np.full(capacity, NOWHERE),
        "first_child": np.full(capacity, NOWHERE),
        "next_child": np.full(capacity, NOWHERE),
        "affinity": np.zeros(capacity, np.int64),
        "aligned": np.zeros(capacity, np.bool_),
        "loose": np.zeros(capacity, np.bool_),
    }


def _share_with_parents(config: PlbConfig) -> float:
    """Return `Problem.parents_move`: the share of repair attempts that may move parents to join their children."""
    if not config.move_parent_to_fix_affinity_violation:
        return 0.0
    return config.move_parent_to_fix_affinity_violation_transition_percentage


def _tie(state: ClusterState, fields: dict[str, Any], record: PartitionRecord, parents: list[PartitionRecord]) -> None:
    """Connect the rows of `record`, a partition of a child, with the rows of its parent, in the arrays `fields`.

    `parents`: the partitions of the parent service; the tie needs exactly one, with replicas.
    """
    rows, service = record.rows, state.services[record.service]
    if len(parents) != 1 or not parents[0].rows or not rows:
        may_stand_alone = not parents and state.config.place_child_without_parent
        fields["affinity"][rows] = FREE if may_stand_alone else STRANDED
        return
    parent_rows = parents[0].rows
    if not state.config.place_child_without_parent and (state.rows.node[parent_rows] == NOWHERE).all():
        fields["affinity"][rows] = STRANDED
        return
    fields["affinity"][rows], fields["parent_row"][rows] = AFFINITY_CHILD, parent_rows[0]
    fields["next_child"][rows] = fields["first_child"][parent_rows[0]]
    fields["first_child"][parent_rows] = rows[0]
    fields["aligned"][rows] = service.aligned and _has_primary(state, rows) and _has_primary(state, parent_rows)
    is_larger = service.target_replicas > state.services[parents[0].service].target_replicas > 0
    fields["loose"][rows] = is_larger and state.config.allow_higher_child_target_replica_count_for_affinity


def _has_primary(state: ClusterState, rows: list[int]) -> bool:
    """Return whether one of the rows of a partition is a primary that does not disappear."""
    table = state.rows
    return bool(((table.role[rows] == PRIMARY) & ~table.leaving[rows]).any())


def _with_nowhere(nodes: Bool) -> Bool:
    """Return a mask of nodes, (N,), with a last entry, true, that NOWHERE selects; (N + 1,)."""
    return np.append(nodes, True)


def _feasibility_classes_by_role(state: ClusterState, feasibility_class: Int32, role: Int) -> Int32:
    """Return `Problem.feasibility_class` of rows, (m,), from the service's `feasibility_class` and `role`, (m,) each.

    Primaries may have other classes.
    """
    if not any(record.expression.binds_primary_only for record in state.feasibility_classes):
        return feasibility_class
    binds_primary = np.array([record.expression.binds_primary_only for record in state.feasibility_classes], np.bool_)
    class_count = np.int32(len(state.feasibility_classes))
    return np.where(
        binds_primary[feasibility_class] & (role == PRIMARY), feasibility_class + class_count, feasibility_class
    )


def _kinds(state: ClusterState, service: Int, node: Int) -> Int8:
    """Return `Problem.kind`, (m,): 0 for a placed replica, 1 for a new one, 2 if it is stateless on every node.

    `service`, `node`: (m,) of each row. A new one of a service with one target replica may have kind 0 as well.
    """
    table = state.service_table
    kinds = np.ones(len(service), np.int8)
    if state.config.is_singleton_replica_move_allowed_during_upgrade:
        kinds[table.target_replicas[service] == 1] = 0
    kinds[(table.on_every_node & ~table.stateful)[service]] = 2
    kinds[node != NOWHERE] = 0
    return kinds


def _prefers_siblings(state: ClusterState, service: Int, rows: Rows) -> Bool:
    """Return `Problem.prefers_siblings` of replicas `rows`, (m,): of placed replicas, and of new ones beside a standby.

    A replica with the mark of a returning primary counts as a standby. If upgrade domains are completed in a running
    upgrade, all new replicas prefer siblings, or the new replicas of the application that is upgraded. `service`: (m,).
    """
    table, config = state.rows, state.config
    node = table.node[rows]
    if config.preferred_location_constraint_priority < 0:
        return np.zeros(len(node), np.bool_)
    is_on_some_nodes = ~state.service_table.on_every_node[service]
    is_placed = node != NOWHERE
    prefers: Bool = (
        is_placed & is_on_some_nodes if config.prefer_existing_replica_locations else np.zeros(len(node), np.bool_)
    )
    if state.upgraded_domains and config.prefer_upgraded_uds:
        prefers |= ~is_placed & is_on_some_nodes
    elif state.applications.upgrading and config.prefer_upgraded_uds:
        application = state.service_table.application[service]
        prefers |= ~is_placed & is_on_some_nodes & np.isin(application, state.applications.upgrading)
    _mark_beside_standby(table.sibling, table.standby | table.regains, np.arange(table.capacity)[rows], prefers)
    return prefers


@kernel
def _mark_beside_standby(sibling: Int, standby: Bool, rows: Int, prefers: Bool) -> None:
    """Set `prefers`, (m,), for the replicas `rows` whose partition has a standby; `sibling`, `standby`: (M,)."""
    for index in range(rows.shape[0]):
        row = rows[index]
        neighbour = sibling[row]
        prefers[index] |= standby[row]
        while neighbour != row and not prefers[index]:
            prefers[index] = standby[neighbour]
            neighbour = sibling[neighbour]


def _move_costs(state: ClusterState, service: Int, rows: Rows) -> Int:
    """Return `Problem.move_cost` of replicas `rows`, (m,), in tenths of a move; `service`: (m,)."""
    indices = np.arange(state.rows.capacity)[rows]
    if not state.config.use_move_cost_reports:
        return np.full(len(indices), TENTHS, np.int64)
    values = move_cost_values(state.config)
    move_cost = state.service_table.move_cost[service]  # index in MOVE_COSTS; below 0: -1 - number of moves
    levels = np.array([values[cost] for cost in MOVE_COSTS], np.int64)[np.maximum(move_cost, 0).astype(np.int64)]
    costs: Int = np.where(move_cost >= 0, levels, np.rint(TENTHS * (-1.0 - move_cost)).astype(np.int64))
    for index, row in enumerate(indices.tolist()):
        if state.rows.used[row] and (reported := state.partitions[state.row_partition[row]].move_cost):
            cost = reported.get(Role(int(state.rows.role[row])))
            if cost is not None:
                costs[index] = values[cost] if isinstance(cost, MoveCost) else round(TENTHS * cost)
    return costs


class RowNumbers(NamedTuple):
    """How many rows there are of each kind."""

    replicas: int
    """Rows in use that are no departing ends."""
    preferring: int
    """Rows with `Problem.prefers_siblings`."""
    unspread: int
    """Rows with `Problem.unspread`."""
    standbys: int
    """Rows with `Problem.standby`."""


class RowChanges(NamedTuple):
    """Rows whose part of the sums is another, ascending."""

    described: Int
    """The rows to describe again."""
    changed: Int
    """These, and the rows with other loads."""
    due: Int
    """The rows whose peaks are due."""


class RowSums:
    """The sums over all rows that no array of a solution has, and what each row is in them."""

    def __init__(self, state: ClusterState, problem: Problem) -> None:
        self._state = state
        self._building: Bool = state.rows.building.copy()
        """(M,) whether the sums have the row as one in build; the table of the state may be ahead of them."""
        self._used: Bool = state.rows.used.copy()
        """(M,) whether the sums have the row as one in use."""
        self.numbers = self._numbers_of(problem, slice(None))
        self.all_load: Int = problem.load.sum(axis=0)
        """(R,) quanta of all rows together."""

    def change(
        self,
        problem: Problem,
        solution: Solution,
        topology: Topology,
        demand_forecast: Forecast,
        rows: RowChanges,
    ) -> Bool:
        """Take over changed loads, describe rows again, renew peaks, and update all sums over rows, in place.

        Return a mask of the nodes of which the violations have to be counted again, (N,).
        """
        state, described = self._state, rows.described
        stale = np.zeros(len(problem.limit), np.bool_)
        _enter_loads(problem, solution, rows.changed, state.rows.load, self.all_load, stale)
        renewed = merged(described, rows.due)
        if len(renewed):
            _add_rows(problem, solution, self._building, renewed, -1, stale)
        if len(described):
            self.numbers = RowNumbers(*map(sub, self.numbers, self._numbers_of(problem, described)))
            for name, values in arrays_of_replicas(state, topology, described).items():
                getattr(problem, name)[described] = values
            solution.node[described] = problem.origin[described]
            self._building[described] = state.rows.building[described]
            self._used[described] = state.rows.used[described]
        demand_forecast.renew(state)
        if len(described):
            self.numbers = RowNumbers(*map(add, self.numbers, self._numbers_of(problem, described)))
        if len(renewed):
            _add_rows(problem, solution, self._building, renewed, 1, stale)
        return stale

    def _numbers_of(self, problem: Problem, rows: Int | slice) -> RowNumbers:
        """Return how many of `rows` are in use, prefer siblings, do not count for the spread, and are standbys."""
        masks = (
            self._used[rows] & ~problem.leaving[rows],
            problem.prefers_siblings[rows],
            problem.unspread[rows],
            problem.standby[rows],
        )
        return RowNumbers(*(int(np.count_nonzero(mask)) for mask in masks))


@kernel
def _enter_loads(problem: Problem, solution: Solution, rows: Int, load: Int, all_load: Int, stale: Bool) -> None:
    """Take over the loads of `rows` from `load`, (M+1, R) quanta of all rows, also in `all_load`, (R,), and other sums.

    `stale`: (N,) set to true for nodes with such rows whose violations depend on what was reported.
    """
    for row in rows:
        node = problem.origin[row]
        is_present = node != NOWHERE and not problem.leaving[row]
        if is_present:
            add_load_to_terms(problem, solution, row, node, -1)
            stale[node] |= problem.timeline
        if problem.grouped and node != NOWHERE:
            _count_in_application(problem, solution, row, node, -1)
        for metric in range(load.shape[1]):
            change = load[row, metric] - problem.load[row, metric]
            all_load[metric] += change
            if node != NOWHERE and not is_present:
                problem.leaving_load[node, metric] += change
            problem.load[row, metric] = load[row, metric]
        if is_present:
            add_load_to_terms(problem, solution, row, node, 1)
        if problem.grouped and node != NOWHERE:
            _count_in_application(problem, solution, row, node, 1)


@kernel
def _count_in_application(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign`, 1 or -1, times `row` on `node` to its application's sums, or if it leaves, to its leaving load."""
    if problem.leaving[row]:
        count_leaving(problem, row, node, sign)
    else:
        count_replica(problem, solution, row, node, sign)


@kernel
def _add_rows(problem: Problem, solution: Solution, building: Bool, rows: Int, sign: int, stale: Bool) -> None:
    """Add `sign`, 1 or -1, times each replica of `rows` to all sums of its node.

    `building`: (M,) whether the row is in build; `stale`: (N,) set to true for nodes with such rows that stay.
    """
    for row in rows:
        node = problem.origin[row]
        if node == NOWHERE:
            continue
        if building[row]:
            problem.in_build[node] += sign
        if problem.leaving[row]:
            for metric in range(problem.load.shape[1]):
                problem.leaving_load[node, metric] += sign * problem.load[row, metric]
        else:
            add_to_node(problem, solution, row, node, sign)
            stale[node] = True
        if problem.grouped:
            _count_in_application(problem, solution, row, node, sign)
