"""Where NumPy keeps the numbers of a bit generator."""

from __future__ import annotations

from ctypes import c_char_p, c_void_p, py_object, pythonapi

import numpy as np

_pointer_of = pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, (py_object, c_char_p)


def address_of(generator: np.random.PCG64) -> int:
    """Return the address of what a bit generator consists of; it is valid as long as the generator lives."""
    return int(_pointer_of(generator.capsule, b"BitGenerator"))
