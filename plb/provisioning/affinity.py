"""Limits between applications: how many replicas of one may stand beside another ([3] section 3.1).

L applications, E limits.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from plb.arrays import Int32
from plb.errors import ConflictError, InvalidValueError

ANY_NUMBER = 2**31 - 1
"""Stands for no limit."""


class Neighbours(NamedTuple):
    """The limits of all applications in both directions, as kernels read them: those of application i stand in
    ``start[i]:start[i + 1]``."""

    out_start: npt.NDArray[np.int64]
    """(L + 1,)"""
    out_other: Int32
    """(E,) whom i limits."""
    out_most: Int32
    """(E,) how many of them may stand beside an i."""
    in_start: npt.NDArray[np.int64]
    """(L + 1,)"""
    in_other: Int32
    """(E,) who limits i."""
    in_most: Int32
    """(E,) how many i may stand beside them."""
    own: Int32
    """(L,) how many of itself may stand on a node, at least 1; `ANY_NUMBER`: no limit."""


@attrs.frozen(eq=False)
class Affinity:
    """Directed limits a_ij ([3] section 3.1): on a node with a replica of i stand at most a_ij replicas of j.

    Parameters
    ----------
    source, target, most
        (E,) i, j and a_ij. A limit that an application has for itself counts all of its replicas on a node, so 0 and 1
        both mean that it stands alone of its kind. Of repeated limits the least counts.
    """

    source: Int32
    target: Int32
    most: Int32

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def none(cls) -> Affinity:
        """Return no limits at all."""
        empty = np.zeros(0, np.int32)
        return cls(empty, empty, empty)

    @classmethod
    def from_columns(
        cls, source: npt.ArrayLike, target: npt.ArrayLike, most: npt.ArrayLike, applications: int
    ) -> Affinity:
        """Return the limits of columns, each (E,), after a look at them.

        Raises
        ------
        ConflictError
            The columns differ in length.
        InvalidValueError
            A number is no application, or a limit negative.
        """
        columns = {"source": np.asarray(source), "target": np.asarray(target), "most": np.asarray(most)}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ConflictError(f"affinity: the columns have {lengths} values; expected equally many")
        for name, column in columns.items():
            high = ANY_NUMBER if name == "most" else applications - 1
            bad = np.flatnonzero(~((column >= 0) & (column <= high) & (column == np.floor(column))))
            if len(bad):
                allowed = f"a whole number from 0 to {high}"
                raise InvalidValueError(f"affinity {bad[0]}", name, column[bad[0]].item(), allowed)
        return cls(*(column.astype(np.int32) for column in columns.values()))

    def neighbours(self, applications: int) -> Neighbours:
        """Return the limits by application."""
        own = np.full(applications, ANY_NUMBER, np.int32)
        itself = self.source == self.target
        np.minimum.at(own, self.source[itself], np.maximum(self.most[itself], 1))
        source, target, most = (column[~itself] for column in (self.source, self.target, self.most))
        outward, inward = (
            _by_application(first, other, most, applications) for first, other in ((source, target), (target, source))
        )
        return Neighbours(*outward, *inward, own)

    def degrees(self, applications: int) -> npt.NDArray[np.int64]:
        """Return with how many others each application shares a limit, in whichever direction, (L,) ([3] eq. 3)."""
        other = self.source != self.target
        low, high = np.minimum(self.source, self.target)[other], np.maximum(self.source, self.target)[other]
        pairs = np.unique(low.astype(np.int64) * applications + high)
        return np.bincount(pairs // applications, minlength=applications) + np.bincount(
            pairs % applications, minlength=applications
        )


def _by_application(
    first: Int32, other: Int32, most: Int32, applications: int
) -> tuple[npt.NDArray[np.int64], Int32, Int32]:
    """Return bounds, the others and the limits, in the order of `first`."""
    order = np.argsort(first, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=applications))]).astype(np.int64)
    return start, other[order], most[order]
