"""Each reader on small files in the schema of its trace: units, limits, classes, lifetimes, rejected rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from plb.model import Role
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
from workloads.readers import READERS
from workloads.readers.alibaba import INVALID, OUTSIDE, UNKNOWN_APP, WITHOUT_INSTANCE
from workloads.readers.azure import BACKWARDS, NOT_OFFERED, TOO_FAR
from workloads.readers.base import MISSING, NEGATIVE
from workloads.readers.planetlab import OUT_OF_RANGE
from workloads.readers.sampled import REPEATED, UNLISTED

DAY = 86_400


def test_planetlab_days_are_tenants_and_machines_are_families(tmp_path: Path):
    """Two days of a machine give two tenants of one family, in percent. A value over 100 is rejected."""
    text(tmp_path / "20110303" / "host_a", [[10], [30], [50], [101]])
    text(tmp_path / "20110306" / "host_a", [[1], [3]])
    text(tmp_path / "20110306" / "host_b", [[5], [5]])
    traces, report = converted("planetlab", tmp_path, tmp_path / "out")
    assert traces.tenant_names().tolist() == ["host_a/20110303@0", "host_a/20110306@432", "host_b/20110306@432"]
    assert traces.values[:, 0].tolist() == [20.0, 50.0, 2.0, 5.0]
    assert traces.family[0] == traces.family[1] != traces.family[2]
    assert traces.censored.all()
    assert (traces.max_usage == 100.0).all()
    assert report.rows_refused == {OUT_OF_RANGE: 1, REPEATED: 0}


def test_hidden_files_are_ignored(tmp_path: Path):
    text(tmp_path / "planetlab" / "20110303" / "host", [[1]] * 12)
    text(tmp_path / "planetlab" / "20110303" / ".DS_Store", [["\0Bud1"]])
    text(tmp_path / "planetlab" / "._p.parquet", [["\0"]])
    rows = [[1_372_629_600 + at, 4, 8000, 1000, 5, 16, 2, 0, 0, 0, 0] for at in range(0, 7200, 300)]
    text(tmp_path / "bitbrains" / "2013-7" / "7.csv", [BITBRAINS_HEADER, *rows], ";\t")
    text(tmp_path / "bitbrains" / "2013-7" / "._7.csv", [["\0"]])
    for name, tenant in (("planetlab", "host/20110303@0"), ("bitbrains", "vm7@0")):
        traces, _ = converted(name, tmp_path / name, tmp_path / "out" / name)
        assert traces.tenant_names().tolist() == [tenant]


def test_planetlab_as_parquet_equals_the_published_files(tmp_path: Path):
    text(tmp_path / "raw" / "20110309" / "host", [[value] for value in range(12)])
    (tmp_path / "table").mkdir()
    days = pl.DataFrame({"day": ["20110309"], "vm": ["host"], "cpu_pct": [list(range(12))]})
    days.with_columns(pl.col("cpu_pct").cast(pl.List(pl.UInt8))).write_parquet(tmp_path / "table" / "p.parquet")
    published, _ = converted("planetlab", tmp_path / "raw", tmp_path / "a")
    table, _ = converted("planetlab", tmp_path / "table", tmp_path / "b")
    assert published.tenant_names().tolist() == table.tenant_names().tolist()
    assert published.values.tolist() == table.values.tolist()


def test_bitbrains_as_published_joins_the_months_of_a_machine(tmp_path: Path):
    """Seconds (labelled ms) or milliseconds, KB and MHz are converted. Rows without cores are rejected."""
    start = 1_372_629_600
    gb = 1024**2
    july = [[start + at, 4, 8000, 1000 + at, 5, 16 * gb, 2 * gb, 0, 0, 0, 0] for at in (0, 300, 600)]
    august = [[(start + 31 * DAY) * 1000, 4, 8000, 2000, 5, 16 * gb, gb, 0, 0, 0, 0]]
    off = [[start + 900, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
    again = [[start, 4, 8000, 9999, 5, 16 * gb, gb, 0, 0, 0, 0]]
    text(tmp_path / "2013-7" / "7.csv", [BITBRAINS_HEADER, *july, *off, *again], ";\t")
    text(tmp_path / "2013-8" / "7.csv", [BITBRAINS_HEADER, *august], ";\t")
    traces, report = converted("bitbrains", tmp_path, tmp_path / "out", min_hours=0.0)
    assert traces.tenant_names().tolist() == ["vm7@0", "vm7@4464"]
    np.testing.assert_allclose(traces.values, [[0.575, 2.0], [0.8, 2.0], [1.0, 1.0]])
    assert traces.max_usage.tolist() == [[4.0, 16.0]] * 2
    assert traces.class_names().tolist() == ["vm_c4_m16"] * 2
    assert (report.rows_read, report.rows_refused["without provisioned CPU"], report.rows_refused[REPEATED]) == (
        6,
        1,
        1,
    )


def test_google2011_takes_requests_from_the_events(tmp_path: Path):
    """Metrics are CPU rate, canonical memory and disk space. MaxUsage is the largest request, or a larger usage."""
    usage = [google2011_row(0, 600), google2011_row(0, 900, cpu=0.75), google2011_row(1, 600, cpu=None)]
    text(tmp_path / "task_usage" / "part-00000-of-00500.csv.gz", usage)
    events = [[0, None, 9, 0, 77, 0, "user", 2, 9, request, 0.25, 0.5, 0] for request in (0.25, 0.625)]
    text(tmp_path / "task_events" / "part-00000-of-00500.csv.gz", events)
    traces, report = converted("google2011", tmp_path, tmp_path / "out")
    assert traces.metric_names == ("cpu", "memory", "disk")
    assert traces.values.tolist() == [[0.5, 0.5, 0.125]]
    assert traces.max_usage.tolist() == [[0.625, 0.5, 0.5]]
    assert traces.class_names().tolist() == ["borg_c1_m0.25"]
    assert report.over_request == {"cpu": 0, "memory": 1, "disk": 0}
    assert report.rows_refused == {MISSING: 1, NEGATIVE: 0, REPEATED: 0}


def test_google2011_without_events_has_no_request(tmp_path: Path):
    """Without requests, MaxUsage is the largest usage. Maxima are an option."""
    text(tmp_path / "task_usage" / "part-00000-of-00500.csv", [google2011_row(3, 600)])
    traces, _ = converted("google2011", tmp_path, tmp_path / "out", aggregate="max")
    assert traces.values.tolist() == traces.max_usage.tolist() == [[0.5, 0.75, 0.125]]
    assert traces.class_names().tolist() == ["borg"]


def test_google2019_as_published_and_as_flat_table(tmp_path: Path):
    """JSON lines with integers as text and a flat Parquet file give the same usage."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    lines = [google2019_line(600, 0.25, 0.125), google2019_line(900, 0.75, 0.25), google2019_line(900, 9.0, 9.0)]
    lines.append(google2019_line(1200, 0.5, 0.5) | {"average_usage": None})
    json_lines(tmp_path / "a" / "instance_usage-000000000000.json.gz", lines)
    events = [{"collection_id": "113", "instance_index": 4, "resource_request": {"cpus": 2.0, "memory": 1.0}}]
    json_lines(tmp_path / "a" / "instance_events-000000000000.json", events)
    columns = {"time": [600 * 10**6, 900 * 10**6], "collection_id": [113] * 2, "instance_index": [4] * 2}
    usage = {"avg_cpu_usage": [0.25, 0.75], "avg_memory_usage": [0.125, 0.25]}
    most = {"max_cpu_usage": [0.5, 1.5], "max_memory_usage": [0.25, 0.5]}
    limits = {"cpu_limit": [2.0] * 2, "memory_limit": [0.5] * 2}
    pl.DataFrame(columns | usage | most | limits).write_parquet(tmp_path / "b" / "x_instance_usage.parquet")
    published, report = converted("google2019", tmp_path / "a", tmp_path / "out")
    flat, _ = converted("google2019", tmp_path / "b", tmp_path / "out2")
    assert published.tenant_names().tolist() == flat.tenant_names().tolist() == ["113/4@1"]
    assert published.values.tolist() == flat.values.tolist() == [[0.5, 0.1875]]
    assert published.max_usage.tolist() == flat.max_usage.tolist() == [[2.0, 0.5]]
    assert published.class_names().tolist() == ["borg_c2_m0.5"]
    assert report.rows_refused == {MISSING: 1, NEGATIVE: 0, REPEATED: 1}


def test_google2019_nested_parquet_and_maxima(tmp_path: Path):
    rows = [google2019_line(600, 0.25, 0.125), google2019_line(900, 0.75, 0.25)]
    plain = tmp_path / "instance_usage-000000000000.parquet"
    pl.DataFrame(rows).write_parquet(plain)
    traces, _ = converted("google2019", tmp_path, tmp_path / "out", aggregate="max")
    assert traces.values.tolist() == [[1.5, 0.5]]
    plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    again, _ = converted("google2019", tmp_path, tmp_path / "again", aggregate="max")
    assert again.values.tolist() == traces.values.tolist()


def contest(path: Path, instances: dict[str, int], *, listed: int = 3) -> Path:
    """Write the files of the contest: applications app_0, app_1 ...

    with CPU 1, 2 ... and these numbers of instances.
    """
    apps = [
        [f"app_{n}", "|".join(["0.5"] * 97 + [str(n + 1.0)]), "|".join([str(2.0 * n)] * 98), 60.0 + n, 0, 1, 2]
        for n in range(listed)
    ]
    text(path / "scheduling_app_resources_1.csv", apps)
    rows = [(f"{app}_inst_{n}", app, None) for app, count in instances.items() for n in range(count)]
    text(path / "scheduling_instance_deploy_1.csv", rows)
    return path


def test_tianchi_applications_are_tenants_with_many_replicas(tmp_path: Path):
    """98 points are 15 minutes apart. More than 127 instances give several tenants of one family."""
    contest(tmp_path, {"app_0": 3, "app_1": 300, "app_9": 2})
    traces, report = converted("tianchi2018", tmp_path, tmp_path / "out")
    assert traces.tenant_names().tolist() == ["app_0", "app_1", "app_1/2", "app_1/3"]
    assert traces.replicas.tolist() == [3, 127, 127, 46]
    assert len(set(traces.family[1:].tolist())) == 1
    assert traces.step_seconds == 900.0
    assert (traces.series_role == Role.INSTANCE).all()
    assert traces.lifetime_steps.tolist() == [98] * 4
    assert traces.values[:98].max(axis=0).tolist() == traces.max_usage[0].tolist() == [1.0, 0.0, 60.0]
    assert (report.rows_read, report.rows_refused) == (308, {WITHOUT_INSTANCE: 1, UNKNOWN_APP: 2})


def readings(name: str, first: int, last: int, average: float) -> list[list[object]]:
    """Return the rows of one machine in a half-open interval of time."""
    return [[at, name, 0.0, 2 * average, average] for at in range(first, last, 300)]


@pytest.mark.parametrize("name", ["azure2017", "azure2019"])
def test_azure_percent_of_cores_and_known_ends(tmp_path: Path, name: str):
    """Usage is a percentage of the cores in vmtable. A machine deleted within the trace has a complete lifetime."""
    machines = [azure_machine("a+/=", 10_800, "4", "7"), azure_machine("b", 6_000, "1", "1.75")]
    text(tmp_path / "vmtable.csv.gz", [*machines, azure_machine("c", 10_800, ">24", ">64")])
    first = [*readings("b", 1200, 6000, 20.0), *readings("a+/=", 0, 3600, 50.0), *readings("zz", 0, 600, 1.0)]
    text(tmp_path / "vm_cpu_readings-file-1-of-2.csv.gz", first)
    text(tmp_path / "vm_cpu_readings-file-2-of-2.csv.gz", readings("a+/=", 3600, 7200, 100.0))
    traces, report = converted(name, tmp_path, tmp_path / "out")
    assert traces.tenant_names().tolist() == ["a+/=@0", "b@2"]
    np.testing.assert_allclose(traces.values[:, 0], [2.0] * 6 + [4.0] * 6 + [0.2] * 8)
    assert traces.max_usage.tolist() == [[4.0], [1.0]]
    assert traces.class_names().tolist() == ["vm_c4_m7", "vm_c1_m1.75"]
    assert traces.censored.tolist() == [True, False]
    assert report.rows_refused == {MISSING: 0, NEGATIVE: 0, REPEATED: 0, UNLISTED: 2}


def test_azure_open_buckets_have_the_published_values(tmp_path: Path):
    text(tmp_path / "vmtable.csv", [azure_machine("c", 10_800, ">24", ">64")])
    text(tmp_path / "vm_cpu_readings-file-1-of-195.csv", readings("c", 0, 600, 10.0))
    traces, _ = converted("azure2019", tmp_path, tmp_path / "out", aggregate="max")
    assert traces.class_names().tolist() == ["vm_c30_m70"]
    assert traces.values.tolist() == [[6.0]]


def test_packing_requests_live_at_constant_demand(tmp_path: Path):
    """Demand is a share of the machine with most types. Lifetimes are rounded up; without an end, they are censored."""
    types = [(1, 16, 0.5, 0.25, None, 0.125, 0.0), (2, 16, 0.25, 0.5, 0.0, 0.0, None), (9, 3, 1.0, 1.0, 1.0, 1.0, 1.0)]
    requests = [
        (1, 70, 1, 0, -0.5, 0.5),
        (2, 70, 2, 1, 89.0, None),
        (3, 71, 9, 0, 1.0, 2.0),
        (4, 71, 1, 0, 2.0, 1.0),
        (5, 71, 1, 0, 3.0, 3.0 + 601 / DAY),
    ]
    packing_database(tmp_path / "trace.sqlite", types, requests)
    traces, report = converted("azure-packing2020", tmp_path, tmp_path / "out")
    assert traces.tenant_names().tolist() == ["1@-72", "2@12816", "5@432"]
    assert traces.lifetime_steps.tolist() == [144, 144, 2]
    assert traces.censored.tolist() == [False, True, False]
    assert traces.max_usage.tolist()[:2] == [[0.5, 0.25, 0.0, 0.125, 0.0], [0.25, 0.5, 0.0, 0.0, 0.0]]
    assert (traces.values == np.repeat(traces.max_usage, traces.lifetime_steps, axis=0)).all()
    assert traces.class_names().tolist() == ["type1", "type2_low", "type1"]
    assert traces.family[0] == traces.family[1] != traces.family[2]
    assert report.rows_refused == {NOT_OFFERED: 1, BACKWARDS: 1, TOO_FAR: 0}


def test_packing_lifetimes_can_be_cut_into_windows(tmp_path: Path):
    packing_database(
        tmp_path / "t.sqlite", [(1, 1, 0.5, 0.5, 0, 0, 0)], [(1, 1, 1, 0, 0.0, 2.5), (2, 1, 1, 0, 0.0, 1.0)]
    )
    traces, report = converted("azure-packing2020", tmp_path, tmp_path / "out", window_days=1.0)
    assert traces.tenant_names().tolist() == ["1@0", "1@144", "1@288", "2@0"]
    assert traces.lifetime_steps.tolist() == [144, 144, 72, 144]
    assert traces.censored.tolist() == [True, True, False, False]
    assert (report.rows_read, report.tenants) == (2, 4)


def test_packing_lives_are_cut_to_the_range_of_the_trace(tmp_path: Path):
    """Starts that are placeholders and ends far away make no million steps. Lives outside the range are rejected."""
    requests = [(1, 1, 1, 0, -7157.0, 1.0), (2, 1, 1, 0, 89.0, 30_000.0), (3, 1, 1, 0, -400.0, None)]
    requests += [(4, 1, 1, 0, -7157.0, -100.0), (5, 1, 1, 0, 100.0, None)]
    packing_database(tmp_path / "t.sqlite", [(1, 1, 0.5, 0.5, 0, 0, 0)], requests)  # type: ignore[arg-type]
    traces, report = converted("azure-packing2020", tmp_path, tmp_path / "out")
    assert traces.tenant_names().tolist() == ["1@-12960", "2@12816", "3@-12960"]
    assert traces.lifetime_steps.tolist() == [91 * 144, 144, 180 * 144]
    assert traces.censored.tolist() == [False, True, True]
    assert report.rows_refused[TOO_FAR] == 2


def test_alibaba_percent_of_the_request(tmp_path: Path):
    """Usage is a percentage of container_meta. The values -1 and 101 and time 0 are invalid."""
    rows = [alibaba_row("c_1", at, 50, 20) for at in (10, 70, 610)]
    rows += [alibaba_row("c_1", 0, 1, 1), alibaba_row("c_1", 700, 101, 20), alibaba_row("c_1", 710, -1, 20)]
    rows += [alibaba_row("c_2", 10, None, 20), alibaba_row("c_3", 10, 5, 5)]
    text(tmp_path / "container_usage.csv", rows)
    meta = [alibaba_meta("c_1", 200, 2.5), alibaba_meta("c_1", 400, 2.5), alibaba_meta("c_2", 400, 2.5)]
    text(tmp_path / "container_meta.csv.gz", meta)
    traces, report = converted("alibaba2018", tmp_path, tmp_path / "out")
    assert traces.values.tolist() == [[2.0, 0.5], [2.0, 0.5]]
    assert traces.max_usage.tolist() == [[4.0, 2.5]]
    assert traces.class_names().tolist() == ["container_c4_m4"]
    assert report.rows_refused == {MISSING: 1, OUTSIDE: 1, INVALID: 2, NEGATIVE: 0, REPEATED: 0, UNLISTED: 1}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_states_its_requirements(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match=r"found no such file; expected \S+"):
        converted(name, tmp_path, tmp_path / "out")
    assert all(metric.unit for metric in READERS[name].metrics)
    assert READERS[name].request
    assert READERS[name].files
