"""The tenants that every policy faces: who arrives when, made before any policy runs ([1] section 8.1).

Made as if every placement succeeded: the cluster is filled until the tenant density is reached, and after each
departure new tenants are admitted until it is reached again. What a policy fails to place changes nothing here.
The tenants of a plan stand from the start where it says, and nobody else arrives.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from cluster.errors import DensityError
from cluster.hardware import Cluster
from cluster.planned import PlanPool
from cluster.pools import Source, TenantPool
from cluster.scenario import Scenario
from cluster.streams import stream
from plb.model import Role
from workloads.trace import MetricInfo, TraceSet, concatenate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


SECONDS_BETWEEN_RISES = 3600
"""Where the density rises, tenants are admitted at least so often."""


@attrs.frozen(eq=False)
class TenantSequence:
    """Arrivals and departures, and the traces of those who arrive; tenant i is row i everywhere.

    Parameters
    ----------
    traces
        The tenants in the order in which they arrive.
    arrival
        (T,) whole seconds since the start, ascending.
    first
        Number of tenants of the initial fill.
    total_capacity
        Capacity of the whole cluster for the metric of the density.
    density_metric
        Column of that metric.
    parent
        (T,) the tenant that each one follows, by an affinity, or -1.
    standing
        Nodes on which instances of tenants stand from the start, one tenant after the other. Tenants without are
        placed when they arrive.
    standing_start
        (T + 1,) bounds of the tenants in `standing`.
    """

    traces: TraceSet
    arrival: Ints
    first: int
    total_capacity: float
    density_metric: int
    parent: Ints = attrs.field(default=attrs.Factory(lambda self: np.full(len(self.arrival), -1), takes_self=True))
    standing: Ints = attrs.field(factory=lambda: np.empty(0, np.int64))
    standing_start: Ints = attrs.field(
        default=attrs.Factory(lambda self: np.zeros(len(self.arrival) + 1, np.int64), takes_self=True)
    )

    @property
    def departure(self) -> Ints:
        """(T,) whole seconds since the start."""
        return self.arrival + lifetime_seconds(self.traces)

    @property
    def stands(self) -> npt.NDArray[np.bool_]:
        """(T,) whether a tenant stands from the start."""
        return np.diff(self.standing_start) > 0

    def nodes_of(self, tenant: int) -> list[int]:
        """Return the nodes on which a tenant stands from the start."""
        first, last = self.standing_start[tenant : tenant + 2].tolist()
        return [int(node) for node in self.standing[first:last]]

    @property
    def weight(self) -> npt.NDArray[np.float64]:
        """(T,) what each tenant adds to the density."""
        return promised(self.traces, self.density_metric) / self.total_capacity

    def density(self, time: float) -> float:
        """Return the density just after `time`, as if every placement had succeeded."""
        active = (self.arrival <= time) & (self.departure > time)
        return float(self.weight[active].sum())


def lifetime_seconds(traces: TraceSet) -> Ints:
    """Return the lifetime of every tenant in whole seconds."""
    return np.asarray(np.rint(traces.lifetime_steps * traces.step_seconds), np.int64)


def promised(traces: TraceSet, metric: int) -> npt.NDArray[np.float64]:
    """Return MaxUsage of all replicas of every tenant together, for one metric."""
    return traces.max_usage[:, metric].astype(np.float64) * traces.replicas


def make_tenants(
    scenario: Scenario, source: Source, repeat: int = 0, *, held_by: Cluster | None = None
) -> TenantSequence:
    """Draw the tenants of one repeat, or return those of a plan.

    Parameters
    ----------
    scenario, source
        Whose tenants they are.
    repeat
        Number of the repeat, from 0.
    held_by
        The nodes that are to hold them, where these are not the scenario's own. They face the same tenants: the density
        counts by the scenario's own nodes.

    Raises
    ------
    DensityError
        The pool runs out of tenants, a tenant has more replicas than there are nodes, or the demand of the first
        tenants is more than the cluster can hold.
    """
    workload = scenario.workload
    holding = scenario if held_by is None else attrs.evolve(scenario, cluster=held_by)
    metric = [info.name for info in source.metrics].index(workload.density_metric)
    own, total = (one.cluster.total_capacity(workload.density_metric) for one in (scenario, holding))
    if isinstance(source.pool, PlanPool):
        return _standing(source.pool, total, metric)
    rng = stream(scenario.run.seed, "tenants", repeat)
    limit = _limit(holding, source.metrics)
    end = scenario.run.days * 86400.0
    last = workload.density if workload.density_end is None else workload.density_end
    admission = _Admission(source.pool, rng, metric, (workload.density * own, last * own), end, limit)
    fill = admission.fill(0)
    spread = np.arange(len(fill)) * scenario.run.fill_hours * 3600.0 / max(len(fill), 1)
    admission.start(fill, np.floor(spread).astype(np.int64))
    admission.run()
    traces, arrival = admission.traces(), np.array(admission.arrival, np.int64)
    _check_feasible(holding, traces, len(fill))
    order = np.argsort(arrival, kind="stable")
    chosen = traces.select(order)
    parent = _pairs(chosen, arrival[order], workload.pair_share, stream(scenario.run.seed, "pairs", repeat))
    return TenantSequence(chosen, arrival[order], len(fill), total, metric, parent)


def _standing(pool: PlanPool, total: float, metric: int) -> TenantSequence:
    """Return the tenants of a plan, all of whom stand."""
    tenants = pool.tenants
    count, standing = tenants.traces.tenants, pool.place[tenants.node]
    arrival = np.zeros(count, np.int64)
    return TenantSequence(
        tenants.traces, arrival, count, total, metric, standing=standing, standing_start=tenants.start
    )


def _pairs(traces: TraceSet, arrival: Ints, share: float, rng: np.random.Generator) -> Ints:
    """Return the parent of each tenant, or -1: of those who arrive together with as many replicas, pairs by chance."""
    parent = np.full(len(arrival), -1)
    waiting: dict[tuple[int, int], int] = {}
    pairs = rng.random(len(arrival)) < share
    for tenant in np.flatnonzero(pairs & (traces.series_index[:, Role.INSTANCE] < 0)).tolist():
        alike = int(arrival[tenant]), int(traces.replicas[tenant])
        first = waiting.pop(alike, None)
        if first is None:
            waiting[alike] = tenant
        else:
            parent[tenant] = first
    return parent


class _Admission:
    """Admits tenants of a pool, in its order, whenever the density has fallen below the target."""

    def __init__(
        self,
        pool: TenantPool,
        rng: np.random.Generator,
        metric: int,
        targets: tuple[float, float],
        end: float,
        limit: Floats,
    ) -> None:
        self._batches = pool.batches(rng)
        self._limit, self._demand = limit, np.zeros_like(limit)
        self._metric, self._targets, self._end = metric, targets, end
        self._parts: list[TraceSet] = []
        self._stock: Iterator[tuple[float, int]] = iter(())
        self._active: dict[int, float] = {}
        self._departures: list[tuple[int, int]] = []
        self._lifetime: list[int] = []
        self.arrival: list[int] = []

    def fill(self, time: int) -> list[int]:
        """Admit tenants until the target is reached, and return their numbers."""
        admitted = []
        density, target = sum(self._active.values()), self._target(time)
        while density < target:
            number, (weight, life) = len(self._lifetime), self._next(density, time)
            self._lifetime.append(life)
            self._active[number] = weight
            density += weight
            admitted.append(number)
        return admitted

    def start(self, tenants: list[int], arrival: Ints) -> None:
        """Let tenants arrive at the given times."""
        for number, time in zip(tenants, arrival.tolist(), strict=True):
            self.arrival.append(time)
            heapq.heappush(self._departures, (time + self._lifetime[number], number))

    def run(self) -> None:
        """Replace those who depart before the end, and admit more as the target rises."""
        rises = iter(range(SECONDS_BETWEEN_RISES, math.ceil(self._end), SECONDS_BETWEEN_RISES))
        rise = next(rises, None) if self._targets[1] > self._targets[0] else None
        while True:
            departure = self._departures[0][0] if self._departures else math.inf
            time = int(min(departure, math.inf if rise is None else rise, math.ceil(self._end)))
            if time >= self._end:
                return
            if time == rise:
                rise = next(rises, None)
            while self._departures and self._departures[0][0] == time:
                del self._active[heapq.heappop(self._departures)[1]]
            admitted = self.fill(time)
            self.start(admitted, np.full(len(admitted), time))

    def _target(self, time: float) -> float:
        """Return the promised demand that is to be reached at `time`, in units of the density's metric."""
        first, last = self._targets
        return first + (last - first) * time / self._end

    def traces(self) -> TraceSet:
        """Return the traces of all who were admitted."""
        return concatenate(self._parts).select(np.arange(len(self._lifetime)))

    def _next(self, density: float, time: int) -> tuple[float, int]:
        found = next(self._stock, None)
        while found is None:
            batch = next(self._batches, None)
            if batch is None:
                raise DensityError(self._shortage(density, time))
            if not self.arrival and self._parts:  # still the initial fill
                self._check_demand(density)
            self._parts.append(batch)
            pairs = zip(promised(batch, self._metric).tolist(), lifetime_seconds(batch).tolist(), strict=True)
            self._stock = iter(pairs)
            found = next(self._stock, None)
        return found

    def _check_demand(self, density: float) -> None:
        """Raise `DensityError` if those who were admitted already need more than the cluster has."""
        self._demand += first_demand(self._parts[-1], self._parts[-1].tenants)
        if (self._demand >= self._limit).any():
            metric = int((self._demand >= self._limit).argmax())
            info = self._parts[-1].metrics[metric]
            raise DensityError(
                f"the tenant density cannot be reached: with {density / self._targets[0]:.2g} of it reached, the first "
                f"{len(self._lifetime)} tenants need {self._demand[metric]:.6g} {info.unit} of {info.name} at once, "
                f"and the whole cluster has {self._limit[metric]:.6g} below its violation threshold; use a lower "
                "workload.density or more nodes"
            )

    def _shortage(self, density: float, time: int) -> str:
        share = density / self._target(time)
        return (
            f"the tenant density cannot be reached: all {len(self._lifetime)} tenants of the workload are used up "
            f"after {time / 86400:.2f} days, with {share:.0%} of the density reached; use more traces, a lower "
            "workload.density, fewer nodes or fewer run.days"
        )


def _check_feasible(scenario: Scenario, traces: TraceSet, first: int) -> None:
    nodes = scenario.cluster.nodes
    most = int(traces.replicas.max())
    if most > nodes:
        name = traces.class_names()[int(traces.replicas.argmax())]
        raise DensityError(f"tenants of class {name} have {most} replicas, but the cluster only {nodes} nodes")
    demand, limits = first_demand(traces, first), _limit(scenario, traces.metrics)
    for metric, needed, limit in zip(traces.metrics, demand.tolist(), limits.tolist(), strict=True):
        if needed >= limit:
            raise DensityError(
                f"a tenant density of {scenario.workload.density:g} cannot be reached: the first {first} tenants "
                f"need {needed:.6g} {metric.unit} of {metric.name} at once, and the whole cluster has "
                f"{limit:.6g} below its violation threshold; use a lower workload.density or more nodes"
            )


def _limit(scenario: Scenario, metrics: Sequence[MetricInfo]) -> Floats:
    """Return the load at which the whole cluster is at its threshold, by metric; infinite without a capacity."""
    cluster = scenario.cluster
    names = [metric.name for metric in metrics]
    total = [cluster.total_capacity(name) if name in cluster.capacity else np.inf for name in names]
    return np.asarray(cluster.violation_threshold * np.array(total))


def first_demand(traces: TraceSet, tenants: int) -> npt.NDArray[Any]:
    """Return the demand of the first `tenants` tenants in their first step, all replicas together, shape (R,)."""
    index = traces.series_index[:tenants]
    total = np.zeros(len(traces.metrics))
    replicas = traces.replicas[:tenants].astype(np.int64)
    counts = {Role.PRIMARY: np.ones_like(replicas), Role.SECONDARY: replicas - 1, Role.INSTANCE: replicas}
    for role, count in counts.items():
        has = index[:, role] >= 0
        samples = traces.values[traces.series_start[index[has, role]]]
        total += (samples * count[has, None]).sum(axis=0)
    return total
