"""Records: numbers with names that kernels and Python change in place, as one piece of memory.

A named tuple of numbers cannot change, and an array has positions instead of names. A record has both: kernels get its
address, so that a number costs what an element of an array costs.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_type_hints

import numpy as np

from plb.errors import InvalidValueError

if TYPE_CHECKING:

    class _NumPyRecord:
        """What type checkers see of `numpy.void`, from which they let no class inherit."""

        def copy(self) -> Self:
            """Return a record of its own with the same numbers."""
            return self

        def item(self) -> tuple[Any, ...]:
            """Return the numbers as numbers of Python, in order."""
            return ()

else:
    _NumPyRecord = np.void


def _number(name: str) -> property:
    """Return the access of Python to a number; it takes a fifth of the time of that of `numpy.record`."""

    def change(record: Any, value: float) -> None:
        record[name] = value

    return property(itemgetter(name), change)


_KINDS = {int: np.int64, float: np.float64, bool: np.bool_}


class Record(_NumPyRecord):
    """Base of a record; a subclass annotates its numbers as int, float or bool, of 64 bits each but bool.

    Raises
    ------
    InvalidValueError
        A number has the name of a method of NumPy, which would hide it.
    """

    _layout: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        """Lay the numbers out in memory."""
        numbers = [(name, _KINDS[kind]) for name, kind in get_type_hints(cls).items() if kind in _KINDS]
        for name, _ in numbers:
            if hasattr(np.void, name):
                raise InvalidValueError(f"record {cls.__qualname__}", "name", name, "not that of a method of NumPy")
            setattr(cls, name, _number(name))
        cls._layout = np.dtype((cls, np.dtype(numbers, align=True)))

    @classmethod
    def new(cls) -> Self:
        """Return a record of zeros."""
        one: Self = np.zeros(1, cls._layout)[0]
        return one

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled by class and numbers; a scalar that NumPy restores cannot be changed from Python."""
        return _with_numbers, (type(self), [getattr(self, name) for name in self.names()])

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the numbers, in order."""
        names: tuple[str, ...] = cls._layout.names
        return names


def _with_numbers(kind: type[Record], numbers: list[Any]) -> Record:
    """Return a record with the given numbers."""
    record = kind.new()
    for name, number in zip(kind.names(), numbers, strict=True):
        setattr(record, name, number)
    return record
