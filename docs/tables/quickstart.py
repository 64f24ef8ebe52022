"""The table of the quick start in the README, from ``plb compare --json`` of ten repeats."""

from __future__ import annotations

from typing import Any

from docs.tables.markdown import figures, table

HEAD = ("the energy counts (policy)", "violations", "avoidable", "failovers", "avoidable, difference to the first row")
COUNTS = {
    "original": "balance and fragmentation, as Service Fabric",
    "modified": "also how many nodes are expected to run short, as paper 1",
    "expected_overload": "also by how much, the default",
}
"""What the energy of each policy counts."""


def table_of_policies() -> str:
    """Return the figures by policy."""
    rows = {row["policy"]: row for row in figures("quickstart")["rows"]}
    return table(HEAD, [[f"{words} (`{policy}`)", *_cells(rows[policy])] for policy, words in COUNTS.items()])


def _cells(row: dict[str, Any]) -> list[str]:
    """Return the figures of a policy, and the difference of its avoidable violations to the first policy."""
    from cluster.results.intervals import Interval
    from cluster.results.summary_tables import cell

    of_row, avoidable = row["figures"], row["figures"]["violations_avoidable"]
    shown = [of_row[name] for name in ("violations", "violations_avoidable", "failovers")]
    cells = [cell(Interval(figure["mean"], figure["half_width"])) for figure in shown]
    apart = Interval(avoidable.get("difference", 0.0), avoidable.get("difference_half_width"))
    return [*cells, cell(apart, signed=True) if row["pairs"] else ""]


TABLES = {"quickstart": table_of_policies}
