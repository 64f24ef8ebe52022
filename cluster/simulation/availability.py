"""Availability of tenants: the replicas that each needs, and when and why it was unavailable.

Interruptions are recorded as intervals and merged at the end.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np

from plb.array_types import Float, Int


@attrs.frozen(eq=False)
class Tenancy:
    """The properties of a tenant that failover depends on."""

    tenant: int
    """Its row in the sequence of tenants."""
    partition: str
    service: str
    """Their names."""
    replicas: int
    """Target number of replicas."""
    stateful: bool
    """Whether the replicas are a primary and secondaries; False: instances."""

    @property
    def quorum(self) -> int:
        """Number of ready replicas that it needs to be available: a majority, or one instance."""
        return self.replicas // 2 + 1 if self.stateful else 1


@attrs.define
class Interruption:
    """A time during which a tenant is unavailable."""

    tenant: int
    """Row of the tenant."""
    begin: int
    end: float | None
    """Seconds since the start; `end` is None until it ends."""
    cause: str
    """One of `cluster.simulation.run_tables`, or the constraint that made the primary move."""


class Availability:
    """The interruptions of all tenants."""

    def __init__(self) -> None:
        self.interruptions: list[Interruption] = []
        self._open: dict[int, Interruption] = {}

    def interrupt(self, tenant: int, now: int, seconds: float, cause: str) -> None:
        """Record an interruption of known length."""
        if seconds > 0:
            self.interruptions.append(Interruption(tenant, now, now + seconds, cause))

    def lose(self, tenant: int, now: int, cause: str) -> bool:
        """Record that a tenant is unavailable from now on; return whether it was available before."""
        if tenant in self._open:
            return False
        self._open[tenant] = Interruption(tenant, now, None, cause)
        self.interruptions.append(self._open[tenant])
        return True

    def regain(self, tenant: int, now: int, seconds: float = 0.0) -> None:
        """Record that a tenant is available again, `seconds` from now."""
        open_interruption = self._open.pop(tenant, None)
        if open_interruption is not None:
            open_interruption.end = now + seconds

    def is_lost(self, tenant: int) -> bool:
        """Return whether a tenant is unavailable with no known end."""
        return tenant in self._open

    def downtime(self, arrival: Int, departure: Int, owner: Int, now: float) -> Float:
        """Return the seconds for which each tenant was unavailable during its stay, up to `now`, (T,).

        Overlaps count once. A tenant is unavailable while one of its partitions is; `owner`, (T,), has the tenant of
        each row.
        """
        found = np.zeros(len(arrival))
        by_tenant: dict[int, list[Interruption]] = {}
        for interruption in self.interruptions:
            by_tenant.setdefault(int(owner[interruption.tenant]), []).append(interruption)
        for tenant, interruptions in by_tenant.items():
            found[tenant] = _union(interruptions, float(arrival[tenant]), min(float(departure[tenant]), now))
        return found


def _union(interruptions: Iterable[Interruption], first: float, last: float) -> float:
    """Return the length of the union of interruptions between `first` and `last`."""
    total, reached = 0.0, first
    for interruption in sorted(interruptions, key=lambda each: each.begin):
        begin, end = (
            max(float(interruption.begin), reached),
            min(last if interruption.end is None else interruption.end, last),
        )
        if end > begin:
            total += end - begin
            reached = end
    return total
