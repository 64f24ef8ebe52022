"""Asking for memory ahead of its use.

In a large cluster a random row is in no cache, and a step that reads its arrays one after the other waits for memory
again and again. Requested together in advance, they arrive together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Fetch:
    """A call, within a kernel, that requests the first numbers of a row of an array; without effect elsewhere."""

    def __call__(self, array: npt.NDArray[np.generic], row: int) -> None:
        """Do nothing if nothing is compiled."""

    @property
    def _numba_type_(self) -> Any:
        from plb.compiler.prefetching import type_of_fetch

        return type_of_fetch()


fetch = Fetch()
