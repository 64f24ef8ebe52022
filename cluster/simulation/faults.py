"""Faults of nodes, sampled before any policy runs so that all policies face the same, and the failover of replicas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np

from cluster.scenario.cluster_sections import Faults, Outage
from cluster.scenario.scenario import Scenario
from cluster.simulation.random_streams import stream
from cluster.simulation.run_tables import FAULT, UPGRADE
from cluster.simulation.simulated_cluster import SimulatedCluster
from cluster.simulation.tenancies import Loss, PlanExecution, Tenancies, Tenancy, as_leaving
from plb import Move, MoveKind, Node, UnknownNameError
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState

Interval = tuple[int, int]
"""Seconds since the start: the first second of a fault, and the first after it."""


@attrs.frozen(order=True)
class NodeEvent:
    """A node goes down or comes back."""

    time: int
    """Seconds since the start."""
    goes_down: bool
    """Whether it goes down; nodes come back before others go down at the same time."""
    node: str
    """Its name."""


def make_faults(scenario: Scenario, nodes: Sequence[Node], repeat: int = 0) -> list[NodeEvent]:
    """Return when nodes go down and come back in a repeat, by time; a node is down while any of its faults lasts."""
    faults, end = scenario.faults, round(scenario.run.days * 86400)
    _check_names(faults, nodes)
    events = []
    for index, node in enumerate(nodes):
        intervals = [*_listed(faults, node, end)]
        if faults.days_between_crashes is not None:
            intervals += _random_crashes(faults, end, stream(scenario.run.seed, "faults", repeat, index))
        for begin, after in _merged(intervals):
            if begin <= end:
                events += [NodeEvent(begin, True, node.name), NodeEvent(after, False, node.name)]
    return sorted(events)


def _check_names(faults: Faults, nodes: Sequence[Node]) -> None:
    names = [node.name for node in nodes]
    paths = {node.fault_domain_path[:depth] for node in nodes for depth in range(1, len(node.fault_domain_path) + 1)}
    for place in ("crashes", "flapping"):
        for fault in getattr(faults, place):
            if fault.node not in names:
                raise UnknownNameError("node", fault.node, names, f"faults.{place}")
    for outage in faults.outages:
        if _path_of(outage) not in paths:
            domains = sorted("/".join(path) for path in paths)
            raise UnknownNameError("fault domain", outage.fault_domain, domains, "faults.outages")


def _path_of(outage: Outage) -> tuple[str, ...]:
    """Return the path of the domain that fails, from the top level down."""
    return tuple(part for part in outage.fault_domain.removeprefix("fd:").split("/") if part)


def _listed(faults: Faults, node: Node, end: int) -> Iterator[Interval]:
    """Yield the faults of a node that the scenario lists; flapping stops at `end`, the last second of the run."""
    for crash in faults.crashes:
        if crash.node == node.name:
            yield _interval(crash.at_hours, crash.hours)
    for outage in faults.outages:
        domain = _path_of(outage)
        if node.fault_domain_path[: len(domain)] == domain:
            yield _interval(outage.at_hours, outage.hours)
    for flapping in faults.flapping:
        if flapping.node == node.name:
            # hours; one cycle more than the run has, because a fault may begin at the end itself
            begin, cycle = flapping.from_hours, (flapping.up_minutes + flapping.down_minutes) / 60.0
            for number in range(math.ceil((min(flapping.until_hours, end / 3600.0 + cycle) - begin) / cycle)):
                yield _interval(begin + number * cycle, flapping.down_minutes / 60.0)


def _random_crashes(faults: Faults, end: int, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield sampled crashes of one node."""
    assert faults.days_between_crashes is not None
    now = 0.0
    while True:
        now += rng.exponential(faults.days_between_crashes * 86400.0)
        if now > end:
            return
        repaired = now + _repair_seconds(faults, rng)
        yield math.floor(now), max(math.floor(now) + 1, math.floor(repaired))
        now = repaired


def _repair_seconds(faults: Faults, rng: np.random.Generator) -> float:
    mean = faults.repair_hours * 3600.0
    if faults.repair_distribution == "constant":
        return mean
    if faults.repair_distribution == "exponential":
        return float(rng.exponential(mean))
    sigma = faults.repair_sigma
    return float(rng.lognormal(math.log(mean) - sigma**2 / 2, sigma))


def _merged(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """Yield the unions of intervals that overlap or touch."""
    begin, after = -1, -1
    for first, last in sorted(intervals):
        if first > after:
            if after > begin:
                yield begin, after
            begin = first
        after = max(after, last) if first <= after else last
    if after > begin:
        yield begin, after


def _interval(begin: float, hours: float) -> Interval:
    """Return a fault of some hours in whole seconds, at least one."""
    first = round(begin * 3600.0)
    return first, max(first + 1, round((begin + hours) * 3600.0))


class NodeStates:
    """The state of every node."""

    def __init__(self, cluster: SimulatedCluster, nodes: Sequence[Node]) -> None:
        self._cluster = cluster
        self.nodes = {node.name: node for node in nodes}
        """The nodes by name, in the state up."""
        self.why_down: dict[str, list[str]] = {}
        """For each node that is down, all causes that keep it down."""
        self.draining: set[str] = set()
        """Nodes that accept no replicas because they are about to go down."""

    @property
    def down(self) -> frozenset[str]:
        """The nodes that are down."""
        return frozenset(self.why_down)

    def lose(self, name: str, cause: str) -> bool:
        """Add a cause that keeps a node down; return whether it was up before."""
        self._cluster.recorder.node_faults += cause == FAULT
        causes = self.why_down.setdefault(name, [])
        causes.append(cause)
        if len(causes) > 1:
            return False
        self._note_change(name, cause, down=True)
        return True

    def regain(self, name: str, cause: str) -> bool:
        """Remove a cause that keeps a node down; return whether the node is up now."""
        self.why_down[name].remove(cause)
        if self.why_down[name]:
            return False
        del self.why_down[name]
        self._note_change(name, cause, down=False)
        return True

    def drain(self, name: str, *, drains: bool) -> None:
        """Stop placing replicas on a node that is about to go down, or allow them again."""
        self.draining = self.draining | {name} if drains else self.draining - {name}
        self._report_node(name)

    def _note_change(self, name: str, cause: str, *, down: bool) -> None:
        self._cluster.recorder.node_events.append((self._cluster.now, name, down, cause))
        self._cluster.ledger.set_down(name, down=down)
        self._report_node(name)

    def _report_node(self, name: str) -> None:
        """Report the state of a node to the engine."""
        node = attrs.evolve(self.nodes[name], up=name not in self.why_down)
        if name in self.draining and node.up:
            status = DeactivationStatus.SAFETY_CHECK_COMPLETE  # in earlier states the node still accepts new replicas
            node = attrs.evolve(node, deactivation_intent=DeactivationIntent.RESTART, deactivation_status=status)
        self._cluster.engine.update_node(node, now=self._cluster.now)


class FailoverManager:
    """Removes replicas from nodes that go down, and restores them."""

    def __init__(
        self, cluster: SimulatedCluster, nodes: NodeStates, tenancies: Tenancies, movement: PlanExecution
    ) -> None:
        self._cluster, self._nodes, self._tenancies, self._movement = cluster, nodes, tenancies, movement
        self._rebuild_after = cluster.scenario.faults.rebuild_after_minutes * 60.0

    # nodes

    def node_lost(self, name: str, cause: str = FAULT) -> list[Tenancy]:
        """Take a node down; return the tenants that miss a replica from now on."""
        if not self._nodes.lose(name, cause):
            return []
        return [tenancy for tenancy in self._tenancies.on(name) if self._lose(tenancy, Loss(name, cause))]

    def node_back(self, name: str, cause: str = FAULT) -> None:
        """Remove one cause of a node's outage; if none is left, the node is up with the replicas it still has."""
        if not self._nodes.regain(name, cause):
            return
        for partition in self._tenancies.states.down_on(name):
            self._tenancies.states.set(partition, name, ReplicaState.READY)
            self._tenancies.settle(self._tenancies.known[partition])

    def _lose(self, tenancy: Tenancy, loss: Loss) -> bool:
        """Take a node from a partition; return whether a replica is missing from now on."""
        tenancies, partition, node = self._tenancies, tenancy.partition, loss.node
        tenancies.latest_loss[partition] = loss
        for record in self._movement.fail(partition, node):
            self._end_failed_move(tenancy, record.move, loss)
        had_replica = any(replica.node == node and not replica.leaving for replica in tenancies.described(tenancy))
        in_build = tenancies.states.of(partition).get(node) is ReplicaState.IN_BUILD
        waited_for = tenancies.stores_copies(tenancy) and tenancies.serves(partition) and not in_build
        if had_replica and waited_for:
            tenancies.states.set(partition, node, ReplicaState.DOWN, self._cluster.now)
        elif had_replica:
            tenancies.drop(tenancy, node)
            if not in_build and tenancies.serves(partition):
                tenancies.to_restart.setdefault(partition, []).append(loss)
        tenancies.settle(tenancy)
        return had_replica and not waited_for

    def _end_failed_move(self, tenancy: Tenancy, move: Move, loss: Loss) -> None:
        """End a move that fails because one of its nodes is lost; keep the other copy if it is usable."""
        tenancies, described = self._tenancies, self._tenancies.described(tenancy)
        if move.target == loss.node or (tenancies.stores_copies(tenancy) and len(described) == 2):
            kept = [replica for replica in described if replica.node != move.target]
            tenancies.report_replicas(tenancy, [as_leaving(replica, move.source, leaving=False) for replica in kept])
            return
        # a secondary that was promoted while its copy was under way may have been moved on
        left, target = [move.source], move.target
        while onward := self._movement.fail_from(tenancy.partition, target):
            left.append(target)
            target = onward.move.target
        kept = [replica for replica in described if replica.node not in left]
        tenancies.report_replicas(tenancy, kept)
        if tenancies.stores_copies(tenancy):
            if target is not None and any(replica.node == target and not replica.leaving for replica in kept):
                tenancies.states.set(tenancy.partition, target, ReplicaState.IN_BUILD)
        elif tenancy.stateful:
            self._cluster.interrupt(tenancy.tenant, loss.cause)

    # rebuilding

    def give_up_waiting(self) -> list[Tenancy]:
        """Give up replicas that have been down too long; return the tenants that miss a replica from now on."""
        tenancies, incomplete = self._tenancies, {}
        for partition, node in tenancies.states.down_until(self._cluster.now - self._rebuild_after):
            tenancy = tenancies.known[partition]
            if tenancies.has_quorum(tenancy) and tenancies.stores_copies(tenancy):
                tenancies.drop(tenancy, node)
                incomplete[partition] = tenancy
        return list(incomplete.values())

    def build(self, added: Iterable[Move]) -> None:
        """Build new replicas of tenants that were placed before, or start them if there is nothing to copy."""
        moves = [move for move in added if self._tenancies.serves(move.partition)]
        for move in moves:
            self._begin(move)
        for partition in dict.fromkeys(move.partition for move in moves):
            self._tenancies.settle(self._tenancies.known[partition])

    def _begin(self, move: Move) -> None:
        tenancies, tenancy = self._tenancies, self._tenancies.known[move.partition]
        assert move.target is not None
        leaving = [replica.node for replica in tenancies.described(tenancy) if replica.leaving]
        left = next((node for node in leaving if not self._movement.is_left(move.partition, node)), None)
        if left is not None:
            self._movement.note(_as_move(move, Loss(left, UPGRADE)))
        elif tenancies.stores_copies(tenancy):
            tenancies.states.set(move.partition, move.target, ReplicaState.IN_BUILD)
        elif tenancies.to_restart.get(move.partition):
            restart = _as_move(move, tenancies.to_restart[move.partition].pop(0))
            self._cluster.recorder.failover(self._cluster.now, restart, tenancy.tenant)


def _as_move(added: Move, loss: Loss) -> Move:
    """Return the addition of a replica as a move from the node that the replica has to leave or lost."""
    reason = attrs.evolve(added.reason, rule=loss.cause, node=loss.node)
    return attrs.evolve(added, kind=MoveKind.MOVE, source=loss.node, reason=reason)
