"""Distance of the total usage of random tasks from a Gaussian ([2] section 3.6, table 1 and figure 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cluster.studies.gaussian.design import SIZES, TOTALS, samples_of
from cluster.studies.gaussian.packings import choose_tasks
from cluster.studies.runner import Row
from plb.array_types import Float
from plb.risk.gaussian import Total, observe

PERCENTS = (95.0, 99.0, 99.9)
"""[2] figure 6."""
CRITICAL = 0.752
"""Critical value of the Anderson-Darling statistic, corrected for the number of values, at 5 %: D'Agostino and
Stephens, *Goodness-of-Fit Techniques*, 1986, table 4.7, mean and variance unknown."""


def run_totals(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Sample tasks for every size; return the differences between their totals and Gaussians."""
    samples = samples_of(arguments["traces"], tuple(arguments["resources"]))
    rng = np.random.default_rng([arguments["seed"], TOTALS, arguments["part"]])
    realisations = samples.draw(
        choose_tasks(samples, max(arguments["tasks"], SIZES[-1]), rng), arguments["realisations"], rng
    )
    statistics = observe(realisations)
    found: list[list[Any]] = []
    for size in SIZES:
        for _ in range(arguments["samples"]):
            chosen = rng.choice(len(realisations), size, replace=False)
            totals = realisations[chosen].sum(axis=0, dtype=np.float64)
            fitted = Total.of_independent(statistics.mean[chosen], statistics.variance[chosen])
            for resource, capacity in enumerate(arguments["capacity"]):
                differences = _differences(totals[:, resource], fitted, resource)
                rejected = not is_gaussian(totals[:, resource])
                found.append([size, resource, rejected, float(fitted.mean[resource]) / capacity, *differences])
    return {"found": found}


def _differences(totals: Float, fitted: Total, resource: int) -> list[float | None]:
    """Return the relative difference of the Gaussian percentiles from the empirical ones; None where these are 0."""
    empirical = np.percentile(totals, PERCENTS)
    gaussian = [float(fitted.percentile(percent / 100.0)[resource]) for percent in PERCENTS]
    return [
        (ours - theirs) / theirs if theirs else None for ours, theirs in zip(gaussian, empirical.tolist(), strict=True)
    ]


def is_gaussian(values: Float) -> bool:
    """Return whether the Anderson-Darling test, at a significance of 5 %, does not reject a Gaussian."""
    count = len(values)
    return bool(anderson_darling(values) * (1.0 + 0.75 / count + 2.25 / count**2) <= CRITICAL)


def anderson_darling(values: Float) -> float:
    """Return the Anderson-Darling statistic of a Gaussian of unknown mean and variance; infinite without variance."""
    from scipy.special import log_ndtr  # type: ignore[import-untyped]

    count = len(values)
    deviation = float(values.std(ddof=1))
    if not deviation:
        return math.inf
    ordered = (np.sort(values) - values.mean()) / deviation
    weights = np.arange(1, 2 * count, 2)
    return float(-count - np.dot(weights, log_ndtr(ordered) + log_ndtr(-ordered[::-1])) / count)


def totals_frame(rows: Sequence[Row]) -> pl.DataFrame:
    """Return a row for each sample and resource."""
    names = ["size", "resource", "rejected", "mean", *(f"p{percent:g}" for percent in PERCENTS)]
    types = [pl.Int64, pl.Int64, pl.Boolean, *[pl.Float64] * (len(names) - 3)]
    found = [
        {"part": row["part"], **dict(zip(names, one, strict=True)), "resource": row["resources"][one[1]]}
        for row in rows
        for one in row["found"]
    ]
    schema = {"part": pl.Int64, **dict(zip(names, types, strict=True)), "resource": pl.String}
    return pl.DataFrame(found, schema=schema)
