"""Scores of predicted probabilities, with intervals: Brier score, skill, expected calibration error, reliability.

Predictions for one node of a run depend on each other: its replicas stay. So an interval comes from nodes that are
drawn with replacement, each with all its predictions (the cluster bootstrap). S predictions, C nodes of runs, B bins,
Q resamples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np
from rich.table import Table

from cluster.plots.base import GREY, draw_legend_below, new_figure, new_panels, styled, use_open_axes
from cluster.results.intervals import RESAMPLES, bootstrap_ends
from cluster.tables import new_table
from plb.array_types import Bool, Float, Int
from plb.risk import Recalibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 10
"""Number of bins of the probability, all of the same width."""
LEAST_RESAMPLES = RESAMPLES // 2
"""A score that fewer resamples have has no interval: without any violation there is no skill."""


@attrs.frozen(eq=False)
class NodePredictions:
    """Predicted probabilities of a violation, and what happened."""

    probability: Float
    """(S,) in [0, 1]."""
    occurred: Bool
    """(S,) whether a violation followed."""
    node: Int
    """(S,) number of the node of a run. Predictions for the same node are not independent."""

    @classmethod
    def joined(cls, runs: Sequence[NodePredictions]) -> NodePredictions:
        """Return the predictions of several runs as one; nodes of different runs are different."""
        probability = np.concatenate([np.zeros(0), *(run.probability for run in runs)])
        occurred = np.concatenate([np.zeros(0, np.bool_), *(run.occurred for run in runs)])
        node_counts = [int(run.node.max(initial=-1)) + 1 for run in runs]
        first_node = np.cumsum([0, *node_counts])[: len(runs)].tolist()
        node = np.concatenate(
            [np.zeros(0, np.int64), *(run.node + offset for run, offset in zip(runs, first_node, strict=True))]
        )
        return cls(probability, occurred, node)


@attrs.frozen
class ScoreEstimate:
    """A score and its 95 % interval."""

    value: float | None
    """The score; None if it is undefined."""
    low: float | None
    high: float | None
    """Ends of the interval; None with a single node, if too few resamples have the score, and if the score is the same
    in all of them: nodes without any violation do not say how rare a violation is.
    """

    @property
    def text(self) -> str:
        """The score with its interval, for a table."""
        if self.value is None:
            return "-"
        ends = "" if self.low is None or self.high is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.value:.3f}{ends}"


@attrs.frozen(eq=False)
class Scores:
    """The scores of an estimator."""

    predictions: int
    """Number of predictions."""
    nodes: int
    """Number of nodes; a node counts once for each run."""
    base_rate: ScoreEstimate
    """Share of the predictions after which a violation occurred."""
    brier: ScoreEstimate
    """Mean squared difference between probability and outcome."""
    skill: ScoreEstimate
    """1 - Brier score / Brier score of the base rate as a constant prediction. 1 is perfect; 0 is no better than the
    base rate. Undefined if no prediction is followed by a violation, and if all are.
    """
    calibration_error: ScoreEstimate
    """Expected calibration error: the difference between mean probability and share of violations of a bin, averaged
    over the predictions.
    """
    samples: Int
    """(B,) number of predictions by bin of the probability."""
    predicted: Float
    """(B,) mean probability of the predictions by bin; NaN without any."""
    observed: tuple[ScoreEstimate, ...]
    """By bin, the share of the predictions after which a violation occurred."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, those of bins under ``by_bin``; null in a bin without predictions."""
        plain = attrs.asdict(self)
        samples, predicted, observed = (plain.pop(name) for name in ("samples", "predicted", "observed"))
        means = [None if np.isnan(value) else float(value) for value in predicted]
        return {**plain, "by_bin": {"samples": samples.tolist(), "predicted": means, "observed": [*observed]}}


class _Sums(NamedTuple):
    """Sums over predictions, by node or by resample; all scores follow from them."""

    error: Float
    """(C,) or (Q,) squared errors."""
    samples: Float
    """(C, B) or (Q, B) numbers of predictions by bin."""
    predicted: Float
    """(C, B) or (Q, B) sums of probabilities by bin."""
    occurred: Float
    """(C, B) or (Q, B) numbers of violations by bin."""


def scores_of(predictions: NodePredictions) -> Scores:
    """Return the scores of at least one prediction; the intervals are the same for equal predictions."""
    nodes, node_index = np.unique(predictions.node, return_inverse=True)
    sums_of_nodes = _sums_of(predictions, node_index, len(nodes))
    weights = np.random.default_rng(0).multinomial(len(nodes), np.full(len(nodes), 1.0 / len(nodes)), RESAMPLES)
    all_sums = _Sums(*(sums.sum(axis=0, keepdims=True) for sums in sums_of_nodes))
    resampled = _Sums(*(weights @ sums for sums in sums_of_nodes))
    scores, resampled_scores = _scores(all_sums), _scores(resampled)
    estimates = {name: _estimate(scores[name][0], resampled_scores[name], len(nodes)) for name in scores}
    with np.errstate(invalid="ignore"):
        observed, resampled_shares = all_sums.occurred[0] / all_sums.samples[0], resampled.occurred / resampled.samples
        predicted = all_sums.predicted[0] / all_sums.samples[0]
    return Scores(
        len(node_index),
        len(nodes),
        **estimates,
        samples=all_sums.samples[0].astype(np.int64),
        predicted=predicted,
        observed=tuple(
            _estimate(share, resampled_shares[:, bin_index], len(nodes)) for bin_index, share in enumerate(observed)
        ),
    )


def _sums_of(predictions: NodePredictions, node: Int, nodes: int) -> _Sums:
    """Return the sums over the predictions of each of `nodes` nodes, (C,); `node`: (S,) index of the node."""
    bins = np.minimum((predictions.probability * BINS).astype(np.int64), BINS - 1)
    node_and_bin, shape = node * BINS + bins, (nodes, BINS)
    error = np.square(predictions.probability - predictions.occurred)
    ones, occurred = np.ones(len(node)), predictions.occurred.astype(np.float64)
    samples, predicted, violated = (
        np.bincount(node_and_bin, weights, nodes * BINS).astype(np.float64).reshape(shape)
        for weights in (ones, predictions.probability, occurred)
    )
    return _Sums(np.bincount(node, error, nodes).astype(np.float64), samples, predicted, violated)


def _scores(sums: _Sums) -> dict[str, Float]:
    """Return the scores by name, each of shape (Q,), from sums by resample; NaN where a score is undefined."""
    predictions = sums.samples.sum(axis=1)
    base_rate = sums.occurred.sum(axis=1) / predictions
    brier = sums.error / predictions
    calibration_error = np.abs(sums.predicted - sums.occurred).sum(axis=1) / predictions
    variance = base_rate * (1.0 - base_rate)
    skill = 1.0 - np.divide(brier, variance, out=np.full(len(predictions), np.nan), where=variance > 0.0)
    return {"base_rate": base_rate, "brier": brier, "skill": skill, "calibration_error": calibration_error}


def _estimate(value: float, resampled: Float, nodes: int) -> ScoreEstimate:
    """Return a score with its interval from its values in resamples, (Q,); undefined values are left out.

    `nodes`: number of nodes.
    """
    if np.isnan(value):
        return ScoreEstimate(None, None, None)
    defined = resampled[~np.isnan(resampled)]
    if nodes < 2 or len(defined) < LEAST_RESAMPLES:
        return ScoreEstimate(float(value), None, None)
    low, high = bootstrap_ends(defined)
    return ScoreEstimate(float(value), None, None) if low == high else ScoreEstimate(float(value), low, high)


PANEL_INCHES = 3.4
MOST_COLUMNS = 3
"""Panels next to each other."""


@attrs.frozen(eq=False)
class Scored:
    """The scores of an estimator on a workload."""

    workload: str
    """Name of the workload."""
    label: str
    """Name of the estimator."""
    horizon: str
    """Label of the time within which a violation counts."""
    outcome: str
    """How a violation is counted (`cluster.studies.calibration.study.OUTCOMES`)."""
    scores: Scores
    """The scores."""
    recalibrated: Scores | None
    """The scores of the predictions, each repeat recalibrated by the other repeats; None with a single repeat."""
    recalibration: Recalibration
    """The map that fits all repeats."""

    @classmethod
    def of(cls, runs: Sequence[NodePredictions], **names: str) -> Scored:
        """Return the scores of the predictions of at least one repeat.

        `names`: the fields `workload`, `label`, `horizon` and `outcome`.
        """
        predictions = NodePredictions.joined(runs)
        recalibrated = recalibrated_by_the_others(runs) if len(runs) > 1 else None
        return cls(
            **names,
            scores=scores_of(predictions),
            recalibrated=None if recalibrated is None else scores_of(recalibrated),
            recalibration=Recalibration.fit(predictions.probability, predictions.occurred),
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
    """Return the predictions of at least two repeats, each recalibrated by the map that fits the others."""
    recalibrated_runs = []
    for index, run in enumerate(runs):
        other_runs = NodePredictions.joined([*runs[:index], *runs[index + 1 :]])
        recalibration = Recalibration.fit(other_runs.probability, other_runs.occurred)
        recalibrated_runs.append(attrs.evolve(run, probability=recalibration(run.probability)))
    return NodePredictions.joined(recalibrated_runs)


def tables_of_scores(scored: Sequence[Scored]) -> list[Table]:
    """Return a table of scores of one horizon and kind of outcome, and one of recalibrated scores if there are any."""
    title = f"calibration: violations within {scored[0].horizon}, {scored[0].outcome}"
    tables = [_table_of_scores(title, [(row, row.scores) for row in scored])]
    recalibrated = [(row, row.recalibrated) for row in scored if row.recalibrated is not None]
    return [*tables, _table_of_scores(f"{title}, recalibrated", recalibrated)] if recalibrated else tables


def _table_of_scores(title: str, scored: Sequence[tuple[Scored, Scores]]) -> Table:
    """Return a table of scores, a row for each estimator and workload."""
    headings = ("workload", "estimator", "base rate", "Brier score", "skill", "calibration error")
    table = new_table(
        headings, texts=2, no_wrap=True, title=title, caption="with 95 % intervals from nodes of all repeats"
    )
    for workload in dict.fromkeys(estimator.workload for estimator, _ in scored):
        table.add_section()
        for index, (estimator, scores) in enumerate(row for row in scored if row[0].workload == workload):
            brier = "-" if scores.brier.value is None else f"{scores.brier.value:.4f}"
            figures = (scores.base_rate.text, brier, scores.skill.text, scores.calibration_error.text)
            table.add_row("" if index else workload, estimator.label, *figures)
    return table


def plot_reliability(ax: Axes, scored: Sequence[Scored]) -> None:
    """Draw the share of violations over the mean probability of each bin, with intervals; a line for each estimator."""
    for estimator, style in styled(scored):
        scores = estimator.scores
        filled_bins = np.flatnonzero(scores.samples)
        shares = np.array([scores.observed[index].value for index in filled_bins], np.float64)
        ax.plot(
            scores.predicted[filled_bins],
            shares,
            marker="o",
            linewidth=1.2,
            markersize=3.5,
            label=estimator.label,
            **style,
        )
        for bin_ in filled_bins.tolist():
            low, high = scores.observed[bin_].low, scores.observed[bin_].high
            if low is not None and high is not None:
                ax.vlines(scores.predicted[bin_], low, high, color=style["color"], linewidth=0.9, alpha=0.6)
    ax.axline((0.0, 0.0), slope=1.0, color=GREY, linewidth=0.8, linestyle="--")
    ax.set(xlabel="predicted probability of a violation", ylabel="observed share of violations")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    use_open_axes(ax)


def figure_of_reliability(scored: Sequence[Scored]) -> Figure:
    """Return the reliability diagrams of all estimators, a panel for each workload."""
    workloads = list(dict.fromkeys(row.workload for row in scored))
    columns = min(math.ceil(math.sqrt(len(workloads))), MOST_COLUMNS)
    rows = -(-len(workloads) // columns)
    title = f"violations within {scored[0].horizon}; bars: 95 % intervals"
    figure = new_figure(max(5.6, columns * PANEL_INCHES), rows * PANEL_INCHES + 1.2, title)
    panels = new_panels(figure, len(workloads), columns)
    for ax, workload in zip(panels, workloads, strict=True):
        plot_reliability(ax, [row for row in scored if row.workload == workload])
        ax.set_title(workload, parse_math=False)
    draw_legend_below(figure, panels[0])
    return figure
