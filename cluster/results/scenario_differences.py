"""Differences between results: keys of their scenarios, versions, and whether they had the same tenants."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cluster.results.reading import Results
from cluster.scenario.cluster_section import ClusterSection, NodeGroup
from cluster.scenario.digests import TENANTS_CODE
from cluster.scenario.workload_section import OF_REPORTS
from plb import PlbError
from plb.phrasing import listed

MISSING = "-"
"""In place of a value that there is not, such as that of a key that a scenario does not have."""
NOT_OF_TENANTS = (*OF_REPORTS, "density", "density_end")
"""Fields of ``[workload]`` that do not affect tenants, or affect only their total promised demand."""
OF_OTHER_HISTORY = ("history_digest", "history_tenants")
"""Values of a split that do not affect the simulated tenants if the history is from other traces."""
SAME_PROMISES = 1e-9
"""Relative tolerance for equal promised demand of all tenants; a larger difference may add a tenant."""


def scenario_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the keys in which the scenarios differ, in the order of the first, with all values.

    Keys are those of a scenario file, such as ``cluster.nodes``; a missing value is `MISSING`. Policies that some
    scenarios lack are not compared, since ``run.policies`` shows them.
    """
    scenarios = [one.summary["scenario"] for one in results]
    tables = [scenario.get("policies") for scenario in scenarios]
    shared = set.intersection(*(set(table) if isinstance(table, dict) else set() for table in tables))
    return differences([{**scenario, "policies": _only(scenario, shared)} for scenario in scenarios])


def version_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the packages whose versions differ between results, with all versions."""
    return differences([one.summary["versions"] for one in results])


def why_other_tenants(first: Results, second: Results) -> str:
    """Return why repeat i of two results may have had different tenants; empty if the tenants were the same.

    Tenants are the same if workload, traces, seed, days, split and total promised demand are: 40 nodes at density 2
    have the tenants of 50 such nodes at density 1.6.
    """
    differing = differences([_origin(one) for one in (first, second)])
    if differing:
        return f"{listed(list(differing))} {'differs' if len(differing) == 1 else 'differ'}"
    promised = [_promised(one.summary["scenario"]) for one in (first, second)]
    for one, other in zip(*promised, strict=True):
        if one is None or other is None:
            return "the scenarios do not determine the promised demand of tenants"
        if not math.isclose(one, other, rel_tol=SAME_PROMISES):
            metric = second.summary["scenario"]["workload"]["density_metric"]
            return f"the promised demand of all tenants is {other:.10g} of {metric}, not {one:.10g}"
    return ""


def other_tenants_code(results: Sequence[Results]) -> list[Results]:
    """Return the results whose tenants other code made than those of the first; without those that do not record it.

    A change of that code may be without effect, so this is no proof of other tenants.
    """
    codes = [_split(one).get(TENANTS_CODE) for one in results]
    return [one for one, code in zip(results, codes, strict=True) if None not in (code, codes[0]) and code != codes[0]]


def _split(results: Results) -> Mapping[str, Any]:
    split = results.summary.get("split")
    return split if isinstance(split, dict) else {}


def _origin(results: Results) -> dict[str, Any]:
    """Return the values that tenants depend on, except the total promised demand."""
    scenario = results.summary["scenario"]
    workload, run = (scenario.get(name) for name in ("workload", "run"))
    kept = dict(workload) if isinstance(workload, dict) else {}
    split = _split(results)
    known_by_content = split.get("traces") is not None and "traces_digest" in split
    left_out = (*NOT_OF_TENANTS, "path", "history_path") if known_by_content else NOT_OF_TENANTS
    if isinstance(split, dict) and "history_digest" in split:
        split = {name: value for name, value in split.items() if name not in OF_OTHER_HISTORY}
    return {
        "workload": {name: value for name, value in kept.items() if name not in left_out},
        "run": {name: run.get(name) for name in ("days", "fill_hours")} if isinstance(run, dict) else {},
        "seed": results.summary["seed"],
        "split": {name: value for name, value in split.items() if name != TENANTS_CODE},
    }


def _promised(scenario: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the total promised demand at the start and at the end; None if a scenario does not determine it."""
    try:
        fields, workload = scenario["cluster"], scenario["workload"]
        if workload.get("arrivals") == "recorded":  # the traces determine the tenants
            return 0.0, 0.0
        cluster = ClusterSection(
            **{**fields, "groups": tuple(NodeGroup(**group) for group in fields.get("groups", ()))}
        )
        capacity = cluster.total_capacity(workload["density_metric"])
        end = workload.get("density_end")
        return workload["density"] * capacity, (workload["density"] if end is None else end) * capacity
    except (KeyError, TypeError, AttributeError, PlbError):
        return None, None


def _only(scenario: Mapping[str, Any], policies: set[str]) -> dict[str, Any]:
    table = scenario.get("policies")
    return {name: value for name, value in table.items() if name in policies} if isinstance(table, dict) else {}


def _flat(table: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values that are not tables, with their places."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def differences(tables: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys in which tables of plain JSON values differ, in the order of the first, with all values.

    A dot separates keys of nested tables. A missing value is `MISSING`.
    """
    flat = [dict(_flat(table)) for table in tables]
    keys = dict.fromkeys(key for table in flat for key in table)
    values = {key: [table.get(key, MISSING) for table in flat] for key in keys}
    return {key: of for key, of in values.items() if len({json.dumps(one, sort_keys=True) for one in of}) > 1}
