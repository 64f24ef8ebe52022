"""Callbacks: kernels call Python functions, for extensions that are not compiled."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CFUNCTYPE, c_double, c_int64, c_void_p, cast
from typing import Any
from weakref import WeakValueDictionary


class Callback:
    """A Python function of whole numbers that kernels call by its address.

    Parameters
    ----------
    function
        Returns a number and raises nothing: a kernel could not pass an error on.
    arguments
        Number of its arguments.
    """

    def __init__(self, function: Callable[..., float], arguments: int) -> None:
        self.function = function
        self._entry = CFUNCTYPE(c_double, *[c_int64] * arguments)(function)
        self.address = int(cast(self._entry, c_void_p).value or 0)
        _CALLBACKS[self.address] = self


_CALLBACKS: WeakValueDictionary[int, Callback] = WeakValueDictionary()
"""By address; read only where nothing is compiled."""


class CallPython:
    """A call, within a kernel, of a callback that is given by its address; returns a float."""

    def __call__(self, address: int, *arguments: int) -> float:
        """Call the function where nothing is compiled."""
        return float(_CALLBACKS[int(address)].function(*map(int, arguments)))

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.addresses import type_of_python_call

        return type_of_python_call()


call_python = CallPython()
