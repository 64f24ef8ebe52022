"""The plots of `plb simulate`: violations over time, and the load of the nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from cluster.plots.base import new_figure, plot_violations, save_figure
from cluster.plots.loads import plot_load_bands, plot_load_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTS = ("violations", "load", "load_map")
"""Names of the plots that `save_plots` writes."""


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
    first = node_load.filter((pl.col("repeat") == first_common(lengths)) & pl.col("share").is_not_null())
    metrics = first["metric"].unique(maintain_order=True).to_list()
    shown = [policy for policy in policies if policy in set(first["policy"].to_list())]
    figure = new_figure(7.5, 4.2, f"{title}: resource violations")
    plot_violations(figure.subplots(), shortages, policies, lengths, days)
    paths = [save_figure(figure, folder / "violations.png")]
    if metrics and shown:
        paths.append(save_figure(_bands(first, metrics, shown, threshold, days, title), folder / "load.png"))
        paths.append(save_figure(_maps(first, metrics, shown, threshold, days, title), folder / "load_map.png"))
    return paths


def _bands(
    node_load: pl.DataFrame, metrics: Sequence[str], policies: Sequence[str], threshold: float, days: float, title: str
) -> Figure:
    figure = new_figure(4.8 * len(policies) + 0.6, 2.5 * len(metrics) + 0.8, f"{title}: load of the nodes")
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
    return figure


def _maps(
    node_load: pl.DataFrame, metrics: Sequence[str], policies: Sequence[str], threshold: float, days: float, title: str
) -> Figure:
    figure = new_figure(4.8 * len(policies) + 1.2, 2.5 * len(metrics) + 0.6, f"{title}: load by node")
    axes = figure.subplots(len(metrics), len(policies), squeeze=False, sharex=True, sharey=True)
    for row, metric in enumerate(metrics):
        for column, policy in enumerate(policies):
            ax = axes[row, column]
            mesh = plot_load_map(ax, node_load.filter(pl.col("policy") == policy), metric, threshold, days)
            ax.label_outer()
            ax.set_title(f"{metric}, {policy}", fontsize=10)
    bar = figure.colorbar(mesh, ax=axes, extend="max", shrink=0.8)
    bar.set_label(f"load (% of capacity; red: at least the threshold of {threshold:.0%})")
    return figure
