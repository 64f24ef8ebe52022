"""Jobs from windows of traces: their usage equals that of the trace, step by step."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.learning.job_sources import TraceJobs, TraceWindows
from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.model import Role
from tests.workloads.trace_strategies import one_tenant, trace_sets
from workloads.trace import TraceSet


def windows(**fields: object) -> TraceWindows:
    """Return settings for the small traces, which have CPU and disk every 10 minutes."""
    fixed = {"resources": ("cpu", "disk"), "step_minutes": 10.0, "steps": (2, 3), "sizes": (1.0, 1.0), "jobs": 20}
    return TraceWindows(**(fixed | fields))


def ramp() -> TraceSet:
    """Return a tenant whose CPU rises from 1 to 8 and whose disk is unused."""
    return one_tenant(disk=[0.0] * 8, cpu=[float(k) for k in range(1, 9)])


def test_a_job_is_a_window_as_a_share_of_the_tenants_maximum():
    """Steps of 20 minutes are means of two samples. Windows begin at any sample. Unused metrics are 0."""
    source = TraceJobs(ramp(), windows(step_minutes=20.0, sizes=(0.5, 0.5)))
    seen = set()
    for job in source.sequence(1).jobs:
        cpu = job.usage[:, 0] / 0.5 * 8.0
        first = round(cpu[0] - 0.5)
        np.testing.assert_allclose(cpu, [first + 0.5 + 2 * step for step in range(job.steps)])
        assert not job.usage[:, 1].any()
        seen.add((first, job.steps))
    assert {steps for _, steps in seen} == {2, 3}
    assert {first for first, steps in seen if steps == 2} <= set(range(1, 6))
    assert len(seen) > 4


@given(st.data(), trace_sets(), st.integers(0, 2**31))
def test_every_job_is_a_window_of_one_tenants_primary(data, traces, seed):
    """A tenant, a start and a size give the usage of both metrics. Sizes are within their range."""
    samples = data.draw(st.integers(1, 2))
    settings = windows(step_minutes=10.0 * samples, steps=(1, 4), sizes=(0.25, 0.75), jobs=5)
    if traces.lifetime_steps.max() < samples:
        with pytest.raises(ConflictError, match="shorter"):
            TraceJobs(traces, settings)
        return
    source = TraceJobs(traces, settings)
    sequence = pickle.loads(pickle.dumps(source)).sequence(seed)
    for job in sequence.jobs:
        assert 1 <= job.steps <= 4
        assert job.usage.max() <= 0.75 + 1e-9
        assert any(_sizes(curve, job.usage) for curve in _curves(traces, samples, job.steps))


def _curves(traces: TraceSet, samples: int, steps: int) -> list[np.ndarray]:
    """Return all windows of this number of steps, as shares of the maximum."""
    found = []
    for tenant in range(traces.tenants):
        series = traces.series_index[tenant, Role.PRIMARY]
        begin, end = traces.series_start[series : series + 2]
        values = traces.values[begin:end].astype(np.float64)
        shares = values / np.where(values.max(axis=0) > 0.0, values.max(axis=0), 1.0)
        for first in range(len(values) - steps * samples + 1):
            rows = [shares[first + step * samples : first + (step + 1) * samples].mean(axis=0) for step in range(steps)]
            found.append(np.array(rows))
    return found


def _sizes(curve: np.ndarray, usage: np.ndarray) -> bool:
    """Return whether usage is the curve times a size within the range."""
    if not curve.any():
        return not usage.any()
    size = usage.flat[curve.argmax()] / curve.max()
    return 0.25 - 1e-9 <= size <= 0.75 + 1e-9 and np.allclose(usage, size * curve)


def test_equal_seeds_give_equal_jobs():
    source = TraceJobs(ramp(), windows())
    usage = [[job.usage.tolist() for job in source.sequence(seed).jobs] for seed in (1, 1, 2)]
    assert usage[0] == usage[1] != usage[2]
    assert source.sequence(3).name == "trace/3"


@given(trace_sets(most_tenants=6), st.integers(0, 100))
def test_the_two_parts_share_no_family(traces, seed):
    """Every tenant is in one of the two parts. A part without a tenant of sufficient lifetime is refused."""
    try:
        learned, evaluated = TraceJobs(traces, windows(steps=(1, 3))).halves(0.5, seed)
    except ConflictError as error:
        assert "training" in str(error) or "held back" in str(error)  # noqa: PT017
        return
    assert not set(learned.traces.family) & set(evaluated.traces.family)
    assert learned.traces.tenants + evaluated.traces.tenants == traces.tenants
    assert "training" in learned.sequence(0).name


def test_traces_that_give_no_jobs_are_refused():
    """Examples are an unknown metric, a step that is no multiple, too long jobs, and inverted ranges."""
    with pytest.raises(UnknownNameError, match="memory"):
        TraceJobs(ramp(), windows(resources=("cpu", "memory")))
    for minutes in (15.0, 5.0):
        with pytest.raises(InvalidValueError, match="multiple of the trace's interval, 10"):
            TraceJobs(ramp(), windows(step_minutes=minutes))
    with pytest.raises(ConflictError, match="shorter jobs"):
        TraceJobs(ramp(), windows(steps=(9, 9)))
    with pytest.raises(InvalidValueError, match="sizes"):
        windows(sizes=(0.5, 0.25))
    with pytest.raises(InvalidValueError, match="seed"):
        TraceJobs(ramp(), windows()).sequence(-1)
