"""Statistics of the tenants of a synthetic region beside the published values of [1]: growth, drops and bursts.

They use the primary series of the tenants in the trace window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Float32
from plb.model import Role
from workloads.compression import GROWN
from workloads.region_parameters import PUBLISHED_SHARE, RegionParameters
from workloads.regions import generate_chunks
from workloads.trace import (
    HOUR_SECONDS,
    Bounds,
    TraceSet,
    bounds_of,
    first_where,
    maximum,
    mean,
    minimum,
    per_row,
    rows_from,
)

KEPT = {"disk": 0.90, "memory": 0.80}
"""Level below which a grown tenant has dropped, as a share of its maximum ([1] section 3.1)."""
GROWS_THROUGHOUT = 0.5
"""A tenant that is grown only after this share of its life grows throughout it. Ours."""
TENANTS = 10_000
"""Number of tenants that are generated, as in [1] section 3.1."""
FASTEST, SLOWEST = 0.02, 0.05
"""Share of their lifetime within which over 90 % of tenants are grown, by region ([1] section 3.1)."""
MOST_DROPS = {"disk": 0.01, "memory": 0.07}
"""Share of tenants that drop after growth: less than this ([1] section 3.1)."""
SHAPE, TREND, AGE = "[1] 3.1", "[1] 5.3", "[1] 5.1"
"""Sources of the published statistics."""

Figures = dict[str, npt.NDArray[Any]]
"""Figures of T tenants by name, (T,) each; `_tenant_figures` names them."""


@attrs.frozen
class StatisticRow:
    """A statistic of a region beside what is published about it."""

    statistic: str
    """What is measured."""
    published: str
    """What is published, as text; empty where nothing is."""
    source: str
    """Section that publishes it, or "free"."""
    generated: float
    """Value of the generated tenants."""
    within: bool | None
    """Whether that agrees with the published value; None if no number is published."""


def check_region(parameters: RegionParameters, tenants: int = TENANTS, seed: int = 0) -> list[StatisticRow]:
    """Generate random tenants of a region and put their statistics beside the published values.

    Rows that compare serverless tenants with the others are left out if the region lacks either kind.
    """
    parts = [_tenant_figures(part) for part in generate_chunks(parameters, tenants, seed)]
    figures = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return [
        *_growth_rows(figures, parameters),
        *_drop_rows(figures),
        *_cpu_and_lifetime_rows(figures),
        *_other_rows(figures),
    ]


def _growth_rows(figures: Figures, region: RegionParameters) -> Iterator[StatisticRow]:
    """Yield the statistics of the growth of disk and memory."""
    within = region.growth_within
    for name in ("disk", "memory"):
        share = float(np.mean(figures[f"{name}_grown_at"] <= within))
        title = f"tenants at 95 % of their maximum {name} within {within:.1%} of their life"
        yield StatisticRow(title, "> 90 %", SHAPE, share, share > PUBLISHED_SHARE)
    life_share = {name: float(np.quantile(figures[f"{name}_grown_at"], PUBLISHED_SHARE)) for name in ("disk", "memory")}
    larger_share = max(life_share.values())
    title = "share of life within which 90 % of tenants are at 95 % of both maxima"
    yield StatisticRow(title, "2 %-5 %, by region", SHAPE, larger_share, FASTEST <= larger_share <= SLOWEST)
    ratio = life_share["memory"] / max(life_share["disk"], 1e-9)
    yield StatisticRow("that share for memory, as a multiple of disk's", "> 1, often much", TREND, ratio, ratio > 1.0)
    for name in ("disk", "memory"):
        grower_share = float(np.mean(figures[f"{name}_grown_at"] > GROWS_THROUGHOUT))
        title = f"tenants whose {name} grows throughout their life"
        yield StatisticRow(
            title, "a smaller fraction, < 10 %", SHAPE, grower_share, 0.0 < grower_share < 1.0 - PUBLISHED_SHARE
        )


def _drop_rows(figures: Figures) -> Iterator[StatisticRow]:
    """Yield the statistics of drops of disk and memory after growth."""
    for name, most in MOST_DROPS.items():
        share = float(np.mean(figures[f"{name}_dropped"]))
        title = f"tenants whose {name} drops below {KEPT[name]:.0%} of its maximum after growth"
        yield StatisticRow(title, f"< {most:.0%}", SHAPE, share, share < most)
    serverless = np.char.startswith(figures["tenant_class"], "GP_S")
    dropped = figures["memory_dropped"]
    if serverless.any() and not serverless.all():
        ratio = float(np.mean(dropped[serverless]) / max(float(np.mean(dropped[~serverless])), 1e-9))
        title = "memory drops of serverless tenants, as a multiple of the others'"
        yield StatisticRow(title, "> 1", SHAPE, ratio, ratio > 1.0)


def _cpu_and_lifetime_rows(figures: Figures) -> Iterator[StatisticRow]:
    """Yield the statistics of CPU over time, and of the correlation of lifetime with disk and memory."""
    varies = float(np.median(figures["cpu_variation"]))
    yield StatisticRow("CPU: median coefficient of variation over a life", "changes rapidly", TREND, varies, None)
    drift = float(np.median(figures["cpu_drift"]))
    title = "CPU: median of the second half of a life by the whole"
    yield StatisticRow(title, "about 1 (no long-term trend)", TREND, drift, abs(drift - 1.0) < 0.05)
    for name in ("disk", "memory"):
        likeness = rank_correlation(figures["lifetime"], figures[f"{name}_usage"])
        title = f"rank correlation of lifetime and peak {name} as a share of its limit"
        yield StatisticRow(title, "> 0", AGE, likeness, likeness > 0.0)


def _other_rows(figures: Figures) -> Iterator[StatisticRow]:
    """Yield statistics without a published value."""
    classes = figures["tenant_class"]
    shown: dict[str, float | np.floating] = {
        "tenants with local storage": np.mean(np.char.startswith(classes, "BC")),
        "serverless tenants": np.mean(np.char.startswith(classes, "GP_S")),
        "tenant classes that occur": len(np.unique(classes)),
        "lifetime, median hours": np.median(figures["lifetime"]) / HOUR_SECONDS,
        "lifetimes cut by the window": np.mean(figures["censored"]),
        "mean CPU as a share of its limit": np.mean(figures["cpu_usage"]),
        "peak memory as a share of its limit, mean": np.mean(figures["memory_usage"]),
        "peak disk as a share of its limit, mean": np.mean(figures["disk_usage"]),
    }
    for title, value in shown.items():
        yield StatisticRow(title, "", "free", float(value), None)


def _tenant_figures(traces: TraceSet) -> Figures:
    """Return lifetime (seconds), class and whether the window cut it, and ``<metric>_<figure>`` of each metric."""
    chosen = np.zeros(len(traces.series_tenant), np.bool_)
    chosen[traces.series_index[:, Role.PRIMARY]] = True
    rows = per_row(chosen, traces.series_start)
    bounds = bounds_of(np.diff(traces.series_start)[chosen])
    owner = traces.series_tenant[chosen]
    columns: Figures = {
        "lifetime": traces.lifetime_steps[owner].astype(np.float64) * traces.step_seconds,
        "censored": traces.censored[owner],
        "tenant_class": traces.class_names()[owner],
    }
    for column, metric in enumerate(traces.metrics):
        values, most = traces.values[rows, column], traces.max_usage[owner, column]
        if metric.trend:
            figures = _trend_figures(values, bounds, most, KEPT[metric.name])
        else:
            figures = _burst_figures(values, bounds, most)
        columns |= {f"{metric.name}_{name}": figure for name, figure in figures.items()}
    return columns


def _trend_figures(values: Float32, bounds: Bounds, most: Float32, kept: float) -> Figures:
    """Return figures of a metric with trend, (S,) each, from `values`, (N,), of S series.

    They are the share of the life until demand is grown (`GROWN`), whether it later falls below a share `kept` of its
    maximum, and the maximum by MaxUsage, `most`, (S,).
    """
    highest = maximum(values, bounds)
    grown = first_where(values >= per_row(np.float32(GROWN) * highest, bounds), bounds)
    later = np.where(rows_from(grown, bounds), values, np.float32(np.inf))
    dropped = minimum(later, bounds) < np.float32(kept) * highest
    return {"grown_at": grown / np.diff(bounds), "dropped": dropped, "usage": _ratio(highest, most)}


def _burst_figures(values: Float32, bounds: Bounds, most: Float32) -> Figures:
    """Return figures of a metric without trend, (S,) each, from its `values`, (N,).

    They are the coefficient of variation, the mean of the second half of the life by the mean of the whole, and the
    mean by MaxUsage, `most`, (S,).
    """
    average = mean(values, bounds)
    square = np.add.reduceat(values.astype(np.float64) ** 2, bounds[:-1]) / np.diff(bounds)
    half = (np.diff(bounds) // 2).astype(np.int64)
    late = rows_from(half, bounds)
    second = np.add.reduceat(np.where(late, values, 0), bounds[:-1], dtype=np.float64) / (np.diff(bounds) - half)
    deviation = np.sqrt(np.maximum(square - average**2, 0.0))
    return {"variation": _ratio(deviation, average), "drift": _ratio(second, average), "usage": _ratio(average, most)}


def _ratio(upper: npt.NDArray[np.floating], lower: npt.NDArray[np.floating]) -> Float:
    """Return `upper` / `lower` by element; 0 where `lower` is not positive."""
    ratio = np.zeros(len(upper))
    np.divide(upper, lower, out=ratio, where=lower > 0)
    return ratio


def rank_correlation(first: Float, second: Float) -> float:
    """Return Spearman's rank correlation of two samples of one length.

    Ties keep their order. Of fewer than two: NaN.
    """
    if len(first) < 2:
        return float("nan")
    ranks = [np.argsort(np.argsort(values, kind="stable")).astype(np.float64) for values in (first, second)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
