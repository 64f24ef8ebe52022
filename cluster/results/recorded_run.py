"""A run in a results directory: its tables, and its scenario for a replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import polars as pl

from cluster.results.reading import Results, read_results
from cluster.results.scenario_differences import differences
from cluster.results.writing import SUMMARY, versions
from cluster.scenario.imports import digests
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import OVERRIDDEN, PATHS, named_files, scenario_from
from plb import PlbError, UnknownNameError
from plb.phrasing import listed


@attrs.frozen(eq=False)
class RecordedRun:
    """A run with tables in a results directory.

    Parameters
    ----------
    results
        The directory.
    scenario
        The scenario of the run.
    policy, repeat
        Policy and number of the repeat.
    seconds
        Its length in simulated seconds; shorter than in the scenario if Ctrl-C ended it.
    """

    results: Results
    scenario: Scenario
    policy: str
    repeat: int
    seconds: int

    @property
    def folder(self) -> Path:
        """The results directory."""
        return self.results.folder

    def path_of(self, name: str) -> Path:
        """Return the file of a table of the run."""
        return self.results.path_of(self.policy, self.repeat, name)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of the run; see `cluster.simulation.run_tables.TABLES`.

        Raises
        ------
        ResultsError
            A file of it is missing or damaged, or lacks columns.
        """
        return self.results.table(name, repeat=self.repeat).filter(pl.col("policy") == self.policy)


def read_run(
    folder: Path,
    policy: str | None = None,
    repeat: int = 0,
    *,
    given: Scenario | None = None,
    traces: Path | None = None,
) -> RecordedRun:
    """Return a run of a results directory.

    Parameters
    ----------
    folder
        The directory.
    policy
        Its policy; None: the first of the scenario.
    repeat
        Its repeat, from 0.
    given
        The scenario as read from its file. Results identify imported files and files of policies only by name and
        content; this scenario has their paths, and the path of the traces or the plan. It may differ from the recorded
        scenario in its name, in options of `plb simulate`, and in these paths.
    traces
        Present path of the traces; None: unchanged.

    Raises
    ------
    ResultsError
        If the directory has no results, or one of its files is damaged.
    PlbError
        If sources or versions differ from the present ones, or `given` is another scenario.
    UnknownNameError
        If the policy has no run.
    """
    results = read_results(folder)
    scenario = _scenario_of(results.summary, folder, given)
    _check_versions(results.summary, folder)
    runs = {(run.policy, run.repeat): run for run in results.runs}
    requested = scenario.run.policies[0] if policy is None else policy
    if not any(name == requested for name, _ in runs):
        raise UnknownNameError("policy", requested, list(dict.fromkeys(name for name, _ in runs)), str(folder))
    if (requested, repeat) not in runs:
        # printed repeats count from 1, those in tables from 0
        known = sorted(number + 1 for name, number in runs if name == requested)
        raise PlbError(f"{folder}: there is no repeat {repeat + 1} of {requested}, only {', '.join(map(str, known))}")
    scenario = _with_workload_of(scenario, folder, given, traces)
    return RecordedRun(results, scenario, requested, repeat, int(runs[requested, repeat].totals["simulated_seconds"]))


def _scenario_of(summary: Mapping[str, Any], folder: Path, given: Scenario | None) -> Scenario:
    """Return the scenario of a summary, checked against the hash in the summary."""
    tables = dict(summary["scenario"])
    files: dict[tuple[str, str], str] = {}
    if given is not None:
        _check_given(tables, given, folder)
        files = {known: file for file in named_files(given) for known in digests([file]).items()}
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


def _check_given(recorded: Mapping[str, Any], given: Scenario, folder: Path) -> None:
    """Raise `PlbError` if a scenario differs from a recorded one in fields that are not options of the command line."""
    ran = tuple(name for name in recorded["run"]["policies"] if name in given.policies)
    same_policies = attrs.evolve(given, run=attrs.evolve(given.run, policies=ran or given.run.policies))
    differing = differences([_compared(one) for one in (recorded, same_policies.as_json())])
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
        name: _placed(one, files)[0] if isinstance(one, Mapping) and one else one for name, one in options.items()
    }
    return {**fields, "policy_options": placed}


def _check_versions(summary: Mapping[str, Any], folder: Path) -> None:
    present = versions()
    other = [
        f"{name} {version} (here {present[name]})"
        for name, version in summary["versions"].items()
        if name in present and present[name] != version
    ]
    if other:
        raise PlbError(f"{folder}: the results were made with {', '.join(other)}; simulate again, then explain")


def _with_workload_of(scenario: Scenario, folder: Path, given: Scenario | None, traces: Path | None) -> Scenario:
    """Return a scenario with the present paths of its traces or its plan."""
    workload = scenario.workload
    places = {name: getattr(workload, name) for name in PATHS}
    if given is not None:
        places |= {name: getattr(given.workload, name) or place for name, place in places.items()}
    if traces is not None:
        if workload.path is None:
            raise PlbError(f"{folder}: the tenants do not come from traces; omit --traces")
        places["path"] = str(traces)
    for place in places.values():
        if place is not None and not Path(place).exists():
            message = f"the tenants come from {place}, which does not exist relative to the current directory"
            raise PlbError(f"{folder}: {message}; give --traces, or --scenario")
    return attrs.evolve(scenario, workload=attrs.evolve(workload, **places))
