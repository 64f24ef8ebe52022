"""Affinity graphs of a given density ([3] section 5.1, table 5)."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from plb.arrays import Int32
from plb.provisioning import Affinity
from plb.validation import check_count, check_member, check_number

LIMITS = (0, 1, 2, 3, 4)
"""Values of limits in the contest's data, see `LIMIT_COUNTS`."""
LIMIT_COUNTS = (13_144, 3_992, 6_556, 361, 25)
"""How often they occur between different applications of the contest's data set (preliminary B, app_interference.csv
where both applications are deployed); 24,078 in all, as [3] section 5.1 says."""

Ints = npt.NDArray[np.int64]


class GraphKind(StrEnum):
    """How arcs are drawn."""

    ARBITRARY = "arbitrary"
    """Pairs at random, with equal probability (Sadykov and Vanderbeck)."""
    NORMAL = "normal"
    """As many from each application as a normal distribution says, with half of its mean as standard deviation; the
    others at random."""
    THRESHOLD = "threshold"
    """A random number for each end of each application; there is an arc where the two of a pair are small (Gendreau,
    Laporte and Semet, with the parameter of Bacci and Nicoloso)."""


def affinity_graph(kind: GraphKind | str, applications: int, density: float, seed: int) -> Affinity:
    """Return limits between applications, with values as frequent as in the contest's data.

    Parameters
    ----------
    kind
        How arcs are drawn.
    applications
        L, how many there are.
    density
        Arcs by L(L - 1), from 0 to 0.5; exact for arbitrary graphs, on average for others.
    seed
        Of the random numbers.
    """
    kind = check_member("affinity graph", "kind", kind, GraphKind)
    check_count("affinity graph", "applications", applications, low=1)
    check_number("affinity graph", "density", density, high=0.5)
    draws = np.random.default_rng([check_count("affinity graph", "seed", seed), *kind.encode()])
    drawing = {GraphKind.ARBITRARY: _arbitrary, GraphKind.NORMAL: _normal, GraphKind.THRESHOLD: _threshold}
    source, target = drawing[kind](applications, density, draws)
    shares = np.cumsum(LIMIT_COUNTS) / sum(LIMIT_COUNTS)
    most = np.asarray(LIMITS, np.int32)[np.searchsorted(shares, draws.random(len(source)), side="right")]
    return Affinity(source, target, most)


def _arbitrary(applications: int, density: float, draws: np.random.Generator) -> tuple[Int32, Int32]:
    wanted = int(density * applications * (applications - 1))
    return _ends(_some_of(applications * (applications - 1), wanted, draws), applications)


def _some_of(population: int, wanted: int, draws: np.random.Generator) -> Ints:
    """Return so many different numbers below `population`, ascending, all equally likely."""
    found = np.zeros(0, np.int64)
    while len(found) < wanted:
        missing = wanted - len(found)
        more = draws.integers(population, size=missing + missing // 8 + 16)
        new, first = np.unique(more, return_index=True)
        new = new[np.argsort(first)]  # in the order of drawing, so that none is favoured by its size
        new = new[~np.isin(new, found, assume_unique=True)] if len(found) else new
        found = np.concatenate([found, new[:missing]])
    return np.sort(found)


def _ends(pairs: Ints, applications: int) -> tuple[Int32, Int32]:
    """Return source and target of numbered pairs of different applications."""
    source, target = np.divmod(pairs, max(applications - 1, 1))
    return source.astype(np.int32), (target + (target >= source)).astype(np.int32)


def _normal(applications: int, density: float, draws: np.random.Generator) -> tuple[Int32, Int32]:
    mean = applications * density
    degrees = np.rint(draws.normal(mean, mean / 2.0, applications)).astype(np.int64).clip(0, applications - 1)
    pairs = [
        np.sort(draws.choice(applications - 1, degree, replace=False, shuffle=False)) + number * (applications - 1)
        for number, degree in enumerate(degrees.tolist())
    ]
    return _ends(np.concatenate(pairs), applications)


def _threshold(applications: int, density: float, draws: np.random.Generator) -> tuple[Int32, Int32]:
    outward, inward = draws.random(applications), draws.random(applications)
    # of Bacci and Nicoloso, arXiv 1706.03526: the threshold at which the expected density is the one wanted
    threshold = (1.0 + np.sqrt(1.0 + 8.0 * applications * (applications - 1) * density)) / (4.0 * applications)
    if density == 0.0:
        threshold = -1.0
    order = np.argsort(inward, kind="stable")
    degrees = np.searchsorted(inward[order], 2.0 * threshold - outward, side="right")
    source = np.repeat(np.arange(applications), degrees)
    place = np.arange(len(source)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    target = order[place]
    different = source != target
    return source[different].astype(np.int32), target[different].astype(np.int32)
