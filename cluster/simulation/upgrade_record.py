"""What a rolling upgrade leaves behind."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class UpgradeRecord:
    """A step of an upgrade: a domain that is upgraded, or rolled back.

    Parameters
    ----------
    upgrade
        Number of the upgrade, from 0.
    domain
        The upgrade domain.
    begin, end
        Seconds since the start; `end` is None while it lasts.
    rolls_back
        Whether the domain is taken back to what it was before.
    outcome
        ``"healthy"``, ``"unhealthy"``, ``"unsafe"`` (a tenant would have lost its quorum for too long) or
        ``"under way"``.
    """

    upgrade: int
    domain: str
    begin: int
    end: int | None = None
    rolls_back: bool = False
    outcome: str = "under way"
