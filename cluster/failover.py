"""What the host does when nodes fail: secondaries are promoted, lost replicas built anew, returning ones taken back.

The engine says where replicas go; here stands how they are. A replica on a node that is down is waited for; after
`rebuild_after_minutes` another is built elsewhere, in the time that copying takes. While fewer replicas of a partition
are ready than a quorum, nothing of it changes and it cannot be used.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import attrs
import simpy

from cluster.availability import Availability
from cluster.calendar import At, Kind
from cluster.fault_settings import Faults
from cluster.ledger import Ledger
from cluster.movement import Movement
from cluster.record import Recorder
from plb import Move, MoveKind, Node, Partition, Phase, PlacementAndLoadBalancing, Reason, Replica
from plb.model import ReplicaState, Role

FAULT, QUORUM_LOSS = "node fault", "quorum loss"


@attrs.frozen(eq=False)
class Tenancy:
    """What failing over depends on of a tenant: its partition, its service and how many replicas it should have."""

    tenant: int
    partition: str
    service: str
    replicas: int
    stateful: bool

    @property
    def quorum(self) -> int:
        """Ready replicas without which it cannot be used: a majority, or one instance."""
        return self.replicas // 2 + 1 if self.stateful else 1


class FailoverManager:
    """Keeps the state of every replica that is not simply ready, and tells the engine.

    Parameters
    ----------
    env, engine, ledger, movement, recorder, availability
        The run's.
    faults
        How long replicas are waited for, and where single ones have their data.
    nodes
        The nodes, all up.
    interruption
        Seconds for which a tenant cannot be used while its primary changes.
    """

    def __init__(
        self,
        env: simpy.Environment,
        engine: PlacementAndLoadBalancing,
        ledger: Ledger,
        movement: Movement,
        recorder: Recorder,
        availability: Availability,
        faults: Faults,
        nodes: Sequence[Node],
        interruption: float,
    ) -> None:
        self._env, self._engine, self._ledger, self._movement = env, engine, ledger, movement
        self._recorder, self._availability, self._faults = recorder, availability, faults
        self._nodes = {node.name: node for node in nodes}
        self._interruption = interruption
        self._tenancies: dict[str, Tenancy] = {}
        self._served: set[str] = set()
        self._states: dict[str, dict[str, ReplicaState]] = {}
        self._since: dict[tuple[str, str], int] = {}
        self._building: dict[tuple[str, str], object] = {}
        self.down: set[str] = set()

    # tenants

    def admit(self, tenancy: Tenancy) -> None:
        """Take charge of a tenant who arrives."""
        self._tenancies[tenancy.partition] = tenancy

    def note_placed(self, partition: str) -> None:
        """Note that a tenant can be used from now on, if its primary or an instance has a place."""
        placed = self._engine.replicas(partition)
        if any(one.node is not None and one.role != Role.SECONDARY for one in placed):
            self._served.add(partition)

    def dismiss(self, partition: str) -> None:
        """Forget a tenant who departs."""
        tenancy = self._tenancies.pop(partition)
        self._availability.forget(tenancy.tenant, self._now)
        self._served.discard(partition)
        self._states.pop(partition, None)
        for known in (self._since, self._building):
            for key in [key for key in known if key[0] == partition]:
                del known[key]

    def serves(self, partition: str) -> bool:
        """Tell whether a tenant could be used, now or before."""
        return partition in self._served

    # nodes

    def node_lost(self, name: str) -> list[Tenancy]:
        """Let a node go down; return the tenants that miss a replica from now on."""
        self.down.add(name)
        self._ledger.set_down(name, down=True)
        self._engine.update_node(attrs.evolve(self._nodes[name], up=False), now=self._now)
        concerned = [self._tenancies[partition] for partition in self._ledger.partitions_on(name)]
        return [tenancy for tenancy in concerned if self._lose(tenancy, name)]

    def node_back(self, name: str) -> None:
        """Let a node come back with the replicas that were on it and are still wanted."""
        self.down.discard(name)
        self._ledger.set_down(name, down=False)
        self._engine.update_node(self._nodes[name], now=self._now)
        for partition in [partition for partition, states in self._states.items() if name in states]:
            if self._states[partition][name] is ReplicaState.DOWN:
                self._set(partition, name, ReplicaState.READY)
                self._settle(self._tenancies[partition])

    def give_up_waiting(self) -> list[Tenancy]:
        """Give replicas up that have been down for too long; return the tenants that miss one from now on."""
        limit = self._now - self._faults.rebuild_after_minutes * 60.0
        overdue = [key for key, since in self._since.items() if since <= limit]
        found = {}
        for partition, node in overdue:
            tenancy = self._tenancies[partition]
            if len(self._ready(partition)) >= tenancy.quorum and self._stores_copies(tenancy):
                self._tell(tenancy, [one for one in self._described(partition) if one.node != node])
                self._set(partition, node, ReplicaState.READY)
                found[partition] = tenancy
        return list(found.values())

    def build(self, move: Move) -> None:
        """Let a new replica of a tenant that was placed before be built, or start where there is nothing to copy."""
        tenancy = self._tenancies[move.partition]
        assert move.target is not None
        if self._stores_copies(tenancy):
            self._begin_build(tenancy, move.target)
        self._settle(tenancy)

    # what happens to a partition

    @property
    def _now(self) -> int:
        return int(self._env.now)

    def _lose(self, tenancy: Tenancy, node: str) -> bool:
        """Let a partition lose what it has on a node; tell whether it misses a replica from now on."""
        partition = tenancy.partition
        for record in self._movement.fail(partition, node):
            self._undo(tenancy, record.move, node)
        misses = False
        described = self._described(partition)
        if any(one.node == node and not one.leaving for one in described):
            in_build = self._states.get(partition, {}).get(node) is ReplicaState.IN_BUILD
            if in_build or not self._stores_copies(tenancy):
                self._building.pop((partition, node), None)
                self._set(partition, node, ReplicaState.READY)
                self._tell(tenancy, [one for one in described if one.node != node])
                misses = True
            else:
                self._set(partition, node, ReplicaState.DOWN)
        self._settle(tenancy)
        return misses

    def _undo(self, tenancy: Tenancy, move: Move, lost: str) -> None:
        """Let a move end that fails as one of its nodes is lost: the copy on the other stays, as far as it is one."""
        described = self._described(tenancy.partition)
        if move.target == lost or (self._stores_copies(tenancy) and len(described) == 2):
            kept = [one for one in described if one.node != move.target]
            back = [attrs.evolve(one, leaving=False) if one.node == move.source else one for one in kept]
            self._tell(tenancy, back)
            return
        self._tell(tenancy, [one for one in described if one.node != move.source])
        if self._stores_copies(tenancy) and move.target is not None:
            self._begin_build(tenancy, move.target)

    def _settle(self, tenancy: Tenancy) -> None:
        """Let a ready replica be the primary where a quorum is ready, and note whether the tenant can be used."""
        ready = self._ready(tenancy.partition)
        has_quorum = len(ready) >= tenancy.quorum
        described = self._described(tenancy.partition)
        primary = next((one for one in described if one.role == Role.PRIMARY and not one.leaving), None)
        heir = next((one for one in ready if one.role == Role.SECONDARY), None)
        promotes = tenancy.stateful and has_quorum and primary not in ready and heir is not None
        if promotes and heir is not None:
            self._note_promotion(tenancy, heir, primary)
            described = [_with_role(one, heir, primary) for one in described]
        self._tell(tenancy, described, in_quorum_loss=not has_quorum and self._stores_copies(tenancy))
        if tenancy.partition not in self._served:
            return
        if not has_quorum:
            cause = QUORUM_LOSS if tenancy.replicas > 1 else FAULT
            if self._availability.lose(tenancy.tenant, self._now, cause) and cause == QUORUM_LOSS:
                self._recorder.quorum_losses += 1
        elif self._availability.is_lost(tenancy.tenant):
            self._availability.regain(tenancy.tenant, self._now, self._interruption)
        elif promotes:
            self._availability.interrupt(tenancy.tenant, self._now, self._interruption, FAULT)

    def _note_promotion(self, tenancy: Tenancy, heir: Replica, primary: Replica | None) -> None:
        lost = heir.node if primary is None else primary.node
        reason = Reason(Phase.REPAIR, FAULT, lost)
        move = Move(MoveKind.PROMOTE, tenancy.partition, Role.SECONDARY, None, heir.node, reason, 0.0)
        self._recorder.promotion(self._now, move, tenancy.tenant)

    def _begin_build(self, tenancy: Tenancy, node: str) -> None:
        """Let the replica on a node be copied from the others from now on."""
        key = (tenancy.partition, node)
        self._set(*key, ReplicaState.IN_BUILD)
        token = self._building[key] = object()
        self._env.process(self._copy(tenancy, node, token))

    def _copy(self, tenancy: Tenancy, node: str, token: object) -> Generator[simpy.Event, Any, None]:
        key = (tenancy.partition, node)
        yield At(self._env, self._now + self._movement.copy_seconds(*key), Kind.COPY_ENDS)
        if self._building.get(key) is token:
            del self._building[key]
            self._set(*key, ReplicaState.READY)
            self._settle(tenancy)

    # how replicas are

    def _set(self, partition: str, node: str, state: ReplicaState) -> None:
        """Note how the replica on a node is; since when it is down."""
        states = self._states.setdefault(partition, {})
        states.pop(node, None)
        self._since.pop((partition, node), None)
        if state is not ReplicaState.READY:
            states[node] = state
        if state is ReplicaState.DOWN:
            self._since[partition, node] = self._now
        if not states:
            del self._states[partition]

    def _stores_copies(self, tenancy: Tenancy) -> bool:
        """Tell whether the replicas of a tenant hold its data, so that a new one has to be copied from them."""
        return tenancy.stateful and (tenancy.replicas > 1 or not self._faults.remote_storage)

    def _described(self, partition: str) -> list[Replica]:
        """Return the replicas of a partition that have a node, each with its state."""
        states = self._states.get(partition, {})
        return [
            Replica(
                one.role,
                one.node,
                leaving=one.leaving,
                state=ReplicaState.READY if one.leaving else states.get(one.node, ReplicaState.READY),
            )
            for one in self._engine.replicas(partition)
            if one.node is not None
        ]

    def _ready(self, partition: str) -> list[Replica]:
        return [one for one in self._described(partition) if one.state is ReplicaState.READY and not one.leaving]

    def _tell(self, tenancy: Tenancy, replicas: Sequence[Replica], *, in_quorum_loss: bool = False) -> None:
        """Tell the engine how a partition is, and the ledger what the engine makes of it."""
        described = Partition(
            tenancy.partition, service=tenancy.service, replicas=replicas, in_quorum_loss=in_quorum_loss
        )
        self._engine.update_partition(described)
        self._ledger.refresh(tenancy.partition, tenancy.tenant)


def _with_role(one: Replica, heir: Replica, primary: Replica | None) -> Replica:
    """Return a replica as it is once `heir` has become the primary in the stead of `primary`."""
    if one.node == heir.node and not one.leaving:
        return attrs.evolve(one, role=Role.PRIMARY)
    if primary is not None and one.node == primary.node and not one.leaving:
        return attrs.evolve(one, role=Role.SECONDARY)
    return one
