"""Observation, and the two measures of a packing, compared with independent computations."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.risk.gaussian import (
    GaussianPacking,
    TaskStatistics,
    normalised_machines,
    observe,
    overload_by_machine,
    split_observations,
)


def packing_of(machine: list[int]) -> GaussianPacking:
    return GaussianPacking(np.array(machine), max(machine, default=-1) + 1, np.zeros(len(machine), np.bool_))


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 3), st.integers(0, 2**32))
def test_overload_counts_realisations_above_the_capacity(tasks: int, count: int, resources: int, seed: int) -> None:
    """It is q(j)/|E| of [2] section 5.1 for whole numbers, whose totals often equal the capacity."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, (tasks, count, resources)).astype(np.float32)
    machine = rng.integers(0, 3, tasks)
    machine[0] = 2
    found = overload_by_machine(packing_of(machine.tolist()), values, capacity=np.full(resources, 4.0))
    for j in range(3):
        over = 0
        for k in range(count):
            totals = [sum(int(values[i, k, r]) for i in range(tasks) if machine[i] == j) for r in range(resources)]
            over += any(total > 4 for total in totals)
        assert found[j] == over / count


def test_full_machine_is_not_overloaded() -> None:
    """Sums of tenths are inexact, sums of whole percents are exact."""
    percent = np.full((10, 1), 10.0)
    assert overload_by_machine(packing_of([0] * 10), percent, capacity=100.0).tolist() == [0.0]
    assert overload_by_machine(packing_of([0] * 10), percent, capacity=99.0).tolist() == [1.0]


@given(st.integers(1, 50), st.lists(st.integers(1, 100), min_size=1, max_size=9), st.integers(1, 100))
def test_normalised_machines_are_relative_to_the_lower_bound(machines: int, means: list[int], capacity: int) -> None:
    """They are m_abs by ⌈Σ μ / c⌉."""
    found = normalised_machines(machines, np.array(means, float), capacity=float(capacity))
    assert found == machines / math.ceil(sum(means) / capacity)


def test_scarcest_of_several_resources_bounds_the_machines() -> None:
    assert normalised_machines(40, np.array([[10.0, 20.0]]), capacity=[1.0, 1.0]) == 2.0
    assert normalised_machines(40, np.array([[10.0, 20.0]]), capacity=[1.0, 4.0]) == 4.0


@given(st.lists(st.lists(st.floats(0, 100, width=32), min_size=5, max_size=5), min_size=1, max_size=5))
def test_statistics_are_those_of_the_observed_values(rows: list[list[float]]) -> None:
    known = observe(np.array(rows, np.float32), [0.0, 50.0, 75.0, 100.0])
    for task, row in enumerate(rows):
        assert known.mean[task, 0] == pytest.approx(statistics.fmean(row), rel=1e-6)
        assert known.variance[task, 0] == pytest.approx(statistics.pvariance(row), rel=1e-5, abs=1e-6)
        ordered = sorted(row)
        found = [known.percentiles[percent][task, 0] for percent in (0.0, 50.0, 75.0, 100.0)]
        assert found == pytest.approx([ordered[0], ordered[2], ordered[3], ordered[4]])


@given(st.integers(3, 500), st.floats(0.4, 0.6), st.integers(0, 2**32))
def test_observed_and_evaluated_realisations_are_a_partition(count: int, share: float, seed: int) -> None:
    observed, evaluated = split_observations(count, share, seed)
    assert sorted([*observed.tolist(), *evaluated.tolist()]) == list(range(count))
    assert len(observed) == round(share * count)
    assert split_observations(count, share, seed)[0].tolist() == observed.tolist()


def test_split_is_random_and_full_clairvoyance_observes_all() -> None:
    """The observed ones are a random sample, not the first ones; a share of 1 puts every realisation into both sets."""
    observed, _ = split_observations(1000, 0.1, seed=1)
    assert observed.max() > 900
    assert observed.tolist() != split_observations(1000, 0.1, seed=2)[0].tolist()
    assert [part.tolist() for part in split_observations(3, 1.0, seed=1)] == [[0, 1, 2], [0, 1, 2]]


ONES = np.ones((2, 1))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: observe([[1.0, -2.0]]), InvalidValueError, r"realisations: usage\[0, 1, 0\] = -2.0.*>= 0"),
        (lambda: observe([[np.nan, 1.0]]), InvalidValueError, r"usage\[0, 0, 0\] = nan"),
        (lambda: observe([[1.0], [np.inf]]), InvalidValueError, r"usage\[1, 0, 0\] = inf"),
        (lambda: observe([1.0, 2.0]), ConflictError, r"shape \(2,\), expected \(tasks, realisations\)"),
        (lambda: observe(np.zeros((3, 0))), ConflictError, "none of them 0"),
        (lambda: observe([["a"]]), ConflictError, "no array of numbers"),
        (lambda: observe([[1.0], [1.0, 2.0]]), ConflictError, "no array of numbers"),
        (lambda: TaskStatistics(ONES, np.ones((3, 1))), ConflictError, r"variance has .*3, 1\), expected \(2, 1\)"),
        (lambda: split_observations(10, 0.01, 0), ConflictError, "none to observe"),
        (lambda: split_observations(10, 0.0, 0), InvalidValueError, "share"),
        (lambda: overload_by_machine(packing_of([0, 1]), [ONES] * 3, capacity=1), ConflictError, "3 tasks, expected 2"),
        (lambda: normalised_machines(1, np.ones(1), capacity=0.0), ConflictError, "capacity is 0"),
    ],
)
def test_bad_values_are_refused(call: Any, kind: type[PlbError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_no_machine_is_needed_without_tasks() -> None:
    assert normalised_machines(0, [], capacity=1.0) == 0.0
    with pytest.raises(ConflictError, match=r"tasks: mean has shape \(\)"):
        normalised_machines(1, 3.0, capacity=1.0)
