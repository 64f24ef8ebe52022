"""The tables at the end of `plb simulate`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from cluster.results.intervals import Interval, decimals_of
from cluster.results.policy_comparison import Comparison, Estimate
from cluster.results.scenario_differences import MISSING
from cluster.simulation.causes import CAUSES_OF_MOVES, cause_text
from cluster.simulation.recorder import RunSummary

MOST_DECIMALS = 6
"""Narrower intervals are due to rounding only."""
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
SHOWN = tuple(name for name in HEADINGS if name not in ("violations_unavoidable", "shortages_unresolved"))
"""Figures of the closing table, which has to fit on a terminal."""
WITH_RATIO = ("violations", "violations_avoidable")
"""Figures that are followed by their ratios to those of the first policy."""


def comparison_rows(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows, one for each policy: means, with 95 % intervals for more than one repeat."""
    headings = ["policy"]
    for name in SHOWN:
        headings += [HEADINGS[name], "ratio"] if name in WITH_RATIO else [HEADINGS[name]]
    rows = []
    for policy in comparison.policies:
        cells = [policy]
        for name in SHOWN:
            estimate = comparison.figures[policy][name]
            cells += [cell(estimate), ratio_cell(estimate)] if name in WITH_RATIO else [cell(estimate)]
        rows.append(cells)
    return headings, rows


def comparison_caption(comparison: Comparison) -> str:
    """Return an explanation of the figures of the comparison."""
    repeats = max(comparison.repeats.values())
    caption = f"ratio: violations, or avoidable ones, by those of {comparison.policies[0]}"
    return f"{caption}; means of {repeats} repeats with 95 % intervals" if repeats > 1 else caption


def comparison_table(comparison: Comparison, title: str, remark: str = "") -> Table:
    """Return the comparison as a table."""
    caption = Text(comparison_caption(comparison), style="table.caption")
    if remark:
        caption.append(f"\ninterrupted: {remark}", style="red")
    table = Table(title=title, caption=caption)
    headings, rows = comparison_rows(comparison)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def cell(estimate: Interval, *, signed: bool = False) -> str:
    """Return a mean with its interval, if any; `signed`: with a plus sign if it is positive.

    The number of decimals shows the first digit of the interval, if it is not 0.
    """
    digits = 0 if float(estimate.mean).is_integer() or abs(estimate.mean) >= 100 else 1
    if (needed := decimals_of(estimate.half_width)) <= MOST_DECIMALS:
        digits = max(digits, needed)
    text = f"{estimate.mean:{'+' if signed and estimate.mean else ''},.{digits}f}"
    return text if estimate.half_width is None else f"{text} ± {estimate.half_width:,.{digits}f}"


def ratio_cell(estimate: Estimate) -> str:
    """Return the ratio of an estimate; a ratio to 0 is missing."""
    return MISSING if estimate.ratio is None else f"{estimate.ratio:.2f}"


OUTAGES = {
    "node_faults": "node faults",
    "upgraded_domains": "upgrade domains upgraded",
    "rolled_back_domains": "upgrade domains rolled back",
    "quorum_losses": "quorums lost",
}


def outage_rows(runs: Sequence[RunSummary], policies: Sequence[str]) -> list[list[str]]:
    """Return the effects of faults and upgrades: for each figure its name, then the mean over repeats by policy."""
    totals = [[run.totals for run in runs if run.policy == policy] for policy in policies]
    known = [[one["availability"] for one in of if one["availability"] is not None] for of in totals]
    rows = [["availability of tenants", *(f"{np.mean(one):.4%}" if one else MISSING for one in known)]]
    for name, heading in OUTAGES.items():
        rows.append([heading, *(count(np.mean([one[name] for one in of])) for of in totals)])
    found = {cause for of in totals for one in of for cause in one["moves_by_cause"]}
    for cause in (*CAUSES_OF_MOVES, *sorted(found - {*CAUSES_OF_MOVES})):
        means = (np.mean([one["moves_by_cause"].get(cause, 0) for one in of]) for of in totals)
        rows.append([f"moves for {cause_text(cause)}", *map(count, means)])
    return rows


def outage_table(runs: Sequence[RunSummary], policies: Sequence[str]) -> Table:
    """Return the effects of faults and upgrades, with a column for each policy."""
    table = Table("", title="faults and upgrades")
    for policy in policies:
        table.add_column(policy, justify="right", no_wrap=True)
    for row in outage_rows(runs, policies):
        table.add_row(*row)
    return table


def count(value: float | np.floating) -> str:
    """Return a count, or a mean of counts with one decimal if it is not whole."""
    return f"{value:,.{0 if float(value).is_integer() else 1}f}"
