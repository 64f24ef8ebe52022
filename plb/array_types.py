"""The types of arrays, by what they hold, the number that stands for no node, and how read-only ones are pickled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
"""An array of any type of numbers, texts or objects."""
Int = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]

NOWHERE = -1
"""Stands for the node of a replica that is on none."""


def made_again(self: Any) -> tuple[Callable[[], Any], tuple[()]]:
    """Return the call that makes an attrs object again from its arguments; as ``__reduce__``, for copies and pickles.

    Its constructor makes arrays read-only, which NumPy forgets when it pickles them: Numba would compile kernels anew
    for arrays that can be written.
    """
    kind: Callable[..., Any] = type(self)
    fields = {field.alias: getattr(self, field.name) for field in attrs.fields(type(self)) if field.init}
    return partial(kind, **fields), ()
