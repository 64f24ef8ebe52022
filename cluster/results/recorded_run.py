"""A run in a results directory: its tables, its scenario for a replay, and the differences between scenarios."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import polars as pl

from cluster.results.reading import Results, read_results
from cluster.results.writing import SUMMARY, versions
from cluster.scenario.cluster_sections import ClusterSection, NodeGroup
from cluster.scenario.digests import TENANTS_CODE
from cluster.scenario.scenario import Scenario, digests
from cluster.scenario.scenario_file import OVERRIDDEN, PATHS, named_files, scenario_from
from cluster.scenario.workload_sections import OF_REPORTS
from plb import PlbError, UnknownNameError
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
    """Return the keys in which the scenarios differ, except policies that not all have, with all values."""
    scenarios = [result.summary["scenario"] for result in results]
    tables = [scenario.get("policies") for scenario in scenarios]
    shared = set.intersection(*(set(table) if isinstance(table, dict) else set() for table in tables))
    return differences([{**scenario, "policies": _only(scenario, shared)} for scenario in scenarios])


def version_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the packages whose versions differ between results, with all versions."""
    return differences([result.summary["versions"] for result in results])


def why_other_tenants(first: Results, second: Results) -> str:
    """Return why repeat i of two results may have had different tenants; empty if the tenants were the same.

    Tenants are the same if workload, traces, seed, days, split and total promised demand are: 40 nodes at density 2
    have the tenants of 50 such nodes at density 1.6.
    """
    differing = differences([_origin(result) for result in (first, second)])
    if differing:
        return f"{listed(list(differing))} {'differs' if len(differing) == 1 else 'differ'}"
    promised = [_promised(result.summary["scenario"]) for result in (first, second)]
    for expected, amount in zip(*promised, strict=True):
        if expected is None or amount is None:
            return "the scenarios do not determine the promised demand of tenants"
        if not math.isclose(expected, amount, rel_tol=SAME_PROMISES):
            metric = second.summary["scenario"]["workload"]["density_metric"]
            return f"the promised demand of all tenants is {amount:.10g} of {metric}, not {expected:.10g}"
    return ""


def other_tenants_code(results: Sequence[Results]) -> list[Results]:
    """Return the results whose tenants other code made than those of the first; without those that do not record it.

    A change of that code may be without effect, so this is no proof of other tenants.
    """
    codes = [_split(result).get(TENANTS_CODE) for result in results]
    return [
        result for result, code in zip(results, codes, strict=True) if None not in (code, codes[0]) and code != codes[0]
    ]


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
    """Return the keys in which tables differ, nested ones with dots, with all values; `MISSING` where there is none."""
    flat = [dict(_flat(table)) for table in tables]
    keys = dict.fromkeys(key for table in flat for key in table)
    values = {key: [table.get(key, MISSING) for table in flat] for key in keys}
    return {
        key: of_key
        for key, of_key in values.items()
        if len({json.dumps(value, sort_keys=True) for value in of_key}) > 1
    }


@attrs.frozen(eq=False)
class RecordedRun:
    """A run with tables in a results directory."""

    results: Results
    """The directory."""
    scenario: Scenario
    """The scenario of the run."""
    policy: str
    repeat: int
    """Policy and number of the repeat."""
    seconds: int
    """Its length in simulated seconds; shorter than in the scenario if Ctrl-C ended it."""

    @property
    def folder(self) -> Path:
        """The results directory."""
        return self.results.folder

    def path_of(self, name: str) -> Path:
        """Return the file of a table of the run."""
        return self.results.path_of(self.policy, self.repeat, name)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of the run; see `cluster.simulation.run_tables.TABLES`."""
        return self.results.table(name, repeat=self.repeat).filter(pl.col("policy") == self.policy)


def read_run(
    folder: Path,
    policy: str | None = None,
    repeat: int = 0,
    *,
    present: Scenario | None = None,
    traces: Path | None = None,
) -> RecordedRun:
    """Return a run of a results directory, by default of the first policy of the scenario.

    Results identify imported files and files of policies by name and content; the scenario `present`, as read from its
    file, has their paths. It may differ from the recorded one in its name, in options of `plb simulate`, and in paths.
    """
    results = read_results(folder)
    scenario = _scenario_of(results.summary, folder, present)
    _check_versions(results.summary, folder)
    runs = {(run.policy, run.repeat): run for run in results.runs}
    requested = scenario.run.policies[0] if policy is None else policy
    if not any(name == requested for name, _ in runs):
        raise UnknownNameError("policy", requested, list(dict.fromkeys(name for name, _ in runs)), str(folder))
    if (requested, repeat) not in runs:
        # printed repeats count from 1, those in tables from 0
        numbers = sorted(number + 1 for name, number in runs if name == requested)
        raise PlbError(f"{folder}: there is no repeat {repeat + 1} of {requested}, only {', '.join(map(str, numbers))}")
    scenario = _with_workload_of(scenario, folder, present, traces)
    return RecordedRun(results, scenario, requested, repeat, int(runs[requested, repeat].totals["simulated_seconds"]))


def _scenario_of(summary: Mapping[str, Any], folder: Path, present: Scenario | None) -> Scenario:
    """Return the scenario of a summary, checked against the hash in the summary."""
    tables = dict(summary["scenario"])
    files: dict[tuple[str, str], str] = {}
    if present is not None:
        _check_present(tables, present, folder)
        files = {digest: file for file in named_files(present) for digest in digests([file]).items()}
    try:
        if isinstance(tables.get("imports"), Mapping):
            tables["imports"] = _placed(tables["imports"], files)
        tables["engine"] = _with_files(tables.get("engine", {}), files)
        if isinstance(tables.get("policies"), Mapping):
            tables["policies"] = {name: _with_files(fields, files) for name, fields in tables["policies"].items()}
    except KeyError as missing:
        name, _ = missing.args[0]
        raise PlbError(f"{folder}: the run requires the file {name!r}; give its scenario with --scenario") from None
    scenario = scenario_from(tables, source=str(folder / SUMMARY))
    if scenario.digest() != summary["scenario_sha256"]:
        message = "the scenario, one of its files, or a default has changed"
        raise PlbError(f"{folder}: {message}; simulate again, then explain")
    return scenario


def _check_present(recorded: Mapping[str, Any], present: Scenario, folder: Path) -> None:
    """Raise `PlbError` if a scenario differs from a recorded one in fields that are not options of the command line."""
    ran = tuple(name for name in recorded["run"]["policies"] if name in present.policies)
    same_policies = attrs.evolve(present, run=attrs.evolve(present.run, policies=ran or present.run.policies))
    differing = differences([_compared(scenario) for scenario in (recorded, same_policies.as_json())])
    if differing:
        (key, (then, now)), *others = differing.items()
        more = f"; also: {listed([other for other, _ in others])}" if others else ""
        message = f"the given scenario differs from the one that was run: {key} is {now!r:.60}, not {then!r:.60}{more}"
        raise PlbError(f"{folder}: {message}")


def _compared(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a scenario without paths and options of the command line."""
    left_out = {**OVERRIDDEN, "workload": (*OVERRIDDEN["workload"], *PATHS)}
    kept = {key: value for key, value in scenario.items() if key != "name"}
    for section, fields in left_out.items():
        if isinstance(kept.get(section), Mapping):
            kept[section] = {key: value for key, value in kept[section].items() if key not in fields}
    return kept


def _placed(digests: Mapping[str, Any], files: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the paths of files, from their digests by name; a `KeyError` has name and digest of an unknown file."""
    return [files[name, str(digest)] for name, digest in digests.items()]


def _with_files(fields: Any, files: Mapping[tuple[str, str], str]) -> Any:
    """Return settings of an engine with paths of files in place of their digests in policy options."""
    options = fields.get("policy_options") if isinstance(fields, Mapping) else None
    if not isinstance(options, Mapping):
        return fields
    placed = {
        name: _placed(option, files)[0] if isinstance(option, Mapping) and option else option
        for name, option in options.items()
    }
    return {**fields, "policy_options": placed}


def _check_versions(summary: Mapping[str, Any], folder: Path) -> None:
    present = versions()
    differing = [
        f"{name} {version} (here {present[name]})"
        for name, version in summary["versions"].items()
        if name in present and present[name] != version
    ]
    if differing:
        raise PlbError(f"{folder}: the results were made with {', '.join(differing)}; simulate again, then explain")


def _with_workload_of(scenario: Scenario, folder: Path, present: Scenario | None, traces: Path | None) -> Scenario:
    """Return a scenario with the present paths of its traces or its plan."""
    workload = scenario.workload
    places = {name: getattr(workload, name) for name in PATHS}
    if present is not None:
        places |= {name: getattr(present.workload, name) or place for name, place in places.items()}
    if traces is not None:
        if workload.path is None:
            raise PlbError(f"{folder}: the tenants do not come from traces; omit --traces")
        places["path"] = str(traces)
    for place in places.values():
        if place is not None and not Path(place).exists():
            message = f"the tenants come from {place}, which does not exist relative to the current directory"
            raise PlbError(f"{folder}: {message}; give --traces, or --scenario")
    return attrs.evolve(scenario, workload=attrs.evolve(workload, **places))
