"""Fuzzing targets: readers of public traces, with small valid files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.cluster.small_provisioning import write_curves
from tests.robustness import mutations as damaged
from tests.robustness.targets import Target, as_parquet, parquet_target, table_target, written_by
from tests.workloads.public_traces import (
    BITBRAINS_HEADER,
    alibaba_meta,
    alibaba_row,
    azure_machine,
    google2011_row,
    google2019_line,
    packing_database,
)
from workloads.readers import READERS, Options, read_public
from workloads.realisations import BITBRAINS_COLUMNS, read_samples
from workloads.task_samples import read_cell

OPTIONS = Options(min_hours=0.0)


def reader_of(name: str) -> Callable[[Path], object]:
    return lambda folder: read_public(READERS[name], folder, OPTIONS)


def _database(folder: Path) -> None:
    types = [(1, 16, 0.5, 0.25, None, 0.125, 0.0), (2, 16, 0.25, 0.5, 0.0, 0.0, None)]
    packing_database(folder / "t.sqlite", types, [(1, 70, 1, 0, -0.5, 0.5), (2, 70, 2, 1, 89.0, None)])


@st.composite
def _databases(draw: st.DrawFn) -> bytes:
    """Return databases with other values in a few cells."""
    types = [[1, 16, 0.5, 0.25, None, 0.125, 0.0], [2, 16, 0.25, 0.5, 0.0, 0.0, None]]
    requests = [[1, 70, 1, 0, -0.5, 0.5], [2, 70, 2, 1, 89.0, None]]
    values = st.one_of(
        st.none(), st.sampled_from((-1, 0, 1e300, -1e300, 1e15, 2**62, "x", "", b"\xff", float("inf"))), st.floats()
    )
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from([*types, *requests]))
        row[draw(st.integers(0, len(row) - 1))] = draw(values)
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
    database.execute("CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
    database.executemany("INSERT INTO vmType VALUES (0, ?, ?, ?, ?, ?, ?, ?)", types)
    database.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", requests)
    database.commit()
    data = database.serialize()
    database.close()
    return data


def public_formats(scratch: Path) -> dict[str, Target]:
    bins = pl.DataFrame(
        {
            "vm": [1] * 30,
            "bin": range(30),
            "cores": [2] * 30,
            "cap_mhz": [4000.0] * 30,
            **dict.fromkeys(BITBRAINS_COLUMNS, [100.0, 200.0, 300.0] * 10),
            "memcap_mb": [2048.0] * 30,
        }
    )
    days = pl.DataFrame({"day": ["20110309", "20110303"], "vm": ["h", "i"], "cpu_pct": [[*range(30)], [4, 5]]})
    google = {"time": [600 * 10**6, 900 * 10**6], "collection_id": [113] * 2, "instance_index": [4] * 2}
    google |= {"avg_cpu_usage": [0.25, 0.75], "avg_memory_usage": [0.125, 0.25], "p90_cpu_usage": [0.3, 0.8]}
    google |= {
        "max_cpu_usage": [0.5, 1.5],
        "max_memory_usage": [0.25, 0.5],
        "cpu_limit": [2.0] * 2,
        "memory_limit": [0.5] * 2,
    }
    flat = as_parquet(pl.DataFrame(google))
    alibaba = {
        "container_usage.csv": _text([alibaba_row("c_1", at, 50, 20) for at in range(10, 100, 30)]),
        "container_meta.csv": _text([alibaba_meta("c_1", 400, 2.5)]),
    }
    azure = {
        "vmtable.csv": _text([azure_machine("a", 9000, 4, 7)]),
        "vm_cpu_readings-file-1-of-2.csv": _text([[at, "a", 0.0, 2.0, 1.0] for at in (0, 300, 600)]),
    }
    google2011 = {
        "task_usage/part-00000-of-00500.csv": _text([google2011_row(0, 600), google2011_row(0, 900)]),
        "task_events/part-00000-of-00500.csv": _text([[0, None, 9, 0, 77, 0, "user", 2, 9, 0.5, 0.25, 0.5, 0]]),
    }
    lines = "".join(json.dumps(google2019_line(at, 0.25, 0.125)) + "\n" for at in (600, 900))
    events = json.dumps({"collection_id": "113", "instance_index": 4, "resource_request": {"cpus": 2.0, "memory": 1.0}})
    google2019 = {"instance_usage-000.json": lines.encode(), "instance_events-000.json": f"{events}\n".encode()}
    rows = [[1_372_629_600 + at, 4, 8000, 1000, 5, 16, 2, 0, 0, 0, 0] for at in range(0, 1200, 300)]
    published = {"2013-7/1.csv": _text([BITBRAINS_HEADER, *rows], ";\t")}
    packing = written_by(_database, scratch / "packing")
    return {
        "bitbrains": table_target(published, "2013-7/1.csv", reader_of("bitbrains"), ";"),
        "bitbrains, Parquet": parquet_target(
            {"rnd_5min.parquet": as_parquet(bins)}, "rnd_5min.parquet", reader_of("bitbrains")
        ),
        "realisations of bitbrains": parquet_target(
            {"rnd_5min.parquet": as_parquet(bins)}, "rnd_5min.parquet", read_samples
        ),
        "planetlab": table_target({"20110303/h": b"10\n20\n30\n"}, "20110303/h", reader_of("planetlab")),
        "planetlab, Parquet": parquet_target({"p.parquet": as_parquet(days)}, "p.parquet", reader_of("planetlab")),
        "realisations of planetlab": parquet_target(
            {"planetlab.parquet": as_parquet(days)}, "planetlab.parquet", read_samples
        ),
        "alibaba's usage": table_target(alibaba, "container_usage.csv", reader_of("alibaba2018")),
        "alibaba's machines": table_target(alibaba, "container_meta.csv", reader_of("alibaba2018")),
        "azure's readings": table_target(azure, "vm_cpu_readings-file-1-of-2.csv", reader_of("azure2019")),
        "azure's machines": table_target(azure, "vmtable.csv", reader_of("azure2017")),
        "google 2011's usage": table_target(google2011, "task_usage/part-00000-of-00500.csv", reader_of("google2011")),
        "google 2011's events": table_target(
            google2011, "task_events/part-00000-of-00500.csv", reader_of("google2011")
        ),
        "google 2019's usage": Target(
            google2019, "instance_usage-000.json", damaged.json_lines(lines), reader_of("google2019")
        ),
        "google 2019's events": Target(
            google2019, "instance_events-000.json", damaged.json_lines(events), reader_of("google2019")
        ),
        "google 2019, Parquet": parquet_target(
            {"x_instance_usage.parquet": flat}, "x_instance_usage.parquet", reader_of("google2019")
        ),
        "cell of google 2019": parquet_target(
            {"google2019_instance_usage_sample.parquet": flat}, "google2019_instance_usage_sample.parquet", read_cell
        ),
        "tianchi's applications": _contest(scratch, 1),
        "tianchi's instances": _contest(scratch, 2),
        "packing": Target(packing, "t.sqlite", _databases(), reader_of("azure-packing2020")),
        "packing, bytes": Target(
            packing, "t.sqlite", damaged.damaged_bytes(packing["t.sqlite"]), reader_of("azure-packing2020")
        ),
    }


def _contest(scratch: Path, number: int) -> Target:
    files = written_by(write_curves, scratch / f"tianchi{number}")
    return table_target(files, sorted(files)[number], reader_of("tianchi2018"))


def _text(rows: list[list[Any]], separator: str = ",") -> bytes:
    return "".join(separator.join("" if one is None else str(one) for one in row) + "\n" for row in rows).encode()
