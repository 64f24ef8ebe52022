"""A provisioning problem: applications with replicas, and nodes ([3] section 3.1).

L applications, R resources, T time points. Resources at time points are D = R·T *dimensions*, the time points of a
resource one after the other: with one time point, demand is constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Int, Int32
from plb.compiler import kernel
from plb.errors import ConflictError, InvalidValueError
from plb.validation import check_count, check_items, check_kind, check_name, check_number, with_plain_scalars

MOST = 2**30
"""Units of demand and of capacity at the most, so that sums of a few stay within 32 bits."""
MOST_DECIMALS = 300
"""Powers of ten beyond that are no finite numbers of double precision."""


def array_of(item: str, field: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return values as an array; raise `InvalidValueError`, with `item` and `field`, for lists of different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidValueError(item, field, values, "lists of equal lengths") from None


def whole_numbers(item: str, field: str, values: npt.ArrayLike, axes: int, *, low: int = 0, high: int = MOST) -> Int32:
    """Return whole numbers from `low` to `high` with `axes` axes, copied, or raise an error with `item` and `field`."""
    array = array_of(item, field, values)
    if array.ndim != axes or array.dtype.kind not in "iuf":
        raise InvalidValueError(
            item, field, f"{array.dtype} {array.shape}", f"numbers with {axes} ax{'i' if axes == 1 else 'e'}s"
        )
    bad = ~((array >= low) & (array <= high) & (array == np.floor(array)))
    if bad.any():
        index = tuple(int(axis_index) for axis_index in np.argwhere(bad)[0])
        raise InvalidValueError(
            item, f"{field}{list(index)}", array[index].item(), f"a whole number from {low} to {high}"
        )
    return np.ascontiguousarray(array.astype(np.int32))


def whole_units(values: npt.ArrayLike, most_decimals: int = 6) -> tuple[Int32, float]:
    """Return numbers in whole units of a power of ten, and this power; numbers with more decimals are rounded up.

    The unit is the largest that holds all of them exactly, at least 10 to the power of -`most_decimals`.

    Raises
    ------
    InvalidValueError
        A number is negative, not finite, or more than `MOST` units, or `most_decimals` is not from 0 to 300.
    """
    check_count("whole units", "most_decimals", most_decimals, high=MOST_DECIMALS)
    numbers = array_of("whole units", "values", values)
    if numbers.dtype.kind not in "iuf":
        raise InvalidValueError("whole units", "values", f"{numbers.dtype} {numbers.shape}", "numbers")
    array = numbers.astype(np.float64)
    if not (np.isfinite(array) & (array >= 0.0)).all():
        bad = array[~(np.isfinite(array) & (array >= 0.0))][0]
        raise InvalidValueError("whole units", "values", float(bad), "finite numbers >= 0")
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        for decimals in range(most_decimals + 1):
            units = np.rint(array * 10.0**decimals)
            if np.array_equal(units / 10.0**decimals, array):
                break
        else:
            # a product in binary may lie a little above the decimal number that is meant
            units = np.ceil(np.round(array * 10.0**decimals, 3))
    if units.max(initial=0.0) > MOST:
        largest = float(array.max())
        raise InvalidValueError(
            "whole units", "values", largest, f"at most {MOST * 10.0**-decimals:g} with {decimals} decimals"
        )
    return units.astype(np.int32), 10.0**-decimals


ANY_NUMBER = 2**31 - 1
"""Stands for no limit."""


class Neighbours(NamedTuple):
    """The limits of all applications in both directions, for kernels.

    Application i has the limits ``start[i]:start[i + 1]``: `out` are its limits for targets, `in` the limits
    of sources for it.
    """

    out_start: Int
    """(L + 1,) bounds of the limits by source."""
    out_target: Int32
    """(E,) the application that i limits."""
    out_most: Int32
    """(E,) the largest number of replicas of the target on a node with i."""
    in_start: Int
    """(L + 1,) bounds of the limits by target."""
    in_source: Int32
    """(E,) the application that limits i."""
    in_most: Int32
    """(E,) the largest number of replicas of i on a node with the source."""
    most_on_a_node: Int32
    """(L,) the largest number of replicas of an application on a node; `ANY_NUMBER`: no limit."""


@attrs.frozen(eq=False)
class Affinity:
    """Directed limits a_ij ([3] section 3.1): on a node with a replica of i are at most a_ij replicas of j."""

    source: Int32
    target: Int32
    most: Int32
    """(E,) i, j and a_ij. A limit of an application for itself counts all of its replicas on a node: 1 means at most
    one on a node, and 0 means none, which an instance refuses. Different limits for the same pair are refused as well.
    """

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def none(cls) -> Affinity:
        """Return the affinity of applications without limits."""
        empty = np.zeros(0, np.int32)
        return cls(empty, empty, empty)

    @classmethod
    def from_columns(
        cls, source: npt.ArrayLike, target: npt.ArrayLike, most: npt.ArrayLike, applications: int
    ) -> Affinity:
        """Return the limits with these fields, (E,) each, of a number of applications; errors as in `checked`."""
        columns = {"source": source, "target": target, "most": most}
        return cls(*(array_of("affinity", *column) for column in columns.items())).checked("affinity", applications)

    def checked(self, item: str, applications: int) -> Affinity:
        """Return the limits, checked for lengths and ranges with a number of applications; errors begin with `item`."""
        highest = {"source": applications - 1, "target": applications - 1, "most": ANY_NUMBER - 1}
        columns = [whole_numbers(item, name, getattr(self, name), 1, high=high) for name, high in highest.items()]
        lengths = dict(zip(highest, map(len, columns), strict=True))
        if len({*lengths.values()}) > 1:
            raise ConflictError(f"{item}: the columns have {lengths} values; expected equally many")
        return Affinity(*columns)

    def neighbours(self, applications: int) -> Neighbours:
        """Return the limits by source and by target; limits of applications for themselves are in `most_on_a_node`."""
        most_on_a_node = np.full(applications, ANY_NUMBER, np.int32)
        source, target, most = self.source, self.target, self.most
        itself = source == target
        if itself.any():
            np.minimum.at(most_on_a_node, source[itself], most[itself])
            source, target, most = source[~itself], target[~itself], most[~itself]
        return Neighbours(
            *_by_application(source, target, most, applications),
            *_by_application(target, source, most, applications),
            most_on_a_node,
        )


def contradiction(affinity: Affinity, neighbours: Neighbours) -> tuple[int, int] | None:
    """Return two applications (or one, twice) with contradicting limits beside each other; None: there are none."""
    itself = affinity.source == affinity.target
    for application, most in zip(affinity.source[itself].tolist(), affinity.most[itself].tolist(), strict=True):
        # it excludes itself, or has several limits for itself, of which `most_on_a_node` is the least
        if most == 0 or most != neighbours.most_on_a_node[application]:
            return application, application
    applications = len(neighbours.most_on_a_node)
    arc = _differing_limit(neighbours, np.full(applications, -1, np.int32), np.zeros(applications, np.int32))
    if arc < 0:
        return None
    return int(np.searchsorted(neighbours.out_start, arc, side="right")) - 1, int(neighbours.out_target[arc])


@kernel
def _differing_limit(neighbours: Neighbours, last_source: Int32, last_most: Int32) -> int:
    """Return the first outgoing limit that differs from an earlier one of the same pair; -1: there is none.

    `last_source`, (L,), begins as -1 and `last_most`, (L,), as anything: by target, the source and number last read.
    """
    for application in range(len(last_source)):
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            target, most = neighbours.out_target[arc], neighbours.out_most[arc]
            if last_source[target] == application and last_most[target] != most:
                return arc
            last_source[target], last_most[target] = application, most
    return -1


def degrees(neighbours: Neighbours) -> Int:
    """Return the number of applications with which each application shares a limit, (L,) ([3] equation 3)."""
    counts = np.zeros(len(neighbours.most_on_a_node), np.int64)
    _count_others(neighbours, np.full(len(counts), -1, np.int32), counts)
    return counts


@kernel
def _count_others(neighbours: Neighbours, seen_by: Int32, counts: Int) -> None:
    """Add to `counts`, (L,), the applications with which each shares a limit; `seen_by`, (L,), begins as -1."""
    for application in range(len(counts)):
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            neighbour = neighbours.out_target[arc]
            counts[application] += seen_by[neighbour] != application
            seen_by[neighbour] = application
        for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
            neighbour = neighbours.in_source[arc]
            counts[application] += seen_by[neighbour] != application
            seen_by[neighbour] = application


def _by_application(key: Int32, other_end: Int32, most: Int32, applications: int) -> tuple[Int, Int32, Int32]:
    """Return limits sorted stably by `key`: bounds by application, (L + 1,), and `other_end` and `most`, sorted.

    `key`, `other_end`, `most`: (E,) application, the other application, and number of each limit.
    """
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=applications))]).astype(np.int64)
    sorted_other_end, sorted_most = np.empty_like(other_end), np.empty_like(most)
    _sort_by_application(key, other_end, most, start[:-1].copy(), sorted_other_end, sorted_most)
    return start, sorted_other_end, sorted_most


@kernel
def _sort_by_application(
    key: Int32, other_end: Int32, most: Int32, write: Int, sorted_other_end: Int32, sorted_most: Int32
) -> None:
    """Write `other_end`, `most`, (E,), sorted by `key`; `write`, (L,): where each application begins, is changed."""
    for arc in range(len(key)):
        application = key[arc]
        sorted_other_end[write[application]], sorted_most[write[application]] = other_end[arc], most[arc]
        write[application] += 1


@attrs.frozen(eq=False, field_transformer=with_plain_scalars)
class NodeType:
    """A kind of equal nodes."""

    name: str
    """Unique name of the kind."""
    capacity: Int32
    """(R,) capacity of a node for each resource, in whole units."""
    count: int | None = None
    """Number of nodes; None: unlimited."""

    def __attrs_post_init__(self) -> None:
        check_name("node type", self.name)
        item = f"node type {self.name}"
        object.__setattr__(self, "capacity", whole_numbers(item, "capacity", self.capacity, 1))
        if self.count is not None:
            check_count(item, "count", self.count)


@attrs.frozen(eq=False)
class Instance:
    """A provisioning problem."""

    name: str
    """For tables and messages."""
    resources: tuple[str, ...]
    """Names of the resources."""
    applications: tuple[str, ...]
    """Names of the applications, (L,)."""
    replicas: Int32
    """(L,) number of replicas of each application, at least 1."""
    demand: Int32
    """(L, R, T) demand of a replica for each resource at each time point, in whole units."""
    affinity: Affinity
    """Limits between applications."""
    nodes: tuple[NodeType, ...]
    """The kinds of nodes in the order of their use; [3] has one."""
    units: tuple[float, ...]
    """(R,) size of a unit of each resource, in user units, for tables and files."""

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
        """Raise `InvalidValueError`, for `item`, if the replicas of an application fit on no node."""
        peak = self.demand.max(axis=2)
        fits = np.zeros(len(peak), np.bool_)
        for node in self.nodes:
            fits |= (peak <= node.capacity).all(axis=1)
        too_large = np.flatnonzero(~fits)
        if len(too_large):
            peak_in_words = ", ".join(
                f"{value * unit:g} {resource}"
                for resource, value, unit in zip(self.resources, peak[too_large[0]], self.units, strict=True)
            )
            hint = f" ({len(too_large):,} applications ask for more)" if len(too_large) > 1 else ""
            allowed = f"at most what a node has{hint}"
            raise InvalidValueError(
                f"{item}: application {self.applications[too_large[0]]}", "demand", peak_in_words, allowed
            )

    def _refuse_contradictions(self, item: str) -> None:
        """Raise `ConflictError`, which begins with `item`, if limits contradict each other."""
        pair = contradiction(self.affinity, self.neighbours)
        if pair is None:
            return
        first, second = (self.applications[application] for application in pair)
        if first == second:
            why = "may not stand beside itself, or has several limits for that; expected one of at least 1"
        else:
            why = f"has several limits for application {second}; expected one"
        raise ConflictError(f"{item}: application {first} {why}")

    @cached_property
    def neighbours(self) -> Neighbours:
        """The limits by application, as kernels read them."""
        return self.affinity.neighbours(len(self.applications))

    @property
    def time_points(self) -> int:
        """T, the number of time points."""
        return int(self.demand.shape[2])

    def dimensions(self) -> Int32:
        """Return the demand by dimension, (L, D)."""
        return np.ascontiguousarray(self.demand.reshape(len(self.demand), -1))

    def capacity(self, node: NodeType) -> Int32:
        """Return the capacity of a kind of nodes by dimension, (D,)."""
        return np.repeat(node.capacity, self.time_points)

    def offered(self, most: int) -> list[int]:
        """Return how many nodes of each kind there are, but at most `most`."""
        return [most if node.count is None else min(most, node.count) for node in self.nodes]

    def largest_capacity(self) -> Int32:
        """Return the capacity, (D,), of a node that is as large as the largest in each dimension, at least 1 unit."""
        largest = np.max([self.capacity(node) for node in self.nodes], axis=0)
        return np.asarray(np.maximum(largest, 1), np.int32)


def _names(item: str, field: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return names after checks; raise `InvalidValueError`, with `item` and `field`, unless valid and unique."""
    checked = tuple(names)
    if not checked:
        raise InvalidValueError(item, field, checked, "at least one name")
    for name in checked:
        check_name(item, name)
    if len(set(checked)) < len(checked):
        doubled = next(name for name, count in Counter(checked).items() if count > 1)
        raise InvalidValueError(item, field, doubled, "names that are each given once")
    return checked


def lower_bound(instance: Instance) -> int:
    """Return the larger of the bounds by total demand ([3] equation 4) and by large replicas (Martello and Toth's L2).

    Both are computed for each dimension and ignore limits between applications. If nodes differ, all have the capacity
    of the largest in the dimension.

    Notes
    -----
    L2 of S. Martello, P. Toth, "Lower bounds and reduction procedures for the bin packing problem", Discrete Applied
    Mathematics 28, 1990, section 2; for demand that varies, at the time points where it is highest.
    """
    demand = instance.dimensions()
    capacity = instance.largest_capacity()
    totals = instance.replicas.astype(np.int64) @ demand
    by_demand = -(-totals // capacity)
    bound = int(by_demand.max(initial=1))
    first = np.arange(len(instance.resources)) * instance.time_points
    at_peaks = np.unique(by_demand.reshape(len(instance.resources), -1).argmax(axis=1) + first)
    for dimension in at_peaks:
        bound = max(bound, _large_replicas(demand[:, dimension], instance.replicas, int(capacity[dimension])))
    return bound


def _large_replicas(demand: Int32, replicas: Int32, capacity: int) -> int:
    """Return the bound L2 on nodes for one dimension: `demand`, (L,), of a replica, and `capacity` of a node.

    For each α, replicas of at most α are ignored, replicas above half a node need a node each, and the others use what
    is free beside these, or further nodes. The result is the largest of these bounds.
    """
    order = np.argsort(demand, kind="stable")
    sorted_demand, sorted_replicas = demand[order].astype(np.int64), replicas[order].astype(np.int64)
    replicas_below = np.concatenate([[0], np.cumsum(sorted_replicas)])
    demand_below = np.concatenate([[0], np.cumsum(sorted_demand * sorted_replicas)])
    alpha = np.unique(sorted_demand[2 * sorted_demand <= capacity])
    half_end = np.searchsorted(sorted_demand, capacity // 2, side="right")
    paired_end = np.searchsorted(sorted_demand, capacity - alpha, side="right")
    small_end = np.searchsorted(sorted_demand, alpha, side="left")
    larger_than_half = replicas_below[-1] - replicas_below[half_end]
    paired = replicas_below[paired_end] - replicas_below[half_end]
    free_beside_paired = paired * capacity - (demand_below[paired_end] - demand_below[half_end])
    excess = np.maximum(0, demand_below[half_end] - demand_below[small_end] - free_beside_paired)
    bounds = larger_than_half + -(-excess // capacity)
    return int(bounds.max(initial=larger_than_half))
