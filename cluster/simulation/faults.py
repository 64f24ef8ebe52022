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
from plb.validation import check_known

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
        for begin, back_at in _merged(intervals):
            if begin <= end:
                events += [NodeEvent(begin, True, node.name), NodeEvent(back_at, False, node.name)]
    return sorted(events)


def _check_names(faults: Faults, nodes: Sequence[Node]) -> None:
    """Raise an error if a fault of the scenario names a node or a fault domain that is missing."""
    names = [node.name for node in nodes]
    paths = {node.fault_domain_path[:depth] for node in nodes for depth in range(1, len(node.fault_domain_path) + 1)}
    for section in ("crashes", "flapping"):
        for fault in getattr(faults, section):
            check_known("node", fault.node, names, f"faults.{section}")
    for outage in faults.outages:
        if _path_of(outage) not in paths:
            domains = sorted("/".join(path) for path in paths)
            raise UnknownNameError("fault domain", outage.fault_domain, domains, "faults.outages")


def _path_of(outage: Outage) -> tuple[str, ...]:
    """Return the path of the fault domain of an outage: its names from the top level down."""
    return tuple(part for part in outage.fault_domain.removeprefix("fd:").split("/") if part)


def _listed(faults: Faults, node: Node, end: int) -> Iterator[Interval]:
    """Yield the faults of a node that the scenario lists; `end`: the last second of the run, where flapping stops."""
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
    """Yield sampled crashes of one node up to `end`, the last second of the run."""
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
    """Return how long a crash lasts, sampled, in seconds; the mean of every distribution is `repair_hours`."""
    mean = faults.repair_hours * 3600.0
    if faults.repair_distribution == "constant":
        return mean
    if faults.repair_distribution == "exponential":
        return float(rng.exponential(mean))
    sigma = faults.repair_sigma
    return float(rng.lognormal(math.log(mean) - sigma**2 / 2, sigma))  # exp(mu + sigma^2 / 2) is the mean


def _merged(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """Yield the unions of intervals that overlap or touch, by time."""
    merged_begin, merged_end = -1, -1
    for begin, end in sorted(intervals):
        if begin > merged_end:
            if merged_end > merged_begin:
                yield merged_begin, merged_end
            merged_begin = begin
        merged_end = max(merged_end, end) if begin <= merged_end else end
    if merged_end > merged_begin:
        yield merged_begin, merged_end


def _interval(at_hours: float, hours: float) -> Interval:
    """Return the interval of a fault from hour `at_hours` on that lasts some hours; it has at least a second."""
    first_second = round(at_hours * 3600.0)
    return first_second, max(first_second + 1, round((at_hours + hours) * 3600.0))


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

    def lose(self, node: str, cause: str) -> bool:
        """Add a cause that keeps a node down; return whether it was up before."""
        self._cluster.recorder.node_faults += cause == FAULT
        causes = self.why_down.setdefault(node, [])
        causes.append(cause)
        if len(causes) > 1:
            return False
        self._note_change(node, cause, down=True)
        return True

    def regain(self, node: str, cause: str) -> bool:
        """Remove a cause that keeps a node down; return whether the node is up now."""
        self.why_down[node].remove(cause)
        if self.why_down[node]:
            return False
        del self.why_down[node]
        self._note_change(node, cause, down=False)
        return True

    def drain(self, node: str, *, drains: bool) -> None:
        """Stop placing replicas on a node that is about to go down (`drains`), or allow them again."""
        self.draining = self.draining | {node} if drains else self.draining - {node}
        self._report_node(node)

    def _note_change(self, node: str, cause: str, *, down: bool) -> None:
        """Record that a node goes down or comes back because of `cause`; report it to the ledger and the engine."""
        self._cluster.recorder.node_events.append((self._cluster.now, node, down, cause))
        self._cluster.ledger.set_down(node, down=down)
        self._report_node(node)

    def _report_node(self, node: str) -> None:
        """Report the state of a node to the engine."""
        reported_node = attrs.evolve(self.nodes[node], up=node not in self.why_down)
        if node in self.draining and reported_node.up:
            status = DeactivationStatus.SAFETY_CHECK_COMPLETE  # in earlier states the node still accepts new replicas
            reported_node = attrs.evolve(
                reported_node, deactivation_intent=DeactivationIntent.RESTART, deactivation_status=status
            )
        self._cluster.engine.update_node(reported_node, now=self._cluster.now)


class FailoverManager:
    """Removes replicas from nodes that go down, and restores them."""

    def __init__(
        self, cluster: SimulatedCluster, nodes: NodeStates, tenancies: Tenancies, movement: PlanExecution
    ) -> None:
        """Act on lost and regained nodes; `movement` carries out plans."""
        self._cluster, self._nodes, self._tenancies, self._movement = cluster, nodes, tenancies, movement
        self._rebuild_after = cluster.scenario.faults.rebuild_after_minutes * 60.0

    # nodes

    def node_lost(self, node: str, cause: str = FAULT) -> list[Tenancy]:
        """Take a node down for a cause; return the tenants whose replica on it has to be replaced now."""
        if not self._nodes.lose(node, cause):
            return []
        return [tenancy for tenancy in self._tenancies.on(node) if self._lose(tenancy, Loss(node, cause))]

    def node_back(self, node: str, cause: str = FAULT) -> None:
        """Remove one cause of a node's outage; if none is left, the node is up with the replicas it still has."""
        if not self._nodes.regain(node, cause):
            return
        for partition in self._tenancies.states.down_on(node):
            self._tenancies.states.set(partition, node, ReplicaState.READY)
            self._tenancies.settle(self._tenancies.known[partition])

    def _lose(self, tenancy: Tenancy, loss: Loss) -> bool:
        """Handle the loss of a node for a tenant on it; return whether a replica has to be replaced now.

        A tenant that stores copies waits for its replica on the node instead.
        """
        tenancies, partition, node = self._tenancies, tenancy.partition, loss.node
        tenancies.latest_loss[partition] = loss
        for record in self._movement.fail(partition, node):
            self._end_failed_move(tenancy, record.move, loss)
        had_replica = any(replica.node == node and not replica.leaving for replica in tenancies.described(tenancy))
        is_in_build = tenancies.states.of(partition).get(node) is ReplicaState.IN_BUILD
        waits = tenancies.stores_copies(tenancy) and tenancies.serves(partition) and not is_in_build
        if had_replica and waits:
            tenancies.states.set(partition, node, ReplicaState.DOWN, self._cluster.now)
        elif had_replica:
            tenancies.drop(tenancy, node)
            if not is_in_build and tenancies.serves(partition):
                tenancies.to_restart.setdefault(partition, []).append(loss)
        tenancies.settle(tenancy)
        return had_replica and not waits

    def _end_failed_move(self, tenancy: Tenancy, move: Move, loss: Loss) -> None:
        """End a move that fails because `loss` took one of its nodes; keep the copy on the other if usable."""
        tenancies, described = self._tenancies, self._tenancies.described(tenancy)
        if move.target == loss.node or (tenancies.stores_copies(tenancy) and len(described) == 2):
            remaining = [replica for replica in described if replica.node != move.target]
            tenancies.report_replicas(
                tenancy, [as_leaving(replica, move.source, leaving=False) for replica in remaining]
            )
            return
        # a secondary that was promoted while its copy was under way may have been moved on
        left_nodes, target = [move.source], move.target
        while onward := self._movement.fail_from(tenancy.partition, target):
            left_nodes.append(target)
            target = onward.move.target
        remaining = [replica for replica in described if replica.node not in left_nodes]
        tenancies.report_replicas(tenancy, remaining)
        if tenancies.stores_copies(tenancy):
            if target is not None and any(replica.node == target and not replica.leaving for replica in remaining):
                tenancies.states.set(tenancy.partition, target, ReplicaState.IN_BUILD)
        elif tenancy.stateful:
            self._cluster.interrupt(tenancy.tenant, loss.cause)

    # rebuilding

    def give_up_waiting(self) -> list[Tenancy]:
        """Give up replicas that have been down too long, where a quorum is left to copy from.

        Return the tenants whose replica has to be replaced now.
        """
        tenancies, incomplete = self._tenancies, {}
        for partition, node in tenancies.states.down_until(self._cluster.now - self._rebuild_after):
            tenancy = tenancies.known[partition]
            if tenancies.has_quorum(tenancy) and tenancies.stores_copies(tenancy):
                tenancies.drop(tenancy, node)
                incomplete[partition] = tenancy
        return list(incomplete.values())

    def build(self, added: Iterable[Move]) -> None:
        """Build the added replicas of tenants that were placed before, or start them if there is nothing to copy."""
        moves = [move for move in added if self._tenancies.serves(move.partition)]
        for move in moves:
            self._begin(move)
        for partition in dict.fromkeys(move.partition for move in moves):
            self._tenancies.settle(self._tenancies.known[partition])

    def _begin(self, added: Move) -> None:
        """Begin the build or the start of one added replica, as a move from the node that it replaces, if any."""
        tenancies, tenancy = self._tenancies, self._tenancies.known[added.partition]
        assert added.target is not None
        left_nodes = [replica.node for replica in tenancies.described(tenancy) if replica.leaving]
        old_node = next(
            (left_node for left_node in left_nodes if not self._movement.is_left(added.partition, left_node)), None
        )
        if old_node is not None:
            self._movement.note(_as_move(added, Loss(old_node, UPGRADE)))
        elif tenancies.stores_copies(tenancy):
            tenancies.states.set(added.partition, added.target, ReplicaState.IN_BUILD)
        elif tenancies.to_restart.get(added.partition):
            restart = _as_move(added, tenancies.to_restart[added.partition].pop(0))
            self._cluster.recorder.failover(self._cluster.now, restart, tenancy.tenant)


def _as_move(added: Move, loss: Loss) -> Move:
    """Return the addition of a replica as a move from the node of `loss`, which the replica left or lost."""
    reason = attrs.evolve(added.reason, rule=loss.cause, node=loss.node)
    return attrs.evolve(added, kind=MoveKind.MOVE, source=loss.node, reason=reason)
