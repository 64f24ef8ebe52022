"""The study of [2] from what is wanted to its report.

Beside what every study writes (`cluster.studies.carrying_out`)::

    OUT/packings.parquet  a row for each instance and case: machines, m, q, oversized tasks
    OUT/totals.parquet    a row for each sample of tasks and resource: rejected, mean, relative differences
    OUT/figure6.png to figure13.png
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.studies.carrying_out import Place, carry_out
from cluster.studies.gaussian.design import GaussianDesign
from cluster.studies.gaussian.figures import as_json
from cluster.studies.gaussian.packings import packings_frame, run_packing
from cluster.studies.gaussian.plots import save_plots
from cluster.studies.gaussian.report import tables
from cluster.studies.gaussian.totals import run_totals, totals_frame
from cluster.studies.running import Report

STUDY = "gaussian"
PACKINGS, TOTALS = "packings.parquet", "totals.parquet"


def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Make a run of the study, of either kind."""
    return run_packing(arguments) if arguments["kind"] == "packing" else run_totals(arguments)


def run_gaussian(design: GaussianDesign, place: Place) -> Report:
    """Make all runs; write tables and plots."""
    described = {"instances": design.instances, "samples": design.samples, **design.described()}
    finished = carry_out(STUDY, run, design.sweep_tasks(), place, described)
    packings = packings_frame([row for row in finished.rows if row["kind"] == "packing"])
    totals = totals_frame([row for row in finished.rows if row["kind"] == "totals"])
    packings.write_parquet(place.folder / PACKINGS)
    totals.write_parquet(place.folder / TOTALS)
    save_plots(place.folder, packings, totals)
    return Report(tables(packings, totals), as_json(packings, totals), finished.failed)
