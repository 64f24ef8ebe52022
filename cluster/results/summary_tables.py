"""The comparison of policies, and the tables and plots at the end of `plb simulate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np
import polars as pl
from rich.table import Table
from rich.text import Text

from cluster.plots.base import draw_legend_below, new_axes, new_figure, plot_violations, save_figure
from cluster.plots.loads import plot_load_bands, plot_load_map
from cluster.results.intervals import Interval, decimals_of, half_width
from cluster.results.reading import Results
from cluster.results.recorded_run import MISSING
from cluster.simulation.recorder import RunSummary
from cluster.simulation.run_tables import CAUSES_OF_MOVES, EXTENSION_TERMS, cause_text, term_text
from cluster.tables import new_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADINGS = {
    "violations": "violations",
    "violations_avoidable": "avoidable",
    "violations_unavoidable": "unavoidable",
    "shortages_unresolved": "unresolved",
    "failovers": "failovers",
    "moves": "moves",
    "placement_failures": "not placed",
    "downtime_seconds": "downtime (s)",
    "wall_seconds": "wall (s)",
}
"""Headings of the figures compared, by their keys in ``plb simulate --json``."""
FIGURES = tuple(HEADINGS)
"""The figures that every run has."""


def heading_of(figure: str) -> str:
    """Return the heading of a figure, which may be the mean of an extension term."""
    return HEADINGS.get(figure) or term_text(figure)


def extension_figures(runs: Iterable[RunSummary]) -> tuple[str, ...]:
    """Return the figures of the extension terms that any of the runs has, in their order."""
    return tuple(dict.fromkeys(f"{EXTENSION_TERMS}{term}" for run in runs for term in run.extension_terms))


def further_figures(figures: Iterable[Mapping[str, Interval]]) -> tuple[str, ...]:
    """Return the figures of any policy that not every run has, which are of extension terms, in their order."""
    return tuple(dict.fromkeys(name for policy_figures in figures for name in policy_figures if name not in FIGURES))


@attrs.frozen
class Estimate(Interval):
    """A mean over repeats with its interval and its ratio to the first policy."""

    ratio: float | None
    """The mean divided by the mean of the first policy; None if the first policy has 0 or no mean."""


@attrs.frozen
class Comparison:
    """The figures of every policy."""

    policies: tuple[str, ...]
    """Names of the policies; the others are compared with the first."""
    repeats: dict[str, int]
    """Number of finished runs of each policy."""
    figures: dict[str, dict[str, Estimate]]
    """Estimates by policy and figure; policies without an extension term have no estimate of it."""

    @property
    def shown(self) -> tuple[str, ...]:
        """The figures of the closing table: `SHOWN`, and the extension terms of any policy."""
        return (*SHOWN, *further_figures(self.figures.values()))

    def as_json(self) -> dict[str, Any]:
        """Return the means under the keys of ``plb simulate --json``."""
        return {
            "policies": {
                policy: {name: estimate.mean for name, estimate in self.figures[policy].items()}
                for policy in self.policies
            }
        }


def compare(runs: Iterable[RunSummary], policies: Sequence[str]) -> Comparison:
    """Compare policies over their runs; policies without a run are omitted."""
    finished_runs = list(runs)
    runs_of_policy = {policy: [run for run in finished_runs if run.policy == policy] for policy in policies}
    repeats = {policy: len(policy_runs) for policy, policy_runs in runs_of_policy.items() if policy_runs}
    samples = {
        policy: {
            name: [run.figure(name) for run in runs_of_policy[policy]]
            for name in (*FIGURES, *extension_figures(runs_of_policy[policy]))
        }
        for policy in repeats
    }
    means = {
        policy: {name: float(np.mean(sample)) for name, sample in sample_of_figure.items()}
        for policy, sample_of_figure in samples.items()
    }
    first_means = next(iter(means.values()), {})
    figures = {
        policy: {
            name: Estimate(
                means[policy][name],
                half_width(sample),
                _ratio(means[policy][name], first_means.get(name)),
            )
            for name, sample in sample_of_figure.items()
        }
        for policy, sample_of_figure in samples.items()
    }
    return Comparison(tuple(repeats), repeats, figures)


def _ratio(value: float, first: float | None) -> float | None:
    """Return `value` divided by `first`, the value of the first policy; None if that is 0 or missing."""
    return value / first if first else None


MOST_DECIMALS = 6
"""Narrower intervals are due to rounding only."""
SHOWN = tuple(name for name in HEADINGS if name not in ("violations_unavoidable", "shortages_unresolved"))
"""Figures of the closing table, which has to fit on a terminal."""
WITH_RATIO = ("violations", "violations_avoidable")
"""Figures that are followed by their ratios to the figures of the first policy."""


def comparison_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the comparison, a row for each policy: means, and intervals if there are repeats."""
    headings = ["policy"]
    for name in comparison.shown:
        headings += [heading_of(name), "ratio"] if name in WITH_RATIO else [heading_of(name)]
    rows = []
    for policy in comparison.policies:
        cells = [policy]
        for name in comparison.shown:
            estimate = comparison.figures[policy].get(name)
            cells += [cell(estimate), ratio_cell(estimate)] if name in WITH_RATIO else [cell(estimate)]
        rows.append(cells)
    return headings, rows


def comparison_caption(comparison: Comparison) -> str:
    """Return the caption that explains the figures of the comparison."""
    repeats = max(comparison.repeats.values())
    caption = f"ratio: violations, or avoidable ones, by those of {comparison.policies[0]}"
    if len(comparison.shown) > len(SHOWN):
        caption += "; of extension terms the mean over time, without weight"
    return f"{caption}; means of {repeats} repeats with 95 % intervals" if repeats > 1 else caption


def comparison_table(comparison: Comparison, title: str, remark: str = "") -> Table:
    """Return the comparison as a table, with a remark on interrupted runs below it."""
    caption = Text(comparison_caption(comparison), style="table.caption")
    if remark:
        caption.append(f"\ninterrupted: {remark}", style="red")
    headings, rows = comparison_rows(comparison)
    table = new_table(headings, title, caption, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def cell(estimate: Interval | None, *, signed: bool = False) -> str:
    """Return a mean with its interval as text, with decimals up to the first digit of the interval.

    `estimate`: None for a figure that a policy does not have; `signed`: whether a positive mean has a sign.
    """
    if estimate is None:
        return MISSING
    size = abs(estimate.mean)
    decimals = 0 if float(size).is_integer() or size >= 100 else 1
    if estimate.half_width is None and size < 0.1:
        decimals = max(decimals, min(MOST_DECIMALS, decimals_of(size) + 1 if size else 0))
    if (needed_digits := decimals_of(estimate.half_width)) <= MOST_DECIMALS:
        decimals = max(decimals, needed_digits)
    text = f"{estimate.mean:{'+' if signed and estimate.mean else ''},.{decimals}f}"
    return text if estimate.half_width is None else f"{text} ± {estimate.half_width:,.{decimals}f}"


def ratio_cell(estimate: Estimate | None) -> str:
    """Return the ratio of an estimate as text; `MISSING` if there is none."""
    return MISSING if estimate is None or estimate.ratio is None else f"{estimate.ratio:.2f}"


OUTAGES = {
    "node_faults": "node faults",
    "upgraded_domains": "upgrade domains upgraded",
    "rolled_back_domains": "upgrade domains rolled back",
    "quorum_losses": "quorums lost",
}


def outage_rows(runs: Sequence[RunSummary], policies: Sequence[str]) -> tuple[list[list[str]], str]:
    """Return rows of text on faults and upgrades: the name of a figure, then its mean over the runs of each policy.

    Rows that are all zero are left out; the returned text names them.
    """
    totals_by_policy = [[run.totals for run in runs if run.policy == policy] for policy in policies]
    availabilities_by_policy = [
        [run_totals["availability"] for run_totals in policy_totals if run_totals["availability"] is not None]
        for policy_totals in totals_by_policy
    ]
    rows = [
        [
            "availability of tenants",
            *(f"{np.mean(run_totals):.4%}" if run_totals else MISSING for run_totals in availabilities_by_policy),
        ]
    ]
    for name, heading in OUTAGES.items():
        rows.append(
            [
                heading,
                *(
                    count(np.mean([run_totals[name] for run_totals in policy_totals]))
                    for policy_totals in totals_by_policy
                ),
            ]
        )
    causes = {
        cause
        for policy_totals in totals_by_policy
        for run_totals in policy_totals
        for cause in run_totals["moves_by_cause"]
    }
    for cause in (*CAUSES_OF_MOVES, *sorted(causes - {*CAUSES_OF_MOVES})):
        means = (
            np.mean([run_totals["moves_by_cause"].get(cause, 0) for run_totals in policy_totals])
            for policy_totals in totals_by_policy
        )
        rows.append([f"moves for {cause_text(cause)}", *map(count, means)])
    zeros = [heading for heading, *cells in rows if set(cells) == {"0"}]
    return [row for row in rows if row[0] not in zeros], f"all 0: {', '.join(zeros)}" if zeros else ""


def outage_table(runs: Sequence[RunSummary], policies: Sequence[str]) -> Table:
    """Return the effects of faults and upgrades, with a column for each policy."""
    rows, zeros = outage_rows(runs, policies)
    table = Table("", title="faults and upgrades", caption=zeros)
    for policy in policies:
        table.add_column(policy, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def count(value: float | np.floating) -> str:
    """Return a count as text, or a mean of counts with one decimal if it is not whole."""
    return f"{value:,.{0 if float(value).is_integer() else 1}f}"


def violations_figure(results: Results) -> Figure:
    """Return the plot of violations over time."""
    lengths = {policy: results.lengths(policy) for policy in results.policies if results.repeats(policy)}
    figure, ax = new_axes(7.5, 4.2, f"{results.name}: resource violations")
    plot_violations(ax, results.table("shortages"), list(lengths), lengths, results.days)
    return figure


def save_plots(results: Results) -> list[Path]:
    """Write the plots of a results directory, with the loads of `Results.shown_repeat`; return their paths."""
    from matplotlib import rc_context

    with rc_context({"text.parse_math": False}):  # names of policies and metrics are no formulas
        paths = [save_figure(violations_figure(results), results.folder / "violations.png")]
        load = results.table("node_load", repeat=results.shown_repeat).filter(pl.col("share").is_not_null())
        if len(load):
            paths.append(save_figure(_bands(results, load), results.folder / "load.png"))
            paths.append(save_figure(_maps(results, load), results.folder / "load_map.png"))
    return paths


def _panels(
    results: Results, load: pl.DataFrame, title: str, width: float, height: float, sharey: Literal["row", "all"]
) -> tuple[Figure, dict[tuple[str, str], Axes]]:
    """Return a figure with a panel for each metric (row) and policy (column), and the panels by both.

    `load`: the table of loads; `width`, `height`: inches beside the panels; `sharey`: which panels share the axis of
    loads.
    """
    metrics = load["metric"].unique(maintain_order=True).to_list()
    policies = [policy for policy in results.policies if policy in set(load["policy"].to_list())]
    figure = new_figure(4.8 * len(policies) + width, 2.5 * len(metrics) + height, f"{results.name}: {title}")
    axes = figure.subplots(len(metrics), len(policies), squeeze=False, sharex=True, sharey=sharey)
    metrics_and_policies = [(metric, policy) for metric in metrics for policy in policies]
    return figure, dict(zip(metrics_and_policies, axes.ravel(), strict=True))


def _bands(results: Results, load: pl.DataFrame) -> Figure:
    """Return a figure of the bands of the nodes' loads over time, from the table of loads."""
    figure, axes = _panels(results, load, "load of the nodes", 0.6, 0.8, "row")
    first_metric, _ = next(iter(axes))
    for (metric, policy), ax in axes.items():
        plot_load_bands(ax, load.filter(policy=policy), metric, results.violation_threshold, results.days)
        ax.label_outer()
        if metric == first_metric:
            ax.set_title(policy)
    draw_legend_below(figure, ax, 4)
    return figure


def _maps(results: Results, load: pl.DataFrame) -> Figure:
    """Return a figure of the load of each node over time, from the table of loads."""
    figure, axes = _panels(results, load, "load by node", 1.2, 0.6, "all")
    threshold = results.violation_threshold
    for (metric, policy), ax in axes.items():
        mesh = plot_load_map(ax, load.filter(policy=policy), metric, threshold, results.days)
        ax.label_outer()
        ax.set_title(f"{metric}, {policy}", fontsize=10)
    bar = figure.colorbar(mesh, ax=list(axes.values()), extend="max", shrink=0.8)
    bar.set_label(f"load (% of capacity; orange: at least the threshold of {threshold:.0%})")
    return figure
