"""Moves that take time: data are copied, both nodes have the load, and a move of a primary interrupts service."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import simpy

from cluster.simulation.calendar import At, Kind
from cluster.simulation.recorder import MoveRecord
from cluster.simulation.simulated_cluster import SimulatedCluster
from plb import Move, MoveKind, Plan
from plb.model import Role

GBIT_PER_GB = 8.0
COPIED = MoveKind.MOVE
"""The kind of the moves that copy a replica."""
AT_ONCE = (MoveKind.SWAP, MoveKind.PROMOTE)
"""The kinds of moves between nodes that copy nothing."""
COPIED_METRICS = ("disk", "memory")
"""A move copies the replica's disk, or its memory if the workload has no disk metric."""


class PlanExecution:
    """Carries out plans in the simulated cluster.

    Parameters
    ----------
    cluster
        The shared objects of the run.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._gb_per_second = cluster.scenario.cluster.copy_gbit_per_second / GBIT_PER_GB
        names = cluster.recorder.metric_names
        self._copied = next((names.index(name) for name in COPIED_METRICS if name in names), None)
        self._tenant_of: dict[str, int] = {}
        self._under_way: dict[str, list[MoveRecord]] = {}

    def take(self, partition: str, tenant: int) -> None:
        """Register a tenant whose replicas are on nodes from the start."""
        self._tenant_of[partition] = tenant
        self._cluster.ledger.refresh(partition, tenant)

    def start(self, plan: Plan, arrivals: Mapping[str, int]) -> None:
        """Start all moves of a plan: replicas are on their targets from now on, and depart from their sources.

        Parameters
        ----------
        arrivals
            Row of each tenant, by partition, that the plan may place for the first time.
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
        """Start the copy of a replica whose new node the engine has already."""
        assert move.target is not None
        self._begin(move, self._sizes([(move.partition, move.target)])[0])

    def cancel(self, partition: str) -> None:
        """End the copies of a tenant that departs."""
        for record in self._under_way.pop(partition, ()):
            record.ended, record.outcome = self._cluster.now, "departed"
        del self._tenant_of[partition]

    def is_left(self, partition: str, node: str | None) -> bool:
        """Return whether a copy of a partition from a node is under way."""
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
        record = next((one for one in self._under_way.get(partition, ()) if one.move.source == node), None)
        if record is not None:
            self._fail(record)
        return record

    def copy_seconds(self, partition: str, node: str) -> int:
        """Return how long it takes to copy the present data of a partition's replica on a node."""
        return math.ceil(self._sizes([(partition, node)])[0] / self._gb_per_second)

    def _sizes(self, replicas: Sequence[tuple[str, str]]) -> list[float]:
        """Return the GB of replicas, each given by partition and node."""
        if self._copied is None or not replicas:
            return [0.0] * len(replicas)
        return self._cluster.ledger.sizes(replicas, self._cluster.now, self._copied)

    def _begin(self, move: Move, size: float) -> None:
        record = MoveRecord(self._cluster.now, move, size)
        self._cluster.recorder.move(record, self._tenant_of[move.partition])
        if move.kind is not COPIED:
            self._complete(record)
            return
        self._under_way.setdefault(move.partition, []).append(record)
        self._cluster.env.process(self._copy(record))

    def _copy(self, record: MoveRecord) -> Generator[simpy.Event, Any, None]:
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
        self._under_way[record.move.partition].remove(record)
        record.ended, record.outcome = self._cluster.now, "failed"

    def _complete(self, record: MoveRecord) -> None:
        record.ended, record.outcome = self._cluster.now, "completed"
        if record.move.role == Role.PRIMARY:
            tenant = self._tenant_of[record.move.partition]
            self._cluster.interrupt(tenant, record.cause)
