"""The instances and algorithms of the study of [3]."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

from cluster.runs.sweep import Task
from cluster.scenario.digests import digest_of_files
from cluster.scenario.scenario import MOST_REPEATS
from cluster.studies.design import digest
from plb import PlbError
from plb.provisioning import AUTO, Rules
from plb.validation import check_count, check_number
from workloads.provisioning import GraphKind


class PublishedFigure(StrEnum):
    """Sets of instances ([3] table 5). Figure 3 has the means of figure 4."""

    DENSITIES = "4"
    """Constant demand by density of limits."""
    SIZES = "5"
    """Constant demand by number of applications."""
    CURVE_DENSITIES = "6"
    """Demand that varies, by density of limits."""
    CURVE_SIZES = "7"
    """Demand that varies, by number of applications."""


OF_CURVES = (PublishedFigure.CURVE_DENSITIES, PublishedFigure.CURVE_SIZES)
OF_DENSITIES = (PublishedFigure.DENSITIES, PublishedFigure.CURVE_DENSITIES)
DENSITIES = (0.01, 0.05, 0.1)
"""[3] table 5, for sets by density."""
SIZES_DENSITY = 0.005
"""[3] table 5, for sets by number of applications."""
SIZES = (10_000, 50_000, 100_000)
"""[3] table 5."""
INSTANCES, QUICK_INSTANCES = 3, 1
"""Instances of a group; 10 in [3]."""
QUICK_GRAPHS, QUICK_DENSITIES = (GraphKind.ARBITRARY,), DENSITIES[:1]
AUTO_SECONDS, QUICK_AUTO_SECONDS = 10.0, 3.0
FAST = ("FF", "BFD-Avg", "WFD-AvgExp", "Medea-TagPopularity")
NODE_CENTRIC = ("LRASched-Fitness", "NCD-DotProduct")
SPREADING = ("SpreadWFD-Avg-Decr2", "SpreadWFD-Avg-BinSearch")
ALGORITHMS: Mapping[PublishedFigure, tuple[str, ...]] = {
    PublishedFigure.DENSITIES: (*FAST, "Medea-NodeCandidates", *NODE_CENTRIC, *SPREADING),
    PublishedFigure.SIZES: (*FAST, *NODE_CENTRIC, *SPREADING),
    PublishedFigure.CURVE_DENSITIES: (*FAST, *SPREADING),
    PublishedFigure.CURVE_SIZES: (*FAST, *SPREADING),
}
"""The algorithms of the figures of [3]."""


@attrs.frozen
class AlgorithmArm:
    """An algorithm with its rules.

    Parameters
    ----------
    algorithm
        Name of the algorithm.
    rules
        As in `plb.provisioning.provision`.
    """

    algorithm: str
    rules: Rules

    @property
    def name(self) -> str:
        """Name of the arm."""
        return AUTO if self.algorithm == AUTO else f"{self.algorithm}, {self.rules.value}"


def rules_of(figure: PublishedFigure) -> tuple[Rules, ...]:
    """Return the rules of a figure; the first are those of the published means.

    The rules of the authors' programs exist for constant demand only.
    """
    return (Rules.PAPER,) if figure in OF_CURVES else (Rules.RELEASED, Rules.PAPER)


def arms(figure: PublishedFigure) -> tuple[AlgorithmArm, ...]:
    """Return all arms of a figure."""
    return *(AlgorithmArm(name, rule) for rule in rules_of(figure) for name in ALGORITHMS[figure]), AlgorithmArm(
        AUTO, Rules.PAPER
    )


@attrs.frozen
class InstanceGroup:
    """Instances with the same properties.

    Parameters
    ----------
    figure
        Figure of [3].
    graph
        Kind of the graph of limits.
    density
        Density of the limits.
    applications
        Number of applications. None: the applications of the base, unchanged.
    """

    figure: PublishedFigure
    graph: GraphKind
    density: float
    applications: int | None = None

    @property
    def name(self) -> str:
        """Name of the group."""
        size = "" if self.applications is None else f", {self.applications:,} applications"
        return f"{self.graph.value}, {100.0 * self.density:g} %{size}"


@attrs.frozen(kw_only=True)
class ProvisioningDesign:
    """The study of [3].

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
    """

    base: Path | None = None
    curves: Path | None = None
    figures: tuple[PublishedFigure, ...] | None = None
    graphs: tuple[GraphKind, ...] = tuple(GraphKind)
    densities: tuple[float, ...] = DENSITIES
    sizes: tuple[int, ...] = SIZES[:1]
    instances: int = INSTANCES
    auto_seconds: float = AUTO_SECONDS
    seed: int = 0

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

    def sweep_tasks(self) -> list[Task]:
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

    def described(self) -> dict[str, Any]:
        """Return the design as plain JSON values."""
        sources = {name: path and str(path.resolve()) for name, path in (("base", self.base), ("curves", self.curves))}
        groups = [{**attrs.asdict(group), "name": group.name} for group in self.groups()]
        whole = {name: getattr(self, name) for name in ("instances", "auto_seconds", "seed")}
        return {**sources, **whole, "groups": groups}

    def _source(self, figure: PublishedFigure) -> Path | None:
        return self.curves if figure in OF_CURVES else self.base
