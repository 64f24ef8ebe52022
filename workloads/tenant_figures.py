"""Statistics of demand traces by tenant: growth, drops and bursts.

`workloads.statistics` compares them with the published ones. They use the primary series of the tenants in
the trace window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int
from plb.model import Role
from workloads.compression import GROWN
from workloads.segments import bounds_of, first_where, maximum, mean, minimum, rows_from, spread
from workloads.trace import TraceSet

KEPT = {"disk": 0.90, "memory": 0.80}
"""Level below which a grown tenant has dropped, as a share of its maximum ([1] section 3.1)."""
KEPT_OF_OTHERS = 0.80
"""Level for metrics that [1] does not have. Ours."""
GROWS_THROUGHOUT = 0.5
"""A tenant that is grown only after this share of its life grows throughout it. Ours."""


@attrs.frozen(eq=False)
class TrendFigures:
    """What became of each tenant's demand for one metric with trend; T tenants.

    Parameters
    ----------
    grown_at
        Share of the lifetime that had passed when demand first reached 95 % of its maximum, shape (T,).
    dropped
        Whether demand ever fell below the `KEPT` share of its maximum after that, shape (T,).
    usage
        Maximum as a share of MaxUsage, shape (T,).
    """

    grown_at: Float
    dropped: Bool
    usage: Float


@attrs.frozen(eq=False)
class BurstFigures:
    """How each tenant's demand for one metric without trend behaves; T tenants.

    Parameters
    ----------
    variation
        Coefficient of variation (standard deviation by mean) over the life, shape (T,).
    drift
        Mean of the second half of the life by the mean of all of it, shape (T,); about 1 without trend.
    usage
        Mean as a share of MaxUsage, shape (T,).
    """

    variation: Float
    drift: Float
    usage: Float


Figures = TypeVar("Figures", TrendFigures, BurstFigures)


@attrs.frozen(eq=False)
class TraceStatistics:
    """Figures of a trace set by tenant; the properties of a region are means and percentiles over them.

    Parameters
    ----------
    trends, bursts
        By metric.
    lifetime
        Seconds, shape (T,).
    censored
        Shape (T,).
    tenant_class
        Class names, shape (T,).
    """

    trends: Mapping[str, TrendFigures]
    bursts: Mapping[str, BurstFigures]
    lifetime: Float
    censored: Bool
    tenant_class: npt.NDArray[np.str_]

    @property
    def tenants(self) -> int:
        """Number of tenants."""
        return len(self.lifetime)


def trace_statistics(traces: TraceSet) -> TraceStatistics:
    """Return the figures of every tenant's primary series (or only instance's)."""
    series = np.where(
        traces.series_index[:, Role.PRIMARY] >= 0,
        traces.series_index[:, Role.PRIMARY],
        traces.series_index[:, Role.INSTANCE],
    )
    chosen = np.zeros(len(traces.series_tenant), np.bool_)
    chosen[series] = True
    rows = spread(chosen, traces.series_start)
    bounds = bounds_of(np.diff(traces.series_start)[chosen])
    trends, bursts = {}, {}
    owner = traces.series_tenant[chosen]
    for column, metric in enumerate(traces.metrics):
        values, most = traces.values[rows, column], traces.max_usage[owner, column]
        if metric.trend:
            trends[metric.name] = _trend_figures(values, bounds, most, KEPT.get(metric.name, KEPT_OF_OTHERS))
        else:
            bursts[metric.name] = _burst_figures(values, bounds, most)
    life = traces.lifetime_steps[owner].astype(np.float64) * traces.step_seconds
    return TraceStatistics(trends, bursts, life, traces.censored[owner], traces.class_names()[owner])


def _trend_figures(values: Float32, bounds: Int, most: Float32, kept: float) -> TrendFigures:
    highest = maximum(values, bounds)
    grown = first_where(values >= spread(np.float32(GROWN) * highest, bounds), bounds)
    later = np.where(rows_from(grown, bounds), values, np.float32(np.inf))
    dropped = minimum(later, bounds) < np.float32(kept) * highest
    return TrendFigures(grown / np.diff(bounds), dropped, _ratio(highest, most))


def _burst_figures(values: Float32, bounds: Int, most: Float32) -> BurstFigures:
    average = mean(values, bounds)
    square = np.add.reduceat(values.astype(np.float64) ** 2, bounds[:-1]) / np.diff(bounds)
    half = (np.diff(bounds) // 2).astype(np.int64)
    late = rows_from(half, bounds)
    second = np.add.reduceat(np.where(late, values, 0), bounds[:-1], dtype=np.float64) / (np.diff(bounds) - half)
    deviation = np.sqrt(np.maximum(square - average**2, 0.0))
    return BurstFigures(_ratio(deviation, average), _ratio(second, average), _ratio(average, most))


def _ratio(upper: npt.NDArray[np.floating], lower: npt.NDArray[np.floating]) -> Float:
    out = np.zeros(len(upper))
    np.divide(upper, lower, out=out, where=lower > 0)
    return out


def join_statistics(parts: Iterable[TraceStatistics]) -> TraceStatistics:
    """Return the figures of all parts, which must have the same metrics."""
    every = list(parts)
    return TraceStatistics(
        {name: _join([part.trends[name] for part in every]) for name in every[0].trends},
        {name: _join([part.bursts[name] for part in every]) for name in every[0].bursts},
        np.concatenate([part.lifetime for part in every]),
        np.concatenate([part.censored for part in every]),
        np.concatenate([part.tenant_class for part in every]),
    )


def _join(parts: list[Figures]) -> Figures:
    kind = type(parts[0])
    return kind(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in attrs.fields(kind)))
