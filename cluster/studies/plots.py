"""Plots of the studies of policies: violations by setting (figures 8 and 9 of [1]), and ratios of violations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cluster.plots.base import COLOURS, new_figure, use_open_axes
from cluster.studies.figures import ClaimTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_A_ROW = 2
LEAST_INCHES = 6.5
"""Width of a figure, that of the longest title."""
LABEL_INCHES = 2.2
"""Width of an entry of a legend, that of the longest name of an arm."""


def plot_settings(ax: Axes, table: ClaimTable, chosen: Sequence[int]) -> None:
    """Draw the mean violations of some settings, a group of bars each.

    Parameters
    ----------
    chosen
        Indices of settings that differ in their density alone.
    """
    width = 0.8 / len(table.columns)
    places = np.arange(len(chosen))
    for number, (heading, means) in enumerate(table.columns.items()):
        offset = (number - (len(table.columns) - 1) / 2) * width
        colour, hatch = COLOURS[number % len(COLOURS)], "////" if number >= len(COLOURS) else None  # colours repeat
        bars = ax.bar(places + offset, means[list(chosen)], width, label=heading, color=colour, hatch=hatch)
        if hatch:
            for bar in bars:
                bar.set(edgecolor="white", linewidth=0.0)
    first = table.settings[chosen[0]]
    ax.set_xticks(places, [table.settings[index].shown_density for index in chosen])
    ax.set(xlabel="tenant density", ylabel="violations", title=f"{first.workload}, {first.vcores:g} vCores")
    ax.set_ylim(0.0, max(1.0, ax.get_ylim()[1]))
    use_open_axes(ax, "y")


def figure_of_settings(table: ClaimTable, title: str) -> Figure:
    """Return a plot of all settings, with a panel for each workload and hardware."""
    panels: dict[tuple[str, float], list[int]] = {}
    for index, setting in enumerate(table.settings):
        panels.setdefault((setting.workload, setting.vcores), []).append(index)
    rows = -(-len(panels) // PANELS_A_ROW)
    columns = min(PANELS_A_ROW, len(panels))
    widest = max(len(chosen) for chosen in panels.values())
    width = max(LEAST_INCHES, columns * max(4.5, 0.75 * widest))
    figure = new_figure(width, 3.2 * rows + 0.6, title)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, chosen in zip(axes, panels.values(), strict=False):
        plot_settings(ax, table, chosen)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    ncols = min(len(labels), int(width // LABEL_INCHES))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
    return figure


def plot_ratios(ax: Axes, table: ClaimTable) -> None:
    """Draw the ratios of violations to those of the column `below`, a row a setting; none where these are 0."""
    below = table.columns[table.below]
    rows = np.arange(len(table.settings))[::-1]
    others = [heading for heading in table.columns if heading != table.below]
    some = below > 0
    for number, heading in enumerate(others):
        label, colour = f"{heading} / {table.below}", COLOURS[number % len(COLOURS)]
        ax.plot(table.columns[heading][some] / below[some], rows[some], "o", color=colour, label=label)
    ax.axvline(1.0, color="#4a4a4a", linewidth=0.8)
    ax.set_yticks(rows, [f"{one.workload}; {one.tenants}" for one in table.settings])
    ax.set(xlabel="ratio of violations", ylim=(-0.7, len(rows) - 0.3))
    ax.set_xlim(left=0.0)
    use_open_axes(ax)


def figure_of_ratios(table: ClaimTable, title: str) -> Figure:
    """Return a plot of the ratios of all settings, with a row for each setting."""
    figure = new_figure(8.0, 0.22 * len(table.settings) + 1.6, title)
    ax = figure.subplots()
    plot_ratios(ax, table)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure
