"""The tables of docs/studies.md, from the published studies of paper 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from docs.tables.markdown import figures, interval, run_of, table

KINDS = {
    "violations": "all",
    "violations_avoidable": "avoidable",
    "violations_unavoidable": "unavoidable",
    "shortages_unresolved": "unresolved",
}
"""Headings of the kinds of violations."""
COSTS = ("failovers", "downtime")
"""Costs of an arm, relative to another arm."""


def claims(study: str) -> str:
    """Return the ratios and counts of a study, of all and of avoidable violations, beside the figures of the paper."""
    data = figures(study)
    ratios = {
        label: (interval(ratio), interval(data["ratios_avoidable"].get(label)))
        for label, ratio in data["ratios"].items()
    }
    counts = {label: (count, data["counts_avoidable"].get(label, "")) for label, count in data["counts"].items()}
    rows = [[label, data["paper"].get(label, ""), *found] for label, found in (ratios | counts).items()]
    return table(["", "paper", "all violations", "avoidable violations"], rows)


def violations(study: str, vcores: float | None = None) -> str:
    """Return the mean violations of a run of each arm, by kind; `vcores`: of these nodes alone."""
    settings = [setting for setting in figures(study)["settings"] if vcores in (None, setting["vcores"])]
    rows = [
        [arm, *(f"{sum(setting[kind][arm] for setting in settings) / len(settings):.1f}" for kind in KINDS)]
        for arm in settings[0]["violations"]
    ]
    return table(["", *KINDS.values()], rows, numbers=len(KINDS))


def costs(study: str) -> str:
    """Return failovers, downtime and tenants not placed of each arm."""
    rows = [
        [arm, *(interval(of_arm[name]) for name in COSTS), f"{of_arm['not_placed']:.2%}"]
        for arm, of_arm in figures(study)["arms"].items()
    ]
    return table(["", *COSTS, "tenants not placed at once"], rows)


def arms(study: str, compared: str) -> str:
    """Return violations, failovers and downtime of each arm of a study relative to the arm `compared`."""
    data = figures(study)
    suffix = f" / {compared}"
    rows = []
    for label, ratio in data["ratios"].items():
        name, _, remark = label.partition(suffix)
        costs = data["arms"][name] if not remark else {}
        avoidable = interval(data["ratios_avoidable"].get(label))
        rows.append([f"{name}{remark}", interval(ratio), avoidable, *(interval(costs.get(cost)) for cost in COSTS)])
    return table(["", "violations", "avoidable ones", *COSTS], rows)


def overheads() -> str:
    """Return times and bytes beside the figures of the paper."""
    data = figures("overhead")
    rows = [[label, data["paper"].get(label, ""), found] for label, found in data["counts"].items()]
    return table(["", "paper", "here"], rows)


def by_region(study: str, names: Sequence[str]) -> str:
    """Return the mean violations of some arms of a study in each setting."""
    settings = figures(study)["settings"]
    head = ["", *(f"{setting['workload']}, {setting['density']:g}" for setting in settings)]
    rows = [[name, *(f"{setting['violations'][name]:.1f}" for setting in settings)] for name in names]
    return table(head, rows, numbers=len(settings))


FORMS = (
    "original",
    "original, product form",
    "modified",
    "modified, w_imbalance = 1",
    "modified, product form",
    "modified, as recorded",
)
"""The arms of the table of forms, in docs/energy.md."""
TABLES = {
    "claims of figure 8": partial(claims, "annealing"),
    "violations of figure 8": partial(violations, "annealing"),
    "costs of figure 8": partial(costs, "annealing"),
    "run of figure 8": partial(run_of, "annealing"),
    "claims of figure 9": partial(claims, "policies"),
    "violations of figure 9, 80 vCores": partial(violations, "policies", 80.0),
    "violations of figure 9, 128 vCores": partial(violations, "policies", 128.0),
    "run of figure 9": partial(run_of, "policies"),
    "overheads": overheads,
    "run of overheads": partial(run_of, "overhead"),
    "forms": partial(arms, "forms", "modified"),
    "run of forms": partial(run_of, "forms"),
}
OF_ENERGY = {"forms of the energy": partial(by_region, "forms", FORMS)}
"""The table of docs/energy.md."""
