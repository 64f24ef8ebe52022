"""The figures of [2] from packings and totals, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.table import Table

from cluster.plots.base import COLOURS, GREY, new_axes, new_figure, use_log_axis, use_open_axes
from cluster.studies.figures import Claim, figures_of, ratios_as_json, table_of_claims
from cluster.studies.gaussian.packings import BY_CAPACITY, CANTELLI, GPAS, MEANS, MEANS_AND_GPAS
from cluster.studies.violations import Ratio
from cluster.tables import new_table
from plb.risk.gaussian import OVERLOADS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
"""[2] section 5.3: overload with averages observed, divided by overload with samples observed."""
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


def base_cases(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `packings_frame` of the base case ([2] section 5.1).

    It is Best Fit, capacity 1, clairvoyance, samples observed, rebalanced.
    """
    return by_clairvoyance(packings).filter(pl.col("clairvoyance") == 1.0)


def by_capacity(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `packings_frame` of the base case with all capacities, rebalanced or not (figure 11)."""
    return packings.filter(
        pl.col("test").is_in([test.name for test in BY_CAPACITY]),
        pl.col("fit") == "best",
        pl.col("clairvoyance") == 1.0,
        ~pl.col("averaged"),
    )


def by_clairvoyance(packings: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of `packings_frame` of the base case with all shares of observed realisations (figure 12)."""
    return packings.filter(pl.col("fit") == "best", pl.col("capacity") == 1.0, ~pl.col("averaged"), "rebalanced")


def means(packings: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of the means over instances of `packings_frame`, a row for each case."""
    return packings.group_by(CASE, maintain_order=True).agg(pl.mean("machines", "m", "q", "oversized"))


def mean_totals(totals: pl.DataFrame) -> pl.DataFrame:
    """Return means of `totals_frame` by resource and size: rejected share and total; and medians of the differences."""
    differences = pl.median("p95", "p99", "p99.9")
    return (
        totals.group_by("resource", "size", maintain_order=True)
        .agg(pl.mean("rejected", "mean"), differences, pl.len().alias("samples"))
        .sort("resource", "size", maintain_order=True)
    )


def averaged_beside_samples(packings: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of the base case, with the columns test, instance, q, and ``q_averaged`` (figure 10).

    ``q`` is with samples observed, ``q_averaged`` with averages observed.
    """
    averaged = packings.filter("averaged").select("instance", "test", q_averaged="q")
    return base_cases(packings).select("instance", "test", "q").join(averaged, on=("instance", "test"))


def rebalancing(packings: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of test, instance and the relative decrease of q by rebalancing; no row if q is 0 (figure 13)."""
    not_rebalanced = packings.filter(
        pl.col("capacity") == 1.0, pl.col("clairvoyance") == 1.0, ~pl.col("rebalanced"), pl.col("q") > 0
    )
    q_by_rebalancing = not_rebalanced.select("instance", "test", q_off="q").join(
        base_cases(packings).select("instance", "test", "q"), on=("instance", "test")
    )
    return q_by_rebalancing.with_columns(gain=(pl.col("q_off") - pl.col("q")) / pl.col("q_off"))


def claims(packings: pl.DataFrame) -> list[Claim]:
    """Return the figures of [2] on the tests, each beside ours: means over instances, or maxima without an interval."""
    base_rows = base_cases(packings)
    gpa_machines = base_rows.filter(pl.col("test") == "GPA 0.05").select("instance", below="machines")
    machines = []
    for name, paper in (("Cantelli 1.7", "1.9"), ("Cantelli 4.4", "3.7")):
        machines_of_tests = base_rows.filter(pl.col("test") == name).join(gpa_machines, on="instance")
        machines.append(
            Claim(
                f"machines, {name} / GPA 0.05", paper, _mean(machines_of_tests["machines"] / machines_of_tests["below"])
            )
        )
    overloads = [
        Claim(
            f"frequency of overload / requested, {name}",
            paper,
            _mean(base_rows.filter(pl.col("test") == name)["q"] / REQUESTED[name]),
        )
        for name, paper in (("GPA 0.1", "near 1"), ("GPA 0.05", "near 1"), ("GPA 0.001", "1.6"))
    ]
    is_gain_test = pl.col("test").is_in([test.name for test in MEANS_AND_GPAS])
    gains = rebalancing(packings).filter(is_gain_test).group_by("instance").agg(pl.mean("gain"))
    decrease = "relative decrease of overload by rebalancing, av and GPA"
    return [*machines, *overloads, *_of_fits(packings), Claim(decrease, "about 0.07", _mean(gains["gain"]))]


def mean_simultaneous(simultaneous: pl.DataFrame) -> pl.DataFrame:
    """Return the means over periods of `simultaneous_frame`, a row for each test."""
    figures = pl.mean("machines", "q", "q_independent", "variance_ratio")
    return simultaneous.group_by("test", maintain_order=True).agg(figures)


def _of_fits(packings: pl.DataFrame) -> list[Claim]:
    """Return the largest differences between First Fit and Best Fit: in machines, and in mean overload by GPA."""
    first_fit = packings.filter(pl.col("fit") == "first").select("instance", "test", first="machines", q_first="q")
    both_fits = base_cases(packings).join(first_fit, on=("instance", "test"))
    machines = (both_fits["machines"] - both_fits["first"]).abs().max()
    gpa_overloads = (
        both_fits.filter(pl.col("test").is_in(list(REQUESTED))).group_by("test").agg(pl.mean("q", "q_first"))
    )
    gpa_overloads = gpa_overloads.filter(pl.col("q") > 0)
    overload = ((gpa_overloads["q_first"] - gpa_overloads["q"]) / gpa_overloads["q"]).abs().max()
    return [
        Claim("machines, most that First Fit and Best Fit differ by", "1", _largest(machines)),
        Claim("mean overload by GPA, most that these differ by, relative", "below 0.01", _largest(overload)),
    ]


def as_json(packings: pl.DataFrame, totals: pl.DataFrame, simultaneous: pl.DataFrame) -> dict[str, Any]:
    """Return the figures of the study. A setting is a case; its frequency of overload is `q`."""
    further = {"totals": mean_totals(totals).to_dicts(), "simultaneous": mean_simultaneous(simultaneous).to_dicts()}
    return figures_of("gaussian", means(packings).to_dicts(), ratios_as_json(claims(packings)), **further)


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
    all_tables = []
    if len(totals):
        all_tables.append(table_of_totals(totals))
    if len(packings):
        all_tables += [table_of_tests(packings), table_of_changes(packings)]
        all_tables += [table_by_capacity(packings), table_by_clairvoyance(packings)]
        all_tables.append(
            table_of_claims(claims(packings), "gaussian", "means over instances", paper="[2]", digits=".3g")
        )
    if len(simultaneous):
        all_tables.append(table_of_simultaneous(simultaneous))
    return all_tables


def table_of_totals(totals: pl.DataFrame) -> Table:
    """Return a table of [2] table 1, beside ours, with the medians of figure 6."""
    table = new_table(
        ("resource", "tasks", "rejected, paper", "here", "mean, paper", "here", "P95", "P99", "P99.9"),
        "are totals of random tasks Gaussian? [2] table 1 and medians of figure 6",
        f"{mean_totals(totals)['samples'][0]:,} samples of each size; rejected: Anderson-Darling test at 5 %; mean "
        "in machines; P95 to P99.9: Gaussian divided by empirical percentile, minus 1",
    )
    for row in mean_totals(totals).to_dicts():
        rejected, mean = PAPER_TOTALS[row["size"]]
        figures = rejected, f"{row['rejected']:.3f}", mean, f"{row['mean']:.2f}"
        differences = ("-" if row[name] is None else f"{row[name]:+.2%}" for name in ("p95", "p99", "p99.9"))
        table.add_row(row["resource"], str(row["size"]), *figures, *differences)
    return table


def table_of_tests(packings: pl.DataFrame) -> Table:
    """Return a table of machines and overload by test (figures 7 to 9)."""
    base = means(base_cases(packings))
    table = new_table(
        ("test", "machines, paper", "here", "m", "q, paper", "here", "(q - ρ)/ρ", "oversized tasks"),
        "machines and frequency of overload q, [2] section 5.2 (figures 7 to 9)",
        f"means of {packings['instance'].n_unique()} instances; Best Fit, clairvoyance, capacity 1; m: machines by the "
        "lower bound",
    )
    for row in base.to_dicts():
        name = row["test"]
        requested = REQUESTED.get(name)
        error = "" if requested is None else f"{(row['q'] - requested) / requested:+.0%}"
        ours = f"{row['machines']:.1f}", f"{row['m']:.2f}", PAPER_Q.get(name, ""), _share(row["q"])
        table.add_row(name, PAPER_MACHINES.get(name, ""), *ours, error, f"{row['oversized']:.1f}")
    return table


def table_of_changes(packings: pl.DataFrame) -> Table:
    """Return a table of the effects of averaged observations and of rebalancing (figures 10 and 13)."""
    observed_overloads = (
        averaged_beside_samples(packings).group_by("test", maintain_order=True).agg(pl.mean("q", "q_averaged"))
    )
    gains = dict(rebalancing(packings).group_by("test").agg(pl.mean("gain")).rows())
    table = new_table(
        ("test", "q", "q, averages", "ratio, paper", "here", "decrease, paper", "here"),
        "effects of averages and of rebalancing, [2] sections 5.3 and 5.6 (figures 10 and 13)",
        "ratio: overload with averages observed to that with samples observed; decrease: of overload by rebalancing",
    )
    gain_tests = {test.name for test in MEANS_AND_GPAS}
    for name, q, q_averaged in observed_overloads.rows():
        ratio = f"{q_averaged / q:.1f}" if q else "-"
        gain = f"{gains[name]:.1%}" if name in gains else ""
        paper = PAPER_GAIN if name in gain_tests else ""
        table.add_row(name, _share(q), _share(q_averaged), PAPER_COARSE.get(name, ""), ratio, paper, gain)
    return table


def table_by_capacity(packings: pl.DataFrame) -> Table:
    """Return a table of q by capacity, with and without rebalancing (figure 11)."""
    case_means = means(by_capacity(packings))
    capacities = sorted(case_means["capacity"].unique())
    table = new_table(
        ("test", "rebalanced", *(f"{capacity:g}" for capacity in capacities)),
        "q by capacity of the machines ([2] figure 11)",
        "[2]: about the same for GPA, except that rebalancing lowers it on large machines; different for av",
    )
    for test in BY_CAPACITY:
        for is_rebalanced in (True, False):
            row_means = case_means.filter(pl.col("test") == test.name, pl.col("rebalanced") == is_rebalanced).sort(
                "capacity"
            )
            table.add_row(test.name, "yes" if is_rebalanced else "no", *(_share(q) for q in row_means["q"]))
    return table


def table_by_clairvoyance(packings: pl.DataFrame) -> Table:
    """Return a table of q by share of the observed realisations (figure 12)."""
    case_means = means(by_clairvoyance(packings))
    levels = sorted(case_means["clairvoyance"].unique())
    table = new_table(
        ("test", *(f"{level:g}" for level in levels)),
        "q by clairvoyance level ([2] figure 12)",
        "[2]: 100 of 10,000 realisations are enough for about the same q as all of them",
    )
    for test in MEANS_AND_GPAS:
        row_means = case_means.filter(pl.col("test") == test.name).sort("clairvoyance")
        table.add_row(test.name, *(_share(q) for q in row_means["q"]))
    return table


def table_of_simultaneous(simultaneous: pl.DataFrame) -> Table:
    """Return a table of q with independent tasks, as in [2], and with usage at the same times."""
    ratio = mean_simultaneous(simultaneous)["variance_ratio"][0]
    table = new_table(
        ("test", "machines", "q, independent", "q, same times"),
        "are tasks independent? q of the same packings, with independent samples and with usage at the same times",
        f"means of {simultaneous['period'].n_unique()} periods; the variance of all tasks together is {ratio:.1f} "
        "times the sum of their variances; it would be 1.0 times if they were independent",
    )
    for row in mean_simultaneous(simultaneous).to_dicts():
        table.add_row(row["test"], f"{row['machines']:.1f}", _share(row["q_independent"]), _share(row["q"]))
    return table


def _share(q: float) -> str:
    """Return a frequency of overload as text."""
    return f"{q:.4f}" if q >= 0.0005 else f"{q:.1e}" if q else "0"


Groups = Mapping[str, Sequence[float]]
MOST_IN_FIGURE_6 = 50
BY_CLAIRVOYANCE = ("av 1.25", "GPA 0.1", "GPA 0.01", "GPA 0.001")


def plots(packings: pl.DataFrame, totals: pl.DataFrame) -> dict[str, Callable[[], Figure]]:
    """Return the plots of the finished runs by file name."""
    figures_of_packings = (figure_7, figure_8, figure_9, figure_10, figure_11, figure_12, figure_13)
    draw_functions: dict[str, Callable[[], Figure]] = {}
    if len(totals):
        draw_functions["figure6.png"] = partial(figure_6, totals)
    if len(packings):
        draw_functions |= {
            f"figure{number}.png": partial(draw, packings) for number, draw in enumerate(figures_of_packings, 7)
        }
    return draw_functions


def boxes(ax: Axes, groups: Groups, *, colour: str = COLOURS[1], offset: float = 0.0) -> None:
    """Draw a box for each group of values: quartiles, median, whiskers of 1.5 interquartile ranges.

    `offset`: shift of the boxes along the axis.
    """
    positions = np.arange(len(groups)) + offset
    style: dict[str, Any] = {"patch_artist": True, "medianprops": {"color": "black"}, "flierprops": {"markersize": 2}}
    if groups:
        box_plot = ax.boxplot([list(values) for values in groups.values()], positions=positions, widths=0.35, **style)
        for box in box_plot["boxes"]:
            box.set(facecolor=colour, alpha=0.6)
    ax.set_xticks(np.arange(len(groups)), list(groups))
    use_open_axes(ax, "y")


def figure_6(totals: pl.DataFrame) -> Figure:
    """Return a plot of the differences between percentiles of Gaussians and of totals, by number of tasks."""
    small_totals = totals.filter(pl.col("size") <= MOST_IN_FIGURE_6)
    resources = small_totals["resource"].unique(maintain_order=True).to_list()
    figure = new_figure(3.6 * 3, 3.0 * len(resources) + 0.5, "Gaussian by empirical percentile of totals, less 1")
    axes = figure.subplots(len(resources), 3, squeeze=False, sharey="row")
    for row, resource in enumerate(resources):
        for ax, name in zip(axes[row], ("p95", "p99", "p99.9"), strict=True):
            panel_totals = small_totals.filter(pl.col("resource") == resource).drop_nulls(name)
            groups = {str(size): size_totals[name].to_list() for (size,), size_totals in panel_totals.group_by("size")}
            sizes = sorted(groups, key=int)
            if sizes:
                ax.violinplot([groups[size] for size in sizes], showmedians=True, showextrema=True)
            ax.set_xticks(np.arange(1, len(sizes) + 1), sizes)
            ax.axhline(0.0, color=GREY, linewidth=0.8)
            ax.set(title=f"{resource}: percentile {name[1:]}", xlabel="tasks")
            ax.grid(axis="y", alpha=0.25)
    return figure


def figure_7(packings: pl.DataFrame) -> Figure:
    """Return a plot of the normalised machines by test."""
    figure, ax = new_axes(10.0, 4.0, "machines by the lower bound; clairvoyance, capacity 1")
    boxes(ax, _by_test(base_cases(packings), "m"))
    ax.tick_params(axis="x", rotation=60)
    ax.set(ylabel="m")
    return figure


def figure_8(packings: pl.DataFrame) -> Figure:
    """Return a plot of overload over machines, a dot for each instance."""
    figure, ax = new_axes(8.5, 5.0, "frequency of overload and machines; clairvoyance, capacity 1")
    for family, marker in (("GPA", "o"), ("av", "s"), ("perc", "^")):
        family_rows = base_cases(packings).filter(pl.col("test").str.starts_with(family), pl.col("q") > 0)
        for test in family_rows["test"].unique(maintain_order=True):
            dots = family_rows.filter(pl.col("test") == test)
            ax.plot(dots["m"], dots["q"], marker, markersize=4, alpha=0.6, label=test)
    ax.set(xlabel="m", ylabel="q")
    if ax.lines:  # nothing was ever overloaded, else
        use_log_axis(ax, "y")
        ax.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    ax.grid(alpha=0.25)
    return figure


def figure_9(packings: pl.DataFrame) -> Figure:
    """Return a plot of the relative error of GPA by requested frequency."""
    errors = {
        f"{overload:g}": ((base_cases(packings).filter(pl.col("test") == name)["q"] - overload) / overload).to_list()
        for name, overload in REQUESTED.items()
    }
    figure, ax = new_axes(5.0, 4.0, "relative error of GPA; clairvoyance, capacity 1")
    boxes(ax, errors)
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.set(xlabel="requested frequency of overload ρ", ylabel="(q - ρ) / ρ")
    return figure


def figure_10(packings: pl.DataFrame) -> Figure:
    """Return a plot of overload with samples and with averages observed."""
    overloads = averaged_beside_samples(packings)
    families = {"GPA": GPAS, "Cantelli": CANTELLI[:2], "av": MEANS}
    figure = new_figure(11.0, 4.0, "overload by observed samples (left of each pair) and averages (right)")
    for ax, (family, tests) in zip(figure.subplots(1, len(families)), families.items(), strict=True):
        family_overloads = overloads.filter(pl.col("test").is_in([test.name for test in tests]))
        for offset, name, colour in ((-0.2, "q", COLOURS[1]), (0.2, "q_averaged", COLOURS[0])):
            boxes(ax, _by_test(family_overloads, name), colour=colour, offset=offset)
        if family == "GPA":
            for position, overload in enumerate(REQUESTED.values()):
                ax.hlines(overload, position - 0.4, position + 0.4, color="black", linewidth=2)
        ax.tick_params(axis="x", rotation=30)
        ax.set(title=family, ylabel="q")
    return figure


def figure_11(packings: pl.DataFrame) -> Figure:
    """Return a plot of overload by capacity, with and without rebalancing."""
    cases = by_capacity(packings)
    figure = new_figure(11.0, 5.5, "overload by capacity, with rebalancing (above) and without (below)")
    axes = figure.subplots(2, len(BY_CAPACITY), sharey="col")
    for row, is_rebalanced in enumerate((True, False)):
        for ax, test in zip(axes[row], BY_CAPACITY, strict=True):
            panel_cases = cases.filter(pl.col("test") == test.name, pl.col("rebalanced") == is_rebalanced)
            boxes(ax, _by(panel_cases, "capacity", "q"))
            ax.set(title=test.name, xlabel="capacity", ylabel="q")
            ax.set_ylim(bottom=0.0)
    return figure


def figure_12(packings: pl.DataFrame) -> Figure:
    """Return a plot of overload by clairvoyance level."""
    cases = by_clairvoyance(packings)
    figure = new_figure(11.0, 3.6, "overload by clairvoyance level")
    for ax, name in zip(figure.subplots(1, len(BY_CLAIRVOYANCE)), BY_CLAIRVOYANCE, strict=True):
        boxes(ax, _by(cases.filter(pl.col("test") == name), "clairvoyance", "q"))
        ax.tick_params(axis="x", rotation=60)
        ax.set(title=name, xlabel="share observed", ylabel="q")
    return figure


def figure_13(packings: pl.DataFrame) -> Figure:
    """Return a plot of the relative decrease of overload by rebalancing."""
    figure, ax = new_axes(8.0, 4.0, "relative decrease of overload by rebalancing; capacity 1")
    boxes(ax, _by_test(rebalancing(packings), "gain"))
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.tick_params(axis="x", rotation=45)
    ax.set(ylabel="(q off - q on) / q off")
    return figure


def _by_test(frame: pl.DataFrame, column: str) -> dict[str, list[float]]:
    """Return the values in a column of a frame by test."""
    return {
        str(test): test_rows[column].to_list() for (test,), test_rows in frame.group_by("test", maintain_order=True)
    }


def _by(frame: pl.DataFrame, group_column: str, value_column: str) -> dict[str, list[float]]:
    """Return the values in a column of a frame, by the numbers in `group_column`, ascending."""
    ordered = frame.sort(group_column).group_by(group_column, maintain_order=True)
    return {f"{key:g}": group_rows[value_column].to_list() for (key,), group_rows in ordered}
