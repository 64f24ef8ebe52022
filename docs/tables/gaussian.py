"""The tables of docs/gaussian.md, from the published studies of paper 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docs.tables.claims import Claim, Verdict, verdict_on_cases
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


NEAR = 0.2
"""How far q may be from ρ, relative to ρ, to count as near it."""


def claims() -> list[Claim]:
    """Return the claims on overload and on totals."""
    ratios = [figures(study)["ratios"] for study in STUDIES]
    near = [[of[f"{Q_BY_RHO}, GPA {rho}"] for rho in ("0.1", "0.05")] for of in ratios]
    rare = [of[f"{Q_BY_RHO}, GPA 0.001"] for of in ratios]
    low = [[base_case(study)[test]["q"] for test in ("Cantelli 1", "GPA 0.001")] for study in STUDIES]
    instances = behind(next(iter(STUDIES)))
    more_often = Verdict.PARTLY if all(of["low"] > 1.0 for of in rare) else Verdict.NOT_REPRODUCED
    return [
        Claim(
            "[2] 5.2",
            "At ρ = 0.1 and 0.05, GPA overloads machines about that often.",
            "q near ρ",
            _on_traces("q / ρ", [" and ".join(map(interval, of)) for of in near]),
            instances,
            verdict_on_cases([abs(one["mean"] - 1.0) <= NEAR for of in near for one in of]),
            f"near: within {NEAR:.0%}",
        ),
        Claim(
            "[2] 5.2",
            "At ρ = 0.001 it overloads them more often.",
            "q / ρ 1.6",
            _on_traces("q / ρ", [interval(of) for of in rare]),
            instances,
            Verdict.REPRODUCED if all(of["low"] <= 1.6 <= of["high"] for of in rare) else more_often,
            "far more often; totals are further from Gaussian, and many tasks of Bitbrains are too large",
        ),
        Claim(
            "[2] 5.2",
            "Cantelli's inequality (b = 1) overloads machines less often than GPA 0.001.",
            "q 3e-4 against 0.0016",
            _on_traces("q", [" against ".join(f"{q:.2g}" for q in of) for of in low]),
            instances,
            verdict_on_cases([cantelli < gpa for cantelli, gpa in low]),
            "not known",
        ),
        Claim(
            "[2] table 1",
            "Totals of 500 tasks are rarely rejected as Gaussian.",
            "9%",
            _on_traces("", [f"{rejected(study, 500):.0%}" for study in STUDIES]),
            f"{figures(next(iter(STUDIES)))['totals'][0]['samples']:,} totals",
            Verdict.NOT_REPRODUCED,
            "not known; other traces",
        ),
    ]


def _on_traces(name: str, texts: Sequence[str]) -> str:
    """Return the figures of the traces in a cell."""
    found = "; ".join(f"{trace} {text}" for trace, text in zip(STUDIES.values(), texts, strict=True))
    return f"{name}: {found}" if name else found


TABLES = {"overload by GPA": results, "runs of GPA": runs}
