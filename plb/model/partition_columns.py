"""Many partitions as columns: what a control plane holds in arrays, without an object for each replica."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, overload

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array, Float, Int, made_again
from plb.errors import InvalidValueError
from plb.model.partition import Partition, Replica
from plb.model.role import PRIMARY, ROLE_NAMES, ROLES, check_role
from plb.validation import check_collection, check_name, check_number, check_text

ITEM = "partition columns"


def _names(values: Iterable[str]) -> tuple[str, ...]:
    names = check_collection(ITEM, "names", values, "a list of names")
    return tuple(check_name("partition", name) for name in names)


def _service(values: str | Iterable[str]) -> str | tuple[str, ...]:
    if isinstance(values, str):
        return check_text(ITEM, "service", values)
    names = check_collection(ITEM, "service", values, "a name, or one for each partition")
    return tuple(check_text(ITEM, "service", name) for name in names)


def _nodes(values: Any) -> Array:
    """Return (n, r) names of nodes as objects, a copy."""
    try:
        nodes = np.array(values, dtype=object)
    except ValueError:  # rows of several shapes
        nodes = np.zeros(1, dtype=object)
    if nodes.shape == (0,):
        return nodes.reshape(0, 0)
    named = all(name is None or isinstance(name, str) for name in nodes.ravel().tolist())
    if nodes.ndim != 2 or not named:
        raise InvalidValueError(ITEM, "nodes", values, "rows of r names of nodes, None where there is no replica")
    nodes.flags.writeable = False
    return nodes


def _roles(values: Any) -> Int:
    """Return roles as numbers, of any shape."""
    try:
        named = np.asarray(values, dtype=object)
        numbers = {value: int(check_role(ITEM, "roles", value)) for value in set(named.ravel().tolist())}
    except (TypeError, ValueError):
        raise InvalidValueError(ITEM, "roles", values, f"one or more of {', '.join(ROLE_NAMES)}") from None
    return np.array([numbers[value] for value in named.ravel().tolist()], np.int64).reshape(named.shape)


def _created(values: npt.ArrayLike) -> Float:
    """Return times of any shape, a copy."""
    try:
        times = np.asarray(values, None if isinstance(values, np.ndarray) else object)
    except ValueError:  # rows of several shapes
        raise InvalidValueError(ITEM, "created", values, "a number, or one for each partition") from None
    suspects = times[~np.isfinite(times)] if times.dtype.kind in "iuf" else times
    for time in suspects.ravel().tolist():
        check_number(ITEM, "created", time, low=-math.inf)
    return times.astype(np.float64)


@attrs.frozen(eq=False)
class PartitionColumns(Sequence[Partition]):
    """Many partitions with the same number of columns for replicas: a sequence of `Partition`.

    `update_partitions` takes it without making the objects. The arrays are read-only.

    Parameters
    ----------
    names
        Names of the n partitions.
    service
        Name of their service, or n names.
    nodes
        (n, r) names of nodes; None or an empty text where there is no replica.
    roles
        Roles of the replicas: one for all, r for the columns, or (n, r).
    created
        When they were created, in seconds on the host's clock: one number for all, or n.

    Raises
    ------
    InvalidValueError
        If a column has another length, or a value that no `Partition` can have.
    ConflictError
        If a partition has two primaries.
    """

    names: tuple[str, ...] = attrs.field(converter=_names)
    service: str | tuple[str, ...] = attrs.field(kw_only=True, converter=_service)
    nodes: Array = attrs.field(kw_only=True, converter=_nodes)
    roles: Int = attrs.field(kw_only=True, converter=_roles)
    created: Float = attrs.field(kw_only=True, default=0.0, converter=_created)
    __reduce__ = made_again

    def __attrs_post_init__(self) -> None:
        count, shape = len(self.names), self.nodes.shape
        if not isinstance(self.service, str) and len(self.service) != count:
            raise InvalidValueError(ITEM, "service", len(self.service), f"a name, or {count} names")
        if shape[0] != count:
            raise InvalidValueError(ITEM, "nodes", shape[0], f"{count} rows, one for each partition")
        for field, of in (("roles", shape), ("created", (count,))):
            values = getattr(self, field)
            try:
                object.__setattr__(self, field, np.broadcast_to(values, of))
            except ValueError:
                raise InvalidValueError(ITEM, f"{field}.shape", values.shape, f"a shape that fits {of}") from None
        primaries = ((self.roles == PRIMARY) & self.is_there).sum(axis=1)
        if (primaries > 1).any():
            self[int(np.argmax(primaries > 1))]  # raises the error of the partition

    @property
    def is_there(self) -> npt.NDArray[np.bool_]:
        """Whether there is such a replica, (n, r)."""
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
        """Return the partition at a position, or those of a slice."""
        if isinstance(index, slice):
            return tuple(self[position] for position in range(len(self))[index])
        pairs = zip(self.roles[index].tolist(), self.nodes[index].tolist(), strict=True)
        replicas = tuple(Replica(ROLES[role], node) for role, node in pairs if node)
        service = self.service if isinstance(self.service, str) else self.service[index]
        return Partition(self.names[index], service=service, replicas=replicas, created=float(self.created[index]))
