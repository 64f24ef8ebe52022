"""Checks of the files of a results directory. Readers rely only on properties that are checked here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import polars as pl

from cluster.scenario.scenario import MOST_REPEATS
from cluster.scenario.sections import check_directory_name
from cluster.simulation.recorder import KINDS_OF_VIOLATIONS
from cluster.simulation.run_tables import TABLES, columns_of
from plb import PlbError, UnknownNameError

LARGEST = 1e15
"""Maximum absolute value of numbers, so that their sums are finite and exact."""
COUNTS = (
    *("tenants", "violations", "violation_rows", "shortages_covered", "shortages_unresolved", "failovers", "moves"),
    *("swaps", "placement_failures", "refusals", "quorum_losses", "node_faults", "upgraded_domains"),
    *("rolled_back_domains", "waiting_seconds", "plans", "proposals_drawn", "proposals_scored"),
    *("scale_outs", "scale_ins", "shortages_unresolved_unavoidable", *KINDS_OF_VIOLATIONS),
)
AMOUNTS = ("simulated_seconds", "violated_node_minutes", "copied_gb", "downtime_seconds")
LOADS_OF_APPLICATIONS = ("load", "largest_load", "largest_load_on_node")
"""The totals of an application that have a number for each metric."""
BY_CAUSE = ("failovers_by_cause", "moves_by_cause")
SECONDS = ("placement", "repair", "balancing", "total")
HEAD: Mapping[str, type] = {
    "scenario.name": str,
    "scenario.cluster.violation_threshold": float,
    "scenario.run.policies": list,
    "scenario_sha256": str,
    "versions": dict,
    "metrics": dict,
    "complete": bool,
    "runs": list,
}
"""Keys and types that a summary requires besides its runs; a dot separates keys of nested tables."""
RANGES: Mapping[str, tuple[float, float]] = {"scenario.cluster.violation_threshold": (0.0, 1.0)}
"""Bounds of numbers of `HEAD`: above the first, and at most the second."""
WORDS = {
    str: "a text",
    float: "a number",
    int: "a whole number",
    list: "a list",
    dict: "a table",
    bool: "true or false",
}


def problems_of_summary(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a summary, each with its place."""
    yield from _problems_of_head(summary)
    policies, rows = _at(summary, "scenario.run.policies"), summary.get("runs")
    known = policies if isinstance(policies, list) else []
    units = summary.get("metrics")
    metrics = [*units] if isinstance(units, dict) else []
    seen: set[tuple[str, int]] = set()
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        place = f"runs[{number}]"
        yield from _problems_of_run(place, row, known, metrics)
        key = (row.get("policy"), row.get("repeat")) if isinstance(row, dict) else None
        if key is not None and isinstance(key[0], str) and isinstance(key[1], int):
            if key in seen:
                yield f"{place}: policy {key[0]!r} and repeat {key[1]} occur twice"
            seen.add((key[0], key[1]))


def _problems_of_head(summary: Mapping[str, Any]) -> Iterator[str]:
    for place, kind in HEAD.items():
        value = _at(summary, place)
        if not _is(value, kind):
            yield f"{place}: {_found(value, place.split('.')[-1], summary)}; expected {WORDS[kind]}"
        elif place in RANGES and not RANGES[place][0] < value <= RANGES[place][1]:
            low, high = RANGES[place]
            yield f"{place}: found {value!r}; expected a number above {low:g}, up to {high:g}"
    repeats = _at(summary, "scenario.run.repeats")
    if repeats is not None and not (_is(repeats, int) and 1 <= repeats <= MOST_REPEATS):
        yield f"scenario.run.repeats: found {repeats!r:.60}; expected a whole number from 1 to {MOST_REPEATS}"
    if not isinstance(summary.get("seed"), int):  # of any size
        yield f"seed: {_found(summary.get('seed'), 'seed', summary)}; expected a whole number"
    for name in ("versions", "metrics"):
        pairs = summary.get(name)
        if isinstance(pairs, dict) and not all(isinstance(value, str) for value in pairs.values()):
            yield f"{name}: found a value that is not text"
    policies = _at(summary, "scenario.run.policies")
    for policy in policies if isinstance(policies, list) else []:
        try:
            if not isinstance(policy, str):
                yield f"scenario.run.policies: found {policy!r:.60}; expected texts"
            else:
                check_directory_name("scenario.run.policies", policy)
        except PlbError as error:
            yield str(error)


def _problems_of_run(place: str, row: object, known: list[Any], metrics: list[str]) -> Iterator[str]:
    if not isinstance(row, dict):
        yield f"{place}: found {row!r:.60}; expected a table"
        return
    if row.get("policy") not in known:
        yield str(UnknownNameError("policy", f"{row.get('policy')}", map(str, known), place))
    for name in ("repeat", *COUNTS):
        if not (_is(row.get(name), int) and row[name] >= 0):
            yield f"{place}.{name}: {_found(row.get(name), name, row)}; expected a whole number >= 0"
    kinds = [row.get(name) for name in KINDS_OF_VIOLATIONS]
    total = sum(kind for kind in kinds if isinstance(kind, int))
    if all(_is(one, int) for one in (row.get("violations"), *kinds)) and row["violations"] != total:
        yield f"{place}.violations: found {row['violations']}; expected {' + '.join(KINDS_OF_VIOLATIONS)}"
    for name in AMOUNTS:
        if not (_is(row.get(name), float) and row[name] >= 0):
            yield f"{place}.{name}: {_found(row.get(name), name, row)}; expected a number >= 0"
    used = row.get("availability")
    if used is not None and not (_is(used, float) and 0.0 <= round(used, 9) <= 1.0):
        yield f"{place}.availability: found {used!r:.60}; expected a number from 0 to 1, or null"
    if not isinstance(row.get("complete"), bool):
        yield f"{place}.complete: {_found(row.get('complete'), 'complete', row)}; expected true or false"
    for name in BY_CAUSE:
        counts = row.get(name)
        if not isinstance(counts, dict) or not all(_is(count, int) and count >= 0 for count in counts.values()):
            yield f"{place}.{name}: {_found(counts, name, row)}; expected whole numbers >= 0 by cause"
    if "applications" in row:
        yield from _problems_of_applications(f"{place}.applications", row["applications"], metrics)


def _problems_of_applications(place: str, used: object, metrics: list[str]) -> Iterator[str]:
    """Yield the problems of what applications have used: numbers of nodes, and loads of all metrics."""
    if not isinstance(used, dict):
        yield f"{place}: found {used!r:.60}; expected a table"
        return
    for name, one in used.items():
        if not isinstance(one, dict):
            yield f"{place}.{name}: found {one!r:.60}; expected a table"
            continue
        for field, kind in (("nodes", float), ("most_nodes", int)):
            if not (_is(one.get(field), kind) and one[field] >= 0):
                yield f"{place}.{name}.{field}: {_found(one.get(field), field, one)}; expected {WORDS[kind]} >= 0"
        for field in LOADS_OF_APPLICATIONS:
            loads = one.get(field)
            if not isinstance(loads, dict) or not all(_is_amount(loads.get(metric)) for metric in metrics):
                yield f"{place}.{name}.{field}: {_found(loads, field, one)}; expected a number >= 0 for each metric"


def problems_of_timings(timings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the problems of the timings of a summary's runs, each with its place."""
    timed = timings.get("runs")
    if not isinstance(timed, list):
        yield f"runs: {_found(timed, 'runs', timings)}; expected a list"
        return
    plans = {(row["policy"], row["repeat"]): row["plans"] for row in rows}
    missing = dict(plans)
    for number, one in enumerate(timed):
        place = f"runs[{number}]"
        key = (one.get("policy"), one.get("repeat")) if isinstance(one, dict) else None
        if key is None or not isinstance(key[0], str) or not isinstance(key[1], int) or key not in plans:
            yield f"{place}: belongs to no run of the summary"
            continue
        missing.pop((key[0], key[1]), None)
        seconds = one.get("seconds")
        if not isinstance(seconds, dict) or not all(_is_amount(seconds.get(name)) for name in SECONDS):
            yield f"{place}.seconds: expected numbers >= 0 for {', '.join(SECONDS)}"
        slowest = one.get("slowest")
        if not isinstance(slowest, list) or not all(_is_slow_plan(plan, plans[key[0], key[1]]) for plan in slowest):
            yield f"{place}.slowest: expected a list of plans with their seconds"
    for policy, repeat in missing:
        yield f"runs: policy {policy!r}, repeat {repeat} is missing"


def _is_slow_plan(one: object, plans: int) -> bool:
    if not isinstance(one, dict):
        return False
    plan = one.get("plan")
    return isinstance(plan, int) and _is(plan, int) and 0 <= plan < plans and _is_amount(one.get("seconds"))


def _is_amount(value: Any) -> bool:
    return _is(value, float) and value >= 0


def _at(values: Any, place: str) -> Any:
    """Return the value at a place, or None."""
    for key in place.split("."):
        if not isinstance(values, dict):
            return None
        values = values.get(key)
    return values


def _is(value: object, kind: type) -> bool:
    """Return whether a value is of a kind; numbers must be finite and not huge, and booleans are not numbers."""
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool) and abs(value) <= LARGEST
    return isinstance(value, kind)


def _found(value: object, name: str, beside: Mapping[str, Any]) -> str:
    """Return a description of a value; for a missing one, with the key that has a similar name."""
    if value is not None:
        return f"found {value!r:.60}"
    near = get_close_matches(name, [key for key in map(str, beside) if key != name], n=1)
    return f"is missing; found {near[0]!r}" if near else "is missing"


def problems_of_columns(frame: pl.DataFrame, table: str) -> Iterator[str]:
    """Yield the problems of a table's columns: missing, of another type, or with invalid nulls or numbers."""
    for name, spec in columns_of(table).items():
        if name not in frame.columns:
            near = get_close_matches(name, [one for one in frame.columns if one not in TABLES[table]], n=1)
            yield f"column {name} is missing" + (f"; found {near[0]!r}" if near else "")
        elif frame[name].dtype != spec.dtype:
            yield f"column {name}: found {frame[name].dtype}; expected {spec.dtype()}"
        elif frame[name].null_count() and not spec.may_be_null:
            yield f"column {name}: found {frame[name].null_count()} nulls; expected a value in every row"
        elif frame[name].dtype.is_numeric() and not frame[name].is_between(-LARGEST, LARGEST).all():
            yield f"column {name}: found a number that is not finite, or beyond {LARGEST:g}"
