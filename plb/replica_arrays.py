"""What `plb.arrays.Problem` says of the replicas, (M,) each: by role slot, by service, and by who follows whom."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.arrays import NOWHERE, TENTHS, Bool, Int, Int8, Int32
from plb.config import PlbConfig
from plb.constraints.affinity import FOLLOWS, FREE, STRANDED
from plb.model import MoveCost, Role
from plb.state import ClusterState, PartitionRecord
from plb.topology import Topology


def arrays_of_replicas(state: ClusterState, topology: Topology, member: Bool) -> dict[str, Any]:
    """Return what `Problem` says of each replica by itself.

    Parameters
    ----------
    member
        (M,) whether a replica is one of those that are searched.
    """
    table = state.rows
    suit = _by_service(state, state.service_suit, np.int32)
    free = member & ~table.leaving & ~table.standby & ~table.still & ~table.pinned & (table.arriving == NOWHERE)
    free &= ~table.upgrading
    free &= ~_is_blocked(state, table.node, suit)
    return {
        "load": table.load,
        "sibling": table.sibling,
        "role": table.role,
        "leaving": table.leaving,
        "service": table.service.astype(np.int32),
        "suit": _suits_by_role(state, suit),
        "kind": _kinds(state),
        "prefers_siblings": (prefers := _prefers_siblings(state)),
        "preferring": bool(prefers.any()),
        "unspread": (unspread := table.leaving | table.standby),
        "unspread_rows": int(unspread.sum()),
        "standby": table.standby,
        "standbys": int(table.standby.sum()),
        "movable": free & _with_nowhere(topology.counted)[table.node],
        "mendable": free & _with_nowhere(topology.watched)[table.node],
        "origin": table.node.copy(),
    }


def costs_of_moves(state: ClusterState) -> dict[str, Any]:
    """Return what `Problem` says of the costs of moves, in tenths of a move."""
    config = state.config
    tenths = np.full(state.rows.room, TENTHS, np.int64)
    reported = config.use_move_cost_reports
    return {
        "move_cost": _move_costs(state) if reported else tenths,
        "unit_cost": tenths,
        "swap_cost": round(TENTHS * config.swap_cost) if reported else TENTHS,
        "add_cost": 0 if reported else TENTHS,
    }


def affinities(state: ClusterState) -> dict[str, Any]:
    """Return what `Problem` says of children and their parents (semantics.md section 4, affinity)."""
    room = state.rows.room
    found: dict[str, Any] = {name: np.full(room, NOWHERE) for name in ("parent_row", "first_child", "next_child")}
    found |= {
        "related": any(service.affinity_to is not None for service in state.services),
        "affinity": np.zeros(room, np.int64),
        "aligned": np.zeros(room, np.bool_),
        "loose": np.zeros(room, np.bool_),
        "parents_move": _share_with_parents(state.config),
    }
    if not found["related"]:
        return found
    partitions: dict[int, list[PartitionRecord]] = {}
    for record in state.partitions.values():
        partitions.setdefault(record.service, []).append(record)
    for service, records in partitions.items():
        parent = state.services[service].affinity_to
        if parent is not None and parent in state.service_index:
            for record in records:
                _tie(state, found, record, partitions.get(state.service_index[parent], []))
    return found


def _share_with_parents(config: PlbConfig) -> float:
    """Return `Problem.parents_move`."""
    if not config.move_parent_to_fix_affinity_violation:
        return 0.0
    return config.move_parent_to_fix_affinity_violation_transition_percentage


def _tie(state: ClusterState, found: dict[str, Any], record: PartitionRecord, parents: list[PartitionRecord]) -> None:
    """Tie the rows of a child to those of its parent, where it has one partition that stands.

    Parameters
    ----------
    found
        Arrays of `affinities`; changed.
    parents
        The partitions of the parent.
    """
    rows, service = record.rows, state.services[record.service]
    if len(parents) != 1 or not parents[0].rows or not rows:
        alone = not parents and state.config.place_child_without_parent
        found["affinity"][rows] = FREE if alone else STRANDED
        return
    above = parents[0].rows
    if not state.config.place_child_without_parent and (state.rows.node[above] == NOWHERE).all():
        found["affinity"][rows] = STRANDED
        return
    found["affinity"][rows], found["parent_row"][rows] = FOLLOWS, above[0]
    found["next_child"][rows] = found["first_child"][above[0]]
    found["first_child"][above] = rows[0]
    found["aligned"][rows] = service.aligned
    larger = service.target_replicas > state.services[parents[0].service].target_replicas > 0
    found["loose"][rows] = larger and state.config.allow_higher_child_target_replica_count_for_affinity


def _with_nowhere(nodes: Bool) -> Bool:
    """Return `nodes` with a last entry, true, for rows without a node; (N + 1,)."""
    return np.append(nodes, True)


def _suits_by_role(state: ClusterState, suit: Int32) -> Int32:
    """Return `Problem.suit`, (M,), from what each row's service asks: primaries may ask for more than the others."""
    binds = np.array([of.expression.binds_primary_only for of in state.suits], np.bool_)
    if not binds.any():
        return suit
    above = np.int32(len(state.suits))
    return np.where(binds[suit] & (state.rows.role == Role.PRIMARY), suit + above, suit)


def _is_blocked(state: ClusterState, node: Int, suit: Int32) -> Bool:
    """Return which rows stand on a node that is blocked for their service, (M,)."""
    if not any(of.blocked for of in state.suits):
        return np.zeros(len(node), np.bool_)
    blocked = np.array([[one.name in of.blocked for one in state.nodes] + [False] for of in state.suits], np.bool_)
    found: Bool = blocked[suit, node]
    return found


def _kinds(state: ClusterState) -> Int8:
    """Return `Problem.kind`, (M,): 0 for a replica that stands, 1 for a new one, 2 if it is stateless on every node.

    A new one of a service that wants no other may be as particular as one that stands.
    """
    particular = state.config.is_singleton_replica_move_allowed_during_upgrade
    singleton = _by_service(state, [particular and s.target_replicas == 1 for s in state.services], np.bool_)
    everywhere = _by_service(state, [s.on_every_node and not s.stateful for s in state.services], np.bool_)
    kinds = np.where(state.rows.node != NOWHERE, 0, np.where(everywhere, 2, np.where(singleton, 0, 1)))
    return kinds.astype(np.int8)


def _prefers_siblings(state: ClusterState) -> Bool:
    """Return `Problem.prefers_siblings`: all that stand, and new ones where the partition has a standby.

    Without `prefer_existing_replica_locations`, only those of partitions with a standby. While upgrade domains are done
    in an upgrade that goes on, all new ones.
    """
    table, config = state.rows, state.config
    everywhere = _by_service(state, [s.on_every_node for s in state.services], np.bool_)
    if config.preferred_location_constraint_priority < 0:
        return np.zeros(table.room, np.bool_)
    stands = table.node != NOWHERE
    prefers: Bool = stands & ~everywhere & config.prefer_existing_replica_locations
    if state.upgraded_domains and config.prefer_upgraded_uds:
        prefers |= ~stands & ~everywhere
    for row in np.flatnonzero(table.standby).tolist():
        prefers[state.partitions[state.row_partition[row]].rows] = True
    return prefers


def _by_service(state: ClusterState, values: list[int], dtype: type) -> np.ndarray:
    """Return a value of each row's service."""
    return np.array(values or [0], dtype)[state.rows.service]


def _move_costs(state: ClusterState) -> Int:
    values = _move_cost_values(state.config)
    costs: Int = _by_service(state, [values[s.move_cost] for s in state.services], np.int64)
    for record in state.partitions.values():
        for row in record.rows if record.move_cost else ():
            cost = record.move_cost.get(Role(int(state.rows.role[row])))
            if cost is not None:
                costs[row] = values[cost]
    return costs


def _move_cost_values(config: PlbConfig) -> dict[MoveCost, int]:
    """Return what a move of each cost counts, in tenths of a move."""
    values = {
        MoveCost.ZERO: config.move_cost_zero_value,
        MoveCost.LOW: config.move_cost_low_value,
        MoveCost.MEDIUM: config.move_cost_medium_value,
        MoveCost.HIGH: config.move_cost_high_value,
    }
    return {cost: round(TENTHS * value) for cost, value in values.items()}
