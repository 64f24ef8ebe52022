"""Tables of users become traces, whatever their form, and errors name the row and say what to do."""

from __future__ import annotations

import runpy
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from plb.errors import ConflictError, InvalidValueError, PlbError, UnknownNameError
from tests.workloads.test_shared_traces import DATA
from workloads.column_checks import TraceError
from workloads.readers import Options, TableColumns, convert, from_frame, table_reader
from workloads.readers.tables import TablePreview
from workloads.trace import TraceSet
from workloads.trace_files import read_traces

BEGIN = datetime(2024, 3, 4, 6)
CPU = {"a": [1.0, 1.5, 2.0, 1.25], "b": [0.5, 0.25, 0.75, 3.0]}
"""Demand of two tenants, every five minutes from `BEGIN`."""
AT_SIX = [6 * 12 * 300.0] * 2


def moment(step: int) -> datetime:
    return BEGIN + timedelta(minutes=5 * step)


def converted(path: Path, **columns: Any) -> tuple[TraceSet, TablePreview]:
    """Convert a table, and read the result back, which also checks it."""
    options = columns.pop("options", None)
    reader, preview = table_reader(path, TableColumns(**columns), options)
    out = path.parent / f"out-{len(list(path.parent.iterdir()))}"
    report = convert(reader, path, out, options)
    assert report.rows_kept == report.rows_read - sum(report.rows_refused.values())
    return read_traces(out), preview


def demand(traces: TraceSet) -> dict[str, list[float]]:
    """Return the first metric of each tenant by its owner."""
    bounds = traces.series_start
    names = [name.partition("@")[0] for name in traces.tenant_names()]
    return {name: traces.values[bounds[i] : bounds[i + 1], 0].tolist() for i, name in enumerate(names)}


def saved(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def long_table(time: Any, separator: str = ",", number: Any = str) -> str:
    lines = [separator.join(("at", "vm", "used"))]
    lines += [separator.join((time(k), vm, number(CPU[vm][k]))) for k in range(4) for vm in CPU]
    return "\n".join(lines) + "\n"


ZONE = timezone(timedelta(hours=2))
FORMS = {
    "ISO times with zones": (lambda k: moment(k).replace(tzinfo=UTC).astimezone(ZONE).isoformat(), ",", str),
    "Z and milliseconds": (lambda k: f"{moment(k).isoformat()}.000Z", ",", str),
    "without a zone": (lambda k: f"{moment(k)}", "\t", str),
    "decimal commas": (lambda k: f"{moment(k):%d.%m.%Y %H:%M}", ";", lambda value: str(value).replace(".", ",")),
    "milliseconds since 1970": (lambda k: str(int(moment(k).replace(tzinfo=UTC).timestamp()) * 1000), ",", str),
    "seconds since 1970": (lambda k: str(int(moment(k).replace(tzinfo=UTC).timestamp())), "|", str),
}


@pytest.mark.parametrize("form", FORMS)
def test_times_numbers_and_separators_are_told_from_the_table(form: str, tmp_path: Path):
    time, separator, number = FORMS[form]
    path = saved(tmp_path, long_table(time, separator, number))
    traces, preview = converted(path, time="at", id="vm", metrics="cpu=used:cores")
    assert demand(traces) == CPU
    assert traces.start is not None
    assert traces.start.tolist() == AT_SIX
    assert (traces.step_seconds, traces.metrics[0].unit) == (300.0, "cores")
    assert (preview.tenants, preview.steps, preview.steps_missing) == (2, 8, 0)
    assert preview.first == "2024-03-04T06:00:00+00:00"
    assert f"separated by {separator!r}" in str(preview)


WIDE = "at,a cpu,a disk,b cpu,b disk\n" + "".join(
    f"{moment(k)},{CPU['a'][k]},{k + 1},{CPU['b'][k]},{k + 2}\n" for k in range(4)
)
MELTED = "at,vm,what,value\n" + "".join(
    f"{moment(k)},{vm},{what},{value}\n"
    for what in ("cpu_used", "disk_used", "other")
    for vm in CPU
    for k in range(4)
    for value in [CPU[vm][k] if what == "cpu_used" else k + 1 + (vm == "b")]
)


@pytest.mark.parametrize("rows_in_memory", [1000, 4_000_000])
def test_each_tenant_or_metric_may_have_its_own_columns_or_rows(rows_in_memory: int, tmp_path: Path):
    options = Options(rows_in_memory=rows_in_memory)
    metrics = ("cpu=* cpu:cores", "disk=* disk:GB")
    wide, _ = converted(saved(tmp_path, WIDE), time="at", metrics=metrics, trends="disk", options=options)
    path = saved(tmp_path, MELTED, "melted.csv")
    names = {"names": "what", "values": "value"}
    metrics = ("cpu=cpu_used:cores", "disk=disk_used:GB")
    melted, _ = converted(path, time="at", id="vm", metrics=metrics, trends="disk", options=options, **names)
    for traces in (wide, melted):
        assert demand(traces) == CPU
        assert traces.values[:, 1].tolist() == [1, 2, 3, 4, 2, 3, 4, 5]
        assert [(metric.name, metric.unit, metric.trend) for metric in traces.metrics] == [
            ("cpu", "cores", False),
            ("disk", "GB", True),
        ]


def test_missing_values_gaps_and_repeated_times_follow_the_rules(tmp_path: Path):
    """A row without a value is a gap; a short gap repeats the last value; of equal times the first row counts."""
    lines = ["at,vm,used", *(f"{300 * k},a,{k}" for k in range(6)), "600,a,9", "900,b,NaN", "0,b,1", "1200,b,N/A"]
    lines += ["300,b,", "600,b,3", "9000,b,4", "9300,b,-1"]
    path = saved(tmp_path, "\n".join(lines) + "\n\n")
    reader, preview = table_reader(path, TableColumns(time="at", id="vm", metrics="cpu=used"))
    report = convert(reader, path, tmp_path / "out")
    traces = read_traces(tmp_path / "out")
    assert traces.tenant_names().tolist() == ["a@0", "b@0", "b@30"]
    assert demand(traces.select([0, 1])) == {"a": [0, 1, 2, 3, 4, 5], "b": [1, 1, 3]}
    assert dict(report.rows_refused) == {
        "with a missing or infinite value": 3,
        "with a negative value": 1,
        "with the owner and time of a row above": 1,
    }
    assert "3 missing, 1 negative" in str(preview)
    assert traces.family.tolist()[1:] == [traces.family[1]] * 2


def test_times_that_are_late_or_early_stay_in_their_steps(tmp_path: Path):
    """Samples a few seconds around the full minute leave no gap and are not joined."""
    shifts = np.random.default_rng(1).integers(-20, 20, 200)
    lines = ["at,used", *(f"{60 * k + shift + 600},{k}" for k, shift in enumerate(shifts.tolist()))]
    traces, preview = converted(saved(tmp_path, "\n".join(lines)), time="at", metrics="cpu=used")
    assert traces.step_seconds == 60.0
    assert demand(traces) == {"table": list(range(200))}
    assert preview.step == "from irregular intervals"


def test_stays_have_constant_demand_from_start_to_end(tmp_path: Path):
    """A stay with an empty end lasts until the end of the table, and is cut."""
    table = "id,from,to,cores,kind\n1,2024-03-04 00:00,2024-03-04 00:30,2,x\n2,2024-03-04 00:20,,4,y\n"
    path = saved(tmp_path, table + "3,2024-03-04 00:20,2024-03-04 01:00,1,y\n4,2024-03-04 01:00,2024-03-04 00:20,1,y\n")
    columns = {"id": "id", "start": "from", "end": "to", "metrics": "cpu=cores", "tenant_class": "kind"}
    traces, _ = converted(path, **columns)
    assert demand(traces) == {"1": [2] * 3, "2": [4] * 4, "3": [1] * 4}
    assert traces.censored.tolist() == [False, True, True]
    assert traces.class_names().tolist() == ["x", "y", "y"]
    with pytest.raises(TraceError, match=r"row 2, column to: found a stay of 1,800 steps; expected at most 1,000"):
        converted(path, **columns, step=1.0, options=Options(rows_in_memory=1000))


def test_start_end_and_limit_of_a_tenant(tmp_path: Path):
    """Samples outside the life are refused; an end before the last one of the table is the end of a life."""
    rows = [f"{300 * k},{vm},1,0,{end},4" for vm, end in (("a", 900), ("b", 3000)) for k in range(6)]
    path = saved(tmp_path, "\n".join(["at,vm,used,from,to,size", *rows]))
    columns = {"time": "at", "id": "vm", "start": "from", "end": "to", "metrics": "cpu=used", "limits": "cpu=size"}
    traces, _ = converted(path, **columns)
    assert traces.lifetime_steps.tolist() == [4, 6]
    assert traces.censored.tolist() == [False, True]
    assert traces.max_usage.tolist() == [[4.0], [4.0]]


def test_a_directory_of_files_is_a_tenant_each(tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    for vm, values in CPU.items():
        saved(folder, "\n".join(["at,used", *(f"{moment(k)},{v}" for k, v in enumerate(values))]), f"{vm}.csv")
    assert demand(converted(folder, time="at", metrics="cpu=used")[0]) == CPU


REFUSED = {
    "another name": ({"id": "machine"}, UnknownNameError, "unknown column 'machine'; known: 'at', 'vm', 'used'"),
    "no id": ({"id": (), "metrics": "cpu"}, TraceError, "no column 'cpu', but at, vm, used; expected .* if rows name"),
    "text": (
        {"metrics": "cpu=vm", "id": ()},
        TraceError,
        r"row 2, column vm: found 'a'; expected a number such as 0.25",
    ),
    "twice": ({"time": "used"}, ConflictError, "column 'used' stands for two different things"),
    "no time": ({"time": "vm", "id": ()}, TraceError, r"column vm: found 'a'; expected .* the option time_format"),
    "zone": ({"timezone": "Berlin"}, InvalidValueError, "such as UTC or Europe/Berlin"),
    "no metric": ({"metrics": ()}, ConflictError, "no metric; columns of .*table.csv: at, vm, used"),
    "wide": ({"metrics": "cpu=*_cpu", "id": ()}, TraceError, r"expected a column '\*_cpu' for each tenant"),
    "metric": ({"metrics": "time_s=used"}, InvalidValueError, "names that are none of the other columns"),
    "names": ({"names": "vm", "id": (), "values": "used"}, UnknownNameError, "unknown metric 'used'; known: 'a', 'b'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_say_what_to_do(case: str, tmp_path: Path):
    change, error, message = REFUSED[case]
    path = saved(tmp_path, long_table(FORMS["without a zone"][0]))
    with pytest.raises(error, match=message):
        table_reader(path, TableColumns(**{"time": "at", "id": "vm", "metrics": "cpu=used", **change}))


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        (["2024-03-04 00:00,a,1", "2024-03-04 00:05,a,1 GB"], "row 3, column used: found '1 GB'"),
        (["2024-03-04 00:00,a,1", "2024-03-04 00:05,a,1", "noon,a,1"], "row 4, column at: found 'noon'"),
        (
            ["2024-03-31 02:30,a,1"],
            "row 2, column at: .*its clocks skip this hour; another timezone has it, such as UTC",
        ),
        (['2024-03-04 00:00,a,"1,250"'], "row 2, column used: found '1,250', whose comma may separate thousands"),
        (["2024-03-04 00:00,a,1,2"], "row 2: found a further field, '2'; expected 3: at, vm, used"),
        (["2024-03-04 00:00,,1", "2024-03-04 00:05,,1"], "row 2, column vm: found None; expected a name"),
        ([",a,1", "2024-03-04 00:05,a,1"], "row 2, column at: found None; expected a time"),
        ([], "no rows"),
        (["2024-03-04 00:00,a,NaN"], "no usable row"),
        (["2024-03-04 00:00,a,1"], "no tenant with two times; expected a step: the option step"),
    ],
)
def test_errors_name_row_and_column(rows: list[str], place: str, tmp_path: Path):
    path = saved(tmp_path, "\n".join(["at,vm,used", *rows]) + "\n")
    with pytest.raises(TraceError, match=place):
        converted(path, time="at", id="vm", metrics="cpu=used", timezone="Europe/Berlin")
    assert not list(tmp_path.glob("out*"))


def test_thousands_and_other_formats_need_an_option(tmp_path: Path):
    rows = [f'{moment(k):%m/%d/%Y %I:%M %p},"1,{k}50"' for k in range(3)]
    path = saved(tmp_path, "\n".join(["at,used", *rows]))
    columns = {"time": "at", "metrics": "cpu=used", "decimal": ".", "time_format": "%m/%d/%Y %I:%M %p"}
    assert demand(converted(path, **columns)[0]) == {"table": [1050, 1150, 1250]}


PLAIN = "".join(f"{moment(k)},{vm},{CPU[vm][k]}\n" for k in range(4) for vm in CPU)
ODDITIES = {
    "comments": "# exported\n# twice\nat,vm,used\n" + PLAIN,
    "trailing separators": "at,vm,used,\r\n" + PLAIN.replace("\n", ",\r\n"),
    "percent": "at,vm,used\n" + PLAIN.replace("\n", " %\n"),
    "null of databases": "at,vm,used\n" + PLAIN + "2024-03-04 06:20:00,a,\\N\n",
    "descending": "\n".join(["at,vm,used", *PLAIN.splitlines()[::-1]]),
    "blanks": "at vm used\n" + PLAIN.replace(" ", "T").replace(",", " "),
    "quotes": '"at","vm","used"\n' + PLAIN.replace(",a,", ',"a",'),
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_oddities_of_text_files(oddity: str, tmp_path: Path):
    traces, _ = converted(saved(tmp_path, ODDITIES[oddity]), time="at", id="vm", metrics="cpu=used")
    assert demand(traces) == CPU


def test_lines_count_comments(tmp_path: Path):
    path = saved(tmp_path, "# exported\nat,vm,used\n" + PLAIN + "2024-03-04 06:20:00,a,x\n")
    with pytest.raises(TraceError, match="row 11, column used: found 'x'"):
        converted(path, time="at", id="vm", metrics="cpu=used")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_named(encoding: str, tmp_path: Path):
    path = tmp_path / "table.csv"
    path.write_text("at,vm,größe\n" + PLAIN, encoding=encoding)
    with pytest.raises(TraceError, match="expected a text file in UTF-8 that can be read"):
        converted(path, time="at", id="vm", metrics="cpu=größe")


def test_a_forgotten_tenant_is_told(tmp_path: Path):
    lines = ["at,vm,used", *(f"{300 * k},{vm},1" for vm in "abc" for k in range(4))]
    with pytest.raises(
        TraceError, match=r"12 rows of only 4 tenants and times; expected .* column of the tenant \(id\)"
    ):
        converted(saved(tmp_path, "\n".join(lines)), time="at", metrics="cpu=used")


def test_times_as_columns_are_to_be_transposed(tmp_path: Path):
    path = saved(tmp_path, ",".join(["vm", *(str(moment(k)) for k in range(20))]) + "\n")
    with pytest.raises(TraceError, match=r"no column 'at', but vm, .* and 16 more; expected .* transpose the table"):
        converted(path, time="at", id="vm", metrics="cpu=used")


def test_a_step_of_ones_own_and_an_hour_that_occurs_twice(tmp_path: Path):
    """The origin is midnight of the zone; of two equal hours in autumn the first counts."""
    rows = [f"27.10.2024 {hour:02}:{minute:02};{hour}" for hour in (1, 2, 2, 3) for minute in (0, 30)]
    path = saved(tmp_path, "\n".join(["at;used", *rows]))
    columns = {"time": "at", "metrics": "cpu=used", "timezone": "Europe/Berlin", "step": 3600}
    traces, preview = converted(path, **columns)
    assert traces.tenant_names().tolist() == ["table@1"]
    assert demand(traces) == {"table": [1, 2, 2, 3]}
    assert preview.first == "2024-10-27T01:00:00+02:00"


def test_frames_of_polars_are_read_like_files(tmp_path: Path):
    path = saved(tmp_path, long_table(FORMS["without a zone"][0]))
    columns = {"time": "at", "id": "vm"}
    frame = pl.read_csv(path, try_parse_dates=True)
    for data in (frame, frame.lazy(), pl.read_csv(path)):
        traces = from_frame(data, "cpu=used:cores", **columns)
        assert demand(traces) == CPU
        assert traces.start is not None
        assert traces.start.tolist() == AT_SIX
    frame.write_parquet(tmp_path / "table.parquet")
    assert demand(converted(tmp_path / "table.parquet", **columns, metrics="cpu=used")[0]) == CPU
    with pytest.raises(InvalidValueError, match="expected a data frame of Polars or pandas"):
        from_frame(3, "cpu", time="at")
    with pytest.raises(TraceError, match="data frame, row 1, column vm: found 'a'"):
        from_frame(frame, "cpu=vm", time="at")


class PandasColumn:
    """A column with what is used of those of pandas."""

    def __init__(self, values: list[Any], dtype: Any = None) -> None:
        self.values = values
        self.dtype = dtype or SimpleNamespace(kind="O")

    def tolist(self) -> list[Any]:
        return self.values

    def isna(self) -> np.ndarray:
        return np.array([value is None for value in self.values])

    def to_numpy(self, dtype: Any = None) -> np.ndarray:
        return np.array(self.values, dtype or self.dtype)


class PandasFrame(dict[str, PandasColumn]):
    """A table with what is used of pandas, whose index is reset first."""

    @property
    def columns(self) -> list[str]:
        return [*self]

    def reset_index(self) -> PandasFrame:
        return self


def test_frames_of_pandas_need_neither_pandas_nor_pyarrow():
    """Moments with a zone, numbers, and texts with missing ones."""
    times = [moment(k) for k in range(4)] * 2
    frame = PandasFrame(
        at=PandasColumn(times, SimpleNamespace(kind="M", tz="UTC")),
        vm=PandasColumn(["a"] * 4 + ["b"] * 4),
        used=PandasColumn(CPU["a"] + CPU["b"], np.dtype(np.float64)),
        note=PandasColumn([None] * 8),
    )
    assert demand(from_frame(frame, "cpu=used", time="at", id="vm", timezone="Europe/Berlin")) == CPU


def test_frames_of_real_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"at": [moment(k) for k in range(4)], **CPU}).set_index("at")
    assert demand(from_frame(frame, "cpu=*:cores", time="at")) == CPU


def test_the_example_is_what_its_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = Path(__file__).parents[2] / "examples" / "virtual_machines"
    script = tmp_path / "make.py"
    script.write_text((folder / "make.py").read_text())
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert (tmp_path / "machines.csv").read_text() == (folder / "machines.csv").read_text()


SHARED = {
    "google2019_instances/google2019_instance_usage_sample.parquet": (
        {"time": "time", "time_unit": 1e-6, "id": ("collection_id", "instance_index"), "metrics": "cpu=avg_cpu_usage"},
        (44, 300.0, 78_133),
    ),
    "opendc_bitbrains_small/v1_trace.parquet": (
        {"time": "timestamp", "id": "id", "metrics": "cpu=cpu_usage:MHz"},
        (50, 300.0, 276_979),
    ),
    "opendc_bitbrains_small/v1_meta.parquet": (
        {"start": "start_time", "end": "stop_time", "id": "id", "metrics": "cpu=cpu_count:cores"},
        (50, 600.0, 50),
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_published_tables_are_read_at_once(name: str):
    if not (DATA / name).exists():
        pytest.skip("the data are not here")
    columns, expected = SHARED[name]
    _, preview = table_reader(DATA / name, TableColumns(**columns))
    assert (preview.tenants, preview.step_seconds, preview.rows) == expected


@pytest.mark.parametrize("field", ["step", "time_unit", "decimal"])
def test_impossible_options_are_refused(field: str):
    with pytest.raises(PlbError, match=f"table: {field} = "):
        TableColumns(time="at", metrics="cpu", **{field: "x" if field == "decimal" else 0.0})
