"""The plot of a search: violations a day by nodes or density."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.capacity.question import Question, Searched
from cluster.capacity.search_results import Answer
from cluster.plots.base import coloured, new_figure, save_figure, use_open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINEAR_BELOW = 1.0
"""Least number of violations a day up to which the axis is linear."""
LOGARITHMIC_FROM = 10.0
"""Factor above the end of the linear range from which the axis is logarithmic."""


def plot_capacity(ax: Axes, question: Question, answers: Sequence[Answer]) -> None:
    """Draw the violations a day of each policy at every value that was tried, with 95 % intervals, and the limit.

    Filled points suffice; the largest ones are the answers. With very many violations, their axis is logarithmic above
    the limit.

    Parameters
    ----------
    question
        The question.
    answers
        Answers of the policies, in the order of their colours.
    """
    from matplotlib.ticker import MaxNLocator

    for answer, colour in coloured(answers):
        points = sorted((one for one in answer.points if one.mean is not None), key=lambda one: one.value)
        values, means = [one.value for one in points], [one.mean or 0.0 for one in points]
        widths = [one.half_width or 0.0 for one in points]
        found = "" if answer.found is None else f" ({answer.found:g})"
        below = [min(width, mean) for width, mean in zip(widths, means, strict=True)]
        ax.plot(values, means, color=colour, linewidth=1.4, label=f"{answer.policy}{found}")
        ax.errorbar(values, means, yerr=[below, widths], color=colour, fmt="none", elinewidth=1.0, capsize=4, alpha=0.5)
        for one, mean in zip(points, means, strict=True):
            face, size = colour if one.suffices else "white", 10 if one.value == answer.found else 5
            ax.plot(one.value, mean, "o", color=colour, markerfacecolor=face, markersize=size, zorder=3)
    limit = question.violations
    ax.axhline(limit, color="#4a4a4a", linestyle="--", linewidth=1.0, label=f"limit {limit:g}")
    most = max((point.mean or 0.0 for answer in answers for point in answer.points), default=0.0)
    linear = max(limit, LINEAR_BELOW)
    if most > LOGARITHMIC_FROM * linear:
        ax.set_yscale("symlog", linthresh=linear)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(bottom=0.0)
    of_nodes = question.searched is Searched.NODES
    ax.xaxis.set_major_locator(MaxNLocator(integer=of_nodes))
    ax.set(xlabel="nodes" if of_nodes else "tenant density", ylabel="violations a day")
    ax.legend(title="policy (answer)", frameon=False)
    use_open_axes(ax)


def save_capacity(path: Path, question: Question, answers: Sequence[Answer], title: str) -> None:
    """Write the plot to a file."""
    figure = new_figure(7.5, 4.2, f"{title}: capacity")
    plot_capacity(figure.subplots(), question, answers)
    save_figure(figure, path)
