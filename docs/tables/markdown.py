"""Cells and tables in Markdown, and the files of figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def figures(name: str) -> Any:
    """Return the contents of a file in docs/data, by its name without the extension."""
    return json.loads((ROOT / "docs" / "data" / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Return a table; the rows have as many cells as the head, and the last columns are `numbers`, aligned right."""
    lines = [_line(head), "|" + "---|" * (len(head) - numbers) + "--:|" * numbers]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells below a head of {len(head)}: {row}")
        lines.append(_line(row))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def interval(ratio: Mapping[str, float | None] | None, digits: int = 2) -> str:
    """Return a mean with the ends of its 95 % interval, if it has one, and the settings left out; "" for None."""
    if ratio is None or ratio["mean"] is None:
        return ""
    mean = f"{ratio['mean']:.{digits}f}"
    ends = "" if ratio["low"] is None else f" [{ratio['low']:.{digits}f}, {ratio['high']:.{digits}f}]"
    return f"{mean}{ends}" + (f", {ratio['without']} left out" if ratio.get("without") else "")


def run_of(study: str, behind: str = "") -> str:
    """Return what the figures of a study cost and how they are repeated.

    `behind`: what is behind a figure; default: the repeats, if the study has them.
    """
    run = figures(study)["run"]
    behind = behind or (f"{run['repeats']} repeats" if (run["repeats"] or 0) > 1 else "")
    seconds = run["cpu_seconds"]
    used = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
    runs = f"{run['runs']:,} runs in {used} of processor time ({run['processor']})."
    return f"`{run['command']}`: {behind}{'; ' * bool(behind)}{runs}"
