"""Small files in the schemas of public traces."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workloads.readers import READERS, ConversionReport, Options, convert
from workloads.trace import TraceSet
from workloads.trace_files import read_traces

BITBRAINS_HEADER = [
    "Timestamp [ms]",
    "CPU cores",
    "CPU capacity provisioned [MHZ]",
    "CPU usage [MHZ]",
    "CPU usage [%]",
    "Memory capacity provisioned [KB]",
    "Memory usage [KB]",
    "Disk read throughput [KB/s]",
    "Disk write throughput [KB/s]",
    "Network received throughput [KB/s]",
    "Network transmitted throughput [KB/s]",
]
"""The first line of each published Bitbrains file."""


def converted(name: str, source: Path, out: Path, **options: Any) -> tuple[TraceSet, ConversionReport]:
    """Convert traces, and read the result back, which also checks it."""
    report = convert(READERS[name], source, out, Options(**options))
    assert report.rows_kept == report.rows_read - sum(report.rows_refused.values())
    assert report.steps_kept == report.steps + report.steps_filled - report.steps_refused
    assert not list(out.glob(".scratch*"))
    return read_traces(out), report


def text(path: Path, rows: Iterable[Iterable[Any]], separator: str = ",") -> Path:
    """Write rows without header, with gzip if the name ends so. None is an empty field."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(separator.join("" if field is None else str(field) for field in row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


def google2011_row(task: int, seconds: int, cpu: float | None = 0.25, memory: float = 0.5) -> list[Any]:
    """Return a row of task_usage: 300 s of a task of job 9."""
    start = seconds * 10**6
    return [
        *(start, start + 300 * 10**6, 9, task, 77, cpu, memory, 0.6, 0.1, 0.1, 0.75, 0.0),
        *(0.125, 0.5, 0.0, 2.9, None, 1, 0, 0.2),
    ]


def alibaba_row(container: str, seconds: int, cpu: int | None, memory: int | None) -> list[Any]:
    return [container, "m_1", seconds, cpu, memory, 1.2, 0.1, None, 0.1, 0.2, 5]


def alibaba_meta(container: str, cpu_request: int, memory: float) -> list[Any]:
    return [container, "m_1", 0, "app_1", "started", cpu_request, 2 * cpu_request, memory]


def azure_machine(name: str, deleted: int, cores: Any, memory: Any) -> list[Any]:
    return [name, "subscription", "deployment", 0, deleted, 90.0, 10.0, 50.0, "Unknown", cores, memory]


def google2019_line(start: int, cpu: float, memory: float, **fields: Any) -> dict[str, Any]:
    """Return a row of instance_usage as exported by BigQuery, with whole numbers as text."""
    return {
        "start_time": str(start * 10**6),
        "end_time": str((start + 300) * 10**6),
        "collection_id": "113",
        "instance_index": 4,
        "average_usage": {"cpus": cpu, "memory": memory},
        "maximum_usage": {"cpus": 2 * cpu, "memory": 2 * memory},
        "assigned_memory": 0.5,
        "cpu_usage_distribution": [0.1, 0.2],
    } | fields


def json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Write one JSON object per line, with gzip if the name ends so."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return path


def packing_database(path: Path, types: list[tuple[Any, ...]], requests: list[tuple[Any, ...]]) -> Path:
    """Write the tables vmType (vmTypeId, machineId and five shares) and vm of the Azure trace for packing."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
        database.execute("CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
        database.executemany("INSERT INTO vmType VALUES (0, ?, ?, ?, ?, ?, ?, ?)", types)
        database.executemany("INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", requests)
    database.close()
    return path
