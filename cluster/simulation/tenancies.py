"""The tenants of a run on the side of the host: replicas as reported to the engine, and availability.

Without a quorum of ready replicas, a partition is unavailable and does not change. If a quorum is ready but the primary
is not, a secondary is promoted. New replicas are ready after the time of their copy.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import attrs
import simpy

from cluster.simulation.availability import Tenancy
from cluster.simulation.calendar import At, Kind
from cluster.simulation.causes import QUORUM_LOSS
from cluster.simulation.plan_execution import PlanExecution
from cluster.simulation.replica_states import ReplicaStates, is_plain
from cluster.simulation.simulated_cluster import SimulatedCluster
from plb import Move, MoveKind, Partition, Phase, PlacedReplica, Reason, Replica
from plb.model import ReplicaState, Role


@attrs.frozen
class Loss:
    """The node that went down with a replica, and the cause."""

    node: str
    cause: str


class Tenancies:
    """The tenants of a run, with the state of every replica that is not plainly ready.

    Parameters
    ----------
    cluster
        The shared objects of the run.
    movement
        Carries out the moves.

    Attributes
    ----------
    known
        The present tenants, by partition.
    states
        The states of their replicas.
    plain
        Partitions last reported to the engine in their plain state: all replicas ready, no mark, no move.
    latest_loss
        The last loss of a replica, by partition.
    to_restart
        Losses of replicas that have to restart on another node, by partition, the earliest first.
    """

    def __init__(self, cluster: SimulatedCluster, movement: PlanExecution) -> None:
        self._cluster, self._movement = cluster, movement
        self._availability = cluster.recorder.availability
        self._remote_storage = cluster.scenario.faults.remote_storage
        self._interruption = cluster.scenario.cluster.interruption_seconds
        self.known: dict[str, Tenancy] = {}
        self.states = ReplicaStates(cluster.ledger)
        self.plain: set[str] = set()
        self.latest_loss: dict[str, Loss] = {}
        self.to_restart: dict[str, list[Loss]] = {}
        self._served: set[str] = set()
        self._building: dict[tuple[str, str], object] = {}

    # arrival and departure

    def admit(self, tenancy: Tenancy) -> None:
        """Register a tenant that arrives."""
        self.known[tenancy.partition] = tenancy
        self.plain.add(tenancy.partition)

    def scale(self, partition: str, replicas: int) -> None:
        """Set the target number of replicas of a tenant."""
        self.known[partition] = attrs.evolve(self.known[partition], replicas=replicas)

    def note_placed(self, partition: str) -> None:
        """Record that a tenant is available from now on, if a quorum of its replicas is placed."""
        if not self.serves(partition) and self.has_quorum(self.known[partition]):
            self.settle(self.known[partition])

    def dismiss(self, partition: str) -> None:
        """Remove a tenant that departs."""
        tenancy = self.known.pop(partition)
        self._availability.regain(tenancy.tenant, self._cluster.now)
        self._served.discard(partition)
        self.plain.discard(partition)
        self.states.forget(partition)
        self.latest_loss.pop(partition, None)
        self.to_restart.pop(partition, None)
        self._building = {key: token for key, token in self._building.items() if key[0] != partition}

    def serves(self, partition: str) -> bool:
        """Return whether a tenant is available, or was before."""
        return partition in self._served

    def rests(self, partition: str) -> bool:
        """Return whether a tenant has lost its quorum, so that it does not change until enough nodes are back."""
        tenancy = self.known[partition]
        return self.stores_copies(tenancy) and self._availability.is_lost(tenancy.tenant)

    def on(self, name: str) -> list[Tenancy]:
        """Return the tenants with a replica, or a departing end, on a node."""
        return [self.known[partition] for partition in self._cluster.ledger.partitions_on(name)]

    def described(self, tenancy: Tenancy) -> list[Replica]:
        """Return the placed replicas of a tenant, each with its state."""
        return self.states.described(tenancy.partition)

    def has_quorum(self, tenancy: Tenancy) -> bool:
        """Return whether enough replicas of a tenant are ready to make it available."""
        return len(self.states.ready(tenancy.partition)) >= tenancy.quorum

    def stores_copies(self, tenancy: Tenancy) -> bool:
        """Return whether the replicas of a tenant hold its data, so that a new one copies from them."""
        return tenancy.stateful and (tenancy.replicas > 1 or not self._remote_storage)

    # replicas of a partition

    def drop(self, tenancy: Tenancy, node: str) -> None:
        """Remove the replica of a partition from a node."""
        self._building.pop((tenancy.partition, node), None)
        self.states.set(tenancy.partition, node, ReplicaState.READY)
        self.report_replicas(tenancy, [one for one in self.described(tenancy) if one.node != node])

    def settle(self, tenancy: Tenancy) -> None:
        """Promote a secondary if a quorum without primary is ready, and update whether the tenant is available."""
        partition = tenancy.partition
        ready, primary = self.states.ready(partition), self.states.primary(partition)
        has_quorum = len(ready) >= tenancy.quorum
        successor = None
        if tenancy.stateful and has_quorum and primary not in ready:
            successor = next((one for one in ready if one.role == Role.SECONDARY), None)
        suspended = self.serves(partition) and not has_quorum and self.stores_copies(tenancy)
        is_reported = partition in self.plain and self.states.is_plain(partition)
        if successor is not None or suspended or not is_reported:
            described = [_with_role(one, successor, primary) for one in self.described(tenancy)]
            self.report_replicas(tenancy, described, in_quorum_loss=suspended)
        self._update_builds(tenancy, is_any_ready=bool(ready))
        if not self.serves(partition):
            self._served |= {partition} if has_quorum else set()
        elif not has_quorum:
            self._record_loss(tenancy)
        else:
            self._record_use(tenancy, successor)

    def _record_loss(self, tenancy: Tenancy) -> None:
        """Record that a tenant has no quorum."""
        cause = QUORUM_LOSS if tenancy.replicas > 1 else self.latest_loss[tenancy.partition].cause
        if self._availability.lose(tenancy.tenant, self._cluster.now, cause) and cause == QUORUM_LOSS:
            self._cluster.recorder.quorum_losses += 1

    def _record_use(self, tenancy: Tenancy, successor: PlacedReplica | None) -> None:
        """Record that a tenant has a quorum, with a new primary if there is a successor."""
        if self._availability.is_lost(tenancy.tenant):
            self._availability.regain(tenancy.tenant, self._cluster.now, self._interruption)
        elif successor is not None:
            self._cluster.interrupt(tenancy.tenant, self.latest_loss[tenancy.partition].cause)
        if successor is not None:
            loss = self.latest_loss[tenancy.partition]
            reason = Reason(Phase.REPAIR, loss.cause, loss.node)
            move = Move(MoveKind.PROMOTE, tenancy.partition, Role.SECONDARY, None, successor.node, reason, 0.0)
            self._cluster.recorder.failover(self._cluster.now, move, tenancy.tenant)

    def _update_builds(self, tenancy: Tenancy, *, is_any_ready: bool) -> None:
        """Start copies of new replicas, or stop them if no replica is left to copy from."""
        for node, state in self.states.of(tenancy.partition).items():
            key = (tenancy.partition, node)
            if state is ReplicaState.IN_BUILD and not is_any_ready:
                self._building.pop(key, None)
            elif state is ReplicaState.IN_BUILD and key not in self._building:
                self._building[key] = token = object()
                self._cluster.env.process(self._copy(tenancy, node, token))

    def _copy(self, tenancy: Tenancy, node: str, token: object) -> Generator[simpy.Event, Any, None]:
        key = (tenancy.partition, node)
        yield At(self._cluster.env, self._cluster.now + self._movement.copy_seconds(*key), Kind.COPY_ENDS)
        if self._building.get(key) is token:
            del self._building[key]
            self.states.set(*key, ReplicaState.READY)
            self.settle(tenancy)

    def report_replicas(self, tenancy: Tenancy, replicas: Sequence[Replica], *, in_quorum_loss: bool = False) -> None:
        """Report the state of a partition to the engine, and refresh the ledger.

        A plain partition needs no repeated report, because the engine holds its placement.
        """
        described = Partition(
            tenancy.partition, service=tenancy.service, replicas=replicas, in_quorum_loss=in_quorum_loss
        )
        self._cluster.engine.update_partition(described)
        self.plain.discard(tenancy.partition)
        if is_plain(replicas) and not in_quorum_loss:
            self.plain.add(tenancy.partition)
        self._cluster.ledger.refresh(tenancy.partition, tenancy.tenant)


def _with_role(one: Replica, successor: PlacedReplica | None, primary: PlacedReplica | None) -> Replica:
    """Return a replica with its role after `successor`, if there is one, has replaced `primary`."""
    if successor is None:
        return one
    if one.node == successor.node and not one.leaving:
        return attrs.evolve(one, role=Role.PRIMARY)
    if primary is not None and one.node == primary.node and not one.leaving:
        return attrs.evolve(one, role=Role.SECONDARY)
    return one
