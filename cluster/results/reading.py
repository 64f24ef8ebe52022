"""Reads a results directory and checks all of it, so that callers can rely on its contents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import attrs
import polars as pl

from cluster.errors import ResultsError
from cluster.results.writing import RUNS, SUMMARY, TIMINGS
from cluster.scenario.scenario import MOST_REPEATS
from cluster.scenario.sections import check_directory_name
from cluster.simulation.recorder import KINDS_OF_VIOLATIONS, RunSummary, SlowPlan
from cluster.simulation.run_tables import TABLES, columns_of, extension_terms_of
from plb import PlbError, UnknownNameError
from plb.validation import check_known

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
    """Yield the problems of the contents of ``summary.json``, each with its dotted key."""
    yield from _problems_of_head(summary)
    policies, rows = _at(summary, "scenario.run.policies"), summary.get("runs")
    policy_names = policies if isinstance(policies, list) else []
    units = summary.get("metrics")
    metrics = [*units] if isinstance(units, dict) else []
    pairs: set[tuple[str, int]] = set()
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        dotted_key = f"runs[{index}]"
        yield from _problems_of_run(dotted_key, row, policy_names, metrics)
        pair = (row.get("policy"), row.get("repeat")) if isinstance(row, dict) else None
        if pair is not None and isinstance(pair[0], str) and isinstance(pair[1], int):
            if pair in pairs:
                yield f"{dotted_key}: policy {pair[0]!r} and repeat {pair[1]} occur twice"
            pairs.add((pair[0], pair[1]))


def _problems_of_head(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a summary without its runs, each with its dotted key."""
    for dotted_key, kind in HEAD.items():
        value = _at(summary, dotted_key)
        if not _is(value, kind):
            yield f"{dotted_key}: {_found(value, dotted_key.split('.')[-1], summary)}; expected {WORDS[kind]}"
        elif dotted_key in RANGES and not RANGES[dotted_key][0] < value <= RANGES[dotted_key][1]:
            low, high = RANGES[dotted_key]
            yield f"{dotted_key}: found {value!r}; expected a number above {low:g}, up to {high:g}"
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


def _problems_of_run(dotted_key: str, row: object, policies: list[Any], metrics: list[str]) -> Iterator[str]:
    """Yield the problems of a run, a row of a summary; `policies`, `metrics`: names in the scenario."""
    if not isinstance(row, dict):
        yield f"{dotted_key}: found {row!r:.60}; expected a table"
        return
    if row.get("policy") not in policies:
        yield str(UnknownNameError("policy", f"{row.get('policy')}", map(str, policies), dotted_key))
    for name in ("repeat", *COUNTS):
        if not (_is(row.get(name), int) and row[name] >= 0):
            yield f"{dotted_key}.{name}: {_found(row.get(name), name, row)}; expected a whole number >= 0"
    violations_by_kind = [row.get(name) for name in KINDS_OF_VIOLATIONS]
    total = sum(kind for kind in violations_by_kind if isinstance(kind, int))
    if all(_is(number, int) for number in (row.get("violations"), *violations_by_kind)) and row["violations"] != total:
        yield f"{dotted_key}.violations: found {row['violations']}; expected {' + '.join(KINDS_OF_VIOLATIONS)}"
    for name in AMOUNTS:
        if not (_is(row.get(name), float) and row[name] >= 0):
            yield f"{dotted_key}.{name}: {_found(row.get(name), name, row)}; expected a number >= 0"
    availability = row.get("availability")
    if availability is not None and not (_is(availability, float) and 0.0 <= round(availability, 9) <= 1.0):
        yield f"{dotted_key}.availability: found {availability!r:.60}; expected a number from 0 to 1, or null"
    if not isinstance(row.get("complete"), bool):
        yield f"{dotted_key}.complete: {_found(row.get('complete'), 'complete', row)}; expected true or false"
    for name in BY_CAUSE:
        counts = row.get(name)
        if not isinstance(counts, dict) or not all(_is(count, int) and count >= 0 for count in counts.values()):
            yield f"{dotted_key}.{name}: {_found(counts, name, row)}; expected whole numbers >= 0 by cause"
    terms = row.get("extension_terms", {})
    if not isinstance(terms, dict) or not all(_is(mean, float) for mean in terms.values()):
        yield f"{dotted_key}.extension_terms: found {terms!r:.60}; expected numbers by term"
    if "applications" in row:
        yield from _problems_of_applications(f"{dotted_key}.applications", row["applications"], metrics)


def _problems_of_applications(dotted_key: str, applications: object, metrics: list[str]) -> Iterator[str]:
    """Yield the problems of the totals of applications: numbers of nodes, and loads by metric."""
    if not isinstance(applications, dict):
        yield f"{dotted_key}: found {applications!r:.60}; expected a table"
        return
    for name, fields in applications.items():
        if not isinstance(fields, dict):
            yield f"{dotted_key}.{name}: found {fields!r:.60}; expected a table"
            continue
        for field, kind in (("nodes", float), ("most_nodes", int)):
            if not (_is(fields.get(field), kind) and fields[field] >= 0):
                found_number = _found(fields.get(field), field, fields)
                yield f"{dotted_key}.{name}.{field}: {found_number}; expected {WORDS[kind]} >= 0"
        for field in LOADS_OF_APPLICATIONS:
            loads = fields.get(field)
            if not isinstance(loads, dict) or not all(_is_amount(loads.get(metric)) for metric in metrics):
                found_loads = _found(loads, field, fields)
                yield f"{dotted_key}.{name}.{field}: {found_loads}; expected a number >= 0 for each metric"


def problems_of_timings(timings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the problems of the contents of ``timings.json``, each with its dotted key; `rows`: runs of the summary."""
    timed_runs = timings.get("runs")
    if not isinstance(timed_runs, list):
        yield f"runs: {_found(timed_runs, 'runs', timings)}; expected a list"
        return
    plan_counts = {(row["policy"], row["repeat"]): row["plans"] for row in rows}
    missing = dict(plan_counts)
    for index, timing in enumerate(timed_runs):
        dotted_key = f"runs[{index}]"
        pair = (timing.get("policy"), timing.get("repeat")) if isinstance(timing, dict) else None
        if pair is None or not isinstance(pair[0], str) or not isinstance(pair[1], int) or pair not in plan_counts:
            yield f"{dotted_key}: belongs to no run of the summary"
            continue
        missing.pop((pair[0], pair[1]), None)
        seconds = timing.get("seconds")
        if not isinstance(seconds, dict) or not all(_is_amount(seconds.get(name)) for name in SECONDS):
            yield f"{dotted_key}.seconds: expected numbers >= 0 for {', '.join(SECONDS)}"
        slowest = timing.get("slowest")
        if not isinstance(slowest, list) or not all(
            _is_slow_plan(plan, plan_counts[pair[0], pair[1]]) for plan in slowest
        ):
            yield f"{dotted_key}.slowest: expected a list of plans with their seconds"
    for policy, repeat in missing:
        yield f"runs: policy {policy!r}, repeat {repeat} is missing"


def _is_slow_plan(value: object, plans: int) -> bool:
    """Return whether a value is a `SlowPlan` as plain values, in a run of `plans` plans."""
    if not isinstance(value, dict):
        return False
    plan = value.get("plan")
    return isinstance(plan, int) and _is(plan, int) and 0 <= plan < plans and _is_amount(value.get("seconds"))


def _is_amount(value: Any) -> bool:
    """Return whether a value is a number of at least 0."""
    return _is(value, float) and value >= 0


def _at(values: Any, dotted_key: str) -> Any:
    """Return the value at a dotted key of nested tables, or None."""
    for key in dotted_key.split("."):
        if not isinstance(values, dict):
            return None
        values = values.get(key)
    return values


def _is(value: object, kind: type) -> bool:
    """Return whether a value is of a type; numbers must be finite and not huge, and booleans are not numbers."""
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool) and abs(value) <= LARGEST
    return isinstance(value, kind)


def _found(value: object, name: str, table: Mapping[str, Any]) -> str:
    """Return in words what was found for the key `name` of a table: its value, or else a key of a similar name."""
    if value is not None:
        return f"found {value!r:.60}"
    near = get_close_matches(name, [key for key in map(str, table) if key != name], n=1)
    return f"is missing; found {near[0]!r}" if near else "is missing"


def problems_of_columns(frame: pl.DataFrame, table: str) -> Iterator[str]:
    """Yield the problems of the columns of a table of a run: missing, of another type, or with invalid values.

    `table`: its name.
    """
    for name, spec in columns_of(table, extension_terms_of(frame.columns)).items():
        if name not in frame.columns:
            near = get_close_matches(name, [column for column in frame.columns if column not in TABLES[table]], n=1)
            yield f"column {name} is missing" + (f"; found {near[0]!r}" if near else "")
        elif frame[name].dtype != spec.dtype:
            yield f"column {name}: found {frame[name].dtype}; expected {spec.dtype()}"
        elif frame[name].null_count() and not spec.may_be_null:
            yield f"column {name}: found {frame[name].null_count()} nulls; expected a value in every row"
        elif frame[name].dtype.is_numeric() and not frame[name].is_between(-LARGEST, LARGEST).all():
            yield f"column {name}: found a number that is not finite, or beyond {LARGEST:g}"


@attrs.frozen(eq=False)
class Results:
    """A results directory of `plb simulate`."""

    folder: Path
    """The directory."""
    summary: Mapping[str, Any]
    """The contents of ``summary.json``."""
    timings: Mapping[str, Any]
    """The contents of ``timings.json``."""
    runs: tuple[RunSummary, ...]
    """The runs, by repeat, then in the order of the scenario's policies."""

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.summary["scenario"]["name"])

    @property
    def policies(self) -> tuple[str, ...]:
        """The scenario's policies in their order; some may have no run."""
        return tuple(self.summary["scenario"]["run"]["policies"])

    @property
    def violation_threshold(self) -> float:
        """Share of the capacity at which a violation begins."""
        return float(self.summary["scenario"]["cluster"]["violation_threshold"])

    @property
    def days(self) -> float:
        """Simulated days of the longest run; 0 without any."""
        return max((run.days for run in self.runs), default=0.0)

    @property
    def not_begun(self) -> dict[str, list[int]]:
        """Numbers of the repeats without a run, by policy; policies with all runs are omitted.

        If the scenario does not have the number of repeats, every policy needs the repeats that any policy has.
        """
        repeat_count = self.summary["scenario"]["run"].get("repeats")
        requested = {run.repeat for run in self.runs} if repeat_count is None else set(range(repeat_count))
        missing = {policy: sorted(requested.difference(self.repeats(policy))) for policy in self.policies}
        return {policy: repeats for policy, repeats in missing.items() if repeats}

    def repeats(self, policy: str) -> list[int]:
        """Return the numbers of the repeats of a policy."""
        return [run.repeat for run in self.runs if run.policy == policy]

    def lengths(self, policy: str) -> dict[int, float]:
        """Return the simulated days of each run of a policy, by repeat."""
        return {run.repeat: run.days for run in self.runs if run.policy == policy}

    @property
    def shown_repeat(self) -> int:
        """The first repeat that all policies with a run have run, or the first of any where there is none."""
        repeats = [set(finished) for policy in self.policies if (finished := self.repeats(policy))]
        return min(set.intersection(*repeats) or set.union(*repeats))

    def table(self, name: str, *, repeat: int | None = None) -> pl.DataFrame:
        """Return a table of all runs, by policy and repeat; extension terms that a policy does not have are null.

        Parameters
        ----------
        name
            A key of `cluster.simulation.run_tables.TABLES`.
        repeat
            Only this repeat; None: all.

        Raises
        ------
        UnknownNameError
            There is no such table.
        ResultsError
            One of its files is missing, damaged or without required columns.
        """
        check_known("table", name, TABLES, str(self.folder))
        empty = pl.DataFrame(schema={column: spec.dtype for column, spec in columns_of(name).items()})
        frames = [self._table_of_run(run, name) for run in self.runs if repeat in (None, run.repeat)]
        return pl.concat([empty, *frames], how="diagonal").sort("policy", "repeat", maintain_order=True)

    def path_of(self, policy: str, repeat: int, name: str) -> Path:
        """Return the file of a table of a run."""
        return self.folder / RUNS / f"{policy}-{repeat}" / f"{name}.parquet"

    def _table_of_run(self, run: RunSummary, name: str) -> pl.DataFrame:
        """Return a table of a run; raise `ResultsError` if its file is missing or damaged."""
        path = self.path_of(run.policy, run.repeat, name)
        if not path.is_file():
            _fail(path, f"is missing, but {SUMMARY} has the run")
        try:
            with path.open("rb") as file:  # Polars rejects paths that are not UTF-8
                frame = pl.read_parquet(file, glob=False)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            _fail(path, f"is damaged ({str(error)[:200]})")
        problems = list(problems_of_columns(frame, name))
        if not problems:
            is_of_run = (pl.col("policy") == run.policy) & (pl.col("repeat") == run.repeat)
            other_rows = len(frame.filter(~is_of_run))
            problems = [f"{other_rows} rows belong to another policy or repeat"] if other_rows else []
        if problems:
            raise ResultsError(path, problems)
        return frame.select(list(columns_of(name, extension_terms_of(frame.columns))))


def read_results(folder: str | Path) -> Results:
    """Read a results directory: summary and timings now, tables on demand.

    Raises
    ------
    ResultsError
        A file is missing, damaged or incomplete; all problems of the file are reported.
    """
    folder = Path(folder)
    if not (folder / SUMMARY).is_file():
        _fail(folder, f"is not a results directory of plb simulate: there is no {SUMMARY}")
    summary, timings = _read_json(folder / SUMMARY), _read_json(folder / TIMINGS)
    problems = list(problems_of_summary(summary))
    if problems:
        raise ResultsError(folder / SUMMARY, problems)
    problems = list(problems_of_timings(timings, summary["runs"]))
    if problems:
        raise ResultsError(folder / TIMINGS, problems)
    timing_of = {(timing["policy"], timing["repeat"]): timing for timing in timings["runs"]}
    policy_order = {policy: number for number, policy in enumerate(summary["scenario"]["run"]["policies"])}
    rows = sorted(summary["runs"], key=lambda row: (row["repeat"], policy_order[row["policy"]]))
    return Results(folder, summary, timings, tuple(_run(row, timing_of[row["policy"], row["repeat"]]) for row in rows))


def _run(row: Mapping[str, Any], timing: Mapping[str, Any]) -> RunSummary:
    """Return a run from its row of ``summary.json`` and its row of ``timings.json``."""
    totals = {name: value for name, value in row.items() if name not in ("policy", "repeat", "complete")}
    slowest = tuple(SlowPlan(plan["plan"], float(plan["seconds"])) for plan in timing["slowest"])
    return RunSummary(row["policy"], row["repeat"], totals, timing["seconds"], slowest, row["complete"])


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise `ResultsError` if there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        _fail(path, "is missing")
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or a number of too many digits
        _fail(path, f"is not JSON ({str(error)[:200]})")
    if not isinstance(values, dict):
        _fail(path, "is not a JSON object")
    return values


def _fail(path: Path, problem: str) -> NoReturn:
    """Raise `ResultsError` for one problem of a file."""
    raise ResultsError(path, [problem]) from None
