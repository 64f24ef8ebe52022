"""Names of partitions, in the order in which they were made, as a plan has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload


class PartitionNames(Sequence[str]):
    """The first names of a list to which names are only added: plans share one list, and a plan costs no copy of it.

    It is equal to any sequence of the same names, and does not change.

    Parameters
    ----------
    names
        A list that may grow, but never change otherwise.
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
        """Return a name, or those of a slice."""
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
        """Return the names as those of a tuple."""
        return repr(tuple(self))

    def __reduce__(self) -> tuple[type[PartitionNames], tuple[list[str]]]:
        """Be copied and pickled with its names alone."""
        return PartitionNames, ([*self],)
