"""The sections on violations, failovers and load, and the comparison of the policies in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.plots.base import plot_violations
from cluster.plots.loads import plot_load_bands, plot_load_map
from cluster.plots.moves import failovers_by_cause, plot_causes, plot_failovers
from cluster.report.blocks import Block, Gallery, PageSection, PageTable, Picture, Text, amount, picture
from cluster.report.material import Material
from cluster.results.scenario_differences import MISSING
from cluster.results.summary_tables import comparison_caption, comparison_rows, count
from cluster.simulation.causes import cause_text
from cluster.simulation.recorder import RunSummary

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


def comparison_section(material: Material) -> PageSection:
    """Return the comparison of the policies."""
    headings, rows = comparison_rows(material.comparison)
    caption = f"Comparison of the policies; {comparison_caption(material.comparison)}."
    runs = material.comparison.repeats
    counted = tuple((policy, count(runs[policy]), *cells) for policy, *cells in rows)
    table = PageTable(caption, (headings[0], "runs", *headings[1:]), counted)
    cut = [
        f"{run.policy}, repeat {run.repeat + 1}, covers {run.days:.2f} days only"
        for run in material.results.runs
        if not run.complete
    ]
    remarks = (Text(f"Interrupted: {'; '.join(cut)}. Compare the figures with care."),) if cut else ()
    return PageSection("comparison", "Comparison of the policies", (table, *remarks))


def violations_section(material: Material) -> PageSection:
    """Return the violations over time, and the outcomes of all shortages."""
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
        return PageSection("violations", "Violations over time", (Text("No node was in violation at any time."), table))
    shortages = material.results.table("shortages")
    unavoidable = any(run.totals.get("violations_unavoidable") for run in material.results.runs)
    drawn = picture(
        lambda ax: plot_violations(ax, shortages, material.policies, material.lengths, material.days),
        "Violations so far: nodes and metering times at which a failover was started because of a shortage."
        + (" Solid: avoidable ones. Dashed: with the unavoidable ones." if unavoidable else ""),
        "Cumulative violations over simulated time, a line for each policy; the totals are in the table below.",
        width=7.5,
        height=3.8,
    )
    return PageSection("violations", "Violations over time", (Gallery((drawn,)), table))


def _mean(runs: Sequence[RunSummary], name: str) -> str:
    """Return the mean of a count."""
    return count(sum(run.figure(name) for run in runs) / len(runs)) if runs else MISSING


def failovers_section(material: Material) -> PageSection:
    """Return the failovers over time and by cause."""
    causes = failovers_by_cause(material.moves, material.policies, material.repeats)
    if not causes:
        return PageSection("failovers", "Failovers over time and by cause", (Text("There was no failover."),))
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
    return PageSection("failovers", "Failovers over time and by cause", (Gallery((over_time, by_cause)), table))


def load_section(material: Material) -> PageSection:
    """Return the load of the nodes over time: bands, and a map by node."""
    load = material.node_load
    if not len(load):
        nothing = Text("No load was metered, or no node has a capacity.")
        return PageSection("load", "Load of the nodes", (nothing, *_applications(material)))
    blocks: list[Block] = [
        Text(
            f"Load by capacity{material.of_shown}, both ends of moves counted. From "
            f"{material.results.violation_threshold:.0%} on, a node is in violation; such loads are red in the maps. "
            "White is a node without load. Where meterings or nodes share a cell, it shows the largest load."
        )
    ]
    for metric in load["metric"].unique(maintain_order=True):
        loaded = set(load.filter(metric=metric)["policy"])
        shown = [policy for policy in material.shown_policies if policy in loaded]
        bands, maps = zip(*(_load_pictures(material, metric, policy) for policy in shown), strict=True)
        blocks += [Gallery((*bands, *maps))] if len(maps) == 1 else [Gallery(bands), Gallery(maps)]
    return PageSection("load", "Load of the nodes", (*blocks, *_applications(material)))


def _applications(material: Material) -> list[Block]:
    """Return what each application has used under each policy, if there are applications."""
    used = [(run.policy, run.totals.get("applications", {})) for run in material.results.runs]
    rows: list[tuple[str, ...]] = []
    for policy in material.policies:
        of_policy = [applications for of, applications in used if of == policy]
        for name in dict.fromkeys(name for applications in of_policy for name in applications):
            found = [applications[name] for applications in of_policy if name in applications]
            for metric in found[0]["load"]:
                figures = (
                    amount(sum(one["nodes"] for one in found) / len(found)),
                    count(max(one["most_nodes"] for one in found)),
                    amount(sum(one["load"][metric] for one in found) / len(found)),
                    *(
                        amount(max(one[what][metric] for one in found))
                        for what in ("largest_load", "largest_load_on_node")
                    ),
                )
                rows.append((policy, name, metric, *figures))
    if not rows:
        return []
    caption = "Use of nodes and loads by applications, without departing ends: means over meterings and maxima"
    listed = f"{caption}." if len(rows) <= MOST_ROWS else f"{caption}; the first {MOST_ROWS} rows of {len(rows):,}."
    headings = ("policy", "application", "metric", "nodes", "most nodes", "load", "largest load", "largest on a node")
    return [PageTable(listed, headings, tuple(rows[:MOST_ROWS]), left=3)]


def _load_pictures(material: Material, metric: str, policy: str) -> tuple[Picture, Picture]:
    load = material.node_load.filter(policy=policy)
    threshold, days = material.results.violation_threshold, material.days
    highest = 105.0 * max(threshold, float(material.node_load.filter(metric=metric)["share"].max() or 0.0))  # type: ignore[arg-type]

    def draw_bands(ax: Axes) -> None:
        plot_load_bands(ax, load, metric, threshold, days)
        ax.set_ylim(0.0, highest)  # the same for all policies

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
