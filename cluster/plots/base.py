"""The plot of violations over time, and common parts of all plots: colours, short names and files.

Plots draw into a given `ax` and can be used alone. They use data frames of
`cluster.results.reading.Results.table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import polars as pl

from plb.array_types import Float
from workloads.writing import in_one_piece

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

DAY = 86400.0
COLOURS = ("#b5483a", "#2f6f9f", "#6a8f3c", "#8a5fa8", "#c58a2c", "#4a4a4a", "#3aa6a0")
DOTS_PER_INCH = 130
LEGEND: Mapping[str, Any] = {"frameon": False, "loc": "best", "fontsize": 8, "title_fontsize": 8}
MOST_LETTERS = 28
"""Length of a name at an axis."""
T = TypeVar("T")


def coloured(lines: Iterable[T]) -> Iterator[tuple[T, str]]:
    """Yield each line, or other item, with its colour; colours repeat if there are more lines."""
    return zip(lines, cycle(COLOURS), strict=False)


def shortened(names: Iterable[str]) -> list[str]:
    """Return names that fit at an axis: of long ones, the beginning."""
    return [name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…" for name in names]


def plot_violations(
    ax: Axes, shortages: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> None:
    """Draw the cumulative number of avoidable violations over time, a line a policy; mean and range over repeats.

    For a policy with unavoidable violations, a dashed line adds them.

    A line ends with the longest run of its policy. After the end of a run, the line is the mean of the others, so that
    it may decrease. The legend has the means of all runs at their ends.

    Parameters
    ----------
    shortages
        The table of that name.
    policies
        Policies in the order of their colours.
    lengths
        Days of the runs of each policy by repeat, from `cluster.results.reading.Results.lengths`.
    days
        Where the axis ends: days of the longest run.
    """
    violations = violations_of(shortages)
    avoidable = violations.filter(pl.col("avoidable"))
    totals = {}
    for policy, colour in coloured(policies):
        policy_violations = violations.filter(policy=policy)
        if len(policy_violations) > len(avoidable.filter(policy=policy)):
            times, counts, totals[policy] = _counts_of(policy_violations, lengths[policy], days)
            ax.step(times, np.nanmean(counts, axis=0), where="post", color=colour, linewidth=1.2, linestyle="--")
    line_of_policy = plot_counts(ax, avoidable, policies, lengths, days)
    ax.set_ylabel("violations so far")
    if totals:
        _name_all(ax, line_of_policy, totals)


def violations_of(shortages: pl.DataFrame) -> pl.DataFrame:
    """Return the violations, which are avoidable if the shortages of all their metrics are."""
    metric_violations = shortages.filter(pl.col("outcome") == "violation").group_by(
        "policy", "repeat", "time_s", "node"
    )
    return metric_violations.agg(pl.col("avoidable").all()).sort("policy", "repeat", "time_s", "node")


def _name_all(ax: Axes, lines: Mapping[str, Line2D], totals: Mapping[str, float]) -> None:
    """Add the dashed lines to the legend, and the mean of all violations to each name.

    `lines`: the line of avoidable violations of each policy; `totals`: mean of all violations, of the policies with a
    dashed line.
    """
    from matplotlib.lines import Line2D

    names = {policy: str(line.get_label()) for policy, line in lines.items()}
    names |= {policy: f"{names[policy].removesuffix(')')} of {total:.3g})" for policy, total in totals.items()}
    handles = [*lines.values(), Line2D([], [], color=COLOURS[5], linewidth=1.2, linestyle="--")]
    labels = [*names.values(), "with unavoidable ones"]
    ax.legend(handles, labels, title="policy (avoidable of all)", **LEGEND)


def plot_counts(
    ax: Axes, events: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> dict[str, Line2D]:
    """Draw the cumulative number of events over time, as `plot_violations` does, and return the line of each policy.

    Parameters
    ----------
    events
        A row an event, with ``policy``, ``repeat`` and ``time_s``.
    """
    from matplotlib.ticker import MaxNLocator

    lines = {}
    for policy, colour in coloured(policies):
        times, counts, mean_total = _counts_of(events.filter(pl.col("policy") == policy), lengths[policy], days)
        label, mean_counts = f"{policy} ({mean_total:.3g})", np.nanmean(counts, axis=0)
        (lines[policy],) = ax.step(times, mean_counts, where="post", color=colour, linewidth=1.8, label=label)
        if len(counts) > 1:
            low, high = np.nanmin(counts, axis=0), np.nanmax(counts, axis=0)
            ax.fill_between(times, low, high, step="post", color=colour, alpha=0.15)
    ax.set(xlabel="simulated time (days)", xlim=(0.0, days))
    ax.set_ylim(bottom=0.0, top=max(1.0, ax.get_ylim()[1]))
    ax.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    drawn_lines = list(lines.values())  # found by itself, a legend leaves out labels that begin with _
    ax.legend(drawn_lines, [str(line.get_label()) for line in drawn_lines], title="policy (total)", **LEGEND)
    use_open_axes(ax)
    return lines


def _counts_of(events: pl.DataFrame, ends: Mapping[int, float], days: float) -> tuple[Float, Float, float]:
    """Return times in days, (T,), the events until then by repeat, (repeats, T), and the mean of the totals.

    `events`: of one policy; `ends`: days of each repeat, after which its counts are NaN; `days`: the last time.
    """
    event_times = [np.sort(events.filter(pl.col("repeat") == repeat)["time_s"].to_numpy() / DAY) for repeat in ends]
    last_days = np.array(list(ends.values()))
    times = np.union1d(np.linspace(0.0, days, 500), last_days)
    times = times[times <= last_days.max()]
    counts = np.array([np.searchsorted(times_of_repeat, times, "right") for times_of_repeat in event_times], np.float64)
    counts[times > last_days[:, np.newaxis]] = np.nan
    return times, counts, float(np.mean([len(times_of_repeat) for times_of_repeat in event_times]))


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """Return an empty figure of a size in inches, with a title above all axes, in which ``$`` is a letter."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, parse_math=False)
    return figure


def new_axes(width: float, height: float, title: str = "") -> tuple[Figure, Axes]:
    """Return a new figure of a size in inches, and its only axes."""
    figure = new_figure(width, height, title)
    return figure, figure.subplots()


def new_panels(figure: Figure, count: int, columns: int) -> list[Axes]:
    """Return the axes of `count` panels of a figure, in rows of `columns`."""
    axes = figure.subplots(-(-count // columns), columns, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_visible(False)
    return list(axes[:count])


def draw_legend_below(figure: Figure, panel: Axes, columns: int = 3) -> None:
    """Draw the legend of one panel below all panels of a figure."""
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)


def use_open_axes(axes: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """Draw a pale grid along the axes `grid`, and no frame above and on the right."""
    axes.grid(axis=grid, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, in one piece, and return the path; equal figures give equal bytes."""
    with in_one_piece(path) as partial:
        figure.savefig(partial, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    return path
