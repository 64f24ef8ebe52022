"""Updates of partitions in the state, many at once; a refused update changes nothing.

New partitions with nothing but places get their rows together; `match_slots` brings the others to their description.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import uninterrupted
from plb.errors import ConflictError, InvalidValueError
from plb.model import Partition, Role
from plb.model.partition import READY, UNMARKED, PartitionColumns
from plb.model.quanta import MetricQuanta
from plb.model.role import ROLES
from plb.risk.counter_based_random import replica_keys
from plb.state.cluster_state import UNNUMBERED, ClusterState, PartitionRecord
from plb.state.role_slots import default_loads, match_slots, roles_of
from plb.validation import check_distinct

Value = TypeVar("Value")

PRIMARY, SECONDARY, INSTANCE = ROLES


class _Batch(NamedTuple):
    """Descriptions of n partitions with m replicas; services and nodes by their indices."""

    partitions: Sequence[Partition]
    names: Sequence[str]
    service: list[int]
    created: list[float]
    version: list[int | None]
    is_special: list[bool]
    """(n,) whether more is described than places and roles of replicas."""
    size: list[int]
    """(n,) replicas of each partition."""
    node: list[int]
    """(m,) partition by partition; so is `role`."""
    role: list[int]


class _Slots(NamedTuple):
    """The slots of new partitions, partition by partition."""

    size: list[int]
    """(n,) slots of each partition."""
    service: list[int]
    """(m,)"""
    node: list[int]
    """(m,)"""
    role: list[int]
    """(m,)"""


@uninterrupted
def put_partitions(state: ClusterState, partitions: Sequence[Partition]) -> list[PartitionRecord]:
    """Add partitions, or give present ones other replicas; slots keep age and demand where they can."""
    if isinstance(partitions, PartitionColumns):
        batch = _batch_of_columns(state, partitions)
    else:
        batch = _batch_of(state, partitions)
    _check(state, batch)
    state.quanta, defaults = _defaults(state, batch.service)
    state.default_loads.update(defaults)
    special = [at for at, name in enumerate(batch.names) if batch.is_special[at] or name in state.partitions]
    begin, offset = 0, [0, *accumulate(batch.size)]
    for at in (*special, len(batch.names)):
        if begin < at:
            _add_plain(state, _part_of(batch, offset, begin, at))
        if at < len(batch.names):
            _put(state, batch.partitions[at], batch.service[at])
        begin = at + 1
    return [state.partitions[name] for name in batch.names]


def _batch_of(state: ClusterState, partitions: Sequence[Partition]) -> _Batch:
    """Return descriptions as a batch; refuse unknown services and nodes."""
    replicas = [replica for partition in partitions for replica in partition.replicas]
    names = [partition.name for partition in partitions]
    size = [len(partition.replicas) for partition in partitions]
    return _Batch(
        partitions,
        names,
        _services(state, names, [partition.service for partition in partitions]),
        [partition.created for partition in partitions],
        [partition.version for partition in partitions],
        [_is_special(partition) for partition in partitions],
        size,
        _nodes(state, names, size, [replica.node for replica in replicas]),
        [replica.role for replica in replicas],
    )


def _batch_of_columns(state: ClusterState, columns: PartitionColumns) -> _Batch:
    """Return `_batch_of` columns, without an object for each replica."""
    names, is_there = columns.names, columns.is_there
    size = np.count_nonzero(is_there, axis=1).tolist()
    return _Batch(
        columns,
        names,
        _services(state, names, columns.services),
        columns.created.tolist(),
        [None] * len(names),
        [False] * len(names),
        size,
        _nodes(state, names, size, columns.nodes[is_there].tolist()),
        columns.roles[is_there].tolist(),
    )


def _services(state: ClusterState, names: Sequence[str], services: Sequence[str]) -> list[int]:
    """Return the indices of the services of partitions with these names."""
    indices = [state.service_index.get(service, NOWHERE) for service in services]
    if NOWHERE in indices:
        at = indices.index(NOWHERE)
        state.service(services[at], f"partition {names[at]}")  # raises
    return indices


def _nodes(state: ClusterState, names: Sequence[str], size: Sequence[int], nodes: Sequence[str]) -> list[int]:
    """Return the indices of the nodes of all replicas."""
    indices = [state.node_index.get(node, NOWHERE) for node in nodes]
    if NOWHERE in indices:
        at = indices.index(NOWHERE)
        state.node(nodes[at], f"partition {_of_replicas(names, size)[at]}")  # raises
    return indices


def _of_replicas(values: Iterable[Value], size: Iterable[int]) -> list[Value]:
    """Return a value of each partition for each of its replicas; `size`: how many these are."""
    return [value for value, replicas in zip(values, size, strict=True) for _ in range(replicas)]


def _is_special(partition: Partition) -> bool:
    """Return whether a description has more than places and roles of replicas."""
    if partition.missing is not None or partition.in_transition or partition.in_quorum_loss or partition.upgrading:
        return True
    for replica in partition.replicas:
        if replica.state is not READY or replica.upgrade is not UNMARKED:
            return True
        if replica.pinned or replica.leaving or replica.to_be_dropped:
            return True
    return False


def _check(state: ClusterState, batch: _Batch) -> None:
    """Refuse a name that is there twice, a role that the service does not have, and another service than before."""
    check_distinct("partition", batch.names)
    uses = [*zip(_of_replicas(batch.service, batch.size), batch.role, strict=True)]
    for service, role in dict.fromkeys(uses):
        allowed = roles_of(state.services[service])
        if role not in allowed:
            name = _of_replicas(batch.names, batch.size)[uses.index((service, role))]
            roles = f"{' or '.join(of.name for of in allowed)} for service {state.services[service].name}"
            raise InvalidValueError(f"partition {name}", "replicas", ROLES[role], roles)
    for name, service in zip(batch.names, batch.service, strict=True):
        record = state.partitions.get(name)
        if record is not None and record.service != service:
            before = state.services[record.service].name
            raise ConflictError(f"partition {name}: belongs to service {before}; it cannot change")


def _defaults(state: ClusterState, services: Iterable[int]) -> tuple[MetricQuanta, dict[int, Mapping[Role, Int]]]:
    """Return the default loads of services that were not needed yet, and the quanta that they fix."""
    quanta, defaults = state.quanta, dict[int, Mapping[Role, Int]]()
    for service in services:
        if service not in state.default_loads and service not in defaults:
            quanta = quanta.copy() if quanta is state.quanta else quanta
            defaults[service] = default_loads(quanta, state.services[service])
    return quanta, defaults


def _part_of(batch: _Batch, offset: Sequence[int], begin: int, end: int) -> _Batch:
    """Return the partitions of a batch from `begin` to `end`; `offset`: the first replica of each, and their number."""
    if (begin, end) == (0, len(batch.names)):
        return batch
    low, high = offset[begin], offset[end]
    fields = ("names", "service", "created", "version", "size")
    columns = {field: getattr(batch, field)[begin:end] for field in fields}
    return batch._replace(**columns, node=batch.node[low:high], role=batch.role[low:high])


def _add_plain(state: ClusterState, batch: _Batch) -> None:
    """Add new partitions without anything special, with the slots that they have and miss."""
    slots = _slots_of_new(state, batch)
    table = state.rows
    rows = table.take(len(slots.node))
    table.node[rows], table.role[rows], table.service[rows] = slots.node, slots.role, slots.service
    table.load[rows] = _loads(state, slots)
    table.created[rows] = np.repeat(np.array(batch.created, np.float64), slots.size)
    table.key[rows] = replica_keys(batch.names, slots.size)
    records = _records(batch, slots.size, rows.tolist(), state.partitions_made)
    table.sibling[rows] = [row for record in records for row in (*record.rows[1:], *record.rows[:1])]
    state.add_partitions(records)
    for record in records:
        state.row_partition.update(dict.fromkeys(record.rows, record.name))
        state.service_version[record.service] += 1


def _slots_of_new(state: ClusterState, batch: _Batch) -> _Slots:
    """Return the slots of new partitions: those described, then missing ones up to the target of the service."""
    slots = _Slots([], [], [], [])
    end = 0
    for service, size in zip(batch.service, batch.size, strict=True):
        begin, end = end, end + size
        described = state.services[service]
        missing = 0 if described.on_every_node else max(0, described.target_replicas - size)
        slots.size.append(size + missing)
        slots.service.extend([service] * (size + missing))
        slots.node.extend(batch.node[begin:end])
        slots.role.extend(batch.role[begin:end])
        if missing:
            leads = described.stateful and PRIMARY not in batch.role[begin:end]
            slots.node.extend([NOWHERE] * missing)
            slots.role.extend([PRIMARY] * leads)
            slots.role.extend([SECONDARY if described.stateful else INSTANCE] * (missing - leads))
    return slots


def _loads(state: ClusterState, slots: _Slots) -> Int:
    """Return the default loads of slots, (m, R)."""
    kinds = [service * len(Role) + role for service, role in zip(slots.service, slots.role, strict=True)]
    position = {kind: at for at, kind in enumerate(dict.fromkeys(kinds))}
    reports = state.service_table.has_metric
    loads = np.zeros((len(position), reports.shape[1]), np.int64)
    for kind, at in position.items():
        service, role = divmod(kind, len(Role))
        loads[at] = state.default_loads[service][ROLES[role]] * reports[service]
    return loads[[position[kind] for kind in kinds]]


def _records(batch: _Batch, size: Sequence[int], rows: list[int], number: int) -> list[PartitionRecord]:
    """Return the records of new partitions with their rows; `number`: that of the first."""
    records: list[PartitionRecord] = []
    end = 0
    of_partitions = zip(batch.names, batch.service, batch.created, size, batch.version, strict=True)
    for name, service, created, slots, version in of_partitions:
        begin, end = end, end + slots
        record = PartitionRecord(name, service, created, rows[begin:end], number + len(records))
        record.version, record.described = 1, UNNUMBERED if version is None else (version, None)
        records.append(record)
    return records


def _put(state: ClusterState, partition: Partition, service: int) -> None:
    """Add or update a partition of any description."""
    record = state.partitions.get(partition.name)
    if record is None:
        record = PartitionRecord(partition.name, service, partition.created, [], state.partitions_made)
        state.add_partitions([record])
    record.version += 1
    repeats = partition.version is not None and (partition.version, partition.missing) == record.described
    if not repeats:  # docs/service-fabric.md, Loads
        _describe(state, record, partition)
        placed = [(replica, state.node_index[replica.node]) for replica in partition.replicas]
        match_slots(state, record, placed, state.default_loads[service])
        state.service_version[service] += 1


def _describe(state: ClusterState, record: PartitionRecord, partition: Partition) -> None:
    """Note all of a description but its replicas."""
    version, record.missing = partition.version, partition.missing
    record.described = UNNUMBERED if version is None else (version, partition.missing)
    if (partition.missing or 0) < 0:
        state.reported_surplus.add(partition.name)
    else:
        state.reported_surplus.discard(partition.name)
    record.still = partition.in_transition or partition.in_quorum_loss
    marked = any(replica.upgrade is not UNMARKED for replica in partition.replicas)
    record.upgrading = partition.upgrading or marked


def remove_partition(state: ClusterState, name: str) -> None:
    """Remove a partition and its replicas."""
    record = state.partition(name)
    for row in record.rows:
        del state.row_partition[row]
        state.rows.release(row)
    state.forget_partition(record)
