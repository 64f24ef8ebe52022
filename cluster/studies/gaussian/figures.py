"""From packings and totals to the figures of [2], beside those that it prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import polars as pl

from cluster.studies.figures import Ratio, figures_of
from cluster.studies.gaussian.design import BY_CAPACITY, CANTELLI, GPAS, MEANS, MEANS_AND_GPAS
from plb.risk.gaussian import OVERLOADS

CASE = ("test", "fit", "capacity", "clairvoyance", "averaged", "rebalanced")
"""Columns that tell cases apart."""
PAPER_Q: Mapping[str, str] = {
    "GPA 0.001": "0.0016",
    "Cantelli 1": "3e-4",
    "Cantelli 1.7": "2e-6",
    "Cantelli 4.4": "0",
    "perc 90": "7e-5",
    "perc 95": "5e-6",
    "perc 99": "2e-8",
    "perc 100": "0",
}
"""[2] section 5.2."""
PAPER_MACHINES: Mapping[str, str] = {"GPA 0.1": "35", "GPA 0.001": "47", "av 1": "28.0"}
"""[2] sections 5.2 (mean) and 5.6 (medians)."""
PAPER_COARSE: Mapping[str, str] = {
    **{test.name: "2-3" for test in GPAS},
    **{test.name: "10" for test in CANTELLI[:2]},
    **{test.name: "1" for test in MEANS},
}
"""[2] section 5.3: how many times more often machines are overloaded if 5-minute averages are observed."""
PAPER_REJECTED: Mapping[int, str] = {
    10: "0.991",
    20: "0.965",
    30: "0.923",
    50: "0.784",
    100: "0.493",
    250: "0.183",
    500: "0.087",
}
PAPER_MEANS: Mapping[int, str] = {
    10: "0.27",
    20: "0.55",
    30: "0.82",
    50: "1.37",
    100: "2.74",
    250: "6.85",
    500: "13.69",
}
"""[2] table 1."""
REQUESTED: Mapping[str, float] = {test.name: overload for test, overload in zip(GPAS, OVERLOADS, strict=True)}
"""ρ of each GPA."""


@attrs.frozen
class Finding:
    """One figure of [2] and what was found.

    Parameters
    ----------
    label
        What it is about.
    paper
        What the paper reports.
    ours
        Mean over the instances; of what is the most of all, no interval.
    """

    label: str
    paper: str
    ours: Ratio


def base_cases(packings: pl.DataFrame) -> pl.DataFrame:
    """Return those of the base case: Best Fit, capacity 1, clairvoyance, samples observed, rebalanced ([2] 5.1)."""
    return by_clairvoyance(packings).filter(pl.col("clairvoyance") == 1.0)


def by_capacity(packings: pl.DataFrame) -> pl.DataFrame:
    """Return those of the base case but for the capacity, with and without rebalancing (figure 11)."""
    return packings.filter(
        pl.col("test").is_in([test.name for test in BY_CAPACITY]),
        pl.col("fit") == "best",
        pl.col("clairvoyance") == 1.0,
        ~pl.col("averaged"),
    )


def by_clairvoyance(packings: pl.DataFrame) -> pl.DataFrame:
    """Return those of the base case but for the share of the realisations that is observed (figure 12)."""
    return packings.filter(pl.col("fit") == "best", pl.col("capacity") == 1.0, ~pl.col("averaged"), "rebalanced")


def means(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over instances of every case."""
    return packings.group_by(CASE, maintain_order=True).agg(pl.mean("machines", "m", "q", "oversized"))


def mean_totals(totals: pl.DataFrame) -> pl.DataFrame:
    """Return by resource and size: the share that is rejected, the mean total, and the median differences."""
    differences = pl.median("p95", "p99", "p99.9")
    return (
        totals.group_by("resource", "size", maintain_order=True)
        .agg(pl.mean("rejected", "mean"), differences, pl.len().alias("samples"))
        .sort("resource", "size", maintain_order=True)
    )


def averaged_beside_samples(packings: pl.DataFrame) -> pl.DataFrame:
    """Return test, instance, q by samples and ``q_averaged`` where averages were observed (figure 10)."""
    coarse = packings.filter("averaged").select("instance", "test", q_averaged="q")
    return base_cases(packings).select("instance", "test", "q").join(coarse, on=("instance", "test"))


def rebalancing(packings: pl.DataFrame) -> pl.DataFrame:
    """Return test, instance and the relative decrease of q by rebalancing; nothing where q is 0 (figure 13)."""
    without = packings.filter(
        pl.col("capacity") == 1.0, pl.col("clairvoyance") == 1.0, ~pl.col("rebalanced"), pl.col("q") > 0
    )
    both = without.select("instance", "test", q_off="q").join(
        base_cases(packings).select("instance", "test", "q"), on=("instance", "test")
    )
    return both.with_columns(gain=(pl.col("q_off") - pl.col("q")) / pl.col("q_off"))


def findings(packings: pl.DataFrame) -> list[Finding]:
    """Return what [2] says in figures of the tests, and what was found."""
    base = base_cases(packings)
    gpa = base.filter(pl.col("test") == "GPA 0.05").select("instance", below="machines")
    found = []
    for name, paper in (("Cantelli 1.7", "1.9"), ("Cantelli 4.4", "3.7")):
        both = base.filter(pl.col("test") == name).join(gpa, on="instance")
        found.append(Finding(f"machines, {name} / GPA 0.05", paper, _mean(both["machines"] / both["below"])))
    for name, paper in (("GPA 0.1", "near 1"), ("GPA 0.05", "near 1"), ("GPA 0.001", "1.6")):
        relative = base.filter(pl.col("test") == name)["q"] / REQUESTED[name]
        found.append(Finding(f"frequency of overload / requested, {name}", paper, _mean(relative)))
    found += _of_fits(packings)
    of_gain = pl.col("test").is_in([test.name for test in MEANS_AND_GPAS])
    gains = rebalancing(packings).filter(of_gain).group_by("instance").agg(pl.mean("gain"))
    found.append(
        Finding("relative decrease of overload by rebalancing, av and GPA", "about 0.07", _mean(gains["gain"]))
    )
    return found


def mean_simultaneous(simultaneous: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over periods of every test."""
    found = pl.mean("machines", "q", "q_independent", "variance_ratio")
    return simultaneous.group_by("test", maintain_order=True).agg(found)


def _of_fits(packings: pl.DataFrame) -> list[Finding]:
    """Return by how much First Fit and Best Fit differ at the most, in machines and in mean overload by GPA."""
    first = packings.filter(pl.col("fit") == "first").select("instance", "test", first="machines", q_first="q")
    both = base_cases(packings).join(first, on=("instance", "test"))
    machines = (both["machines"] - both["first"]).abs().max()
    of_gpa = both.filter(pl.col("test").is_in(list(REQUESTED))).group_by("test").agg(pl.mean("q", "q_first"))
    of_gpa = of_gpa.filter(pl.col("q") > 0)
    overload = ((of_gpa["q_first"] - of_gpa["q"]) / of_gpa["q"]).abs().max()
    return [
        Finding("machines, most that First Fit and Best Fit differ by", "1", _largest(machines)),
        Finding("mean overload by GPA, most that these differ by, relative", "below 0.01", _largest(overload)),
    ]


def as_json(packings: pl.DataFrame, totals: pl.DataFrame, simultaneous: pl.DataFrame) -> dict[str, Any]:
    """Return the figures of the study; a setting is a case, so the frequency of overload stands there as `q` alone."""
    ratios = {finding.label: attrs.asdict(finding.ours) for finding in findings(packings)}
    further = {
        "totals": mean_totals(totals).to_dicts(),
        "simultaneous": mean_simultaneous(simultaneous).to_dicts(),
    }
    return figures_of("gaussian", means(packings).to_dicts(), ratios, **further)


def _largest(value: object) -> Ratio:
    """Return the largest value, without an interval; nothing where there is none."""
    return Ratio.of([float(value)] if isinstance(value, int | float) else [])


def _mean(values: pl.Series) -> Ratio:
    """Return the mean over instances with its 95 % interval."""
    return Ratio.of([float(value) for value in values.drop_nulls()])
