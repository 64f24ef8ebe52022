"""Who stands where and what it uses: arrays in step with the engine's rows, so that metering is one vectorised step."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from cluster.simulation.oracle import Oracle
from cluster.simulation.tenants import TenantSequence
from plb import PlacementAndLoadBalancing

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
NOWHERE = -1


@attrs.frozen(eq=False)
class Metering:
    """What was metered at one time; m ends of replicas, H nodes, R metrics.

    Parameters
    ----------
    rows
        (m,) engine indices of the metered ends.
    demand
        (m, R) demand of each, in user units.
    reported
        (m, R) what the engine is told: the demand, or what an oracle foretells.
    standing
        (H, R) load of the replicas that stand on each node, without departing ends.
    departing
        (H, R) load of the departing ends of moves under way.
    foretold
        (H, R) load of the replicas that stand on each node, as reported.
    """

    rows: Ints
    demand: Floats
    reported: Floats
    standing: Floats
    departing: Floats
    foretold: Floats

    @property
    def metered(self) -> Floats:
        """(H, R) physical load: both ends of a move count."""
        return self.standing + self.departing


class Ledger:
    """The replicas of the simulated cluster, one row for each row of the engine.

    The engine alone decides where replicas stand; `refresh` copies that for one partition.

    Parameters
    ----------
    engine
        The engine, with all nodes in it.
    nodes
        Names of the nodes.
    sequence
        The tenants; a partition is named like its tenant.
    oracle
        Foretells demand; None: what is reported is the present demand.
    """

    def __init__(
        self,
        engine: PlacementAndLoadBalancing,
        nodes: list[str],
        sequence: TenantSequence,
        oracle: Oracle | None = None,
    ) -> None:
        self._engine, self._sequence, self._oracle = engine, sequence, oracle
        self._node_index = {name: index for index, name in enumerate(nodes)}
        self._node_count = len(nodes)
        self._rows: dict[str, list[int]] = {}
        self.growth: Floats = np.ones(len(sequence.arrival))
        """(T,) what the demand of each tenant is multiplied by at present."""
        self._is_down: npt.NDArray[np.bool_] = np.zeros(len(nodes), np.bool_)
        traces = sequence.traces
        self._step = round(traces.step_seconds)
        self._series = traces.series_start[:-1][np.maximum(traces.series_index, 0)]
        self._allocate(1024)

    def _allocate(self, length: int) -> None:
        self.node: Ints = np.full(length, NOWHERE, np.int64)
        self.tenant: Ints = np.zeros(length, np.int64)
        self.leaving: npt.NDArray[np.bool_] = np.zeros(length, np.bool_)
        self._start: Ints = np.zeros(length, np.int64)

    def refresh(self, partition: str, tenant: int) -> None:
        """Take over from the engine where the replicas of a partition stand."""
        self.drop(partition)
        placed = self._engine.replicas(partition)
        for replica in placed:
            if replica.index >= len(self.node):
                self._grow(replica.index)
            self.node[replica.index] = NOWHERE if replica.node is None else self._node_index[replica.node]
            self.tenant[replica.index] = tenant
            self.leaving[replica.index] = replica.leaving
            self._start[replica.index] = self._series[tenant, replica.role]
        self._rows[partition] = [replica.index for replica in placed]

    def set_down(self, node: str, *, down: bool) -> None:
        """Note whether a node is down: nothing is metered there then."""
        self._is_down[self._node_index[node]] = down

    def partitions_on(self, node: str) -> list[str]:
        """Return the partitions with a replica, or a departing end, on a node, in the order of their tenants."""
        tenants = np.unique(self.tenant[self.node == self._node_index[node]])
        return [str(self._sequence.traces.tenant[tenant]) for tenant in tenants.tolist()]

    def drop(self, partition: str) -> None:
        """Forget the rows of a partition."""
        for row in self._rows.pop(partition, ()):
            self.node[row] = NOWHERE

    def _grow(self, index: int) -> None:
        old = (self.node, self.tenant, self.leaving, self._start)
        self._allocate(2 * max(index, len(self.node)))
        for array, values in zip((self.node, self.tenant, self.leaving, self._start), old, strict=True):
            array[: len(values)] = values

    def demand(self, rows: Ints, now: int) -> npt.NDArray[Any]:
        """Return the demand of rows in the step that ends at `now` or holds it, shape (m, R), user units."""
        return self._at_present(self._sequence.traces.values, rows, now)

    def _at_present(self, of_samples: npt.NDArray[Any], rows: Ints, now: int) -> npt.NDArray[Any]:
        """Return what rows have of (N, R) values by sample in the step that they are in, grown as demand is, (m, R)."""
        traces, tenant = self._sequence.traces, self.tenant[rows]
        age = now - self._sequence.arrival[tenant]
        step = np.clip((age - 1) // self._step, 0, traces.lifetime_steps[tenant] - 1)
        return np.asarray(of_samples[self._start[rows] + step] * self.growth[tenant][:, None])

    def _foretold(self, rows: Ints, demand: Floats, now: int) -> Floats:
        """Return what the oracle says of rows, (m, R): their present demand where it does not know them yet."""
        if self._oracle is None:
            return demand
        known = self._oracle.knows(now - self._sequence.arrival[self.tenant[rows]])
        return np.where(known[:, None], self._at_present(self._oracle.highest, rows, now), demand)

    def size(self, partition: str, node: str, now: int, metric: int) -> float:
        """Return the demand of the replica of a partition that stands on a node, for one metric."""
        index = self._node_index[node]
        rows = [row for row in self._rows[partition] if self.node[row] == index and not self.leaving[row]]
        return float(self.demand(np.array(rows[:1], np.int64), now)[0, metric])

    def meter(self, now: int) -> Metering:
        """Meter all replicas on nodes that are up, and both ends of moves under way."""
        rows = np.flatnonzero((self.node != NOWHERE) & ~self._is_down[self.node])
        demand = self.demand(rows, now).astype(np.float64)
        reported = self._foretold(rows, demand, now)
        standing, departing = self._by_node(rows, demand)
        foretold = standing if reported is demand else self._by_node(rows, reported)[0]
        return Metering(rows, demand, reported, standing, departing, foretold)

    def _by_node(self, rows: Ints, demand: Floats) -> Floats:
        """Return the demand of the rows of each node that stand there, and of those that depart, (2, H, R)."""
        cell = self.node[rows] + self._node_count * self.leaving[rows]
        columns = [np.bincount(cell, demand[:, r], 2 * self._node_count) for r in range(demand.shape[1])]
        return np.asarray(np.column_stack(columns).reshape(2, self._node_count, demand.shape[1]), np.float64)
