"""What is to be provisioned: applications with replicas, and the nodes that there are ([3] section 3.1).

L applications, R resources, T time points. Resources at time points are D = R·T *dimensions*, the time points of a
resource one after the other: with one time point, demand is constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import attrs
import numpy as np

from plb.array_types import Int32
from plb.errors import ConflictError, InvalidValueError
from plb.provisioning.affinity import Affinity, Neighbours, contradiction
from plb.provisioning.whole_numbers import whole_numbers
from plb.validation import (
    check_count,
    check_items,
    check_kind,
    check_name,
    check_number,
    with_plain_scalars,
)


@attrs.frozen(eq=False, field_transformer=with_plain_scalars)
class NodeType:
    """Nodes of one kind.

    Parameters
    ----------
    name
        Its name.
    capacity
        (R,) of each resource, in whole units.
    count
        Number of nodes; None: unlimited.
    """

    name: str
    capacity: Int32
    count: int | None = None

    def __attrs_post_init__(self) -> None:
        check_name("node type", self.name)
        item = f"node type {self.name}"
        object.__setattr__(self, "capacity", whole_numbers(item, "capacity", self.capacity, 1))
        if self.count is not None:
            check_count(item, "count", self.count)


@attrs.frozen(eq=False)
class Instance:
    """A provisioning problem.

    Parameters
    ----------
    name
        For tables and messages.
    resources
        Names of the resources.
    applications
        Names of the applications, (L,).
    replicas
        (L,) at least 1 each.
    demand
        (L, R, T) of a replica, in whole units.
    affinity
        Limits between applications.
    nodes
        The kinds of nodes, those that are to be used first in front; [3] has one.
    units
        (R,) what a unit of each resource is worth, in user units, for tables and files.
    """

    name: str
    resources: tuple[str, ...]
    applications: tuple[str, ...]
    replicas: Int32
    demand: Int32
    affinity: Affinity
    nodes: tuple[NodeType, ...]
    units: tuple[float, ...]

    def __attrs_post_init__(self) -> None:
        item = f"instance {check_name('instance', self.name)}"
        for field in ("resources", "applications"):
            object.__setattr__(self, field, _names(item, field, getattr(self, field)))
        replicas = whole_numbers(item, "replicas", self.replicas, 1, low=1)
        demand = whole_numbers(item, "demand", self.demand, 3)
        shape = (len(self.applications), len(self.resources))
        if len(replicas) != shape[0] or demand.shape[:2] != shape or not demand.shape[2] or len(self.units) != shape[1]:
            raise ConflictError(
                f"{item}: {shape[0]} applications and {shape[1]} resources, but replicas has shape {replicas.shape}, "
                f"demand {demand.shape} and there are {len(self.units)} units; expected ({shape[0]},), ({shape[0]}, "
                f"{shape[1]}, time points) and {shape[1]}"
            )
        for unit in self.units:
            check_number(item, "units", unit, low_open=True)
        nodes = check_items(item, "nodes", self.nodes, NodeType)
        _names(item, "nodes", [node.name for node in nodes])
        for node in nodes:
            if len(node.capacity) != shape[1]:
                raise ConflictError(
                    f"{item}: node type {node.name} has {len(node.capacity)} capacities, not {shape[1]}"
                )
        object.__setattr__(self, "replicas", replicas)
        object.__setattr__(self, "demand", demand)
        object.__setattr__(self, "nodes", nodes)
        affinity = check_kind(item, "affinity", self.affinity, Affinity)
        object.__setattr__(self, "affinity", affinity.checked(f"{item}: affinity", shape[0]))
        self._refuse_too_large(item)
        self._refuse_contradictions(item)

    def _refuse_too_large(self, item: str) -> None:
        """Refuse an application of which a replica fits on no node."""
        peak = self.demand.max(axis=2)
        fits = np.zeros(len(peak), np.bool_)
        for node in self.nodes:
            fits |= (peak <= node.capacity).all(axis=1)
        bad = np.flatnonzero(~fits)
        if len(bad):
            asked = ", ".join(
                f"{value * unit:g} {resource}"
                for resource, value, unit in zip(self.resources, peak[bad[0]], self.units, strict=True)
            )
            more = f" ({len(bad):,} applications ask for more)" if len(bad) > 1 else ""
            allowed = f"at most what a node has{more}"
            raise InvalidValueError(f"{item}: application {self.applications[bad[0]]}", "demand", asked, allowed)

    def _refuse_contradictions(self, item: str) -> None:
        """Raise an error for limits that contradict each other."""
        found = contradiction(self.affinity, self.neighbours)
        if found is None:
            return
        first, other = (self.applications[place] for place in found)
        if first == other:
            why = "may not stand beside itself, or has several limits for that; expected one of at least 1"
        else:
            why = f"has several limits for application {other}; expected one"
        raise ConflictError(f"{item}: application {first} {why}")

    @cached_property
    def neighbours(self) -> Neighbours:
        """The limits by application, as kernels read them."""
        return self.affinity.neighbours(len(self.applications))

    @property
    def time_points(self) -> int:
        """T."""
        return int(self.demand.shape[2])

    def dimensions(self) -> Int32:
        """Return the demand by dimension, (L, D)."""
        return np.ascontiguousarray(self.demand.reshape(len(self.demand), -1))

    def capacity(self, node: NodeType) -> Int32:
        """Return the capacity of a kind of nodes by dimension, (D,)."""
        return np.repeat(node.capacity, self.time_points)

    def offered(self, most: int) -> list[int]:
        """Return the number of nodes of each kind, at most so many of each."""
        return [most if node.count is None else min(most, node.count) for node in self.nodes]

    def largest_capacity(self) -> Int32:
        """Return the capacity, (D,), of a node that is as large as the largest in each dimension.

        Without any capacity it is 1 unit, so that shares of it are defined.
        """
        largest = np.max([self.capacity(node) for node in self.nodes], axis=0)
        return np.asarray(np.maximum(largest, 1), np.int32)


def _names(item: str, field: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names, which are unique, at least one."""
    given = tuple(names)
    if not given:
        raise InvalidValueError(item, field, given, "at least one name")
    for name in given:
        check_name(item, name)
    if len(set(given)) < len(given):
        doubled = next(name for name, count in Counter(given).items() if count > 1)
        raise InvalidValueError(item, field, doubled, "names that are each given once")
    return given
