"""Plots of results. Each draws into an `ax` that it is given and can be used alone; `save_plots` writes them all.

All take data frames as `cluster.results_reading.Results.table` returns them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl

from workloads.writing import in_one_piece

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

DAY = 86400.0
PLOTS = ("violations", "load", "load_map")
"""Names of the plots that `save_plots` writes."""
COLOURS = ("#b5483a", "#2f6f9f", "#6a8f3c", "#8a5fa8", "#c58a2c", "#4a4a4a")
DOTS_PER_INCH = 130
MOST_LETTERS = 28
"""Of a name beside an axis."""
T = TypeVar("T")


def coloured(lines: Iterable[T]) -> Iterator[tuple[T, str]]:
    """Yield what is drawn with its colour; where there are more than colours, they begin anew."""
    return zip(lines, cycle(COLOURS), strict=False)


def shortened(names: Iterable[str]) -> list[str]:
    """Return names as they fit beside an axis: of long ones, the beginning."""
    return [name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…" for name in names]


def plot_violations(
    ax: Axes, shortages: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> None:
    """Draw the cumulative number of violations over time, a line a policy; mean and range over repeats.

    A line goes as far as the longest run of its policy. Where some of its runs end before, it is the mean of those that
    go on, so that it may fall there. The legend has the mean over all runs of what there was at their ends.

    Parameters
    ----------
    shortages
        The table of that name.
    policies
        Policies in the order of their colours.
    lengths
        Days of the runs of each policy by repeat, from `cluster.results_reading.Results.lengths`.
    days
        Where the axis ends: days of the longest run.
    """
    violated = shortages.filter(pl.col("outcome") == "violation").unique(["policy", "repeat", "time_s", "node"])
    plot_counts(ax, violated, policies, lengths, days)
    ax.set_ylabel("violations so far")


def plot_counts(
    ax: Axes, events: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> None:
    """Draw how many events there were until then, a line a policy; mean and range over repeats.

    Parameters
    ----------
    events
        A row an event, with ``policy``, ``repeat`` and ``time_s``.
    policies, lengths, days
        As in `plot_violations`, as are the lines.
    """
    from matplotlib.ticker import MaxNLocator

    ordered = events.with_columns(pl.col("time_s") / DAY).sort("time_s")
    for policy, colour in coloured(policies):
        of_policy = ordered.filter(pl.col("policy") == policy)
        ends = np.array(list(lengths[policy].values()))
        times = [of_policy.filter(pl.col("repeat") == r)["time_s"].to_numpy() for r in lengths[policy]]
        grid = np.union1d(np.linspace(0.0, days, 500), ends)
        grid = grid[grid <= ends.max()]
        counts = np.array([np.searchsorted(found, grid, "right") for found in times], np.float64)
        counts[grid > ends[:, np.newaxis]] = np.nan
        total = np.mean([len(found) for found in times])
        ax.step(
            grid, np.nanmean(counts, axis=0), where="post", color=colour, linewidth=1.8, label=f"{policy} ({total:.3g})"
        )
        if len(counts) > 1:
            low, high = np.nanmin(counts, axis=0), np.nanmax(counts, axis=0)
            ax.fill_between(grid, low, high, step="post", color=colour, alpha=0.15)
    ax.set(xlabel="simulated time (days)", xlim=(0.0, days))
    ax.set_ylim(bottom=0.0)
    ax.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    ax.legend(title="policy (total)", frameon=False, loc="best", fontsize=8, title_fontsize=8)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def plot_load_bands(ax: Axes, node_load: pl.DataFrame, metric: str, threshold: float, days: float) -> None:
    """Draw how one metric's load spreads over the nodes: median, middle half, whole range, and the threshold.

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
    rows = (
        node_load.filter(pl.col("metric") == metric)
        .group_by("time_s")
        .agg(**quantiles, high=share.max())
        .sort("time_s")
    )
    time = rows["time_s"].to_numpy() / DAY
    low, q25, q50, q75, high = (100.0 * rows[name].to_numpy() for name in ("low", "q25", "q50", "q75", "high"))
    ax.fill_between(time, low, high, color=COLOURS[1], alpha=0.18, linewidth=0, label="all nodes")
    ax.fill_between(time, q25, q75, color=COLOURS[1], alpha=0.4, linewidth=0, label="middle half")
    ax.plot(time, q50, color=COLOURS[1], linewidth=1.2, label="median node")
    ax.axhline(100.0 * threshold, color=COLOURS[0], linestyle="--", linewidth=1.2, label=f"threshold {threshold:.0%}")
    ax.set(xlabel="simulated time (days)", ylabel=f"{metric} (% of capacity)", xlim=(0.0, days))
    ax.set_ylim(bottom=0.0)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def plot_load_map(ax: Axes, node_load: pl.DataFrame, metric: str, threshold: float, days: float) -> AxesImage:
    """Draw load by node and time as a heat map; loads at or above the threshold stand out.

    A metering fills the interval that ends with it. A run that was interrupted leaves the rest of the axis empty.

    Parameters
    ----------
    node_load, metric, threshold
        As in `plot_load_bands`.
    days
        Where the axis ends: days of the longest run.

    Returns
    -------
    AxesImage
        For a colour bar.
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
    shades = LinearSegmentedColormap.from_list("load", ["#f7f9fb", "#9fc3dc", "#2f6f9f", "#16324a"])
    colours = shades.with_extremes(over="#d7301f")
    times = table["time_s"].to_numpy()
    interval = np.diff(times).min() if len(times) > 1 else times[0]
    image = ax.imshow(
        shares,
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        cmap=colours,
        vmin=0.0,
        vmax=np.nextafter(100.0 * threshold, 0.0),  # what is above it is red
        extent=((times[0] - interval) / DAY, times[-1] / DAY, -0.5, len(nodes) - 0.5),
    )
    ax.set(xlabel="simulated time (days)", ylabel="node", xlim=(0.0, days))
    ax.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    return image


def first_common(repeats: Mapping[str, Collection[int]]) -> int:
    """Return the first repeat that all policies have run, or the first of any where there is none.

    Parameters
    ----------
    repeats
        Numbers of the runs of each policy.
    """
    common = set.intersection(*(set(of_policy) for of_policy in repeats.values()))
    return min(common or {min(of_policy) for of_policy in repeats.values()})


def save_plots(
    folder: Path,
    shortages: pl.DataFrame,
    node_load: pl.DataFrame,
    *,
    policies: Sequence[str],
    lengths: Mapping[str, Mapping[int, float]],
    threshold: float,
    days: float,
    title: str,
) -> list[Path]:
    """Write ``violations.png``, ``load.png`` (bands a metric and policy) and ``load_map.png``; return their paths.

    Loads are shown for the first repeat that all policies have run. Parameters as in `plot_violations` and
    `plot_load_bands`.
    """
    from matplotlib.figure import Figure

    first = node_load.filter((pl.col("repeat") == first_common(lengths)) & pl.col("share").is_not_null())
    metrics = first["metric"].unique(maintain_order=True).to_list()
    shown = [policy for policy in policies if policy in set(first["policy"].to_list())]
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    plot_violations(figure.subplots(), shortages, policies, lengths, days)
    figure.suptitle(f"{title}: resource violations")
    paths = [save_figure(figure, folder / "violations.png")]
    if metrics and shown:
        paths.append(save_figure(_bands(first, metrics, shown, threshold, days, title), folder / "load.png"))
        paths.append(save_figure(_maps(first, metrics, shown, threshold, days, title), folder / "load_map.png"))
    return paths


def _bands(
    node_load: pl.DataFrame, metrics: Sequence[str], policies: Sequence[str], threshold: float, days: float, title: str
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8 * len(policies) + 0.6, 2.5 * len(metrics) + 0.8), layout="constrained")
    axes = figure.subplots(len(metrics), len(policies), squeeze=False, sharex=True, sharey="row")
    for row, metric in enumerate(metrics):
        for column, policy in enumerate(policies):
            ax = axes[row, column]
            plot_load_bands(ax, node_load.filter(pl.col("policy") == policy), metric, threshold, days)
            ax.label_outer()
            if row == 0:
                ax.set_title(policy)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"{title}: load of the nodes")
    return figure


def _maps(
    node_load: pl.DataFrame, metrics: Sequence[str], policies: Sequence[str], threshold: float, days: float, title: str
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8 * len(policies) + 1.2, 2.5 * len(metrics) + 0.6), layout="constrained")
    axes = figure.subplots(len(metrics), len(policies), squeeze=False, sharex=True, sharey=True)
    for row, metric in enumerate(metrics):
        for column, policy in enumerate(policies):
            ax = axes[row, column]
            image = plot_load_map(ax, node_load.filter(pl.col("policy") == policy), metric, threshold, days)
            ax.label_outer()
            ax.set_title(f"{metric}, {policy}", fontsize=10)
    bar = figure.colorbar(image, ax=axes, extend="max", shrink=0.8)
    bar.set_label(f"load (% of capacity; red: at least the threshold of {threshold:.0%})")
    figure.suptitle(f"{title}: load by node")
    return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, in one piece, and return the path; equal figures give equal bytes."""
    with in_one_piece(path) as partial:
        figure.savefig(partial, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    return path
