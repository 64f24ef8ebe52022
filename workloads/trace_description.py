"""The properties of a trace: span, gaps, lifetimes, usage relative to request, growth and daily shape.

The trace is checked and scanned as a stream. Memory grows with the number of series, not of samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import polars as pl

from plb.array_types import Bool, Float
from workloads.compression import GROWN
from workloads.trace import DAY_SECONDS, HOUR_SECONDS, MetricInfo
from workloads.trace_files import TRACES_FILE, check_traces
from workloads.trace_validation import Header

HOURS = 24
"""Hours of a day."""
TENTHS = 10
"""Tenths of a life."""
HOUR, DAY = float(HOUR_SECONDS), float(DAY_SECONDS)
"""In seconds."""
LIVES = (10, 50, 90)
"""Percentiles of lifetimes that are reported."""
GROWS = 0.1
"""A series grows if its last value exceeds its first by more than this share of its maximum."""


@attrs.frozen(eq=False, kw_only=True)
class MetricFigures:
    """The properties of one metric. Series with MaxUsage 0 are not in the shares."""

    metric: MetricInfo
    """Name, unit and trend."""
    mean: float
    """Mean of all samples, in the metric's unit."""
    highest: float
    """Maximum of all samples, in the metric's unit."""
    used: float
    """Mean usage by mean MaxUsage, over all samples."""
    mean_shares: Float
    """Mean usage of each series by its MaxUsage."""
    peak_shares: Float
    """Maximum usage of each series by its MaxUsage."""
    growing: float
    """Share of the series that grow (`GROWS`)."""
    rise: float
    """Median over the series of last less first sample, by the series' maximum."""
    growth_hours: float
    """Median time until a series is at 95 % of its maximum, hours ([1] section 3.1)."""
    daily: Float
    """Mean usage by hour of the day by mean usage, 24 values; NaN where there is no sample."""
    life: Float
    """Mean usage by MaxUsage in each tenth of a tenant's life, 10 values; NaN where there is no sample."""


@attrs.frozen(eq=False, kw_only=True)
class TraceDescription:
    """The properties of a trace."""

    provenance: Mapping[str, Any]
    """Provenance of the trace."""
    step_seconds: float
    """Sampling interval, seconds."""
    rows: int
    """Number of samples, each of all metrics."""
    series: int
    """Number of series."""
    tenant_class: npt.NDArray[np.str_]
    """Class of each tenant, shape (T,)."""
    families: int
    """Number of families of tenants."""
    replicas: int
    """Number of replicas of all tenants."""
    lifetime_hours: Float
    """Lifetimes, shape (T,), hours."""
    censored: Bool
    """Whether the trace cut each tenant, shape (T,)."""
    start_hours: Float | None
    """Start of each tenant, shape (T,), hours since the origin; None if unknown."""
    metrics: tuple[MetricFigures, ...]
    """The properties of each metric."""

    @property
    def span_days(self) -> float:
        """Days from the first tenant's start to the last one's end; if starts are unknown, the longest lifetime."""
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


def describe(path: str | Path) -> TraceDescription:
    """Return the properties of a trace in a directory in the format of this project."""
    header, tenants = check_traces(path)
    samples = _samples(pl.scan_parquet(Path(path, TRACES_FILE), glob=False), tenants, header)
    metrics = range(len(header.metrics))
    series = _series(samples, metrics)
    days = samples.group_by("hour").agg(pl.col(f"usage_{i}").mean() for i in metrics).collect(engine="streaming")
    lives = samples.group_by("tenth").agg(pl.col(f"share_{i}").mean() for i in metrics).collect(engine="streaming")
    figures = (_metric(metric, i, header, series, days, lives) for i, metric in enumerate(header.metrics))
    return TraceDescription(
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
        metrics=tuple(figures),
    )


def _samples(samples: pl.LazyFrame, tenants: pl.DataFrame, header: Header) -> pl.LazyFrame:
    """Return the samples with their step, hour of the day, tenth of the tenant's life, and shares of MaxUsage.

    Columns of metrics are numbered, as a metric may have any name. Inexact times count as the steps that they mean.
    """
    numbered = dict(enumerate(metric.name for metric in header.metrics))
    start = "start_s" if "start_s" in tenants.columns else pl.lit(0, pl.Int64).alias("start_s")
    of_tenant = tenants.lazy().select(
        "tenant",
        start,
        _in_steps("lifetime_s", header).alias("steps"),
        *(pl.col(f"max_{name}").alias(f"limit_{i}") for i, name in numbered.items()),
    )
    of_sample = samples.select(
        "tenant",
        "role",
        _in_steps("time_s", header).alias("step"),
        *(pl.col(name).alias(f"usage_{i}") for i, name in numbered.items()),
    )
    time = pl.col("start_s") + pl.col("step") * int(header.step_seconds)
    return of_sample.join(of_tenant, on="tenant", how="left").with_columns(
        (time % int(DAY) // int(HOUR)).cast(pl.Int32).alias("hour"),
        (pl.col("step") * TENTHS // pl.col("steps")).cast(pl.Int32).alias("tenth"),
        *(
            pl.when(pl.col(f"limit_{i}") > 0).then(pl.col(f"usage_{i}") / pl.col(f"limit_{i}")).alias(f"share_{i}")
            for i in numbered
        ),
    )


def _in_steps(column: str, header: Header) -> pl.Expr:
    """Return the expression for a column of seconds, by its name, in whole steps of the trace."""
    return (pl.col(column) / header.step_seconds).round().cast(pl.Int64)


def _series(samples: pl.LazyFrame, metrics: range) -> pl.DataFrame:
    """Return a row for each series: its number of samples and, by number of the metric, six columns.

    They are mean, highest, first and last usage, limit, and growth: the step at which it is grown (`GROWN`).
    """
    keys, step = ["tenant", "role"], pl.col("step")
    columns = [
        column
        for i in metrics
        for column in (
            pl.col(f"usage_{i}").cast(pl.Float64).mean().alias(f"mean_{i}"),
            pl.col(f"usage_{i}").max().alias(f"highest_{i}"),
            pl.col(f"usage_{i}").filter(step == 0).sum().alias(f"first_{i}"),
            pl.col(f"usage_{i}").filter(step == pl.col("steps") - 1).sum().alias(f"last_{i}"),
            pl.col(f"limit_{i}").first(),
        )
    ]
    series = samples.group_by(keys).agg(pl.len().alias("rows"), *columns)
    totals = series.collect(engine="streaming")
    highest = totals.lazy().select(*keys, *(f"highest_{i}" for i in metrics))
    grown = [
        step.filter(pl.col(f"usage_{i}") >= GROWN * pl.col(f"highest_{i}")).min().alias(f"growth_{i}") for i in metrics
    ]
    steps = samples.join(highest, on=keys, how="left").group_by(keys).agg(grown).collect(engine="streaming")
    return totals.join(steps, on=keys, how="left").sort(keys)


def _metric(
    metric: MetricInfo, column: int, header: Header, series: pl.DataFrame, days: pl.DataFrame, lives: pl.DataFrame
) -> MetricFigures:
    """Return the properties of a metric; `column` is its number in the tables of series, hours and tenths of life."""
    rows = series["rows"].to_numpy()
    mean, highest, first, last, limit, growth = (
        series[f"{field}_{column}"].cast(pl.Float64).to_numpy()
        for field in ("mean", "highest", "first", "last", "limit", "growth")
    )
    limited, positive = limit > 0, highest > 0
    total = float((mean * rows).sum())
    rise = np.divide(last - first, highest, out=np.zeros(len(rows)), where=positive)
    daily = _by_key(days, "hour", f"usage_{column}", HOURS)
    return MetricFigures(
        metric=metric,
        mean=total / float(rows.sum()),
        highest=float(highest.max()),
        used=_ratio(total, float((limit * rows).sum())),
        mean_shares=mean[limited] / limit[limited],
        peak_shares=highest[limited] / limit[limited],
        growing=float((rise > GROWS).mean()),
        rise=float(np.median(rise)),
        growth_hours=float(np.median(growth)) * header.step_seconds / HOUR,
        daily=daily * _ratio(float(rows.sum()), total),
        life=_by_key(lives, "tenth", f"share_{column}", TENTHS),
    )


def _by_key(frame: pl.DataFrame, key: str, value: str, size: int) -> Float:
    """Return the column `value` as an array, (size,), at the positions in the column `key`; NaN at other positions."""
    values = np.full(size, np.nan)
    values[frame[key].to_numpy()] = frame[value].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return values


def _ratio(above: float, below: float) -> float:
    """Return `above` / `below`; NaN if `below` is not positive."""
    return above / below if below > 0 else float("nan")


def _plain(figures: MetricFigures) -> dict[str, Any]:
    """Return the properties of a metric as plain values for JSON."""

    def median(values: Float) -> float | None:
        """Return the median; None of no values."""
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
