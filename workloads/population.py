"""The tenants of one block of a synthetic region: class, lifetime, size, and the shape of their demand.

One generator samples all numbers of a block in a fixed order, with arrays of one value for each tenant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int32
from workloads.region_parameters import CLASS_LIMITS, LOCAL, REMOTE, SERVERLESS, RegionParameters, Usage
from workloads.trace import HOUR_SECONDS, STEP_SECONDS, bounds_of, per_row, rows_of, step_of_row

STEPS_PER_HOUR = HOUR_SECONDS / STEP_SECONDS
"""Samples in an hour."""
SHORTEST_LIFE = 3
"""Least number of steps of a life. Free."""
RECLAIM_DEPTH, RECLAIM_DUTY = (0.3, 0.9), (0.1, 0.5)
"""Least and most share of memory that is given back, and of the period for which it is. Free."""
RECLAIM_PERIOD = 6.0, 30.0
"""Hours, at the least and at the most. Free."""
LATEST_RECLAIM = 0.5
"""Share of the lifetime after growth within which memory is first reclaimed. Free."""
DROP_DEPTH, DROP_AT = (0.15, 0.5), (0.2, 0.9)
"""Least and most share of disk demand that goes away for good, and of the lifetime that has passed then. Free; the
least is more than the 10 % that count as a drop ([1] section 3.1)."""
EARLY_GROWTH, LATE_GROWTH = 0.5, (0.8, 1.0)
"""Share of the lifetime that growth takes: of most tenants at the most, and of tenants that grow throughout. Free."""
LATE_BEND = 0.3
"""Largest `Shape.bend` of tenants that grow throughout, which are near their maximum late. Free."""


class Shape(NamedTuple):
    """The demand of a metric with trend: it grows from a share of the maximum, then creeps up to it; fields (T,)."""

    peak: Float
    """Maximum, in the metric's unit."""
    growth: Float
    """Duration of growth, steps."""
    initial: Float
    """Demand at creation, as a share of the peak."""
    bend: Float
    """0: straight growth; 1: half a parabola, fast at first."""
    creep: Float
    """Share of the peak that is still missing when growth ends."""
    noise: Float
    """Largest ordinary dip, as a share of the demand."""


class Population(NamedTuple):
    """The T tenants of a block. Fields are (T,)."""

    class_code: npt.NDArray[np.int16]
    """Index of `workloads.region_parameters.CLASSES`."""
    lifetime: Int32
    """Lifetime in steps."""
    censored: Bool
    """Whether the trace window cuts the lifetime."""
    cpu: Float
    """Median CPU, vCores."""
    phase: Float
    """Phase of the daily cycle at creation, radians."""
    daily: Float
    """Amplitude of the daily cycle, as a share of the CPU."""
    memory: Shape
    """Demand for memory."""
    disk: Shape
    """Demand for disk."""
    reclaim_depth: Float
    """Share of memory given back at times; 0 for most tenants."""
    reclaim_start: Float
    """Step of the first reclaim."""
    reclaim_period: Float
    """Steps between reclaims."""
    reclaim_duty: Float
    """Share of the period for which memory stays reclaimed."""
    drop_step: Float
    """Step at which disk demand falls for good; beyond the lifetime for most tenants."""
    drop_depth: Float
    """Share of disk demand that goes away then."""
    secondary_cpu: Float
    """CPU of a secondary, as a share of the primary's."""
    secondary_memory: Float
    """Memory of a secondary, as a share of the primary's."""


def draw_population(region: RegionParameters, count: int, rng: np.random.Generator) -> Population:
    """Draw `count` tenants of `region` from `rng`."""
    code, local, serverless = _classes(region, count, rng)
    lifetime, censored, longevity = _lifetimes(region, count, rng)
    share = _usage_shares(region, local, longevity, rng)
    peak = share * CLASS_LIMITS[code]
    memory = _shape(region, "memory", peak[:, 1], lifetime, rng)
    disk = _shape(region, "disk", peak[:, 2], lifetime, rng)
    reclaims = rng.random(count) < np.where(serverless, region.serverless_reclaim_share, region.memory_drop_share)
    drops = rng.random(count) < region.disk_drop_share
    return Population(
        class_code=code,
        lifetime=lifetime,
        censored=censored,
        cpu=peak[:, 0],
        phase=rng.uniform(0.0, 2.0 * np.pi, count),
        daily=rng.uniform(0.0, region.cpu_daily, count),
        memory=memory,
        disk=disk,
        reclaim_depth=np.where(reclaims, rng.uniform(*RECLAIM_DEPTH, count), 0.0),
        reclaim_start=memory.growth + rng.uniform(0.0, LATEST_RECLAIM, count) * lifetime,
        reclaim_period=rng.uniform(*RECLAIM_PERIOD, count) * STEPS_PER_HOUR,
        reclaim_duty=rng.uniform(*RECLAIM_DUTY, count),
        drop_step=np.where(drops, rng.uniform(*DROP_AT, count) * lifetime, np.inf),
        drop_depth=rng.uniform(*DROP_DEPTH, count),
        secondary_cpu=rng.uniform(region.secondary_cpu_low, region.secondary_cpu_high, count),
        secondary_memory=rng.uniform(region.secondary_memory_low, region.secondary_memory_high, count),
    )


def class_shares(region: RegionParameters) -> Float:
    """Return the probability of every class, in the order of `workloads.region_parameters.CLASSES`."""
    parts = []
    remote = 1.0 - region.local_share
    groups = (LOCAL, region.local_share), (REMOTE, remote * (1.0 - region.serverless_share))
    for group, share in (*groups, (SERVERLESS, remote * region.serverless_share)):
        weight = np.array([float(tenant_class.vcores) for tenant_class in group]) ** -region.size_bias
        parts.append(share * weight / weight.sum())
    return np.concatenate(parts)


def _classes(
    region: RegionParameters, count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int16], Bool, Bool]:
    """Draw the class of each tenant.

    Return indices in `CLASS_LIMITS`, whether storage is local, and whether the tenant is serverless, each (T,).
    """
    shares = class_shares(region)
    code = np.searchsorted(np.cumsum(shares), rng.random(count) * shares.sum(), side="right").astype(np.int16)
    np.minimum(code, len(shares) - 1, out=code)
    return code, code < len(LOCAL), code >= len(LOCAL) + len(REMOTE)


def _lifetimes(region: RegionParameters, count: int, rng: np.random.Generator) -> tuple[Int32, Bool, Float]:
    """Draw lifetimes.

    Return them in steps, whether the observation window cuts them, and the normal scores that they come from, each
    (T,).
    """
    score = rng.standard_normal(count)
    hours = region.lifetime_median_hours * np.exp(region.lifetime_sigma * score)
    steps = np.ceil(hours * STEPS_PER_HOUR)
    window = region.window_days * 24.0 * STEPS_PER_HOUR
    return np.clip(steps, SHORTEST_LIFE, window).astype(np.int32), steps > window, score


def _usage_shares(region: RegionParameters, local: Bool, longevity: Float, rng: np.random.Generator) -> Float:
    """Draw the usage of CPU, memory and disk as a share of the class's limit, (T, 3).

    `local`, (T,), is whether storage is local; `longevity`, (T,), the normal score of the lifetime.
    """
    common = _mix(longevity, rng.standard_normal(len(local)), region.lifetime_correlation)
    score = _mix(common[:, None], rng.standard_normal((len(local), 3)), region.size_correlation)
    disk = np.where(local, *(_logistic(score[:, 2], usage) for usage in (region.disk_local, region.disk_tempdb)))
    return np.column_stack([_logistic(score[:, 0], region.cpu), _logistic(score[:, 1], region.memory), disk])


def _mix(first: Float, second: Float, correlation: float) -> Float:
    """Return normal scores with a correlation to `first`, from independent scores `first` and `second`."""
    return np.asarray(correlation * first + np.sqrt(1.0 - correlation**2) * second)


def _logistic(score: Float, usage: Usage) -> Float:
    """Return the share of the limit that a tenant of a normal score uses (`Usage`)."""
    centre = np.log(usage.median / (1.0 - usage.median))
    return np.asarray(1.0 / (1.0 + np.exp(-(centre + usage.sigma * score))))


def _shape(region: RegionParameters, metric: str, peak: Float, lifetime: Int32, rng: np.random.Generator) -> Shape:
    """Draw the demand for "memory" or "disk" of tenants with a peak and a lifetime in steps, each (T,)."""
    count, is_disk = len(peak), metric == "disk"
    grower_share = region.disk_grower_share if is_disk else region.memory_grower_share
    within = region.growth_within * (region.disk_growth_ratio if is_disk else 1.0)
    median = region.growth_median(within, grower_share)
    grows = rng.random(count) < grower_share
    early = np.minimum(median * np.exp(region.growth_sigma * rng.standard_normal(count)), EARLY_GROWTH)
    growth = np.where(grows, rng.uniform(*LATE_GROWTH, count), early) * lifetime.astype(np.float64)
    return Shape(
        peak=peak,
        growth=growth,
        initial=rng.uniform(region.initial_low, region.initial_high, count),
        bend=rng.uniform(0.0, 1.0, count) * np.where(grows, LATE_BEND, 1.0),
        creep=rng.uniform(0.0, region.creep, count),
        noise=rng.uniform(0.0, region.disk_noise if is_disk else region.memory_noise, count),
    )


Index = npt.NDArray[np.intp]

STEPS_PER_DAY = 24.0 * STEPS_PER_HOUR
"""Samples in a day."""


class Layout:
    """The S series of a block and their N rows, one series after the other.

    `owner`, (S,), is the tenant of a series, `secondary`, (S,), whether it is of secondaries, and `lifetime`, (T,), of
    the tenants in steps. `length`, (S,), and `bounds`, (S + 1,), count rows; `step`, (N,), is the position of a row.
    """

    def __init__(self, owner: Index, secondary: Bool, lifetime: Int32) -> None:
        """Lay series one below the other, each of a tenant, `owner`, (S,), and `secondary` or not; `lifetime`: (T,)."""
        self.owner, self.secondary = owner, secondary
        self.length = lifetime[owner]
        self.bounds = bounds_of(self.length)
        self.step = step_of_row(self.bounds).astype(np.float32)

    def rows(self, per_tenant: npt.NDArray[Any]) -> Float32:
        """Return a value for each row, (N,), from a value for each tenant, (T,)."""
        return self.series_rows(per_tenant[self.owner])

    def series_rows(self, per_series: npt.NDArray[Any]) -> Float32:
        """Return a value for each row, (N,), from a value for each series, (S,)."""
        return np.repeat(per_series.astype(np.float32), self.length)


def demand_curves(region: RegionParameters, tenants: Population, layout: Layout, rng: np.random.Generator) -> Float32:
    """Return the demand for CPU, memory and disk in each row of `layout`, (N, 3), in the units of the metrics."""
    regime = _regimes(region, layout, rng)
    levels = int(regime[-1]) + 1
    out = np.empty((len(layout.step), 3), np.float32)
    out[:, 0] = _cpu(region, tenants, layout, regime, rng)
    factor = np.where(layout.secondary, tenants.secondary_memory[layout.owner], 1.0)
    out[:, 1] = _trend(tenants.memory, layout, factor) * _dips(tenants.memory, layout, regime, levels, rng)
    out[:, 2] = _trend(tenants.disk, layout, np.ones(len(layout.owner))) * _dips(
        tenants.disk, layout, regime, levels, rng
    )
    _reclaim_memory(tenants, layout, out)
    _drop_disk(tenants, layout, out)
    limits = CLASS_LIMITS[tenants.class_code[layout.owner]]
    np.minimum(out, np.repeat(limits, layout.length, axis=0), out=out)
    return out


def _regimes(region: RegionParameters, layout: Layout, rng: np.random.Generator) -> Int32:
    """Return the regime of each row, (N,), numbered from 0.

    A regime is a stretch of rows of one series with the same level; its length is geometric.
    """
    chance = 1.0 / (region.cpu_regime_hours * STEPS_PER_HOUR)
    jumps = rng.random(len(layout.step), dtype=np.float32) < chance
    jumps[layout.bounds[:-1]] = True
    regime = np.cumsum(jumps, dtype=np.int32)
    regime -= 1
    return regime


def _cpu(
    region: RegionParameters, tenants: Population, layout: Layout, regime: Int32, rng: np.random.Generator
) -> Float32:
    """Return the CPU of each row, (N,), in vCores; `regime`, (N,): number of the stretch of one level it is in."""
    level = rng.standard_normal(int(regime[-1]) + 1, dtype=np.float32) * np.float32(region.cpu_regime_sigma)
    log = rng.standard_normal(len(regime), dtype=np.float32)
    log *= np.float32(region.cpu_white_sigma)
    log += level[regime]
    curve = np.exp(log, out=log)
    angle = layout.step * np.float32(2.0 * np.pi / STEPS_PER_DAY)
    angle += layout.rows(tenants.phase)
    day = np.sin(angle, out=angle)
    day *= layout.rows(tenants.daily)
    day += np.float32(1.0)
    curve *= day
    factor = np.where(layout.secondary, tenants.secondary_cpu[layout.owner], 1.0)
    curve *= layout.series_rows(tenants.cpu[layout.owner] * factor)
    return curve


def _trend(shape: Shape, layout: Layout, factor: Float) -> Float32:
    """Return the demand of each row, (N,), without dips: growth from the initial demand, then creep to the peak.

    `factor`, (S,), scales each series. Samples are taken at the end of their interval.
    """
    owner = layout.owner
    peak = shape.peak[owner] * factor
    growth = np.maximum(shape.growth[owner], 1e-6)
    peak_share = 1.0 - shape.creep[owner]
    rise = np.maximum(peak_share - shape.initial[owner], 0.0)
    age = layout.step + np.float32(1.0)
    grown_share = np.minimum(age * layout.series_rows(1.0 / growth), np.float32(1.0))
    curve: Float32 = (np.float32(1.0) - grown_share) * layout.rows(shape.bend)
    curve += np.float32(1.0)
    curve *= grown_share
    curve *= layout.series_rows(rise * peak)
    curve += layout.series_rows((peak_share - rise) * peak)
    slope = shape.creep[owner] * peak / np.maximum(layout.length - growth, 1.0)
    age -= layout.series_rows(growth)
    np.maximum(age, np.float32(0.0), out=age)
    age *= layout.series_rows(slope)
    curve += age
    return curve


def _dips(shape: Shape, layout: Layout, regime: Int32, levels: int, rng: np.random.Generator) -> Float32:
    """Return a factor of at most 1 for each row, (N,): the same within a regime, mostly near 1.

    `regime`, (N,): number of the stretch of one level that each row is in; `levels`: how many stretches there are.
    """
    depth = rng.random(levels, dtype=np.float32)
    depth *= depth
    dips = depth[regime]
    dips *= layout.rows(-shape.noise)
    dips += np.float32(1.0)
    return dips


def _reclaim_memory(tenants: Population, layout: Layout, out: Float32) -> None:
    """Lower the memory in `out`, (N, 3), while it is reclaimed; the CPU is 0 then."""
    series = np.flatnonzero(tenants.reclaim_depth[layout.owner] > 0.0)
    rows, bounds = rows_of(series, layout.bounds)
    owner = per_row(layout.owner[series], bounds)
    period = tenants.reclaim_period[owner]
    since = layout.step[rows] - tenants.reclaim_start[owner]
    idle = (since >= 0.0) & (since % period < tenants.reclaim_duty[owner] * period)
    out[rows[idle], 1] *= (1.0 - tenants.reclaim_depth[owner[idle]]).astype(np.float32)
    out[rows[idle], 0] = 0.0


def _drop_disk(tenants: Population, layout: Layout, out: Float32) -> None:
    """Lower the disk demand in `out`, (N, 3), from the step on at which it falls for good."""
    series = np.flatnonzero(np.isfinite(tenants.drop_step[layout.owner]))
    rows, bounds = rows_of(series, layout.bounds)
    owner = per_row(layout.owner[series], bounds)
    late = layout.step[rows] >= tenants.drop_step[owner]
    out[rows[late], 2] *= (1.0 - tenants.drop_depth[owner[late]]).astype(np.float32)
