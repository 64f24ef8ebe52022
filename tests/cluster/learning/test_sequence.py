"""Jobs and sequences of jobs: validation, and their arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.learning.episode import Dimensions
from cluster.learning.jobs import Job, JobSequence, job_arrays, poisson_arrivals
from plb.errors import ConflictError, InvalidValueError
from tests.cluster.learning.strategies import dimensions, job, jobs, sequences


@pytest.mark.parametrize(
    ("arrival", "usage", "field"),
    [
        pytest.param(-1, [[0.5]], "arrival", id="before the beginning"),
        pytest.param(10**7, [[0.5]], "arrival", id="beyond the last step"),
        pytest.param(0, [], "usage", id="no steps"),
        pytest.param(0, [[]], "usage", id="no resources"),
        pytest.param(0, [0.5], "usage", id="no table"),
        pytest.param(0, [[-0.1]], "usage", id="negative"),
        pytest.param(0, [[np.nan]], "usage", id="not a number"),
        pytest.param(0, [[np.inf]], "usage", id="infinite"),
    ],
)
def test_impossible_jobs_are_refused(arrival, usage, field):
    with pytest.raises(InvalidValueError, match=field):
        Job(arrival, usage)


def test_impossible_sequences_are_refused():
    with pytest.raises(InvalidValueError, match="at least one"):
        jobs()
    with pytest.raises(ConflictError, match="order"):
        jobs(job(1, 0.5), job(0, 0.5))
    with pytest.raises(ConflictError, match="number of resources"):
        jobs(job(0, 0.5), Job(0, [[0.5, 0.5]]))


def test_the_usage_of_a_job_cannot_change():
    usage = np.array([[0.5]])
    made = Job(0, usage)
    usage[:] = 1.0
    assert made.usage.tolist() == [[0.5]]
    assert not made.usage.flags.writeable


@given(st.data(), dimensions())
def test_arrays_contain_every_job(data, sizes):
    sequence: JobSequence = data.draw(sequences(sizes))
    arrays = job_arrays(sequence, sizes.horizon)
    for number, each in enumerate(sequence.jobs):
        assert arrays.arrival[number] == each.arrival
        assert arrays.steps[number] == each.steps
        np.testing.assert_array_equal(arrays.usage[number, :, : each.steps], each.usage.T)
        assert not arrays.usage[number, :, each.steps :].any()
        np.testing.assert_allclose(arrays.mean[number], each.usage.mean(axis=0), atol=1e-12)
        np.testing.assert_array_equal(arrays.peak[number], each.usage.max(axis=0))


def test_arrivals_are_poisson():
    """The number of arrivals per step has the rate as mean and variance, and steps are independent."""
    arrival = poisson_arrivals(np.random.default_rng(0), 60_000, 3.0)
    counts = np.bincount(arrival)[:-1]
    assert counts.mean() == pytest.approx(3.0, rel=0.03)
    assert counts.var() == pytest.approx(3.0, rel=0.05)
    assert abs(np.corrcoef(counts[1:], counts[:-1])[0, 1]) < 0.03
    assert (np.diff(arrival) >= 0).all()


def test_dimensions_are_checked():
    with pytest.raises(InvalidValueError, match="machines"):
        Dimensions(machines=0)
    for resources in ((), ("cpu", "cpu")):
        with pytest.raises(InvalidValueError, match="resources"):
            Dimensions(resources=resources)
    shape = Dimensions(machines=3).shape
    assert (shape.machines, shape.resources, shape.past, shape.horizon) == (3, 2, 5, 20)
