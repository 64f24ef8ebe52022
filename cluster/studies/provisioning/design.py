"""The instances and algorithms of the study of [3], and its means: from its text, or from a file of its authors.

The file is CSV with the columns ``set``, ``group``, ``algorithm``, ``mean_deviation_percent`` and ``mean_seconds``,
with the names of the authors' programs. It is a file of the user and not part of this project.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import attrs

from plb.provisioning import AUTO, Rules
from workloads.column_checks import Checker
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
    """Rules of the paper, or of the authors' programs."""

    @property
    def name(self) -> str:
        """Name of the arm."""
        return AUTO if self.algorithm == AUTO else f"{self.algorithm}, {self.rules.value}"


def rules_of(figure: PublishedFigure) -> tuple[Rules, ...]:
    """Return the rules of a figure; the published means follow the first. Authors' programs have constant demand."""
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


@attrs.frozen
class Published:
    """A mean of [3]."""

    value: float
    """Percent or seconds."""
    at_most: bool = False
    """True: the paper states an upper bound."""

    def __str__(self) -> str:
        return f"{'<' if self.at_most else ''}{self.value:g}"


@attrs.frozen
class Means:
    """The means of [3] for an algorithm on a group; None: not published."""

    deviation: Published | None = None
    """Deviation from the lower bound in percent."""
    seconds: Published | None = None
    """Seconds of computation."""


COLUMNS = ("set", "group", "algorithm", "mean_deviation_percent", "mean_seconds")
SETS: Mapping[PublishedFigure, str] = {
    PublishedFigure.DENSITIES: "density2D_64_128",
    PublishedFigure.SIZES: "large2D_64_128",
    PublishedFigure.CURVE_DENSITIES: "densityTS_64_128",
    PublishedFigure.CURVE_SIZES: "largeTS_64_128",
}
NAMES: Mapping[str, str] = {
    "WFD-AvgExp": "WFD-AvgExpo",
    "Medea-TagPopularity": "FFD-Degree",
    "Medea-NodeCandidates": "NodeCount",
    "LRASched-Fitness": "NCD-Fitness",
    "SpreadWFD-Avg-BinSearch": "SpreadWFD-Avg",
    "SpreadWFD-Avg-Decr2": "RefineWFD-Avg-2",
}
"""Names in the authors' programs, where they differ."""

Values = Mapping[str, float | str]
"""Percent or seconds by algorithm; a text is an upper bound."""
EASY = ("FF", "BFD-Avg", "Medea-TagPopularity")
OF_FIGURE_4: Values = {
    "FF": 12.1,
    "BFD-Avg": 12.1,
    "WFD-AvgExp": 10.7,
    "Medea-TagPopularity": 12.2,
    "Medea-NodeCandidates": 12.6,
    "LRASched-Fitness": 11.5,
    "NCD-DotProduct": 11.5,
    "SpreadWFD-Avg-Decr2": 5.4,
    "SpreadWFD-Avg-BinSearch": 4.5,
}
"""[3] section 5.3, percent, averages of all densities."""
OF_THRESHOLD: Mapping[tuple[PublishedFigure, float], float] = {
    (PublishedFigure.DENSITIES, 0.01): 3.6,
    (PublishedFigure.DENSITIES, 0.1): 10.5,
    (PublishedFigure.CURVE_DENSITIES, 0.01): 2.2,
    (PublishedFigure.CURVE_DENSITIES, 0.1): 10.1,
}
"""[3] sections 5.3 and 5.4: first and last algorithm of spreading."""
SECONDS_OF_FIGURE_4: Mapping[str, Mapping[float, float | str]] = {
    **{name: {0.01: "5", 0.05: "18", 0.1: "33"} for name in EASY},
    "WFD-AvgExp": {0.01: 26.0, 0.05: 41.0, 0.1: 61.0},
    "NCD-DotProduct": {0.01: 16.0, 0.05: 34.0, 0.1: 62.0},
    "Medea-NodeCandidates": {0.01: 512.0, 0.05: 3200.0, 0.1: 8005.0},
    "SpreadWFD-Avg-BinSearch": {0.01: 225.0, 0.05: 653.0, 0.1: 1214.0},
}
"""[3] section 5.3, by density."""
OF_100_000: Values = {
    **dict.fromkeys(EASY, 2.5),
    "LRASched-Fitness": 2.4,
    "NCD-DotProduct": 2.4,
    "WFD-AvgExp": 2.0,
    "SpreadWFD-Avg-BinSearch": 0.3,
}
"""[3] section 5.3, percent."""
SECONDS_OF_100_000: Mapping[PublishedFigure, Values] = {
    PublishedFigure.SIZES: {
        **dict.fromkeys(EASY, "480"),
        "LRASched-Fitness": 2100.0,
        "NCD-DotProduct": 2700.0,
        "WFD-AvgExp": 4680.0,
        "SpreadWFD-Avg-Decr2": 7200.0,
        "SpreadWFD-Avg-BinSearch": 25200.0,
    },
    PublishedFigure.CURVE_SIZES: {
        "FF": 840.0,
        "Medea-TagPopularity": 840.0,
        "BFD-Avg": 1080.0,
        "SpreadWFD-Avg-Decr2": 9000.0,
        "WFD-AvgExp": 18000.0,
        "SpreadWFD-Avg-BinSearch": 39600.0,
    },
}
"""[3] sections 5.3 and 5.4."""
OF_CURVE_SIZES: Mapping[int, float] = {10_000: 3.2, 100_000: 3.8}
"""[3] section 5.4, percent, SpreadWFD-Avg-BinSearch."""
SECONDS_OF_FIGURE_6: Values = {**dict.fromkeys(EASY, "45"), "WFD-AvgExp": "240", "SpreadWFD-Avg-Decr2": "540"}
"""[3] section 5.4, any density."""
LARGEST = 100_000


def stated(group: InstanceGroup, algorithm: str) -> Means:
    """Return the means of an algorithm on a group in the text of [3]; most are of arbitrary graphs."""
    if group.graph is GraphKind.THRESHOLD and algorithm in SPREADING:
        return Means(_published(OF_THRESHOLD.get((group.figure, group.density))))
    if group.graph is not GraphKind.ARBITRARY:
        return Means()
    if group.figure in OF_DENSITIES:
        return _stated_by_density(group, algorithm)
    return _stated_by_size(group, algorithm)


def _stated_by_density(group: InstanceGroup, algorithm: str) -> Means:
    """Return the means of an algorithm on arbitrary graphs of the group's density that the text of [3] states."""
    if group.density not in DENSITIES:
        return Means()
    if group.figure is PublishedFigure.DENSITIES:
        seconds = SECONDS_OF_FIGURE_4.get(algorithm, {}).get(group.density)
        return Means(_published(OF_FIGURE_4.get(algorithm)), _published(seconds))
    deviation = "3" if algorithm == SPREADING[1] else None
    return Means(_published(deviation), _published(SECONDS_OF_FIGURE_6.get(algorithm)))


def _stated_by_size(group: InstanceGroup, algorithm: str) -> Means:
    """Return the means of an algorithm on arbitrary graphs of the group's size that the text of [3] states."""
    deviation, largest = None, group.applications == LARGEST
    if group.figure is PublishedFigure.CURVE_SIZES and algorithm == SPREADING[1]:
        deviation = _published(OF_CURVE_SIZES.get(group.applications or 0))
    elif group.figure is PublishedFigure.SIZES and largest:
        deviation = _published(OF_100_000.get(algorithm))
    return Means(deviation, _published(SECONDS_OF_100_000[group.figure].get(algorithm)) if largest else None)


def _published(value: float | str | None) -> Published | None:
    """Return a stated value, of which a text is an upper bound; None for None."""
    return None if value is None else Published(float(value), at_most=isinstance(value, str))


class PublishedMeans:
    """The means of [3], from a file or, without one, from its text; an unusable file raises `TraceError`."""

    def __init__(self, path: Path | None = None) -> None:
        self.from_file = path is not None
        self._read = {} if path is None else _read(path)
        """Means by set, group and algorithm, as the file names them."""

    def of(self, group: InstanceGroup, algorithm: str) -> Means:
        """Return the published means of an algorithm on a group."""
        if not self.from_file:
            return stated(group, algorithm)
        return self._read.get((SETS[group.figure], _name_of(group), NAMES.get(algorithm, algorithm)), Means())


def _name_of(group: InstanceGroup) -> str:
    """Return the name of a group in a file of published means."""
    if group.figure in OF_DENSITIES:
        return f"{group.graph.value}_d{100.0 * group.density:g}"
    return f"large_scale_{group.applications}_{group.graph.value}_d005"


def _read(path: Path) -> dict[tuple[str, str, str], Means]:
    """Return the means in a file by set, group and algorithm, as the file names them.

    Raise `TraceError` if the file is damaged.
    """
    check = Checker(path)
    try:
        rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines(keepends=True))
        names = rows.fieldnames or ()
        for column in COLUMNS:
            if column not in names:
                check.add(f"no column {column}", f"the columns {', '.join(COLUMNS)}", 1)
        check.raise_problems()
        means = {}
        for line, row in enumerate(rows, 2):
            deviation, seconds = (Published(_number(check, line, row, column)) for column in COLUMNS[3:])
            means[row["set"], row["group"], row["algorithm"]] = Means(deviation, seconds)
    except (UnicodeDecodeError, csv.Error) as error:
        check.add(f"damaged contents ({error})", "CSV in UTF-8")
    check.raise_problems()
    return means


def _number(check: Checker, line: int, row: Mapping[str, str], column: str) -> float:
    """Return the number in a field of a row; add a problem to `check` if there is none.

    `line`: of the row in the file.
    """
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        check.add(str(row[column]), "a finite number", line, column)
    return value
