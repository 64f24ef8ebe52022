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
    """The upgrades of one run; `place` places the missing or marked replicas of tenants, for an occasion."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        nodes: NodeStates,
        failover: FailoverManager,
        drains: Drains,
        rng: np.random.Generator,
        place: Callable[[Sequence[Tenancy], str], None],
    ) -> None:
        """Begin before the first upgrade; `place` places the missing replicas of tenants for a reason."""
        self._cluster, self._nodes, self._failover, self._drains = cluster, nodes, failover, drains
        self._settings, self._place = cluster.scenario.upgrades, place
        self._domains: dict[str, list[str]] = {}
        """Names of the nodes, by upgrade domain."""
        for node in nodes.nodes.values():
            self._domains.setdefault(node.upgrade_domain_name, []).append(node.name)
        shape = len(self._settings.starts_hours), len(self._domains)
        self._fails = rng.random(shape) < self._settings.failure_probability
        """Whether the health check fails, by upgrade and domain."""
        self.records = cluster.recorder.upgrades
        self._upgraded: set[str] = set()
        """Names of the nodes that the present upgrade has upgraded."""

    def process(self) -> Process:
        """Run all upgrades, one after the other."""
        for number, hours in enumerate(sorted(self._settings.starts_hours)):
            yield At(self._cluster.env, max(round(hours * 3600.0), self._cluster.now), Kind.UPGRADE)
            yield from self._upgrade(number)

    def _upgrade(self, number: int) -> Process:
        """Upgrade all domains in upgrade number `number`; if a domain fails, roll back the upgraded domains."""
        upgraded_domains: list[str] = []
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
                is_unhealthy = bool(self._fails[number, index]) or bool(self._nodes.down & {*self._domains[domain]})
                record.outcome = "unhealthy" if is_unhealthy else "healthy"
            record.end = self._cluster.now
            upgraded_domains.append(domain)
            if record.outcome != "healthy":
                yield from self._roll_back(number, upgraded_domains)
                break
            self._cluster.engine.update_upgraded_domains(upgraded_domains)
        self._cluster.engine.update_upgraded_domains(())

    def _roll_back(self, number: int, upgraded_domains: list[str]) -> Process:
        """Roll back the upgraded nodes of `upgraded_domains`, the last domain first, in upgrade number `number`."""
        for domains_left in range(len(upgraded_domains), 0, -1):
            self._cluster.engine.update_upgraded_domains(upgraded_domains[: domains_left - 1])
            nodes = [name for name in self._domains[upgraded_domains[domains_left - 1]] if name in self._upgraded]
            if not nodes:
                continue
            record = UpgradeRecord(number, upgraded_domains[domains_left - 1], self._cluster.now, rolls_back=True)
            yield from self._upgrade_nodes(record, nodes)
            record.end = self._cluster.now
            record.outcome = "healthy" if record.outcome == "under way" else record.outcome

    def _upgrade_nodes(self, record: UpgradeRecord, nodes: Sequence[str]) -> Process:
        """Take nodes of the domain of `record` down and back up, a few at a time."""
        self.records.append(record)
        turns = simpy.Resource(self._cluster.env, self._settings.nodes_at_once)
        yield self._cluster.env.all_of([self._cluster.env.process(self._node(record, node, turns)) for node in nodes])

    def _node(self, record: UpgradeRecord, node: str, turns: simpy.Resource) -> Process:
        """Drain a node, wait until it may go down, upgrade it and move its primaries back.

        `turns` limits how many nodes do so at once. Nothing happens once the step of `record` has an outcome.
        """
        with turns.request() as turn:
            yield turn
            if record.outcome != "under way":
                return
            self._nodes.drain(node, drains=True)
            primaries = self._drain(node) if self._settings.drain else []
            deadline = self._cluster.now + self._seconds(self._settings.safety_check_minutes)
            while not self._drains.may_go_down(node):
                if self._cluster.now >= deadline:
                    record.outcome = "unsafe"
                    self._nodes.drain(node, drains=False)
                    return
                yield At(self._cluster.env, self._cluster.now + SECONDS_BETWEEN_CHECKS, Kind.UPGRADE)
            self._nodes.drain(node, drains=False)
            self._place(self._failover.node_lost(node, UPGRADE), UPGRADE)
            yield At(
                self._cluster.env, self._cluster.now + self._seconds(self._settings.minutes_per_node), Kind.NODE_BACK
            )
            self._failover.node_back(node, UPGRADE)
            self._upgraded.add(node)
            self._return(node, primaries)

    def _drain(self, node: str) -> list[str]:
        """Move primaries, and replicas of tenants that need all, off a node.

        Return the partitions whose primary left.
        """
        with_primary = self._drains.mark_primaries_on(node)
        self._place(with_primary, UPGRADE)
        moved_primaries = self._drains.unmark(with_primary, node)
        needing_all = self._drains.leave(node)
        self._place(needing_all, UPGRADE)
        self._drains.stay(needing_all, node)
        return moved_primaries

    def _return(self, node: str, primaries: Sequence[str]) -> None:
        """Move primaries back to the node on which they were before its upgrade; `primaries`: their partitions."""
        marked = self._drains.mark_returns_to(node, primaries)
        self._place(marked, UPGRADE)
        self._drains.unmark(marked, node)

    def _seconds(self, minutes: float) -> int:
        """Return minutes in whole seconds."""
        return round(minutes * 60.0)


class Drains:
    """Marks replicas on draining nodes, and unmarks them again."""

    def __init__(self, tenancies: Tenancies) -> None:
        self._tenancies = tenancies

    def mark_primaries_on(self, node: str) -> list[Tenancy]:
        """Mark the primaries on a node to hand over their role; return the tenants of the marked primaries."""
        return self._mark(node, Role.PRIMARY, UpgradeMark.SWAP_OUT, self._tenancies.on(node))

    def mark_returns_to(self, node: str, partitions: Iterable[str]) -> list[Tenancy]:
        """Mark primaries of partitions to return to a node; return the tenants that have a secondary there."""
        tenancies = [self._tenancies.known[partition] for partition in partitions if partition in self._tenancies.known]
        return self._mark(node, Role.SECONDARY, UpgradeMark.PRIMARY_RETURNS, tenancies)

    def _mark(self, node: str, role: Role, mark: UpgradeMark, tenancies: Iterable[Tenancy]) -> list[Tenancy]:
        """Mark the ready replicas in `role` on a node, of tenants with several replicas; return the tenants marked."""
        marked = []
        for tenancy in tenancies:
            ready = self._tenancies.states.ready(tenancy.partition)
            if tenancy.replicas > 1 and any((replica.node, replica.role) == (node, role) for replica in ready):
                self._tenancies.states.marks[tenancy.partition] = {node: mark}
                self._tenancies.settle(tenancy)
                marked.append(tenancy)
        return marked

    def unmark(self, tenancies: Sequence[Tenancy], node: str) -> list[str]:
        """Remove the marks of tenants; return the partitions whose primary is not on the node."""
        for tenancy in tenancies:
            self._tenancies.states.marks.pop(tenancy.partition, None)
            self._tenancies.settle(tenancy)
        partitions = [tenancy.partition for tenancy in tenancies]
        primaries = {partition: self._tenancies.states.primary(partition) for partition in partitions}
        return [partition for partition, primary in primaries.items() if primary is None or primary.node != node]

    def leave(self, node: str) -> list[Tenancy]:
        """Make replicas leave a node where their tenants need all replicas; return the tenants of these replicas."""
        leaving = [tenancy for tenancy in self._tenancies.on(node) if self._must_leave(tenancy, node)]
        for tenancy in leaving:
            self._tenancies.report_replicas(
                tenancy, [as_dropped(replica, node, dropped=True) for replica in self._tenancies.described(tenancy)]
            )
        return leaving

    def _must_leave(self, tenancy: Tenancy, node: str) -> bool:
        """Return whether a tenant needs all its replicas, has all of them, and has one on the node."""
        ready, needs_all = self._tenancies.states.ready(tenancy.partition), tenancy.quorum == tenancy.replicas
        is_complete = len(ready) == tenancy.replicas == len(self._tenancies.described(tenancy))
        return needs_all and is_complete and any(replica.node == node for replica in ready)

    def stay(self, tenancies: Iterable[Tenancy], node: str) -> None:
        """Let the replicas of tenants stay on a node which should leave it, but were not placed elsewhere."""
        for tenancy in tenancies:
            described = self._tenancies.described(tenancy)
            if len(described) == tenancy.replicas:
                self._tenancies.report_replicas(
                    tenancy, [as_dropped(replica, node, dropped=False) for replica in described]
                )

    def may_go_down(self, node: str) -> bool:
        """Return whether no tenant loses its quorum and no move fails if a node goes down."""
        return all(self._can_spare(tenancy, node) for tenancy in self._tenancies.on(node))

    def _can_spare(self, tenancy: Tenancy, node: str) -> bool:
        """Return whether a tenant has no move under way, and keeps its quorum, or needs none, without a node."""
        if any(replica.leaving for replica in self._tenancies.described(tenancy)):
            return False
        ready = self._tenancies.states.ready(tenancy.partition)
        has_replica = any(replica.node == node for replica in ready)
        needs_quorum = tenancy.replicas > 1 and self._tenancies.serves(tenancy.partition)
        return not needs_quorum or not has_replica or len(ready) - 1 >= tenancy.quorum
