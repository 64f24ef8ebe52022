"""Reads a results directory and checks all of it, so that callers can rely on its contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin

import attrs
import polars as pl
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.cols import list_structure_factory, mapping_structure_factory
from cattrs.gen import make_dict_structure_fn

from cluster.errors import ResultsError
from cluster.results.writing import RUNS, SUMMARY, TIMINGS
from cluster.scenario.scenario import MOST_REPEATS
from cluster.scenario.sections import Range, directory_name
from cluster.simulation.recorder import RunSummary, SlowPlan
from cluster.simulation.run_tables import LARGEST, TABLES, Amount, Count, RunTotals, columns_of, extension_terms_of
from plb import InvalidValueError, UnknownNameError
from plb.validation import check_known

Contents = TypeVar("Contents")


@attrs.frozen
class _Cluster:
    """What is read of ``[cluster]`` of the scenario."""

    violation_threshold: Annotated[float, Range(high=1.0, low_open=True)]
    """Threshold of violations as a share of the capacity, 0 < f <= 1."""


@attrs.frozen
class _RunSection:
    """What is read of ``[run]`` of the scenario."""

    policies: list[str]
    """Names of the policies."""
    repeats: Annotated[int, Range(1, MOST_REPEATS, whole=True)] | None = None
    """Number of repeats; None: the scenario does not say."""


@attrs.frozen
class _Scenario:
    """What is read of the scenario, which another version may have written."""

    name: str
    """Name of the scenario."""
    cluster: _Cluster
    run: _RunSection
    """The sections with these names."""
    workload: Mapping[str, Any] = attrs.Factory(dict)
    policies: Mapping[str, Mapping[str, Any]] = attrs.Factory(dict)
    engine: Mapping[str, Any] = attrs.Factory(dict)
    """The sections with these names; of these, only the types are checked."""


@attrs.frozen(kw_only=True)
class _Run(RunTotals):
    """A run in a summary."""

    policy: str
    """Name of the policy."""
    repeat: Count
    """Number of the repeat, from 0."""
    complete: bool
    """False if the run was interrupted."""


@attrs.frozen
class _Summary:
    """The contents of ``summary.json``."""

    scenario: _Scenario
    """The scenario with all defaults."""
    scenario_sha256: str
    """SHA-256 of its canonical JSON, in hexadecimal digits."""
    seed: int
    """Seed of the scenario."""
    versions: Mapping[str, str]
    """Version of Python and of each package."""
    metrics: Mapping[str, str]
    """Unit of each metric."""
    complete: bool
    """Whether all runs are there and complete."""
    runs: list[_Run]
    """The runs, in any order."""
    split: Mapping[str, Any] = attrs.Factory(dict)
    """Which tenants are history, and digests of the traces or of the region; empty if nothing is recorded."""


@attrs.frozen
class _Timing:
    """A run in the timings."""

    policy: str
    """Name of the policy."""
    repeat: Count
    """Number of the repeat, from 0."""
    seconds: Mapping[str, Amount]
    """Wall-clock seconds by part and in ``"total"``, without compilation."""
    slowest: list[SlowPlan]
    """The slowest plans."""


@attrs.frozen
class _Timings:
    """The contents of ``timings.json``."""

    runs: list[_Timing]
    """The runs, one for each run of the summary."""


@cache
def _converter() -> Converter:
    """Return a converter of plain values that refuses values of another type, and numbers out of their range."""
    converter = Converter()

    def strict(words: str, kind: type, structure: Callable[[Any, Any], Any] = lambda value, _: value) -> Any:
        """Return a hook that structures values of the type `kind`; it refuses others with an error that has `words`."""

        def checked(value: Any, target: Any) -> Any:
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise InvalidValueError("", "", value, words)
            return structure(value, target)

        return checked

    def in_range(value: Any, kind: Any) -> Any:
        """Return a number that is in the range of its annotation `kind`, else raise an error."""
        if value is None:  # a range allows it
            raise InvalidValueError("", "", value, "a number")
        get_args(kind)[1].check("", "", value)
        return value

    def group(words: str, kind: type, structure_of: Callable[[Any, Converter], Any]) -> Any:
        """Return a factory of `strict` hooks for values of type `kind`; `structure_of` makes the inner hook."""
        return lambda target, converter: strict(words, kind, structure_of(target, converter))

    def of_origin(origin: Any) -> Callable[[Any], bool]:
        """Return the test whether a type is a generic one of `origin`, such as `list`."""
        return lambda kind: get_origin(kind) == origin

    converter.register_structure_hook_func(of_origin(Annotated), in_range)
    converter.register_structure_hook_factory(attrs.has, group("a table", dict, make_dict_structure_fn))
    converter.register_structure_hook_factory(of_origin(Mapping), group("a table", dict, mapping_structure_factory))
    converter.register_structure_hook_factory(of_origin(list), group("a list", list, list_structure_factory))
    for kind, words in {str: "a text", int: "a whole number", bool: "true or false"}.items():
        converter.register_structure_hook(kind, strict(words, kind))
    return converter


def _checked(
    path: Path, kind: type[Contents], contradictions: Callable[[Contents], Iterable[str]]
) -> tuple[dict[str, Any], Contents]:
    """Return the values of a JSON file, and them as an object of `kind`.

    Raise `ResultsError` with all fields that do not fit, or else with all `contradictions` of the object.
    """
    values = _read_json(path)
    try:
        contents = _converter().structure(values, kind)
        problems = list(contradictions(contents))
    except BaseValidationError as error:
        lines = [line.rpartition(" @ ") for line in transform_error(error, "", _in_words)]
        problems = [f"{place.removeprefix('.')}: {words}" for words, _, place in lines]
    if problems:
        raise ResultsError(path, problems)
    return values, contents


def _in_words(error: BaseException, _: type | None) -> str:
    """Return in words why a value does not fit its type."""
    if isinstance(error, InvalidValueError):
        return f"found {error.value!r:.60}; expected {error.allowed}"
    return "is missing" if isinstance(error, KeyError) else str(error)


def _contradictions(summary: _Summary) -> Iterator[str]:
    """Yield the contradictions in a summary, each with its dotted key."""
    policies = summary.scenario.run.policies
    pairs: set[tuple[str, int]] = set()
    for policy in policies:
        if directory_name(policy) != policy:
            yield f"scenario.run.policies: found {policy!r:.60}; expected a valid name of a directory, without / or \\"
    for index, run in enumerate(summary.runs):
        dotted_key = f"runs[{index}]"
        if run.policy not in policies:
            yield str(UnknownNameError("policy", run.policy, policies, dotted_key))
        if run.violations != run.violations_avoidable + run.violations_unavoidable:
            allowed = "violations_avoidable + violations_unavoidable"
            yield f"{dotted_key}.violations: found {run.violations}; expected {allowed}"
        if run.violations_reported < run.violations:
            yield f"{dotted_key}.violations_reported: found {run.violations_reported}; expected at least violations"
        if (run.policy, run.repeat) in pairs:
            yield f"{dotted_key}: policy {run.policy!r} and repeat {run.repeat} occur twice"
        pairs.add((run.policy, run.repeat))
        for name, use in run.applications.items():
            for field in ("load", "largest_load", "largest_load_on_node"):
                if missing := summary.metrics.keys() - getattr(use, field).keys():
                    yield f"{dotted_key}.applications[{name!r}].{field}: {', '.join(sorted(missing))} is missing"


def _contradictions_of_timings(timings: _Timings, runs: Sequence[_Run]) -> Iterator[str]:
    """Yield the contradictions between timings and the runs of the summary, each with its dotted key."""
    plans = {(run.policy, run.repeat): run.plans for run in runs}
    missing = dict.fromkeys(plans)
    for index, timing in enumerate(timings.runs):
        pair = timing.policy, timing.repeat
        missing.pop(pair, None)
        if pair not in plans:
            yield f"runs[{index}]: belongs to no run of the summary"
        elif "total" not in timing.seconds:
            yield f"runs[{index}].seconds.total: is missing"
        elif any(slow.plan >= plans[pair] for slow in timing.slowest):
            yield f"runs[{index}].slowest: expected plans of the run"
    for policy, repeat in missing:
        yield f"runs: policy {policy!r}, repeat {repeat} is missing"


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
    def split(self) -> Mapping[str, Any]:
        """How the tenants were split; empty if that is not recorded."""
        split: Mapping[str, Any] = self.summary.get("split", {})
        return split

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
    summary, checked = _checked(folder / SUMMARY, _Summary, _contradictions)
    contradictions = partial(_contradictions_of_timings, runs=checked.runs)
    timings, checked_timings = _checked(folder / TIMINGS, _Timings, contradictions)
    timing_of = {(timing.policy, timing.repeat): timing for timing in checked_timings.runs}
    policy_order = {policy: number for number, policy in enumerate(checked.scenario.run.policies)}
    runs = sorted(checked.runs, key=lambda run: (run.repeat, policy_order[run.policy]))
    return Results(folder, summary, timings, tuple(_run(run, timing_of[run.policy, run.repeat]) for run in runs))


def _run(run: _Run, timing: _Timing) -> RunSummary:
    """Return a run from its entries in both files."""
    totals = {name: value for name, value in run.as_json().items() if name not in ("policy", "repeat", "complete")}
    return RunSummary(run.policy, run.repeat, totals, timing.seconds, tuple(timing.slowest), run.complete)


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
