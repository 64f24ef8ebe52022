"""How the simulated cluster handles nodes that go down.

The host waits for a replica on a node that is down. After `rebuild_after_minutes` the replica is built on another node,
which the engine selects. `cluster.simulation.tenancies` keeps the state of the tenant meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from cluster.simulation.availability import Tenancy
from cluster.simulation.causes import FAULT, UPGRADE
from cluster.simulation.node_states import NodeStates
from cluster.simulation.plan_execution import PlanExecution
from cluster.simulation.replica_states import as_leaving
from cluster.simulation.simulated_cluster import SimulatedCluster
from cluster.simulation.tenancies import Loss, Tenancies
from plb import Move, MoveKind
from plb.model import ReplicaState


class FailoverManager:
    """Removes replicas from nodes that go down, and restores them.

    Parameters
    ----------
    cluster
        The shared objects of the run.
    nodes, tenancies, movement
        The states of nodes and tenants, and the moves.
    """

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
        had_replica = any(one.node == node and not one.leaving for one in tenancies.described(tenancy))
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
            kept = [one for one in described if one.node != move.target]
            tenancies.report_replicas(tenancy, [as_leaving(one, move.source, leaving=False) for one in kept])
            return
        # a secondary that was promoted while its copy was under way may have been moved on
        left, target = [move.source], move.target
        while onward := self._movement.fail_from(tenancy.partition, target):
            left.append(target)
            target = onward.move.target
        kept = [one for one in described if one.node not in left]
        tenancies.report_replicas(tenancy, kept)
        if tenancies.stores_copies(tenancy):
            if target is not None and any(one.node == target and not one.leaving for one in kept):
                tenancies.states.set(tenancy.partition, target, ReplicaState.IN_BUILD)
        elif tenancy.stateful:
            self._cluster.interrupt(tenancy.tenant, loss.cause)

    # rebuilding

    def give_up_waiting(self) -> list[Tenancy]:
        """Give up replicas that have been down too long; return the tenants that miss a replica from now on."""
        tenancies, found = self._tenancies, {}
        for partition, node in tenancies.states.down_until(self._cluster.now - self._rebuild_after):
            tenancy = tenancies.known[partition]
            if tenancies.has_quorum(tenancy) and tenancies.stores_copies(tenancy):
                tenancies.drop(tenancy, node)
                found[partition] = tenancy
        return list(found.values())

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
        leaving = [one.node for one in tenancies.described(tenancy) if one.leaving]
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
