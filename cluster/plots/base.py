"""The plot of violations over time, and common parts of all plots: colours, line styles, names, axes and files.

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

from cluster.plots.formats import DATES, current_format, size_of
from plb.array_types import Float
from workloads.writing import in_one_piece

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

DAY = 86400.0
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#4a4a4a", "#56b4e9")
"""The colours of Okabe and Ito, which colour-blind people tell apart, without yellow, which is pale on white."""
LINE_STYLES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
"""Line styles; as many lines as these and the colours have combinations differ."""
GREY = COLOURS[5]
"""Colour of limits, axes and remarks."""
DOTS_PER_INCH = 130
POINTS_PER_INCH = 72.0
TWO_DECADES = 100.0
"""Range up to which a logarithmic axis has further numbers than powers of ten."""
LABEL_POINTS = 9.5
"""Least distance between the names of two lines."""
MOST_LETTERS = 28
"""Length of a name at an axis."""
T = TypeVar("T")


def coloured(lines: Iterable[T]) -> Iterator[tuple[T, str]]:
    """Yield each line, or other item, with its colour; colours repeat if there are more lines."""
    return zip(lines, cycle(COLOURS), strict=False)


def styled(lines: Iterable[T]) -> Iterator[tuple[T, dict[str, Any]]]:
    """Yield each line with its colour and its line style, as arguments of Matplotlib."""
    for (line, colour), style in zip(coloured(lines), cycle(LINE_STYLES), strict=False):
        yield line, {"color": colour, "linestyle": style}


def shortened(names: Iterable[str]) -> list[str]:
    """Return names that fit at an axis: long names are cut."""
    return [name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}…" for name in names]


def plot_violations(
    ax: Axes, shortages: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> None:
    """Draw the cumulative number of avoidable violations over time, a line a policy; mean and range over repeats.

    For a policy with unavoidable violations, a thin line shows all.

    A line ends with the longest run of its policy. After the end of a run, the line is the mean of the others, so that
    it may decrease. The names of the lines have the means of all runs at their ends.

    `shortages`: the table of that name; `policies`: in the order of their colours; `lengths`: days of the runs of each
    policy by repeat, from `cluster.results.reading.Results.lengths`; `days`: where the axis ends, days of the longest.
    """
    violations = violations_of(shortages)
    avoidable = violations.filter(pl.col("avoidable"))
    lines = _draw_counts(ax, avoidable, policies, lengths, days)
    for policy, style in styled(policies):
        policy_violations = violations.filter(policy=policy)
        if len(policy_violations) > len(avoidable.filter(policy=policy)):
            times, counts, total = _counts_of(policy_violations, lengths[policy], days)
            name = f"{policy}, all {total:.3g}"
            (lines[name],) = ax.step(times, np.nanmean(counts, axis=0), where="post", linewidth=0.8, **style)
    ax.set_ylabel("violations so far")
    remarks = ["thick: avoidable, thin: all"] if len(lines) > len(policies) else []
    _finish_counts(ax, lines, days, [*remarks, *_remarks(lengths)])


def violations_of(shortages: pl.DataFrame) -> pl.DataFrame:
    """Return the violations, which are avoidable if the shortages of all their metrics are."""
    metric_violations = shortages.filter(pl.col("outcome") == "violation").group_by(
        "policy", "repeat", "time_s", "node"
    )
    return metric_violations.agg(pl.col("avoidable").all()).sort("policy", "repeat", "time_s", "node")


def plot_counts(
    ax: Axes, events: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> None:
    """Draw the cumulative number of events over time, as `plot_violations` does.

    `events`: a row an event, with ``policy``, ``repeat`` and ``time_s``.
    """
    _finish_counts(ax, _draw_counts(ax, events, policies, lengths, days), days, _remarks(lengths))


def _draw_counts(
    ax: Axes, events: pl.DataFrame, policies: Sequence[str], lengths: Mapping[str, Mapping[int, float]], days: float
) -> dict[str, Line2D]:
    """Draw the lines and bands of `plot_counts`, and return the lines by name."""
    lines = {}
    for policy, style in styled(policies):
        times, counts, mean_total = _counts_of(events.filter(pl.col("policy") == policy), lengths[policy], days)
        mean_counts = np.nanmean(counts, axis=0)
        (lines[f"{policy} {mean_total:.3g}"],) = ax.step(times, mean_counts, where="post", linewidth=1.8, **style)
        if len(counts) > 1:
            low, high = np.nanmin(counts, axis=0), np.nanmax(counts, axis=0)
            ax.fill_between(times, low, high, step="post", color=style["color"], alpha=0.12, linewidth=0)
    return lines


def _remarks(lengths: Mapping[str, Mapping[int, float]]) -> list[str]:
    """Return what lines and bands are, if there are repeats."""
    repeats = max(map(len, lengths.values()), default=0)
    return [f"lines: means of {repeats} repeats", "bands: their least to their most"] if repeats > 1 else []


def _finish_counts(ax: Axes, lines: Mapping[str, Line2D], days: float, remarks: Sequence[str]) -> None:
    """Set the axes of counts over time, name the lines, and write remarks into the upper left corner."""
    from matplotlib.ticker import MaxNLocator

    ax.set(xlabel="simulated time (days)", xlim=(0.0, days))
    ax.set_ylim(bottom=0.0, top=max(1.0, ax.get_ylim()[1]))
    ax.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    use_open_axes(ax)
    ax.text(0.02, 0.98, "\n".join(remarks), transform=ax.transAxes, va="top", fontsize="x-small", color=GREY)
    label_lines(ax, lines)


def label_lines(ax: Axes, lines: Mapping[str, Line2D]) -> None:
    """Write the name of each line at its end, in its colour, on the right of axes with final limits.

    Names of lines that end near each other stand one above the other.
    """
    figure: Any = ax.figure
    height = ax.get_position().height * figure.get_figheight() * POINTS_PER_INCH
    low, high = ax.get_ylim()
    ends = {name: float(np.asarray(line.get_ydata())[-1]) for name, line in lines.items()}
    places = {name: (end - low) / (high - low) * height for name, end in ends.items()}
    least = -np.inf
    for name in sorted(places, key=places.__getitem__):
        place = max(places[name], least)
        least = place + LABEL_POINTS
        ax.annotate(
            name,
            (1.0, ends[name]),
            xytext=(4.0, place - places[name]),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=lines[name].get_color(),
            parse_math=False,
            annotation_clip=False,
        )


def use_log_axis(ax: Axes, name: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with plain numbers at its ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.set(**{f"{name}scale": "log"})
    axis = ax.xaxis if name == "x" else ax.yaxis
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < TWO_DECADES * low else (1.0,)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


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
    """Return an empty figure of a size in inches, with a title above all axes, in which ``$`` is a letter.

    In the formats of papers it has the width of a column or a page, and less height.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_of(width, height), layout="constrained")
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
    """Write a figure in one piece, in the format of `plots_as`, and return the path; equal figures give equal bytes.

    `path`: with the suffix ``.png``, which another format replaces.
    """
    plot_format = current_format()
    path = path.with_suffix(f".{plot_format}")
    with in_one_piece(path) as partial:
        figure.savefig(partial, dpi=DOTS_PER_INCH, format=plot_format, metadata={DATES[plot_format]: None})
    return path
