"""Writes a report: all sections in one page that needs no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.errors import ResultsError
from cluster.report.blocks import Block, Material, PageSection
from cluster.report.quality import (
    availability_blocks,
    comparison_blocks,
    failovers_blocks,
    load_blocks,
    outages_blocks,
    violations_blocks,
)
from cluster.report.sections import domains_blocks, energy_blocks, listed_moves, refusals_blocks, slowest_blocks
from cluster.results.comparison import compare_results, verdict
from cluster.results.reading import Results
from cluster.results.summary_tables import count
from plb.errors import ConflictError
from plb.phrasing import counted, listed

SECTIONS: Mapping[str, tuple[str, Callable[[Material], Sequence[Block]]]] = {
    "comparison": ("Comparison of the policies", comparison_blocks),
    "violations": ("Violations over time", violations_blocks),
    "failovers": ("Failovers over time and by cause", failovers_blocks),
    "load": ("Load of the nodes", load_blocks),
    "domains": ("Moves between fault domains", domains_blocks),
    "energy": ("Energy by term over time", energy_blocks),
    "availability": ("Availability by tenant class", availability_blocks),
    "outages": ("Interruptions, faults and upgrades", outages_blocks),
    "refusals": ("Refusals by rule", refusals_blocks),
    "slowest": ("Slowest decisions", slowest_blocks),
}
"""By anchor in the page: heading, and function that returns the blocks."""
PAGE = Path(__file__).parent / "page"


def report_page(results: Results) -> str:
    """Return the report of a results directory with a run as HTML that needs no network."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    if not results.runs:
        raise ResultsError(results.folder, ["there is no run in it yet"])
    material = Material(results)
    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = (PAGE / "choose.js").read_text(encoding="utf-8")
    page = environment.get_template("page.html").render(
        results=results,
        verdict=_verdict(results),
        facts=_facts(material),
        interrupted=_interrupted(material),
        sections=[PageSection(key, heading, tuple(blocks(material))) for key, (heading, blocks) in SECTIONS.items()],
        moves=listed_moves(material),
        style=Markup((PAGE / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
    )
    # names of directories may be no valid UTF-8, but the page has to be
    return page.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _verdict(results: Results) -> str:
    """Return the verdict on the finished runs in words."""
    try:
        return verdict(compare_results([results]))
    except ConflictError:
        return "No run is finished yet, so there is no verdict."


def _facts(material: Material) -> list[tuple[str, str]]:
    """Return names and texts of the facts that identify the runs and allow them to be repeated."""
    results = material.results
    summary: Any = results.summary
    nodes = results.table("nodes", repeat=material.shown_repeat)["node"].n_unique()
    tenants = [run.totals["tenants"] for run in results.runs]
    return [
        ("policies", ", ".join(material.policies)),
        ("repeats", str(max(map(len, material.repeats.values())))),
        ("simulated days", f"{results.days:g}"),
        ("nodes", count(nodes)),
        ("tenants a run", count(sum(tenants) / len(tenants))),
        ("seed", str(summary["seed"])),
        ("hash of the scenario", summary["scenario_sha256"]),
        ("versions", ", ".join(f"{name} {version}" for name, version in summary["versions"].items())),
        ("directory", str(results.folder)),
    ]


def _interrupted(material: Material) -> str:
    """Return in words which runs are missing or incomplete; empty if all are complete."""
    results = material.results
    if results.summary["complete"]:
        return ""
    incomplete = [f"{run.policy}, repeat {run.repeat + 1}" for run in results.runs if not run.complete]
    parts = [f"{len(results.runs)} runs are there" if len(results.runs) > 1 else "one run is there"]
    if incomplete:
        parts.append(f"cut short: {'; '.join(incomplete)}")
    missing = results.not_begun
    if missing:
        missing_in_words = (f"{policy}, {_repeats_in_words(repeats)}" for policy, repeats in missing.items())
        parts.append(f"not begun: {counted(sum(map(len, missing.values())), 'run')} ({'; '.join(missing_in_words)})")
    return "; ".join(parts)


def _repeats_in_words(repeats: Sequence[int]) -> str:
    """Return numbers of repeats, from 0 and ascending, in words that count from 1."""
    first, last = repeats[0] + 1, repeats[-1] + 1
    if len(repeats) == 1:
        return f"repeat {first}"
    if last - first + 1 == len(repeats):
        return f"repeats {first} to {last}"
    return f"repeats {listed([str(repeat + 1) for repeat in repeats])}"
