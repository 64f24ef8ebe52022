"""The tables of docs/studies.md, from the published studies of paper 1."""

from __future__ import annotations

from functools import partial

from docs.tables.markdown import figures, interval, run_of, table

KINDS = {
    "violations": "all",
    "violations_avoidable": "avoidable",
    "violations_unavoidable": "unavoidable",
    "shortages_unresolved": "unresolved",
}
"""Headings of the kinds of violations."""


def claims(study: str) -> str:
    """Return the ratios and counts of a study, of all and of avoidable violations, beside the figures of the paper."""
    data = figures(study)
    ratios = {
        label: (interval(ratio), interval(data["ratios_avoidable"][label])) for label, ratio in data["ratios"].items()
    }
    counts = {label: (count, data["counts_avoidable"][label]) for label, count in data["counts"].items()}
    rows = [[label, data["paper"].get(label, ""), *found] for label, found in (ratios | counts).items()]
    return table(["", "paper", "all violations", "avoidable violations"], rows)


def violations(study: str) -> str:
    """Return the mean violations of a run of each arm, by kind."""
    settings = figures(study)["settings"]
    rows = [
        [arm, *(f"{sum(setting[kind][arm] for setting in settings) / len(settings):.1f}" for kind in KINDS)]
        for arm in settings[0]["violations"]
    ]
    return table(["", *KINDS.values()], rows, numbers=len(KINDS))


def costs(study: str) -> str:
    """Return failovers, downtime and tenants not placed of each arm."""
    rows = [
        [arm, *(interval(of_arm[name]) for name in ("failovers", "downtime")), f"{of_arm['not_placed']:.2%}"]
        for arm, of_arm in figures(study)["arms"].items()
    ]
    return table(["", "failovers", "downtime", "tenants not placed at once"], rows)


TABLES = {
    "claims of figure 8": partial(claims, "annealing"),
    "violations of figure 8": partial(violations, "annealing"),
    "costs of figure 8": partial(costs, "annealing"),
    "run of figure 8": partial(run_of, "annealing"),
}
