"""Rolling upgrades: one upgrade domain after the other, a few nodes at a time, with drains, checks and roll-back.

A domain starts only when the previous one is done and healthy. A node goes down only if no tenant loses its quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import simpy

from cluster.simulation.faults import FailoverManager, NodeStates
from cluster.simulation.recorder import UpgradeRecord
from cluster.simulation.run_tables import UPGRADE
from cluster.simulation.simulated_cluster import At, Kind, Process, SimulatedCluster
from cluster.simulation.tenancies import Tenancies, Tenancy, as_dropped
from plb.model import Role, UpgradeMark

SECONDS_BETWEEN_CHECKS = 60
"""Interval at which a node checks whether it may go down."""


class RollingUpgrades:
    """The upgrades of one run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        nodes: NodeStates,
        failover: FailoverManager,
        drains: Drains,
        rng: np.random.Generator,
        place: Callable[[Sequence[Tenancy], str], None],
    ) -> None:
        self._cluster, self._nodes, self._failover, self._drains = cluster, nodes, failover, drains
        self._settings, self._place = cluster.scenario.upgrades, place
        self._domains: dict[str, list[str]] = {}
        for node in nodes.nodes.values():
            self._domains.setdefault(node.upgrade_domain_name, []).append(node.name)
        shape = len(self._settings.starts_hours), len(self._domains)
        self._fails = rng.random(shape) < self._settings.failure_probability
        self.records = cluster.recorder.upgrades
        self._upgraded: set[str] = set()

    def process(self) -> Process:
        """Run all upgrades, one after the other."""
        for number, hours in enumerate(sorted(self._settings.starts_hours)):
            yield At(self._cluster.env, max(round(hours * 3600.0), self._cluster.now), Kind.UPGRADE)
            yield from self._upgrade(number)

    def _upgrade(self, number: int) -> Process:
        """Upgrade all domains; if one fails, roll back the upgraded ones."""
        done: list[str] = []
        self._upgraded.clear()
        for index, domain in enumerate(self._domains):
            record = UpgradeRecord(number, domain, self._cluster.now)
            yield from self._upgrade_nodes(record, self._domains[domain])
            if record.outcome == "under way":
                yield At(
                    self._cluster.env,
                    self._cluster.now + self._seconds(self._settings.health_check_minutes),
                    Kind.UPGRADE,
                )
                unhealthy = bool(self._fails[number, index]) or bool(self._nodes.down & {*self._domains[domain]})
                record.outcome = "unhealthy" if unhealthy else "healthy"
            record.end = self._cluster.now
            done.append(domain)
            if record.outcome != "healthy":
                yield from self._roll_back(number, done)
                break
            self._cluster.engine.update_upgraded_domains(done)
        self._cluster.engine.update_upgraded_domains(())

    def _roll_back(self, number: int, done: list[str]) -> Process:
        """Roll back the upgraded nodes, the last domain first."""
        for left in range(len(done), 0, -1):
            self._cluster.engine.update_upgraded_domains(done[: left - 1])
            names = [name for name in self._domains[done[left - 1]] if name in self._upgraded]
            if not names:
                continue
            record = UpgradeRecord(number, done[left - 1], self._cluster.now, rolls_back=True)
            yield from self._upgrade_nodes(record, names)
            record.end = self._cluster.now
            record.outcome = "healthy" if record.outcome == "under way" else record.outcome

    def _upgrade_nodes(self, record: UpgradeRecord, names: Sequence[str]) -> Process:
        """Take nodes of a domain down and back up, a few at a time."""
        self.records.append(record)
        places = simpy.Resource(self._cluster.env, self._settings.nodes_at_once)
        yield self._cluster.env.all_of([self._cluster.env.process(self._node(record, name, places)) for name in names])

    def _node(self, record: UpgradeRecord, name: str, places: simpy.Resource) -> Process:
        """Drain a node, wait until it may go down, upgrade it and move its primaries back."""
        with places.request() as place:
            yield place
            if record.outcome != "under way":
                return
            self._nodes.drain(name, drains=True)
            primaries = self._drain(name) if self._settings.drain else []
            deadline = self._cluster.now + self._seconds(self._settings.safety_check_minutes)
            while not self._drains.may_go_down(name):
                if self._cluster.now >= deadline:
                    record.outcome = "unsafe"
                    self._nodes.drain(name, drains=False)
                    return
                yield At(self._cluster.env, self._cluster.now + SECONDS_BETWEEN_CHECKS, Kind.UPGRADE)
            self._nodes.drain(name, drains=False)
            self._place(self._failover.node_lost(name, UPGRADE), UPGRADE)
            yield At(
                self._cluster.env, self._cluster.now + self._seconds(self._settings.minutes_per_node), Kind.NODE_BACK
            )
            self._failover.node_back(name, UPGRADE)
            self._upgraded.add(name)
            self._return(name, primaries)

    def _drain(self, name: str) -> list[str]:
        """Move away primaries, and replicas of tenants that need all; return the partitions whose primary left."""
        marked = self._drains.mark_primaries_on(name)
        self._place(marked, UPGRADE)
        left = self._drains.unmark(marked, name)
        leaving = self._drains.leave(name)
        self._place(leaving, UPGRADE)
        self._drains.stay(leaving, name)
        return left

    def _return(self, name: str, primaries: Sequence[str]) -> None:
        """Move the primaries that a node had before its upgrade back to it."""
        marked = self._drains.mark_returns_to(name, primaries)
        self._place(marked, UPGRADE)
        self._drains.unmark(marked, name)

    def _seconds(self, minutes: float) -> int:
        return round(minutes * 60.0)


class Drains:
    """Marks replicas on draining nodes, and unmarks them again."""

    def __init__(self, tenancies: Tenancies) -> None:
        self._tenancies = tenancies

    def mark_primaries_on(self, name: str) -> list[Tenancy]:
        """Mark the primaries on a node to hand over their role; return their tenants."""
        return self._mark(name, Role.PRIMARY, UpgradeMark.SWAP_OUT, self._tenancies.on(name))

    def mark_returns_to(self, name: str, partitions: Iterable[str]) -> list[Tenancy]:
        """Mark primaries of partitions to return to a node; return the tenants that have a secondary there."""
        present = [self._tenancies.known[partition] for partition in partitions if partition in self._tenancies.known]
        return self._mark(name, Role.SECONDARY, UpgradeMark.PRIMARY_RETURNS, present)

    def _mark(self, name: str, role: Role, mark: UpgradeMark, tenancies: Iterable[Tenancy]) -> list[Tenancy]:
        marked = []
        for tenancy in tenancies:
            ready = self._tenancies.states.ready(tenancy.partition)
            if tenancy.replicas > 1 and any((replica.node, replica.role) == (name, role) for replica in ready):
                self._tenancies.states.marks[tenancy.partition] = {name: mark}
                self._tenancies.settle(tenancy)
                marked.append(tenancy)
        return marked

    def unmark(self, tenancies: Sequence[Tenancy], name: str) -> list[str]:
        """Remove marks; return the partitions whose primary is not on the node."""
        for tenancy in tenancies:
            self._tenancies.states.marks.pop(tenancy.partition, None)
            self._tenancies.settle(tenancy)
        primaries = {each.partition: self._tenancies.states.primary(each.partition) for each in tenancies}
        return [partition for partition, primary in primaries.items() if primary is None or primary.node != name]

    def leave(self, name: str) -> list[Tenancy]:
        """Make replicas leave a node where their tenants need all replicas; return these tenants."""
        leaving = [replica for replica in self._tenancies.on(name) if self._must_leave(replica, name)]
        for tenancy in leaving:
            self._tenancies.report_replicas(
                tenancy, [as_dropped(replica, name, dropped=True) for replica in self._tenancies.described(tenancy)]
            )
        return leaving

    def _must_leave(self, tenancy: Tenancy, name: str) -> bool:
        """Return whether a tenant needs all its replicas, has them all, and has one of them on a node."""
        ready, needs_all = self._tenancies.states.ready(tenancy.partition), tenancy.quorum == tenancy.replicas
        complete = len(ready) == tenancy.replicas == len(self._tenancies.described(tenancy))
        return needs_all and complete and any(replica.node == name for replica in ready)

    def stay(self, tenancies: Iterable[Tenancy], name: str) -> None:
        """Let replicas that should leave a node but were not placed elsewhere stay."""
        for tenancy in tenancies:
            described = self._tenancies.described(tenancy)
            if len(described) == tenancy.replicas:
                self._tenancies.report_replicas(
                    tenancy, [as_dropped(replica, name, dropped=False) for replica in described]
                )

    def may_go_down(self, name: str) -> bool:
        """Return whether no tenant loses its quorum and no move fails if a node goes down."""
        return all(self._can_spare(tenancy, name) for tenancy in self._tenancies.on(name))

    def _can_spare(self, tenancy: Tenancy, name: str) -> bool:
        if any(replica.leaving for replica in self._tenancies.described(tenancy)):
            return False
        ready = self._tenancies.states.ready(tenancy.partition)
        has_replica = any(replica.node == name for replica in ready)
        used = tenancy.replicas > 1 and self._tenancies.serves(tenancy.partition)
        return not used or not has_replica or len(ready) - 1 >= tenancy.quorum
