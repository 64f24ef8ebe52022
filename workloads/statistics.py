"""The statistics of the synthetic regions beside the published ones of [1]; for any trace set, `trace_statistics`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from plb.array_types import Float
from workloads.parameters import PUBLISHED_SHARE, RegionParameters
from workloads.regions import generate_chunks
from workloads.tenant_figures import GROWS_THROUGHOUT, KEPT, TraceStatistics, join_statistics, trace_statistics
from workloads.trace import HOUR_SECONDS

__all__ = ["StatisticRow", "TraceStatistics", "check_region", "join_statistics", "rank_correlation", "trace_statistics"]

TENANTS = 10_000
"""Tenants that [1] section 3.1 looked at."""
FASTEST, SLOWEST = 0.02, 0.05
"""Share of their lifetime within which over 90 % of tenants are grown, by region ([1] section 3.1)."""
MOST_DROPS = {"disk": 0.01, "memory": 0.07}
"""Share of tenants that drop after growth: less than this ([1] section 3.1)."""
SHAPE, TREND, AGE = "[1] 3.1", "[1] 5.3", "[1] 5.1"


@attrs.frozen
class StatisticRow:
    """A statistic of a region beside what is published about it.

    Parameters
    ----------
    statistic
        What is measured.
    published
        What is published, as text; empty where nothing is.
    source
        Where.
    generated
        What the region shows.
    within
        Whether it meets the published value; None where none is published in figures.
    """

    statistic: str
    published: str
    source: str
    generated: float
    within: bool | None


def check_region(parameters: RegionParameters, tenants: int = TENANTS, seed: int = 0) -> list[StatisticRow]:
    """Generate random tenants of a region and put their statistics beside the published ones.

    Parameters
    ----------
    parameters
        The region.
    tenants
        Number of tenants; [1] section 3.1 used 10,000.
    seed
        Seed of the tenants.

    Returns
    -------
    list
        One row a statistic. Rows whose `within` is None have nothing published in figures and show what the region is.
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
    late = {name: _high(found.trends[name].grown_at) for name in ("disk", "memory")}
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


def _high(values: Float) -> float:
    return float(np.quantile(values, PUBLISHED_SHARE))


def rank_correlation(one: Float, other: Float) -> float:
    """Return Spearman's rank correlation; ties take their order of appearance. Of fewer than two values: NaN."""
    if len(one) < 2:
        return float("nan")
    ranks = [np.argsort(np.argsort(values, kind="stable")).astype(np.float64) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
