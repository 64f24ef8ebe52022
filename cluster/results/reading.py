"""Reads a results directory, or one of its runs for a replay, and checks all of it.

Callers can rely on the contents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import polars as pl

from cluster.errors import ResultsError
from cluster.results.checks import problems_of_columns, problems_of_summary, problems_of_timings
from cluster.results.scenario_differences import differences
from cluster.results.writing import RUNS, SUMMARY, TIMINGS, versions
from cluster.scenario.imports import digests
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import OVERRIDDEN, PATHS, named_files, scenario_from
from cluster.simulation.recorder import RunSummary, SlowPlan
from cluster.simulation.run_tables import TABLES, columns_of
from plb import PlbError, UnknownNameError
from plb.phrasing import listed


@attrs.frozen(eq=False)
class Results:
    """A results directory of `plb simulate`.

    Parameters
    ----------
    folder
        The directory.
    summary, timings
        The contents of ``summary.json`` and ``timings.json``.
    runs
        The runs, by repeat, then in the order of the scenario's policies.
    """

    folder: Path
    summary: Mapping[str, Any]
    timings: Mapping[str, Any]
    runs: tuple[RunSummary, ...]

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
        """Repeats without a run, by policy; policies with all runs are omitted.

        If the scenario does not have their number, these are the repeats that another policy has.
        """
        number = self.summary["scenario"]["run"].get("repeats")
        requested = {run.repeat for run in self.runs} if number is None else set(range(number))
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
        repeats = [set(found) for policy in self.policies if (found := self.repeats(policy))]
        return min(set.intersection(*repeats) or set.union(*repeats))

    def table(self, name: str, *, repeat: int | None = None) -> pl.DataFrame:
        """Return a table of all runs, by policy and repeat.

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
        if name not in TABLES:
            raise UnknownNameError("table", name, TABLES, str(self.folder))
        empty = pl.DataFrame(schema={column: spec.dtype for column, spec in columns_of(name).items()})
        frames = [self._table_of_run(run, name) for run in self.runs if repeat in (None, run.repeat)]
        return pl.concat([empty, *frames]).sort("policy", "repeat", maintain_order=True)

    def path_of(self, policy: str, repeat: int, name: str) -> Path:
        """Return the file of a table of a run."""
        return self.folder / RUNS / f"{policy}-{repeat}" / f"{name}.parquet"

    def _table_of_run(self, run: RunSummary, name: str) -> pl.DataFrame:
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
            of_run = (pl.col("policy") == run.policy) & (pl.col("repeat") == run.repeat)
            others = len(frame.filter(~of_run))
            problems = [f"{others} rows belong to another policy or repeat"] if others else []
        if problems:
            raise ResultsError(path, problems)
        return frame.select(list(columns_of(name)))


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
    timed = {(one["policy"], one["repeat"]): one for one in timings["runs"]}
    order = {policy: number for number, policy in enumerate(summary["scenario"]["run"]["policies"])}
    rows = sorted(summary["runs"], key=lambda row: (row["repeat"], order[row["policy"]]))
    return Results(folder, summary, timings, tuple(_run(row, timed[row["policy"], row["repeat"]]) for row in rows))


def _run(row: Mapping[str, Any], timed: Mapping[str, Any]) -> RunSummary:
    totals = {name: value for name, value in row.items() if name not in ("policy", "repeat", "complete")}
    slowest = tuple(SlowPlan(one["plan"], float(one["seconds"])) for one in timed["slowest"])
    return RunSummary(row["policy"], row["repeat"], totals, timed["seconds"], slowest, row["complete"])


def _read_json(path: Path) -> dict[str, Any]:
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
    raise ResultsError(path, [problem]) from None


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
