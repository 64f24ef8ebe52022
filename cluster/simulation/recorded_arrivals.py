"""Tenants that arrive and depart at their recorded times, seen through a window of the recorded time.

The window is the time of the run, from `RecordedPool.begin` on. Tenants that live at its begin are there from the
start, at the age that they have then; the others arrive when they began. Tenants that ended before it, or began after
it, are not in the run.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from cluster.errors import DensityError, refusal
from cluster.scenario.scenario import Scenario
from plb.array_types import Float, Int
from plb.model import Role
from workloads.trace import DAY_SECONDS, HOUR_SECONDS, MetricInfo, TraceSet


def summed_demand(traces: TraceSet, tenants: Int, steps: Int) -> Float:
    """Return the demand of all replicas of tenants, summed, (R,).

    `tenants`: (m,) rows of `traces`; `steps`: (m,) the step of each tenant, counted from its creation.
    """
    demand = np.zeros(len(traces.metrics))
    for role, count in enumerate(replicas_of_roles(traces)[:, tenants]):
        series = traces.series_index[tenants, role]
        has_role = series >= 0
        samples = traces.series_start[series[has_role]] + steps[has_role]
        demand += (traces.values[samples] * count[has_role, None]).sum(axis=0)
    return demand


def replicas_of_roles(traces: TraceSet) -> Int:
    """Return how many replicas have the series of a role, by role and tenant, (3, T)."""
    replicas = traces.replicas.astype(np.int64)
    counts = {Role.PRIMARY: np.ones_like(replicas), Role.SECONDARY: replicas - 1, Role.INSTANCE: replicas}
    return np.array([counts[role] for role in Role])


def first_demand(traces: TraceSet, tenants: int) -> Float:
    """Return the demand of the first `tenants` tenants in their first step, summed over all replicas, (R,)."""
    return summed_demand(traces, np.arange(tenants), np.zeros(tenants, np.int64))


def mean_demand(traces: TraceSet, begin: float, seconds: float, metric: int) -> Float:
    """Return the mean demand of each tenant for a metric within a time, summed over its replicas, (T,).

    The time begins `begin` seconds after the origin of the traces and lasts `seconds`; `metric`: its index. Samples
    count that begin within the time; without any, the demand is 0.
    """
    assert traces.start is not None
    cumulative = np.concatenate([[0.0], np.cumsum(traces.values[:, metric], dtype=np.float64)])
    tenant_of_series, series_start = traces.series_tenant, traces.series_start[:-1]
    ends = [begin, begin + seconds]
    steps = [np.ceil((end - traces.start) / traces.step_seconds).astype(np.int64) for end in ends]
    first_sample, last_sample = (
        series_start + np.clip(step, 0, traces.lifetime_steps)[tenant_of_series] for step in steps
    )
    replica_count = replicas_of_roles(traces)[traces.series_role, tenant_of_series]
    demand = np.zeros(traces.tenants)
    np.add.at(demand, tenant_of_series, (cumulative[last_sample] - cumulative[first_sample]) * replica_count)
    return demand * (traces.step_seconds / seconds)


ROUNDING = 1e-3
"""Seconds by which a run may end after the recorded time, because times in hours and days are rounded."""


@attrs.frozen(eq=False)
class RecordedPool:
    """Tenants with recorded times."""

    traces: TraceSet
    """The tenants to simulate; their starts are known."""
    begin: float
    """Begin of the run, in seconds since the origin of the traces."""
    end: float
    """When the last tenant of all traces ends, in seconds since the origin of the traces."""


def recorded_span(traces: TraceSet) -> tuple[float, float]:
    """Return when the first tenant began and when the last one ended, in seconds since the origin of the traces."""
    if traces.start is None:
        message = "the traces do not say when tenants began: tenants.parquet needs a column start_s"
        raise refusal("scenario", "workload.arrivals", message)
    return float(traces.start.min()), float((traces.start + traces.lifetime_seconds).max())


def tenants_in_window(scenario: Scenario, pool: RecordedPool) -> tuple[TraceSet, Int]:
    """Return the tenants of a run by creation, and when each was created, (T,), in seconds since the start."""
    _check_window(scenario, pool)
    assert pool.traces.start is not None
    created = np.rint(pool.traces.start - pool.begin).astype(np.int64)
    lives_in_run = (created < round(scenario.run.days * DAY_SECONDS)) & (created + pool.traces.lifetime_seconds > 0)
    if not lives_in_run.any():
        message = f"none of the {pool.traces.tenants:,} simulated tenants lives in the {scenario.run.days:g} days"
        raise refusal(scenario.name, "workload.from_hours", f"{message} from this hour on")
    rows = np.flatnonzero(lives_in_run)
    rows = rows[np.argsort(created[rows], kind="stable")]
    return pool.traces.select(rows), created[rows]


def _check_window(scenario: Scenario, pool: RecordedPool) -> None:
    """Raise an error if the recorded time ends before the run does."""
    seconds_left = pool.end - pool.begin
    if seconds_left <= 0.0:
        span = scenario.workload.from_hours + seconds_left / HOUR_SECONDS
        message = f"{scenario.workload.from_hours:g} is not allowed; the traces cover {span:g} hours"
        raise refusal(scenario.name, "workload.from_hours", message)
    if DAY_SECONDS * scenario.run.days > seconds_left + ROUNDING:
        message = (
            f"{scenario.run.days:g} is not allowed; from hour {scenario.workload.from_hours:g} on, the traces cover "
            f"{seconds_left / DAY_SECONDS:.6g} days: use fewer days, or a lower workload.from_hours"
        )
        raise refusal(scenario.name, "run.days", message)


def check_start(scenario: Scenario, traces: TraceSet, created: Int, limit: Float) -> None:
    """Raise `DensityError` if the tenants at the start are too many for the cluster.

    `created`: (T,) seconds since the start; `limit`: (R,) total load at which the cluster is full.
    """
    rows = np.flatnonzero(created <= 0)
    steps = np.clip((-1 - created[rows]) // int(traces.step_seconds), 0, traces.lifetime_steps[rows] - 1)
    why = f"{scenario.name}: the {len(rows):,} tenants at the start need"
    remedy = "more nodes, or a lower workload.simulated_share or workload.utilisation"
    check_demand(why, traces.metrics, summed_demand(traces, rows, steps), limit, remedy)


def check_demand(why: str, metrics: Sequence[MetricInfo], demand: Float, limit: Float, remedy: str) -> None:
    """Raise `DensityError` if `demand`, (R,), reaches the load at which the cluster is full, `limit`, (R,).

    The message begins with `why`, and ends with `remedy`.
    """
    for metric, needed, most in zip(metrics, demand.tolist(), limit.tolist(), strict=True):
        if needed >= most:
            raise DensityError(
                f"{why} {needed:.6g} {metric.unit} of {metric.name} at once, and the whole cluster has {most:.6g} "
                f"below its violation threshold; use {remedy}"
            )
