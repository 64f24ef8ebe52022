"""The tables of docs/estimator-results.md, from the published studies of the estimators of risk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from docs.tables.markdown import figures, interval, run_of, table

RISK, CALIBRATION = "risk", "calibration"
DEFAULT, HISTORICAL = "monte-carlo", "historical-simulation"
POLICIES = {"expected_overload": "search", "prv_worst_fit": "`prv_worst_fit`"}
"""Headings of the policies."""
HELD, DAY = "held", "24 hours"
"""The outcome and the horizon of the tables of scores."""


def violations() -> str:
    """Return the violations with each estimator by policy relative to Monte Carlo, and with the original energy."""
    data = figures(RISK)
    of_original = f"original / expected_overload, {DEFAULT}"
    rows = [
        [f"`{label}`", *(interval(of[f"{policy}: {label} / {DEFAULT}"]) for policy in POLICIES for of in _kinds(data))]
        for label in _labels(data)
    ]
    rows.append(["original energy", *(interval(of.get(of_original)) for of in _kinds(data)), "", ""])
    head = [f"{words}, {kind}" for words in POLICIES.values() for kind in ("all", "avoidable")]
    return table(["", *head], rows)


def _kinds(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the ratios of all and of avoidable violations."""
    return data["ratios"], data["ratios_avoidable"]


def _labels(data: Mapping[str, Any]) -> Iterator[str]:
    """Return the estimators that are compared with Monte Carlo."""
    prefix, suffix = "prv_worst_fit: ", f" / {DEFAULT}"
    for label in data["ratios"]:
        if label.startswith(prefix) and label.endswith(suffix):
            yield label.removeprefix(prefix).removesuffix(suffix)


def scores(horizon: str, label: str) -> str:
    """Return the scores of an estimator for a horizon on each workload, also recalibrated."""
    rows = []
    for scored in _scored(horizon):
        if scored["label"] == label:
            plain, recalibrated = scored["scores"], scored["recalibrated"]
            cells = [_score(of[name]) for of in (plain, recalibrated) for name in ("calibration_error", "skill")]
            rows.append([scored["workload"], f"{plain['base_rate']['value']:.3f}", *cells])
    return table(["", "base rate", "error", "skill", "recalibrated: error", "recalibrated: skill"], rows)


def skills() -> str:
    """Return the skill of every estimator on each workload, a day ahead."""
    by_label: dict[str, dict[str, str]] = {}
    for scored in _scored(DAY):
        by_label.setdefault(scored["label"], {})[scored["workload"]] = _score(scored["scores"]["skill"])
    workloads = list(next(iter(by_label.values())))
    rows = [[f"`{label}`", *(found[workload] for workload in workloads)] for label, found in by_label.items()]
    return table(["", *workloads], rows)


def _scored(horizon: str) -> Iterator[Mapping[str, Any]]:
    """Return the scores of a horizon, of what follows if no replica moves."""
    return (of for of in figures(CALIBRATION)["scores"] if (of["outcome"], of["horizon"]) == (HELD, horizon))


def _score(estimate: Mapping[str, float | None]) -> str:
    """Return a score with its interval."""
    return interval({"mean": estimate["value"], **estimate}, digits=3)


TABLES = {
    "run of estimators": partial(run_of, RISK),
    "violations by estimator": violations,
    "run of calibration": partial(run_of, CALIBRATION),
    "calibration of historical-simulation": partial(scores, DAY, HISTORICAL),
    "skill a day ahead": skills,
}
