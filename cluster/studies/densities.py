"""The densities of the other studies, from pilots; and the densities at which two arms have equal violations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from cluster.runs.sweep import Task
from cluster.studies.design import run_simulation
from cluster.studies.figures import Violations, figures_of
from cluster.studies.request import PILOTS, StudyRequest
from cluster.studies.runner import Finished, Study, StudyResult


@attrs.frozen(eq=False)
class DensityStudy(Study):
    """The densities that pilots find. The study has no tasks except those of the pilots."""

    name = "densities"
    run = staticmethod(run_simulation)

    densities: Mapping[str, Mapping[str, Sequence[float]]]
    """By pilot and workload."""

    @classmethod
    def of(cls, request: StudyRequest) -> DensityStudy:
        """Run all pilots."""
        return cls({pilot.name: pilot.run_in(request.output, request.base) for pilot in PILOTS})

    def described(self) -> Mapping[str, Any]:
        """Return the densities."""
        return {"densities": self.densities}

    def tasks(self) -> Sequence[Task]:
        """Return nothing."""
        return ()

    def result(self, finished: Finished) -> StudyResult:  # noqa: ARG002
        """Return the densities."""
        return StudyResult(figures_of(self.name, densities=self.densities), (table_of_densities(self.densities),))


def table_of_densities(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """Return the densities that pilots chose, by study and workload."""
    shown = Table("study", "workload", "densities", title="densities of the studies")
    for study, of_workloads in found.items():
        for workload, densities in of_workloads.items():
            shown.add_row(study, workload, ", ".join(f"{one:g}" for one in densities))
    return shown


def density_ratios(found: Violations, arm: str, compared: str) -> tuple[list[float], int]:
    """Return the ratios of the densities at which two arms have equal violations, and the number of workloads.

    A workload without such a density has no ratio, and one with a single density does not count.
    """
    ratios, workloads = [], 0
    for workload in dict.fromkeys((one.workload, one.vcores) for one in found.settings):
        of_workload = found.where(lambda one, workload=workload: (one.workload, one.vcores) == workload)  # type: ignore[misc]
        order = np.argsort([one.density for one in of_workload.settings])
        densities = np.array([one.density for one in of_workload.settings])[order]
        if len(densities) < 2:
            continue
        workloads += 1
        mean, other = (np.maximum.accumulate(of_workload.means(name)[order]) for name in (arm, compared))
        mark = float(np.median(other))
        if mean[0] <= mark <= mean[-1]:
            ratios.append(float(np.interp(mark, mean, densities) / np.interp(mark, other, densities)))
    return ratios, workloads
