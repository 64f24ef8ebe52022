"""Tables and plots of scores of estimators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from rich.table import Table

from cluster.console.tables import new_table
from cluster.plots.base import coloured, new_figure, use_open_axes
from cluster.studies.forecast_scores import Scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_INCHES = 3.4
MOST_COLUMNS = 3
"""Panels next to each other."""


@attrs.frozen(eq=False)
class Scored:
    """The scores of an estimator on a workload.

    Parameters
    ----------
    workload, label
        Names of the workload and of the estimator.
    horizon, outcome
        Within which time a violation counts, and how it is counted.
    scores
        The scores.
    """

    workload: str
    label: str
    horizon: str
    outcome: str
    scores: Scores

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**attrs.asdict(self, recurse=False), "scores": self.scores.as_json()}


def table_of_scores(scored: Sequence[Scored]) -> Table:
    """Return the scores of all estimators on all workloads, for one horizon and one kind of outcome."""
    first = scored[0]
    title = f"calibration: violations within {first.horizon}, {first.outcome}"
    headings = ("workload", "estimator", "base rate", "Brier score", "skill", "calibration error")
    table = new_table(
        headings, texts=2, no_wrap=True, title=title, caption="with 95 % intervals from nodes of all repeats"
    )
    for workload in dict.fromkeys(one.workload for one in scored):
        table.add_section()
        for place, one in enumerate(other for other in scored if other.workload == workload):
            scores = one.scores
            brier = "-" if scores.brier.value is None else f"{scores.brier.value:.4f}"
            figures = (scores.base_rate.text, brier, scores.skill.text, scores.calibration_error.text)
            table.add_row("" if place else workload, one.label, *figures)
    return table


def plot_reliability(ax: Axes, scored: Sequence[Scored]) -> None:
    """Draw the share of violations over the mean probability of each bin, with intervals; a line for each estimator."""
    for one, colour in coloured(scored):
        scores = one.scores
        some = np.flatnonzero(scores.samples)
        shares = np.array([scores.observed[place].value for place in some], np.float64)
        ax.plot(scores.predicted[some], shares, "o-", color=colour, linewidth=1.2, markersize=3.5, label=one.label)
        for place in some.tolist():
            low, high = scores.observed[place].low, scores.observed[place].high
            if low is not None and high is not None:
                ax.vlines(scores.predicted[place], low, high, color=colour, linewidth=0.9, alpha=0.6)
    ax.axline((0.0, 0.0), slope=1.0, color="#4a4a4a", linewidth=0.8, linestyle="--")
    ax.set(xlabel="predicted probability of a violation", ylabel="observed share of violations")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    use_open_axes(ax)


def figure_of_reliability(scored: Sequence[Scored]) -> Figure:
    """Return the reliability diagrams of all estimators, a panel for each workload."""
    workloads = list(dict.fromkeys(one.workload for one in scored))
    columns = min(math.ceil(math.sqrt(len(workloads))), MOST_COLUMNS)
    rows = -(-len(workloads) // columns)
    title = f"violations within {scored[0].horizon}; bars: 95 % intervals"
    figure = new_figure(max(5.6, columns * PANEL_INCHES), rows * PANEL_INCHES + 1.2, title)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, workload in zip(panels, workloads, strict=False):
        plot_reliability(ax, [one for one in scored if one.workload == workload])
        ax.set_title(workload, parse_math=False)
    for ax in panels[len(workloads) :]:
        ax.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure
