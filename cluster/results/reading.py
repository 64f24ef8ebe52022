"""Reads a results directory and checks all of it, so that callers can rely on its contents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import polars as pl

from cluster.errors import ResultsError
from cluster.results.checks import problems_of_columns, problems_of_summary, problems_of_timings
from cluster.results.writing import RUNS, SUMMARY, TIMINGS
from cluster.simulation.recorder import RunSummary, SlowPlan
from cluster.simulation.run_tables import TABLES, columns_of
from plb import UnknownNameError


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
