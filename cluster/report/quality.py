"""The sections on violations, failovers, load, availability and outages, and the comparison of the policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from cluster.plots.base import plot_violations
from cluster.plots.loads import MOST_CLASSES, availability_by_class, plot_availability, plot_load_bands, plot_load_map
from cluster.plots.moves import failovers_by_cause, plot_causes, plot_failovers
from cluster.report.blocks import (
    Block,
    Gallery,
    Material,
    PageTable,
    Picture,
    Tables,
    Text,
    amount,
    moment,
    picture,
    share,
)
from cluster.results.recorded_run import MISSING
from cluster.results.summary_tables import comparison_caption, comparison_rows, count, outage_rows
from cluster.simulation.recorder import RunSummary
from cluster.simulation.run_tables import cause_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUTCOMES = {
    "violations": "violations",
    "violations_avoidable": "avoidable",
    "violations_unavoidable": "unavoidable",
    "shortages_covered": "covered by moves under way",
    "shortages_unresolved": "nothing could be moved",
    "shortages_unresolved_unavoidable": "of these unavoidable",
    "violated_node_minutes": "node minutes in violation",
}
MOST_ROWS = 100
"""Largest number of rows of the table of applications."""


def comparison_blocks(material: Material) -> Sequence[Block]:
    """Return the table that compares the policies, and a remark on interrupted runs."""
    headings, rows = comparison_rows(material.comparison)
    caption = f"Comparison of the policies; {comparison_caption(material.comparison)}."
    run_counts = material.comparison.repeats
    rows_with_counts = tuple((policy, count(run_counts[policy]), *cells) for policy, *cells in rows)
    table = PageTable(caption, (headings[0], "runs", *headings[1:]), rows_with_counts)
    incomplete = [
        f"{run.policy}, repeat {run.repeat + 1}, covers {run.days:.2f} days only"
        for run in material.results.runs
        if not run.complete
    ]
    remarks = (Text(f"Interrupted: {'; '.join(incomplete)}. Compare the figures with care."),) if incomplete else ()
    return (table, *remarks)


def violations_blocks(material: Material) -> Sequence[Block]:
    """Return the plot of the violations over time, and the table of the outcomes of all shortages."""
    rows = []
    for policy in material.policies:
        runs = [run for run in material.results.runs if run.policy == policy]
        rows.append((policy, *(_mean(runs, name) for name in OUTCOMES)))
    caption = (
        "Nodes and metering times in violation, means over repeats. Unavoidable: one replica alone reaches the largest "
        "threshold of the nodes."
    )
    table = PageTable(caption, ("policy", *OUTCOMES.values()), tuple(rows))
    if not any(run.totals["violations"] for run in material.results.runs):
        return (Text("No node was in violation at any time."), table)
    shortages = material.results.table("shortages")
    unavoidable = any(run.totals.get("violations_unavoidable") for run in material.results.runs)
    violations_plot = picture(
        lambda ax: plot_violations(ax, shortages, material.policies, material.lengths, material.days),
        "Violations so far: nodes and metering times at which a failover was started because of a shortage."
        + (" Thick lines: avoidable ones. Thin lines: all." if unavoidable else ""),
        "Cumulative violations over simulated time, a line for each policy; the totals are in the table below.",
        width=7.5,
        height=3.8,
    )
    return (Gallery((violations_plot,)), table)


def _mean(runs: Sequence[RunSummary], name: str) -> str:
    """Return the mean of a figure of runs as text."""
    return count(sum(run.figure(name) for run in runs) / len(runs)) if runs else MISSING


def failovers_blocks(material: Material) -> Sequence[Block]:
    """Return the plots of the failovers over time and by cause, and their table."""
    causes = failovers_by_cause(material.moves, material.policies, material.repeats)
    if not causes:
        return (Text("There was no failover."),)
    over_time = picture(
        lambda ax: plot_failovers(ax, material.moves, material.policies, material.lengths, material.days),
        "Failovers so far: every move but those for balance.",
        "Cumulative failovers over simulated time, a line a policy; the totals are in the table below.",
    )
    by_cause = picture(
        lambda ax: plot_causes(ax, material.moves, material.policies, material.repeats),
        "Failovers by what they were made for.",
        "Failovers of each policy divided by cause; the numbers are in the table below.",
        height=max(2.0, 0.8 + 0.5 * len(material.policies)),
    )
    rows = tuple(
        (cause_text(cause), *(count(means[policy]) for policy in material.policies)) for cause, means in causes.items()
    )
    table = PageTable("Failovers by cause, means over repeats.", ("cause", *material.policies), tuple(rows))
    return (Gallery((over_time, by_cause)), table)


def load_blocks(material: Material) -> Sequence[Block]:
    """Return the plots of the load of the nodes over time, as bands and by node, and the use by applications."""
    load = material.node_load
    if not len(load):
        nothing = Text("No load was metered, or no node has a capacity.")
        return (nothing, *_applications(material))
    blocks: list[Block] = [
        Text(
            f"Load by capacity{material.of_shown}, both ends of moves counted. From "
            f"{material.results.violation_threshold:.0%} on, a node is in violation; such loads are orange in the "
            "maps. White is a node without load. Where meterings or nodes share a cell, it shows the largest load."
        )
    ]
    for metric in load["metric"].unique(maintain_order=True):
        loaded = set(load.filter(metric=metric)["policy"])
        policies = [policy for policy in material.shown_policies if policy in loaded]
        bands, maps = zip(*(_load_pictures(material, metric, policy) for policy in policies), strict=True)
        blocks += [Gallery((*bands, *maps))] if len(maps) == 1 else [Gallery(bands), Gallery(maps)]
    return (*blocks, *_applications(material))


def _applications(material: Material) -> list[Block]:
    """Return the table of the nodes and loads that each application used under each policy, if there are any."""
    uses_of_runs = [(run.policy, run.totals.get("applications", {})) for run in material.results.runs]
    rows: list[tuple[str, ...]] = []
    for policy in material.policies:
        policy_uses = [applications for run_policy, applications in uses_of_runs if run_policy == policy]
        for name in dict.fromkeys(name for applications in policy_uses for name in applications):
            application_uses = [applications[name] for applications in policy_uses if name in applications]
            for metric in application_uses[0]["load"]:
                figures = (
                    amount(sum(use["nodes"] for use in application_uses) / len(application_uses)),
                    count(max(use["most_nodes"] for use in application_uses)),
                    amount(sum(use["load"][metric] for use in application_uses) / len(application_uses)),
                    *(
                        amount(max(use[figure][metric] for use in application_uses))
                        for figure in ("largest_load", "largest_load_on_node")
                    ),
                )
                rows.append((policy, name, metric, *figures))
    if not rows:
        return []
    caption = "Use of nodes and loads by applications, without departing ends: means over meterings and maxima"
    table_caption = (
        f"{caption}." if len(rows) <= MOST_ROWS else f"{caption}; the first {MOST_ROWS} rows of {len(rows):,}."
    )
    headings = ("policy", "application", "metric", "nodes", "most nodes", "load", "largest load", "largest on a node")
    return [PageTable(table_caption, headings, tuple(rows[:MOST_ROWS]), left=3)]


def _load_pictures(material: Material, metric: str, policy: str) -> tuple[Picture, Picture]:
    """Return the load of a metric under a policy, in the shown repeat, as bands over the nodes and as a map by node."""
    load = material.node_load.filter(policy=policy)
    threshold, days = material.results.violation_threshold, material.days
    highest_percentage = 105.0 * max(threshold, float(material.node_load.filter(metric=metric)["share"].max() or 0.0))  # type: ignore[arg-type]

    def draw_bands(ax: Axes) -> None:
        plot_load_bands(ax, load, metric, threshold, days)
        ax.set_ylim(0.0, highest_percentage)  # the same for all policies

    bands = picture(
        draw_bands,
        f"{metric}, {policy}: all nodes, their middle half and their median.",
        f"Load of {metric} under {policy} over time, as bands over the nodes.",
    )
    by_node = picture(
        lambda ax: plot_load_map(ax, load, metric, threshold, days),
        f"{metric}, {policy}: by node and time.",
        f"Heat map of the load of {metric} under {policy} by node and time.",
    )
    return bands, by_node


MOST_EVENTS = 100
"""Largest number of node events, and of upgraded domains, that a table lists for each policy."""


def availability_blocks(material: Material) -> Sequence[Block]:
    """Return the plot and the tables of the availability of the tenants by their class."""
    tenants = material.results.table("tenants")
    if not len(tenants):
        return (Text("No tenant arrived."),)
    seconds = {(run.policy, run.repeat): float(run.totals["simulated_seconds"]) for run in material.results.runs}
    classes = availability_by_class(tenants, seconds)
    blocks: list[Block] = []
    if classes["downtime_s"].max() != 0:
        class_count = min(MOST_CLASSES, classes["tenant_class"].n_unique())
        restriction = (
            f" The {MOST_CLASSES} classes with most downtime."
            if classes["tenant_class"].n_unique() > MOST_CLASSES
            else ""
        )
        downtime_plot = picture(
            lambda ax: plot_availability(ax, classes, material.policies),
            f"Downtime by tenant class{material.of_sums}.{restriction}",
            "Downtime of a tenant in a year by tenant class, a bar a policy; the numbers are in the table below.",
            width=7.5,
            height=1.2 + 0.3 * class_count * max(1.0, 0.5 * len(material.policies)),
        )
        blocks.append(Gallery((downtime_plot,)))
    else:
        blocks.append(Text("Every tenant could be used all the time."))
    tables = (
        _classes(f"Policy {policy}{material.of_sums}.", classes.filter(policy=policy)) for policy in material.policies
    )
    blocks.append(Tables(tuple(tables)))
    return blocks


def _classes(caption: str, classes: pl.DataFrame) -> PageTable:
    """Return the table of a policy from its rows of `availability_by_class`: all tenants, then each class."""
    rows = [(row["tenant_class"], *_figures(row)) for row in classes.iter_rows(named=True)]
    sums = classes.select(pl.col("tenants", "failovers", "stay_s", "downtime_s").sum()).row(0, named=True)
    availability = 1.0 - sums["downtime_s"] / sums["stay_s"] if sums["stay_s"] else None
    headings = ("class", "tenants", "days of stay", "downtime (s)", "availability", "failovers")
    return PageTable(caption, headings, (("all classes", *_figures({**sums, "availability": availability})), *rows))


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row of `availability_by_class`, without its class."""
    stay = f"{row['stay_s'] / 86400.0:,.1f}"
    return count(row["tenants"]), stay, amount(row["downtime_s"]), share(row["availability"]), count(row["failovers"])


def outages_blocks(material: Material) -> Sequence[Block]:
    """Return the tables of interruptions by cause, and of faults and upgrades, if there were any."""
    return [*_interruptions(material), *_node_events(material), *_upgrades(material)]


def _interruptions(material: Material) -> list[Block]:
    """Return the table of the interruptions by cause."""
    interruptions = material.results.table("interruptions")
    if not len(interruptions):
        return [Text("No tenant was interrupted.")]
    end = pl.col("end_s").fill_null(pl.col("simulated"))
    ends = {(run.policy, run.repeat): float(run.totals["simulated_seconds"]) for run in material.results.runs}
    simulated = [ends[policy, repeat] for policy, repeat in interruptions.select("policy", "repeat").iter_rows()]
    by_cause = (
        interruptions.with_columns(pl.Series("simulated", simulated, pl.Float64))
        .with_columns((end - pl.col("begin_s")).alias("seconds"))
        .group_by("policy", "cause")
        .agg(pl.len().alias("number"), pl.col("seconds").sum(), pl.col("seconds").max().alias("longest"))
        .sort("policy", "cause")
    )
    rows = tuple(
        (policy, cause_text(cause), count(number), amount(seconds), amount(longest))
        for policy in material.policies
        for _, cause, number, seconds, longest in by_cause.filter(policy=policy).iter_rows()
    )
    caption = f"Interruptions of tenants by cause{material.of_sums}; overlapping ones count each."
    return [PageTable(caption, ("policy", "cause", "interruptions", "seconds", "longest (s)"), rows, left=2)]


def _node_events(material: Material) -> list[Block]:
    """Return the table of what faults and upgrades caused, by policy, and the table of nodes that went down."""
    events = material.results.table("node_events")
    upgrades = material.results.table("upgrades")
    if not len(events) and not len(upgrades):
        return [Text("No node was down: there were neither faults nor upgrades.")]
    mean_rows, omitted_rows = outage_rows(material.results.runs, material.policies)
    caption = f"Faults and upgrades, means over repeats{'; ' if omitted_rows else ''}{omitted_rows}."
    blocks: list[Block] = [PageTable(caption, ("", *material.policies), tuple(map(tuple, mean_rows)))]
    rows = tuple(
        (policy, str(repeat + 1), node, cause, "goes down" if goes_down else "comes back", moment(time))
        for policy, repeat, time, node, goes_down, cause in _listed(events, material.policies).iter_rows()
    )
    if rows:
        caption = f"Nodes that went down and were restored{_cut_off_remark(events, 'node_events')}."
        headings = ("policy", "repeat", "node", "cause", "event", "simulated time")
        blocks.append(PageTable(caption, headings, rows, left=5))
    return blocks


def _upgrades(material: Material) -> list[Block]:
    """Return the table of the upgraded domains, if there are any."""
    upgrades = material.results.table("upgrades")
    if not len(upgrades):
        return []
    domains = _listed(upgrades, material.policies)
    rows = tuple(
        (
            *(policy, str(repeat + 1), str(upgrade + 1), domain, "rolled back" if rolls_back else "upgraded", outcome),
            *(moment(begin), "-" if end is None else moment(end)),
        )
        for policy, repeat, upgrade, domain, begin, end, rolls_back, outcome in domains.iter_rows()
    )
    headings = ("policy", "repeat", "upgrade", "upgrade domain", "direction", "outcome", "begin", "end")
    return [PageTable(f"Upgrade domains{_cut_off_remark(upgrades, 'upgrades')}.", headings, rows, left=6)]


def _listed(table: pl.DataFrame, policies: Sequence[str]) -> pl.DataFrame:
    """Return the rows of a table that a report lists: the first rows of each policy."""
    return pl.concat([table.filter(policy=policy).head(MOST_EVENTS) for policy in policies])


def _cut_off_remark(table: pl.DataFrame, name: str) -> str:
    """Return the remark that the report lists only some rows of the table called `name`; empty if it lists all."""
    if (table["policy"].value_counts()["count"] <= MOST_EVENTS).all():
        return ""
    return f"; the first {MOST_EVENTS} of each policy, of {len(table):,} in all; the rest is in {name}.parquet"
