"""Calls within kernels of something other than kernels: of addresses, of Python, for memory, and for random numbers.

Numba reads what an object is compiled to from its attribute ``_numba_type_``, see `plb.compiler.intrinsics`. Where
nothing is compiled, the objects do the same in Python.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import attrs
import numpy as np
import numpy.typing as npt

from plb.compiler.kernels import UNCOMPILED, ByPointer

_address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""The address that a capsule holds under its name; the attribute `ctypes` of a generator takes many times as long."""


_POINTED: dict[int, ByPointer] = {}
"""What addresses stand for if nothing is compiled."""


def address_of(members: ByPointer) -> int:
    """Return the address by which a kernel hands a named tuple to a kernel of another type, see `pointer_to`.

    The tuple has to live as long as the address is used.
    """
    from plb.compiler.compilation import is_compiled

    if is_compiled():
        return int(members.handle.address)
    _POINTED[id(members)] = members
    return id(members)


class PointerTo:
    """A call, within a kernel, that makes an argument of a `CallByAddress` from an `address_of`."""

    def __call__(self, address: int) -> Any:
        """Return the tuple that `address_of` gave the address, where nothing is compiled."""
        return _POINTED[int(address)]

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.intrinsics import type_of_pointer

        return type_of_pointer()


pointer_to = PointerTo()


class CallByAddress:
    """A call, within a kernel, of a kernel that is given by its address; it returns a float, a bool or None."""

    def __init__(self, returning: type | None) -> None:
        self.returning = returning

    def __call__(self, address: int, *arguments: object) -> Any:
        """Call the kernel with the address, where nothing is compiled."""
        return UNCOMPILED[int(address)](*arguments)

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.intrinsics import type_of_call

        return type_of_call(self.returning)


class Callback:
    """A Python function of so many whole numbers that kernels call by its address.

    It returns a number and raises nothing: a kernel could not pass an error on.
    """

    def __init__(self, function: Callable[..., float], arguments: int) -> None:
        self.function = function
        self._entry = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_int64] * arguments)(function)
        self.address = int(ctypes.cast(self._entry, ctypes.c_void_p).value or 0)
        _CALLBACKS[self.address] = self


_CALLBACKS: WeakValueDictionary[int, Callback] = WeakValueDictionary()
"""By address; read only where nothing is compiled."""


class CallPython:
    """A call, within a kernel, of a callback that is given by its address; returns a float."""

    def __call__(self, address: int, *arguments: int) -> float:
        """Call the Python function with the address, where nothing is compiled."""
        return float(_CALLBACKS[int(address)].function(*map(int, arguments)))

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.intrinsics import type_of_python_call

        return type_of_python_call()


call_python = CallPython()


class Fetch:
    """A call, within a kernel, that requests the first numbers of a row of an array; without effect elsewhere."""

    def __call__(self, array: npt.NDArray[np.generic], row: int) -> None:
        """Request a row of an array for the processor's cache; where nothing is compiled, do nothing."""

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.intrinsics import type_of_fetch

        return type_of_fetch()


fetch = Fetch()


class Stream(ByPointer, np.random.Generator):
    """NumPy's generator over PCG64, which kernels use by one pointer; `seed` may be such a generator."""

    def __init__(self, seed: np.random.SeedSequence | int | np.random.PCG64) -> None:
        generator = seed if isinstance(seed, np.random.PCG64) else np.random.PCG64(seed)
        super().__init__(generator)
        self.handle = StreamHandle(_address_in(generator.capsule, b"BitGenerator"))


class StreamHandle:
    """A pointer to NumPy's generator, which has to live as long; the address is the address of its state."""

    def __init__(self, address: int) -> None:
        self.address = address

    @property
    def _numba_type_(self) -> Any:
        return _kind_of_stream()


@cache
def _kind_of_stream() -> Any:
    """Return the type of a `StreamHandle`; an import takes longer than the rest of a call."""
    from plb.compiler.intrinsics import STREAM

    return STREAM


class Uniform:
    """A call, within a kernel, that samples the next number of a stream from [0, 1)."""

    def __call__(self, rng: np.random.Generator) -> float:
        """Return the next number of `rng` from [0, 1), where nothing is compiled."""
        return rng.random()

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.intrinsics import type_of_uniform

        return type_of_uniform()


@attrs.frozen
class Peek:
    """A call, within a kernel, that returns a later number of a stream without sampling any."""

    others: int
    """Number of samples before it."""

    def __call__(self, rng: np.random.Generator) -> float:
        """Return the number after the next `others` and leave the generator as it is, where nothing is compiled."""
        ahead = copy.deepcopy(rng)
        ahead.random(self.others)
        return ahead.random()

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.intrinsics import type_of_peek

        return type_of_peek(self.others)


uniform = Uniform()
