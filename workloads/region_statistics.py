"""Statistics of demand traces by tenant: growth, drops and bursts, and those of the synthetic regions beside [1]'s.

They use the primary series of the tenants in the trace window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int
from plb.model import Role
from workloads.compression import GROWN
from workloads.region_parameters import PUBLISHED_SHARE, RegionParameters
from workloads.regions import generate_chunks
from workloads.trace import HOUR_SECONDS, TraceSet, bounds_of, first_where, maximum, mean, minimum, per_row, rows_from

KEPT = {"disk": 0.90, "memory": 0.80}
"""Level below which a grown tenant has dropped, as a share of its maximum ([1] section 3.1)."""
KEPT_OF_OTHERS = 0.80
"""Level for metrics that [1] does not have. Ours."""
GROWS_THROUGHOUT = 0.5
"""A tenant that is grown only after this share of its life grows throughout it. Ours."""
TENANTS = 10_000
"""Number of tenants in [1] section 3.1."""
FASTEST, SLOWEST = 0.02, 0.05
"""Share of their lifetime within which over 90 % of tenants are grown, by region ([1] section 3.1)."""
MOST_DROPS = {"disk": 0.01, "memory": 0.07}
"""Share of tenants that drop after growth: less than this ([1] section 3.1)."""
SHAPE, TREND, AGE = "[1] 3.1", "[1] 5.3", "[1] 5.1"


@attrs.frozen(eq=False)
class TrendFigures:
    """The demand of each tenant for one metric with trend; T tenants."""

    grown_at: Float
    """Share of the lifetime that had passed when demand first reached 95 % of its maximum, shape (T,)."""
    dropped: Bool
    """Whether demand ever fell below the `KEPT` share of its maximum after that, shape (T,)."""
    usage: Float
    """Maximum as a share of MaxUsage, shape (T,)."""


@attrs.frozen(eq=False)
class BurstFigures:
    """The demand of each tenant for one metric without trend; T tenants."""

    variation: Float
    """Coefficient of variation (standard deviation by mean) over the life, shape (T,)."""
    drift: Float
    """Mean of the second half of the life by the mean of all of it, shape (T,); about 1 without trend."""
    usage: Float
    """Mean as a share of MaxUsage, shape (T,)."""


Figures = TypeVar("Figures", TrendFigures, BurstFigures)


@attrs.frozen(eq=False)
class TraceStatistics:
    """Figures of a trace set by tenant; the properties of a region are means and percentiles over them."""

    trends: Mapping[str, TrendFigures]
    bursts: Mapping[str, BurstFigures]
    """By metric."""
    lifetime: Float
    """Seconds, shape (T,)."""
    censored: Bool
    """Shape (T,)."""
    tenant_class: npt.NDArray[np.str_]
    """Class names, shape (T,)."""


def trace_statistics(traces: TraceSet) -> TraceStatistics:
    """Return the figures of every tenant's primary series (or only instance's)."""
    series = np.where(
        traces.series_index[:, Role.PRIMARY] >= 0,
        traces.series_index[:, Role.PRIMARY],
        traces.series_index[:, Role.INSTANCE],
    )
    chosen = np.zeros(len(traces.series_tenant), np.bool_)
    chosen[series] = True
    rows = per_row(chosen, traces.series_start)
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
    grown = first_where(values >= per_row(np.float32(GROWN) * highest, bounds), bounds)
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


@attrs.frozen
class StatisticRow:
    """A statistic of a region beside what is published about it."""

    statistic: str
    """What is measured."""
    published: str
    """What is published, as text; empty where nothing is."""
    source: str
    """Where."""
    generated: float
    """What the region shows."""
    within: bool | None
    """Whether it meets the published value; None where none is published in figures."""


def check_region(parameters: RegionParameters, tenants: int = TENANTS, seed: int = 0) -> list[StatisticRow]:
    """Generate random tenants of a region and put their statistics beside the published ones.

    Without serverless tenants, or others, there is no row that compares them.
    """
    found = join_statistics(trace_statistics(part) for part in generate_chunks(parameters, tenants, seed))
    return [*_growth_rows(found, parameters), *_drop_rows(found), *_cpu_rows(found), *_other_rows(found)]


def _growth_rows(found: TraceStatistics, region: RegionParameters) -> Iterator[StatisticRow]:
    within = region.growth_within
    for name in ("disk", "memory"):
        share = float(np.mean(found.trends[name].grown_at <= within))
        title = f"tenants at 95 % of their maximum {name} within {within:.1%} of their life"
        yield StatisticRow(title, "> 90 %", SHAPE, share, share > PUBLISHED_SHARE)
    late = {name: float(np.quantile(found.trends[name].grown_at, PUBLISHED_SHARE)) for name in ("disk", "memory")}
    slower = max(late.values())
    title = "share of life within which 90 % of tenants are at 95 % of both maxima"
    yield StatisticRow(title, "2 %-5 %, by region", SHAPE, slower, FASTEST <= slower <= SLOWEST)
    ratio = late["memory"] / max(late["disk"], 1e-9)
    yield StatisticRow("that share for memory, as a multiple of disk's", "> 1, often much", TREND, ratio, ratio > 1.0)
    for name in ("disk", "memory"):
        grows = float(np.mean(found.trends[name].grown_at > GROWS_THROUGHOUT))
        title = f"tenants whose {name} grows throughout their life"
        yield StatisticRow(title, "a smaller fraction, < 10 %", SHAPE, grows, 0.0 < grows < 1.0 - PUBLISHED_SHARE)


def _drop_rows(found: TraceStatistics) -> Iterator[StatisticRow]:
    for name, most in MOST_DROPS.items():
        share = float(np.mean(found.trends[name].dropped))
        title = f"tenants whose {name} drops below {KEPT[name]:.0%} of its maximum after growth"
        yield StatisticRow(title, f"< {most:.0%}", SHAPE, share, share < most)
    serverless = np.char.startswith(found.tenant_class, "GP_S")
    dropped = found.trends["memory"].dropped
    if serverless.any() and not serverless.all():
        ratio = float(np.mean(dropped[serverless]) / max(float(np.mean(dropped[~serverless])), 1e-9))
        title = "memory drops of serverless tenants, as a multiple of the others'"
        yield StatisticRow(title, "> 1", SHAPE, ratio, ratio > 1.0)


def _cpu_rows(found: TraceStatistics) -> Iterator[StatisticRow]:
    cpu = found.bursts["cpu"]
    varies = float(np.median(cpu.variation))
    yield StatisticRow("CPU: median coefficient of variation over a life", "changes rapidly", TREND, varies, None)
    drift = float(np.median(cpu.drift))
    title = "CPU: median of the second half of a life by the whole"
    yield StatisticRow(title, "about 1 (no long-term trend)", TREND, drift, abs(drift - 1.0) < 0.05)
    for name in ("disk", "memory"):
        likeness = rank_correlation(found.lifetime, found.trends[name].usage)
        title = f"rank correlation of lifetime and peak {name} as a share of its limit"
        yield StatisticRow(title, "> 0", AGE, likeness, likeness > 0.0)


def _other_rows(found: TraceStatistics) -> Iterator[StatisticRow]:
    classes = found.tenant_class
    figures: dict[str, float | np.floating] = {
        "tenants with local storage": np.mean(np.char.startswith(classes, "BC")),
        "serverless tenants": np.mean(np.char.startswith(classes, "GP_S")),
        "tenant classes that occur": len(np.unique(classes)),
        "lifetime, median hours": np.median(found.lifetime) / HOUR_SECONDS,
        "lifetimes cut by the window": np.mean(found.censored),
        "mean CPU as a share of its limit": np.mean(found.bursts["cpu"].usage),
        "peak memory as a share of its limit, mean": np.mean(found.trends["memory"].usage),
        "peak disk as a share of its limit, mean": np.mean(found.trends["disk"].usage),
    }
    for title, value in figures.items():
        yield StatisticRow(title, "", "free", float(value), None)


def rank_correlation(one: Float, other: Float) -> float:
    """Return Spearman's rank correlation; ties take their order of appearance. Of fewer than two values: NaN."""
    if len(one) < 2:
        return float("nan")
    ranks = [np.argsort(np.argsort(values, kind="stable")).astype(np.float64) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
