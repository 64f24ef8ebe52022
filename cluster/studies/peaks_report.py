"""Carrying out the study of peaks: its cells, its plots and what it prints.

::

    OUT/study.json        cells, seed, versions; and whether all figures are there
    OUT/curves.parquet    the distributions: figure, panel, label, quantile, value
    OUT/figure*.png       plots
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.table import Table as RichTable

from cluster.console.output import messages
from cluster.plots.base import COLOURS, save_figure
from cluster.results.writing import write_json
from cluster.studies.figures import figures_of
from cluster.studies.peaks import QUANTILES, Panel, panels
from cluster.studies.runner import STUDY, OutputDirectory, check_study, head_of
from plb import PlbError
from workloads.cells import Cell, cell_of_region, read_cell
from workloads.regions import REGIONS
from workloads.writing import write_parquet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = "curves.parquet"
MACHINES, WEEKS = 100, 4.0
"""Of the first cell; the others have a week, which is all that is looked at."""
QUICK_MACHINES, QUICK_DAYS = 10, 4.0
COMPARED = 10
"""The figure whose panels are printed."""


def cells_of(traces: Path | None, regions: Sequence[str], *, quick: bool, seed: int) -> list[Cell]:
    """Return the cell of a user's traces, or one for each region."""
    if traces is not None:
        return [read_cell(traces, seed=seed)]
    machines = QUICK_MACHINES if quick else MACHINES
    days = [QUICK_DAYS if quick else 7.0 * (WEEKS if name == regions[0] else 1.0) for name in regions]
    return [
        cell_of_region(REGIONS[name], machines=machines, days=lasts, seed=seed)
        for name, lasts in zip(regions, days, strict=True)
    ]


def run_peaks(cells: Sequence[Cell], output: OutputDirectory, seed: int) -> tuple[RichTable, dict[str, Any]]:
    """Compute all panels, write them into the directory, and return a table and the figures as JSON."""
    check_study(output.folder / STUDY, "peaks")
    if (output.folder / CURVES).exists() and not output.restart:
        raise PlbError(f"{output.folder}: holds the study already; give another directory, or --restart")
    described = [
        {"cell": cell.name, "machines": len(cell.samples.machine), "samples": len(cell.samples)} for cell in cells
    ]
    head = head_of("peaks", {"seed": seed, "cells": described})
    write_json(output.folder / STUDY, {**head, "complete": False})
    with messages(quiet=output.quiet).status("peaks") as status:
        found = list(panels(cells, status.update))
    write_parquet(_frame(found), output.folder / CURVES)
    for figure in dict.fromkeys(panel.figure for panel in found):
        of_figure = [panel for panel in found if panel.figure == figure]
        save_panels(output.folder / f"figure{figure}.png", of_figure)
    write_json(output.folder / STUDY, {**head, "complete": True})
    shown = [panel for panel in found if panel.figure == COMPARED]
    figures = {f"{panel.figure}{panel.letter}": _summary(panel) for panel in found}
    return _table(shown, cells[0].name), figures_of("peaks", described, figures=figures)


def save_panels(path: Path, of_figure: Sequence[Panel]) -> None:
    """Draw the panels of a figure side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(of_figure), 3.6), layout="constrained")
    for ax, panel in zip(figure.subplots(1, len(of_figure), squeeze=False)[0], of_figure, strict=True):
        plot_panel(ax, panel)
    figure.suptitle(f"figure {of_figure[0].figure} of Bashir et al., EuroSys 2021, on other traces")
    save_figure(figure, path)


def plot_panel(ax: Axes, panel: Panel) -> None:
    """Draw distributions as shares of at most so much."""
    for number, (label, values) in enumerate(panel.curves.items()):
        ax.plot(values, QUANTILES, color=COLOURS[number % len(COLOURS)], linewidth=1.6, label=label)
    ax.set(xlabel=panel.axis, ylabel="share of at most so much", title=f"({panel.letter})" if panel.letter else "")
    ax.set_ylim(0.0, 1.02)
    if panel.curves:
        ax.legend(frameon=False, loc="best", fontsize="small")
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def _frame(found: Sequence[Panel]) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame({"quantile": QUANTILES, "value": values}).select(
            pl.lit(panel.figure).alias("figure"),
            pl.lit(panel.letter).alias("panel"),
            pl.lit(label).alias("label"),
            "quantile",
            "value",
        )
        for panel in found
        for label, values in panel.curves.items()
    )


def _summary(panel: Panel) -> dict[str, Any]:
    middle, tenth = len(QUANTILES) // 2, len(QUANTILES) // 10
    return {
        label: {"p10": float(values[tenth]), "median": float(values[middle]), "p90": float(values[-1 - tenth])}
        for label, values in panel.curves.items()
    }


def _table(shown: Sequence[Panel], cell: str) -> RichTable:
    table = RichTable(title=f"{cell}: figure {COMPARED}, median and 90th percentile")
    table.add_column("predictor")
    summaries = [_summary(panel) for panel in shown]
    for panel in shown:
        table.add_column(panel.axis.replace(" of ", "\nof "), justify="right")
    for name in summaries[0]:
        table.add_row(name, *(f"{one[name]['median']:.2%}, {one[name]['p90']:.2%}" for one in summaries))
    return table
