"""The plots of `plb simulate`: violations over time, and the load of the nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from cluster.plots.base import new_figure, plot_violations, save_figure
from cluster.plots.loads import plot_load_bands, plot_load_map
from cluster.results.reading import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def save_plots(results: Results) -> list[Path]:
    """Write ``violations.png``, ``load.png`` (bands a metric and policy) and ``load_map.png``; return their paths.

    Loads are those of `Results.shown_repeat`.
    """
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # names of policies and metrics are no formulas
        lengths = {policy: results.lengths(policy) for policy in results.policies if results.repeats(policy)}
        figure = new_figure(7.5, 4.2, f"{results.name}: resource violations")
        plot_violations(figure.subplots(), results.table("shortages"), list(lengths), lengths, results.days)
        paths = [save_figure(figure, results.folder / "violations.png")]
        load = results.table("node_load", repeat=results.shown_repeat).filter(pl.col("share").is_not_null())
        if len(load):
            paths.append(save_figure(_bands(results, load), results.folder / "load.png"))
            paths.append(save_figure(_maps(results, load), results.folder / "load_map.png"))
    return paths


def _panels(
    results: Results, load: pl.DataFrame, title: str, width: float, height: float, sharey: Literal["row", "all"]
) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """Return a figure with an ax for each metric (row) and policy (column), and margins of these inches."""
    metrics = load["metric"].unique(maintain_order=True).to_list()
    policies = [policy for policy in results.policies if policy in set(load["policy"].to_list())]
    figure = new_figure(4.8 * len(policies) + width, 2.5 * len(metrics) + height, f"{results.name}: {title}")
    axes = figure.subplots(len(metrics), len(policies), squeeze=False, sharex=True, sharey=sharey)
    places = [(metric, policy) for metric in metrics for policy in policies]
    return figure, dict(zip(places, axes.ravel(), strict=True))


def _bands(results: Results, load: pl.DataFrame) -> Figure:
    figure, axes = _panels(results, load, "load of the nodes", 0.6, 0.8, "row")
    first, _ = next(iter(axes))
    for (metric, policy), ax in axes.items():
        plot_load_bands(ax, load.filter(policy=policy), metric, results.violation_threshold, results.days)
        ax.label_outer()
        if metric == first:
            ax.set_title(policy)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _maps(results: Results, load: pl.DataFrame) -> Figure:
    figure, axes = _panels(results, load, "load by node", 1.2, 0.6, "all")
    threshold = results.violation_threshold
    for (metric, policy), ax in axes.items():
        mesh = plot_load_map(ax, load.filter(policy=policy), metric, threshold, results.days)
        ax.label_outer()
        ax.set_title(f"{metric}, {policy}", fontsize=10)
    bar = figure.colorbar(mesh, ax=list(axes.values()), extend="max", shrink=0.8)
    bar.set_label(f"load (% of capacity; red: at least the threshold of {threshold:.0%})")
    return figure
