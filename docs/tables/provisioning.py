"""The tables and claims of docs/provisioning.md, from the published study of paper 3."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import mean
from typing import Any

from docs.tables.claims import Claim, verdict_on_cases
from docs.tables.markdown import figures, run_of, table

STUDY = "provisioning"
RELEASED, PAPER = "released", "paper"
"""Names of the rules in the file."""
AUTO = "auto"
FIRST_FIT, SPREADING = "FF", "SpreadWFD-Avg-BinSearch"
BY_DENSITY = "4"
"""The figure of [3] by density of limits."""
REPORTED = {"FF": ("12.2", "3.5"), "WFD-AvgExp": ("10.7", "25"), SPREADING: ("4.1", "224")}
"""Percent above the bound and seconds that [3] figures 3 and 4 show at 1 %, of the algorithms of its discussion."""


def groups(figure: str) -> list[Mapping[str, Any]]:
    """Return the groups of instances of a figure."""
    return [group for group in figures(STUDY)["settings"] if group["figure"] == figure]


def algorithms(figure: str) -> list[str]:
    """Return the algorithms of a figure, without `auto`."""
    arms = groups(figure)[0]["deviation_percent"]
    return list(dict.fromkeys(arm.partition(", ")[0] for arm in arms if arm != AUTO))


def results(figure: str, density: float) -> str:
    """Return deviations and seconds by algorithm, means over the graphs of a density."""
    chosen = [group for group in groups(figure) if group["density"] == density]

    def cell(name: str, arm: str, digits: int) -> str:
        return f"{mean(group[name][arm] for group in chosen):.{digits}f}"

    rows = []
    for algorithm in algorithms(figure):
        deviation, seconds = REPORTED.get(algorithm, ("", ""))
        released, paper = (cell("deviation_percent", f"{algorithm}, {rules}", 1) for rules in (RELEASED, PAPER))
        rows.append(
            [f"`{algorithm}`", deviation, released, paper, seconds, cell("seconds", f"{algorithm}, {PAPER}", 2)]
        )
    rows.append([f"`{AUTO}`", "", "", cell("deviation_percent", AUTO, 1), "", ""])
    head = ("", "[3]", "released rules", "the paper's rules", "[3]: seconds", "the paper's rules: seconds")
    return table(head, rows, numbers=5)


def agreement() -> str:
    """Return how many of the published means those with the first rules of a figure are close to."""
    found = figures(STUDY)["agreement"]
    rows = [[figure, f"{of['close']} of {of['compared']}"] for figure, of in found.items()]
    return table(["figure of [3]", "means within 0.3 points"], rows)


def behind() -> str:
    """Return the number of instances of a group in words."""
    return f"{groups(BY_DENSITY)[0]['instances']} instances"


def claims() -> list[Claim]:
    """Return the claim of figure 4 on spreading, by the paper's rules."""
    pairs = {
        (group["graph"], group["density"]): [
            group["deviation_percent"][f"{algorithm}, {PAPER}"] for algorithm in (SPREADING, FIRST_FIT)
        ]
        for group in groups(BY_DENSITY)
    }
    holds = [spreading < first_fit for spreading, first_fit in pairs.values()]
    exceptions = [f"{graph} graphs of {density:.0%}" for (graph, density), (low, high) in pairs.items() if low >= high]
    return [
        Claim(
            "[3] figure 4",
            "Spreading needs fewer nodes than First Fit.",
            "",
            f"in {sum(holds)} of {len(holds)} groups",
            behind(),
            verdict_on_cases(holds),
            f"not on {', '.join(exceptions)}, by the paper's rules" if exceptions else "",
        )
    ]


TABLES = {
    "run of provisioning": lambda: run_of(STUDY, behind()),
    "nodes above the bound": partial(results, BY_DENSITY, 0.01),
    "agreement with the paper": agreement,
}
