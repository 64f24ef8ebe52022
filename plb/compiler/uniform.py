"""Uniform random numbers for kernels: those of `numpy.random.Generator.random`, without a call.

Kernels sample several for every proposal, and NumPy's generator is reached by the address of a function. Here the same
generator steps within the kernel, on the same state, so a stream is the same for all users.
"""

from __future__ import annotations

import copy
import ctypes
from functools import cache
from typing import Any

import attrs
import numpy as np

from plb.compiler.kernels import ByPointer

_address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""The address that a capsule holds under its name; the attribute `ctypes` of a generator takes many times as long."""


class Stream(ByPointer, np.random.Generator):
    """NumPy's generator over PCG64, which kernels use by one pointer.

    Parameters
    ----------
    seed
        As of `numpy.random.PCG64`, or such a generator.
    """

    def __init__(self, seed: np.random.SeedSequence | int | np.random.PCG64) -> None:
        generator = seed if isinstance(seed, np.random.PCG64) else np.random.PCG64(seed)
        super().__init__(generator)
        self.handle = StreamHandle(_address_in(generator.capsule, b"BitGenerator"))


class StreamHandle:
    """A pointer to what NumPy's generator consists of, which has to live as long.

    Parameters
    ----------
    address
        Address of its state.
    """

    def __init__(self, address: int) -> None:
        self.address = address

    @property
    def _numba_type_(self) -> Any:
        return _kind_of_stream()


@cache
def _kind_of_stream() -> Any:
    """Return the type of a `StreamHandle`; an import takes longer than the rest of a call."""
    from plb.compiler.pcg64 import STREAM

    return STREAM


class Uniform:
    """A call, within a kernel, that samples the next number of a stream from [0, 1)."""

    def __call__(self, rng: np.random.Generator) -> float:
        """Sample if nothing is compiled."""
        return rng.random()

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.pcg64 import type_of_uniform

        return type_of_uniform()


@attrs.frozen
class Peek:
    """A call, within a kernel, that returns a later number of a stream without sampling any.

    Parameters
    ----------
    others
        Number of samples before it.
    """

    others: int

    def __call__(self, rng: np.random.Generator) -> float:
        """Return the number if nothing is compiled."""
        ahead = copy.deepcopy(rng)
        ahead.random(self.others)
        return ahead.random()

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.pcg64 import type_of_peek

        return type_of_peek(self.others)


uniform = Uniform()
