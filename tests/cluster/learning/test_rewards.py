"""The four penalties, each compared with a plain sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.learning.episode import PARTS, Penalties, RewardState, contention
from plb.errors import InvalidValueError
from tests.cluster.learning.strategies import levels, penalties

tables = st.tuples(st.integers(0, 4), st.integers(1, 2), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(levels, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda values: np.array(values, np.float64).reshape(shape)
    )
)
"""Usage of some jobs of one machine, (jobs, resources, steps)."""


@given(tables)
def test_contention_is_the_inner_product_of_every_pair(jobs):
    """Half of (Σu)² - Σu² equals the sum of u_i·u_j over the pairs, resource by resource."""
    pairs = sum((jobs[i] * jobs[j]).sum(axis=0) for i in range(len(jobs)) for j in range(i))
    usage, squares = jobs.sum(axis=0)[None], (jobs**2).sum(axis=0)[None]
    found = contention(usage, squares)
    assert found.shape == (1, jobs.shape[2])
    np.testing.assert_allclose(found[0], pairs, atol=1e-9)


@given(tables, penalties)
def test_penalties_sum_equally_over_machines_and_steps(jobs, weights):
    usage, squares = np.stack([jobs.sum(axis=0)] * 2), np.stack([(jobs**2).sum(axis=0)] * 2)
    count = np.full((2, jobs.shape[2]), len(jobs))
    parts = weights.of(RewardState(usage, squares, count, np.arange(jobs.shape[2])))
    assert parts.min() >= -1e-12
    by_machine = weights.of_machines(usage, squares, count)
    waiting = parts[PARTS.index("wait")].sum()
    assert by_machine.sum() == pytest.approx(parts.sum() - waiting, abs=1e-9)
    assert waiting == weights.wait * np.arange(jobs.shape[2]).sum()


def test_weights_are_at_least_0():
    with pytest.raises(InvalidValueError, match="contention"):
        Penalties(contention=-1.0)
