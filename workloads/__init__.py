"""Demand traces: one columnar format, readers of public traces, synthetic regions, compression to demand models.

Begin reading in `workloads.trace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.readers import from_frame

__all__ = ["from_frame"]


def __getattr__(name: str) -> Any:
    """Return `from_frame`, whose modules are imported when it is first used."""
    if name != "from_frame":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workloads.readers import from_frame

    return from_frame
