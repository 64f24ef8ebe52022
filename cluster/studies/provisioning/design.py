"""The instances and algorithms of the study of [3]."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs

from plb.provisioning import AUTO, Rules
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
    """An algorithm with its rules."""

    algorithm: str
    """Name of the algorithm."""
    rules: Rules
    """As in `plb.provisioning.replanning`."""

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
    """Instances with the same properties."""

    figure: PublishedFigure
    """Figure of [3]."""
    graph: GraphKind
    """Kind of the graph of limits."""
    density: float
    """Density of the limits."""
    applications: int | None = None
    """Number of applications. None: the applications of the base, unchanged."""

    @property
    def name(self) -> str:
        """Name of the group."""
        size = "" if self.applications is None else f", {self.applications:,} applications"
        return f"{self.graph.value}, {100.0 * self.density:g} %{size}"
