"""Plots of trainings and evaluations. Each draws into a given `ax` and can be used alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cluster.learning.evaluation import LEARNED, EvaluationResult
from cluster.learning.metrics import figure
from cluster.plots.base import COLOURS, coloured, new_figure, save_figure, use_open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from plb.learning.checkpoints import CurveRow

SHOWN = ("reward", "over_use", "machines", "utilisation", "fragmentation", "wait")
"""Figures in the plot of `save_evaluation`."""


def plot_curve(ax: Axes, curves: Mapping[str, Sequence[CurveRow]]) -> None:
    """Draw the mean reward of each iteration, the range of its trajectories, and a mean over ten iterations.

    Parameters
    ----------
    curves
        Rows by stage, in the order of the stages.
    """
    first = 0
    for (stage, curve), colour in coloured(curves.items()):
        iterations = first + np.arange(1, len(curve) + 1)
        reward = np.array([row.reward for row in curve])
        low, high = np.array([row.lowest for row in curve]), np.array([row.highest for row in curve])
        ax.fill_between(iterations, low, high, color=colour, alpha=0.12, linewidth=0)
        ax.plot(iterations, reward, color=colour, linewidth=0.7, alpha=0.6)
        kernel = min(10, len(curve))
        smooth = np.convolve(reward, np.ones(kernel) / kernel, mode="valid")
        ax.plot(iterations[kernel - 1 :], smooth, color=colour, linewidth=1.8, label=stage)
        first += len(curve)
    ax.set(xlabel="iteration", ylabel="reward of a job sequence")
    ax.legend(frameon=False, loc="lower right")
    use_open_axes(ax)


def plot_figure(ax: Axes, evaluation: EvaluationResult, name: str) -> None:
    """Draw the mean of one figure for every policy, with its 95 % interval.

    Parameters
    ----------
    evaluation
        The policies on the same job sequences.
    name
        Name of the figure; see `cluster.learning.metrics.FIGURES`.
    """
    policies = list(evaluation.figures)
    intervals = [evaluation.interval(policy, name) for policy in policies]
    place = np.arange(len(policies))[::-1]
    colours = [COLOURS[0] if policy == LEARNED else COLOURS[1] for policy in policies]
    means, halves = [one.mean for one in intervals], [one.half_width or 0.0 for one in intervals]
    ax.barh(place, means, color=colours, height=0.7)
    ax.errorbar(means, place, xerr=halves, fmt="none", ecolor="#222222", elinewidth=1.0, capsize=2.0)
    ax.set_yticks(place, policies)
    ax.set_title(figure(name).heading, parse_math=False)
    use_open_axes(ax, "x")


def save_curve(path: Path, curves: Mapping[str, Sequence[CurveRow]], title: str) -> None:
    """Write the curves of a training to a file."""
    figure = new_figure(8.0, 4.5)
    ax = figure.subplots()
    plot_curve(ax, curves)
    ax.set_title(title, parse_math=False)
    save_figure(figure, path)


def save_evaluation(path: Path, evaluation: EvaluationResult, title: str) -> None:
    """Write the figures of all policies to a file, side by side."""
    text = f"{title}: {evaluation.machines} machines, {evaluation.sequences} job sequences"
    figure = new_figure(13.0, 7.0, text)
    for ax, name in zip(figure.subplots(2, 3, sharey=True).flat, SHOWN, strict=True):
        plot_figure(ax, evaluation, name)
    save_figure(figure, path)
