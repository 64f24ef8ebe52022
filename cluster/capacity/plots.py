"""The plot of a search: violations a day by nodes or density."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.capacity.answers import Answer
from cluster.capacity.question import Question, Searched
from cluster.plots import COLOURS, DOTS_PER_INCH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINEAR_BELOW = 1.0
"""Violations a day from which on the axis is logarithmic, where the limit is smaller."""


def plot_capacity(ax: Axes, question: Question, answers: Sequence[Answer]) -> None:
    """Draw the violations a day of each policy at every value that was tried, with 95 % intervals, and the limit.

    Filled points suffice; the largest ones are the answers. The axis of violations is logarithmic above the limit and
    linear below, where it reaches 0.

    Parameters
    ----------
    question
        What was asked.
    answers
        One a policy, in the order of their colours.
    """
    for answer, colour in zip(answers, COLOURS * len(answers), strict=False):
        points = sorted((one for one in answer.points if one.mean is not None), key=lambda one: one.value)
        values, means = [one.value for one in points], [one.mean or 0.0 for one in points]
        widths = [one.half_width or 0.0 for one in points]
        found = "" if answer.found is None else f" ({answer.found:g})"
        below = [min(width, mean) for width, mean in zip(widths, means, strict=True)]
        ax.errorbar(
            values, means, yerr=[below, widths], color=colour, linewidth=1.2, capsize=3, label=f"{answer.policy}{found}"
        )
        for one, mean in zip(points, means, strict=True):
            face, size = colour if one.suffices else "white", 10 if one.value == answer.found else 5
            ax.plot(one.value, mean, "o", color=colour, markerfacecolor=face, markersize=size, zorder=3)
    limit = question.violations
    ax.axhline(limit, color="#4a4a4a", linestyle="--", linewidth=1.0, label=f"limit {limit:g}")
    ax.set_yscale("symlog", linthresh=max(limit, LINEAR_BELOW))
    ax.set_ylim(bottom=0.0)
    name = "nodes" if question.searched is Searched.NODES else "tenant density"
    ax.set(xlabel=name, ylabel="violations a day")
    ax.legend(title="policy (answer)", frameon=False)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def save_capacity(path: Path, question: Question, answers: Sequence[Answer], title: str) -> None:
    """Write the plot to a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    plot_capacity(figure.subplots(), question, answers)
    figure.suptitle(f"{title}: capacity")
    figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Software": None})
