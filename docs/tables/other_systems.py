"""The tables of docs/other-systems.md, from the figures that ``benchmarks/rebalancer/compare.py`` measures."""

from __future__ import annotations

from typing import Any

from docs.tables.markdown import figures, table

SIZES = (100, 1_000, 10_000)
BALANCING = ("free", "limited", "priced", "as many")
"""Tasks with budgets; in the last one plb moves at most as many replicas as Rebalancer where moves have a price."""
NAMES = {
    "free": "free moves",
    "limited": "2 % may move",
    "priced": "priced moves",
    "as many": "priced, no more moves",
}
RUN_AS = {"as many": "priced"}


def budgets(nodes: int) -> tuple[float, ...]:
    """Return the CPU seconds of the budgets of a size."""
    return (10.0, 30.0) if nodes >= 10_000 else (1.0, 3.0, 10.0)


def cells(runs: list[dict[str, Any]], task: str, nodes: int, seconds: float | None) -> list[dict[str, Any]]:
    """Return the runs of a cell, Rebalancer's before plb's."""
    tasks = {"rebalancer": RUN_AS.get(task, task), "plb": task}
    wanted = (nodes, seconds)
    of_task = [run for run in runs if run["task"] == tasks[run["engine"]]]
    of_cell = [run for run in of_task if (run["nodes"], run["seconds"]) == wanted]
    return sorted(of_cell, key=lambda run: run["engine"], reverse=True)


def balance_table() -> str:
    """Return the table of the tasks with budgets: of each size the largest, in which Rebalancer comes closest."""
    head = ("task", "nodes", "CV Rebalancer", "CV plb", "moves Rebalancer", "moves plb")
    rows, measured = [], figures("rebalancer")["runs"]
    for task in BALANCING:
        for nodes in SIZES:
            runs = cells(measured, task, nodes, max(budgets(nodes)))
            if len(runs) == 2:
                moves = (f"{run['moved']:,}" for run in runs)
                rows.append([NAMES[task], f"{nodes:,}", *_compared(runs, "cv"), *moves])
    return table(head, rows, numbers=5)


def _compared(runs: list[dict[str, Any]], name: str) -> list[str]:
    """Return a figure of both engines, the lower in bold."""
    texts = [f"{run[name]:.4f}" for run in runs]
    return [f"**{text}**" if text == min(texts) != max(texts) else text for text in texts]


def other_table() -> str:
    """Return the table of building, placement and repair."""
    rows, measured = [], figures("rebalancer")["runs"]
    for nodes in SIZES:
        of_size = [
            [run for run in measured if run["engine"] == engine and run["nodes"] == nodes]
            for engine in ("rebalancer", "plb")
        ]
        if all(of_size):
            rows.append(
                ["build the model", f"{nodes:,}", *(f"{min(run['build'] for run in runs):.2f} s" for runs in of_size)]
            )
    for task in ("placement", "repair"):
        for nodes in SIZES:
            runs = cells(measured, task, nodes, None)
            if len(runs) == 2:
                rows.append([task, f"{nodes:,}", *map(_outcome, runs)])
    return table(("task", "nodes", "Rebalancer", "plb"), rows, numbers=3)


def _outcome(run: dict[str, Any]) -> str:
    """Return in a few words what placement or repair took, and what it left undone."""
    undone = {"unplaced": "not placed", "over": "nodes over", "on_drained": "not drained"}
    left = [f"{run[name]:,} {words}" for name, words in undone.items() if run[name]]
    moves = f"{run['moved']:,} move{'' if run['moved'] == 1 else 's'}"
    return ", ".join([f"{run['used']:.2f} s", moves, *left])


def machine() -> str:
    """Return the line about versions and processor."""
    data = figures("rebalancer")
    versions = data["versions"]
    return (
        f"plb at commit {versions.get('plb', '')}, Rebalancer {versions['rebalancer']}; one thread of an "
        f"{data['processor']}."
    )


TABLES = {"balance": balance_table, "other tasks": other_table, "machine": machine}
