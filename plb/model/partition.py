"""Partitions and their replicas, also many as columns, and the names of partitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, overload

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array, Float, Int, made_again
from plb.errors import ConflictError, InvalidValueError
from plb.model.documents import Described, naming_fields
from plb.model.role import PRIMARY, ROLE_NAMES, ROLES, Role, check_role
from plb.validation import (
    MOST_REPLICAS,
    check_collection,
    check_count,
    check_items,
    check_member,
    check_name,
    check_number,
    check_switch,
    check_text,
    check_whole,
    plain_scalar,
    with_plain_scalars,
)


class ReplicaState(Enum):
    """The state of a replica; only a ready one may be moved."""

    READY = "ready"
    IN_BUILD = "in_build"
    """Its data are being copied. It has load and does not move."""
    STANDBY = "standby"
    """A copy of the data of an earlier replica. It has the load of a secondary and may become a replica again."""
    DOWN = "down"
    """Its process does not run. It has load and does not move."""
    DROPPED = "dropped"
    """It is being removed. It has no load, and no other replica of the partition may use its node."""


class UpgradeMark(Enum):
    """The request of an upgrade for a replica (docs/embedding.md, Upgrades)."""

    NONE = "none"
    SWAP_OUT = "swap_out"
    """Its node is about to be upgraded: this primary is to swap roles with a secondary."""
    PRIMARY_RETURNS = "primary_returns"
    """The primary was on this node before the upgrade, and is to return."""
    REPLICA_RETURNS = "replica_returns"
    """A replica was on this node before the upgrade: a missing replica is to be placed here first."""


READY, UNMARKED = ReplicaState.READY, UpgradeMark.NONE  # members are looked up slowly


@naming_fields
@attrs.frozen
class Replica(Described):
    """One copy of a partition on a node."""

    role: Role
    """Its role: a `Role` or its name in small letters."""
    node: str
    """Name of its node."""
    state: ReplicaState = attrs.field(default=ReplicaState.READY, kw_only=True)
    pinned: bool = attrs.field(default=False, kw_only=True)
    """True: no plan moves it."""
    leaving: bool = attrs.field(default=False, kw_only=True)
    """True during a move from this node: the load still counts against the capacity of the node, but not in the balance
    statistics. A primary that leaves is still the primary of its partition.
    """
    to_be_dropped: bool = attrs.field(default=False, kw_only=True)
    """True if it is to be dropped: it counts as one that leaves, but no plan drops it, and a primary is no longer the
    primary, unless it is marked to be swapped out.
    """
    upgrade: UpgradeMark = attrs.field(default=UpgradeMark.NONE, kw_only=True)
    """The request of an upgrade: an `UpgradeMark` or its value. While a replica is marked, no other phase moves any
    replica of its partition, until it is described without marks. A removed replica is described as dropped with a
    mark: it reserves a place for a new one.
    """

    def __attrs_post_init__(self) -> None:
        """Convert the fields to their types, and raise an error if one is invalid; usual replicas take a short way."""
        check_name("replica", self.node, field="node")
        is_usual = self.state is READY and self.upgrade is UNMARKED and type(self.role) is Role
        is_standing = self.pinned is self.leaving is self.to_be_dropped is False
        if is_usual and is_standing and type(self.node) is str:
            return  # nothing to check further or to convert
        item = f"replica on {self.node}"
        object.__setattr__(self, "node", plain_scalar(self.node))
        object.__setattr__(self, "role", check_role(item, "role", self.role))
        for field in ("pinned", "leaving", "to_be_dropped"):
            object.__setattr__(self, field, check_switch(item, field, getattr(self, field)))
        for field, kind in (("state", ReplicaState), ("upgrade", UpgradeMark)):
            object.__setattr__(self, field, check_member(item, field, getattr(self, field), kind))
        if self.upgrade is UpgradeMark.SWAP_OUT and self.role is not Role.PRIMARY:
            raise InvalidValueError(item, "upgrade", self.upgrade.value, "a mark other than swap_out, unless a primary")
        if self.upgrade is not UpgradeMark.NONE and self.role is Role.INSTANCE:
            raise InvalidValueError(
                item, "upgrade", self.upgrade.value, "none, as instances have no roles to hand over"
            )

    @property
    def disappears(self) -> bool:
        """Whether it is on its way out: it moves away, or is to be dropped."""
        return self.leaving or self.to_be_dropped


def _tuple_of_replicas(replicas: Iterable[Replica]) -> tuple[Replica, ...]:
    """Return replicas as a tuple; raise `InvalidValueError` for anything else."""
    return check_items("partition", "replicas", replicas, Replica)


@naming_fields
@attrs.frozen(field_transformer=with_plain_scalars)
class Partition(Described):
    """A unit of placement: a set of replicas. Several on one node are a violation, which a repair ends."""

    name: str
    """Name of the partition, unique in the cluster."""
    service: str = attrs.field(kw_only=True)
    """Name of its service."""
    replicas: tuple[Replica, ...] = attrs.field(default=(), kw_only=True, converter=_tuple_of_replicas)
    """The present replicas. The engine places the missing ones."""
    created: float = attrs.field(default=0.0, kw_only=True)
    """Time at which the partition was created, in seconds on the host's clock: the start of its demand curve."""
    missing: int | None = attrs.field(default=None, kw_only=True)
    """Number of missing replicas; below 0: surplus replicas. None: given by the target of the service."""
    version: int | None = attrs.field(default=None, kw_only=True)
    """Number of this description. Another description with the same number and the same `missing` is ignored, except
    that it ends the moves of earlier plans. None: every description counts.
    """
    in_transition: bool = attrs.field(default=False, kw_only=True)
    """True while it is deleted or reconfigured: none of its replicas moves, and marks of an upgrade wait."""
    in_quorum_loss: bool = attrs.field(default=False, kw_only=True)
    """True while most of its replicas are lost: the others do not move."""
    upgrading: bool = attrs.field(default=False, kw_only=True)
    """True while it is upgraded: balancing does not move its replicas, and marks of the upgrade act. Constraint check
    moves those without marks, if `allow_constraint_check_fixes_during_application_upgrade` is on. A partition with a
    marked replica counts as upgraded.
    """

    def __attrs_post_init__(self) -> None:
        """Raise an error if a field is invalid, or two primaries stand."""
        check_name("partition", self.name)
        item = f"partition {self.name}"
        check_text(item, "service", self.service)
        check_number(item, "created", self.created, low=-math.inf)
        if self.missing is not None:
            check_count(item, "missing", self.missing, low=-MOST_REPLICAS, high=MOST_REPLICAS)
        if self.version is not None:
            check_whole(item, "version", self.version)
        if not (self.in_transition is self.in_quorum_loss is self.upgrading is False):
            for field in ("in_transition", "in_quorum_loss", "upgrading"):
                check_switch(item, field, getattr(self, field))
        standing = [r for r in self.replicas if r.role is Role.PRIMARY and not r.disappears]
        if len(standing) > 1:
            raise ConflictError(f"{item}: two primaries, on nodes {standing[0].node} and {standing[1].node}")


ITEM = "partition columns"


def _names(values: Iterable[str]) -> tuple[str, ...]:
    """Return names of partitions after checks, as a tuple."""
    names = check_collection(ITEM, "names", values, "a list of names")
    return tuple(check_name("partition", name) for name in names)


def _service(values: str | Iterable[str]) -> str | tuple[str, ...]:
    """Return the name of a service, or the names of several as a tuple, after checks."""
    if isinstance(values, str):
        return check_text(ITEM, "service", values)
    names = check_collection(ITEM, "service", values, "a name, or one for each partition")
    return tuple(check_text(ITEM, "service", name) for name in names)


def _nodes(values: Any) -> Array:
    """Return a read-only copy of names of nodes, (n, r), as an array of objects, after checks."""
    try:
        nodes = np.array(values, dtype=object)
    except ValueError:  # rows of several shapes
        nodes = np.zeros(1, dtype=object)
    if nodes.shape == (0,):
        return nodes.reshape(0, 0)
    are_names = all(name is None or isinstance(name, str) for name in nodes.ravel().tolist())
    if nodes.ndim != 2 or not are_names:
        raise InvalidValueError(ITEM, "nodes", values, "rows of r names of nodes, None where there is no replica")
    nodes.flags.writeable = False
    return nodes


def _roles(values: Any) -> Int:
    """Return roles, given as `Role`, number or name, as numbers in the same shape, after checks."""
    try:
        array = np.asarray(values, dtype=object)
        numbers = {value: int(check_role(ITEM, "roles", value)) for value in set(array.ravel().tolist())}
    except (TypeError, ValueError):
        raise InvalidValueError(ITEM, "roles", values, f"one or more of {', '.join(ROLE_NAMES)}") from None
    return np.array([numbers[value] for value in array.ravel().tolist()], np.int64).reshape(array.shape)


def _created(values: npt.ArrayLike) -> Float:
    """Return a copy of times, in seconds, in the same shape, after checks."""
    try:
        times = np.asarray(values, None if isinstance(values, np.ndarray) else object)
    except ValueError:  # rows of several shapes
        raise InvalidValueError(ITEM, "created", values, "a number, or one for each partition") from None
    unchecked = times[~np.isfinite(times)] if times.dtype.kind in "iuf" else times
    for time in unchecked.ravel().tolist():
        check_number(ITEM, "created", time, low=-math.inf)
    return times.astype(np.float64)


@attrs.frozen(eq=False)
class PartitionColumns(Sequence[Partition]):
    """Many partitions with the same number of columns for replicas: a sequence of `Partition`.

    `update_partitions` takes it without making the objects. The arrays are read-only.

    Raises
    ------
    InvalidValueError
        If a column has another length, or a value that no `Partition` can have.
    ConflictError
        If a partition has two primaries.
    """

    names: tuple[str, ...] = attrs.field(converter=_names)
    """Names of the n partitions."""
    service: str | tuple[str, ...] = attrs.field(kw_only=True, converter=_service)
    """Name of their service, or n names."""
    nodes: Array = attrs.field(kw_only=True, converter=_nodes)
    """(n, r) names of nodes; None or an empty text where there is no replica."""
    roles: Int = attrs.field(kw_only=True, converter=_roles)
    """Roles of the replicas: one for all, r for the columns, or (n, r)."""
    created: Float = attrs.field(kw_only=True, default=0.0, converter=_created)
    """When they were created, in seconds on the host's clock: one number for all, or n."""
    __reduce__ = made_again

    def __attrs_post_init__(self) -> None:
        """Broadcast roles and times to all partitions; raise an error if one cannot, or a row has two primaries."""
        count, shape = len(self.names), self.nodes.shape
        if not isinstance(self.service, str) and len(self.service) != count:
            raise InvalidValueError(ITEM, "service", len(self.service), f"a name, or {count} names")
        if shape[0] != count:
            raise InvalidValueError(ITEM, "nodes", shape[0], f"{count} rows, one for each partition")
        for field, full_shape in (("roles", shape), ("created", (count,))):
            values = getattr(self, field)
            try:
                object.__setattr__(self, field, np.broadcast_to(values, full_shape))
            except ValueError:
                raise InvalidValueError(
                    ITEM, f"{field}.shape", values.shape, f"a shape that fits {full_shape}"
                ) from None
        primaries = ((self.roles == PRIMARY) & self.is_there).sum(axis=1)
        if (primaries > 1).any():
            self[int(np.argmax(primaries > 1))]  # raises the error of the partition

    @property
    def is_there(self) -> npt.NDArray[np.bool_]:
        """(n, r) whether a partition has a replica in a column."""
        return np.asarray(self.nodes, np.bool_)

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the services of all partitions."""
        return (self.service,) * len(self) if isinstance(self.service, str) else self.service

    def __len__(self) -> int:
        """Return the number of partitions."""
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Partition: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Partition, ...]: ...
    def __getitem__(self, index: int | slice) -> Partition | tuple[Partition, ...]:
        """Return the partition at a position, or the partitions of a slice."""
        if isinstance(index, slice):
            return tuple(self[position] for position in range(len(self))[index])
        pairs = zip(self.roles[index].tolist(), self.nodes[index].tolist(), strict=True)
        replicas = tuple(Replica(ROLES[role], node) for role, node in pairs if node)
        service = self.service if isinstance(self.service, str) else self.service[index]
        return Partition(self.names[index], service=service, replicas=replicas, created=float(self.created[index]))


class PartitionNames(Sequence[str]):
    """The names that a list has now; names may be appended to the list later, but not changed.

    Plans share a list, so that a plan costs no copy of it. It is equal to any sequence of the same names.
    """

    __slots__ = ("_length", "_names")

    def __init__(self, names: list[str]) -> None:
        self._names, self._length = names, len(names)

    def __len__(self) -> int:
        """Return the number of names."""
        return self._length

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names."""
        return iter(self._names[: self._length])

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        """Return a name, or the names of a slice."""
        if isinstance(at, slice):
            return self._names[: self._length][at]
        return self._names[range(self._length)[at]]

    def __contains__(self, name: object) -> bool:
        """Return whether a name is among them."""
        return name in self._names[: self._length]

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same names."""
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        same_list = isinstance(other, PartitionNames) and other._names is self._names
        return len(self) == len(other) and (same_list or [*self] == [*other])

    def __hash__(self) -> int:
        """Return the hash of a tuple of the names."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return the names as a tuple shows its members."""
        return repr(tuple(self))

    def __reduce__(self) -> tuple[type[PartitionNames], tuple[list[str]]]:
        """Be copied and pickled with its names alone."""
        return PartitionNames, ([*self],)
