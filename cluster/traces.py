"""Tables of `plb traces`: properties of traces, and statistics of regions beside the published values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from plb.array_types import Float
from workloads.trace_description import GROWS, HOURS, LIVES, MetricFigures, TraceDescription

if TYPE_CHECKING:
    from rich.table import Table

    from workloads.region_statistics import StatisticRow


def description_tables(trace: TraceDescription, title: str) -> tuple[Table, Table]:
    """Return two tables: of the tenants and their lives, and of the metrics."""
    from rich.table import Table

    from cluster.tables import new_table

    tenants = Table(title=title, show_header=False)
    for heading, value in _tenants(trace):
        tenants.add_row(heading, value)
    metrics = new_table(("", *(figures.metric.name for figures in trace.metrics)), title="metrics")
    columns = [_metric(figures) for figures in trace.metrics]
    for heading in columns[0]:
        metrics.add_row(heading, *(column[heading] for column in columns))
    return tenants, metrics


def statistics_table(region: str, rows: Sequence[StatisticRow]) -> Table:
    """Return a table of the statistics of a region: generated and published, and whether they agree."""
    from rich.text import Text

    from cluster.tables import new_table

    headings = ("statistic", "published", "source", "generated")
    table = new_table(headings, texts=3, title=f"{region}: generated and published statistics")
    table.add_column("agrees")
    for row in rows:
        agrees = Text("NO", style="red") if row.within is False else "yes" if row.within else ""
        table.add_row(row.statistic, row.published, row.source, f"{row.generated:.4g}", agrees)
    return table


def _tenants(trace: TraceDescription) -> list[tuple[str, str]]:
    """Return the rows of the table on tenants and their lives: heading and value."""
    lifetimes = trace.lifetime_hours
    percentiles = ", ".join(
        f"{_hours(value)} (p{level})" for level, value in zip(LIVES, np.percentile(lifetimes, LIVES), strict=True)
    )
    return [
        (
            "tenants",
            f"{len(lifetimes):,} of {len(set(trace.tenant_class.tolist())):,} classes, {trace.families:,} families",
        ),
        ("replicas, series", f"{trace.replicas:,}, {trace.series:,}"),
        ("rows", f"{trace.rows:,}, one every {trace.step_seconds:g} s"),
        ("span", f"{trace.span_days:,.1f} days" + (" (longest life)" if trace.start_hours is None else "")),
        ("lived", f"{lifetimes.sum() / HOURS:,.0f} tenant-days"),
        ("gaps", _gaps(trace)),
        (
            "lifetimes",
            f"{_hours(float(lifetimes.mean()))} (mean), {percentiles}, {_hours(float(lifetimes.max()))} (longest)",
        ),
        ("cut by the trace", f"{trace.censored.mean():.1%} of the lifetimes"),
        ("MaxUsage", str(trace.provenance.get("request", "as written"))),
    ]


def _gaps(trace: TraceDescription) -> str:
    """Return in words how gaps were filled or cut."""
    counts = trace.provenance.get("counts")
    if counts is None:
        return "none; what the source had is not recorded"
    steps_kept = max(counts["steps_kept"], 1)
    return (
        f"{counts['gaps_filled']:,} filled with {counts['steps_filled']:,} steps "
        f"({counts['steps_filled'] / steps_kept:.2%}), {counts['gaps_cut']:,} longer ones cut"
    )


def _metric(figures: MetricFigures) -> dict[str, str]:
    """Return the column of a metric in the table on metrics, by heading."""
    return {
        "unit": figures.metric.unit,
        "trend": "grows to a maximum" if figures.metric.trend else "none",
        "mean, highest": f"{figures.mean:.3g}, {figures.highest:.3g}",
        "used of MaxUsage": _share(figures.used),
        "mean / MaxUsage, median series": _median(figures.mean_shares),
        "peak / MaxUsage, median series": _median(figures.peak_shares),
        f"series that grow by > {GROWS:.0%} of their maximum": _share(figures.growing),
        "rise from first to last, median": _share(figures.rise),
        "time to 95 % of the maximum, median": _hours(figures.growth_hours),
        "hour of least, most usage": _swing(figures),
    }


def _swing(figures: MetricFigures) -> str:
    """Return in words the hours of a day with the least and the most usage."""
    daily = figures.daily
    if not np.isfinite(daily).any():
        return "-"
    low, high = int(np.nanargmin(daily)), int(np.nanargmax(daily))
    return f"{low}: {daily[low]:.2f}, {high}: {daily[high]:.2f} of the mean"


def _median(values: Float) -> str:
    """Return the median of shares, (n,), as text."""
    return _share(float(np.median(values))) if len(values) else "-"


def _share(value: float) -> str:
    """Return a share as text; a dash for NaN."""
    return "-" if np.isnan(value) else f"{value:.1%}"


def _hours(value: float) -> str:
    """Return a time in hours as text, in a unit that suits it."""
    return f"{value * 60:.0f} min" if value < 1 else f"{value:.1f} h" if value < 2 * HOURS else f"{value / HOURS:.1f} d"
