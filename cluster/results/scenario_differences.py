"""What differs between results: keys of their scenarios, versions, and whether they faced the same tenants."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cluster.results.reading import Results
from cluster.scenario.cluster_section import ClusterSection, NodeGroup
from cluster.scenario.workload_section import OF_REPORTS
from plb import PlbError
from plb.phrasing import listed

MISSING = "-"
"""Stands for a key that a scenario does not have."""
NOT_OF_TENANTS = (*OF_REPORTS, "density", "density_end")
"""Fields of ``[workload]`` on which tenants do not depend, or only by what they are promised in all."""
SAME_PROMISES = 1e-9
"""Relative difference up to which promises to all tenants count as the same; beyond that, one tenant more may come."""


def scenario_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the keys in which the scenarios differ, in the order of the first, with the value of each.

    Keys are those of a scenario file, such as ``cluster.nodes``; `MISSING` stands where there is none. Of policies that
    not all have, nothing is said: ``run.policies`` does.
    """
    scenarios = [one.summary["scenario"] for one in results]
    tables = [scenario.get("policies") for scenario in scenarios]
    shared = set.intersection(*(set(table) if isinstance(table, dict) else set() for table in tables))
    return differences([{**scenario, "policies": _only(scenario, shared)} for scenario in scenarios])


def version_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the packages of which the results were made with different versions, with the version of each."""
    return differences([one.summary["versions"] for one in results])


def why_other_tenants(first: Results, second: Results) -> str:
    """Return why repeat i of two results did not face the same tenants, as far as they tell; empty where it did.

    So it did if the workload, the traces, the seed, the days and the share of past tenants are the same, and tenants
    are promised as much in all: 40 nodes at density 2 have the tenants of 50 such nodes at density 1.6.
    """
    differing = differences([_origin(one) for one in (first, second)])
    if differing:
        return f"{listed(list(differing))} {'differs' if len(differing) == 1 else 'differ'}"
    promised = [_promised(one.summary["scenario"]) for one in (first, second)]
    for one, other in zip(*promised, strict=True):
        if one is None or other is None:
            return "the scenarios do not tell what tenants are promised"
        if not math.isclose(one, other, rel_tol=SAME_PROMISES):
            return f"tenants are promised {other:.10g} of {_metric(second)} in all, not {one:.10g}"
    return ""


def _origin(results: Results) -> dict[str, Any]:
    """Return what tenants depend on beside their number."""
    scenario = results.summary["scenario"]
    workload, run = (scenario.get(name) for name in ("workload", "run"))
    kept = dict(workload) if isinstance(workload, dict) else {}
    split = results.summary.get("split")
    known_by_content = isinstance(split, dict) and split.get("traces") is not None and "traces_digest" in split
    left_out = (*NOT_OF_TENANTS, "path") if known_by_content else NOT_OF_TENANTS
    return {
        "workload": {name: value for name, value in kept.items() if name not in left_out},
        "run": {name: run.get(name) for name in ("days", "fill_hours")} if isinstance(run, dict) else {},
        "seed": results.summary["seed"],
        "split": split,
    }


def _metric(results: Results) -> str:
    return str(results.summary["scenario"]["workload"]["density_metric"])


def _promised(scenario: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return what all tenants are promised at the start and at the end; None where a scenario does not tell."""
    try:
        fields, workload = scenario["cluster"], scenario["workload"]
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
    """Yield all that is no table, with its place."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def differences(tables: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys in which tables of plain JSON values differ, in the order of the first, with the value of each.

    A key of a table within a table stands behind a dot. `MISSING` stands where there is none.
    """
    flat = [dict(_flat(table)) for table in tables]
    keys = dict.fromkeys(key for table in flat for key in table)
    values = {key: [table.get(key, MISSING) for table in flat] for key in keys}
    return {key: of for key, of in values.items() if len({json.dumps(one, sort_keys=True) for one in of}) > 1}
