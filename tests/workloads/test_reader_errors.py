"""Errors of readers contain file, row and column, and leave no output."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from plb.errors import InvalidValueError
from tests.workloads.public_traces import (
    BITBRAINS_HEADER,
    alibaba_meta,
    alibaba_row,
    azure_machine,
    converted,
    google2011_row,
    google2019_line,
    json_lines,
    packing_database,
    text,
)
from tests.workloads.test_public_formats import contest, readings
from workloads.column_checks import TraceError, TraceProblem
from workloads.readers import Options
from workloads.readers.azure import _short
from workloads.readers.files import streamable


def problems(name: str, source: Path) -> list[TraceProblem]:
    with pytest.raises(TraceError) as caught:
        converted(name, source, source / "out")
    assert not list((source / "out").glob("*.parquet"))
    return list(caught.value.problems)


def alibaba(path: Path, rows: list[list[object]]) -> Path:
    text(path / "container_usage.csv", rows)
    text(path / "container_meta.csv", [alibaba_meta("c_1", 400, 2.5)])
    return path


def test_fields_that_are_no_numbers_are_named_with_their_line(tmp_path: Path):
    """All such columns are named, with the first five rows and the number of all. Messages of Polars are not shown."""
    rows = [alibaba_row("c_1", at, "?", 20) for at in range(10, 410, 10)]  # type: ignore[arg-type]
    rows[3][2] = "noon"
    problem = problems("alibaba2018", alibaba(tmp_path, rows))
    assert [(Path(p.file).name, p.row, p.column, p.found, p.count) for p in problem] == [
        ("container_usage.csv", 4, "time_stamp", "'noon'", 1),
        *[("container_usage.csv", row, "cpu_util_percent", "'?'", 40 if row == 5 else 1) for row in range(1, 6)],
    ]
    assert str(problem[-1]).endswith(" (40 rows in all)")


@pytest.mark.parametrize("line", [1, 2, 9])
@pytest.mark.parametrize("further", [1, 2, 5])
def test_further_fields_are_named_in_every_line(tmp_path: Path, line: int, further: int):
    rows = [alibaba_row("c_1", at, 50, 20) for at in range(10, 100, 10)]
    rows[line - 1] += ["more"] * further
    (problem,) = problems("alibaba2018", alibaba(tmp_path, rows))
    assert (problem.row, problem.found) == (line, "a further field, 'more'")


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_another_separator_is_named(tmp_path: Path, separator: str):
    text(tmp_path / "container_usage.csv", [alibaba_row("c_1", at, 50, 20) for at in (10, 20)], separator)
    text(tmp_path / "container_meta.csv", [alibaba_meta("c_1", 400, 2.5)])
    (problem,) = problems("alibaba2018", tmp_path)
    assert (problem.row, problem.found) == (1, f"fields separated by {separator!r}")
    assert problem.expected.endswith("mpki, net_in, net_out, disk_io_percent, separated by ','")
    text(tmp_path / "2013-7" / "1.csv", [BITBRAINS_HEADER], separator.replace(";", ","))
    (problem,) = problems("bitbrains", tmp_path)
    assert problem.found.startswith("fields separated by ")
    assert problem.expected.endswith("separated by ';'")


def test_missing_columns_are_named(tmp_path: Path):
    rows = [alibaba_row("c_1", at, 50, 20)[:-2] for at in (10, 20)]
    (problem,) = problems("alibaba2018", alibaba(tmp_path, rows))
    assert (problem.row, problem.found) == (1, "9 fields")
    assert problem.expected.startswith("11: container_id, machine_id, time_stamp")
    header: list[object] = [name for name in BITBRAINS_HEADER if name != "CPU usage [MHZ]"]
    text(tmp_path / "2013-7" / "1.csv", [header], ";\t")
    (problem,) = problems("bitbrains", tmp_path)
    assert problem.expected.endswith("; missing: CPU usage [MHZ]")


def test_a_byte_order_mark_is_not_part_of_the_first_field(tmp_path: Path):
    alibaba(tmp_path, [alibaba_row("c_1", at, 50, 20) for at in range(10, 4000, 10)])
    for path in tmp_path.glob("*.csv"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert converted("alibaba2018", tmp_path, tmp_path / "out")[0].tenant_names().tolist() == ["c_1@0"]


def test_a_row_without_owner_or_time_is_an_error(tmp_path: Path):
    rows = [alibaba_row("c_1", 10, 50, 20), alibaba_row(None, 20, 1, 1), alibaba_row("c_1", -5, 1, 1)]  # type: ignore[arg-type]
    problem = problems("alibaba2018", alibaba(tmp_path, rows))
    assert [(p.row, p.column) for p in problem] == [(2, "container_id"), (3, "time_stamp")]


def _alibaba_at(folder: Path, *times: Any) -> None:
    alibaba(folder, [alibaba_row("c_1", at, 50, 20) for at in times])


def _azure_at(folder: Path, *times: Any) -> None:
    text(folder / "vmtable.csv", [azure_machine("a", 9000, 4, 7)])
    text(folder / "vm_cpu_readings-file-1-of-2.csv", [[at, "a", 1.0, 1.0, 1.0] for at in times])


def _bitbrains_at(folder: Path, *times: Any) -> None:
    rows = [[at, 4, 8000, 1000, 5, 16, 2, 0, 0, 0, 0] for at in times]
    text(folder / "2013-7" / "1.csv", [BITBRAINS_HEADER, *rows], ";\t")


def _google2011_at(folder: Path, *times: Any) -> None:
    rows = [google2011_row(1, 0) for _ in times]
    text(folder / "task_usage" / "part-0.csv", [[at, *row[1:]] for at, row in zip(times, rows, strict=True)])


def _google2019_at(folder: Path, *times: Any) -> None:
    json_lines(folder / "instance_usage-0.json", [google2019_line(0, 0.1, 0.1, start_time=str(at)) for at in times])


def _google2019_flat_at(folder: Path, *times: Any) -> None:
    columns = dict.fromkeys(("avg_cpu_usage", "avg_memory_usage", "max_cpu_usage", "max_memory_usage"), 0.1)
    columns |= {"cpu_limit": 0.5, "memory_limit": 0.5, "collection_id": 1, "instance_index": 1}
    rows = [{"time": at} | columns for at in times]
    pl.DataFrame(rows).write_parquet(folder / "instance_usage.parquet")


SAMPLES = {
    "alibaba2018": ("alibaba2018", _alibaba_at, 1, "time_stamp", 0),
    "azure2017": ("azure2017", _azure_at, 1, "timestamp", 0),
    "bitbrains": ("bitbrains", _bitbrains_at, 1000, "Timestamp [ms]", 1_372_629_600),
    "google2011": ("google2011", _google2011_at, 10**6, "start time", 0),
    "google2019": ("google2019", _google2019_at, 10**6, "start_time or time", 0),
    "google2019 as a flat table": ("google2019", _google2019_flat_at, 10**6, "start_time or time", 0),
}
"""By name: the reader, a writer of rows at given times, units in a second, the column of times, and second 0."""


@pytest.mark.parametrize("case", SAMPLES)
@pytest.mark.parametrize("second", [-5_000_000_000, 10**12 + 300, 9 * 10**12])
def test_times_out_of_range_are_named(tmp_path: Path, case: str, second: int):
    name, write, unit, column, origin = SAMPLES[case]
    wrong = (origin + second) * unit
    write(tmp_path, *((origin + at) * unit for at in (300, 600)), wrong, wrong)
    problem, again = problems(name, tmp_path)
    row = 3 + (name == "bitbrains")
    assert (problem.row, again.row, problem.column) == (row, row + 1, column)
    assert float(problem.found.strip("'")) == wrong
    assert re.search(r"seconds.*, from \d+( s)? to 1[.0-9]*e\+\d\d", problem.expected)


@pytest.mark.parametrize("case", SAMPLES)
def test_traces_with_times_at_both_ends_of_the_range_can_be_read(tmp_path: Path, case: str):
    name, write, unit, _, origin = SAMPLES[case]
    earliest = 300 if name == "alibaba2018" else 0
    last = 10**12
    write(tmp_path, *((origin + at) * unit for at in (earliest, last)))
    traces, report = converted(name, tmp_path, tmp_path / "out", min_hours=0.0)
    assert (traces.tenants, report.rows_kept) == (2, 2)
    assert traces.start is not None
    assert traces.start.tolist() == [0, last // 600 * 600]


def test_line_numbers_include_the_header(tmp_path: Path):
    rows = [
        BITBRAINS_HEADER,
        [1_372_629_600, 4, 8000, 1, 1, 1, 1, 0, 0, 0, 0],
        [1_372_629_900, "four", 8, 1, 1, 1, 1, 0, 0, 0, 0],
    ]
    text(tmp_path / "2013-7" / "1.csv", rows, ";\t")
    (problem,) = problems("bitbrains", tmp_path)
    assert (problem.row, problem.column, problem.found) == (3, "CPU cores", "'\\tfour'")
    text(tmp_path / "2013-7" / "1.csv", rows[:2], ";\t").rename(tmp_path / "2013-7" / "vm.csv")
    assert "the name 'vm.csv'" in problems("bitbrains", tmp_path)[0].found


@pytest.mark.parametrize(
    "header",
    [
        None,
        [*BITBRAINS_HEADER[:3], *reversed(BITBRAINS_HEADER[3:])],
        BITBRAINS_HEADER[:-1],
        [*BITBRAINS_HEADER, "more"],
    ],
    ids=["none", "swapped", "short", "long"],
)
def test_a_different_header_is_refused(tmp_path: Path, header: list[object] | None):
    """A file without header would lose its first row. A file with other columns would be misread."""
    rows: list[list[object]] = [[1_372_629_600 + at, 4, 8000, 1, 1, 1, 1, 0, 0, 0, 0] for at in range(0, 7200, 300)]
    text(tmp_path / "2013-7" / "1.csv.gz", rows if header is None else [header, *rows], ";\t")
    (problem,) = problems("bitbrains", tmp_path)
    assert (Path(problem.file).name, problem.row, problem.column) == ("1.csv.gz", 1, None)
    assert problem.found == repr("; ".join(map(str, header or rows[0])))
    assert "; ".join(BITBRAINS_HEADER) in problem.expected


@pytest.mark.parametrize("line", ["{bad", '{"start_time": "1", "average_usage": "no"}', '{"assigned_memory": "0.5x"}'])
def test_a_bad_line_of_json_is_named(tmp_path: Path, line: str):
    path = json_lines(tmp_path / "instance_usage-0.json", [google2019_line(600, 0.1, 0.1)] * 3)
    path.write_text(path.read_text() + line + "\n")
    (problem,) = problems("google2019", tmp_path)
    assert (Path(problem.file).name, problem.row) == ("instance_usage-0.json", 4)


def test_truncated_files_are_refused(tmp_path: Path):
    text(tmp_path / "vmtable.csv", [azure_machine("a", 9000, 4, 7)])
    path = text(tmp_path / "vm_cpu_readings-file-1-of-2.csv.gz", readings("a", 0, 900_000, 12.345))
    path.write_bytes(path.read_bytes()[:-200])
    assert "damaged" in problems("azure2017", tmp_path)[0].found
    whole = lzma.compress(gzip.decompress(text(path, readings("a", 0, 900_000, 12.345)).read_bytes()))
    path.with_suffix(".xz").write_bytes(whole[:-200])
    path.unlink()
    assert "damaged" in problems("azure2017", tmp_path)[0].found


def test_tables_of_owners_are_checked(tmp_path: Path):
    text(tmp_path / "vm_cpu_readings-file-1-of-2.csv", readings("a", 0, 900, 10.0))
    assert "vmtable.csv" in problems("azure2017", tmp_path)[0].expected
    text(tmp_path / "vmtable.csv", [azure_machine(name, 9000, cores, 7) for name, cores in (("a", 4), ("a", "many"))])
    assert [(p.row, p.column) for p in problems("azure2017", tmp_path)] == [(2, "vmcorecount"), (2, "vmid")]


def test_archives_must_be_unpacked(tmp_path: Path):
    (tmp_path / "container_usage.tar.gz").write_bytes(b"")
    text(tmp_path / "container_meta.csv", [alibaba_meta("c_1", 400, 2.5)])
    assert "container_usage.tar.gz, to be unpacked first" in problems("alibaba2018", tmp_path)[0].found


def test_contest_files_are_checked(tmp_path: Path):
    contest(tmp_path, {"app_9": 1})
    assert "at least one" in problems("tianchi2018", tmp_path)[0].expected
    with pytest.raises(TraceError, match="the directory of") as caught:
        converted("tianchi2018", tmp_path / "scheduling_app_resources_1.csv", tmp_path / "out")
    assert [problem.found for problem in caught.value.problems] == ["a file"]
    contest(tmp_path, {"app_0": 1})
    apps = tmp_path / "scheduling_app_resources_1.csv"
    good = apps.read_text()
    apps.write_text(
        good.replace("0.5|", "", 1) + good.splitlines()[1].replace("app_1", "app_7").replace("0.5|", "nan|", 1)
    )
    assert [(p.row, p.column) for p in problems("tianchi2018", tmp_path)] == [(1, "cpu"), (4, "cpu")]
    apps.write_text(good)
    deployed = tmp_path / "scheduling_instance_deploy_1.csv"
    deployed.write_text(deployed.read_text() * 2)
    assert [(p.row, p.column) for p in problems("tianchi2018", tmp_path)] == [(2, "instance")]


def test_planetlab_files_are_checked(tmp_path: Path):
    text(tmp_path / "20110303" / "host", [[1], ["n/a"]])
    assert [(p.row, p.column, p.found) for p in problems("planetlab", tmp_path)] == [(2, "cpu", "'n/a'")]
    pl.DataFrame({"day": ["x"], "vm": ["a"], "cpu_pct": [[1.0]]}).write_parquet(tmp_path / "p.parquet")
    assert problems("planetlab", tmp_path)[0].column == "day"
    pl.DataFrame({"vm": ["a"], "cpu_pct": [1.0]}).write_parquet(tmp_path / "p.parquet")
    assert {p.column for p in problems("planetlab", tmp_path)} == {"day", "cpu_pct"}


@pytest.mark.parametrize("name", ["planetlab", "alibaba2018"])
def test_an_unreadable_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    """Otherwise the trace would lack its files without a warning."""
    source = tmp_path / "source"
    alibaba(source, [alibaba_row("c_1", at, 50, 20) for at in range(10, 100, 10)])
    text(source / "20110303" / "host", [[1]] * 12)
    closed = source / "closed" / "20110304"
    closed.mkdir(parents=True)
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(TraceError) as caught:
        converted(name, source, tmp_path / "out")
    (problem,) = caught.value.problems
    assert (problem.file, problem.found) == (str(closed), "Permission denied")


@pytest.mark.parametrize("fault", ["no source", "another format", "a bad row"])
def test_a_failed_conversion_leaves_no_output(tmp_path: Path, fault: str):
    source, there = tmp_path / "source", tmp_path / "there"
    if fault != "no source":
        text(source / "20110303" / "host", [["n/a"]])
    name = "planetlab" if fault == "a bad row" else "google2011"
    there.mkdir()
    for out in (tmp_path / "made" / "below", there, there / "below"):
        with pytest.raises(TraceError):
            converted(name, source, out)
        assert {path.name for path in tmp_path.iterdir()} <= {"source", "there"}
        assert not list(there.iterdir())


@pytest.mark.parametrize(
    "options",
    [
        *({"window_days": 0.0}, {"min_hours": -1.0}, {"max_gap_minutes": -1.0}, {"rows_in_memory": 1}),
        *({"aggregate": "p90"}, {"window_days": 1e300}, {"rows_in_memory": 10**30}),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object]):
    with pytest.raises(InvalidValueError, match=next(iter(options))):
        Options(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "requests", "value", "place"),
    [
        ([], [(1, 1, 1, 0, 0.0, 1.0)], "no rows in table vmType", (None, None)),
        ([(1, 1, -0.5, 0.5, 0, 0, 0)], [(1, 1, 1, 0, 0.0, 1.0)], "-0.5", (1, "core")),
        ([(1, 1, 0.5, "half", 0, 0, 0)], [(1, 1, 1, 0, 0.0, 1.0)], "'half'", (1, "memory")),
        ([(1, 1, 0.5, 0.5, 0, 0, 0)], [(1, 1, 9, 0, 0.0, 1.0)], "no request that can be used", (None, None)),
        ([(1, 1, 0.5, 0.5, 0, 0, 0)], [(1, 1, 1, 0, 0.0, "late")], "'late'", (1, "endtime")),
        ([(1, 1, 0.5, 0.5, 0, 0, 0)], [(2, 1, 1, 0, "soon", 1.0)], "'soon'", (1, "starttime")),
        ([(1, 1, 0.5, 0.5, 0, 0, 0)], [(2, None, 1, 0, 0.0, 1.0)], "NULL", (1, "tenantId")),
    ],
)
def test_packing_tables_are_checked(tmp_path: Path, types: Any, requests: Any, value: str, place: Any):
    path = tmp_path / "t.sqlite"
    path.write_bytes(b"x" * 4096)
    assert "damaged" in problems("azure-packing2020", tmp_path)[0].found
    path.unlink()
    sqlite3.connect(path).close()
    assert {p.column for p in problems("azure-packing2020", tmp_path)} >= {"vmId", "machineId", "nic"}
    path.unlink()
    packing_database(path, types, requests)
    (problem,) = problems("azure-packing2020", tmp_path)
    assert problem.found == value
    assert (problem.row, problem.column) == place


def test_a_database_with_bytes_that_are_no_text_is_damaged(tmp_path: Path):
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE vm (vmId, wrongname)")
        database.commit()
    path.write_bytes(path.read_bytes().replace(b"wrongname", b"wrong\x80ame"))
    assert "damaged" in problems("azure-packing2020", tmp_path)[0].found


def test_a_disk_error_is_not_reported_as_a_damaged_file(tmp_path: Path):
    (tmp_path / "table.parquet.xz").write_bytes(lzma.compress(b"content"))
    with pytest.raises(FileNotFoundError, match="gone"), streamable(tmp_path / "table.parquet.xz", tmp_path / "gone"):
        pass
    with streamable(tmp_path / "table.parquet.xz", tmp_path) as plain:
        assert plain.read_bytes() == b"content"
    assert not plain.exists()


def test_a_directory_with_brackets_is_read(tmp_path: Path):
    source = tmp_path / "may[2019]"
    source.mkdir()
    json_lines(source / "instance_usage-0.json", (google2019_line(at, 0.1, 0.1) for at in range(24)))
    assert converted("google2019", source, tmp_path / "out")[1].rows_read == 24


@pytest.mark.parametrize("requested", [1e300, -1.0])
def test_impossible_requests_count_as_unknown(tmp_path: Path, requested: float):
    """The largest usage replaces such a request, so that the output is readable."""
    rows = (google2019_line(at * 300, 0.1, 0.25, assigned_memory=requested) for at in range(24))
    json_lines(tmp_path / "instance_usage-0.json", rows)
    traces, _ = converted("google2019", tmp_path, tmp_path / "out")
    assert traces.max_usage.tolist() == [[np.float32(0.1), 0.25]]


@pytest.mark.parametrize("cores", ["inf", "nan", 1e300, 0])
def test_containers_without_a_finite_request_are_rejected(tmp_path: Path, cores: object):
    """Their percentages have no base. The report contains the reason."""
    text(tmp_path / "container_usage.csv", [alibaba_row("c_1", at, 50, 20) for at in range(10, 4000, 10)])
    text(tmp_path / "container_meta.csv", [alibaba_meta("c_1", cores, 2.5)])
    (problem,) = problems("alibaba2018", tmp_path)
    assert problem.found == "only refused rows (399 of an owner that the table of owners does not list)"


def test_classes_of_machines_have_names_for_sizes_of_any_number():
    """Sizes above 64 bits, as of a damaged file, are names like the others."""
    sizes = pl.DataFrame({"cores": [4.0, 0.5, 1e19, 1e308]})
    assert sizes.select(_short("cores")).to_series().to_list() == ["4", "0.5", "1e+19", "1e+308"]
