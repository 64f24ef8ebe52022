"""The study of [2].

It writes further tables (see `cluster.studies.runner` for the others)::

    OUT/packings.parquet      a row for each instance and case: machines, m, q, oversized tasks
    OUT/totals.parquet        a row for each sample of tasks and resource: rejected, mean, relative differences
    OUT/simultaneous.parquet  a row for each period and test: q at the same times, and of independent samples
    OUT/figure6.png to figure13.png
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.scenario.digests import digest_of_files
from cluster.scenario.scenario import MOST_REPEATS
from cluster.studies.design import MOST_SAMPLES, digest
from cluster.studies.gaussian import packings
from cluster.studies.gaussian.figures import as_json, plots, tables
from cluster.studies.gaussian.packings import (
    packings_frame,
    run_packing,
    run_simultaneous,
    run_totals,
    simultaneous_frame,
    totals_frame,
)
from cluster.studies.runner import Finished, Study, StudyResult
from plb.compiler import working_time
from plb.validation import check_count, check_number

PACKINGS, TOTALS, SIMULTANEOUS = "packings.parquet", "totals.parquet", "simultaneous.parquet"
RUN: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "packing": run_packing,
    "totals": run_totals,
    "simultaneous": run_simultaneous,
}
"""The function of each kind of task, which returns its totals."""


@attrs.frozen(kw_only=True)
class GaussianStudy(Study):
    """[2] table 1 and figures 6 to 13, on one trace."""

    name = "gaussian"

    traces: Path
    """File or directory; see `workloads.realisations.read_samples`."""
    resources: tuple[str, ...]
    """Names of the resources. A task has to fit in all."""
    capacity: tuple[float, ...]
    """Capacity of a machine for each resource, in its unit."""
    instances: int = packings.INSTANCES
    """Number of instances."""
    instance_tasks: int = packings.TASKS
    """Number of tasks of an instance."""
    realisations: int = packings.REALISATIONS
    """Number of realisations of a task."""
    samples: int = packings.SAMPLES
    """Samples of tasks for each size of table 1 and figure 6."""
    periods: tuple[int, ...] = ()
    """Periods of the trace whose tasks are also packed with their usage at the same times."""
    averaged: int = packings.AVERAGED
    """Consecutive samples whose mean is the coarser measurement of figure 10."""
    seed: int = 0
    """Seed of all random numbers."""

    def __attrs_post_init__(self) -> None:
        check_count("study", "instances", self.instances, low=1, high=MOST_REPEATS)
        check_count("study", "samples", self.samples, low=1, high=MOST_SAMPLES)
        check_count("study", "tasks", self.instance_tasks, low=1)
        check_count("study", "averaged", self.averaged, low=1)
        check_count("study", "realisations", self.realisations, low=packings.LEAST_OBSERVED)
        check_count("study", "seed", self.seed)
        for name, capacity in zip(self.resources, self.capacity, strict=True):
            check_number("study", f"capacity[{name}]", capacity, low_open=True)

    def described(self) -> Mapping[str, Any]:
        """Return the study as plain JSON values."""
        numbers = {"instances": self.instances, "samples": self.samples, "periods": list(self.periods)}
        return {**numbers, **self._of_all_runs()}

    def tasks(self) -> Sequence[Task]:
        """Return a task for each instance, for some samples of all sizes, and for each period."""
        first_samples = range(0, self.samples, packings.SAMPLES_A_RUN)
        runs = [{"kind": "packing", "part": part} for part in range(self.instances)]
        runs += [
            {"kind": "totals", "part": part, "samples": min(packings.SAMPLES_A_RUN, self.samples - first_sample)}
            for part, first_sample in enumerate(first_samples)
        ]
        runs += [{"kind": "simultaneous", "part": period} for period in self.periods]
        key = digest(self._of_all_runs(), {"traces": digest_of_files(self.traces), "sizes": packings.SIZES})
        return [
            Task(f"{run['kind']} {run['part']}, {run.get('samples')}, {key}", run | self._shared_arguments())
            for run in runs
        ]

    @staticmethod
    def run(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Execute a task of any kind."""
        began = working_time()
        totals = RUN[arguments["kind"]](arguments)
        return {"totals": totals, "timings": {"seconds": working_time() - began}}

    def result(self, finished: Finished) -> StudyResult:
        """Return figures, tables, plots and frames of the kinds of tasks with finished runs."""
        rows = {kind: [row for row in finished.rows if row["kind"] == kind] for kind in RUN}
        packings, totals = packings_frame(rows["packing"]), totals_frame(rows["totals"])
        simultaneous = simultaneous_frame(rows["simultaneous"])
        return StudyResult(
            as_json(packings, totals, simultaneous),
            tables(packings, totals, simultaneous),
            plots(packings, totals),
            {PACKINGS: packings, TOTALS: totals, SIMULTANEOUS: simultaneous},
        )

    def _of_all_runs(self) -> dict[str, Any]:
        """Return everything on which all runs depend, as plain JSON values."""
        return {**self._shared_arguments(), "cases": [case.described() for case in packings.cases(self.realisations)]}

    def _shared_arguments(self) -> dict[str, Any]:
        """Return the arguments that all runs have, as plain JSON values."""
        lists = {"resources": list(self.resources), "capacity": list(self.capacity)}
        numbers = {name: getattr(self, name) for name in ("realisations", "averaged", "seed")}
        return {"traces": str(self.traces.resolve()), **lists, "tasks": self.instance_tasks, **numbers}
