"""Demand curves of tenants: all samples of a block of series at once.

Rows are samples; the columns of the result are those of `workloads.classes.METRICS`. Everything per row is float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int32
from workloads.classes import CLASS_LIMITS
from workloads.population import STEPS_PER_HOUR, Population, Shape
from workloads.ragged_arrays import bounds_of, per_row, rows_of, step_of_row
from workloads.region_parameters import RegionParameters

Index = npt.NDArray[np.intp]

STEPS_PER_DAY = 24.0 * STEPS_PER_HOUR


class Layout:
    """Which series there are in a block, and where their rows lie.

    Parameters
    ----------
    owner
        Tenant of each series, within the block.
    secondary
        Whether the series is that of the secondaries.
    lifetime
        Lifetime of the tenants, steps.
    """

    def __init__(self, owner: Index, secondary: Bool, lifetime: Int32) -> None:
        self.owner, self.secondary = owner, secondary
        self.length = lifetime[owner]
        self.bounds = bounds_of(self.length)
        self.step = step_of_row(self.bounds).astype(np.float32)

    def rows(self, per_tenant: npt.NDArray[Any]) -> Float32:
        """Return a float32 value a row from a value a tenant."""
        return self.series_rows(per_tenant[self.owner])

    def series_rows(self, per_series: npt.NDArray[Any]) -> Float32:
        """Return a float32 value a row from a value a series."""
        return np.repeat(per_series.astype(np.float32), self.length)


def demand_curves(region: RegionParameters, tenants: Population, layout: Layout, rng: np.random.Generator) -> Float32:
    """Return the samples of the series in `layout`, shape (N, 3)."""
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
    """Return the number of each row's regime: a stretch of geometric length with one level; none spans two series."""
    chance = 1.0 / (region.cpu_regime_hours * STEPS_PER_HOUR)
    jumps = rng.random(len(layout.step), dtype=np.float32) < chance
    jumps[layout.bounds[:-1]] = True
    regime = np.cumsum(jumps, dtype=np.int32)
    regime -= 1
    return regime


def _cpu(
    region: RegionParameters, tenants: Population, layout: Layout, regime: Int32, rng: np.random.Generator
) -> Float32:
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
    """Return growth from the initial demand, then creep to the peak.

    Sample k is taken at the end of the k-th metering interval, so a growth shorter than one step shows only its end.
    """
    owner = layout.owner
    peak = shape.peak[owner] * factor
    growth = np.maximum(shape.growth[owner], 1e-6)
    grown = 1.0 - shape.creep[owner]
    rise = np.maximum(grown - shape.initial[owner], 0.0)
    age = layout.step + np.float32(1.0)
    share = np.minimum(age * layout.series_rows(1.0 / growth), np.float32(1.0))
    curve: Float32 = (np.float32(1.0) - share) * layout.rows(shape.bend)
    curve += np.float32(1.0)
    curve *= share
    curve *= layout.series_rows(rise * peak)
    curve += layout.series_rows((grown - rise) * peak)
    slope = shape.creep[owner] * peak / np.maximum(layout.length - growth, 1.0)
    age -= layout.series_rows(growth)
    np.maximum(age, np.float32(0.0), out=age)
    age *= layout.series_rows(slope)
    curve += age
    return curve


def _dips(shape: Shape, layout: Layout, regime: Int32, levels: int, rng: np.random.Generator) -> Float32:
    """Return a factor of at most 1 for each row: one level a regime, mostly near 1."""
    depth = rng.random(levels, dtype=np.float32)
    depth *= depth
    dips = depth[regime]
    dips *= layout.rows(-shape.noise)
    dips += np.float32(1.0)
    return dips


def _reclaim_memory(tenants: Population, layout: Layout, out: Float32) -> None:
    """Take memory back at times; the CPU idles then."""
    series = np.flatnonzero(tenants.reclaim_depth[layout.owner] > 0.0)
    rows, bounds = rows_of(series, layout.bounds)
    owner = per_row(layout.owner[series], bounds)
    period = tenants.reclaim_period[owner]
    since = layout.step[rows] - tenants.reclaim_start[owner]
    idle = (since >= 0.0) & (since % period < tenants.reclaim_duty[owner] * period)
    out[rows[idle], 1] *= (1.0 - tenants.reclaim_depth[owner[idle]]).astype(np.float32)
    out[rows[idle], 0] = 0.0


def _drop_disk(tenants: Population, layout: Layout, out: Float32) -> None:
    """Let disk demand fall for good."""
    series = np.flatnonzero(np.isfinite(tenants.drop_step[layout.owner]))
    rows, bounds = rows_of(series, layout.bounds)
    owner = per_row(layout.owner[series], bounds)
    late = layout.step[rows] >= tenants.drop_step[owner]
    out[rows[late], 2] *= (1.0 - tenants.drop_depth[owner[late]]).astype(np.float32)
