"""Kernels: functions that are compiled to machine code. Only this package uses Numba, which it imports when needed.

Begin reading in `plb.compiler.kernels`, which has the decorator. `plb.compiler.compilation` makes machine code,
`plb.compiler.identity` and `plb.compiler.cache` decide when it is made again, and `plb.compiler.numba_api` imports the
names of Numba that are not documented.
"""

from plb.compiler.callbacks import Callback, call_python
from plb.compiler.clock import working_time
from plb.compiler.interrupts import interrupts_deferred, uninterrupted
from plb.compiler.kernels import ByPointer, CallByAddress, Kernel, address_of, by_pointer, kernel, pointer_to
from plb.compiler.prefetch import fetch
from plb.compiler.records import Record
from plb.compiler.uniform import Peek, Stream, uniform

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
