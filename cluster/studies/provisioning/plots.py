"""Plots that correspond to figures 3 to 7 of [3]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cluster.plots.base import COLOURS, new_figure
from cluster.studies.provisioning.design import OF_CURVES, OF_DENSITIES, AlgorithmArm, PublishedFigure, arms, rules_of
from cluster.studies.provisioning.figures import GroupMeans, Mean, average
from cluster.studies.provisioning.published import PublishedMeans
from plb.provisioning import AUTO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP*XhH"
MEASURES = (("% above the lower bound", "linear", "deviation"), ("seconds", "log", "seconds"))
"""Label and scale of the vertical axis, and its mean."""


def plots(groups: Sequence[GroupMeans], published: PublishedMeans) -> dict[str, Callable[[], Figure]]:
    """Return the plots of the figures with finished runs by file name."""
    found: dict[str, Callable[[], Figure]] = {}
    for figure in PublishedFigure:
        of_figure = [one for one in groups if one.group.figure is figure]
        if of_figure:
            found[f"figure{figure.value}.png"] = partial(by_axis, figure, of_figure)
        if of_figure and figure is PublishedFigure.DENSITIES:
            found["figure3.png"] = partial(trade_off, of_figure, published)
    return found


def trade_off(groups: Sequence[GroupMeans], published: PublishedMeans) -> Figure:
    """Draw mean deviation over mean seconds of all groups. Filled markers are ours, hollow ones those of [3]."""
    plot = new_figure(8.5, 5.0, "deviation and time, constant demand, all densities (hollow: the paper's)")
    ax = plot.subplots()
    algorithms = list(dict.fromkeys(arm.algorithm for arm in groups[0].means))
    for arm in groups[0].means:
        number = algorithms.index(arm.algorithm)
        style = {"color": COLOURS[number % len(COLOURS)], "markersize": 7.0, "linestyle": "none"}
        marker = MARKERS[number % len(MARKERS)]
        ours = average([one.means[arm] for one in groups])
        leading = arm.rules is rules_of(PublishedFigure.DENSITIES)[0] or arm.algorithm == AUTO
        label = arm.algorithm if leading else None
        ax.plot([ours.seconds], [ours.deviation], marker, label=label, alpha=1.0 if leading else 0.45, **style)  # type: ignore[arg-type]
        of_paper = [published.of(one.group, arm.algorithm) for one in groups]
        known = [Mean(t.deviation.value, t.seconds.value) for t in of_paper if t.deviation and t.seconds]
        if known and leading:
            paper = average(known)
            ax.plot([paper.seconds], [paper.deviation], marker, fillstyle="none", **style)  # type: ignore[arg-type]
    ax.set(xscale="log", xlabel="seconds (pale: by the paper's text, else by the released programs' rules)")
    ax.set(ylabel=MEASURES[0][0])
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.grid(alpha=0.25)
    return plot


def by_axis(figure: PublishedFigure, groups: Sequence[GroupMeans]) -> Figure:
    """Draw deviation and seconds by density or number of applications, a column for each graph."""
    graphs = list(dict.fromkeys(one.group.graph for one in groups))
    what = "demand that varies" if figure in OF_CURVES else "constant demand"
    plot = new_figure(4.2 * len(graphs) + 2.6, 6.0, what)
    axes = plot.subplots(2, len(graphs), squeeze=False, sharey="row", sharex=True)
    rules = rules_of(figure)[0]
    shown = [arm for arm in arms(figure) if arm.rules is rules or arm.algorithm == AUTO]
    for column, graph in enumerate(graphs):
        of_graph = [one for one in groups if one.group.graph is graph]
        for row, (label, scale, measure) in enumerate(MEASURES):
            ax = axes[row, column]
            _lines(ax, of_graph, shown, figure, measure)
            ax.set(yscale=scale, title=f"{graph.value} graph, rules: {rules.value}" if row == 0 else "")
            ax.set_ylabel(label if column == 0 else "")
            ax.grid(alpha=0.25)
            if row == 1:
                ax.set_xlabel("density of limits (%)" if figure in OF_DENSITIES else "applications")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    plot.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    return plot


def _lines(
    ax: Axes, groups: Sequence[GroupMeans], shown: Sequence[AlgorithmArm], figure: PublishedFigure, measure: str
) -> None:
    def place(one: GroupMeans) -> float:
        return 100.0 * one.group.density if figure in OF_DENSITIES else float(one.group.applications or 0)

    ordered = sorted(groups, key=place)
    places = [place(one) for one in ordered]
    for number, arm in enumerate(shown):
        values = [getattr(one.means[arm], measure) for one in ordered]
        ax.plot(
            places,
            values,
            marker=MARKERS[number % len(MARKERS)],
            color=COLOURS[number % len(COLOURS)],
            linestyle="-" if number < len(COLOURS) else "--",
            linewidth=1.2,
            markersize=5,
            label=arm.algorithm,
        )
    ax.set_xticks(places, [f"{value:g}" for value in places])
