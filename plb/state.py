"""The cluster as arrays: one row a node, one row a replica, whole-number loads, and the maps from names to rows.

A replica row is a *role slot* of a partition: age, largest demand and sampled traces belong to it and survive moves. A
row without a node is a replica that is still to be placed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import attrs
import numpy as np

from plb.arrays import NOWHERE, Bool, Float, Int
from plb.config import PlbConfig
from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.expressions import Expression, parse_expression
from plb.model import MoveCost, Node, Partition, Replica, ReplicaState, Role, Service
from plb.plan import Move, MoveKind
from plb.risk.counter import replica_key
from plb.rows import RowTable
from plb.steps import MetricSteps

if TYPE_CHECKING:
    from plb.topology import Topology


@attrs.define(eq=False)
class PartitionRecord:
    """What the state knows of a partition: its rows by role slot."""

    name: str
    service: int
    created: float
    rows: list[int]
    promotions: int = 0
    version: int = 0
    """Rises with every update."""
    described: int | None = None
    """Number of the description that it has come from."""
    missing: int | None = None
    """Replicas that it misses, or below 0 has too many; None: what the target of its service says."""
    misplaced: int = 0
    """Of a service on every node: replicas on nodes that do not suit it, where no node misses one."""
    still: bool = False
    """True while it is in transition or in quorum loss: nothing of it moves."""
    role_load: dict[Role, dict[str, float]] = attrs.field(factory=dict)
    """Reported loads by role, for replicas that have no report of their own."""
    secondary_load: dict[str, dict[str, float]] = attrs.field(factory=dict)
    """Loads of secondaries reported node by node: by metric and name of the node."""
    move_cost: dict[Role, MoveCost] = attrs.field(factory=dict)
    """Reported move costs by role."""


@attrs.frozen
class Suit:
    """What a service asks of nodes.

    Parameters
    ----------
    expression
        Its placement constraint.
    blocked
        Names of the nodes it may not stand on.
    """

    expression: Expression
    blocked: frozenset[str]


class ClusterState:
    """Nodes, services, partitions and replicas, and nothing that follows from them."""

    def __init__(self, config: PlbConfig) -> None:
        self.config = config
        self.steps = MetricSteps(config.metrics)
        metrics = len(config.metrics)
        self.nodes: list[Node] = []
        self.node_index: dict[str, int] = {}
        self.capacity: Int = np.zeros((0, metrics), np.int64)
        self.services: list[Service] = []
        self.service_index: dict[str, int] = {}
        self.partitions: dict[str, PartitionRecord] = {}
        self.rows = RowTable(metrics)
        self.row_partition: dict[int, str] = {}
        self.suits: list[Suit] = [Suit(parse_expression(""), frozenset())]
        self.suit_index: dict[tuple[str, frozenset[str]], int] = {("", frozenset()): 0}
        self.service_suit: list[int] = []
        self.node_version = 0
        """Rises with every change to a node."""
        self.services_version = 0
        """Rises with every service that is made, changed or removed."""
        self.service_version: list[int] = []
        """For each service, rises with every change to it or to one of its partitions."""
        self._carried: tuple[int, Bool] = (-1, np.zeros((0, metrics), np.bool_))
        self.load_version: list[int] = []
        """For each service, rises with every report of a load or a move cost."""

    # nodes and services

    def put_node(self, node: Node) -> None:
        """Add a node, or replace the one of this name."""
        steps = self.steps.copy()
        capacity = steps.capacities(f"node {node.name}", node.capacities)
        self.steps = steps
        index = self.node_index.get(node.name)
        if index is None:
            self.node_index[node.name] = len(self.nodes)
            self.nodes.append(node)
            self.capacity = np.vstack([self.capacity, capacity])
        else:
            self.nodes[index] = node
            self.capacity[index] = capacity
        self.node_version += 1

    def put_service(self, service: Service) -> None:
        """Add a service, or replace the one of this name; partitions that exist keep their replicas."""
        item = f"service {service.name}"
        index = self.service_index.get(service.name)
        if index is not None and service.stateful != self.services[index].stateful:
            raise ConflictError(f"{item}: stateful cannot change")
        for role, load in service.default_load.items():
            self.steps.copy().loads(item, f"default_load[{role.name}]", load)
        for name in service.metrics or ():
            if name not in self.steps.index:
                raise UnknownNameError("metric", name, self.steps.index, f"{item}: metrics")
        suit = self._suit(item, service)
        if index is None:
            self.service_index[service.name] = len(self.services)
            self.services.append(service)
            self.service_suit.append(suit)
            self.service_version.append(0)
            self.load_version.append(0)
        else:
            self.services[index] = service
            self.service_suit[index] = suit
            self.service_version[index] += 1
            for record in self.partitions.values():
                if record.service == index:
                    record.version += 1
                    self._trim_waiting(record, service)
        self.services_version += 1
        if index is not None and service.metrics is not None:
            rows = np.flatnonzero(self.rows.used & (self.rows.service == index))
            self.rows.load[rows] *= self._carries()[index]

    def _carries(self) -> Bool:
        """Return which metrics the replicas of each service carry, (S, R); what they report of others is ignored."""
        if self._carried[0] != self.services_version:
            names = self.config.metric_names
            carried = [[s.metrics is None or name in s.metrics for name in names] for s in self.services]
            self._carried = self.services_version, np.array(carried, np.bool_).reshape(len(carried), len(names))
        return self._carried[1]

    def living_services(self) -> list[Service | None]:
        """Return the services by index; None where one was removed."""
        return [s if self.service_index.get(s.name) == index else None for index, s in enumerate(self.services)]

    def living_indices(self) -> Sequence[int]:
        """Return the indices of the services that were not removed."""
        if len(self.service_index) == len(self.services):
            return range(len(self.services))
        return sorted(self.service_index.values())

    def _suit(self, item: str, service: Service) -> int:
        key = (service.placement_constraint, service.blocked_nodes)
        index = self.suit_index.get(key)
        if index is None:
            suit = Suit(parse_expression(service.placement_constraint, item), service.blocked_nodes)
            index = self.suit_index[key] = len(self.suits)
            self.suits.append(suit)
        return index

    def remove_service(self, name: str) -> None:
        """Remove a service that has no partitions."""
        index = self._service(name)
        holders = [record.name for record in self.partitions.values() if record.service == index]
        if holders:
            raise ConflictError(f"service {name}: still has partition {holders[0]}; remove its partitions first")
        del self.service_index[name]
        self.services_version += 1

    def _service(self, name: str, context: str = "") -> int:
        if name not in self.service_index:
            raise UnknownNameError("service", name, self.service_index, context)
        return self.service_index[name]

    def node(self, name: str, context: str = "") -> int:
        """Return the index of a node."""
        if name not in self.node_index:
            raise UnknownNameError("node", name, self.node_index, context)
        return self.node_index[name]

    # partitions

    def partition(self, name: str, context: str = "") -> PartitionRecord:
        """Return the record of a partition."""
        if name not in self.partitions:
            raise UnknownNameError("partition", name, self.partitions, context)
        return self.partitions[name]

    def put_partition(self, partition: Partition) -> None:
        """Add a partition, or bring the known one to the replicas given; slots keep age and demand where they can."""
        item = f"partition {partition.name}"
        service = self._service(partition.service, item)
        described = self.services[service]
        allowed = _roles_of(described)
        placed = []
        for replica in partition.replicas:
            if replica.role not in allowed:
                names = " or ".join(role.name for role in allowed)
                raise InvalidValueError(item, "replicas", replica.role, f"{names} for service {described.name}")
            placed.append((replica, self.node(replica.node, item)))
        steps = self.steps.copy()
        defaults = {role: steps.loads(item, "default_load", described.default_load.get(role, {})) for role in allowed}
        record = self.partitions.get(partition.name)
        if record is not None and record.service != service:
            raise ConflictError(f"{item}: belongs to service {self.services[record.service].name}; it cannot change")
        if record is not None and _says_nothing_new(record, partition):
            record.version += 1
            return
        self.steps = steps
        if record is None:
            record = self.partitions[partition.name] = PartitionRecord(partition.name, service, partition.created, [])
        record.missing, record.described = partition.missing, partition.version
        record.version += 1
        record.still = partition.in_transition or partition.in_quorum_loss
        self._match_slots(record, described, placed, defaults)
        self.service_version[service] += 1

    def remove_partition(self, name: str) -> None:
        """Remove a partition and its replicas."""
        record = self.partition(name)
        for row in record.rows:
            del self.row_partition[row]
            self.rows.release(row)
        del self.partitions[name]
        self.service_version[record.service] += 1

    def _match_slots(
        self,
        record: PartitionRecord,
        service: Service,
        placed: Sequence[tuple[Replica, int]],
        defaults: dict[Role, Int],
    ) -> None:
        """Give every replica a slot of its role: the one already on its node, else any free one, else a new one."""
        table = self.rows
        slots = [row for row in record.rows if not (table.leaving[row] or table.standby[row])]
        old_node = {row: int(table.node[row]) for row in slots}
        free: dict[Role, list[int]] = {role: [] for role in defaults}
        others = {
            (replica.role, node, _leaves(replica)): replica for replica, node in placed if not _holds_slot(replica)
        }
        kept: dict[tuple[Role, int, bool], int] = {}
        for row in record.rows:
            key = (Role(table.role[row]), int(table.node[row]), bool(table.leaving[row]))
            if row in old_node:
                free[key[0]].append(row)
            elif key in others and key not in kept:
                kept[key] = row
            else:
                self._release(row)
        record.rows = slots
        standing = [(replica, node) for replica, node in placed if _holds_slot(replica)]
        matched: list[tuple[int, Replica, int]] = []
        later = []
        for replica, node in standing:
            same = [row for row in free[replica.role] if old_node[row] == node]
            if same:
                free[replica.role].remove(same[0])
                matched.append((same[0], replica, node))
            else:
                later.append((replica, node))
        for replica, node in later:
            row = free[replica.role].pop(0) if free[replica.role] else self._new_slot(record, replica.role, defaults)
            matched.append((row, replica, node))
        secondaries = {node for _, replica, node in matched if replica.role == Role.SECONDARY}
        for row, replica, node in matched:
            self._note_promotion(record, row, node, old_node, secondaries)
            table.node[row], table.pinned[row] = node, replica.pinned
            table.still[row] = record.still or replica.state is not ReplicaState.READY
            table.building[row] = replica.state is ReplicaState.IN_BUILD
        for role, rows in free.items():
            for row in rows:
                table.node[row], table.still[row] = NOWHERE, record.still
                table.pinned[row] = table.building[row] = False
            self._trim(record, role, rows, service, len(standing))
        self._fill_up(record, service, defaults)
        record.rows += kept.values()
        for key, replica in others.items():
            if key not in kept:
                kept[key] = self._note_departure(record, replica.role, key[1], defaults, old_node)
            self._describe(kept[key], replica)
        if record.still:
            table.still[record.rows] = True
        self._link(record)

    def _note_promotion(
        self, record: PartitionRecord, row: int, node: int, old_node: dict[int, int], secondaries: set[int]
    ) -> None:
        """Draw anew when a secondary became the primary and the old primary did not take its place."""
        before = old_node.get(row, NOWHERE)
        if self.rows.role[row] != Role.PRIMARY or before in (NOWHERE, node):
            return
        others = {at for other, at in old_node.items() if other != row}
        if node in others and before not in secondaries:
            record.promotions += 1
            self.rows.key[row] = self._key(record, record.rows.index(row))

    def _trim(self, record: PartitionRecord, role: Role, free: list[int], service: Service, standing: int) -> None:
        """Let go of empty slots beyond the target of the service."""
        waiting = sum(1 for row in record.rows if self.rows.node[row] == NOWHERE)
        surplus = standing + waiting - _target(record, service, standing)
        for row in reversed(free):
            if surplus <= 0 or role == Role.PRIMARY:
                return
            self._release(row)
            record.rows.remove(row)
            surplus -= 1

    def _trim_waiting(self, record: PartitionRecord, service: Service) -> None:
        """Let go of the slots that a lower target leaves without a use."""
        table = self.rows
        waiting = [row for row in record.rows if table.node[row] == NOWHERE and table.role[row] != Role.PRIMARY]
        standing = sum(1 for row in record.rows if table.node[row] != NOWHERE and not table.leaving[row])
        for role in {Role(table.role[row]) for row in waiting}:
            self._trim(record, role, [row for row in waiting if table.role[row] == role], service, standing)
        self._link(record)

    def _fill_up(self, record: PartitionRecord, service: Service, defaults: dict[Role, Int]) -> None:
        """Add empty slots up to the target: a primary first if a stateful partition has none."""
        standing = sum(1 for row in record.rows if self.rows.node[row] != NOWHERE)
        while len(record.rows) < _target(record, service, standing):
            has_primary = any(self.rows.role[row] == Role.PRIMARY for row in record.rows)
            role = Role.INSTANCE if not service.stateful else (Role.SECONDARY if has_primary else Role.PRIMARY)
            self._new_slot(record, role, defaults)

    def _new_slot(self, record: PartitionRecord, role: Role, defaults: dict[Role, Int]) -> int:
        row = self.rows.take()
        self.rows.role[row] = role
        self.rows.load[row] = self._expected_load(record, role, defaults[role])
        self.rows.service[row] = record.service
        self.rows.created[row] = record.created
        self.rows.key[row] = self._free_key(record)
        self.rows.still[row] = record.still
        record.rows.append(row)
        self.row_partition[row] = record.name
        return row

    def _expected_load(self, record: PartitionRecord, role: Role, default: Int) -> Int:
        """Return the load of a replica without a report of its own: that of its role."""
        load = default.copy()
        for name, value in record.role_load.get(role, {}).items():
            load[self.steps.index[name]] = self.steps.loads("", "", {name: value})[self.steps.index[name]]
        return load if self.services[record.service].metrics is None else load * self._carries()[record.service]

    def _key(self, record: PartitionRecord, slot: int) -> int:
        return replica_key(f"{record.name}@{record.promotions}" if record.promotions else record.name, slot)

    def _free_key(self, record: PartitionRecord) -> int:
        """Return the key of the first slot number that no row of the partition has: no two rows share their draws."""
        taken = {int(self.rows.key[row]) for row in record.rows}
        return next(key for slot in count() if (key := self._key(record, slot)) not in taken)

    def _note_departure(
        self, record: PartitionRecord, role: Role, node: int, defaults: dict[Role, Int], old_node: dict[int, int]
    ) -> int:
        """Add a departing end, with the load of the slot that moved away from there, until its own report."""
        table = self.rows
        moved = [row for row in record.rows if old_node.get(row) == node != table.node[row] and table.role[row] == role]
        twins = moved or [row for row in record.rows if table.role[row] == role]
        end = self._new_slot(record, role, {role: table.load[twins[-1]].copy()} if twins else defaults)
        table.node[end] = node
        if moved:
            table.arriving[moved[0]] = end
        return end

    def _describe(self, row: int, replica: Replica) -> None:
        """Note what a replica without a slot is: a standby, or one that leaves."""
        table = self.rows
        table.still[row] = True
        table.leaving[row] = _leaves(replica)
        table.standby[row] = not table.leaving[row]
        table.moving[row] = replica.leaving and replica.state is ReplicaState.READY
        if replica.state is ReplicaState.DROPPED:
            table.load[row] = 0

    def _release(self, row: int) -> None:
        for other in self.partitions[self.row_partition[row]].rows:
            if self.rows.arriving[other] == row:
                self.rows.arriving[other] = NOWHERE
        del self.row_partition[row]
        self.rows.release(row)

    def _link(self, record: PartitionRecord) -> None:
        for row, following in zip(record.rows, record.rows[1:] + record.rows[:1], strict=True):
            self.rows.sibling[row] = following

    # loads

    def row_on(self, partition: str, node: str) -> int:
        """Return the row of the replica of `partition` on `node`; the standing one before a leaving one."""
        item = f"partition {partition}"
        index = self.node(node, item)
        rows = [row for row in self.partition(partition).rows if self.rows.node[row] == index]
        if not rows:
            raise ConflictError(f"{item}: has no replica on node {node}")
        return min(rows, key=lambda row: bool(self.rows.leaving[row]))

    def set_load(self, row: int, item: str, loads: dict[str, float]) -> None:
        """Set the load of one row; metrics that are not named keep theirs."""
        steps = self.steps.copy()
        new = steps.loads(item, "load", loads)
        self.steps = steps
        carries = self._carries()[self.rows.service[row]]
        for name, value in loads.items():
            metric = steps.index[name]
            if carries[metric]:
                self.rows.load[row, metric] = new[metric]
                self.rows.largest_demand[row, metric] = max(self.rows.largest_demand[row, metric], value)
        self.rows.reported[row] = True
        self.load_version[self.rows.service[row]] += 1

    def set_role_load(
        self, partition: str, role: Role, loads: Mapping[str, float], *, only_to_come: bool = False
    ) -> None:
        """Set the load of all replicas of a role that have no report of their own, also, or only, of those to come."""
        record = self.partition(partition)
        self._check_role(record, role)
        steps = self.steps.copy()
        new = steps.loads(f"partition {partition}", f"load[{role.name}]", dict(loads))
        self.steps = steps
        record.role_load.setdefault(role, {}).update(loads)
        for row in record.rows:
            concerned = self.rows.node[row] == NOWHERE if only_to_come else not self.rows.reported[row]
            if self.rows.role[row] == role and concerned:
                for metric in [steps.index[name] for name in loads]:
                    self.rows.load[row, metric] = new[metric] * self._carries()[record.service, metric]
        self.load_version[record.service] += 1

    def set_secondary_loads(self, partition: str, loads: Mapping[str, Mapping[str, float]]) -> None:
        """Set the loads of secondaries by node and metric; those to come carry the rounded mean of the reported ones.

        A secondary that stands already keeps what it carries until it is reported. Without
        `use_separate_secondary_load` all carry the mean (semantics.md section 1, load reports).
        """
        record, item = self.partition(partition), f"partition {partition}"
        at = {name: self.node(name, item) for name in loads}
        steps = self.steps.copy()
        for name, load in loads.items():
            steps.loads(item, f"loads[{name}]", load)
        for name, load in loads.items():
            for metric, value in load.items():
                record.secondary_load.setdefault(metric, {})[name] = value
        reported = dict.fromkeys(metric for load in loads.values() for metric in load)
        values = {metric: record.secondary_load[metric].values() for metric in reported}
        means = {metric: math.floor(sum(known) / len(known) + 0.5) for metric, known in values.items()}
        separate = self.config.use_separate_secondary_load
        self.set_role_load(partition, Role.SECONDARY, means, only_to_come=separate)
        if not separate:
            return
        for name, load in loads.items():
            for row in record.rows:
                if self.rows.role[row] == Role.SECONDARY and self.rows.node[row] == at[name]:
                    self.set_load(row, item, dict(load))

    def set_move_cost(self, partition: str, role: Role, cost: MoveCost) -> None:
        """Set what moving the replicas of a role costs."""
        record = self.partition(partition)
        self._check_role(record, role)
        record.move_cost[role] = cost
        self.load_version[record.service] += 1

    def _check_role(self, record: PartitionRecord, role: Role) -> None:
        """Refuse a role that no replica of the partition can have."""
        roles = _roles_of(self.services[record.service])
        if role not in roles:
            names = " or ".join(allowed.name for allowed in roles)
            raise InvalidValueError(f"partition {record.name}", "role", role, names)

    def set_loads(self, rows: Int, loads: Float) -> None:
        """Set the loads of many rows at once; shapes (m,) and (m, R), user units. Checked as a whole first."""
        if rows.ndim != 1:
            raise InvalidValueError("report_loads", "replica_index.shape", rows.shape, "one dimension")
        if loads.shape != (len(rows), len(self.steps.metrics)):
            expected = f"shape ({len(rows)}, {len(self.steps.metrics)})"
            raise InvalidValueError("report_loads", "loads.shape", loads.shape, expected)
        if len(rows) == 0:
            return
        if rows.min() < 0 or rows.max() >= self.rows.room or not self.rows.used[rows].all():
            bad = next(int(row) for row in rows if not (0 <= row < self.rows.room and self.rows.used[row]))
            raise InvalidValueError("report_loads", "replica_index", bad, "an index from replicas()")
        if len(np.unique(rows)) < len(rows):
            bad = int(np.flatnonzero(np.bincount(rows) > 1)[0])
            raise InvalidValueError("report_loads", "replica_index", bad, "each index at most once")
        if not np.isfinite(loads).all() or loads.min() < 0:
            at, metric = np.argwhere(~np.isfinite(loads) | (loads < 0))[0]
            name = self.steps.metrics[metric].name
            item = f"partition {self.row_partition[int(rows[at])]}"
            raise InvalidValueError(item, f"load[{name}]", float(loads[at, metric]), "a finite number >= 0")
        steps = self.steps.copy()
        new = steps.bulk("report_loads", loads)
        self.steps = steps
        carries = self._carries()
        if not carries.all():
            new, loads = new * carries[self.rows.service[rows]], loads * carries[self.rows.service[rows]]
        self.rows.load[rows] = new
        self.rows.largest_demand[rows] = np.maximum(self.rows.largest_demand[rows], loads)
        self.rows.reported[rows] = True
        for service in np.unique(self.rows.service[rows]).tolist():
            self.load_version[service] += 1

    # what follows for a search

    def fill_every_node(self, topology: Topology) -> None:
        """Give every partition that is on every node as many slots as there are nodes without one of its replicas."""
        for record in self.partitions.values():
            service = self.services[record.service]
            if not service.on_every_node:
                continue
            open_to = topology.receives[0] & topology.suits[self.service_suit[record.service]]
            taken = {int(self.rows.node[row]) for row in record.rows if self.rows.node[row] != NOWHERE}
            wanted = sum(1 for node in np.flatnonzero(open_to).tolist() if node not in taken)
            role = Role.SECONDARY if service.stateful else Role.INSTANCE
            waiting = [row for row in record.rows if self.rows.node[row] == NOWHERE]
            for row in waiting[wanted:]:
                self._release(row)
                record.rows.remove(row)
            default = self.steps.loads(service.name, "default_load", service.default_load.get(role, {}))
            for _ in range(wanted - len(waiting)):
                self._new_slot(record, role, {role: default})
            suits = topology.suits[self.service_suit[record.service]]
            record.misplaced = 0 if wanted else sum(1 for node in taken if not suits[node])
            self._link(record)

    def surplus_of(self, record: PartitionRecord) -> int:
        """Return how many replicas a partition has too many."""
        service = self.services[record.service]
        if service.on_every_node:
            return record.misplaced
        if record.missing is not None:
            return max(0, -record.missing)
        slots = [row for row in record.rows if not (self.rows.leaving[row] or self.rows.standby[row])]
        return max(0, len(slots) - service.target_replicas) if service.target_replicas else 0

    def partition_version(self, name: str) -> int | None:
        """Return a number that rises with every update of a partition; None where there is none of that name."""
        record = self.partitions.get(name)
        return None if record is None else record.version

    def versions_of(self, services: Iterable[int]) -> tuple[object, object]:
        """Return versions of the nodes and of what was said of `services`, and of their loads."""
        chosen = list(services)
        state = (self.node_version, *(self.service_version[index] for index in chosen))
        return state, tuple(self.load_version[index] for index in chosen)

    def missing(self, partitions: Iterable[str] | None = None) -> list[int]:
        """Return the rows that wait for a place, parents of order: partitions as they came, primaries first."""
        records = self.partitions.values() if partitions is None else map(self.partition, partitions)
        return [row for record in records for row in record.rows if self.rows.node[row] == NOWHERE]

    # carrying out plans

    def check_moves(self, moves: Iterable[Move], *, leaving: bool) -> None:
        """Raise `ConflictError` if `moves` cannot be carried out one after the other; changes nothing."""
        table = self.rows
        node: dict[int, int] = {}  # where rows stand after the moves looked at so far
        held: set[tuple[str, int]] = set()  # nodes that departing ends will hold
        for move in moves:
            record = self.partition(move.partition)
            source = NOWHERE if move.source is None else self.node(move.source)
            target = NOWHERE if move.target is None else self.node(move.target)
            at = {row: node.get(row, int(table.node[row])) for row in record.rows}
            drops = move.kind is MoveKind.DROP
            standing = [row for row in record.rows if drops or not (table.leaving[row] or table.standby[row])]
            fitting = [row for row in standing if table.role[row] == move.role and at[row] == source]
            row = _preferred(fitting, move.index)
            on_target = [row for row in record.rows if at[row] == target and not table.standby[row]]
            if row == NOWHERE:
                raise ConflictError(f"{move}: no such replica is there any more; make a new plan")
            if move.kind is MoveKind.SWAP:
                partners = [other for other in on_target if other in standing and table.role[other] == Role.SECONDARY]
                if not partners:
                    raise ConflictError(f"{move}: no secondary is on {move.target} any more; make a new plan")
                node[partners[0]] = source
            elif (not drops and on_target) or (move.partition, target) in held:
                raise ConflictError(f"{move}: a replica of the partition is on {move.target}; make a new plan")
            if leaving and move.kind is MoveKind.MOVE:
                held.add((move.partition, source))
            node[row] = target

    def carry_out(self, move: Move, *, leaving: bool) -> None:
        """Let the replica of a move stand on its target; with `leaving`, keep a departing end on the source."""
        record = self.partition(move.partition)
        source = NOWHERE if move.source is None else self.node(move.source)
        target = NOWHERE if move.target is None else self.node(move.target)
        table = self.rows
        self.service_version[record.service] += 1
        record.version += not leaving
        if move.kind is MoveKind.DROP:
            self._drop(record, source, move)
            return
        row = self._slot_on(record, move.role, source, move.index)
        if move.kind is MoveKind.SWAP:
            table.node[self._slot_on(record, Role.SECONDARY, target)] = source
        else:
            self._replace_standby(record, target)
        table.node[row] = target
        if leaving and move.kind is MoveKind.MOVE:
            end = self._new_slot(record, move.role, {move.role: table.load[row].copy()})
            table.node[end], table.leaving[end] = source, True
            table.arriving[row] = end
            self._link(record)

    def _replace_standby(self, record: PartitionRecord, node: int) -> None:
        """Forget the standby on `node`, if there is one: a replica takes its place."""
        for row in [row for row in record.rows if self.rows.standby[row] and self.rows.node[row] == node]:
            self._release(row)
            record.rows.remove(row)
            self._link(record)

    def _drop(self, record: PartitionRecord, source: int, move: Move) -> None:
        rows = [row for row in record.rows if self.rows.node[row] == source and self.rows.role[row] == move.role]
        row = _preferred(rows, move.index)
        self._release(row)
        record.rows.remove(row)
        if record.missing is not None:
            record.missing = min(0, record.missing + 1)
        self._link(record)

    def _slot_on(self, record: PartitionRecord, role: Role, node: int, index: int = NOWHERE) -> int:
        table = self.rows
        on_node = [row for row in record.rows if table.node[row] == node]
        standing = [row for row in on_node if not (table.leaving[row] or table.standby[row])]
        return _preferred([row for row in standing if table.role[row] == role], index)

    def vacate(self, partition: str, node: str) -> None:
        """Forget the departing end of a move on `node`."""
        record = self.partition(partition)
        index = self.node(node, f"partition {partition}")
        for row in record.rows:
            if self.rows.leaving[row] and self.rows.node[row] == index:
                self._release(row)
                record.rows.remove(row)
                self._link(record)
                self.service_version[record.service] += 1
                record.version += 1
                return
        raise ConflictError(f"partition {partition}: no replica is leaving node {node}")


def _roles_of(service: Service) -> tuple[Role, ...]:
    """Return the roles that replicas of a service can have."""
    return (Role.PRIMARY, Role.SECONDARY) if service.stateful else (Role.INSTANCE,)


def _says_nothing_new(record: PartitionRecord, partition: Partition) -> bool:
    """Return whether a description repeats the known one (semantics.md section 1)."""
    return partition.version is not None and (partition.version, partition.missing) == (
        record.described,
        record.missing,
    )


def _holds_slot(replica: Replica) -> bool:
    """Return whether a replica is one of those that the partition should have."""
    return not replica.leaving and replica.state not in (ReplicaState.STANDBY, ReplicaState.DROPPED)


def _leaves(replica: Replica) -> bool:
    """Return whether a replica without a slot is on its way out; else it is a standby."""
    return replica.leaving or replica.state is ReplicaState.DROPPED


def _target(record: PartitionRecord, service: Service, standing: int) -> int:
    """Return how many replicas a partition should have of which `standing` are there."""
    if service.on_every_node:
        return 0
    return service.target_replicas if record.missing is None else standing + max(0, record.missing)


def _preferred(rows: Sequence[int], wanted: int) -> int:
    """Return the row that is wanted if it is among `rows`, else the first, or NOWHERE."""
    return wanted if wanted in rows else next(iter(rows), NOWHERE)
