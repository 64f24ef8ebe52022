"""The study of [2] from what is wanted to its report.

Beside what every study writes (`cluster.studies.carrying_out`)::

    OUT/packings.parquet      a row for each instance and case: machines, m, q, oversized tasks
    OUT/totals.parquet        a row for each sample of tasks and resource: rejected, mean, relative differences
    OUT/simultaneous.parquet  a row for each period and test: q at the same times and of independent draws
    OUT/figure6.png to figure13.png
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.studies.carrying_out import Place, carry_out
from cluster.studies.gaussian.design import GaussianDesign
from cluster.studies.gaussian.figures import as_json
from cluster.studies.gaussian.packings import packings_frame, run_packing
from cluster.studies.gaussian.plots import save_plots
from cluster.studies.gaussian.report import tables
from cluster.studies.gaussian.simultaneous import run_simultaneous, simultaneous_frame
from cluster.studies.gaussian.totals import run_totals, totals_frame
from cluster.studies.wanted import Report
from workloads.writing import write_parquet

STUDY = "gaussian"
PACKINGS, TOTALS, SIMULTANEOUS = "packings.parquet", "totals.parquet", "simultaneous.parquet"
RUN: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "packing": run_packing,
    "totals": run_totals,
    "simultaneous": run_simultaneous,
}


def run(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Make a run of the study, of whatever kind."""
    return RUN[arguments["kind"]](arguments)


def run_gaussian(design: GaussianDesign, place: Place) -> Report:
    """Make all runs; write tables and plots."""
    whole = {"instances": design.instances, "samples": design.samples, "periods": list(design.periods)}
    finished = carry_out(STUDY, run, design.sweep_tasks(), place, {**whole, **design.described()})
    rows = {kind: [row for row in finished.rows if row["kind"] == kind] for kind in RUN}
    packings, totals = packings_frame(rows["packing"]), totals_frame(rows["totals"])
    simultaneous = simultaneous_frame(rows["simultaneous"])
    for name, frame in ((PACKINGS, packings), (TOTALS, totals), (SIMULTANEOUS, simultaneous)):
        write_parquet(frame, place.folder / name)
    save_plots(place.folder, packings, totals)
    found = tables(packings, totals, simultaneous)
    return Report(found, as_json(packings, totals, simultaneous), finished.failed)
