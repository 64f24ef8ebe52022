"""The figures of `plb bench` as tables."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table

from cluster.bench.figures import PAPER_PER_SECOND, EngineFigures, SizeFigures
from cluster.bench.start import StartFigures
from cluster.console.tables import new_table
from cluster.runs.processes import cores
from plb.phrasing import counted

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


def start_table(figures: StartFigures) -> Table:
    """Return what new processes take, a line for each kind."""
    table = new_table(("a new process", "seconds", "from start to exit"))
    cold = f"first plan that compiles {counted(figures.cold_kernels, 'kernel')}"
    rows = {"import plb": figures.imported, "first plan, kernels compiled": figures.warm, cold: figures.cold}
    for what, timed in rows.items():
        table.add_row(what, f"{timed.seconds:.2f}", f"{timed.process_seconds:.2f}")
    warmup = f"plb warmup that compiles {counted(figures.warmup_kernels, 'kernel')}, {counted(cores(), 'core')}"
    table.add_row(warmup, "", f"{figures.warmup_seconds:.2f}")
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
