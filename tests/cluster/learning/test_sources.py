"""Sources of jobs: equal in every process, with reserved jobs separate from training."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from cluster.learning.job_sources import RegionSource, SourceOf, TraceSource
from cluster.learning.jobs import SyntheticJobs
from cluster.runs.pool import map_in_processes
from plb.errors import InvalidValueError, UnknownNameError
from workloads.regions import REGIONS, generate
from workloads.trace_files import write_traces

TENANTS = 60
REGION = RegionSource(tenants=TENANTS, jobs=30, steps=(2, 6), capacity=(80.0, 408.0))


def usages(source: SourceOf, seed: int = 3) -> list[np.ndarray]:
    return [job.usage for job in source.sequence(seed).jobs]


def test_synthetic_jobs_depend_on_settings_and_seed():
    jobs = SyntheticJobs(jobs=7)
    for held_back in (False, True):
        found = SourceOf(jobs, held_back).sequence(5)
        for one, other in zip(found.jobs, jobs.sequence(5).jobs, strict=True):
            np.testing.assert_array_equal(one.usage, other.usage)


def test_jobs_of_a_region_are_windows_of_its_tenants():
    """Usage is a share of the capacity. Training uses the first tenants, evaluation the same number after these."""
    for held_back in (False, True):
        first = TENANTS if held_back else 0
        traces = generate(REGIONS["region1"], TENANTS, 0, first)
        hourly = {
            tuple(np.round(traces.values[at : at + 6, :2].mean(axis=0) / (80.0, 408.0), 6))
            for series in traces.series_index[:, 0]
            for at in range(traces.series_start[series], traces.series_start[series + 1] - 5)
        }
        for usage in usages(SourceOf(REGION, held_back)):
            assert {tuple(row) for row in np.round(usage, 6)} <= hourly


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with traces in the format of the project."""
    write_traces(generate(REGIONS["region1"], 40, 1), tmp_path / "traces")
    return tmp_path / "traces"


def test_traces_are_split_by_tenant(folder: Path):
    """Both parts give jobs, and together they contain the jobs of all tenants. Another seed gives another split."""
    jobs = TraceSource(path=str(folder), jobs=40, steps=(1, 3), step_minutes=10.0, sizes=(1.0, 1.0))
    learned, held_back = (usages(SourceOf(jobs, side)) for side in (False, True))
    assert not any(np.array_equal(one, other) for one, other in zip(learned, held_back, strict=True))
    assert all(usage.max() <= 1.0 + 1e-6 for usage in (*learned, *held_back))


def test_a_source_is_small_and_the_same_in_another_process(folder: Path):
    source = SourceOf(TraceSource(path=str(folder), jobs=5, steps=(2, 4)), held_back=True)
    assert len(pickle.dumps(source)) < 2000
    here, there = usages(source), list(map_in_processes(usages, [source, source], jobs=2, ordered=True))
    for found in there:
        for one, other in zip(here, found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"region": "region9"}, UnknownNameError, "unknown region 'region9'; did you mean"),
        ({"capacity": (1.0,)}, InvalidValueError, r"capacity = \[1.0\] .* none, or one number for each of cpu, memory"),
        ({"capacity": (1.0, 0.0)}, InvalidValueError, r"capacity\[1\] = 0.0"),
        ({"tenants": 0}, InvalidValueError, "tenants = 0"),
        ({"steps": (5, 2)}, InvalidValueError, "a low and a high end"),
    ],
)
def test_invalid_fields_are_refused(fields, error, words):
    with pytest.raises(error, match=words):
        RegionSource(**fields)


def test_traces_need_a_directory():
    with pytest.raises(InvalidValueError, match="the directory of the traces"):
        TraceSource()
