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
from cluster.causes import FAULT, QUORUM_LOSS, UPGRADE
from cluster.fault_settings import Faults
from cluster.ledger import Ledger
from cluster.movement import Movement
from cluster.record import Recorder
from cluster.replica_states import ReplicaStates, Tenancy, is_plain, primary_among, ready_among
from plb import Move, MoveKind, Node, Partition, Phase, PlacementAndLoadBalancing, Reason, Replica
from plb.model import DeactivationIntent, DeactivationStatus, ReplicaState, Role, UpgradeMark


@attrs.frozen
class Loss:
    """What took a replica away: the node that went down, and why it did."""

    node: str
    cause: str


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
        self._plain: set[str] = set()  # partitions of which the engine was last told that all is as usual
        self._states = ReplicaStates(engine)
        self._building: dict[tuple[str, str], object] = {}
        self._latest_loss: dict[str, Loss] = {}
        self._to_restart: dict[str, list[Loss]] = {}
        self._draining: set[str] = set()
        self._why_down: dict[str, list[str]] = {}

    # tenants

    def admit(self, tenancy: Tenancy) -> None:
        """Take charge of a tenant who arrives."""
        self._tenancies[tenancy.partition] = tenancy
        self._plain.add(tenancy.partition)

    def note_placed(self, partition: str) -> None:
        """Note that a tenant can be used from now on, if a quorum of its replicas has a place."""
        if not self.serves(partition) and self._has_quorum(self._tenancies[partition]):
            self._settle(self._tenancies[partition])

    def dismiss(self, partition: str) -> None:
        """Forget a tenant who departs."""
        tenancy = self._tenancies.pop(partition)
        self._availability.regain(tenancy.tenant, self._now)
        self._served.discard(partition)
        self._plain.discard(partition)
        self._states.forget(partition)
        self._latest_loss.pop(partition, None)
        self._to_restart.pop(partition, None)
        self._building = {key: token for key, token in self._building.items() if key[0] != partition}

    def serves(self, partition: str) -> bool:
        """Tell whether a tenant could be used, now or before."""
        return partition in self._served

    def rests(self, partition: str) -> bool:
        """Tell whether a tenant has lost its quorum, so that nothing of it changes until enough nodes are back."""
        tenancy = self._tenancies[partition]
        return self._stores_copies(tenancy) and self._availability.is_lost(tenancy.tenant)

    # nodes

    @property
    def down(self) -> frozenset[str]:
        """The nodes that are down."""
        return frozenset(self._why_down)

    def node_lost(self, name: str, cause: str = FAULT) -> list[Tenancy]:
        """Let a node go down; return the tenants that miss a replica from now on."""
        self._recorder.node_faults += cause == FAULT
        causes = self._why_down.setdefault(name, [])
        causes.append(cause)
        if len(causes) > 1:
            return []
        self._recorder.node_events.append((self._now, name, True, cause))
        self._ledger.set_down(name, down=True)
        self._tell_node(name)
        return [tenancy for tenancy in self._tenancies_on(name) if self._lose(tenancy, Loss(name, cause))]

    def node_back(self, name: str, cause: str = FAULT) -> None:
        """Let a node come back, once nothing keeps it down, with the replicas that were on it and are still wanted."""
        self._why_down[name].remove(cause)
        if self._why_down[name]:
            return
        del self._why_down[name]
        self._recorder.node_events.append((self._now, name, False, cause))
        self._ledger.set_down(name, down=False)
        self._tell_node(name)
        for partition in self._states.down_on(name):
            self._states.set(partition, name, ReplicaState.READY)
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
            ready = self._states.ready(tenancy.partition)
            if tenancy.replicas > 1 and any((one.node, one.role) == (name, role) for one in ready):
                self._states.marks[tenancy.partition] = {name: mark}
                self._settle(tenancy)
                marked.append(tenancy)
        return marked

    def unmark(self, tenancies: Iterable[Tenancy], name: str) -> list[str]:
        """Take marks back; return the partitions whose primary is not on the node."""
        for tenancy in tenancies:
            self._states.marks.pop(tenancy.partition, None)
            self._settle(tenancy)
        primaries = {one.partition: self._states.primary(one.partition) for one in tenancies}
        return [partition for partition, primary in primaries.items() if primary is None or primary.node != name]

    def leave(self, name: str) -> list[Tenancy]:
        """Let replicas without which there is no quorum leave a node; return the tenants, who miss them from now on."""
        leaving = [one for one in self._tenancies_on(name) if self._must_leave(one, name)]
        for tenancy in leaving:
            self._tell(tenancy, [_as_leaving(one, name, leaving=True) for one in self._described(tenancy)])
        return leaving

    def _must_leave(self, tenancy: Tenancy, name: str) -> bool:
        """Tell whether a tenant that needs all its replicas has them all, one of them on a node."""
        ready, needs_all = self._states.ready(tenancy.partition), tenancy.quorum == tenancy.replicas
        standing = len(ready) == tenancy.replicas == len(self._described(tenancy))
        return needs_all and standing and any(one.node == name for one in ready)

    def stay(self, tenancies: Iterable[Tenancy], name: str) -> None:
        """Let replicas that were to leave a node and found no place stay."""
        for tenancy in tenancies:
            described = self._described(tenancy)
            if len(described) == tenancy.replicas:
                self._tell(tenancy, [_as_leaving(one, name, leaving=False) for one in described])

    def may_go_down(self, name: str) -> bool:
        """Tell whether no tenant would lose its quorum or a part of it, and no move would fail, if a node went down."""
        return all(self._can_spare(tenancy, name) for tenancy in self._tenancies_on(name))

    def _can_spare(self, tenancy: Tenancy, name: str) -> bool:
        if any(one.leaving for one in self._described(tenancy)):
            return False
        ready = self._states.ready(tenancy.partition)
        stands = any(one.node == name for one in ready)
        used = tenancy.replicas > 1 and self.serves(tenancy.partition)
        return not used or not stands or len(ready) - 1 >= tenancy.quorum

    # rebuilding

    def give_up_waiting(self) -> list[Tenancy]:
        """Give replicas up that have been down for too long; return the tenants that miss one from now on."""
        found = {}
        for partition, node in self._states.down_until(self._now - self._faults.rebuild_after_minutes * 60.0):
            tenancy = self._tenancies[partition]
            if self._has_quorum(tenancy) and self._stores_copies(tenancy):
                self._drop(tenancy, node)
                found[partition] = tenancy
        return list(found.values())

    def build(self, added: Iterable[Move]) -> None:
        """Let new replicas of tenants that were placed before be built, or start where there is nothing to copy."""
        moves = [move for move in added if self.serves(move.partition)]
        for move in moves:
            self._begin(move)
        for partition in dict.fromkeys(move.partition for move in moves):
            self._settle(self._tenancies[partition])

    def _begin(self, move: Move) -> None:
        tenancy = self._tenancies[move.partition]
        assert move.target is not None
        leaving = [one.node for one in self._described(tenancy) if one.leaving]
        left = next((node for node in leaving if not self._movement.is_left(move.partition, node)), None)
        if left is not None:
            self._movement.follow(_as_move(move, Loss(left, UPGRADE)))
        elif self._stores_copies(tenancy):
            self._states.set(move.partition, move.target, ReplicaState.IN_BUILD)
        elif self._to_restart.get(move.partition):
            restart = _as_move(move, self._to_restart[move.partition].pop(0))
            self._recorder.failover(self._now, restart, tenancy.tenant)

    def _pace_builds(self, tenancy: Tenancy, ready: Sequence[Replica]) -> None:
        """Let replicas be copied from now on, or no longer, where no replica is left to copy from."""
        for node, state in self._states.of(tenancy.partition).items():
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
            self._states.set(*key, ReplicaState.READY)
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
        node = attrs.evolve(self._nodes[name], up=name not in self._why_down)
        if name in self._draining and node.up:
            status = DeactivationStatus.SAFETY_CHECK_COMPLETE  # before that, new replicas may still be placed there
            node = attrs.evolve(node, deactivation_intent=DeactivationIntent.RESTART, deactivation_status=status)
        self._engine.update_node(node, now=self._now)

    def _lose(self, tenancy: Tenancy, loss: Loss) -> bool:
        """Let a partition lose what it has on a node; tell whether it misses a replica from now on."""
        partition, node = tenancy.partition, loss.node
        self._latest_loss[partition] = loss
        for record in self._movement.fail(partition, node):
            self._undo(tenancy, record.move, loss)
        stands = any(one.node == node and not one.leaving for one in self._described(tenancy))
        in_build = self._states.of(partition).get(node) is ReplicaState.IN_BUILD
        waited_for = self._stores_copies(tenancy) and self.serves(partition) and not in_build
        if stands and waited_for:
            self._states.set(partition, node, ReplicaState.DOWN, self._now)
        elif stands:
            self._drop(tenancy, node)
            if not in_build and self.serves(partition):
                self._to_restart.setdefault(partition, []).append(loss)
        self._settle(tenancy)
        return stands and not waited_for

    def _drop(self, tenancy: Tenancy, node: str) -> None:
        """Let a partition have its replica on a node no more."""
        self._building.pop((tenancy.partition, node), None)
        self._states.set(tenancy.partition, node, ReplicaState.READY)
        self._tell(tenancy, [one for one in self._described(tenancy) if one.node != node])

    def _undo(self, tenancy: Tenancy, move: Move, loss: Loss) -> None:
        """Let a move end that fails as one of its nodes is lost: the copy on the other stays, as far as it is one."""
        described = self._described(tenancy)
        if move.target == loss.node or (self._stores_copies(tenancy) and len(described) == 2):
            kept = [one for one in described if one.node != move.target]
            self._tell(tenancy, [_as_leaving(one, move.source, leaving=False) for one in kept])
            return
        self._tell(tenancy, [one for one in described if one.node != move.source])
        if self._stores_copies(tenancy) and move.target is not None:
            self._states.set(tenancy.partition, move.target, ReplicaState.IN_BUILD)
        elif tenancy.stateful:
            self._availability.interrupt(tenancy.tenant, self._now, self._interruption, loss.cause)

    def _settle(self, tenancy: Tenancy) -> None:
        """Let a ready replica be the primary where a quorum is ready, and note whether the tenant can be used."""
        partition, described = tenancy.partition, self._described(tenancy)
        ready, primary = ready_among(described), primary_among(described)
        has_quorum = len(ready) >= tenancy.quorum
        heir = next((one for one in ready if one.role == Role.SECONDARY), None)
        promotes = tenancy.stateful and has_quorum and primary not in ready and heir is not None
        if promotes and heir is not None:
            described = [_with_role(one, heir, primary) for one in described]
        still = self.serves(partition) and not has_quorum and self._stores_copies(tenancy)
        if promotes or still or partition not in self._plain or not is_plain(described):
            self._tell(tenancy, described, in_quorum_loss=still)
        self._pace_builds(tenancy, ready)
        if not self.serves(partition):
            self._served |= {partition} if has_quorum else set()
        elif not has_quorum:
            self._note_loss(tenancy)
        else:
            self._note_use(tenancy, heir if promotes else None)

    def _note_loss(self, tenancy: Tenancy) -> None:
        """Note that a tenant has no quorum."""
        cause = QUORUM_LOSS if tenancy.replicas > 1 else self._latest_loss[tenancy.partition].cause
        if self._availability.lose(tenancy.tenant, self._now, cause) and cause == QUORUM_LOSS:
            self._recorder.quorum_losses += 1

    def _note_use(self, tenancy: Tenancy, heir: Replica | None) -> None:
        """Note that a tenant has a quorum, with a new primary if there is an heir."""
        if self._availability.is_lost(tenancy.tenant):
            self._availability.regain(tenancy.tenant, self._now, self._interruption)
        elif heir is not None:
            cause = self._latest_loss[tenancy.partition].cause
            self._availability.interrupt(tenancy.tenant, self._now, self._interruption, cause)
        if heir is not None:
            loss = self._latest_loss[tenancy.partition]
            reason = Reason(Phase.REPAIR, loss.cause, loss.node)
            move = Move(MoveKind.PROMOTE, tenancy.partition, Role.SECONDARY, None, heir.node, reason, 0.0)
            self._recorder.failover(self._now, move, tenancy.tenant)

    def _has_quorum(self, tenancy: Tenancy) -> bool:
        return len(self._states.ready(tenancy.partition)) >= tenancy.quorum

    def _stores_copies(self, tenancy: Tenancy) -> bool:
        """Tell whether the replicas of a tenant hold its data, so that a new one has to be copied from them."""
        return tenancy.stateful and (tenancy.replicas > 1 or not self._faults.remote_storage)

    def _described(self, tenancy: Tenancy) -> list[Replica]:
        return self._states.described(tenancy.partition)

    def _tell(self, tenancy: Tenancy, replicas: Sequence[Replica], *, in_quorum_loss: bool = False) -> None:
        """Tell the engine how a partition is, and the ledger what the engine makes of it.

        While a partition is plain, this need not be repeated: where its replicas stand, the engine knows itself.
        """
        described = Partition(
            tenancy.partition, service=tenancy.service, replicas=replicas, in_quorum_loss=in_quorum_loss
        )
        self._engine.update_partition(described)
        self._plain.discard(tenancy.partition)
        if is_plain(replicas) and not in_quorum_loss:
            self._plain.add(tenancy.partition)
        self._ledger.refresh(tenancy.partition, tenancy.tenant)


def _as_leaving(one: Replica, node: str | None, *, leaving: bool) -> Replica:
    """Return a replica as it is once that on `node` leaves it, or does so no more."""
    return attrs.evolve(one, leaving=leaving) if one.node == node else one


def _as_move(added: Move, loss: Loss) -> Move:
    """Return the move that the adding of a replica is, which stood on a node that it has to leave or that is lost."""
    reason = attrs.evolve(added.reason, rule=loss.cause, node=loss.node)
    return attrs.evolve(added, kind=MoveKind.MOVE, source=loss.node, reason=reason)


def _with_role(one: Replica, heir: Replica, primary: Replica | None) -> Replica:
    """Return a replica as it is once `heir` has become the primary in the stead of `primary`."""
    if one.node == heir.node and not one.leaving:
        return attrs.evolve(one, role=Role.PRIMARY)
    if primary is not None and one.node == primary.node and not one.leaving:
        return attrs.evolve(one, role=Role.SECONDARY)
    return one
