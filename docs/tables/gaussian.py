"""The tables of docs/gaussian.md, from the published studies of paper 2."""

from __future__ import annotations

from typing import Any

from docs.tables.markdown import figures, interval, run_of, table

STUDIES = {"gaussian-planetlab": "PlanetLab", "gaussian-bitbrains_rnd": "Bitbrains"}
"""The columns, by the file of the study."""
Q_BY_RHO = "frequency of overload / requested"
RATIOS = {
    f"{Q_BY_RHO}, GPA 0.1": ("q / ρ, GPA 0.1", "near 1"),
    f"{Q_BY_RHO}, GPA 0.05": ("q / ρ, GPA 0.05", "near 1"),
    f"{Q_BY_RHO}, GPA 0.001": ("q / ρ, GPA 0.001", "1.6"),
    "machines, Cantelli 1.7 / GPA 0.05": ("machines, Cantelli 1.7 / GPA 0.05", "1.9"),
    "machines, Cantelli 4.4 / GPA 0.05": ("machines, Cantelli 4.4 / GPA 0.05", "3.7"),
}
"""Rows of ratios, by the name in the files: the label and the figure of [2] sections 5.2 and 7."""
MEANS = (
    ("q, GPA 0.01", "", "q", ("GPA 0.01",), ".2g"),
    ("q, av 1, 1.25, 2", "", "q", ("av 1", "av 1.25", "av 2"), ".2g"),
    ("q, Cantelli 1, 1.7, 4.4", "3e-4, 2e-6, 0", "q", ("Cantelli 1", "Cantelli 1.7", "Cantelli 4.4"), ".2g"),
    ("machines, av 1; GPA 0.1, 0.001", "28.0; 35, 47", "machines", ("av 1", "GPA 0.1", "GPA 0.001"), ".1f"),
    ("tasks too large for GPA 0.001", "", "oversized", ("GPA 0.001",), ".1f"),
)
"""Rows of means over instances: the label, the figure of [2] sections 5.2 and 5.6, name, tests and format."""
SIZES = {10: "0.99", 100: "0.49", 500: "0.09"}
"""Numbers of tasks in a total, and the share of the totals that is rejected in [2] table 1."""


def base_case(study: str) -> dict[str, dict[str, Any]]:
    """Return the means over instances of the base case of [2] section 5.1, by test."""
    base = {"fit": "best", "capacity": 1.0, "clairvoyance": 1.0, "averaged": False, "rebalanced": True}
    return {of["test"]: of for of in figures(study)["settings"] if of.items() >= base.items()}


def rejected(study: str, size: int) -> float:
    """Return the share of the totals of `size` tasks that is rejected as Gaussian."""
    (of_size,) = (total for total in figures(study)["totals"] if total["size"] == size)
    return float(of_size["rejected"])


def behind(study: str) -> str:
    """Return the number of instances in words."""
    return f"{figures(study)['ratios'][f'{Q_BY_RHO}, GPA 0.1']['settings']} instances"


def results() -> str:
    """Return overload and machines of both traces beside the figures of the paper."""
    rows = [
        [label, paper, *(interval(figures(study)["ratios"][name]) for study in STUDIES)]
        for name, (label, paper) in RATIOS.items()
    ]
    rows += [
        [label, paper, *(", ".join(f"{base_case(study)[test][name]:{digits}}" for test in tests) for study in STUDIES)]
        for label, paper, name, tests, digits in MEANS
    ]
    shares = (", ".join(f"{rejected(study, size):.2f}" for size in SIZES) for study in STUDIES)
    rows.append(["totals of 10, 100, 500 tasks rejected as Gaussian", ", ".join(SIZES.values()), *shares])
    rows.append(["q at the same times / q, GPA 0.1 to 0.001", "", *map(_simultaneous, STUDIES)])
    return table(["", "[2]", *STUDIES.values()], rows)


def _simultaneous(study: str) -> str:
    """Return by how much tasks of a day overload machines more often than independent ones, by GPA."""
    tests = (of for of in figures(study)["simultaneous"] if of["test"].startswith("GPA"))
    return ", ".join(f"{of['q'] / of['q_independent']:.2f}" for of in tests)


def runs() -> str:
    """Return what the studies cost, and how they are repeated."""
    return "\n\n".join(run_of(study, behind(study)) for study in STUDIES)


TABLES = {"overload by GPA": results, "runs of GPA": runs}
