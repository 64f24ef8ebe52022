"""Kernels: functions that are compiled to machine code. Only this package uses Numba, which it imports when needed.

Begin reading in `plb.compiler.kernels`, which has the decorator. `plb.compiler.compilation` makes machine code,
and `plb.compiler.identity` and `plb.compiler.cache` decide when it is made again. Names of Numba that are not
documented may change with any release, so the package requires tested versions.
"""

from plb.compiler.calls import (
    Callback,
    CallByAddress,
    Peek,
    Stream,
    address_of,
    call_python,
    fetch,
    pointer_to,
    uniform,
)
from plb.compiler.clock import working_time
from plb.compiler.interrupts import interrupts_deferred, uninterrupted
from plb.compiler.kernels import ByPointer, Kernel, Record, by_pointer, kernel

__all__ = [
    "ByPointer",
    "CallByAddress",
    "Callback",
    "Kernel",
    "Peek",
    "Record",
    "Stream",
    "address_of",
    "by_pointer",
    "call_python",
    "fetch",
    "interrupts_deferred",
    "kernel",
    "pointer_to",
    "uniform",
    "uninterrupted",
    "working_time",
]
