"""Synthetic jobs have the documented properties."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.learning.jobs import SyntheticJobs
from plb.errors import InvalidValueError

pairs = st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)).map(lambda pair: (min(pair), max(pair)))
lengths = st.tuples(st.integers(1, 20), st.integers(1, 20)).map(lambda pair: (min(pair), max(pair)))
settings = st.builds(
    SyntheticJobs,
    rate=st.floats(0.01, 50.0),
    jobs=st.integers(1, 20),
    resources=st.sampled_from([("cpu",), ("cpu", "memory"), ("cpu", "memory", "disk")]),
    short_share=st.floats(0.0, 1.0),
    short_steps=lengths,
    long_steps=lengths,
    short_usage=pairs,
    base=pairs,
    peak=pairs,
    high_share=pairs,
    other=pairs,
    noise=st.floats(0.0, 1.0),
)


@given(settings, st.integers(0, 2**31))
def test_every_setting_gives_jobs_within_its_ranges(source, seed):
    """Number and lengths are the requested ones, and no job exceeds a machine. Equal seeds give equal sequences."""
    sequence, again = source.sequence(seed), pickle.loads(pickle.dumps(source)).sequence(seed)
    assert len(sequence.jobs) == source.jobs
    assert sequence.resources == len(source.resources)
    lowest, highest = (end(*source.short_steps, *source.long_steps) for end in (min, max))
    for one, same in zip(sequence.jobs, again.jobs, strict=True):
        assert lowest <= one.steps <= highest
        assert one.usage.max() <= 1.0
        assert one.arrival == same.arrival
        np.testing.assert_array_equal(one.usage, same.usage)


def test_other_seeds_give_other_jobs():
    one, other = (SyntheticJobs().sequence(seed) for seed in (1, 2))
    assert (one.name, other.name) == ("synthetic/1", "synthetic/2")
    assert [job.arrival for job in one.jobs] != [job.arrival for job in other.jobs]
    assert [job.usage.sum() for job in one.jobs] != [job.usage.sum() for job in other.jobs]


def test_a_long_job_has_a_base_and_one_high_phase():
    """Without noise, it has two levels. The high level is contiguous on the circle of steps."""
    levels = {"base": (0.2, 0.2), "peak": (0.8, 0.8), "high_share": (0.5, 0.5)}
    source = SyntheticJobs(jobs=200, short_share=0.0, noise=0.0, **levels)
    begins = set()
    for job in source.sequence(3).jobs:
        is_high = job.usage.max(axis=1) == 0.8
        assert set(job.usage.max(axis=1)) == {0.2, 0.8}
        assert is_high.sum() == np.rint(0.5 * job.steps)
        assert (is_high & ~np.roll(is_high, 1)).sum() == 1
        begins.add(int(np.flatnonzero(is_high & ~np.roll(is_high, 1))[0]))
    assert len(begins) > 10


def test_a_short_job_uses_the_same_in_all_steps():
    """Without noise, the other resource is a share of the dominant one.

    Both resources are dominant about equally often.
    """
    jobs = SyntheticJobs(jobs=500, short_share=1.0, noise=0.0).sequence(3).jobs
    assert all((job.usage == job.usage[0]).all() for job in jobs)
    shares = np.array([job.usage[0] / job.usage[0].max() for job in jobs])
    assert ((shares == 1.0).sum(axis=0) > 200).all()
    assert shares.min(axis=1).min() >= 0.2
    assert shares.min(axis=1).max() <= 0.6


def test_default_jobs_use_two_thirds_of_ten_machines():
    source = SyntheticJobs(jobs=20_000)
    jobs = source.sequence(1).jobs
    load = sum(job.usage.sum(axis=0) for job in jobs) * source.rate / len(jobs) / 10
    assert load == pytest.approx([0.64, 0.64], abs=0.02)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate", 0.0),
        ("jobs", 0),
        ("resources", ()),
        ("peak", (0.9, 0.6)),
        ("short_steps", (0, 3)),
        ("long_steps", (10, 15, 20)),
        ("noise", 1.5),
        ("other", (0.5, 1.5)),
    ],
)
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(InvalidValueError, match=field):
        SyntheticJobs(**{field: value})


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidValueError, match="seed"):
        SyntheticJobs().sequence(-1)
