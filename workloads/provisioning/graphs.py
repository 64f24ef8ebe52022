"""Affinity graphs of a given density ([3] section 5.1, table 5)."""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np

from plb.array_types import Int, Int32
from plb.provisioning import Affinity
from plb.validation import check_count, check_member, check_number

LIMIT_COUNTS = (13_144, 3_992, 6_556, 361, 25)
"""How often the limits 0, 1, 2, 3 and 4 occur between different applications in the contest's data (preliminary B,
app_interference.csv); 24,078 in all, the number of restrictions that [3] section 5.1 gives."""

Arcs = tuple[Int32, Int32]
"""Sources and targets."""


class GraphKind(StrEnum):
    """Generation of arcs ([3] section 5.1)."""

    ARBITRARY = "arbitrary"
    """Different pairs with equal probability, up to the number given by the density."""
    NORMAL = "normal"
    """From each application a normally distributed number of arcs (mean ΔL, deviation ΔL/2, rounded, 0 to L - 1),
    to other applications with equal probability."""
    THRESHOLD = "threshold"
    """Two numbers from 0 to 1 for each application, one for arcs that leave it and one for those that reach it: there
    is an arc where the mean of the two at its ends is at most `threshold_of` the density."""


def affinity_graph(kind: GraphKind | str, applications: int, density: float, seed: int) -> Affinity:
    """Return limits between different applications, with values as frequent as in the contest's data.

    Parameters
    ----------
    kind
        Generation of arcs.
    applications
        L, the number of applications.
    density
        Δ, arcs by L(L - 1), from 0 to 0.5. Arbitrary graphs have just so many arcs, rounded down; normal ones on
        average 0.4 % more, as no application has a negative number of arcs. The expected density of threshold ones is
        2d² for their threshold d, about Δ + (√(Δ/2) - Δ)/L.
    seed
        Of the random numbers.
    """
    kind = check_member("affinity graph", "kind", kind, GraphKind)
    check_count("affinity graph", "applications", applications, low=1)
    check_number("affinity graph", "density", density, high=0.5)
    draws = np.random.default_rng([check_count("affinity graph", "seed", seed), *kind.encode()])
    arcs = {GraphKind.ARBITRARY: _arbitrary, GraphKind.NORMAL: _normal, GraphKind.THRESHOLD: _threshold}
    source, target = arcs[kind](applications, density, draws)
    values = np.repeat(np.arange(len(LIMIT_COUNTS), dtype=np.int32), LIMIT_COUNTS)
    return Affinity(source, target, values[draws.integers(len(values), size=len(source), dtype=np.uint16)])


def _arbitrary(applications: int, density: float, draws: np.random.Generator) -> Arcs:
    pairs = applications * (applications - 1)
    return _ends(_some_of(pairs, int(density * pairs), draws), applications)


def _some_of(population: int, required: int, draws: np.random.Generator) -> Int:
    """Return different random numbers below `population`, ascending, with equal probability; at most half of them."""
    found = np.zeros(0, np.int64)
    while len(found) < required:
        share = (required - len(found)) / (population - len(found))
        # as many as are expected to give the missing values, and a few more, so that one round is mostly enough
        expected = -population * math.log1p(-share)
        more = draws.integers(population, size=int(expected + 3 * math.sqrt(expected)) + 4)
        found = _distinct(np.concatenate([found, more]))
    surplus = draws.choice(len(found), len(found) - required, replace=False, shuffle=False)
    return np.delete(found, surplus)


def _distinct(numbers: Int) -> Int:
    """Return the different numbers in ascending order; `np.unique` hashes, which takes twenty times as long here."""
    numbers.sort()
    new = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=new[1:])
    return numbers[new]


def _ends(pairs: Int, applications: int) -> Arcs:
    """Return source and target of pairs of different applications, numbered by source and then by target."""
    others = max(applications - 1, 1)
    source = (pairs // others).astype(np.int32)
    target = (pairs % others).astype(np.int32)
    target += target >= source
    return source, target


def _normal(applications: int, density: float, draws: np.random.Generator) -> Arcs:
    mean = applications * density
    degrees = np.rint(draws.normal(mean, mean / 2.0, applications)).astype(np.int64).clip(0, applications - 1)
    source = np.repeat(np.arange(applications, dtype=np.int32), degrees)
    target = np.empty(len(source), np.int32)
    start = 0
    for degree in degrees.tolist():
        target[start : start + degree] = np.sort(draws.choice(applications - 1, degree, replace=False, shuffle=False))
        start += degree
    target += target >= source
    return source, target


def threshold_of(applications: int, density: float) -> float:
    """Return the threshold of G. Bacci and S. Nicoloso (arXiv 1706.03526) for a density of at most 0.5.

    It makes the density the expected one of their undirected graphs, each application having one number. [3]'s authors
    take it for directed graphs, too, and so do we.
    """
    if density == 0.0:
        return -1.0
    return (1.0 + math.sqrt(1.0 + 8.0 * applications * (applications - 1) * density)) / (4.0 * applications)


def _threshold(applications: int, density: float, draws: np.random.Generator) -> Arcs:
    outward, inward = draws.random(applications), draws.random(applications)
    order = np.argsort(inward, kind="stable").astype(np.int32)
    reach = 2.0 * threshold_of(applications, density) - outward
    degrees = np.searchsorted(inward[order], reach, side="right")
    source = np.repeat(np.arange(applications, dtype=np.int32), degrees)
    place = np.arange(len(source)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    target = order[place]
    different = source != target
    return source[different], target[different]
