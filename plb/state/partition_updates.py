"""Updates of partitions in the state, many at once; a refused update changes nothing.

New partitions with nothing but placed replicas are plain: they get their rows together. All others are special, and
`match_slots` brings them to their description.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple, TypeVar

import attrs
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
from plb.state.updates import set_role_load
from plb.validation import check_distinct

Value = TypeVar("Value")

PRIMARY, SECONDARY, INSTANCE = ROLES


class _Batch(NamedTuple):
    """Descriptions of n partitions with m replicas; services and nodes by their indices."""

    partitions: Sequence[Partition]
    """(n,)"""
    names: Sequence[str]
    """(n,)"""
    service: list[int]
    """(n,) index of each service."""
    created: list[float]
    """(n,) seconds."""
    version: list[int | None]
    """(n,) number of each description."""
    is_special: list[bool]
    """(n,) whether more is described than nodes and roles of replicas."""
    size: list[int]
    """(n,) number of replicas of each partition."""
    node: list[int]
    """(m,) node of each replica, partition by partition."""
    role: list[int]
    """(m,) role of each replica, partition by partition."""


class _Slots(NamedTuple):
    """The m slots of n new partitions, partition by partition."""

    size: list[int]
    """(n,) number of slots of each partition."""
    service: list[int]
    """(m,) index of the service."""
    node: list[int]
    """(m,) index of the node, NOWHERE for a missing replica."""
    role: list[int]
    """(m,) value of `Role`."""


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
    special = [index for index, name in enumerate(batch.names) if batch.is_special[index] or name in state.partitions]
    begin, offset = 0, [0, *accumulate(batch.size)]
    for end in (*special, len(batch.names)):
        if begin < end:
            _add_plain(state, _part_of(batch, offset, begin, end))
        if end < len(batch.names):
            _put_special(state, batch.partitions[end], batch.service[end])
        begin = end + 1
    return [state.partitions[name] for name in batch.names]


def _batch_of(state: ClusterState, partitions: Sequence[Partition]) -> _Batch:
    """Return described partitions as a batch; refuse unknown services and nodes."""
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
    """Return partitions described by columns as a batch, without an object for each replica."""
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
    """Return the indices of `services`, (n,), named by the partitions with these `names`; refuse unknown ones."""
    indices = [state.service_index.get(service, NOWHERE) for service in services]
    if NOWHERE in indices:
        unknown = indices.index(NOWHERE)
        state.service(services[unknown], f"partition {names[unknown]}")  # raises
    return indices


def _nodes(state: ClusterState, names: Sequence[str], size: Sequence[int], nodes: Sequence[str]) -> list[int]:
    """Return the indices of `nodes`, (m,), the names of the nodes of all replicas; refuse unknown ones.

    `names`, `size`: (n,) name and number of replicas of each partition.
    """
    indices = [state.node_index.get(node, NOWHERE) for node in nodes]
    if NOWHERE in indices:
        unknown = indices.index(NOWHERE)
        state.node(nodes[unknown], f"partition {_by_replica(names, size)[unknown]}")  # raises
    return indices


def _by_replica(values: Iterable[Value], size: Iterable[int]) -> list[Value]:
    """Return the value of each replica's partition, (m,); `values`, `size`: (n,), with the number of replicas."""
    return [value for value, replicas in zip(values, size, strict=True) for _ in range(replicas)]


def _is_special(partition: Partition) -> bool:
    """Return whether a description has more than nodes and roles of replicas."""
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
    uses = [*zip(_by_replica(batch.service, batch.size), batch.role, strict=True)]
    for service, role in dict.fromkeys(uses):
        allowed = roles_of(state.services[service])
        if role not in allowed:
            name = _by_replica(batch.names, batch.size)[uses.index((service, role))]
            roles = f"{' or '.join(each.name for each in allowed)} for service {state.services[service].name}"
            raise InvalidValueError(f"partition {name}", "replicas", ROLES[role], roles)
    for name, service in zip(batch.names, batch.service, strict=True):
        record = state.partitions.get(name)
        if record is not None and record.service != service:
            before = state.services[record.service].name
            raise ConflictError(f"partition {name}: belongs to service {before}; it cannot change")


def _defaults(state: ClusterState, services: Iterable[int]) -> tuple[MetricQuanta, dict[int, Mapping[Role, Int]]]:
    """Return the quanta that the default loads of `services` fix, and these loads by service and role.

    Services whose default loads the state has already are left out.
    """
    quanta, defaults = state.quanta, dict[int, Mapping[Role, Int]]()
    for service in services:
        if service not in state.default_loads and service not in defaults:
            quanta = quanta.copy() if quanta is state.quanta else quanta
            defaults[service] = default_loads(quanta, state.services[service])
    return quanta, defaults


def _part_of(batch: _Batch, offset: Sequence[int], begin: int, end: int) -> _Batch:
    """Return the plain partitions of a batch from `begin` up to `end`; `offset`: (n+1,) first replica of each."""
    if (begin, end) == (0, len(batch.names)):
        return batch
    first, last = offset[begin], offset[end]
    fields = ("names", "service", "created", "version", "size")
    columns = {field: getattr(batch, field)[begin:end] for field in fields}
    return batch._replace(**columns, node=batch.node[first:last], role=batch.role[first:last])


def _add_plain(state: ClusterState, batch: _Batch) -> None:
    """Add new plain partitions, with slots for their placed and missing replicas."""
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
    """Return the slots of new partitions: the described ones, then missing ones up to the target of the service."""
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
            misses_primary = described.stateful and PRIMARY not in batch.role[begin:end]
            slots.node.extend([NOWHERE] * missing)
            slots.role.extend([PRIMARY] * misses_primary)
            slots.role.extend([SECONDARY if described.stateful else INSTANCE] * (missing - misses_primary))
    return slots


def _loads(state: ClusterState, slots: _Slots) -> Int:
    """Return the default load of the service and role of each of m slots, (m, R) quanta."""
    kinds = [service * len(Role) + role for service, role in zip(slots.service, slots.role, strict=True)]
    index_of = {kind: index for index, kind in enumerate(dict.fromkeys(kinds))}
    has_metric = state.service_table.has_metric
    loads = np.zeros((len(index_of), has_metric.shape[1]), np.int64)
    for kind, index in index_of.items():
        service, role = divmod(kind, len(Role))
        loads[index] = state.default_loads[service][ROLES[role]] * has_metric[service]
    return loads[[index_of[kind] for kind in kinds]]


def _records(batch: _Batch, size: Sequence[int], rows: list[int], number: int) -> list[PartitionRecord]:
    """Return the records of the new partitions of a batch; `number`: `PartitionRecord.number` of the first.

    `size`: (n,) number of slots of each; `rows`: (m,) rows of their slots, partition by partition.
    """
    records: list[PartitionRecord] = []
    end = 0
    columns = zip(batch.names, batch.service, batch.created, size, batch.version, strict=True)
    for name, service, created, slots, version in columns:
        begin, end = end, end + slots
        record = PartitionRecord(name, service, created, rows[begin:end], number + len(records))
        record.version, record.described = 1, UNNUMBERED if version is None else (version, None)
        records.append(record)
    return records


def _put_special(state: ClusterState, partition: Partition, service: int) -> None:
    """Add or update a partition with any description; `service`: index of its service."""
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
    """Enter all of a description but its replicas in the record of the partition."""
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
    """Remove the partition with this name, and its replicas."""
    record = state.partition(name)
    for row in record.rows:
        del state.row_partition[row]
        state.rows.release(row)
    state.forget_partition(record)


@contextmanager
def supposed(state: ClusterState, partition: Partition, loads: Mapping[str, float]) -> Iterator[None]:
    """Have a new partition that misses one replica in the state, until the context ends.

    The state is then bit for bit as before, but a full table of rows has grown. `loads`: of the replica, by metric.
    """
    if partition.name in state.partitions:
        raise ConflictError(f"partition {partition.name}: exists")
    service = state.service(partition.service, f"partition {partition.name}")
    described = attrs.evolve(partition, replicas=(), missing=1)
    before = {name: getattr(state, name) for name in ("quanta", "partitions_made", "partitions_version")}
    names, default = state._partition_names, state.default_loads.get(service)
    versions = state.service_version[service], state.load_version[service]
    entries = state.rows.next_entries()
    state.quanta, state._partition_names = state.quanta.copy(), None
    try:
        put_partitions(state, (described,))
        for role in roles_of(state.services[service]) if loads else ():
            set_role_load(state, partition.name, role, loads)
        yield
    finally:
        if partition.name in state.partitions:
            rows = state.partitions[partition.name].rows
            remove_partition(state, partition.name)
            for row in rows:
                state.rows.restore(row, entries)
        for name, value in {**before, "_partition_names": names}.items():
            setattr(state, name, value)
        state.service_version[service], state.load_version[service] = versions
        if default is None:
            state.default_loads.pop(service, None)
