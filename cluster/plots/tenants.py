"""Availability by tenant class: as figures, and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from cluster.plots.base import coloured, shortened, use_open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MINUTES_A_YEAR = 365.25 * 1440.0
MOST_CLASSES = 12
"""Number of tenant classes in the plot."""


def availability_by_class(tenants: pl.DataFrame, seconds: Mapping[tuple[str, int], float]) -> pl.DataFrame:
    """Return how long the tenants of each class stayed, and for how long they were unavailable.

    Parameters
    ----------
    tenants
        The table of that name.
    seconds
        Simulated seconds of every run, by policy and repeat.

    Returns
    -------
    Columns ``policy``, ``tenant_class``, ``tenants``, ``stay_s``, ``downtime_s``, ``failovers`` (sums over all repeats)
    and ``availability`` (null for stays of 0 s), by policy and class.
    """
    ends = pl.DataFrame(
        [(policy, repeat, float(end)) for (policy, repeat), end in seconds.items()],
        schema={"policy": pl.String, "repeat": pl.Int32, "end": pl.Float64},
        orient="row",
    )
    stay = (pl.min_horizontal("departure_s", "end") - pl.col("arrival_s")).clip(0.0)
    sums = (
        tenants.join(ends, on=["policy", "repeat"])
        .group_by("policy", "tenant_class")
        .agg(
            pl.len().cast(pl.Int64).alias("tenants"),
            stay.sum().alias("stay_s"),
            pl.col("downtime_s").sum(),
            pl.col("failovers").cast(pl.Int64).sum(),
        )
    )
    used = 1.0 - pl.col("downtime_s") / pl.col("stay_s")
    return sums.with_columns(pl.when(pl.col("stay_s") > 0).then(used).alias("availability")).sort(
        "policy", "tenant_class"
    )


def plot_availability(ax: Axes, classes: pl.DataFrame, policies: Sequence[str]) -> None:
    """Draw the downtime of a tenant in a year by class, a bar a policy; the classes with most downtime where many.

    Parameters
    ----------
    classes
        What `availability_by_class` returns.
    policies
        Policies in the order of their colours.
    """
    whole = classes.group_by("tenant_class").agg(pl.col("downtime_s", "stay_s").sum())
    share = (pl.col("downtime_s") / pl.col("stay_s")).fill_nan(0.0)  # of no stay at all
    ordered = whole.sort(share, "tenant_class", descending=[True, False])
    shown = ordered["tenant_class"].head(MOST_CLASSES).to_list()
    minutes = {
        (policy, name): MINUTES_A_YEAR * (1.0 - availability)
        for policy, name, availability in classes.select("policy", "tenant_class", "availability").iter_rows()
        if availability is not None
    }
    places = np.arange(len(shown))[::-1]
    height = 0.8 / max(1, len(policies))
    for number, (policy, colour) in enumerate(coloured(policies)):
        offset = ((len(policies) - 1) / 2 - number) * height
        widths = [minutes.get((policy, name), 0.0) for name in shown]
        ax.barh(places + offset, widths, height, color=colour, label=policy)
    ax.set_yticks(places, shortened(shown), fontsize=8)
    ax.set(xlabel="downtime of a tenant in a year (minutes)")
    ax.set_xlim(0.0, max(1.0, ax.get_xlim()[1]))
    ax.legend(frameon=False, loc="lower right")
    use_open_axes(ax, "x")
    ax.set_axisbelow(True)
