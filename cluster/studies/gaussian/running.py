"""The study of [2] from what is wanted to its report.

Beside what every study writes (`cluster.studies.runner`)::

    OUT/packings.parquet      a row for each instance and case: machines, m, q, oversized tasks
    OUT/totals.parquet        a row for each sample of tasks and resource: rejected, mean, relative differences
    OUT/simultaneous.parquet  a row for each period and test: q at the same times and of independent draws
    OUT/figure6.png to figure13.png
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.studies.gaussian.design import GaussianDesign
from cluster.studies.gaussian.figures import as_json
from cluster.studies.gaussian.packings import packings_frame, run_packing
from cluster.studies.gaussian.plots import save_plots
from cluster.studies.gaussian.report import tables
from cluster.studies.gaussian.simultaneous import run_simultaneous, simultaneous_frame
from cluster.studies.gaussian.totals import run_totals, totals_frame
from cluster.studies.request import StudyReport
from cluster.studies.runner import OutputDirectory, run_tasks
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


def run_gaussian(design: GaussianDesign, output: OutputDirectory) -> StudyReport:
    """Make all runs; write tables and plots."""
    whole = {"instances": design.instances, "samples": design.samples, "periods": list(design.periods)}
    finished = run_tasks(STUDY, run, design.sweep_tasks(), output, {**whole, **design.described()})
    rows = {kind: [row for row in finished.rows if row["kind"] == kind] for kind in RUN}
    packings, totals = packings_frame(rows["packing"]), totals_frame(rows["totals"])
    simultaneous = simultaneous_frame(rows["simultaneous"])
    for name, frame in ((PACKINGS, packings), (TOTALS, totals), (SIMULTANEOUS, simultaneous)):
        write_parquet(frame, output.folder / name)
    save_plots(output.folder, packings, totals)
    found = tables(packings, totals, simultaneous)
    return StudyReport(found, as_json(packings, totals, simultaneous), finished.failed)
