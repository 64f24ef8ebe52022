"""The study of [3].

It writes a further table (see `cluster.studies.runner` for the others)::

    OUT/plans.parquet     a row for each instance and algorithm: nodes, lower bound, deviation, seconds
    OUT/figure3.png to figure7.png
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.studies.provisioning.design import ProvisioningDesign
from cluster.studies.provisioning.figures import as_json, group_means, plans_frame
from cluster.studies.provisioning.planning import run_planning
from cluster.studies.provisioning.plots import plots
from cluster.studies.provisioning.published import PublishedMeans
from cluster.studies.provisioning.report import tables
from cluster.studies.runner import Finished
from cluster.studies.study import Study, StudyResult

PLANS = "plans.parquet"


@attrs.frozen(eq=False)
class ProvisioningStudy(Study):
    """[3] figures 3 to 7.

    Parameters
    ----------
    design
        Instances and algorithms.
    published
        The means of [3].
    """

    name = "provisioning"
    run = staticmethod(run_planning)

    design: ProvisioningDesign
    published: PublishedMeans

    def described(self) -> Mapping[str, Any]:
        """Return the design as plain JSON values."""
        return self.design.described()

    def tasks(self) -> Sequence[Task]:
        """Return a task for each instance."""
        return self.design.sweep_tasks()

    def result(self, finished: Finished) -> StudyResult:
        """Return the tables and plots of the figures with finished runs."""
        plans = plans_frame(finished.rows, finished.timings)
        groups = group_means(plans)
        return StudyResult(
            as_json(plans, self.published),
            tables(groups, self.published),
            plots(groups, self.published),
            {PLANS: plans},
        )
