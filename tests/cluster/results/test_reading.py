"""Reading of results directories, including damaged ones."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.errors import ResultsError
from cluster.report.writing import report_page
from cluster.results.reading import Results, read_results
from cluster.results.summary_tables import compare
from cluster.simulation.recorder import RunResult
from cluster.simulation.run_tables import TABLES, column_descriptions
from plb import PlbError, UnknownNameError
from tests.cluster.small_runs import results_of
from tests.cluster.tiny import small_region


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RunResult]]:
    """Return a results directory of two policies and two repeats, and its runs."""
    return results_of(tmp_path_factory.mktemp("results") / "out", small_region(repeats=2, days=0.1))


@pytest.fixture
def folder(runs: tuple[Path, list[RunResult]], tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(runs[0], tmp_path / "out"))


def test_written_results_are_read_back(runs: tuple[Path, list[RunResult]]):
    folder, made = runs
    results = read_results(folder)
    for read, run in zip(results.runs, made, strict=True):
        assert (read.policy, read.repeat, read.totals) == (run.policy, run.repeat, run.totals)
        assert (read.timings, read.slowest) == (run.timings, run.slowest)
        for name in TABLES:
            of_run = results.table(name).filter(policy=run.policy, repeat=run.repeat)
            assert of_run.equals(run.tables[name])
    assert results.repeats("modified") == [0, 1]
    assert results.days == made[0].totals["simulated_seconds"] / 86400


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (None, r"applications: found None; expected a table"),
        ({"shop": 1}, r"applications\['shop'\]: found 1; expected a table"),
        ({"nodes": "many"}, r"applications\['shop'\]\.nodes: found 'many'"),
        ({"most_nodes": 1.5}, r"applications\['shop'\]\.most_nodes: found 1\.5; expected a whole number"),
        ({"load": {"cpu": 1.0}}, r"applications\['shop'\]\.load: .* is missing"),
        ({"largest_load_on_node": {"cpu": -1.0, "disk": 1.0}}, r"\['shop'\]\.largest_load_on_node\['cpu'\]: found -1"),
    ],
)
def test_use_of_applications_is_checked(folder: Path, damage: dict[str, Any] | None, place: str) -> None:
    loads = dict.fromkeys(json.loads((folder / "summary.json").read_text())["metrics"], 1.0)
    use = {"nodes": 1.5, "most_nodes": 2, "load": loads, "largest_load": loads, "largest_load_on_node": loads}
    changed(folder, "summary.json", lambda summary: summary["runs"][0].update(applications={"shop": use}))
    assert any("applications" in run.totals for run in read_results(folder).runs)
    used = damage if damage is None or "shop" in damage else {"shop": use | damage}
    changed(folder, "summary.json", lambda summary: summary["runs"][0].update(applications=used))
    with pytest.raises(ResultsError, match=place):
        read_results(folder)


def test_nullable_columns_are_documented():
    for table, columns in column_descriptions().items():
        for name, spec in columns.items():
            documented = "null" in spec["meaning"] or (name == "metric" and "cause is a violation" in spec["meaning"])
            assert TABLES[table].get(name) is None or TABLES[table][name].may_be_null == documented, (table, name)


def changed(folder: Path, file: str, change: Callable[[Any], Any]) -> Path:
    """Change a JSON file of a results directory."""
    values = json.loads((folder / file).read_text())
    change(values)
    (folder / file).write_text(json.dumps(values))
    return folder


def threshold(value: float) -> Callable[[Any], None]:
    """Return a change of the threshold in a summary."""
    return lambda summary: summary["scenario"]["cluster"].update(violation_threshold=value)


def test_every_problem_of_a_file_is_named(folder: Path):
    def damage(summary: dict[str, Any]) -> None:
        summary["scenario_sha265"] = summary.pop("scenario_sha256")
        summary["runs"][0]["violations"] = "many"
        summary["runs"][2]["copied_gb"] = -1

    with pytest.raises(ResultsError) as raised:
        read_results(changed(folder, "summary.json", damage))
    words = (
        "scenario_sha256: is missing",
        "runs[0].violations: found 'many'; expected a whole number >= 0",
        "runs[2].copied_gb: found -1; expected a finite number >= 0 and <= 1e+15",
    )
    assert str(raised.value).splitlines() == [f"{folder / 'summary.json'}: {line}" for line in words]


def first_run(**fields: Any) -> Callable[[Any], None]:
    """Return a change of the first run in a file."""
    return lambda values: values["runs"][0].update(fields)


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("summary.json", lambda all_: all_["runs"].append(all_["runs"][0]), "occur twice"),
        ("summary.json", first_run(policy="orignal"), "runs[0]: unknown policy 'orignal'; did you mean 'original'?"),
        ("summary.json", lambda all_: all_["scenario"]["run"].update(policies="original"), "expected a list"),
        ("summary.json", first_run(violations_unavoidable=77), "violations_avoidable + violations_unavoidable"),
        ("summary.json", first_run(violations_reported=-1), "violations_reported: found -1; expected a whole number"),
        (
            "summary.json",
            first_run(violations=7, violations_avoidable=7, violations_unavoidable=0, violations_reported=6),
            "violations_reported: found 6; expected at least violations",
        ),
        ("summary.json", lambda all_: all_["scenario"]["run"]["policies"].append("../up"), "valid name of a directory"),
        ("summary.json", lambda all_: all_.update(runs={}), "runs: found {}; expected a list"),
        ("summary.json", lambda all_: all_["runs"].append(7), "runs[4]: found 7; expected a table"),
        ("summary.json", first_run(moves=True), "moves: found True; expected a whole number"),
        ("summary.json", first_run(downtime_seconds=1e300), "expected a finite number >= 0 and <= 1e+15"),
        ("summary.json", first_run(moves_by_cause={"fear": -1}), "moves_by_cause['fear']: found -1"),
        ("summary.json", lambda all_: all_["versions"].update(numpy=2), "versions['numpy']: found 2; expected a text"),
        ("summary.json", threshold(0), "violation_threshold: found 0; expected a finite number > 0 and <= 1"),
        ("summary.json", threshold(1.5), "violation_threshold: found 1.5; expected a finite number > 0 and <= 1"),
        ("summary.json", lambda all_: all_["scenario"]["run"].update(repeats=10**9), ">= 1 and <= 10000"),
        ("summary.json", first_run(availability=7), "availability: found 7; expected a finite number"),
        ("timings.json", first_run(seconds={"total": -1}), "runs[0].seconds['total']: found -1"),
        ("timings.json", lambda all_: all_["runs"].pop(), "repeat 1 is missing"),
        ("timings.json", lambda all_: all_.pop("runs"), "runs: is missing"),
        ("timings.json", first_run(repeat=9), "runs[0]: belongs to no run of the summary"),
        ("timings.json", first_run(seconds={}), "runs[0].seconds.total: is missing"),
        ("timings.json", lambda all_: all_["runs"][0]["slowest"][0].update(plan=10**6), "runs[0].slowest: expected"),
    ],
)
def test_inconsistent_files_are_refused(folder: Path, file: str, change: Callable[[Any], Any], words: str):
    with pytest.raises(ResultsError) as raised:
        read_results(changed(folder, file, change))
    assert words in str(raised.value)
    assert str(folder / file) in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000, '{"seed": ' + "1" * 5000 + "}", "null"])
def test_files_that_are_no_json_objects_are_refused(folder: Path, text: str):
    for file in ("timings.json", "summary.json"):
        (folder / file).write_text(text)
        with pytest.raises(ResultsError, match=file):
            read_results(folder)


def test_a_directory_may_have_any_name(folder: Path):
    """The name may be invalid UTF-8, as file systems allow. The message about a damaged table names its file."""
    odd = Path(os.fsdecode(os.fsencode(folder) + b"-\xff"))
    folder.rename(odd)
    results = read_results(odd)
    assert len(results.table("tenants"))
    assert report_page(results).encode("utf-8")
    (odd / "runs" / "original-0" / "tenants.parquet").write_text("none")
    with pytest.raises(ResultsError, match=r"tenants\.parquet: is damaged"):
        results.table("tenants")


def test_missing_files_are_named(folder: Path, tmp_path: Path):
    with pytest.raises(ResultsError, match=r"is not a results directory of plb simulate: there is no summary\.json"):
        read_results(tmp_path)
    (folder / "runs" / "original-1" / "moves.parquet").unlink()
    with pytest.raises(ResultsError, match=r"original-1/moves\.parquet: is missing, but summary\.json has"):
        read_results(folder).table("moves")
    (folder / "timings.json").unlink()
    with pytest.raises(ResultsError, match=r"timings\.json: is missing"):
        read_results(folder)


def test_unknown_tables_are_refused(folder: Path):
    with pytest.raises(UnknownNameError, match="did you mean 'moves'"):
        read_results(folder).table("move")


def test_columns_of_tables_are_checked(folder: Path):
    path = folder / "runs" / "original-0" / "tenants.parquet"
    frame = pl.read_parquet(path)

    def problems(damaged: pl.DataFrame) -> tuple[str, ...]:
        damaged.write_parquet(path)
        with pytest.raises(ResultsError, match=r"tenants\.parquet") as raised:
            read_results(folder).table("tenants")
        return raised.value.problems

    renamed = frame.rename({"tenant_class": "tenant_clas"}).with_columns(pl.col("failovers").cast(pl.String))
    assert problems(renamed) == (
        "column tenant_class is missing; found 'tenant_clas'",
        "column failovers: found String; expected Int32",
    )
    (empty,) = problems(frame.with_columns(arrival_s=pl.lit(None, pl.Int64)))
    assert empty == f"column arrival_s: found {len(frame)} nulls; expected a value in every row"
    for large in (float("nan"), float("-inf"), 1e16):
        (number,) = problems(frame.with_columns(downtime_s=pl.lit(large)))
        assert number == "column downtime_s: found a number that is not finite, or beyond 1e+15"
    (other,) = problems(frame.with_columns(policy=pl.lit("modified")))
    assert other == f"{len(frame)} rows belong to another policy or repeat"


def test_runs_without_an_entry_in_the_summary_are_ignored(folder: Path):
    """Such tables belong to a run that was killed before its entry was written."""
    shutil.copytree(folder / "runs" / "original-0", folder / "runs" / "original-7")
    assert read_results(folder).table("nodes")["repeat"].unique().to_list() == [0, 1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_tables_raise_errors_of_the_project(folder: Path, data: st.DataObject):
    path = folder / "runs" / "modified-0" / "moves.parquet"
    whole = path.read_bytes()
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for place in data.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=4)) if damaged else []:
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    with contextlib.suppress(PlbError):
        read_results(folder).table("moves")
    path.write_bytes(whole)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_summaries_raise_errors_of_the_project(folder: Path, data: st.DataObject):
    file = data.draw(st.sampled_from(["summary.json", "timings.json"]))
    text = (folder / file).read_text()
    values = json.loads(text)
    at: Any = values
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not (isinstance(at[key], dict | list) and at[key]) or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(PLAIN)
    (folder / file).write_text(json.dumps(values))
    with contextlib.suppress(PlbError):
        results = read_results(folder)
        assert isinstance(results, Results)
        assert compare(results.runs, results.policies).policies is not None
    (folder / file).write_text(text)
