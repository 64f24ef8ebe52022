"""Admission of tenants from a pool, at the start and after each departure, until the tenant density is reached."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

import numpy as np

from cluster.errors import DensityError
from cluster.scenario.cluster_sections import ClusterSection
from cluster.simulation.recorded_arrivals import first_demand
from cluster.simulation.tenant_pools import TenantPool
from plb.array_types import Float, Int
from workloads.trace import MetricInfo, TraceSet, concatenate

SECONDS_BETWEEN_RISES = 3600
"""While the density rises, tenants are admitted at least this often."""


class TenantAdmission:
    """Admits tenants of a pool, in its order, whenever the density is below the target.

    Parameters
    ----------
    pool
        The tenants.
    rng
        Determines their order.
    metric
        Column of the metric that the density counts.
    targets
        Promised demand of all tenants in that metric, in its unit, at the start and at `end`.
    end
        End of the run, in seconds since the start.
    limit
        (R,) limit that the demand of the first tenants must stay below.
    """

    def __init__(
        self,
        pool: TenantPool,
        rng: np.random.Generator,
        metric: int,
        targets: tuple[float, float],
        end: float,
        limit: Float,
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

    def start(self, tenants: list[int], arrival: Int) -> None:
        """Set the arrival times of tenants."""
        for number, time in zip(tenants, arrival.tolist(), strict=True):
            self.arrival.append(time)
            heapq.heappush(self._departures, (time + self._lifetime[number], number))

    def run(self) -> None:
        """Replace tenants that depart before the end, and admit more as the target rises."""
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
        """Return the target of the promised demand at `time`, in units of the density's metric."""
        first, last = self._targets
        return first + (last - first) * time / self._end

    def traces(self) -> TraceSet:
        """Return the traces of all admitted tenants."""
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
            pairs = zip(promised(batch, self._metric).tolist(), batch.lifetime_seconds.tolist(), strict=True)
            self._stock = iter(pairs)
            found = next(self._stock, None)
        return found

    def _check_demand(self, density: float) -> None:
        """Raise `DensityError` if the admitted tenants already need more than the cluster has."""
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


def promised(traces: TraceSet, metric: int) -> Float:
    """Return MaxUsage times the number of replicas of every tenant, for one metric."""
    return traces.max_usage[:, metric].astype(np.float64) * traces.replicas


def limit_of(cluster: ClusterSection, metrics: Sequence[MetricInfo]) -> Float:
    """Return the load at which the whole cluster reaches its threshold, by metric; infinite without a capacity."""
    names = [metric.name for metric in metrics]
    total = [cluster.total_capacity(name) if name in cluster.capacity else np.inf for name in names]
    return np.asarray(cluster.violation_threshold * np.array(total))
