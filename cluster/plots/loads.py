"""Plots of the load of the nodes, as bands and as a map, and of the availability of tenants.

A run has more meterings than a plot has columns. A cell then has its largest load, so that a
violation of one metering is visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from cluster.plots.base import COLOURS, DAY, coloured, shortened, use_open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from numpy.typing import NDArray

MOST_COLUMNS, MOST_ROWS = 360, 180
"""Cells of a picture, fewer than it has pixels."""


def plot_load_bands(ax: Axes, node_load: pl.DataFrame, metric: str, threshold: float, days: float) -> None:
    """Draw the distribution of one metric's load over the nodes: median, middle half, whole range, and the threshold.

    With more meterings than `MOST_COLUMNS`, consecutive meterings are drawn as one, at the last.

    Parameters
    ----------
    node_load
        The table of that name, for one policy and repeat.
    metric
        The metric.
    threshold
        Share of the capacity from which on a node is in violation.
    days
        Length of the run.
    """
    share = pl.col("share")
    quantiles = {"low": share.min(), "q25": share.quantile(0.25), "q50": share.median(), "q75": share.quantile(0.75)}
    loads = node_load.filter(pl.col("metric") == metric)
    times = loads["time_s"].unique().sort()
    begins = times.gather(_starts(len(times), MOST_COLUMNS))
    loads_by_column = loads.with_columns(column=begins.search_sorted(loads["time_s"], side="right")).group_by("column")
    bands = loads_by_column.agg(pl.col("time_s").max(), **quantiles, high=share.max()).sort("column")
    end_days = bands["time_s"].to_numpy() / DAY
    low, q25, q50, q75, high = (100.0 * bands[name].to_numpy() for name in ("low", "q25", "q50", "q75", "high"))
    ax.fill_between(end_days, low, high, color=COLOURS[1], alpha=0.18, linewidth=0, label="all nodes")
    ax.fill_between(end_days, q25, q75, color=COLOURS[1], alpha=0.4, linewidth=0, label="middle half")
    ax.plot(end_days, q50, color=COLOURS[1], linewidth=1.2, label="median node")
    ax.axhline(100.0 * threshold, color=COLOURS[0], linestyle="--", linewidth=1.2, label=f"threshold {threshold:.0%}")
    ax.set(xlabel="simulated time (days)", ylabel=f"{metric} (% of capacity)", xlim=(0.0, days))
    ax.set_ylim(bottom=0.0)
    use_open_axes(ax)


def plot_load_map(ax: Axes, node_load: pl.DataFrame, metric: str, threshold: float, days: float) -> QuadMesh:
    """Draw load by node and time as a heat map; loads at or above the threshold have another colour.

    A metering fills the interval that ends with it. A run that was interrupted leaves the rest of the axis empty.
    Of more meterings than `MOST_COLUMNS` or nodes than `MOST_ROWS`, neighbours share a cell, which shows the
    largest of their loads. The result is for a colour bar. `node_load`, `metric`, `threshold`: as in `plot_load_bands`;
    `days`: where the axis ends, days of the longest run.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    table = (
        node_load.filter(pl.col("metric") == metric)
        .pivot("node", index="time_s", values="share", aggregate_function="max")
        .sort("time_s")
    )
    nodes = sorted(name for name in table.columns if name != "time_s")
    shares = 100.0 * table.select(nodes).to_numpy().T
    shades = LinearSegmentedColormap.from_list("load", ["#f7f9fb", "#9fc3dc", "#0072b2", "#16324a"])
    colours = shades.with_extremes(over="#d55e00")
    times = table["time_s"].to_numpy()
    interval = np.diff(times).min() if len(times) > 1 else times[0]
    columns = _starts(len(times), MOST_COLUMNS)
    rows = _starts(len(nodes), MOST_ROWS)
    mesh = ax.pcolormesh(
        np.append(times[columns] - interval, times[-1]) / DAY,
        np.append(rows, len(nodes)) - 0.5,
        np.fmax.reduceat(np.fmax.reduceat(shares, columns, axis=1), rows, axis=0),
        cmap=colours,
        vmin=0.0,
        vmax=np.nextafter(100.0 * threshold, 0.0),  # what is above it is orange
        rasterized=True,
    )
    ax.set(xlabel="simulated time (days)", ylabel="node", xlim=(0.0, days))
    ax.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    return mesh


def _starts(count: int, most: int) -> NDArray[np.int64]:
    """Return where each of at most `most` cells begins among `count` items, (cells,); lengths differ by at most one."""
    cells = min(count, most)
    return np.arange(cells) * count // cells


MINUTES_A_YEAR = 365.25 * 1440.0
MOST_CLASSES = 12
"""Number of tenant classes in the plot."""


def availability_by_class(tenants: pl.DataFrame, seconds: Mapping[tuple[str, int], float]) -> pl.DataFrame:
    """Return stay, downtime, failovers and availability of the tenants of each policy and class, over all repeats.

    `seconds` are the simulated seconds of each policy and repeat. The availability is null for stays of 0 s.
    """
    run_ends = pl.DataFrame(
        [(policy, repeat, float(end)) for (policy, repeat), end in seconds.items()],
        schema={"policy": pl.String, "repeat": pl.Int32, "end": pl.Float64},
        orient="row",
    )
    stay = (pl.min_horizontal("departure_s", "end") - pl.col("arrival_s")).clip(0.0)
    sums = (
        tenants.join(run_ends, on=["policy", "repeat"])
        .group_by("policy", "tenant_class")
        .agg(
            pl.len().cast(pl.Int64).alias("tenants"),
            stay.sum().alias("stay_s"),
            pl.col("downtime_s").sum(),
            pl.col("failovers").cast(pl.Int64).sum(),
        )
    )
    availability = 1.0 - pl.col("downtime_s") / pl.col("stay_s")
    return sums.with_columns(pl.when(pl.col("stay_s") > 0).then(availability).alias("availability")).sort(
        "policy", "tenant_class"
    )


def plot_availability(ax: Axes, classes: pl.DataFrame, policies: Sequence[str]) -> None:
    """Draw the downtime of a tenant in a year by class, a bar a policy, for the classes with most downtime.

    `classes`: the frame of `availability_by_class`.
    """
    sums = classes.group_by("tenant_class").agg(pl.col("downtime_s", "stay_s").sum())
    unavailable_share = (pl.col("downtime_s") / pl.col("stay_s")).fill_nan(0.0)  # of no stay at all
    most_downtime_first = sums.sort(unavailable_share, "tenant_class", descending=[True, False])
    class_names = most_downtime_first["tenant_class"].head(MOST_CLASSES).to_list()
    minutes = {
        (policy, name): MINUTES_A_YEAR * (1.0 - availability)
        for policy, name, availability in classes.select("policy", "tenant_class", "availability").iter_rows()
        if availability is not None
    }
    positions = np.arange(len(class_names))[::-1]
    height = 0.8 / max(1, len(policies))
    for index, (policy, colour) in enumerate(coloured(policies)):
        offset = ((len(policies) - 1) / 2 - index) * height
        widths = [minutes.get((policy, name), 0.0) for name in class_names]
        ax.barh(positions + offset, widths, height, color=colour, label=policy)
    ax.set_yticks(positions, shortened(class_names), fontsize=8)
    ax.set(xlabel="downtime of a tenant in a year (minutes)")
    ax.set_xlim(0.0, max(1.0, ax.get_xlim()[1]))
    ax.legend(frameon=False, loc="lower right")
    use_open_axes(ax, "x")
    ax.set_axisbelow(True)
