"""Tables and lines that compare results directories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from cluster.results.directory_comparison import ResultsComparison
from cluster.results.scenario_differences import other_tenants_code
from cluster.results.summary_tables import HEADINGS, cell, ratio_cell
from plb.phrasing import counted, listed

IN_WORDS = {
    "violations_avoidable": "avoidable violations",
    "violations_unavoidable": "unavoidable violations",
    "shortages_unresolved": "unresolved shortages",
}
"""Figures whose heading alone says too little."""
LONGEST_VALUE = 60
"""Maximum number of characters of a printed value."""


def table_of_rows(found: ResultsComparison, figures: Sequence[str]) -> Table:
    """Return the means of every row with their intervals, and ratios of the first figure."""
    first = found.rows[0]
    caption = f"ratio: {IN_WORDS.get(figures[0], HEADINGS[figures[0]])} by those of the first row"
    if max(row.repeats for row in found.rows) > 1:
        caption += "; means over repeats with 95 % intervals"
    labels = _labels(found)
    where = f"{counted(len(found.results), 'result')}, compared with {first.policy} of {labels[first.directory]}"
    table = _table(where, caption)
    table.add_column("repeats", justify="right", no_wrap=True)
    for name in figures:
        table.add_column(HEADINGS[name], justify="right", no_wrap=True)
        if name == figures[0]:
            table.add_column("ratio", justify="right", no_wrap=True)
    for row in found.rows:
        cells = [cell(row.figures[name]) for name in figures]
        cells.insert(1, ratio_cell(row.figures[figures[0]]))
        table.add_row(labels[row.directory], row.policy, f"{row.repeats}", *cells)
    return table


def table_of_differences(found: ResultsComparison, figures: Sequence[str]) -> Table | None:
    """Return the differences to the first row, for rows with the same tenants; None if there is no such row."""
    rows = [row for row in found.rows if row.pairs]
    if not rows:
        return None
    caption = "for each repeat in which both have the same tenants"
    if max(row.pairs for row in rows) > 1:
        caption += "; means with 95 % intervals"
    labels, table = _labels(found), _table("difference to the first row", caption)
    table.add_column("pairs", justify="right")
    for name in figures:
        table.add_column(HEADINGS[name], justify="right", no_wrap=True)
    for row in rows:
        cells = [cell(row.differences[name], signed=True) for name in figures]
        table.add_row(labels[row.directory], row.policy, f"{row.pairs}", *cells)
    return table


def lines(found: ResultsComparison) -> Iterator[str]:
    """Yield the differences between the directories, and the runs that are not counted."""
    hashes = {one.summary["scenario_sha256"] for one in found.results}
    if len(found.results) > 1 and len(hashes) == 1:
        yield f"All ran the same scenario, {next(iter(hashes))[:12]}."
    yield from _unpaired(found)
    others = other_tenants_code(found.results)
    if others:
        labels = _labels(found)
        where = listed([labels[str(one.folder)] for one in others])
        first = labels[str(found.results[0].folder)]
        yield f"The code that makes tenants differs between {first} and {where}, so their tenants may differ."
    yield from _differing("The scenarios differ", found.scenario_differences)
    yield from _differing("They were made with different versions", found.version_differences)
    for one, run in found.interrupted:
        omitted = f"{run.policy}, repeat {run.repeat + 1} of {one.folder}"
        yield f"Interrupted after {run.days:.2f} days and omitted: {omitted}"
    for one, runs in found.missing:
        yield f"Not started: {counted(runs, 'run')} of {one.folder}"


def _unpaired(found: ResultsComparison) -> Iterator[str]:
    """Yield the rows without differences to the first one, and the reason."""
    labels = _labels(found)
    policies: dict[tuple[str, str], list[str]] = {}
    for row in found.rows:
        if row.unpaired:
            policies.setdefault((labels[row.directory], row.unpaired), []).append(row.policy)
    for (label, why), names in policies.items():
        yield f"No difference to the first row for {listed(names)} of {label}, as its tenants may differ: {why}."


def _differing(heading: str, values: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    if values:
        yield f"{heading}:"
    for key, of in values.items():
        yield f"  {key}: {' | '.join(map(_text, of))}"


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _labels(found: ResultsComparison) -> dict[str, str]:
    """Return labels of the directories: their paths relative to their common parent directory."""
    places = {str(one.folder): one.folder.resolve() for one in found.results}
    common = os.path.commonpath([place.parent for place in places.values()])
    return {name: place.relative_to(common).as_posix() for name, place in places.items()}


def _table(title: str, caption: str) -> Table:
    table = Table(title=title, caption=caption)
    table.add_column("directory", overflow="fold")
    table.add_column("policy", no_wrap=True)
    return table
