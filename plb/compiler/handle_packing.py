"""The kernels that take a named tuple member by member: they write it down for `plb.compiler.handles.Handle`."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from plb.compiler.handles import write_members
from plb.compiler.kernels import Kernel

_write: Any = write_members  # an intrinsic takes fewer arguments than its definition


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
    return Kernel(function).dispatcher
