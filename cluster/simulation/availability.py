"""When each tenant could not be used, and why: intervals as they come, their union at the end."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np

from cluster.simulation.ledger import Floats, Ints


@attrs.define
class Interruption:
    """A time during which a tenant could not be used.

    Parameters
    ----------
    tenant
        Row of the tenant.
    begin, end
        Seconds since the start; `end` is None while it lasts.
    cause
        One of `cluster.simulation.causes`, or the constraint for which the primary moved.
    """

    tenant: int
    begin: int
    end: float | None
    cause: str


class Availability:
    """The interruptions of all tenants."""

    def __init__(self) -> None:
        self.interruptions: list[Interruption] = []
        self._lasting: dict[int, Interruption] = {}

    def interrupt(self, tenant: int, now: int, seconds: float, cause: str) -> None:
        """Note an interruption of known length."""
        if seconds > 0:
            self.interruptions.append(Interruption(tenant, now, now + seconds, cause))

    def lose(self, tenant: int, now: int, cause: str) -> bool:
        """Note that a tenant can no longer be used; return whether it could be until now."""
        if tenant in self._lasting:
            return False
        self._lasting[tenant] = Interruption(tenant, now, None, cause)
        self.interruptions.append(self._lasting[tenant])
        return True

    def regain(self, tenant: int, now: int, seconds: float = 0.0) -> None:
        """Note that a tenant can be used again, `seconds` from now."""
        lasting = self._lasting.pop(tenant, None)
        if lasting is not None:
            lasting.end = now + seconds

    def is_lost(self, tenant: int) -> bool:
        """Tell whether a tenant cannot be used until further notice."""
        return tenant in self._lasting

    def downtime(self, arrival: Ints, departure: Ints, now: float) -> Floats:
        """Return for how many seconds each tenant could not be used during its stay, up to `now`, (T,).

        Times that overlap count once.
        """
        found = np.zeros(len(arrival))
        by_tenant: dict[int, list[Interruption]] = {}
        for one in self.interruptions:
            by_tenant.setdefault(one.tenant, []).append(one)
        for tenant, ones in by_tenant.items():
            found[tenant] = _union(ones, float(arrival[tenant]), min(float(departure[tenant]), now))
        return found


def _union(ones: Iterable[Interruption], first: float, last: float) -> float:
    """Return the length of the union of interruptions between `first` and `last`."""
    total, reached = 0.0, first
    for one in sorted(ones, key=lambda one: one.begin):
        begin, end = max(float(one.begin), reached), min(last if one.end is None else one.end, last)
        if end > begin:
            total += end - begin
            reached = end
    return total
