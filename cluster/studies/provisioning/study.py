"""The study of [3].

It writes a further table (see `cluster.studies.runner` for the others)::

    OUT/plans.parquet     a row for each instance and algorithm: nodes, lower bound, deviation, seconds
    OUT/figure3.png to figure7.png
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
import numpy as np

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
    AlgorithmArm,
    InstanceGroup,
    PublishedFigure,
    PublishedMeans,
    arms,
)
from cluster.studies.provisioning.figures import as_json, group_means, plans_frame, plots, tables
from cluster.studies.runner import Finished, Study, StudyResult
from plb import PlbError
from plb.compiler import working_time
from plb.provisioning import AUTO, Instance, lower_bound, provision
from plb.validation import check_count, check_number
from workloads.provisioning import PAPER_NODES, GraphKind, larger_instance, read_authors, read_contest, with_graph


def run_planning(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Plan an instance with every arm; return lower bound, number of limits, and nodes and seconds by arm.

    The nodes by `auto` depend on the machine, so they are with the timings.
    """
    began = working_time()
    group = InstanceGroup(
        PublishedFigure(arguments["figure"]),
        GraphKind(arguments["graph"]),
        arguments["density"],
        arguments["applications"],
    )
    instance = draw(base_of(arguments["source"]), group, arguments["part"], arguments["seed"])
    nodes, seconds = {}, {}
    for arm in arms(group.figure):
        nodes[arm.name], seconds[arm.name] = _planned(instance, arm, arguments["auto_seconds"])
    auto_nodes = nodes.pop(AUTO)
    return {
        "totals": {"lower_bound": lower_bound(instance), "limits": len(instance.affinity), "nodes": nodes},
        "timings": {"auto_nodes": auto_nodes, "seconds": seconds, "run_seconds": working_time() - began},
    }


@lru_cache(maxsize=2)
def base_of(source: str) -> Instance:
    """Return the base of generated instances: a file of the authors, or a directory of the contest with curves.

    Each process reads it once. The curves are as in [3] section 5.1.
    """
    if Path(source).is_dir():
        return read_contest(source, nodes=PAPER_NODES, self_limits=False)
    return read_authors(source)


def draw(base: Instance, group: InstanceGroup, part: int, seed: int) -> Instance:
    """Return instance number `part` of a group, drawn with a seed; constant and varying demand have the same graphs."""
    seed_words = [seed, part, group.applications or 0, round(1e6 * group.density)]
    graph_seed = int(np.random.SeedSequence(seed_words).generate_state(1)[0])
    if group.applications is None:
        return with_graph(base, group.graph, group.density, graph_seed)
    return larger_instance(base, group.applications, group.graph, group.density, graph_seed)


def _planned(instance: Instance, arm: AlgorithmArm, auto_seconds: float) -> tuple[int, float]:
    """Return nodes and seconds of the plan of an instance by an arm; raise `PlbError` if the plan has faults."""
    limit = auto_seconds if arm.algorithm == AUTO else None
    began = working_time()
    plan = provision(instance, arm.algorithm, rules=arm.rules, time_limit=limit)
    seconds = working_time() - began
    faults = plan.faults()
    if faults:
        raise PlbError(f"{instance.name}, {arm.name}: {faults[0]}")
    return plan.nodes, seconds


PLANS = "plans.parquet"


@attrs.frozen(kw_only=True)
class ProvisioningStudy(Study):
    """[3] figures 3 to 7."""

    name = "provisioning"
    run = staticmethod(run_planning)

    base: Path | None = None
    """File of the authors, for constant demand (figures 3 to 5). None: without these figures."""
    curves: Path | None = None
    """Directory of the contest, for demand that varies (figures 6 and 7). None: without these figures."""
    figures: tuple[PublishedFigure, ...] | None = None
    """Figures. None: all with data."""
    graphs: tuple[GraphKind, ...] = tuple(GraphKind)
    """Kinds of graphs of the groups."""
    densities: tuple[float, ...] = DENSITIES
    """Densities of limits of the groups of figures 4 and 6."""
    sizes: tuple[int, ...] = SIZES[:1]
    """Numbers of applications of the groups of figures 5 and 7."""
    instances: int = INSTANCES
    """Instances of a group."""
    auto_seconds: float = AUTO_SECONDS
    """Time limit of `auto`."""
    seed: int = 0
    """Seed of all random numbers."""
    published: PublishedMeans = attrs.field(factory=PublishedMeans)
    """The means of [3]."""

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
        groups = []
        for figure in sorted(self.figures or [figure for figure in PublishedFigure if self._source(figure)]):
            for graph in self.graphs:
                if figure in OF_DENSITIES:
                    groups += [InstanceGroup(figure, graph, density) for density in self.densities]
                else:
                    groups += [InstanceGroup(figure, graph, SIZES_DENSITY, size) for size in self.sizes]
        return list(dict.fromkeys(groups))

    def described(self) -> Mapping[str, Any]:
        """Return the study as plain JSON values."""
        sources = {name: path and str(path.resolve()) for name, path in (("base", self.base), ("curves", self.curves))}
        groups = [{**attrs.asdict(group), "name": group.name} for group in self.groups()]
        numbers = {name: getattr(self, name) for name in ("instances", "auto_seconds", "seed")}
        return {**sources, **numbers, "groups": groups}

    def tasks(self) -> Sequence[Task]:
        """Return a task for each instance, with all algorithms."""
        digests = {path: digest_of_files(path) for path in (self.base, self.curves) if path is not None}
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
                key = f"figure {group.figure.value}, {group.name}, {part}, {digest(run, {'data': digests[source]})}"
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
        """Return the path of the base of a figure's instances; None if the study does not have it."""
        return self.curves if figure in OF_CURVES else self.base
