"""The tenants of a run as the host keeps them: what the engine is told of their replicas, and when they can be used.

While fewer replicas of a partition are ready than a quorum, nothing of it changes and it cannot be used. Where a quorum
is ready without the primary, a secondary is promoted. New replicas are ready after the time that copying takes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import attrs
import simpy

from cluster.simulation.calendar import At, Kind
from cluster.simulation.causes import QUORUM_LOSS
from cluster.simulation.ledger import Ledger
from cluster.simulation.movement import ReplicaMovement
from cluster.simulation.record import Recorder
from cluster.simulation.replica_states import ReplicaStates, Tenancy, is_plain, primary_among, ready_among
from plb import Move, MoveKind, Partition, Phase, PlacementAndLoadBalancing, Reason, Replica
from plb.model import ReplicaState, Role


@attrs.frozen
class Loss:
    """What took a replica away: the node that went down, and why it did."""

    node: str
    cause: str


class Tenancies:
    """The tenants of a run, with the state of every replica that is not simply ready.

    Parameters
    ----------
    env, engine, ledger, movement, recorder
        The run's.
    remote_storage
        Whether a tenant with a single replica has its data on remote storage.
    interruption
        Seconds for which a tenant cannot be used while its primary changes.

    Attributes
    ----------
    known
        The tenants that are there, by partition.
    states
        How their replicas are.
    plain
        Partitions of which the engine was last told that all is as usual.
    latest_loss
        By partition, what took a replica away last.
    to_restart
        By partition, what took the replicas away that are to start anew elsewhere, the first one first.
    """

    def __init__(
        self,
        env: simpy.Environment,
        engine: PlacementAndLoadBalancing,
        ledger: Ledger,
        movement: ReplicaMovement,
        recorder: Recorder,
        *,
        remote_storage: bool,
        interruption: float,
    ) -> None:
        self._env, self._engine, self._ledger, self._movement = env, engine, ledger, movement
        self._recorder, self._availability = recorder, recorder.availability
        self._remote_storage, self._interruption = remote_storage, interruption
        self.known: dict[str, Tenancy] = {}
        self.states = ReplicaStates(engine)
        self.plain: set[str] = set()
        self.latest_loss: dict[str, Loss] = {}
        self.to_restart: dict[str, list[Loss]] = {}
        self._served: set[str] = set()
        self._building: dict[tuple[str, str], object] = {}

    # who is there

    def admit(self, tenancy: Tenancy) -> None:
        """Take charge of a tenant who arrives."""
        self.known[tenancy.partition] = tenancy
        self.plain.add(tenancy.partition)

    def note_placed(self, partition: str) -> None:
        """Note that a tenant can be used from now on, if a quorum of its replicas has a place."""
        if not self.serves(partition) and self.has_quorum(self.known[partition]):
            self.settle(self.known[partition])

    def dismiss(self, partition: str) -> None:
        """Forget a tenant who departs."""
        tenancy = self.known.pop(partition)
        self._availability.regain(tenancy.tenant, self._now)
        self._served.discard(partition)
        self.plain.discard(partition)
        self.states.forget(partition)
        self.latest_loss.pop(partition, None)
        self.to_restart.pop(partition, None)
        self._building = {key: token for key, token in self._building.items() if key[0] != partition}

    def serves(self, partition: str) -> bool:
        """Tell whether a tenant could be used, now or before."""
        return partition in self._served

    def rests(self, partition: str) -> bool:
        """Tell whether a tenant has lost its quorum, so that nothing of it changes until enough nodes are back."""
        tenancy = self.known[partition]
        return self.stores_copies(tenancy) and self._availability.is_lost(tenancy.tenant)

    def on(self, name: str) -> list[Tenancy]:
        """Return the tenants with a replica, or a departing end, on a node."""
        return [self.known[partition] for partition in self._ledger.partitions_on(name)]

    def described(self, tenancy: Tenancy) -> list[Replica]:
        """Return the replicas of a tenant that have a node, each with its state."""
        return self.states.described(tenancy.partition)

    def has_quorum(self, tenancy: Tenancy) -> bool:
        """Tell whether enough replicas of a tenant are ready for it to be used."""
        return len(self.states.ready(tenancy.partition)) >= tenancy.quorum

    def stores_copies(self, tenancy: Tenancy) -> bool:
        """Tell whether the replicas of a tenant hold its data, so that a new one has to be copied from them."""
        return tenancy.stateful and (tenancy.replicas > 1 or not self._remote_storage)

    @property
    def _now(self) -> int:
        return int(self._env.now)

    # what happens to a partition

    def drop(self, tenancy: Tenancy, node: str) -> None:
        """Let a partition have its replica on a node no more."""
        self._building.pop((tenancy.partition, node), None)
        self.states.set(tenancy.partition, node, ReplicaState.READY)
        self.report_replicas(tenancy, [one for one in self.described(tenancy) if one.node != node])

    def settle(self, tenancy: Tenancy) -> None:
        """Let a ready replica be the primary where a quorum is ready, and note whether the tenant can be used."""
        partition, described = tenancy.partition, self.described(tenancy)
        ready, primary = ready_among(described), primary_among(described)
        has_quorum = len(ready) >= tenancy.quorum
        heir = None
        if tenancy.stateful and has_quorum and primary not in ready:
            heir = next((one for one in ready if one.role == Role.SECONDARY), None)
        if heir is not None:
            described = [_with_role(one, heir, primary) for one in described]
        still = self.serves(partition) and not has_quorum and self.stores_copies(tenancy)
        if heir is not None or still or partition not in self.plain or not is_plain(described):
            self.report_replicas(tenancy, described, in_quorum_loss=still)
        self._pace_builds(tenancy, ready)
        if not self.serves(partition):
            self._served |= {partition} if has_quorum else set()
        elif not has_quorum:
            self._note_loss(tenancy)
        else:
            self._note_use(tenancy, heir)

    def _note_loss(self, tenancy: Tenancy) -> None:
        """Note that a tenant has no quorum."""
        cause = QUORUM_LOSS if tenancy.replicas > 1 else self.latest_loss[tenancy.partition].cause
        if self._availability.lose(tenancy.tenant, self._now, cause) and cause == QUORUM_LOSS:
            self._recorder.quorum_losses += 1

    def _note_use(self, tenancy: Tenancy, heir: Replica | None) -> None:
        """Note that a tenant has a quorum, with a new primary if there is an heir."""
        if self._availability.is_lost(tenancy.tenant):
            self._availability.regain(tenancy.tenant, self._now, self._interruption)
        elif heir is not None:
            self.interrupt(tenancy, self.latest_loss[tenancy.partition].cause)
        if heir is not None:
            loss = self.latest_loss[tenancy.partition]
            reason = Reason(Phase.REPAIR, loss.cause, loss.node)
            move = Move(MoveKind.PROMOTE, tenancy.partition, Role.SECONDARY, None, heir.node, reason, 0.0)
            self._recorder.failover(self._now, move, tenancy.tenant)

    def interrupt(self, tenancy: Tenancy, cause: str) -> None:
        """Note that a tenant cannot be used while its primary changes."""
        self._availability.interrupt(tenancy.tenant, self._now, self._interruption, cause)

    def _pace_builds(self, tenancy: Tenancy, ready: Sequence[Replica]) -> None:
        """Let replicas be copied from now on, or no longer, where no replica is left to copy from."""
        for node, state in self.states.of(tenancy.partition).items():
            key = (tenancy.partition, node)
            if state is ReplicaState.IN_BUILD and not ready:
                self._building.pop(key, None)
            elif state is ReplicaState.IN_BUILD and key not in self._building:
                self._building[key] = token = object()
                self._env.process(self._copy(tenancy, node, token))

    def _copy(self, tenancy: Tenancy, node: str, token: object) -> Generator[simpy.Event, Any, None]:
        key = (tenancy.partition, node)
        yield At(self._env, self._now + self._movement.copy_seconds(*key), Kind.COPY_ENDS)
        if self._building.get(key) is token:
            del self._building[key]
            self.states.set(*key, ReplicaState.READY)
            self.settle(tenancy)

    def report_replicas(self, tenancy: Tenancy, replicas: Sequence[Replica], *, in_quorum_loss: bool = False) -> None:
        """Tell the engine how a partition is, and the ledger what the engine makes of it.

        While a partition is plain, this need not be repeated: where its replicas stand, the engine knows itself.
        """
        described = Partition(
            tenancy.partition, service=tenancy.service, replicas=replicas, in_quorum_loss=in_quorum_loss
        )
        self._engine.update_partition(described)
        self.plain.discard(tenancy.partition)
        if is_plain(replicas) and not in_quorum_loss:
            self.plain.add(tenancy.partition)
        self._ledger.refresh(tenancy.partition, tenancy.tenant)


def _with_role(one: Replica, heir: Replica, primary: Replica | None) -> Replica:
    """Return a replica as it is once `heir` has become the primary in the stead of `primary`."""
    if one.node == heir.node and not one.leaving:
        return attrs.evolve(one, role=Role.PRIMARY)
    if primary is not None and one.node == primary.node and not one.leaving:
        return attrs.evolve(one, role=Role.SECONDARY)
    return one
