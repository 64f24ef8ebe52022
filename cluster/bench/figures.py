"""The figures of `plb bench engine`, and their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from rich.table import Table

from cluster.console.tables import new_table

PAPER_PER_SECOND = 1000 / 0.890
"""Configurations a second of the modified component in [1] section 8.5."""


@attrs.frozen
class SizeFigures:
    """The figures of one size. Speeds are scored configurations a second on one thread.

    Parameters
    ----------
    nodes, replicas
        Size of the cluster.
    full
        (a) All repetitions of both nodes evaluated for every proposal.
    early_half, early_five
        (b) Early rejection, at 50 % and at 5 % acceptance on a fixed state.
    two_threads
        As `early_five`, on two threads at once.
    arithmetic
        Moves a second of a loop over prepared moves with only the 2·R·K additions and comparisons.
    reached_monte_carlo_half, reached_monte_carlo_five
        Share of evaluated configurations whose repetitions were evaluated.
    bytes_per_replica
        Bytes of the arrays of a search for each replica.
    timeline_five
        As `early_five`, with repetitions evaluated at every departure (`plb.energy.timeline`).
    report_seconds, refresh_seconds
        Seconds of a report of all loads, each changed by up to a tenth, and of the refresh after it.
    decision_seconds, timeline_decision_seconds
        Seconds of the placement of one replica by each policy, with evaluation by peaks and at departures.
    quality
        By seconds of balancing: the decrease of the energy, relative to the largest decrease of all times.
    """

    nodes: int
    replicas: int
    full: float
    early_half: float
    early_five: float
    two_threads: float
    arithmetic: float
    reached_monte_carlo_half: float
    reached_monte_carlo_five: float
    bytes_per_replica: float
    timeline_five: float
    report_seconds: float
    refresh_seconds: float
    decision_seconds: dict[str, float]
    timeline_decision_seconds: dict[str, float]
    quality: dict[float, float]

    @property
    def ratio(self) -> float:
        """Speed of the full evaluation relative to that of the arithmetic loop."""
        return self.full / self.arithmetic

    def as_json(self) -> dict[str, Any]:
        """Return the figures."""
        quality = {f"{seconds:g}": share for seconds, share in self.quality.items()}
        return attrs.asdict(self) | {"proposals_per_second": self.early_five, "ratio": self.ratio, "quality": quality}


@attrs.frozen
class EngineFigures:
    """The figures of `plb bench engine`.

    Parameters
    ----------
    sizes
        Figures by size, in ascending order.
    first_plan_seconds
        Time from `import plb` to the first plan in a new process, with compiled kernels.
    cold_first_plan_seconds
        The same without compiled kernels; None: not measured.
    """

    sizes: tuple[SizeFigures, ...]
    first_plan_seconds: float
    cold_first_plan_seconds: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the figures under stable keys."""
        smallest = self.sizes[0]
        return {
            "proposals_per_second": smallest.early_five,
            "arithmetic_ratio": smallest.ratio,
            "first_plan_seconds": self.first_plan_seconds,
            "cold_first_plan_seconds": self.cold_first_plan_seconds,
            "sizes": [size.as_json() for size in self.sizes],
            "paper_per_second": PAPER_PER_SECOND,
        }


LINES: dict[str, Callable[[SizeFigures], str]] = {
    "(a) all repetitions of both nodes": lambda size: f"{size.full:,.0f}",
    "    arithmetic-only loop": lambda size: f"{size.arithmetic:,.0f}",
    "    ratio": lambda size: f"{size.ratio:.2f}",
    "(b) early rejection, 50 % accepted": lambda size: f"{size.early_half:,.0f}",
    "    reached the repetitions, 50 %": lambda size: f"{size.reached_monte_carlo_half:.0%}",
    "(b) early rejection, 5 % accepted": lambda size: f"{size.early_five:,.0f}",
    "    reached the repetitions, 5 %": lambda size: f"{size.reached_monte_carlo_five:.0%}",
    "    on two threads": lambda size: f"{size.two_threads:,.0f}",
    "    two threads / one": lambda size: f"{size.two_threads / size.early_five:.2f}",
    "    times Service Fabric as modified by [1] (8.5)": lambda size: f"{size.early_five / PAPER_PER_SECOND:,.0f}",
    "    with `timeline` evaluation": lambda size: f"{size.timeline_five:,.0f}",
    "replicas": lambda size: f"{size.replicas:,}",
    "bytes a replica": lambda size: f"{size.bytes_per_replica:,.0f}",
    "report of all loads": lambda size: _time(size.report_seconds),
    "refresh after it": lambda size: _time(size.refresh_seconds),
}


def table_of(figures: EngineFigures) -> Table:
    """Return the table, a column for each size."""
    sizes = figures.sizes
    headings = ("scored configurations a second", *(f"{size.nodes:,} nodes" for size in sizes))
    table = new_table(headings, caption=_caption(figures))
    for what, line in LINES.items():
        table.add_row(what, *map(line, sizes))
    for limit in sizes[0].quality:
        table.add_row(f"energy won after {limit:g} s of balancing", *(f"{size.quality[limit]:.0%}" for size in sizes))
    for policy in sizes[0].decision_seconds:
        table.add_row(f"place by {policy}", *(_time(size.decision_seconds[policy]) for size in sizes))
    for policy in sizes[0].timeline_decision_seconds:
        if policy.startswith("prv"):
            what = f"place by {policy}, `timeline`"
            table.add_row(what, *(_time(size.timeline_decision_seconds[policy]) for size in sizes))
    return table


def _caption(figures: EngineFigures) -> str:
    warm = f"first plan of a new process: {figures.first_plan_seconds:.2f} s with compiled kernels"
    if figures.cold_first_plan_seconds is None:
        return warm
    return f"{warm}, {figures.cold_first_plan_seconds:.0f} s without"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.1f} {unit}"
    return f"{seconds * 1e6:.0f} µs"
