"""Plots that correspond to figures 6 to 13 of [2]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cluster.plots.base import COLOURS, new_figure, use_open_axes
from cluster.studies.gaussian.design import BY_CAPACITY, CANTELLI, GPAS, MEANS
from cluster.studies.gaussian.figures import (
    REQUESTED,
    averaged_beside_samples,
    base_cases,
    by_capacity,
    by_clairvoyance,
    rebalancing,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Groups = Mapping[str, Sequence[float]]
MOST_IN_FIGURE_6 = 50
BY_CLAIRVOYANCE = ("av 1.25", "GPA 0.1", "GPA 0.01", "GPA 0.001")


def plots(packings: pl.DataFrame, totals: pl.DataFrame) -> dict[str, Callable[[], Figure]]:
    """Return the plots of the finished runs by file name."""
    of_packings = (figure_7, figure_8, figure_9, figure_10, figure_11, figure_12, figure_13)
    found: dict[str, Callable[[], Figure]] = {}
    if len(totals):
        found["figure6.png"] = partial(figure_6, totals)
    if len(packings):
        found |= {f"figure{number}.png": partial(one, packings) for number, one in enumerate(of_packings, 7)}
    return found


def boxes(ax: Axes, groups: Groups, *, colour: str = COLOURS[1], offset: float = 0.0) -> None:
    """Draw a box for each group: quartiles, median, whiskers of 1.5 interquartile ranges."""
    places = np.arange(len(groups)) + offset
    style: dict[str, Any] = {"patch_artist": True, "medianprops": {"color": "black"}, "flierprops": {"markersize": 2}}
    if groups:
        drawn = ax.boxplot([list(values) for values in groups.values()], positions=places, widths=0.35, **style)
        for box in drawn["boxes"]:
            box.set(facecolor=colour, alpha=0.6)
    ax.set_xticks(np.arange(len(groups)), list(groups))
    use_open_axes(ax, "y")


def figure_6(totals: pl.DataFrame) -> Figure:
    """Draw the differences between percentiles of Gaussians and of totals, by number of tasks."""
    few = totals.filter(pl.col("size") <= MOST_IN_FIGURE_6)
    resources = few["resource"].unique(maintain_order=True).to_list()
    figure = new_figure(3.6 * 3, 3.0 * len(resources) + 0.5, "Gaussian by empirical percentile of totals, less 1")
    axes = figure.subplots(len(resources), 3, squeeze=False, sharey="row")
    for row, resource in enumerate(resources):
        for ax, name in zip(axes[row], ("p95", "p99", "p99.9"), strict=True):
            of_panel = few.filter(pl.col("resource") == resource).drop_nulls(name)
            groups = {str(size): of_size[name].to_list() for (size,), of_size in of_panel.group_by("size")}
            sizes = sorted(groups, key=int)
            if sizes:
                ax.violinplot([groups[size] for size in sizes], showmedians=True, showextrema=True)
            ax.set_xticks(np.arange(1, len(sizes) + 1), sizes)
            ax.axhline(0.0, color="#4a4a4a", linewidth=0.8)
            ax.set(title=f"{resource}: percentile {name[1:]}", xlabel="tasks")
            ax.grid(axis="y", alpha=0.25)
    return figure


def figure_7(packings: pl.DataFrame) -> Figure:
    """Draw the normalised machines by test."""
    figure = new_figure(10.0, 4.0, "machines by the lower bound; clairvoyance, capacity 1")
    ax = figure.subplots()
    boxes(ax, _by_test(base_cases(packings), "m"))
    ax.tick_params(axis="x", rotation=60)
    ax.set(ylabel="m")
    return figure


def figure_8(packings: pl.DataFrame) -> Figure:
    """Draw overload over machines, a dot for each instance."""
    figure = new_figure(8.5, 5.0, "frequency of overload and machines; clairvoyance, capacity 1")
    ax = figure.subplots()
    for family, marker in (("GPA", "o"), ("av", "s"), ("perc", "^")):
        of_family = base_cases(packings).filter(pl.col("test").str.starts_with(family), pl.col("q") > 0)
        for test in of_family["test"].unique(maintain_order=True):
            dots = of_family.filter(pl.col("test") == test)
            ax.plot(dots["m"], dots["q"], marker, markersize=4, alpha=0.6, label=test)
    ax.set(xlabel="m", ylabel="q", yscale="log")
    if ax.lines:  # nothing was ever overloaded, else
        ax.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    ax.grid(alpha=0.25)
    return figure


def figure_9(packings: pl.DataFrame) -> Figure:
    """Draw the relative error of GPA by requested frequency."""
    errors = {
        f"{overload:g}": ((base_cases(packings).filter(pl.col("test") == name)["q"] - overload) / overload).to_list()
        for name, overload in REQUESTED.items()
    }
    figure = new_figure(5.0, 4.0, "relative error of GPA; clairvoyance, capacity 1")
    ax = figure.subplots()
    boxes(ax, errors)
    ax.axhline(0.0, color="#4a4a4a", linewidth=0.8)
    ax.set(xlabel="requested frequency of overload ρ", ylabel="(q - ρ) / ρ")
    return figure


def figure_10(packings: pl.DataFrame) -> Figure:
    """Draw overload with samples and with averages observed."""
    both = averaged_beside_samples(packings)
    families = {"GPA": GPAS, "Cantelli": CANTELLI[:2], "av": MEANS}
    figure = new_figure(11.0, 4.0, "overload by observed samples (left of each pair) and averages (right)")
    for ax, (family, tests) in zip(figure.subplots(1, len(families)), families.items(), strict=True):
        of_family = both.filter(pl.col("test").is_in([test.name for test in tests]))
        for offset, name, colour in ((-0.2, "q", COLOURS[1]), (0.2, "q_averaged", COLOURS[0])):
            boxes(ax, _by_test(of_family, name), colour=colour, offset=offset)
        if family == "GPA":
            for place, overload in enumerate(REQUESTED.values()):
                ax.hlines(overload, place - 0.4, place + 0.4, color="black", linewidth=2)
        ax.tick_params(axis="x", rotation=30)
        ax.set(title=family, ylabel="q")
    return figure


def figure_11(packings: pl.DataFrame) -> Figure:
    """Draw overload by capacity, with and without rebalancing."""
    chosen = by_capacity(packings)
    figure = new_figure(11.0, 5.5, "overload by capacity, with rebalancing (above) and without (below)")
    axes = figure.subplots(2, len(BY_CAPACITY), sharey="col")
    for row, on in enumerate((True, False)):
        for ax, test in zip(axes[row], BY_CAPACITY, strict=True):
            of_panel = chosen.filter(pl.col("test") == test.name, pl.col("rebalanced") == on)
            boxes(ax, _by(of_panel, "capacity", "q"))
            ax.set(title=test.name, xlabel="capacity", ylabel="q")
            ax.set_ylim(bottom=0.0)
    return figure


def figure_12(packings: pl.DataFrame) -> Figure:
    """Draw overload by clairvoyance level."""
    chosen = by_clairvoyance(packings)
    figure = new_figure(11.0, 3.6, "overload by clairvoyance level")
    for ax, name in zip(figure.subplots(1, len(BY_CLAIRVOYANCE)), BY_CLAIRVOYANCE, strict=True):
        boxes(ax, _by(chosen.filter(pl.col("test") == name), "clairvoyance", "q"))
        ax.tick_params(axis="x", rotation=60)
        ax.set(title=name, xlabel="share observed", ylabel="q")
    return figure


def figure_13(packings: pl.DataFrame) -> Figure:
    """Draw the relative decrease of overload by rebalancing."""
    figure = new_figure(8.0, 4.0, "relative decrease of overload by rebalancing; capacity 1")
    ax = figure.subplots()
    boxes(ax, _by_test(rebalancing(packings), "gain"))
    ax.axhline(0.0, color="#4a4a4a", linewidth=0.8)
    ax.tick_params(axis="x", rotation=45)
    ax.set(ylabel="(q off - q on) / q off")
    return figure


def _by_test(frame: pl.DataFrame, values: str) -> dict[str, list[float]]:
    return {str(test): of_test[values].to_list() for (test,), of_test in frame.group_by("test", maintain_order=True)}


def _by(frame: pl.DataFrame, column: str, values: str) -> dict[str, list[float]]:
    """Return values by a column of numbers, ascending."""
    ordered = frame.sort(column).group_by(column, maintain_order=True)
    return {f"{key:g}": of_key[values].to_list() for (key,), of_key in ordered}
