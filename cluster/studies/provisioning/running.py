"""The study of [3] from what is wanted to its report.

Beside what every study writes (`cluster.studies.runner`)::

    OUT/plans.parquet     a row for each instance and algorithm: nodes, lower bound, deviation, seconds
    OUT/figure3.png to figure7.png
"""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from cluster.studies.provisioning.design import ProvisioningDesign
from cluster.studies.provisioning.figures import as_json, group_means, plans_frame
from cluster.studies.provisioning.planning import run
from cluster.studies.provisioning.plots import save_plots
from cluster.studies.provisioning.published import PublishedMeans
from cluster.studies.provisioning.report import tables
from cluster.studies.request import StudyReport
from cluster.studies.runner import TIMINGS, OutputDirectory, Row, run_tasks
from workloads.writing import write_parquet

STUDY = "provisioning"
PLANS = "plans.parquet"


def run_provisioning(design: ProvisioningDesign, output: OutputDirectory, published: PublishedMeans) -> StudyReport:
    """Make all runs; write tables and plots."""
    finished = run_tasks(STUDY, run, design.sweep_tasks(), output, design.described())
    plans = plans_frame(finished.rows, _timings(output.folder / TIMINGS) if finished.rows else [])
    write_parquet(plans, output.folder / PLANS)
    groups = group_means(plans)
    save_plots(output.folder, groups, published)
    return StudyReport(tables(groups, published), as_json(plans, published), finished.failed)


def _timings(path: Path) -> list[Row]:
    """Return the timings of all runs that did not fail, in their order."""
    return [{**row, "seconds": json.loads(row["seconds"])} for row in pl.read_parquet(path, glob=False).to_dicts()]
