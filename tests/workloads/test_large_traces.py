"""Conversion and check of traces several times larger than the allowed memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.workloads.public_traces import alibaba_meta, alibaba_row, text
from tests.workloads.trace_strategies import one_tenant
from workloads.trace_files import TENANTS_FILE, TRACES_FILE, write_traces
from workloads.trace_validation import KEY

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")]

LIMIT = 300 << 20
"""Limit on additional memory of the process, after a small conversion has loaded libraries and stacks."""
CONTAINERS, SAMPLES = 5_000, 2_000
MACHINE = "m_1932" + "x" * 60
"""An unused name that enlarges the file."""

CONVERT = """
import json, re, resource, sys
from pathlib import Path
import attrs
from workloads.readers import READERS, Options, convert
small, source, out, limit = sys.argv[1:]
reader, options = READERS["alibaba2018"], Options(rows_in_memory=250_000)
convert(reader, small, out + "-small", options)
taken = 1024 * int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (taken + int(limit),) * 2)
print(json.dumps(attrs.asdict(convert(reader, source, out, options))))
"""
CHECK = """
import re, sys
from pathlib import Path
from workloads.trace_files import check_traces
for folder in sys.argv[1:]:
    check_traces(folder)
    print(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
"""
SMALL_BUFFERS = {
    "POLARS_CSV_CHUNK_SIZE": "1000000",
    "POLARS_CSV_CHUNK_PREFETCH_LIMIT": "2",
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def write_usage(path: Path) -> None:
    """Write container_usage.csv in the order of times of the published file: all containers of a minute together."""
    names = "c_" + pl.Series(np.arange(CONTAINERS)).cast(pl.String)
    machine = pl.lit(MACHINE).alias("machine")
    rest = [pl.lit(value).alias(f"column {place}") for place, value in enumerate((1.25, 0.125, 3, 0.25, 0.25, 5))]
    with path.open("wb") as file:
        for first in range(0, SAMPLES, 40):
            minutes = np.repeat(np.arange(first, first + 40), CONTAINERS)
            frame = pl.DataFrame({"name": pl.concat([names] * 40), "time": (minutes + 1) * 60})
            usage = [((minutes * 7) % 100).astype(np.int64), (minutes % 50).astype(np.int64)]
            columns = [pl.Series("cpu", usage[0]), pl.Series("memory", usage[1])]
            frame.select("name", machine, "time", *columns, *rest).write_csv(file, include_header=False)


def test_a_file_three_times_the_memory_limit_is_converted(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    small = tmp_path / "small"
    for folder in (small, source):
        text(folder / "container_meta.csv", [alibaba_meta(f"c_{n}", 400, 2.5) for n in range(CONTAINERS)])
    text(small / "container_usage.csv", [alibaba_row("c_1", 60, 5, 5)])
    write_usage(source / "container_usage.csv")
    assert (source / "container_usage.csv").stat().st_size > 3 * LIMIT
    environment = os.environ | SMALL_BUFFERS
    command = [sys.executable, "-c", CONVERT, str(small), str(source), str(out), str(LIMIT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["rows_read"], report["rows_kept"]) == (CONTAINERS * SAMPLES,) * 2
    assert report["tenants"] == CONTAINERS
    steps = pl.scan_parquet(out / TRACES_FILE)
    figures = steps.select(pl.len(), pl.col("cpu").mean()).collect(engine="streaming")
    assert figures["len"].item() == report["steps_kept"] == CONTAINERS * 201
    tenant = steps.filter(pl.col("tenant") == "c_17@0").select("cpu", "memory").collect()
    minutes = np.arange(SAMPLES)
    step = (minutes + 1) * 60 // 600
    for name, usage, scale in (("cpu", (minutes * 7) % 100, 4 / 100), ("memory", minutes % 50, 2.5 / 100)):
        expected = np.bincount(step, usage * scale) / np.bincount(step)
        np.testing.assert_allclose(tenant[name].to_numpy(), expected, rtol=1e-6)


def test_a_trace_three_times_the_memory_limit_is_checked(tmp_path: Path) -> None:
    small, one_of_many, large, tenants, steps = tmp_path / "small", tmp_path / "one", tmp_path / "large", 100, 400_000
    write_traces(one_tenant([1.0, 2.0]), small)
    write_traces(one_tenant([float(at % 7) for at in range(steps)]), one_of_many)
    large.mkdir()
    for name in (TRACES_FILE, TENANTS_FILE):
        single, header = pl.scan_parquet(one_of_many / name), pl.read_parquet_metadata(one_of_many / name)[KEY]
        copies = pl.concat([single.with_columns(tenant=pl.lit(f"t{place}")) for place in range(tenants)])
        copies.sink_parquet(large / name, metadata={KEY: header})
    assert tenants * pl.read_parquet(one_of_many / TRACES_FILE).estimated_size() > 3 * LIMIT
    command = [sys.executable, "-c", CHECK, str(small), str(large)]
    environment = os.environ | SMALL_BUFFERS
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=True)
    before, after = map(int, done.stdout.split())
    assert after - before < LIMIT
