"""The study of [2].

It writes further tables (see `cluster.studies.runner` for the others)::

    OUT/packings.parquet      a row for each instance and case: machines, m, q, oversized tasks
    OUT/totals.parquet        a row for each sample of tasks and resource: rejected, mean, relative differences
    OUT/simultaneous.parquet  a row for each period and test: q at the same times, and of independent samples
    OUT/figure6.png to figure13.png
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.studies.gaussian.design import GaussianDesign
from cluster.studies.gaussian.figures import as_json
from cluster.studies.gaussian.packings import packings_frame, run_packing
from cluster.studies.gaussian.plots import plots
from cluster.studies.gaussian.report import tables
from cluster.studies.gaussian.simultaneous import run_simultaneous, simultaneous_frame
from cluster.studies.gaussian.totals import run_totals, totals_frame
from cluster.studies.runner import Finished
from cluster.studies.study import Study, StudyResult

PACKINGS, TOTALS, SIMULTANEOUS = "packings.parquet", "totals.parquet", "simultaneous.parquet"
RUN: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "packing": run_packing,
    "totals": run_totals,
    "simultaneous": run_simultaneous,
}
"""The function of each kind of task."""


@attrs.frozen(eq=False)
class GaussianStudy(Study):
    """[2] table 1 and figures 6 to 13.

    Parameters
    ----------
    design
        Traces, instances and samples.
    """

    name = "gaussian"

    design: GaussianDesign

    def described(self) -> Mapping[str, Any]:
        """Return the design as plain JSON values."""
        design = self.design
        whole = {"instances": design.instances, "samples": design.samples, "periods": list(design.periods)}
        return {**whole, **design.described()}

    def tasks(self) -> Sequence[Task]:
        """Return a task for each instance, for some samples of all sizes, and for each period."""
        return self.design.sweep_tasks()

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a task of any kind."""
        return RUN[arguments["kind"]](arguments)

    def result(self, finished: Finished) -> StudyResult:
        """Return the tables and plots of the parts with finished runs."""
        rows = {kind: [row for row in finished.rows if row["kind"] == kind] for kind in RUN}
        packings, totals = packings_frame(rows["packing"]), totals_frame(rows["totals"])
        simultaneous = simultaneous_frame(rows["simultaneous"])
        return StudyResult(
            as_json(packings, totals, simultaneous),
            tables(packings, totals, simultaneous),
            plots(packings, totals),
            {PACKINGS: packings, TOTALS: totals, SIMULTANEOUS: simultaneous},
        )
