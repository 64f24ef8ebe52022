"""Kernels: functions that are compiled to machine code, and everything that knows Numba.

Begin with `plb.compiler.kernels`: the decorator and what kernels may take. `plb.compiler.compilation` turns them into
machine code, `plb.compiler.identity` and `plb.compiler.cache` decide when that has to happen again, and
`plb.compiler.numba_api` names what is used of Numba beyond its documented interface. No module outside this package
imports Numba, and importing this package does not import it either.
"""

from plb.compiler.clock import working_time
from plb.compiler.kernels import ByPointer, CallByAddress, Kernel, by_pointer, kernel
from plb.compiler.prefetch import fetch
from plb.compiler.uniform import Peek, Stream, uniform

__all__ = [
    "ByPointer",
    "CallByAddress",
    "Kernel",
    "Peek",
    "Stream",
    "by_pointer",
    "fetch",
    "kernel",
    "uniform",
    "working_time",
]
