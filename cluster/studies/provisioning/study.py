"""The study of [3].

It writes a further table (see `cluster.studies.runner` for the others)::

    OUT/plans.parquet     a row for each instance and algorithm: nodes, lower bound, deviation, seconds
    OUT/figure3.png to figure7.png
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.scenario.digests import digest_of_files
from cluster.scenario.scenario import MOST_REPEATS
from cluster.studies.design import digest
from cluster.studies.provisioning.design import (
    AUTO_SECONDS,
    DENSITIES,
    INSTANCES,
    OF_CURVES,
    OF_DENSITIES,
    SIZES,
    SIZES_DENSITY,
    InstanceGroup,
    PublishedFigure,
    arms,
)
from cluster.studies.provisioning.figures import as_json, group_means, plans_frame, tables
from cluster.studies.provisioning.planning import run_planning
from cluster.studies.provisioning.plots import plots
from cluster.studies.provisioning.published import PublishedMeans
from cluster.studies.runner import Finished
from cluster.studies.study import Study, StudyResult
from plb import PlbError
from plb.validation import check_count, check_number
from workloads.provisioning import GraphKind

PLANS = "plans.parquet"


@attrs.frozen(kw_only=True)
class ProvisioningStudy(Study):
    """[3] figures 3 to 7.

    Parameters
    ----------
    base
        File of the authors, for constant demand (figures 3 to 5). None: without these figures.
    curves
        Directory of the contest, for demand that varies (figures 6 and 7). None: without these figures.
    figures
        Figures. None: all with data.
    graphs, densities, sizes
        Groups: each graph with each density, and with each number of applications.
    instances
        Instances of a group.
    auto_seconds
        Time limit of `auto`.
    seed
        Seed of all random numbers.
    published
        The means of [3].
    """

    name = "provisioning"
    run = staticmethod(run_planning)

    base: Path | None = None
    curves: Path | None = None
    figures: tuple[PublishedFigure, ...] | None = None
    graphs: tuple[GraphKind, ...] = tuple(GraphKind)
    densities: tuple[float, ...] = DENSITIES
    sizes: tuple[int, ...] = SIZES[:1]
    instances: int = INSTANCES
    auto_seconds: float = AUTO_SECONDS
    seed: int = 0
    published: PublishedMeans = attrs.field(factory=PublishedMeans)

    def __attrs_post_init__(self) -> None:
        check_count("study", "instances", self.instances, low=1, high=MOST_REPEATS)
        check_count("study", "seed", self.seed)
        check_number("study", "auto_seconds", self.auto_seconds, low_open=True)
        for density in self.densities:
            check_number("study", "density", density, high=0.5)
        for size in self.sizes:
            check_count("study", "applications", size, low=1)
        if self.base is None and self.curves is None:
            raise PlbError("study: needs --base FILE for figures 3 to 5, --curves DIRECTORY for 6 and 7, or both")
        for figure in self.figures or ():
            if self._source(figure) is None:
                option = "--curves DIRECTORY" if figure in OF_CURVES else "--base FILE"
                raise PlbError(f"study: figure {figure.value} needs {option}")

    def groups(self) -> list[InstanceGroup]:
        """Return all groups by figure, each once."""
        found = []
        for figure in sorted(self.figures or [figure for figure in PublishedFigure if self._source(figure)]):
            for graph in self.graphs:
                if figure in OF_DENSITIES:
                    found += [InstanceGroup(figure, graph, density) for density in self.densities]
                else:
                    found += [InstanceGroup(figure, graph, SIZES_DENSITY, size) for size in self.sizes]
        return list(dict.fromkeys(found))

    def described(self) -> Mapping[str, Any]:
        """Return the study as plain JSON values."""
        sources = {name: path and str(path.resolve()) for name, path in (("base", self.base), ("curves", self.curves))}
        groups = [{**attrs.asdict(group), "name": group.name} for group in self.groups()]
        whole = {name: getattr(self, name) for name in ("instances", "auto_seconds", "seed")}
        return {**sources, **whole, "groups": groups}

    def tasks(self) -> Sequence[Task]:
        """Return a task for each instance, with all algorithms."""
        known = {path: digest_of_files(path) for path in (self.base, self.curves) if path is not None}
        tasks = []
        for group in self.groups():
            source = self._source(group.figure)
            assert source is not None
            for part in range(self.instances):
                run = {
                    "figure": group.figure.value,
                    "graph": group.graph.value,
                    "density": group.density,
                    "applications": group.applications,
                    "part": part,
                    "seed": self.seed,
                    "auto_seconds": self.auto_seconds,
                    "arms": [arm.name for arm in arms(group.figure)],
                }
                key = f"figure {group.figure.value}, {group.name}, {part}, {digest(run, {'data': known[source]})}"
                tasks.append(Task(key, {**run, "source": str(source.resolve())}))
        return tasks

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

    def _source(self, figure: PublishedFigure) -> Path | None:
        return self.curves if figure in OF_CURVES else self.base
