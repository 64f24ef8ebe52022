"""The sections on the effects on tenants: availability by class, interruptions, faults and upgrades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from cluster.plots.tenants import MOST_CLASSES, availability_by_class, plot_availability
from cluster.report.blocks import Block, Gallery, PageSection, PageTable, Tables, Text, amount, moment, picture, share
from cluster.report.material import Material
from cluster.results.summary_tables import count, outage_rows
from cluster.simulation.causes import cause_text

MOST_EVENTS = 100
"""Largest number of node events, and of upgraded domains, that a table lists for each policy."""


def availability_section(material: Material) -> PageSection:
    """Return the availability of the tenants by their class."""
    heading = "Availability by tenant class"
    tenants = material.results.table("tenants")
    if not len(tenants):
        return PageSection("availability", heading, (Text("No tenant arrived."),))
    seconds = {(run.policy, run.repeat): float(run.totals["simulated_seconds"]) for run in material.results.runs}
    classes = availability_by_class(tenants, seconds)
    blocks: list[Block] = []
    if classes["downtime_s"].max() != 0:
        number = min(MOST_CLASSES, classes["tenant_class"].n_unique())
        most = (
            f" The {MOST_CLASSES} classes with most downtime."
            if classes["tenant_class"].n_unique() > MOST_CLASSES
            else ""
        )
        drawn = picture(
            lambda ax: plot_availability(ax, classes, material.policies),
            f"Downtime by tenant class{material.of_sums}.{most}",
            "Downtime of a tenant in a year by tenant class, a bar a policy; the numbers are in the table below.",
            width=7.5,
            height=1.2 + 0.3 * number * max(1.0, 0.5 * len(material.policies)),
        )
        blocks.append(Gallery((drawn,)))
    else:
        blocks.append(Text("Every tenant could be used all the time."))
    tables = (
        _classes(f"Policy {policy}{material.of_sums}.", classes.filter(policy=policy)) for policy in material.policies
    )
    blocks.append(Tables(tuple(tables)))
    return PageSection("availability", heading, tuple(blocks))


def _classes(caption: str, classes: pl.DataFrame) -> PageTable:
    """Return the table of one policy: a row for all tenants, then one for each class."""
    rows = [(row["tenant_class"], *_figures(row)) for row in classes.iter_rows(named=True)]
    whole = classes.select(pl.col("tenants", "failovers", "stay_s", "downtime_s").sum()).row(0, named=True)
    used = 1.0 - whole["downtime_s"] / whole["stay_s"] if whole["stay_s"] else None
    headings = ("class", "tenants", "days of stay", "downtime (s)", "availability", "failovers")
    return PageTable(caption, headings, (("all classes", *_figures({**whole, "availability": used})), *rows))


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    stay = f"{row['stay_s'] / 86400.0:,.1f}"
    return count(row["tenants"]), stay, amount(row["downtime_s"]), share(row["availability"]), count(row["failovers"])


def outages_section(material: Material) -> PageSection:
    """Return interruptions by cause, and the effects of faults and upgrades, if there were any."""
    blocks = [*_interruptions(material), *_node_events(material), *_upgrades(material)]
    return PageSection("outages", "Interruptions, faults and upgrades", tuple(blocks))


def _interruptions(material: Material) -> list[Block]:
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
    events = material.results.table("node_events")
    upgrades = material.results.table("upgrades")
    if not len(events) and not len(upgrades):
        return [Text("No node was down: there were neither faults nor upgrades.")]
    figures = tuple(tuple(row) for row in outage_rows(material.results.runs, material.policies))
    blocks: list[Block] = [PageTable("Faults and upgrades, means over repeats.", ("", *material.policies), figures)]
    rows = tuple(
        (policy, str(repeat + 1), node, cause, "goes down" if down else "comes back", moment(time))
        for policy, repeat, time, node, down, cause in _listed(events, material.policies).iter_rows()
    )
    if rows:
        caption = f"Nodes that went down and were restored{_first(events, 'node_events')}."
        headings = ("policy", "repeat", "node", "cause", "event", "simulated time")
        blocks.append(PageTable(caption, headings, rows, left=5))
    return blocks


def _upgrades(material: Material) -> list[Block]:
    upgrades = material.results.table("upgrades")
    if not len(upgrades):
        return []
    domains = _listed(upgrades, material.policies)
    rows = tuple(
        (
            *(policy, str(repeat + 1), str(upgrade + 1), domain, "rolled back" if back else "upgraded", outcome),
            *(moment(begin), "-" if end is None else moment(end)),
        )
        for policy, repeat, upgrade, domain, begin, end, back, outcome in domains.iter_rows()
    )
    headings = ("policy", "repeat", "upgrade", "upgrade domain", "direction", "outcome", "begin", "end")
    return [PageTable(f"Upgrade domains{_first(upgrades, 'upgrades')}.", headings, rows, left=6)]


def _listed(table: pl.DataFrame, policies: Sequence[str]) -> pl.DataFrame:
    """Return the rows that a report lists, by policy: the first of each."""
    return pl.concat([table.filter(policy=policy).head(MOST_EVENTS) for policy in policies])


def _first(table: pl.DataFrame, name: str) -> str:
    """Return how much of a table is omitted; empty if nothing is."""
    if (table["policy"].value_counts()["count"] <= MOST_EVENTS).all():
        return ""
    return f"; the first {MOST_EVENTS} of each policy, of {len(table):,} in all; the rest is in {name}.parquet"
