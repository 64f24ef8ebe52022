"""The plot of the properties of a trace: six panels. Each function draws into a given `ax`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cluster.plots.base import COLOURS, GREY, coloured, new_figure, save_figure, styled, use_log_axis, use_open_axes
from plb.array_types import Float
from workloads.trace_description import DAY, HOUR, HOURS, TENTHS, TraceDescription

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES_SHOWN = 10


def plot_tenants(ax: Axes, trace: TraceDescription) -> None:
    """Draw the number of tenants over time, or the number that reach an age if the trace does not have their starts."""
    start = np.zeros(len(trace.lifetime_hours)) if trace.start_hours is None else trace.start_hours
    steps = np.rint(np.concatenate([start, start + trace.lifetime_hours]) * HOUR / trace.step_seconds)
    edges, edge_of_step = np.unique(steps, return_inverse=True)
    changes = np.bincount(edge_of_step, np.repeat([1, -1], len(start)))
    days = edges * trace.step_seconds / DAY
    ax.step(days, np.cumsum(changes), where="post", color=COLOURS[1], linewidth=1.2)
    x_label = "age (days)" if trace.start_hours is None else "time since the origin (days)"
    _finish(ax, "tenants alive", x_label, "tenants")
    ax.set_ylim(bottom=0.0)


def plot_lifetimes(ax: Axes, trace: TraceDescription) -> None:
    """Draw the distribution of lifetimes: of tenants that ended, and of tenants that the trace cut."""
    for label, in_group, colour in (
        ("ended", ~trace.censored, COLOURS[1]),
        ("cut by the trace", trace.censored, COLOURS[0]),
    ):
        if in_group.any():
            lives = trace.lifetime_hours[in_group]
            _distribution(ax, lives, f"{label} ({len(lives):,})", colour)
    use_log_axis(ax, "x")
    _finish(ax, "lifetimes", "hours", "share of the tenants")
    ax.legend(fontsize=8, framealpha=0.8, edgecolor="none")


def plot_classes(ax: Axes, trace: TraceDescription) -> None:
    """Draw the tenants of the largest classes."""
    names, counts = np.unique(trace.tenant_class, return_counts=True)
    largest_first = np.argsort(-counts, kind="stable")
    named = largest_first[:CLASSES_SHOWN]
    labels, bars = names[named].tolist(), counts[named].tolist()
    if len(largest_first) > CLASSES_SHOWN:
        labels.append(f"{len(largest_first) - CLASSES_SHOWN} others")
        bars.append(int(counts[largest_first[CLASSES_SHOWN:]].sum()))
    positions = np.arange(len(bars))[::-1]
    ax.barh(positions, bars, color=COLOURS[1], height=0.7)
    ax.set_yticks(positions, labels, fontsize=8)
    _finish(ax, "classes", "tenants", "")


def plot_usage(ax: Axes, trace: TraceDescription) -> None:
    """Draw the distribution over the series of mean and peak usage relative to MaxUsage."""
    for figures, colour in coloured(trace.metrics):
        if len(figures.mean_shares):
            _distribution(ax, figures.mean_shares, f"{figures.metric.name}, mean", colour)
            _distribution(ax, figures.peak_shares, f"{figures.metric.name}, peak", colour, style="--")
    _finish(ax, "usage against request", "usage / MaxUsage", "share of the series")
    ax.set_xlim(0.0, 1.02)
    ax.legend(fontsize=8, framealpha=0.8, edgecolor="none")


def plot_growth(ax: Axes, trace: TraceDescription) -> None:
    """Draw the mean usage by MaxUsage over a tenant's life."""
    middles = (np.arange(TENTHS) + 0.5) * 100.0 / TENTHS
    for figures, style in styled(trace.metrics):
        ax.plot(middles, figures.life, marker="o", markersize=3, label=figures.metric.name, **style)
    _finish(ax, "growth", "age (% of the life)", "mean usage / MaxUsage")
    ax.set(xlim=(0.0, 100.0))
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize=8)


def plot_days(ax: Axes, trace: TraceDescription) -> None:
    """Draw the mean usage by hour of the day."""
    for figures, style in styled(trace.metrics):
        ax.plot(np.arange(HOURS) + 0.5, figures.daily, marker="o", markersize=3, label=figures.metric.name, **style)
    ax.axhline(1.0, color=GREY, linewidth=0.8)
    x_label = (
        "hour since creation, modulo a day" if trace.start_hours is None else "hour since the origin, modulo a day"
    )
    _finish(ax, "daily shape", x_label, "usage / mean usage")
    ax.set(xlim=(0.0, HOURS), xticks=range(0, HOURS + 1, 6))
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False, fontsize=8, loc="lower right")


def save_description(path: Path, trace: TraceDescription, title: str) -> Path:
    """Draw all panels into one PNG file, and return its path."""
    figure = new_figure(13.0, 7.2, title)
    axes = figure.subplots(2, 3).ravel()
    panels = (plot_tenants, plot_lifetimes, plot_classes, plot_usage, plot_growth, plot_days)
    for ax, panel in zip(axes, panels, strict=True):
        panel(ax, trace)
    return save_figure(figure, path)


def _distribution(ax: Axes, values: Float, label: str, colour: str, *, style: str = "-") -> None:
    """Draw the share of `values`, (n,), that is at most x, as a step from 0 to 1."""
    shares: Sequence[float] = np.arange(1, len(values) + 1) / len(values)  # type: ignore[assignment]
    ordered = np.sort(values)
    ax.step(
        np.concatenate([ordered[:1], ordered]),
        np.concatenate([[0.0], shares]),
        where="post",
        color=colour,
        linestyle=style,
        linewidth=1.3,
        label=label,
    )
    ax.set_ylim(0.0, 1.0)


def _finish(ax: Axes, title: str, x_label: str, y_label: str) -> None:
    """Set the title of a panel and the labels of its axes, and draw its frame and grid."""
    ax.set(title=title, xlabel=x_label, ylabel=y_label)
    use_open_axes(ax)
    ax.set_axisbelow(True)
