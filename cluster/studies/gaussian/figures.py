"""The figures of [2] from packings and totals, and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import polars as pl
from rich.table import Table

from cluster.console.tables import new_table
from cluster.studies.figures import Ratio, figures_of
from cluster.studies.gaussian.design import BY_CAPACITY, CANTELLI, GPAS, MEANS, MEANS_AND_GPAS
from plb.risk.gaussian import OVERLOADS

CASE = ("test", "fit", "capacity", "clairvoyance", "averaged", "rebalanced")
"""Columns that identify a case."""
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
"""[2] section 5.3: ratio of the overload with averages observed to that with samples observed."""
PAPER_TOTALS: Mapping[int, tuple[str, str]] = {
    10: ("0.991", "0.27"),
    20: ("0.965", "0.55"),
    30: ("0.923", "0.82"),
    50: ("0.784", "1.37"),
    100: ("0.493", "2.74"),
    250: ("0.183", "6.85"),
    500: ("0.087", "13.69"),
}
"""[2] table 1: rejected share and mean of machines, by number of tasks."""
REQUESTED: Mapping[str, float] = {test.name: overload for test, overload in zip(GPAS, OVERLOADS, strict=True)}
"""ρ of each GPA."""


Findings = dict[str, tuple[str, Ratio]]
"""By label: the figure of [2], and ours, a mean over the instances. A maximum has no interval."""


def base_cases(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the base case: Best Fit, capacity 1, full clairvoyance, samples observed, rebalanced ([2] section 5.1)."""
    return by_clairvoyance(packings).filter(pl.col("clairvoyance") == 1.0)


def by_capacity(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the base case with all capacities, with and without rebalancing (figure 11)."""
    return packings.filter(
        pl.col("test").is_in([test.name for test in BY_CAPACITY]),
        pl.col("fit") == "best",
        pl.col("clairvoyance") == 1.0,
        ~pl.col("averaged"),
    )


def by_clairvoyance(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the base case with all shares of observed realisations (figure 12)."""
    return packings.filter(pl.col("fit") == "best", pl.col("capacity") == 1.0, ~pl.col("averaged"), "rebalanced")


def means(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over instances of every case."""
    return packings.group_by(CASE, maintain_order=True).agg(pl.mean("machines", "m", "q", "oversized"))


def mean_totals(totals: pl.DataFrame) -> pl.DataFrame:
    """Return the rejected share, the mean total and the median differences by resource and size."""
    differences = pl.median("p95", "p99", "p99.9")
    return (
        totals.group_by("resource", "size", maintain_order=True)
        .agg(pl.mean("rejected", "mean"), differences, pl.len().alias("samples"))
        .sort("resource", "size", maintain_order=True)
    )


def averaged_beside_samples(packings: pl.DataFrame) -> pl.DataFrame:
    """Return test, instance, q with samples observed, and ``q_averaged`` with averages observed (figure 10)."""
    coarse = packings.filter("averaged").select("instance", "test", q_averaged="q")
    return base_cases(packings).select("instance", "test", "q").join(coarse, on=("instance", "test"))


def rebalancing(packings: pl.DataFrame) -> pl.DataFrame:
    """Return test, instance and the relative decrease of q by rebalancing; no row if q is 0 (figure 13)."""
    without = packings.filter(
        pl.col("capacity") == 1.0, pl.col("clairvoyance") == 1.0, ~pl.col("rebalanced"), pl.col("q") > 0
    )
    both = without.select("instance", "test", q_off="q").join(
        base_cases(packings).select("instance", "test", "q"), on=("instance", "test")
    )
    return both.with_columns(gain=(pl.col("q_off") - pl.col("q")) / pl.col("q_off"))


def findings(packings: pl.DataFrame) -> Findings:
    """Return the figures of [2] on the tests, with ours."""
    base = base_cases(packings)
    gpa = base.filter(pl.col("test") == "GPA 0.05").select("instance", below="machines")
    found: Findings = {}
    for name, paper in (("Cantelli 1.7", "1.9"), ("Cantelli 4.4", "3.7")):
        both = base.filter(pl.col("test") == name).join(gpa, on="instance")
        found[f"machines, {name} / GPA 0.05"] = paper, _mean(both["machines"] / both["below"])
    for name, paper in (("GPA 0.1", "near 1"), ("GPA 0.05", "near 1"), ("GPA 0.001", "1.6")):
        relative = base.filter(pl.col("test") == name)["q"] / REQUESTED[name]
        found[f"frequency of overload / requested, {name}"] = paper, _mean(relative)
    found |= _of_fits(packings)
    of_gain = pl.col("test").is_in([test.name for test in MEANS_AND_GPAS])
    gains = rebalancing(packings).filter(of_gain).group_by("instance").agg(pl.mean("gain"))
    found["relative decrease of overload by rebalancing, av and GPA"] = "about 0.07", _mean(gains["gain"])
    return found


def mean_simultaneous(simultaneous: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over periods of every test."""
    found = pl.mean("machines", "q", "q_independent", "variance_ratio")
    return simultaneous.group_by("test", maintain_order=True).agg(found)


def _of_fits(packings: pl.DataFrame) -> Findings:
    """Return the largest difference between First Fit and Best Fit, in machines and in mean overload by GPA."""
    first = packings.filter(pl.col("fit") == "first").select("instance", "test", first="machines", q_first="q")
    both = base_cases(packings).join(first, on=("instance", "test"))
    machines = (both["machines"] - both["first"]).abs().max()
    of_gpa = both.filter(pl.col("test").is_in(list(REQUESTED))).group_by("test").agg(pl.mean("q", "q_first"))
    of_gpa = of_gpa.filter(pl.col("q") > 0)
    overload = ((of_gpa["q_first"] - of_gpa["q"]) / of_gpa["q"]).abs().max()
    return {
        "machines, most that First Fit and Best Fit differ by": ("1", _largest(machines)),
        "mean overload by GPA, most that these differ by, relative": ("below 0.01", _largest(overload)),
    }


def as_json(packings: pl.DataFrame, totals: pl.DataFrame, simultaneous: pl.DataFrame) -> dict[str, Any]:
    """Return the figures of the study. A setting is a case; its frequency of overload is `q`."""
    ratios = {label: attrs.asdict(ours) for label, (_, ours) in findings(packings).items()}
    further = {
        "totals": mean_totals(totals).to_dicts(),
        "simultaneous": mean_simultaneous(simultaneous).to_dicts(),
    }
    return figures_of("gaussian", means(packings).to_dicts(), ratios, **further)


def _largest(value: object) -> Ratio:
    """Return the largest value, without an interval; empty if there is no value."""
    return Ratio.of([float(value)] if isinstance(value, int | float) else [])


def _mean(values: pl.Series) -> Ratio:
    """Return the mean over instances with its 95 % interval."""
    return Ratio.of([float(value) for value in values.drop_nulls()])


PAPER_GAIN = "about 7 %"
"""[2] section 5.6, for av and GPA."""


def tables(packings: pl.DataFrame, totals: pl.DataFrame, simultaneous: pl.DataFrame) -> list[Table]:
    """Return all tables; a part without finished runs has none."""
    found = []
    if len(totals):
        found.append(table_of_totals(totals))
    if len(packings):
        found += [table_of_tests(packings), table_of_changes(packings)]
        found += [table_by_capacity(packings), table_by_clairvoyance(packings), table_of_findings(findings(packings))]
    if len(simultaneous):
        found.append(table_of_simultaneous(simultaneous))
    return found


def table_of_totals(totals: pl.DataFrame) -> Table:
    """Return table 1, with the medians of figure 6."""
    shown = new_table(
        ("resource", "tasks", "rejected, paper", "here", "mean, paper", "here", "P95", "P99", "P99.9"),
        "are totals of random tasks Gaussian? [2] table 1 and medians of figure 6",
        f"{mean_totals(totals)['samples'][0]:,} samples of each size; rejected: Anderson-Darling test at 5 %; mean "
        "in machines; P95 to P99.9: Gaussian divided by empirical percentile, minus 1",
    )
    for row in mean_totals(totals).to_dicts():
        rejected, mean = PAPER_TOTALS[row["size"]]
        figures = rejected, f"{row['rejected']:.3f}", mean, f"{row['mean']:.2f}"
        differences = ("-" if row[name] is None else f"{row[name]:+.2%}" for name in ("p95", "p99", "p99.9"))
        shown.add_row(row["resource"], str(row["size"]), *figures, *differences)
    return shown


def table_of_tests(packings: pl.DataFrame) -> Table:
    """Return machines and overload by test (figures 7 to 9)."""
    base = means(base_cases(packings))
    shown = new_table(
        ("test", "machines, paper", "here", "m", "q, paper", "here", "(q - ρ)/ρ", "oversized tasks"),
        "machines and frequency of overload q, [2] section 5.2 (figures 7 to 9)",
        f"means of {packings['instance'].n_unique()} instances; Best Fit, clairvoyance, capacity 1; m: machines by the "
        "lower bound",
    )
    for row in base.to_dicts():
        name = row["test"]
        asked = REQUESTED.get(name)
        error = "" if asked is None else f"{(row['q'] - asked) / asked:+.0%}"
        ours = f"{row['machines']:.1f}", f"{row['m']:.2f}", PAPER_Q.get(name, ""), _share(row["q"])
        shown.add_row(name, PAPER_MACHINES.get(name, ""), *ours, error, f"{row['oversized']:.1f}")
    return shown


def table_of_changes(packings: pl.DataFrame) -> Table:
    """Return the effects of coarser observation and of rebalancing (figures 10 and 13)."""
    both = averaged_beside_samples(packings).group_by("test", maintain_order=True).agg(pl.mean("q", "q_averaged"))
    gains = dict(rebalancing(packings).group_by("test").agg(pl.mean("gain")).rows())
    shown = new_table(
        ("test", "q", "q, averages", "ratio, paper", "here", "decrease, paper", "here"),
        "effects of averages and of rebalancing, [2] sections 5.3 and 5.6 (figures 10 and 13)",
        "ratio: overload with averages observed to that with samples observed; decrease: of overload by rebalancing",
    )
    of_gain = {test.name for test in MEANS_AND_GPAS}
    for name, q, coarse in both.rows():
        ratio = f"{coarse / q:.1f}" if q else "-"
        gain = f"{gains[name]:.1%}" if name in gains else ""
        paper = PAPER_GAIN if name in of_gain else ""
        shown.add_row(name, _share(q), _share(coarse), PAPER_COARSE.get(name, ""), ratio, paper, gain)
    return shown


def table_by_capacity(packings: pl.DataFrame) -> Table:
    """Return q by capacity, with and without rebalancing (figure 11)."""
    chosen = means(by_capacity(packings))
    capacities = sorted(chosen["capacity"].unique())
    shown = new_table(
        ("test", "rebalanced", *(f"{capacity:g}" for capacity in capacities)),
        "q by capacity of the machines ([2] figure 11)",
        "[2]: about the same for GPA, except that rebalancing lowers it on large machines; different for av",
    )
    for test in BY_CAPACITY:
        for on in (True, False):
            of_row = chosen.filter(pl.col("test") == test.name, pl.col("rebalanced") == on).sort("capacity")
            shown.add_row(test.name, "yes" if on else "no", *(_share(q) for q in of_row["q"]))
    return shown


def table_by_clairvoyance(packings: pl.DataFrame) -> Table:
    """Return q by share of the observed realisations (figure 12)."""
    chosen = means(by_clairvoyance(packings))
    levels = sorted(chosen["clairvoyance"].unique())
    shown = new_table(
        ("test", *(f"{level:g}" for level in levels)),
        "q by clairvoyance level ([2] figure 12)",
        "[2]: 100 of 10,000 realisations are enough for about the same q as all of them",
    )
    for test in MEANS_AND_GPAS:
        of_row = chosen.filter(pl.col("test") == test.name).sort("clairvoyance")
        shown.add_row(test.name, *(_share(q) for q in of_row["q"]))
    return shown


def table_of_simultaneous(simultaneous: pl.DataFrame) -> Table:
    """Return q with independent tasks, as in [2], and with usage at the same times."""
    ratio = mean_simultaneous(simultaneous)["variance_ratio"][0]
    shown = new_table(
        ("test", "machines", "q, independent", "q, same times"),
        "are tasks independent? q of the same packings, with independent samples and with usage at the same times",
        f"means of {simultaneous['period'].n_unique()} periods; the variance of all tasks together is {ratio:.1f} "
        "times the sum of their variances; it would be 1.0 times if they were independent",
    )
    for row in mean_simultaneous(simultaneous).to_dicts():
        shown.add_row(row["test"], f"{row['machines']:.1f}", _share(row["q_independent"]), _share(row["q"]))
    return shown


def table_of_findings(found: Findings) -> Table:
    """Return the figures of [2] with ours."""
    shown = new_table(
        ("", "paper", "here", "95 % interval"),
        "compared with [2]",
        "means over instances, with 95 % intervals",
    )
    for label, (paper, ours) in found.items():
        mean = "-" if ours.mean is None else f"{ours.mean:.3g}"
        interval = "-" if ours.low is None else f"{ours.low:.3g} to {ours.high:.3g}"
        shown.add_row(label, paper, mean, interval)
    return shown


def _share(q: float) -> str:
    return f"{q:.4f}" if q >= 0.0005 else f"{q:.1e}" if q else "0"
