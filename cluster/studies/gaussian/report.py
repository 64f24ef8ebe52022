"""The tables of the study of [2]."""

from __future__ import annotations

import polars as pl
from rich.table import Table

from cluster.console.tables import new_table
from cluster.studies.gaussian.design import BY_CAPACITY, MEANS_AND_GPAS
from cluster.studies.gaussian.figures import (
    PAPER_COARSE,
    PAPER_MACHINES,
    PAPER_Q,
    PAPER_TOTALS,
    REQUESTED,
    Findings,
    averaged_beside_samples,
    base_cases,
    by_capacity,
    by_clairvoyance,
    findings,
    mean_simultaneous,
    mean_totals,
    means,
    rebalancing,
)

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
