"""The tenants of a run on the side of the host: replicas as reported to the engine, and availability.

Without a quorum of ready replicas, a partition is unavailable and does not change. If a quorum is ready but the primary
is not, a secondary is promoted. New replicas are ready after the time of their copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs

from cluster.simulation.ledger import Ledger
from cluster.simulation.recorder import MoveRecord
from cluster.simulation.run_tables import QUORUM_LOSS
from cluster.simulation.simulated_cluster import At, Kind, Process, SimulatedCluster
from plb import Move, MoveKind, Partition, Phase, PlacedReplica, Plan, Reason, Replica
from plb.model import ReplicaState, Role, UpgradeMark


@attrs.frozen(eq=False)
class Tenancy:
    """The properties of a tenant that failover depends on."""

    tenant: int
    """Its row in the sequence of tenants."""
    partition: str
    """Name of its partition."""
    service: str
    """Name of its service."""
    replicas: int
    """Target number of replicas."""
    stateful: bool
    """Whether the replicas are a primary and secondaries; False: instances."""

    @property
    def quorum(self) -> int:
        """Number of ready replicas that it needs to be available: a majority, or one instance."""
        return self.replicas // 2 + 1 if self.stateful else 1


class ReplicaStates:
    """The state of every replica that is not plainly ready; partitions and nodes are given by name.

    The ledger has the placement.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._states: dict[str, dict[str, ReplicaState]] = {}
        """States other than ready, by partition and node."""
        self._since: dict[tuple[str, str], int] = {}
        """When a replica went down, in seconds since the start, by partition and node."""
        self.marks: dict[str, dict[str, UpgradeMark]] = {}
        """Marks of upgrades, by partition and node."""

    def set(self, partition: str, node: str, state: ReplicaState, now: int = 0) -> None:
        """Set the state of a partition's replica on a node from `now` on, in seconds since the start."""
        states = self._states.setdefault(partition, {})
        states.pop(node, None)
        self._since.pop((partition, node), None)
        if state is not ReplicaState.READY:
            states[node] = state
        if state is ReplicaState.DOWN:
            self._since[partition, node] = now
        if not states:
            del self._states[partition]

    def forget(self, partition: str) -> None:
        """Remove the states and marks of a partition."""
        self.marks.pop(partition, None)
        for node in self._states.pop(partition, {}):
            self._since.pop((partition, node), None)

    def of(self, partition: str) -> Mapping[str, ReplicaState]:
        """Return the states by node of the replicas that are not ready."""
        return self._states.get(partition, {})

    def down_on(self, node: str) -> list[str]:
        """Return the partitions whose replica on a node is down."""
        return [name for name, states in self._states.items() if states.get(node) is ReplicaState.DOWN]

    def down_until(self, time: float) -> list[tuple[str, str]]:
        """Return partition and node of the replicas that have been down since `time`, seconds, or longer."""
        return [key for key, since in self._since.items() if since <= time]

    def described(self, partition: str) -> list[Replica]:
        """Return the placed replicas of a partition with state and mark, as reported to the engine."""
        states, marks = self._states.get(partition, {}), self.marks.get(partition, {})
        return [
            Replica(replica.role, replica.node, leaving=True)
            if replica.leaving
            else Replica(
                replica.role,
                replica.node,
                state=states.get(replica.node, ReplicaState.READY),
                upgrade=_mark_of(replica.role, marks.get(replica.node, UpgradeMark.NONE)),
            )
            for replica in self._ledger.placed(partition)
            if replica.node is not None
        ]

    def ready(self, partition: str) -> list[PlacedReplica]:
        """Return the replicas of a partition that are ready and stay; a moving replica is ready on its target."""
        states = self.of(partition)
        return [replica for replica in self._ledger.standing(partition) if replica.node not in states]

    def primary(self, partition: str) -> PlacedReplica | None:
        """Return the primary that is not leaving, in any state; None if there is none."""
        return next((replica for replica in self._ledger.standing(partition) if replica.role is Role.PRIMARY), None)

    def is_plain(self, partition: str) -> bool:
        """Return whether all replicas of a partition are ready, unmarked and not leaving."""
        if partition in self._states or partition in self.marks:
            return is_plain(self.described(partition))
        return not any(replica.leaving for replica in self._ledger.placed(partition))


def is_plain(described: Iterable[Replica]) -> bool:
    """Return whether all replicas of a partition are ready, unmarked and not leaving."""
    return all(
        replica.state is ReplicaState.READY and replica.upgrade is UpgradeMark.NONE and not replica.leaving
        for replica in described
    )


def as_leaving(replica: Replica, node: str | None, *, leaving: bool) -> Replica:
    """Return a replica as leaving, or as staying, if it is on `node`, else unchanged."""
    return attrs.evolve(replica, leaving=leaving) if replica.node == node else replica


def as_dropped(replica: Replica, node: str, *, dropped: bool) -> Replica:
    """Return a replica as to be dropped, or as staying, if it is on `node`, else unchanged; neither is leaving."""
    return attrs.evolve(replica, leaving=False, to_be_dropped=dropped) if replica.node == node else replica


def _mark_of(role: Role, mark: UpgradeMark) -> UpgradeMark:
    """Return the mark of a replica in `role` on a node with a mark; none if the mark is meant for another role."""
    marked_role = Role.PRIMARY if mark is UpgradeMark.SWAP_OUT else Role.SECONDARY
    return mark if role is marked_role else UpgradeMark.NONE


GBIT_PER_GB = 8.0
COPIED = MoveKind.MOVE
"""The kind of the moves that copy a replica."""
AT_ONCE = (MoveKind.SWAP, MoveKind.PROMOTE)
"""The kinds of moves between nodes that copy nothing."""
COPIED_METRICS = ("disk", "memory")
"""A move copies the replica's disk, or its memory if the workload has no disk metric."""


class PlanExecution:
    """Carries out plans in the simulated cluster."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._gb_per_second = cluster.scenario.cluster.copy_gbit_per_second / GBIT_PER_GB
        names = cluster.recorder.metric_names
        self._copied = next((names.index(name) for name in COPIED_METRICS if name in names), None)
        """Index of the metric whose load a move copies, in GB; None: nothing."""
        self._tenant_of: dict[str, int] = {}
        """Row of the tenant, by partition."""
        self._under_way: dict[str, list[MoveRecord]] = {}
        """The copies that have not ended, by partition."""

    def take(self, partition: str, tenant: int) -> None:
        """Register a partition whose replicas are on nodes from the start; `tenant`: its row in the sequence."""
        self._tenant_of[partition] = tenant
        self._cluster.ledger.refresh(partition, tenant)

    def start(self, plan: Plan, arrivals: Mapping[str, int]) -> None:
        """Start all moves of a plan: replicas are on their targets from now on, and depart from their sources.

        `arrivals`: rows of the tenants that the plan may place for the first time, by partition.
        """
        self._tenant_of.update(arrivals)
        copies = [
            (move.partition, move.source) for move in plan.moves if move.kind is COPIED and move.source is not None
        ]
        sizes = iter(self._sizes(copies))
        self._cluster.engine.apply(plan, leaving=True)
        for name in dict.fromkeys([*arrivals, *(move.partition for move in plan.moves)]):
            self._cluster.ledger.refresh(name, self._tenant_of[name])
        for move in plan.moves:
            if move.kind is COPIED or move.kind in AT_ONCE:
                self._begin(move, next(sizes) if move.kind is COPIED else 0.0)

    def note(self, move: Move) -> None:
        """Start the copy of a move that the engine did not plan: it holds the replica on the target already."""
        assert move.target is not None
        self._begin(move, self._sizes([(move.partition, move.target)])[0])

    def cancel(self, partition: str) -> None:
        """End the copies of a partition whose tenant departs, and forget the partition."""
        for record in self._under_way.pop(partition, ()):
            record.ended, record.outcome = self._cluster.now, "departed"
        del self._tenant_of[partition]

    def is_left(self, partition: str, node: str | None) -> bool:
        """Return whether a copy of a replica of a partition from a node is under way."""
        return any(record.move.source == node for record in self._under_way.get(partition, ()))

    def fail(self, partition: str, node: str) -> list[MoveRecord]:
        """End the copies of a partition from or to a lost node, and return their records."""
        failed = [
            record for record in self._under_way.get(partition, ()) if node in (record.move.source, record.move.target)
        ]
        for record in failed:
            self._fail(record)
        return failed

    def fail_from(self, partition: str, node: str | None) -> MoveRecord | None:
        """End the copy of a partition from a node, and return its record; None if no copy is under way."""
        record = next((record for record in self._under_way.get(partition, ()) if record.move.source == node), None)
        if record is not None:
            self._fail(record)
        return record

    def copy_seconds(self, partition: str, node: str) -> int:
        """Return the whole seconds that a copy of the present data of a partition's replica on a node takes."""
        return math.ceil(self._sizes([(partition, node)])[0] / self._gb_per_second)

    def _sizes(self, replicas: Sequence[tuple[str, str]]) -> list[float]:
        """Return the GB to copy for replicas, each given by partition and node."""
        if self._copied is None or not replicas:
            return [0.0] * len(replicas)
        return self._cluster.ledger.sizes(replicas, self._cluster.now, self._copied)

    def _begin(self, move: Move, size: float) -> None:
        """Record the start of a move of `size` GB, and start its copy; a move without a copy ends at once."""
        record = MoveRecord(self._cluster.now, move, size)
        self._cluster.recorder.move(record, self._tenant_of[move.partition])
        if move.kind is not COPIED:
            self._complete(record)
            return
        self._under_way.setdefault(move.partition, []).append(record)
        self._cluster.env.process(self._copy(record))

    def _copy(self, record: MoveRecord) -> Process:
        """Wait for the end of a copy; remove the replica from the source of its move, unless the copy ended early."""
        seconds = math.ceil(record.copied_gb / self._gb_per_second)
        yield At(self._cluster.env, record.started + seconds, Kind.COPY_ENDS)
        if record.outcome != "under way":
            return
        partition, source = record.move.partition, record.move.source
        assert source is not None
        self._under_way[partition].remove(record)
        self._cluster.engine.vacate(partition, source)
        self._cluster.ledger.refresh(partition, self._tenant_of[partition])
        self._complete(record)

    def _fail(self, record: MoveRecord) -> None:
        """End a copy that is under way as failed."""
        self._under_way[record.move.partition].remove(record)
        record.ended, record.outcome = self._cluster.now, "failed"

    def _complete(self, record: MoveRecord) -> None:
        """End a move as completed; a moved primary interrupts its tenant."""
        record.ended, record.outcome = self._cluster.now, "completed"
        if record.move.role == Role.PRIMARY:
            tenant = self._tenant_of[record.move.partition]
            self._cluster.interrupt(tenant, record.cause)


@attrs.frozen
class Loss:
    """The loss of a replica with its node."""

    node: str
    """Name of the node that went down."""
    cause: str
    """Why it went down: a node fault or an upgrade."""


class Tenancies:
    """The tenants of a run, with the state of every replica that is not plainly ready."""

    def __init__(self, cluster: SimulatedCluster, movement: PlanExecution) -> None:
        self._cluster, self._movement = cluster, movement
        self._availability = cluster.recorder.availability
        self._remote_storage = cluster.scenario.faults.remote_storage
        self._interruption = cluster.scenario.cluster.interruption_seconds
        self.known: dict[str, Tenancy] = {}
        """The present tenants, by partition."""
        self.states = ReplicaStates(cluster.ledger)
        """The states of their replicas."""
        self.plain: set[str] = set()
        """Partitions last reported to the engine in their plain state: all replicas ready, no mark, no move."""
        self.latest_loss: dict[str, Loss] = {}
        """The last loss of a replica, by partition."""
        self.to_restart: dict[str, list[Loss]] = {}
        """Losses of replicas that have to restart on another node, by partition, the earliest first."""
        self._served: set[str] = set()
        """Partitions that have been available, if only in the past."""
        self._building: dict[tuple[str, str], object] = {}
        """A token of the copy that builds a replica, by partition and node; a later copy has another token."""

    # arrival and departure

    def admit(self, tenancy: Tenancy) -> None:
        """Register a tenant that arrives."""
        self.known[tenancy.partition] = tenancy
        self.plain.add(tenancy.partition)

    def scale(self, partition: str, replicas: int) -> None:
        """Set the target number of replicas of a tenant."""
        self.known[partition] = attrs.evolve(self.known[partition], replicas=replicas)

    def note_placed(self, partition: str) -> None:
        """Settle a partition that has not been available yet, if a quorum of its replicas is placed."""
        if not self.serves(partition) and self.has_quorum(self.known[partition]):
            self.settle(self.known[partition])

    def dismiss(self, partition: str) -> None:
        """Remove the partition of a tenant that departs."""
        tenancy = self.known.pop(partition)
        self._availability.regain(tenancy.tenant, self._cluster.now)
        self._served.discard(partition)
        self.plain.discard(partition)
        self.states.forget(partition)
        self.latest_loss.pop(partition, None)
        self.to_restart.pop(partition, None)
        self._building = {key: token for key, token in self._building.items() if key[0] != partition}

    def serves(self, partition: str) -> bool:
        """Return whether a partition is available, or was before."""
        return partition in self._served

    def rests(self, partition: str) -> bool:
        """Return whether a partition has lost its quorum, so that it does not change until enough nodes are back."""
        tenancy = self.known[partition]
        return self.stores_copies(tenancy) and self._availability.is_lost(tenancy.tenant)

    def on(self, node: str) -> list[Tenancy]:
        """Return the tenants with a replica, or a departing end, on a node."""
        return [self.known[partition] for partition in self._cluster.ledger.partitions_on(node)]

    def described(self, tenancy: Tenancy) -> list[Replica]:
        """Return the placed replicas of a tenant with state and mark, as reported to the engine."""
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
        self.report_replicas(tenancy, [replica for replica in self.described(tenancy) if replica.node != node])

    def settle(self, tenancy: Tenancy) -> None:
        """Update roles, copies and availability of a tenant after a change of its ready replicas, and report them.

        If a quorum is ready without the primary, a secondary is promoted.
        """
        partition = tenancy.partition
        ready, primary = self.states.ready(partition), self.states.primary(partition)
        has_quorum = len(ready) >= tenancy.quorum
        successor = None
        if tenancy.stateful and has_quorum and primary not in ready:
            successor = next((replica for replica in ready if replica.role == Role.SECONDARY), None)
        # without a quorum there is nothing to copy from, so the engine must leave the partition alone
        is_suspended = self.serves(partition) and not has_quorum and self.stores_copies(tenancy)
        is_reported = partition in self.plain and self.states.is_plain(partition)
        if successor is not None or is_suspended or not is_reported:
            described = [_with_role(replica, successor, primary) for replica in self.described(tenancy)]
            self.report_replicas(tenancy, described, in_quorum_loss=is_suspended)
        self._update_builds(tenancy, is_any_ready=bool(ready))
        if not self.serves(partition):
            self._served |= {partition} if has_quorum else set()
        elif not has_quorum:
            cause = QUORUM_LOSS if tenancy.replicas > 1 else self.latest_loss[tenancy.partition].cause
            if self._availability.lose(tenancy.tenant, self._cluster.now, cause) and cause == QUORUM_LOSS:
                self._cluster.recorder.quorum_losses += 1
        else:
            self._record_use(tenancy, successor)

    def _record_use(self, tenancy: Tenancy, successor: PlacedReplica | None) -> None:
        """Record that a tenant has a quorum, and the promotion of `successor` if there is one."""
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
        """Start the copies of a tenant's new replicas, or stop them if no replica is ready to copy from."""
        for node, state in self.states.of(tenancy.partition).items():
            key = (tenancy.partition, node)
            if state is ReplicaState.IN_BUILD and not is_any_ready:
                self._building.pop(key, None)
            elif state is ReplicaState.IN_BUILD and key not in self._building:
                self._building[key] = token = object()
                self._cluster.env.process(self._copy(tenancy, node, token))

    def _copy(self, tenancy: Tenancy, node: str, token: object) -> Process:
        """Wait for the end of a copy to a node, and make its replica ready, if `token` still stands for this copy."""
        key = (tenancy.partition, node)
        yield At(self._cluster.env, self._cluster.now + self._movement.copy_seconds(*key), Kind.COPY_ENDS)
        if self._building.get(key) is token:
            del self._building[key]
            self.states.set(*key, ReplicaState.READY)
            self.settle(tenancy)

    def report_replicas(self, tenancy: Tenancy, replicas: Sequence[Replica], *, in_quorum_loss: bool = False) -> None:
        """Report the replicas of a tenant's partition to the engine, and refresh the ledger.

        `in_quorum_loss`: the engine must not change the partition. A plain partition needs no repeated report, because
        the engine holds its placement.
        """
        reported = Partition(
            tenancy.partition, service=tenancy.service, replicas=replicas, in_quorum_loss=in_quorum_loss
        )
        self._cluster.engine.update_partition(reported)
        self.plain.discard(tenancy.partition)
        if is_plain(replicas) and not in_quorum_loss:
            self.plain.add(tenancy.partition)
        self._cluster.ledger.refresh(tenancy.partition, tenancy.tenant)


def _with_role(replica: Replica, successor: PlacedReplica | None, primary: PlacedReplica | None) -> Replica:
    """Return a replica with its role after `successor` has replaced `primary`; unchanged without a successor."""
    if successor is None:
        return replica
    if replica.node == successor.node and not replica.leaving:
        return attrs.evolve(replica, role=Role.PRIMARY)
    if primary is not None and replica.node == primary.node and not replica.leaving:
        return attrs.evolve(replica, role=Role.SECONDARY)
    return replica
