"""The nodes and demand of all replicas, as arrays parallel to the engine's rows, for vectorised metering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import attrs
import numpy as np

from cluster.scenario.workload_sections import Growth, Workload
from cluster.simulation.tenant_arrivals import TenantSequence
from plb import PlacedReplica, PlacementAndLoadBalancing, UnknownNameError
from plb.array_types import NOWHERE, Bool, Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.model import Role
from workloads.trace import TraceSet, highest_ahead


@kernel
def find_demand(
    rows: Int,
    tenant: Int,
    start: Int,
    created: Int,
    lifetime_steps: Int32,
    values: Float32,
    growth: Float,
    now: int,
    step_seconds: int,
    demand: Float,
) -> None:
    """Set `demand`, (m, R), to the values of replicas at `now`, from values by sample, (N, R), times growth.

    `rows`: (m,) engine rows of the replicas; `tenant`, `start`: (M,) tenant and first sample by engine row; `created`,
    seconds, `lifetime_steps`, `growth`: (T,) by tenant. The sample is of the step of `step_seconds` that contains or
    ends at `now`.
    """
    for index in range(rows.shape[0]):
        owner = tenant[rows[index]]
        step = max(min((now - 1 - created[owner]) // step_seconds, lifetime_steps[owner] - 1), 0)
        sample = start[rows[index]] + step
        for metric in range(demand.shape[1]):
            demand[index, metric] = values[sample, metric] * growth[owner]


@kernel
def find_loads(rows: Int, node: Int, leaving: Bool, demand: Float, loads: Float) -> None:
    """Add the demand, (m, R), of the replicas in engine rows, (m,), in order to `loads`, (2, H, R).

    `node`, `leaving`: (M,) node of each engine row, and whether it is a departing end. `loads[0]` is of replicas that
    stay, `loads[1]` of departing ends.
    """
    for index in range(rows.shape[0]):
        row = rows[index]
        for metric in range(demand.shape[1]):
            loads[int(leaving[row]), node[row], metric] += demand[index, metric]


class Oracle:
    """The largest demand within the coming `hours`, for tenants of an age of `after_hours`.

    Growth of whole classes (`factors`) is not predicted.
    """

    def __init__(self, traces: TraceSet, hours: float, after_hours: float) -> None:
        """Predict the maxima of `hours` ahead; the oracle knows replicas older than `after_hours`."""
        self._after = after_hours * 3600.0
        steps = round(hours * 3600.0 / traces.step_seconds)
        self.highest = highest_ahead(traces.values, traces.series_start, steps)
        """(N, R) for each sample of the traces, the maximum from it to the horizon."""

    @classmethod
    def of(cls, traces: TraceSet, workload: Workload) -> Oracle | None:
        """Return the oracle that a workload asks for, or None."""
        return cls(traces, workload.oracle_hours, workload.oracle_after_hours) if workload.oracle_hours else None

    def knows(self, age: Int) -> Bool:
        """Return for ages of tenants in seconds, (m,), whether the oracle predicts the demand of each."""
        return np.asarray(age >= self._after)


@attrs.frozen(eq=False)
class Metering:
    """The result of one metering, for m ends of replicas, H nodes and R metrics."""

    rows: Int
    """(m,) engine rows of the metered ends."""
    demand: Float
    """(m, R) demand of each, in user units."""
    reported: Float
    """(m, R) load reported to the engine: the demand, or the prediction of an oracle."""
    standing: Float
    """(H, R) load of the replicas on each node, without departing ends."""
    departing: Float
    """(H, R) load of the departing ends of moves under way."""
    predicted: Float
    """(H, R) reported load of the replicas on each node, without departing ends."""

    @property
    def metered(self) -> Float:
        """(H, R) physical load: both ends of a move count."""
        return self.standing + self.departing


class Ledger:
    """The replicas of the simulated cluster, one row for each row of the engine.

    The engine holds the placement; `refresh` copies the placement of one partition.
    """

    def __init__(
        self,
        engine: PlacementAndLoadBalancing,
        nodes: list[str],
        sequence: TenantSequence,
        oracle: Oracle | None = None,
    ) -> None:
        """Begin without placements; `nodes`: names in order; `oracle`: predicts the loads to report, if any does."""
        self._engine, self._sequence, self._oracle = engine, sequence, oracle
        self._node_index = {name: index for index, name in enumerate(nodes)}
        self._node_count = len(nodes)
        self._placed: dict[str, tuple[PlacedReplica, ...]] = {}
        self._growth: Float = np.ones(len(sequence.arrival))
        self._share: Float = np.ones(len(sequence.arrival))
        """(T,) share of the recorded demand that each replica has."""
        self._factor: Float = np.ones(len(sequence.arrival))
        """(T,) growth times share."""
        self._is_metered: Bool = np.append(np.ones(len(nodes), np.bool_), False)
        """(H + 1,) whether each node is up; the last one stands for no node."""
        traces = sequence.traces
        self._step = round(traces.step_seconds)
        self._series = traces.series_start[:-1][np.maximum(traces.series_index, 0)]
        """(T, 3) first sample of each tenant's series by role; any where it has none."""
        self._allocate(1024)

    def _allocate(self, length: int) -> None:
        """Make the arrays by engine row, for `length` rows without replicas."""
        self.node: Int = np.full(length, NOWHERE, np.int64)
        """(M,) index of the node of each engine row, or `NOWHERE`."""
        self.tenant: Int = np.zeros(length, np.int64)
        """(M,) row of the tenant of each engine row in the sequence."""
        self.leaving: Bool = np.zeros(length, np.bool_)
        """(M,) whether each engine row is the departing end of a move."""
        self._start: Int = np.zeros(length, np.int64)
        """(M,) first sample of each engine row."""

    @property
    def growth(self) -> Float:
        """(T,) present factor on the demand of each tenant."""
        return self._growth

    @growth.setter
    def growth(self, factor: Float) -> None:
        self._growth = factor
        self._factor[:] = factor * self._share

    def set_share(self, tenants: Sequence[int], share: float) -> None:
        """Set the share of the recorded demand that each replica of tenants has."""
        self._share[tenants] = share
        self._factor[tenants] = self._growth[tenants] * share

    def is_primary(self, rows: Int) -> Bool:
        """Return whether engine rows have the demand of a primary, (m,)."""
        return np.asarray(self._start[rows] == self._series[self.tenant[rows], Role.PRIMARY])

    def refresh(self, partition: str, tenant: int) -> None:
        """Copy the placement of a partition, whose row in the sequence is `tenant`, from the engine.

        Instances that are scaled share the demand of the tenant anew.
        """
        self.drop(partition)
        placed = self._placed[partition] = self._engine.replicas(partition)
        for replica in placed:
            row = replica.index
            if row >= len(self.node):
                self._grow(row)
            self.node[row] = NOWHERE if replica.node is None else self._node_index[replica.node]
            self.tenant[row] = tenant
            self.leaving[row] = replica.leaving
            self._start[row] = self._series[tenant, replica.role]
        if self._sequence.scales_instances[tenant]:
            # if none stands, each is expected to have its part
            count = len(self.standing(partition)) or sum(not replica.leaving for replica in placed)
            self.set_share([tenant], self._sequence.traces.replicas[tenant] / max(1, count))

    def placed(self, partition: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a partition as the engine had them at the last `refresh`; () before the first."""
        return self._placed.get(partition, ())

    def standing(self, partition: str) -> list[PlacedReplica]:
        """Return the replicas of a partition that are on a node and do not leave it."""
        return [replica for replica in self.placed(partition) if replica.node is not None and not replica.leaving]

    def set_down(self, node: str, *, down: bool) -> None:
        """Set whether a node is down; nothing is metered on a node that is down."""
        self._is_metered[self._node_index[node]] = not down

    def partitions_on(self, node: str) -> list[str]:
        """Return the partitions with a replica, or a departing end, on a node, in the order of their tenants."""
        tenants = np.unique(self.tenant[self.node == self._node_index[node]])
        return [str(self._sequence.traces.tenant[tenant]) for tenant in tenants.tolist()]

    def drop(self, partition: str) -> None:
        """Take the replicas of a partition off their nodes."""
        for replica in self._placed.pop(partition, ()):
            self.node[replica.index] = NOWHERE

    def _grow(self, index: int) -> None:
        """Make room for the engine row `index`."""
        old = (self.node, self.tenant, self.leaving, self._start)
        self._allocate(2 * max(index, len(self.node)))
        for array, values in zip((self.node, self.tenant, self.leaving, self._start), old, strict=True):
            array[: len(values)] = values

    def demand(self, rows: Int, now: int) -> Float:
        """Return the demand of engine rows in the step that contains or ends at `now`, (m, R), user units."""
        return self._present_step(self._sequence.traces.values, rows, now)

    def _present_step(self, values: Float32, rows: Int, now: int) -> Float:
        """Return values by sample, (N, R), in the step of engine rows at `now`, times growth and share, (m, R)."""
        created, lifetime_steps = self._sequence.created, self._sequence.traces.lifetime_steps
        row_arrays, tenant_arrays = (rows, self.tenant, self._start), (created, lifetime_steps)
        demand = np.empty((len(rows), values.shape[1]))
        find_demand(*row_arrays, *tenant_arrays, values, self._factor, now, self._step, demand)
        return demand

    def mean_demand(self, rows: Int, now: int, hours: float) -> Float:
        """Return the mean demand of engine rows in the hours that end at `now`, (m, R): one sample an hour.

        The first demand of a tenant stands for the time before its creation.
        """
        hourly = [self.demand(rows, now - hour * 3600) for hour in range(max(1, round(hours)))]
        return np.asarray(np.mean(hourly, axis=0))

    def reported(self, rows: Int, now: int) -> Float:
        """Return the load to report for engine rows, (m, R): the prediction of the oracle, or else the demand."""
        return self._reported(rows, self.demand(rows, now), now)

    def _reported(self, rows: Int, demand: Float, now: int) -> Float:
        """Return the load to report of engine rows, (m, R): `demand`, or the oracle's prediction where it has one."""
        if self._oracle is None:
            return demand
        is_predicted = self._oracle.knows(now - self._sequence.created[self.tenant[rows]])
        return np.where(is_predicted[:, None], self._present_step(self._oracle.highest, rows, now), demand)

    def sizes(self, replicas: Iterable[tuple[str, str]], now: int, metric: int) -> list[float]:
        """Return the demand of replicas, each given by partition and node, in the metric with index `metric`."""
        rows = [
            next(replica.index for replica in self.standing(partition) if replica.node == node)
            for partition, node in replicas
        ]
        sizes: list[float] = self.demand(np.array(rows, np.int64), now)[:, metric].tolist()
        return sizes

    def meter(self, now: int) -> Metering:
        """Meter all replicas on nodes that are up; moves under way count at both ends."""
        rows = np.flatnonzero(self._is_metered[self.node])
        demand = self.demand(rows, now)
        reported = self._reported(rows, demand, now)
        standing, departing = self._by_node(rows, demand)
        predicted = standing if reported is demand else self._by_node(rows, reported)[0]
        return Metering(rows, demand, reported, standing, departing, predicted)

    def largest_standing(self, metering: Metering, nodes: Int) -> Float:
        """Return the largest demand of a single replica on each of `nodes`, (k,), without departing ends, (k, R)."""
        place_of_node = np.full(self._node_count, NOWHERE, np.int64)
        place_of_node[nodes] = np.arange(len(nodes))
        place_of_row = place_of_node[self.node[metering.rows]]
        standing = np.flatnonzero((place_of_row != NOWHERE) & ~self.leaving[metering.rows])
        largest = np.zeros((len(nodes), metering.demand.shape[1]))
        np.maximum.at(largest, place_of_row[standing], metering.demand[standing])
        return largest

    def _by_node(self, rows: Int, demand: Float) -> Float:
        """Return the demand on each node, first of the replicas that stay, then of departing ends, (2, H, R).

        `rows`: (m,) engine rows; `demand`: (m, R).
        """
        loads = np.zeros((2, self._node_count, demand.shape[1]))
        find_loads(rows, self.node, self.leaving, demand, loads)
        return loads


def check_classes(growths: Iterable[Growth], traces: TraceSet) -> None:
    """Raise `UnknownNameError` if no tenant has the class of a growth."""
    for growth in growths:
        if not any(fnmatchcase(name, growth.tenant_class) for name in traces.classes):
            raise UnknownNameError("tenant class", growth.tenant_class, traces.classes, "workload.growth")


def factors(growths: Iterable[Growth], traces: TraceSet) -> Float:
    """Return the factor on the demand of each tenant, (T,), while all of `growths` are active."""
    factor_of_class = np.ones(len(traces.classes))
    for growth in growths:
        matches = [fnmatchcase(name, growth.tenant_class) for name in traces.classes]
        factor_of_class[matches] *= growth.factor
    return np.asarray(factor_of_class[traces.class_code])
