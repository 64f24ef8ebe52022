"""Handles: the members of a named tuple written down in memory, which kernels take by one pointer."""

from __future__ import annotations

from ctypes import Array, addressof, c_int64
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from plb.compiler.compilation import entry_of
from plb.compiler.handles import handle_kind_of, write_members

WORDS_PER_FIELD = 16
"""Room for an array of up to four dimensions: data, sizes, shape and strides."""
_write: Any = write_members  # an intrinsic takes fewer arguments than its definition


class Handle:
    """A pointer to the members of a named tuple, which has to live as long."""

    def __init__(self, members: Any) -> None:
        self._numba_type_ = handle_kind_of(members)
        self._words = _words_of(len(members))()
        self.address = addressof(self._words)
        kind: Any = type(members)
        packer_of(kind)(members, np.uint64(self.address))


@cache
def _words_of(fields: int) -> type[Array[c_int64]]:
    """Return the type of the memory that so many fields take."""
    return c_int64 * (WORDS_PER_FIELD * fields)


def _pack(members: Any, address: np.uint64) -> None:
    """Write the members of a named tuple to an address."""
    _write(members, address)


@cache
def packer_of(kind: type) -> Any:
    """Return the dispatcher that writes down tuples of a class.

    Each class has one of its own, so that the machine code kept for one is read without importing any other.
    """
    function = FunctionType(_pack.__code__, _pack.__globals__, f"pack_{kind.__qualname__}")
    function.__module__ = kind.__module__
    return entry_of(function)
