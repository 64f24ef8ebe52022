"""Draining of nodes before an upgrade: primaries hand over their role, and replicas leave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cluster.simulation.replica_states import Tenancy, as_leaving
from cluster.simulation.tenancies import Tenancies
from plb.model import Role, UpgradeMark


class Drains:
    """Marks replicas on draining nodes, and unmarks them again.

    Parameters
    ----------
    tenancies
        The run's.
    """

    def __init__(self, tenancies: Tenancies) -> None:
        self._tenancies = tenancies

    def mark_primaries_on(self, name: str) -> list[Tenancy]:
        """Mark the primaries on a node to hand over their role; return their tenants."""
        return self._mark(name, Role.PRIMARY, UpgradeMark.SWAP_OUT, self._tenancies.on(name))

    def mark_returns_to(self, name: str, partitions: Iterable[str]) -> list[Tenancy]:
        """Mark primaries of partitions to return to a node; return the tenants that have a secondary there."""
        known = [self._tenancies.known[one] for one in partitions if one in self._tenancies.known]
        return self._mark(name, Role.SECONDARY, UpgradeMark.PRIMARY_RETURNS, known)

    def _mark(self, name: str, role: Role, mark: UpgradeMark, tenancies: Iterable[Tenancy]) -> list[Tenancy]:
        marked = []
        for tenancy in tenancies:
            ready = self._tenancies.states.ready(tenancy.partition)
            if tenancy.replicas > 1 and any((one.node, one.role) == (name, role) for one in ready):
                self._tenancies.states.marks[tenancy.partition] = {name: mark}
                self._tenancies.settle(tenancy)
                marked.append(tenancy)
        return marked

    def unmark(self, tenancies: Sequence[Tenancy], name: str) -> list[str]:
        """Remove marks; return the partitions whose primary is not on the node."""
        for tenancy in tenancies:
            self._tenancies.states.marks.pop(tenancy.partition, None)
            self._tenancies.settle(tenancy)
        primaries = {one.partition: self._tenancies.states.primary(one.partition) for one in tenancies}
        return [partition for partition, primary in primaries.items() if primary is None or primary.node != name]

    def leave(self, name: str) -> list[Tenancy]:
        """Make replicas leave a node where their tenants need all replicas; return these tenants."""
        leaving = [one for one in self._tenancies.on(name) if self._must_leave(one, name)]
        for tenancy in leaving:
            self._tenancies.report_replicas(
                tenancy, [as_leaving(one, name, leaving=True) for one in self._tenancies.described(tenancy)]
            )
        return leaving

    def _must_leave(self, tenancy: Tenancy, name: str) -> bool:
        """Return whether a tenant needs all its replicas, has them all, and has one of them on a node."""
        ready, needs_all = self._tenancies.states.ready(tenancy.partition), tenancy.quorum == tenancy.replicas
        complete = len(ready) == tenancy.replicas == len(self._tenancies.described(tenancy))
        return needs_all and complete and any(one.node == name for one in ready)

    def stay(self, tenancies: Iterable[Tenancy], name: str) -> None:
        """Let replicas that should leave a node but were not placed elsewhere stay."""
        for tenancy in tenancies:
            described = self._tenancies.described(tenancy)
            if len(described) == tenancy.replicas:
                self._tenancies.report_replicas(tenancy, [as_leaving(one, name, leaving=False) for one in described])

    def may_go_down(self, name: str) -> bool:
        """Return whether no tenant loses its quorum and no move fails if a node goes down."""
        return all(self._can_spare(tenancy, name) for tenancy in self._tenancies.on(name))

    def _can_spare(self, tenancy: Tenancy, name: str) -> bool:
        if any(one.leaving for one in self._tenancies.described(tenancy)):
            return False
        ready = self._tenancies.states.ready(tenancy.partition)
        has_replica = any(one.node == name for one in ready)
        used = tenancy.replicas > 1 and self._tenancies.serves(tenancy.partition)
        return not used or not has_replica or len(ready) - 1 >= tenancy.quorum
