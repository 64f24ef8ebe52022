"""The trace format: files are read back as written, and errors contain file, row and column."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from plb.errors import InvalidValueError
from tests.workloads.trace_strategies import METRICS, assert_same, one_tenant, trace_sets
from workloads.column_checks import MAX_LISTED, TraceError, TraceProblem
from workloads.compression import compress
from workloads.trace import MetricInfo, TraceSet, concatenate
from workloads.trace_files import (
    TENANTS_FILE,
    TRACES_FILE,
    check_traces,
    read_history,
    read_traces,
    write_history,
    write_traces,
)
from workloads.trace_validation import KEY

Edit = Callable[[pl.DataFrame], pl.DataFrame]


def folder(tmp_path: Path) -> Path:
    """Write two tenants of four and three steps."""
    both = [one_tenant([1.0, 2.0, 3.0, 4.0]), one_tenant([5.0, 6.0, 7.0], name="t1")]
    write_traces(concatenate(both), tmp_path, {"region": "somewhere"})
    return tmp_path


def rewrite(path: Path, edit: Edit) -> None:
    header = {KEY: pl.read_parquet_metadata(path)[KEY]}
    edit(pl.read_parquet(path)).write_parquet(path, metadata=header)


def put(row: int, column: str, value: object) -> Edit:
    """Return an edit that sets a value in a row, numbered from 1."""

    def edit(frame: pl.DataFrame) -> pl.DataFrame:
        values = frame[column].to_list()
        values[row - 1] = value
        return frame.with_columns(pl.Series(column, values, dtype=frame[column].dtype))

    return edit


def swap(first: int, second: int) -> Edit:
    """Return an edit that swaps two rows, numbered from 1."""

    def edit(frame: pl.DataFrame) -> pl.DataFrame:
        order = list(range(len(frame)))
        order[first - 1], order[second - 1] = order[second - 1], order[first - 1]
        return frame[order]

    return edit


def drop(row: int) -> Edit:
    """Return an edit that drops a row, numbered from 1."""
    return lambda frame: frame.with_row_index("nr", 1).filter(pl.col("nr") != row).drop("nr")


@settings(deadline=None, max_examples=30)
@given(trace_sets())
def test_traces_are_read_back_as_written(traces: TraceSet) -> None:
    with TemporaryDirectory() as path:
        write_traces(traces, path)
        assert_same(read_traces(path), traces)


@settings(deadline=None, max_examples=20)
@given(trace_sets())
def test_histories_are_read_back_as_written(traces: TraceSet) -> None:
    history = compress(traces)
    with TemporaryDirectory() as path:
        file = Path(path) / "history.parquet"
        write_history(history, file, metrics=METRICS)
        again = read_history(file)
    assert (again.metrics, again.classes) == (history.metrics, history.classes)
    for name in ("tenant_class", "role", "lifetime", "censored", "level", "initial", "growth", "maximum"):
        np.testing.assert_array_equal(getattr(again, name), getattr(history, name), err_msg=name)


def test_units_step_and_provenance_are_in_the_metadata(tmp_path: Path) -> None:
    content = json.loads(pl.read_parquet_metadata(folder(tmp_path) / TRACES_FILE)[KEY])
    assert content["metrics"][1] == {"name": "disk", "unit": "GB", "trend": True}
    assert (content["step_s"], content["version"], content["format"]) == (600.0, 1, "traces")
    assert check_traces(tmp_path)[0].provenance == {"region": "somewhere"}


FAULTS = [
    ("a column is missing", TRACES_FILE, lambda f: f.drop("disk"), None, "disk", "a column of numbers"),
    ("a column has the wrong type", TRACES_FILE, lambda f: f.cast({"cpu": pl.String}), None, "cpu", "numbers"),
    ("a value is null", TRACES_FILE, put(3, "disk", None), 3, "disk", "a number"),
    ("a value is negative", TRACES_FILE, put(2, "disk", -1.0), 2, "disk", "a finite number >= 0"),
    ("a value is not a number", TRACES_FILE, put(6, "cpu", float("nan")), 6, "cpu", "a finite number >= 0"),
    ("a value is infinite", TRACES_FILE, put(6, "cpu", float("inf")), 6, "cpu", "a finite number >= 0"),
    ("a value is above MaxUsage", TRACES_FILE, put(7, "disk", 1001.0), 7, "disk", "at most max_disk"),
    ("a role is unknown", TRACES_FILE, put(1, "role", "leader"), 1, "role", "one of primary, secondary, instance"),
    ("an inner row is missing", TRACES_FILE, drop(2), 2, "time_s", "no gap"),
    ("the first row is missing", TRACES_FILE, drop(5), 5, "time_s", "0 in the first row"),
    ("the last row is missing", TRACES_FILE, drop(7), 6, "time_s", "3 rows"),
    ("rows are swapped", TRACES_FILE, swap(2, 3), 3, "time_s", "rows in order"),
    ("a row is duplicated", TRACES_FILE, lambda f: f[[0, 1, 1, 2, 3, 4, 5, 6]], 3, "time_s", "rows in order"),
    ("series are interleaved", TRACES_FILE, lambda f: f[[0, 1, 4, 5, 6, 2, 3]], 6, "tenant", "in one piece"),
    ("a tenant is unknown", TRACES_FILE, put(7, "tenant", "t9"), 7, "tenant", "a tenant of the tenants table"),
    ("a tenant has no rows", TRACES_FILE, lambda f: f.head(4), None, "tenant", "rows of every tenant"),
    ("a class differs", TRACES_FILE, put(2, "tenant_class", "BC"), 2, "tenant_class", "the class in the tenants"),
    ("a secondary is missing", TENANTS_FILE, put(2, "replicas", 4), None, "role", "primary and secondary"),
    ("a tenants column is missing", TENANTS_FILE, lambda f: f.drop("max_cpu"), None, "max_cpu", "a column of numbers"),
    ("a tenant is duplicated", TENANTS_FILE, put(2, "tenant", "t0"), 2, "tenant", "no row above has"),
    ("a name is empty", TENANTS_FILE, put(2, "tenant_class", " "), 2, "tenant_class", "not empty"),
    ("the number of replicas is 0", TENANTS_FILE, put(1, "replicas", 0), 1, "replicas", "a whole number from 1"),
    ("a lifetime is no multiple", TENANTS_FILE, put(1, "lifetime_s", 700.0), 1, "lifetime_s", "multiple of the step"),
    ("a limit is negative", TENANTS_FILE, put(2, "max_disk", -5.0), 2, "max_disk", "a finite number >= 0"),
    ("a limit is too large", TENANTS_FILE, lambda f: f.with_columns(max_cpu=pl.lit(1e300)), 1, "max_cpu", "a finite"),
    ("a lifetime is infinite", TENANTS_FILE, put(1, "lifetime_s", float("inf")), 1, "lifetime_s", "multiple of the"),
    ("a column is decimal", TRACES_FILE, lambda f: f.cast({"cpu": pl.Decimal(20, 3)}), None, "cpu", "numbers"),
    ("there is no tenant", TENANTS_FILE, lambda f: f.head(0), None, None, "at least one tenant"),
]


@pytest.mark.parametrize(
    ("file", "edit", "row", "column", "expected"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_a_fault_names_file_row_and_column(tmp_path, file, edit, row, column, expected) -> None:
    rewrite(folder(tmp_path) / file, edit)
    with pytest.raises(TraceError) as caught:
        read_traces(tmp_path)
    places = [(problem.row, problem.column) for problem in caught.value.problems if expected in problem.expected]
    assert places, str(caught.value)
    assert places[0] == (row, column)
    file_named = TRACES_FILE if column == "role" else file
    assert file_named in str(caught.value)


def test_all_problems_of_a_file_are_reported_together(tmp_path: Path) -> None:
    path = folder(tmp_path) / TRACES_FILE
    for edit in (put(2, "disk", -1.0), put(3, "role", "chief"), put(6, "time_s", 5.0)):
        rewrite(path, edit)
    with pytest.raises(TraceError) as caught:
        read_traces(tmp_path)
    assert {(2, "disk"), (3, "role"), (6, "time_s")} <= {(p.row, p.column) for p in caught.value.problems}


def test_a_long_message_is_limited() -> None:
    problems = [TraceProblem("f", row, "c", "1", "2") for row in range(MAX_LISTED + 7)]
    assert "and 7 more problems" in str(TraceError(problems))


def test_missing_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_traces(tmp_path)
    (tmp_path / TRACES_FILE).write_text("tenant,role")
    with pytest.raises(TraceError, match="no Parquet file"):
        read_traces(tmp_path)
    pl.DataFrame({"tenant": ["a"]}).write_parquet(tmp_path / TRACES_FILE)
    with pytest.raises(TraceError, match="step_s a whole number"):
        read_traces(tmp_path)


DOUBLED = "names that are not empty and differ"
METADATA = [
    *((TRACES_FILE, {"metrics": [{"name": name}, {"name": "disk"}]}, DOUBLED) for name in ("", " ", None, 5, "disk")),
    (TENANTS_FILE, {"step_s": 300}, "another step"),
    (TRACES_FILE, {"step_s": "1" + "0" * 400}, "step_s a whole number"),  # beyond floating point
    (TRACES_FILE, {"step_s": "[" * 100_000}, "step_s a whole number"),  # nested too deeply
]


@pytest.mark.parametrize(("file", "changes", "message"), METADATA)
def test_bad_metadata_are_refused(tmp_path: Path, file: str, changes: dict[str, object], message: str) -> None:
    """Metrics have unique names, and traces and tenants the same step. A change by text is part of the JSON."""
    path = folder(tmp_path) / file
    header = json.loads(pl.read_parquet_metadata(path)[KEY]) | changes
    text = json.dumps(header)
    if isinstance(changes.get("step_s"), str):
        text = text.replace(f'"{changes["step_s"]}"', str(changes["step_s"]))
    pl.read_parquet(path).write_parquet(path, metadata={KEY: text})
    with pytest.raises(TraceError, match=message):
        read_traces(tmp_path)


@pytest.mark.parametrize(
    ("edit", "row", "column"),
    [
        (lambda f: f.drop("growth_s_disk"), None, "growth_s_disk"),
        (put(2, "role", "boss"), 2, "role"),
        (put(1, "level_disk", -3.0), 1, "level_disk"),
        (put(1, "initial_disk", 99.0), None, None),
    ],
    ids=["missing column", "unknown role", "negative level", "initial above level"],
)
def test_a_bad_history_is_refused(tmp_path: Path, edit: Edit, row: int | None, column: str | None) -> None:
    file = tmp_path / "history.parquet"
    traces = concatenate([one_tenant([1.0, 2.0]), one_tenant([3.0], name="t1")])
    write_history(compress(traces), file, metrics=METRICS)
    rewrite(file, edit)
    with pytest.raises(TraceError) as caught:
        read_history(file)
    problem = caught.value.problems[0]
    assert (problem.row, problem.column) == (row, column)
    assert problem.file == str(file)


def test_paths_are_no_patterns(tmp_path: Path) -> None:
    for name in ("run[1]", "run1", "run*"):
        write_traces(one_tenant([1.0, 2.0], name=name), tmp_path / name)
        write_history(compress(one_tenant([1.0, 2.0])), tmp_path / name / "history.parquet")
    for name in ("run[1]", "run*"):
        assert read_traces(tmp_path / name).tenant_names().tolist() == [name]
        assert len(read_history(tmp_path / name / "history.parquet")) == 1


@pytest.mark.parametrize("step", [0.5, 1.5, 0.0, float("nan")])
def test_unreadable_traces_are_not_written(tmp_path: Path, step: float) -> None:
    with pytest.raises(InvalidValueError, match=r"traces file: step_seconds = .*expected a.* number >= 1"):
        write_traces(attrs.evolve(one_tenant([1.0, 2.0]), step_seconds=step), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["tenant", "role", "time_s", "", "disk"])
def test_metrics_have_unique_names(tmp_path: Path, name: str) -> None:
    metrics = (MetricInfo(name, ""), MetricInfo("disk", "GB"))
    with pytest.raises(InvalidValueError, match="traces file: metric"):
        write_traces(attrs.evolve(one_tenant([1.0, 2.0]), metrics=metrics), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("start", [1e300, -1e300, float("inf"), -(2**63)])
def test_begins_have_an_upper_bound(tmp_path: Path, start: float) -> None:
    """Beyond it, hours of the day have no meaning. The message contains the row."""
    rewrite(folder(tmp_path) / TENANTS_FILE, lambda frame: frame.with_columns(start_s=pl.lit(start)))
    with pytest.raises(TraceError, match=r"row 1, column start_s: found .*expected seconds, from -1e\+12 to 1e\+12"):
        read_traces(tmp_path)
