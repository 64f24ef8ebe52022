"""What the host does when nodes go down: secondaries are promoted, lost replicas built anew, returning ones taken back.

The engine says where replicas go; here stands how they are. A replica on a node that is down is waited for; after
`rebuild_after_minutes` another is built elsewhere, in the time that copying takes. While fewer replicas of a partition
are ready than a quorum, nothing of it changes and it cannot be used. Before an upgrade, nodes are drained.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
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
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState, Role, UpgradeMark

FAULT, UPGRADE, QUORUM_LOSS = "node fault", "upgrade", "quorum loss"


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
        self._marks: dict[str, dict[str, UpgradeMark]] = {}
        self._draining: set[str] = set()
        self._why_down: dict[str, set[str]] = {}
        self._cause = FAULT
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
        self._availability.regain(tenancy.tenant, self._now)
        self._served.discard(partition)
        self._states.pop(partition, None)
        self._marks.pop(partition, None)
        self._since = {key: since for key, since in self._since.items() if key[0] != partition}
        self._building = {key: token for key, token in self._building.items() if key[0] != partition}

    def serves(self, partition: str) -> bool:
        """Tell whether a tenant could be used, now or before."""
        return partition in self._served

    # nodes

    def node_lost(self, name: str, cause: str = FAULT) -> list[Tenancy]:
        """Let a node go down; return the tenants that miss a replica from now on."""
        self._why_down.setdefault(name, set()).add(cause)
        if name in self.down:
            return []
        self.down.add(name)
        self._cause = cause
        self._recorder.node_events.append((self._now, name, True, cause))
        self._ledger.set_down(name, down=True)
        self._tell_node(name)
        return [tenancy for tenancy in self._tenancies_on(name) if self._lose(tenancy, name)]

    def node_back(self, name: str, cause: str = FAULT) -> None:
        """Let a node come back, once nothing keeps it down, with the replicas that were on it and are still wanted."""
        self._why_down[name].discard(cause)
        if self._why_down[name]:
            return
        self.down.discard(name)
        self._recorder.node_events.append((self._now, name, False, cause))
        self._ledger.set_down(name, down=False)
        self._tell_node(name)
        for partition in [partition for partition, states in self._states.items() if name in states]:
            if self._states[partition][name] is ReplicaState.DOWN:
                self._set(partition, name, ReplicaState.READY)
                self._settle(self._tenancies[partition])

    # draining

    def begin_drain(self, name: str) -> None:
        """Let a node take no replica any more, as it is about to go down."""
        self._draining.add(name)
        self._tell_node(name)

    def end_drain(self, name: str) -> None:
        """Let a node take replicas again."""
        self._draining.discard(name)
        self._tell_node(name)

    def mark_primaries_on(self, name: str) -> list[Tenancy]:
        """Ask that the primaries on a node hand over their role; return their tenants."""
        return self._mark(name, Role.PRIMARY, UpgradeMark.SWAP_OUT, self._tenancies_on(name))

    def mark_returns_to(self, name: str, partitions: Iterable[str]) -> list[Tenancy]:
        """Ask that the primaries of partitions come back to a node; return the tenants for whom they can."""
        known = [self._tenancies[partition] for partition in partitions if partition in self._tenancies]
        return self._mark(name, Role.SECONDARY, UpgradeMark.PRIMARY_RETURNS, known)

    def _mark(self, name: str, role: Role, mark: UpgradeMark, tenancies: Iterable[Tenancy]) -> list[Tenancy]:
        marked = []
        for tenancy in tenancies:
            ready = self._ready(tenancy.partition)
            if tenancy.replicas > 1 and any((one.node, one.role) == (name, role) for one in ready):
                self._marks[tenancy.partition] = {name: mark}
                self._settle(tenancy)
                marked.append(tenancy)
        return marked

    def unmark(self, tenancies: Iterable[Tenancy], name: str) -> list[str]:
        """Take marks back; return the partitions whose primary is not on the node."""
        for tenancy in tenancies:
            self._marks.pop(tenancy.partition, None)
            self._settle(tenancy)
        primaries = {one.partition: self._primary(one.partition) for one in tenancies}
        return [partition for partition, primary in primaries.items() if primary is None or primary.node != name]

    def leave(self, name: str) -> list[Tenancy]:
        """Let the only replicas of tenants leave a node; return the tenants, whose new replicas are to be placed."""
        singles = [one for one in self._tenancies_on(name) if one.replicas == 1 and self._ready(one.partition)]
        leaving = [one for one in singles if all(replica.node == name for replica in self._described(one.partition))]
        for tenancy in leaving:
            self._tell(tenancy, [attrs.evolve(one, leaving=True) for one in self._described(tenancy.partition)])
        return leaving

    def stay(self, tenancies: Iterable[Tenancy]) -> None:
        """Let replicas that were to leave and found no place stay."""
        for tenancy in tenancies:
            described = self._described(tenancy.partition)
            if len(described) == 1 and described[0].leaving:
                self._tell(tenancy, [attrs.evolve(described[0], leaving=False)])

    def may_go_down(self, name: str) -> bool:
        """Tell whether no tenant would lose its quorum, and no move would fail, if a node went down."""
        return all(self._can_spare(tenancy, name) for tenancy in self._tenancies_on(name))

    def _can_spare(self, tenancy: Tenancy, name: str) -> bool:
        described = self._described(tenancy.partition)
        if any(one.leaving for one in described):
            return False
        ready = self._ready(tenancy.partition)
        has_quorum, stands = len(ready) >= tenancy.quorum, any(one.node == name for one in ready)
        left = len(ready) - stands
        return tenancy.replicas == 1 or not has_quorum or left >= tenancy.quorum

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
        left = next((one.node for one in self._described(move.partition) if one.leaving), None)
        if left is not None and tenancy.replicas == 1:
            reason = attrs.evolve(move.reason, rule=UPGRADE, node=left)
            self._movement.follow(attrs.evolve(move, kind=MoveKind.MOVE, source=left, reason=reason))
        elif self._stores_copies(tenancy):
            self._begin_build(tenancy, move.target)
        self._settle(tenancy)

    # what happens to a partition

    @property
    def _now(self) -> int:
        return int(self._env.now)

    def _tenancies_on(self, name: str) -> list[Tenancy]:
        """Return the tenants with a replica, or a departing end, on a node."""
        return [self._tenancies[partition] for partition in self._ledger.partitions_on(name)]

    def _tell_node(self, name: str) -> None:
        """Tell the engine how a node is."""
        node = attrs.evolve(self._nodes[name], up=name not in self.down)
        if name in self._draining and node.up:
            status = DeactivationStatus.SAFETY_CHECK_COMPLETE  # before that, new replicas may still be placed there
            node = attrs.evolve(node, deactivation_intent=DeactivationIntent.RESTART, deactivation_status=status)
        self._engine.update_node(node, now=self._now)

    def _primary(self, partition: str) -> Replica | None:
        """Return the primary that stands, in whatever state."""
        described = self._described(partition)
        return next((one for one in described if one.role == Role.PRIMARY and not one.leaving), None)

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
        primary = self._primary(tenancy.partition)
        heir = next((one for one in ready if one.role == Role.SECONDARY), None)
        promotes = tenancy.stateful and has_quorum and primary not in ready and heir is not None
        if promotes and heir is not None:
            self._note_promotion(tenancy, heir, primary)
            described = [_with_role(one, heir, primary) for one in described]
        self._tell(tenancy, described, in_quorum_loss=not has_quorum and self._stores_copies(tenancy))
        if tenancy.partition not in self._served:
            return
        if not has_quorum:
            cause = QUORUM_LOSS if tenancy.replicas > 1 else self._cause
            if self._availability.lose(tenancy.tenant, self._now, cause) and cause == QUORUM_LOSS:
                self._recorder.quorum_losses += 1
        elif self._availability.is_lost(tenancy.tenant):
            self._availability.regain(tenancy.tenant, self._now, self._interruption)
        elif promotes:
            self._availability.interrupt(tenancy.tenant, self._now, self._interruption, self._cause)

    def _note_promotion(self, tenancy: Tenancy, heir: Replica, primary: Replica | None) -> None:
        lost = heir.node if primary is None else primary.node
        reason = Reason(Phase.REPAIR, self._cause, lost)
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
        states, marks = self._states.get(partition, {}), self._marks.get(partition, {})
        return [
            Replica(one.role, one.node, leaving=True)
            if one.leaving
            else Replica(
                one.role,
                one.node,
                state=states.get(one.node, ReplicaState.READY),
                upgrade=_mark_of(one.role, marks.get(one.node, UpgradeMark.NONE)),
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


def _mark_of(role: Role, mark: UpgradeMark) -> UpgradeMark:
    """Return the mark of a replica on a marked node; once the role has been handed over, there is none any more."""
    wanted = Role.PRIMARY if mark is UpgradeMark.SWAP_OUT else Role.SECONDARY
    return mark if role is wanted else UpgradeMark.NONE


def _with_role(one: Replica, heir: Replica, primary: Replica | None) -> Replica:
    """Return a replica as it is once `heir` has become the primary in the stead of `primary`."""
    if one.node == heir.node and not one.leaving:
        return attrs.evolve(one, role=Role.PRIMARY)
    if primary is not None and one.node == primary.node and not one.leaving:
        return attrs.evolve(one, role=Role.SECONDARY)
    return one
