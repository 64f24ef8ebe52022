"""Samples of tasks: both file formats, located problems, and written predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.risk.peaks import PeakOracle, RcLike, predict
from workloads.column_checks import TraceError
from workloads.task_samples import SampleTable, prediction_frame, read_task_samples, write_frame

HEADER = "machine,task,time_s,usage,limit\n"


def from_text(folder: Path, rows: str, header: str = HEADER) -> SampleTable:
    path = folder / "samples.csv"
    path.write_text(header + rows)
    return read_task_samples(path)


def problems(folder: Path, rows: str, header: str = HEADER) -> list[str]:
    """Return the problems of a CSV file, without its name."""
    with pytest.raises(TraceError) as caught:
        from_text(folder, rows, header)
    return [str(problem).partition("samples.csv")[2].lstrip(", ") for problem in caught.value.problems]


def frame_of(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["machine", "task", "time_s", "usage", "limit"], orient="row")


def test_rows_may_have_any_order_and_further_columns(tmp_path: Path):
    rows = "x,m2,a,300,2,3\nx,m1,b,0,1,1\nx,m2,a,0,1,3\n"
    table = from_text(tmp_path, rows, "note," + HEADER)
    assert table.machines.to_list() == ["m1", "m2"]
    assert table.samples.start.tolist() == [0, 1, 3]
    assert table.samples.usage.tolist() == [1.0, 1.0, 2.0]
    assert table.time_s(table.samples.time).tolist() == [0, 0, 300]


@pytest.mark.parametrize(
    ("names", "requested"),
    [(["10", "9"], [9, 10]), (["007", "7"], ["007", "7"]), (["m10", "m9"], ["m10", "m9"]), (["-3", "2"], [-3, 2])],
)
def test_machines_of_a_csv_file_are_integers_if_all_are(tmp_path: Path, names: list[str], requested: list[Any]):
    table = from_text(tmp_path, "".join(f"{name},t,0,1,1\n" for name in names))
    assert table.machines.to_list() == requested


@pytest.mark.parametrize(
    ("kind", "names"),
    [(pl.Int64, [2**40, 7]), (pl.UInt8, [1, 0]), (pl.String, ["b", "a"]), (pl.Categorical, ["b", "a"])],
)
def test_machines_of_a_parquet_file_keep_their_type(tmp_path: Path, kind: Any, names: list[Any]):
    frame = frame_of([(name, "t", 0, 1.0, 1.0) for name in names])
    frame.with_columns(pl.col("machine").cast(kind)).write_parquet(tmp_path / "s.parquet")
    assert read_task_samples(tmp_path / "s.parquet").machines.to_list() == sorted(names)


def test_times_may_be_fractions(tmp_path: Path):
    table = from_text(tmp_path, "m,t,0.1,1,1\nm,t,300.1,1,1\n")
    assert table.time_s(table.samples.time).tolist() == [0.1, 300.1]


def test_all_problems_of_a_file_are_reported_together(tmp_path: Path):
    texts = problems(tmp_path, "m,a,0,-1,1\n,b,0,1,inf\nm,c,soon,1,\nm,d,0,many,1\nm,e,0,nan,1e400\n")
    assert texts == [
        "row 2, column machine: found None; expected a name or a whole number",
        "row 3, column time_s: found 'soon'; expected seconds, from -1e+12 to 1e+12",
        "row 1, column usage: found '-1'; expected a number >= 0 and < 1e+50",
        "row 4, column usage: found 'many'; expected a number >= 0 and < 1e+50",
        "row 5, column usage: found 'nan'; expected a number >= 0 and < 1e+50",
        "row 2, column limit: found inf; expected 0, or a number >= 1e-50 and < 1e+50",
        "row 3, column limit: found None; expected 0, or a number >= 1e-50 and < 1e+50",
        "row 5, column limit: found inf; expected 0, or a number >= 1e-50 and < 1e+50",
    ]


def test_a_second_sample_of_one_time_is_located(tmp_path: Path):
    rows = "m,b,300,1,1\nm,a,0,1,1\nk,a,0,1,1\nm,b,0,1,1\nm,b,300,2,1\nm,a,0,1,1\n"
    assert problems(tmp_path, rows) == [
        "row 5, column time_s: found 300; expected a machine, task and time that no row above has",
        "row 6, column time_s: found 0; expected a machine, task and time that no row above has",
    ]


@pytest.mark.parametrize(
    ("rows", "header", "words"),
    [
        ("", HEADER, "no rows"),
        ("", "", "empty CSV"),
        ("m,a,0,1\n", "machine,task,time_s,usage\n", "column limit: found columns machine, task, time_s, usage"),
        ("m,a,0,1,1\nm,b,0,1,1,1\n", HEADER, "row 2: found more values than columns"),
        ("m,a,0,1,1\nm,b,0\n", HEADER, "row 2, column usage: found None"),
        ("m,a,0,1,1\n\nm,b,0,1,1\n", HEADER, "row 2, column machine: found None"),
        ("m,a,99999999999999999999,1,1\n", HEADER, "row 1, column time_s: found 99999999999999999999"),
        ("m,a,0,true,1\n", HEADER, "column usage: found type Boolean"),
        ("m;a;0;1;1\n", HEADER.replace(",", ";"), "found fields separated by ';'; expected fields separated by ','"),
    ],
)
def test_invalid_samples_are_refused(tmp_path: Path, rows: str, header: str, words: str):
    assert words in problems(tmp_path, rows, header)[0]


def test_empty_lines_at_the_end_are_ignored(tmp_path: Path):
    assert len(from_text(tmp_path, "m,a,0,1,1\n\n\n").samples) == 1


@pytest.mark.parametrize("name", ["samples.txt", "samples", "missing.csv", "folder.parquet"])
def test_other_files_are_refused(tmp_path: Path, name: str):
    (tmp_path / "samples.txt").write_text(HEADER)
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(TraceError, match=name):
        read_task_samples(tmp_path / name)


def test_damaged_files_are_refused(tmp_path: Path):
    path = tmp_path / "s.parquet"
    path.write_text("no Parquet")
    with pytest.raises(TraceError, match="damaged contents"):
        read_task_samples(path)
    frame_of([(1.5, "t", True, 1.0, 1.0)]).write_parquet(path)
    with pytest.raises(TraceError, match="type Boolean") as caught:
        read_task_samples(path)
    assert [problem.column for problem in caught.value.problems] == ["machine", "time_s"]


def test_predictions_have_a_row_for_each_available_prediction(tmp_path: Path):
    table = from_text(tmp_path, "2,a,0,1,4\n2,a,300,3,4\n10,a,300,1,2\n")
    predictions = predict(table.samples, [RcLike(), PeakOracle(horizon=1)])
    assert prediction_frame(table, predictions, ["rc", "oracle"]).rows() == [
        (2, 0, "rc", 4.0, 4.0, 1.0),
        (2, 0, "oracle", 3.0, 4.0, 1.0),
        (2, 300, "rc", 4.0, 4.0, 3.0),
        (10, 300, "rc", 2.0, 2.0, 1.0),
        (10, 300, "oracle", 2.0, 2.0, 1.0),
    ]


numbers = st.floats(1e-50, 1e49) | st.sampled_from([0.0, 0.1, 1 / 3])
rows_of_samples = st.lists(
    st.tuples(st.integers(-5, 5), st.sampled_from("abc"), st.integers(-(10**11), 10**11), numbers, numbers),
    min_size=1,
    max_size=20,
    unique_by=lambda row: row[:3],
)


@settings(deadline=None, max_examples=40)
@given(rows_of_samples)
def test_both_formats_contain_the_same_samples(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]):
    folder, frame = tmp_path_factory.mktemp("formats"), frame_of(rows)
    tables = []
    for name in ("s.csv", "s.parquet"):
        write_frame(frame, folder / name)
        tables.append(read_task_samples(folder / name))
    text, parquet = (table.samples for table in tables)
    assert tables[0].machines.equals(tables[1].machines)
    for column in ("start", "task", "time", "usage", "limit"):
        np.testing.assert_array_equal(getattr(text, column), getattr(parquet, column))
    ordered = frame.sort("machine", "task", "time_s")
    assert ordered["usage"].to_list() == text.usage.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_brackets_in_a_name_are_no_pattern(tmp_path: Path, suffix: str) -> None:
    """The name of a file may contain the parameters of a sweep."""
    frame = pl.DataFrame({"machine": [1], "task": [1], "time_s": [0], "usage": [1.0], "limit": [2.0]})
    for name in ("part[1]", "part1"):
        write_frame(frame.with_columns(machine=pl.lit(name)), tmp_path / f"{name}{suffix}")
    assert read_task_samples(tmp_path / f"part[1]{suffix}").machines.to_list() == ["part[1]"]
