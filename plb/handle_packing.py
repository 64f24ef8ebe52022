"""The one kernel that takes a named tuple member by member: it writes them down for `plb.handles.Handle`."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.handles import write_members
from plb.kernel import kernel

_write: Any = write_members  # an intrinsic takes fewer arguments than its definition


@kernel
def pack(members: Any, address: np.uint64) -> None:
    """Write the members of a named tuple to an address."""
    _write(members, address)
