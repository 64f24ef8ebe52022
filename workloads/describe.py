"""What a trace is like: span, gaps, lifetimes, usage against request, growth and daily shape.

The trace is checked and scanned as a stream; what is held in memory grows with the number of series, not of samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from workloads.compression import GROWN
from workloads.format import TRACES_FILE, check_traces
from workloads.header import Header
from workloads.trace import MetricInfo

HOURS = 24
TENTHS = 10
HOUR, DAY = 3600.0, 86_400.0
LIVES = (10, 50, 90)
"""Percentiles of lifetimes that are reported."""
GROWS = 0.1
"""A series grows if it ends higher than it began by more than this share of its maximum."""

Floats = npt.NDArray[np.float64]


@attrs.frozen(eq=False, kw_only=True)
class MetricFigures:
    """What one metric is like; series whose MaxUsage is 0 have no share of it and are left out of the shares.

    Parameters
    ----------
    metric
        Name, unit and trend.
    mean, highest
        Mean and maximum of all samples, in the metric's unit.
    used
        Mean usage by mean MaxUsage, over all samples.
    mean_shares, peak_shares
        Mean and maximum usage of each series by its MaxUsage.
    growing
        Share of the series that grow (`GROWS`).
    rise
        Median over the series of last less first sample, by the series' maximum.
    growth_hours
        Median time until a series is at 95 % of its maximum, hours ([1] section 3.1).
    daily
        Mean usage by hour of the day by mean usage, 24 values; NaN where there is no sample.
    life
        Mean usage by MaxUsage in each tenth of a tenant's life, 10 values; NaN where there is no sample.
    """

    metric: MetricInfo
    mean: float
    highest: float
    used: float
    mean_shares: Floats
    peak_shares: Floats
    growing: float
    rise: float
    growth_hours: float
    daily: Floats
    life: Floats


@attrs.frozen(eq=False, kw_only=True)
class Description:
    """What a trace is like.

    Parameters
    ----------
    provenance
        What the trace says about where it comes from.
    step_seconds
        Sampling interval, seconds.
    rows, series
        Samples, each of all metrics, and series.
    tenant_class
        Class of each tenant, shape (T,).
    families
        Families of tenants.
    replicas
        Replicas of all tenants.
    lifetime_hours
        Lifetimes, shape (T,), hours.
    censored
        Which of them the trace cut, shape (T,).
    start_hours
        When each tenant began, shape (T,), hours since the origin; None where the trace does not say.
    metrics
        What each metric is like.
    """

    provenance: Mapping[str, Any]
    step_seconds: float
    rows: int
    series: int
    tenant_class: npt.NDArray[np.str_]
    families: int
    replicas: int
    lifetime_hours: Floats
    censored: npt.NDArray[np.bool_]
    start_hours: Floats | None
    metrics: tuple[MetricFigures, ...]

    @property
    def span_days(self) -> float:
        """Days from the first tenant's begin to the last one's end; the longest life where begins are not known."""
        start = np.zeros(len(self.lifetime_hours)) if self.start_hours is None else self.start_hours
        return float((start + self.lifetime_hours).max() - start.min()) / HOURS

    def figures(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        lives = np.percentile(self.lifetime_hours, LIVES)
        counts = self.provenance.get("counts", {})
        return {
            "tenants": len(self.lifetime_hours),
            "classes": len(set(self.tenant_class.tolist())),
            "families": self.families,
            "replicas": self.replicas,
            "series": self.series,
            "rows": self.rows,
            "step_seconds": self.step_seconds,
            "span_days": self.span_days,
            "tenant_days": float(self.lifetime_hours.sum()) / HOURS,
            "gaps": {name: counts[name] for name in ("gaps_filled", "steps_filled", "gaps_cut") if name in counts},
            "lifetime_hours": {
                "mean": float(self.lifetime_hours.mean()),
                **{f"p{level}": float(value) for level, value in zip(LIVES, lives, strict=True)},
                "longest": float(self.lifetime_hours.max()),
            },
            "censored": float(self.censored.mean()),
            "request": self.provenance.get("request"),
            "metrics": {figures.metric.name: _plain(figures) for figures in self.metrics},
        }


def describe(path: str | Path) -> Description:
    """Return what a trace in the project's own format is like.

    Parameters
    ----------
    path
        Its directory.

    Raises
    ------
    TraceError
        As with `workloads.format.read_traces`: a file is missing or breaks a rule of the format.
    """
    header, tenants = check_traces(path)
    samples = _samples(pl.scan_parquet(Path(path, TRACES_FILE), glob=False), tenants, header)
    series = _series(samples, header)
    names = [metric.name for metric in header.metrics]
    ages = [pl.col(f"share_{name}").mean() for name in names]
    days = samples.group_by("hour").agg(pl.col(names).mean()).collect(engine="streaming")
    lives = samples.group_by("tenth").agg(ages).collect(engine="streaming")
    return Description(
        provenance=header.provenance,
        step_seconds=header.step_seconds,
        rows=int(series["rows"].sum()),
        series=len(series),
        tenant_class=tenants["tenant_class"].cast(pl.String).to_numpy().astype(np.str_),
        families=(tenants["family"] if "family" in tenants.columns else tenants["tenant"]).n_unique(),
        replicas=int(tenants["replicas"].sum()),
        lifetime_hours=tenants["lifetime_s"].cast(pl.Float64).to_numpy() / HOUR,
        censored=tenants["censored"].to_numpy(),
        start_hours=tenants["start_s"].cast(pl.Float64).to_numpy() / HOUR if "start_s" in tenants.columns else None,
        metrics=tuple(_metric(metric, series, days, lives) for metric in header.metrics),
    )


def _samples(samples: pl.LazyFrame, tenants: pl.DataFrame, header: Header) -> pl.LazyFrame:
    """Return the samples with the hour of the day, the tenth of the tenant's life, and the shares of MaxUsage."""
    start = "start_s" if "start_s" in tenants.columns else pl.lit(0, pl.Int64).alias("start_s")
    limits = [f"max_{metric.name}" for metric in header.metrics]
    joined = samples.join(tenants.lazy().select("tenant", "lifetime_s", start, *limits), on="tenant", how="left")
    shares = [
        pl.when(pl.col(f"max_{name}") > 0).then(pl.col(name) / pl.col(f"max_{name}")).alias(f"share_{name}")
        for name in (metric.name for metric in header.metrics)
    ]
    return joined.with_columns(
        ((pl.col("start_s") + pl.col("time_s")) % int(DAY) // int(HOUR)).cast(pl.Int32).alias("hour"),
        (pl.col("time_s") * TENTHS // pl.col("lifetime_s")).cast(pl.Int32).alias("tenth"),
        *shares,
    )


def _series(samples: pl.LazyFrame, header: Header) -> pl.DataFrame:
    """Return one row a series: rows, and of each metric mean, highest, first, last, limit and time of growth."""
    keys, names = ["tenant", "role"], [metric.name for metric in header.metrics]
    time = pl.col("time_s")
    columns = [
        column
        for name in names
        for column in (
            pl.col(name).cast(pl.Float64).mean().alias(f"mean_{name}"),
            pl.col(name).max().alias(f"highest_{name}"),
            pl.col(name).filter(time == 0).sum().alias(f"first_{name}"),
            pl.col(name).filter(time == pl.col("lifetime_s") - int(header.step_seconds)).sum().alias(f"last_{name}"),
            pl.col(f"max_{name}").first().alias(f"limit_{name}"),
        )
    ]
    series = samples.group_by(keys).agg(pl.len().alias("rows"), *columns)
    whole = series.collect(engine="streaming")
    highest = whole.lazy().select(*keys, *(f"highest_{name}" for name in names))
    grown = [
        time.filter(pl.col(name) >= GROWN * pl.col(f"highest_{name}")).min().alias(f"growth_{name}") for name in names
    ]
    times = samples.join(highest, on=keys, how="left").group_by(keys).agg(grown).collect(engine="streaming")
    return whole.join(times, on=keys, how="left").sort(keys)


def _metric(metric: MetricInfo, series: pl.DataFrame, days: pl.DataFrame, lives: pl.DataFrame) -> MetricFigures:
    name, rows = metric.name, series["rows"].to_numpy()
    mean, highest, first, last, limit, growth = (
        series[f"{field}_{name}"].cast(pl.Float64).to_numpy()
        for field in ("mean", "highest", "first", "last", "limit", "growth")
    )
    known, used = limit > 0, highest > 0
    total = float((mean * rows).sum())
    rise = np.divide(last - first, highest, out=np.zeros(len(rows)), where=used)
    daily = _places(days, "hour", name, HOURS)
    return MetricFigures(
        metric=metric,
        mean=total / float(rows.sum()),
        highest=float(highest.max()),
        used=_ratio(total, float((limit * rows).sum())),
        mean_shares=mean[known] / limit[known],
        peak_shares=highest[known] / limit[known],
        growing=float((rise > GROWS).mean()),
        rise=float(np.median(rise)),
        growth_hours=float(np.median(growth)) / HOUR,
        daily=daily * _ratio(float(rows.sum()), total),
        life=_places(lives, "tenth", f"share_{name}", TENTHS),
    )


def _places(frame: pl.DataFrame, key: str, value: str, places: int) -> Floats:
    """Return the values of a column by the place that a whole number gives, NaN where there is none."""
    found = np.full(places, np.nan)
    found[frame[key].to_numpy()] = frame[value].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return found


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else float("nan")


def _plain(figures: MetricFigures) -> dict[str, Any]:
    def median(values: Floats) -> float | None:
        return float(np.median(values)) if len(values) else None

    daily = figures.daily[np.isfinite(figures.daily)]
    return {
        "unit": figures.metric.unit,
        "trend": figures.metric.trend,
        "mean": figures.mean,
        "highest": figures.highest,
        "used_of_request": None if np.isnan(figures.used) else figures.used,
        "mean_share_median": median(figures.mean_shares),
        "peak_share_median": median(figures.peak_shares),
        "growing": figures.growing,
        "rise_median": figures.rise,
        "growth_hours_median": figures.growth_hours,
        "daily_swing": float(daily.max() - daily.min()) if len(daily) else None,
        "daily": [None if np.isnan(value) else float(value) for value in figures.daily],
    }
