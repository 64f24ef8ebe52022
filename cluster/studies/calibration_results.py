"""Scores of estimators, as predicted and recalibrated, their tables and plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from rich.table import Table

from cluster.console.tables import new_table
from cluster.plots.base import COLOURS, coloured, new_figure, use_open_axes
from cluster.studies.forecast_scores import NodePredictions, Scores, scores_of
from plb.risk import Recalibration

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
    recalibrated
        The scores of the same predictions, those of each repeat recalibrated by the other repeats; None with a single
        repeat.
    recalibration
        The map that fits all repeats.
    """

    workload: str
    label: str
    horizon: str
    outcome: str
    scores: Scores
    recalibrated: Scores | None
    recalibration: Recalibration

    @classmethod
    def of(cls, runs: Sequence[NodePredictions], **names: str) -> Scored:
        """Return the scores of the predictions of at least one repeat."""
        whole = NodePredictions.joined(runs)
        others = recalibrated_by_the_others(runs) if len(runs) > 1 else None
        return cls(
            **names,
            scores=scores_of(whole),
            recalibrated=None if others is None else scores_of(others),
            recalibration=Recalibration.fit(whole.probability, whole.occurred),
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {
            "scores": self.scores.as_json(),
            "recalibrated": None if self.recalibrated is None else self.recalibrated.as_json(),
            "recalibration": self.recalibration.to_json(),
        }
        return {**attrs.asdict(self, recurse=False), **values}


def recalibrated_by_the_others(runs: Sequence[NodePredictions]) -> NodePredictions:
    """Return the predictions of at least two repeats, each recalibrated by the map that fits the others.

    Repeats have other tenants and another history, so no outcome has any influence on its own prediction.
    """
    changed = []
    for place, run in enumerate(runs):
        others = NodePredictions.joined([*runs[:place], *runs[place + 1 :]])
        recalibration = Recalibration.fit(others.probability, others.occurred)
        changed.append(attrs.evolve(run, probability=recalibration(run.probability)))
    return NodePredictions.joined(changed)


def tables_of_scores(scored: Sequence[Scored]) -> list[Table]:
    """Return a table of all estimators on all workloads as predicted, and one recalibrated, if there are repeats.

    Parameters
    ----------
    scored
        Scores for one horizon and one kind of outcome.
    """
    title = f"calibration: violations within {scored[0].horizon}, {scored[0].outcome}"
    tables = [_table_of_scores(title, [(one, one.scores) for one in scored])]
    again = [(one, one.recalibrated) for one in scored if one.recalibrated is not None]
    return [*tables, _table_of_scores(f"{title}, recalibrated", again)] if again else tables


def _table_of_scores(title: str, scored: Sequence[tuple[Scored, Scores]]) -> Table:
    headings = ("workload", "estimator", "base rate", "Brier score", "skill", "calibration error")
    table = new_table(
        headings, texts=2, no_wrap=True, title=title, caption="with 95 % intervals from nodes of all repeats"
    )
    for workload in dict.fromkeys(one.workload for one, _ in scored):
        table.add_section()
        for place, (one, scores) in enumerate(other for other in scored if other[0].workload == workload):
            brier = "-" if scores.brier.value is None else f"{scores.brier.value:.4f}"
            figures = (scores.base_rate.text, brier, scores.skill.text, scores.calibration_error.text)
            table.add_row("" if place else workload, one.label, *figures)
    return table


def plot_reliability(ax: Axes, scored: Sequence[Scored]) -> None:
    """Draw the share of violations over the mean probability of each bin, with intervals; a line for each estimator."""
    for place, (one, colour) in enumerate(coloured(scored)):
        scores, style = one.scores, "o-" if place < len(COLOURS) else "s:"  # colours repeat
        some = np.flatnonzero(scores.samples)
        shares = np.array([scores.observed[place].value for place in some], np.float64)
        ax.plot(scores.predicted[some], shares, style, color=colour, linewidth=1.2, markersize=3.5, label=one.label)
        for bin_ in some.tolist():
            low, high = scores.observed[bin_].low, scores.observed[bin_].high
            if low is not None and high is not None:
                ax.vlines(scores.predicted[bin_], low, high, color=colour, linewidth=0.9, alpha=0.6)
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
