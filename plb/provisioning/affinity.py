"""Limits between applications: how many replicas of one may be on a node with another ([3] section 3.1).

L applications, E limits.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Int, Int32
from plb.compiler import kernel
from plb.errors import ConflictError
from plb.provisioning.whole_numbers import array_of, whole_numbers

ANY_NUMBER = 2**31 - 1
"""Stands for no limit."""


class Neighbours(NamedTuple):
    """The limits of all applications in both directions, for kernels.

    Those of application i are in ``start[i]:start[i + 1]``.
    """

    out_start: Int
    """(L + 1,)"""
    out_other: Int32
    """(E,) the applications that i limits."""
    out_most: Int32
    """(E,) the largest number of their replicas on a node with i."""
    in_start: Int
    """(L + 1,)"""
    in_other: Int32
    """(E,) the applications that limit i."""
    in_most: Int32
    """(E,) the largest number of replicas of i on a node with them."""
    most_on_a_node: Int32
    """(L,) the largest number of replicas of an application on a node; `ANY_NUMBER`: no limit."""


@attrs.frozen(eq=False)
class Affinity:
    """Directed limits a_ij ([3] section 3.1): on a node with a replica of i are at most a_ij replicas of j.

    Parameters
    ----------
    source, target, most
        (E,) i, j and a_ij. A limit of an application for itself counts all of its replicas on a node: 1 means
        at most one on a node, and 0 means none, which an instance refuses. Different limits for the same pair are
        refused as well.
    """

    source: Int32
    target: Int32
    most: Int32

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def none(cls) -> Affinity:
        """Return no limits."""
        empty = np.zeros(0, np.int32)
        return cls(empty, empty, empty)

    @classmethod
    def from_columns(
        cls, source: npt.ArrayLike, target: npt.ArrayLike, most: npt.ArrayLike, applications: int
    ) -> Affinity:
        """Return the limits of columns, each (E,), after checks; errors are as in `checked`."""
        columns = {"source": source, "target": target, "most": most}
        return cls(*(array_of("affinity", *column) for column in columns.items())).checked("affinity", applications)

    def checked(self, item: str, applications: int) -> Affinity:
        """Return the limits of a number of applications after checks.

        Parameters
        ----------
        item
            Name for messages.

        Raises
        ------
        ConflictError
            The columns differ in length.
        InvalidValueError
            A number is no application, or a limit negative.
        """
        highest = {"source": applications - 1, "target": applications - 1, "most": ANY_NUMBER - 1}
        columns = [whole_numbers(item, name, getattr(self, name), 1, high=high) for name, high in highest.items()]
        lengths = dict(zip(highest, map(len, columns), strict=True))
        if len({*lengths.values()}) > 1:
            raise ConflictError(f"{item}: the columns have {lengths} values; expected equally many")
        return Affinity(*columns)

    def neighbours(self, applications: int) -> Neighbours:
        """Return the limits by application."""
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
    """Return two applications with limits that contradict each other; None: there are none.

    They are one application that may be on no node with itself, or a pair with different limits.
    """
    itself = affinity.source == affinity.target
    for application, most in zip(affinity.source[itself].tolist(), affinity.most[itself].tolist(), strict=True):
        if most == 0 or most != neighbours.most_on_a_node[application]:
            return application, application
    applications = len(neighbours.most_on_a_node)
    arc = _different(neighbours, np.full(applications, -1, np.int32), np.zeros(applications, np.int32))
    if arc < 0:
        return None
    return int(np.searchsorted(neighbours.out_start, arc, side="right")) - 1, int(neighbours.out_other[arc])


@kernel
def _different(neighbours: Neighbours, seen_by: Int32, seen: Int32) -> int:
    """Return an arc with another limit of the same pair before it, -1 without one; `seen_by`, (L,), is -1."""
    for application in range(len(seen_by)):
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            other, most = neighbours.out_other[arc], neighbours.out_most[arc]
            if seen_by[other] == application and seen[other] != most:
                return arc
            seen_by[other], seen[other] = application, most
    return -1


def degrees(neighbours: Neighbours) -> Int:
    """Return the number of applications with which each application shares a limit, (L,) ([3] equation 3)."""
    found = np.zeros(len(neighbours.most_on_a_node), np.int64)
    _count_others(neighbours, np.full(len(found), -1, np.int32), found)
    return found


@kernel
def _count_others(neighbours: Neighbours, seen_by: Int32, found: Int) -> None:
    """Count the others of each application, (L,); `seen_by`, (L,), is -1."""
    for application in range(len(found)):
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1]):
            other = neighbours.out_other[arc]
            found[application] += seen_by[other] != application
            seen_by[other] = application
        for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1]):
            other = neighbours.in_other[arc]
            found[application] += seen_by[other] != application
            seen_by[other] = application


def _by_application(first: Int32, other: Int32, most: Int32, applications: int) -> tuple[Int, Int32, Int32]:
    """Return bounds, the others and the limits, in the order of `first`, which is stable."""
    start = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=applications))]).astype(np.int64)
    others, limits = np.empty_like(other), np.empty_like(most)
    _sort_by_application(first, other, most, start[:-1].copy(), others, limits)
    return start, others, limits


@kernel
def _sort_by_application(first: Int32, other: Int32, most: Int32, place: Int, others: Int32, limits: Int32) -> None:
    """Write the values of each application, (E,), from its start on, (L,)."""
    for arc in range(len(first)):
        application = first[arc]
        others[place[application]], limits[place[application]] = other[arc], most[arc]
        place[application] += 1
