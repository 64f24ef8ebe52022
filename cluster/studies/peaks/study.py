"""The study of [5].

It writes a further table (see `cluster.studies.runner` for the others)::

    OUT/curves.parquet    the distributions: figure, panel, label, quantile, value
    OUT/figure*.png       plots
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import polars as pl
from rich.table import Table

from cluster.plots.base import new_figure, new_panels, styled, use_open_axes
from cluster.runs.sweep import Task
from cluster.scenario.digests import code_of_tenants_in, digest_of_files
from cluster.studies.design import digest
from cluster.studies.figures import figures_of
from cluster.studies.peaks.panels import (
    QUANTILES,
    Panel,
    cell_panels,
    merged,
    predictor_panels,
    week,
    week_panels,
    weeks_of,
)
from cluster.studies.runner import Finished, Study, StudyResult
from cluster.tables import new_table
from plb.compiler import working_time
from workloads.regions import REGIONS
from workloads.task_samples import Cell, cell_of_region, read_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = "curves.parquet"
MACHINES, WEEKS = 100, 4
"""Machines of a cell, and weeks of the first cell. The others have one week."""
QUICK_MACHINES, QUICK_DAYS = 10, 4.0
TABLE_FIGURE = 10
"""The figure of the printed table."""


@attrs.frozen
class CellSource:
    """The origin of a cell."""

    traces: str | None = None
    """File or directory of samples; None: the region."""
    region: str | None = None
    """Name of a region; None: the traces."""
    machines: int = MACHINES
    """Machines of the cell of a region."""
    days: float = 7.0
    """Days of the cell of a region."""
    seed: int = 0
    """Seed of the cell."""

    def inputs(self) -> dict[str, str]:
        """Return the digest of the traces, or the digests of the region and of the code of its tenants."""
        if self.traces:
            return {"source": digest_of_files(Path(self.traces))}
        return {"source": REGIONS[str(self.region)].digest(), **code_of_tenants_in("region")}

    def cell(self) -> Cell:
        """Return the cell; the last one is kept."""
        return _cell(json.dumps(attrs.asdict(self)))


@lru_cache(maxsize=1)
def _cell(source_json: str) -> Cell:
    """Return the cell of a source, given as JSON; the last one is kept."""
    source = CellSource(**json.loads(source_json))
    if source.traces is not None:
        return read_cell(source.traces, seed=source.seed)
    return cell_of_region(REGIONS[str(source.region)], machines=source.machines, days=source.days, seed=source.seed)


@attrs.frozen(eq=False)
class PeakStudy(Study):
    """[5] figures 1 and 6 to 12. The first week of the first cell corresponds to cell a of [5]."""

    name = "peaks"

    cells: Sequence[CellSource]
    """The origins of the cells, at least one."""

    @classmethod
    def of_traces(cls, traces: Path, seed: int) -> PeakStudy:
        """Return the study of a file or directory of samples."""
        return cls([CellSource(traces=str(traces.resolve()), seed=seed)])

    @classmethod
    def of_regions(cls, regions: Sequence[str], *, quick: bool, seed: int) -> PeakStudy:
        """Return the study of a cell for each region."""
        machines = QUICK_MACHINES if quick else MACHINES
        days = [QUICK_DAYS if quick else 7.0 * (WEEKS if name == regions[0] else 1) for name in regions]
        return cls(
            [
                CellSource(region=name, machines=machines, days=cell_days, seed=seed)
                for name, cell_days in zip(regions, days, strict=True)
            ]
        )

    def described(self) -> Mapping[str, Any]:
        """Return seed and cells."""
        return {"seed": self.cells[0].seed, "cells": [attrs.asdict(source) for source in self.cells]}

    def tasks(self) -> Sequence[Task]:
        """Return the tasks: predictors on the first cell, every cell, and every week of the first cell."""
        first_cell = self.cells[0]
        runs = [
            ("predictors", first_cell, 0),
            *(("week", first_cell, number) for number in weeks_of(first_cell.cell())),
        ]
        runs += [("cell", source, 0) for source in self.cells]
        inputs = {source: source.inputs() for source in self.cells}
        tasks = []
        for kind, source, number in runs:
            arguments = {"kind": kind, "week": number, "cell": attrs.asdict(source)}
            key = digest(arguments, inputs[source])
            tasks.append(Task(f"{kind}, {source.region or source.traces}, week {number + 1}, {key}", arguments))
        return tasks

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute the panels of a task."""
        began = working_time()
        cell = CellSource(**arguments["cell"]).cell()
        samples = week(cell.samples, arguments["week"])
        if arguments["kind"] == "predictors":
            panels = predictor_panels(samples)
        elif arguments["kind"] == "cell":
            panels = cell_panels(samples, cell.name)
        else:
            panels = week_panels(samples, f"week {arguments['week'] + 1}")
        totals = {
            "name": cell.name,
            "machines": len(cell.samples.machine),
            "samples": len(cell.samples),
            "panels": [_plain(panel) for panel in panels],
        }
        return {"totals": totals, "timings": {"seconds": working_time() - began}}

    def result(self, finished: Finished) -> StudyResult:
        """Return the panels with finished tasks."""
        panels = merged(_panel(plain_panel) for row in finished.rows for plain_panel in row["panels"])
        cells = [
            {"cell": row["name"], "machines": row["machines"], "samples": row["samples"]}
            for row in finished.rows
            if row["kind"] == "cell"
        ]
        summaries = {f"{panel.figure}{panel.letter}": _summary(panel) for panel in panels}
        plots = {}
        for figure in dict.fromkeys(panel.figure for panel in panels):
            figure_panels = [panel for panel in panels if panel.figure == figure]
            plots[f"figure{figure}.png"] = partial(figure_of_panels, figure_panels)
        table_panels = [panel for panel in panels if panel.figure == TABLE_FIGURE]
        names = [row["name"] for row in finished.rows if row["kind"] == "predictors"]
        return StudyResult(
            figures_of(self.name, cells, figures=summaries),
            [table_of_panels(table_panels, name) for name in names],
            plots,
            {CURVES: curves_frame(panels)},
        )


def _plain(panel: Panel) -> dict[str, Any]:
    """Return a panel as plain JSON values."""
    curves = {label: values.tolist() for label, values in panel.curves.items()}
    return {**attrs.asdict(panel, recurse=False), "curves": curves}


def _panel(plain: Mapping[str, Any]) -> Panel:
    """Return a panel from plain JSON values."""
    return Panel(**{**plain, "curves": {label: np.array(values) for label, values in plain["curves"].items()}})


def figure_of_panels(panels: Sequence[Panel]) -> Figure:
    """Return a plot of the panels of a figure, side by side."""
    title = f"figure {panels[0].figure} of Bashir et al., EuroSys 2021, on other traces"
    figure = new_figure(4.2 * len(panels), 3.6, title)
    for ax, panel in zip(new_panels(figure, len(panels), len(panels)), panels, strict=True):
        plot_panel(ax, panel)
    return figure


def plot_panel(ax: Axes, panel: Panel) -> None:
    """Draw the cumulative distributions of a panel."""
    for (label, values), style in styled(panel.curves.items()):
        ax.plot(values, QUANTILES, linewidth=1.6, label=label, **style)
    ax.set(xlabel=panel.axis, ylabel="cumulative share", title=f"({panel.letter})" if panel.letter else "")
    ax.set_ylim(0.0, 1.02)
    if panel.curves:
        ax.legend(frameon=False, loc="best", fontsize="small")
    use_open_axes(ax)


def curves_frame(panels: Sequence[Panel]) -> pl.DataFrame:
    """Return a frame with a row for each quantile of each curve of panels."""
    schema = {"figure": pl.Int32, "panel": pl.String, "label": pl.String, "quantile": pl.Float64, "value": pl.Float64}
    rows = [
        (panel.figure, panel.letter, label, quantile, value)
        for panel in panels
        for label, values in panel.curves.items()
        for quantile, value in zip(QUANTILES.tolist(), values.tolist(), strict=True)
    ]
    return pl.DataFrame(rows, schema, orient="row")


def _summary(panel: Panel) -> dict[str, Any]:
    """Return 10th percentile, median and 90th percentile of each curve of a panel, by label."""
    median_index, tenth_index = len(QUANTILES) // 2, len(QUANTILES) // 10
    return {
        label: {
            "p10": float(values[tenth_index]),
            "median": float(values[median_index]),
            "p90": float(values[-1 - tenth_index]),
        }
        for label, values in panel.curves.items()
    }


def table_of_panels(panels: Sequence[Panel], cell: str) -> Table:
    """Return a table of median and 90th percentile of the panels of a figure, a row for each predictor.

    `cell`: name of the cell.
    """
    headings = ("predictor", *(panel.axis.replace(" of ", "\nof ") for panel in panels))
    table = new_table(headings, title=f"{cell}: figure {panels[0].figure}, median and 90th percentile")
    summaries = [_summary(panel) for panel in panels]
    for name in summaries[0]:
        table.add_row(name, *(f"{summary[name]['median']:.2%}, {summary[name]['p90']:.2%}" for summary in summaries))
    return table
