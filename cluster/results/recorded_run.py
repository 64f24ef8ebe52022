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
from cluster.scenario.scenario import Scenario, digests, reference_digests
from cluster.scenario.scenario_file import OVERRIDDEN, PATHS, named_files, scenario_from
from cluster.scenario.workload_sections import OF_REPORTS
from plb import PlbError, UnknownNameError
from plb.phrasing import listed

MISSING = "-"
"""In place of a missing value, such as the value of a key that a scenario does not have."""
NOT_OF_TENANTS = (*OF_REPORTS, "density", "density_end")
"""Fields of ``[workload]`` that do not affect tenants, or affect only their total promised demand."""
OF_OTHER_HISTORY = ("history_digest", "history_tenants")
"""Values of a split that do not affect the simulated tenants if the history is from other traces."""
SAME_PROMISES = 1e-9
"""Relative tolerance for equal promised demand of all tenants; a larger difference may add a tenant."""


def scenario_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the keys in which the scenarios of results differ, each with its value in all results.

    Policies that only some of the scenarios have are left out.
    """
    scenarios = [result.summary["scenario"] for result in results]
    shared_policies = set.intersection(*(set(scenario.get("policies", ())) for scenario in scenarios))
    return differences([{**scenario, "policies": _only(scenario, shared_policies)} for scenario in scenarios])


def version_differences(results: Sequence[Results]) -> dict[str, list[Any]]:
    """Return the packages whose versions differ between results, each with its version in all results."""
    return differences([result.summary["versions"] for result in results])


def why_other_tenants(first: Results, second: Results) -> str:
    """Return why repeat i of two results may have had different tenants; empty if the tenants were the same.

    Tenants are the same if workload, traces, seed, days, split and total promised demand are: 40 nodes at density 2
    have the tenants of 50 such nodes at density 1.6.
    """
    differing = differences([_origin(result) for result in (first, second)])
    if differing:
        return f"{listed(list(differing))} {'differs' if len(differing) == 1 else 'differ'}"
    promised_by_result = [_promised(result.summary["scenario"]) for result in (first, second)]
    for first_demand, second_demand in zip(*promised_by_result, strict=True):
        if first_demand is None or second_demand is None:
            return "the scenarios do not determine the promised demand of tenants"
        if not math.isclose(first_demand, second_demand, rel_tol=SAME_PROMISES):
            metric = second.summary["scenario"]["workload"]["density_metric"]
            return f"the promised demand of all tenants is {second_demand:.10g} of {metric}, not {first_demand:.10g}"
    return ""


def other_tenants_code(results: Sequence[Results]) -> list[Results]:
    """Return the results whose tenants were made by other code than the tenants of the first results.

    Results that do not record the code are left out. A change of the code may be without effect, so this is no proof of
    other tenants.
    """
    codes = [result.split.get(TENANTS_CODE) for result in results]
    return [
        result for result, code in zip(results, codes, strict=True) if None not in (code, codes[0]) and code != codes[0]
    ]


def _origin(results: Results) -> dict[str, Any]:
    """Return the values that the tenants of results depend on, except the total promised demand."""
    scenario = results.summary["scenario"]
    split = results.split
    has_digest = split.get("traces") is not None and "traces_digest" in split
    omitted = (*NOT_OF_TENANTS, "path", "history_path") if has_digest else NOT_OF_TENANTS
    if "history_digest" in split:
        split = {name: value for name, value in split.items() if name not in OF_OTHER_HISTORY}
    return {
        "workload": {name: value for name, value in scenario.get("workload", {}).items() if name not in omitted},
        "run": {name: scenario["run"].get(name) for name in ("days", "fill_hours")},
        "seed": results.summary["seed"],
        "split": {name: value for name, value in split.items() if name != TENANTS_CODE},
    }


def _promised(scenario: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the promised demand of all tenants of a scenario, as plain values, at the start and at the end.

    None if the scenario does not determine it; 0 if the traces determine the tenants.
    """
    try:
        cluster_fields, workload = scenario["cluster"], scenario["workload"]
        if workload.get("arrivals") == "recorded":  # the traces determine the tenants
            return 0.0, 0.0
        cluster = ClusterSection(
            **{**cluster_fields, "groups": tuple(NodeGroup(**group) for group in cluster_fields.get("groups", ()))}
        )
        capacity = cluster.total_capacity(workload["density_metric"])
        end = workload.get("density_end")
        return workload["density"] * capacity, (workload["density"] if end is None else end) * capacity
    except (KeyError, TypeError, AttributeError, PlbError):
        return None, None


def _only(scenario: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Return the sections of the named policies in a scenario, given as plain values."""
    return {name: value for name, value in scenario.get("policies", {}).items() if name in names}


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all values in nested tables, with their dotted keys, which begin with `prefix`."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def differences(tables: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the keys in which tables differ, dotted where they are nested, each with its value in all tables.

    A table without the key has `MISSING`.
    """
    flat = [dict(_flat(table)) for table in tables]
    keys = dict.fromkeys(key for table in flat for key in table)
    values = {key: [table.get(key, MISSING) for table in flat] for key in keys}
    return {
        key: key_values
        for key, key_values in values.items()
        if len({json.dumps(value, sort_keys=True) for value in key_values}) > 1
    }


@attrs.frozen(eq=False)
class RecordedRun:
    """A run with tables in a results directory."""

    results: Results
    """The directory."""
    scenario: Scenario
    """The scenario of the run."""
    policy: str
    """Name of the policy."""
    repeat: int
    """Number of the repeat, from 0."""
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

    Results identify files of extensions and of policies by name and content; the scenario `present`, as read from its
    file, has their paths. It may differ from the recorded one in its name, in options of `plb simulate`, and in paths.
    `traces`: the present directory of the traces.
    """
    results = read_results(folder)
    scenario = _scenario_of(results.summary, folder, present)
    _check_versions(results.summary, folder)
    runs = {(run.policy, run.repeat): run for run in results.runs}
    requested_policy = scenario.run.policies[0] if policy is None else policy
    if not any(name == requested_policy for name, _ in runs):
        raise UnknownNameError("policy", requested_policy, list(dict.fromkeys(name for name, _ in runs)), str(folder))
    if (requested_policy, repeat) not in runs:
        # printed repeats count from 1, repeats in tables from 0
        numbers = sorted(number + 1 for name, number in runs if name == requested_policy)
        raise PlbError(
            f"{folder}: there is no repeat {repeat + 1} of {requested_policy}, only {', '.join(map(str, numbers))}"
        )
    scenario = _with_workload_of(scenario, folder, present, traces)
    return RecordedRun(
        results, scenario, requested_policy, repeat, int(runs[requested_policy, repeat].totals["simulated_seconds"])
    )


def _scenario_of(summary: Mapping[str, Any], folder: Path, present: Scenario | None) -> Scenario:
    """Return the scenario of a summary, checked against the hash in the summary.

    `present`: the scenario as read from its file, which has the paths of files; None if there are no files.
    """
    tables = dict(summary["scenario"])
    paths_of_files: dict[tuple[str, str], str] = {}
    if present is not None:
        _check_present(tables, present, folder)
        paths_of_files = {digest: file for file in named_files(present) for digest in digests([file]).items()}
        paths_of_files |= {digest: item for item in present.extensions for digest in reference_digests([item]).items()}
    try:
        if isinstance(tables.get("extensions"), Mapping):
            tables["extensions"] = _paths_of(tables["extensions"], paths_of_files)
        tables["engine"] = _with_files(tables.get("engine", {}), paths_of_files)
        policies = tables.get("policies", {})
        tables["policies"] = {name: _with_files(fields, paths_of_files) for name, fields in policies.items()}
    except KeyError as missing:
        name, _ = missing.args[0]
        raise PlbError(f"{folder}: the run requires the file {name!r}; give its scenario with --scenario") from None
    scenario = scenario_from(tables, source=str(folder / SUMMARY))
    if scenario.digest() != summary["scenario_sha256"]:
        message = "the scenario, one of its files, or a default has changed"
        raise PlbError(f"{folder}: {message}; simulate again, then explain")
    return scenario


def _check_present(recorded: Mapping[str, Any], present: Scenario, folder: Path) -> None:
    """Raise `PlbError` if the scenario `present` differs from the recorded one, as plain values.

    Options of the command line may differ.
    """
    run_policies = tuple(name for name in recorded["run"]["policies"] if name in present.policies)
    present_with_policies = attrs.evolve(
        present, run=attrs.evolve(present.run, policies=run_policies or present.run.policies)
    )
    differing = differences([_compared(scenario) for scenario in (recorded, present_with_policies.as_json())])
    if differing:
        (key, (ran_with, value)), *other_differences = differing.items()
        more = f"; also: {listed([other_key for other_key, _ in other_differences])}" if other_differences else ""
        message = (
            f"the given scenario differs from the one that was run: {key} is {value!r:.60}, not {ran_with!r:.60}{more}"
        )
        raise PlbError(f"{folder}: {message}")


def _compared(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of a scenario without paths and options of the command line."""
    omitted = {**OVERRIDDEN, "workload": (*OVERRIDDEN["workload"], *PATHS)}
    compared = {key: value for key, value in scenario.items() if key != "name"}
    for section, fields in omitted.items():
        if isinstance(compared.get(section), Mapping):
            compared[section] = {key: value for key, value in compared[section].items() if key not in fields}
    return compared


def _paths_of(digests: Mapping[str, Any], files: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the present paths of files, or references to extensions, with these digests; raise `KeyError` for others.

    `files`: the path of each file, and each reference, by name and digest.
    """
    return [files[name, str(digest)] for name, digest in digests.items()]


def _with_files(fields: Mapping[str, Any], files: Mapping[tuple[str, str], str]) -> Mapping[str, Any]:
    """Return settings of an engine with paths of files in place of their digests in policy options.

    `files`: the path of each file, by name and digest.
    """
    options = fields.get("policy_options")
    if not isinstance(options, Mapping):
        return fields
    options_with_paths = {
        name: _paths_of(option, files)[0] if isinstance(option, Mapping) and option else option
        for name, option in options.items()
    }
    return {**fields, "policy_options": options_with_paths}


def _check_versions(summary: Mapping[str, Any], folder: Path) -> None:
    """Raise `PlbError` if a package has another version than in a summary."""
    present_versions = versions()
    differing = [
        f"{name} {version} (here {present_versions[name]})"
        for name, version in summary["versions"].items()
        if name in present_versions and present_versions[name] != version
    ]
    if differing:
        raise PlbError(f"{folder}: the results were made with {', '.join(differing)}; simulate again, then explain")


def _with_workload_of(scenario: Scenario, folder: Path, present: Scenario | None, traces: Path | None) -> Scenario:
    """Return a scenario with the present paths of its traces or its plan.

    The paths of `present` replace the recorded paths; `traces` replaces the path of the traces.
    """
    workload = scenario.workload
    paths = {name: getattr(workload, name) for name in PATHS}
    if present is not None:
        paths |= {name: getattr(present.workload, name) or path for name, path in paths.items()}
    if traces is not None:
        if workload.path is None:
            raise PlbError(f"{folder}: the tenants do not come from traces; omit --traces")
        paths["path"] = str(traces)
    for path in paths.values():
        if path is not None and not Path(path).exists():
            message = f"the tenants come from {path}, which does not exist relative to the current directory"
            raise PlbError(f"{folder}: {message}; give --traces, or --scenario")
    return attrs.evolve(scenario, workload=attrs.evolve(workload, **paths))
