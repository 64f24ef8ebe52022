"""Draws stay until a replica is replaced, or exceeds the age or demand of its drawn traces."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.risk.trace_sampling import NONE, ROLES, KeptDraws, Rows, find_expired, sample_again, trace_table

from .oracles import draw
from .strategies import METRICS, NO_DEADLINE, histories

pytestmark = pytest.mark.kernels
CLASSES = np.array([0, 1, -1])


def rows_and_draws(random: Random, count: int, metrics: int) -> tuple[Rows, KeptDraws, float]:
    """Return rows, draws for them with some small differences, and the time."""

    def numbers(least: int, most: int, *shape: int) -> np.ndarray:
        values = [random.randint(least, most) for _ in range(int(np.prod(shape)))]
        return np.array(values, np.int64).reshape(shape)

    def near(values: np.ndarray) -> np.ndarray:
        return values + np.where(numbers(0, 9, *values.shape) == 0, numbers(-1, 1, *values.shape), 0)

    now = float(random.randint(0, 4))
    rows = Rows(
        used=numbers(0, 9, count) > 0,
        leaving=numbers(0, 9, count) == 0,
        key=numbers(1, 3, count).astype(np.uint64),
        generation=numbers(0, 2, count),
        service=numbers(0, len(CLASSES) - 1, count),
        role=numbers(0, ROLES - 1, count),
        created=numbers(-2, 5, count).astype(np.float64),
        largest_demand=numbers(0, 3, count, metrics).astype(np.float64),
        load=numbers(0, 3, count, metrics),
        reported=numbers(0, 1, count) > 0,
        vacant=np.zeros(count, np.bool_),
    )
    age = np.maximum(0.0, now - rows.created)
    drawn_at = near(age)
    shown = near(rows.largest_demand)
    draws = KeptDraws(
        key=near(rows.key.astype(np.int64)).astype(np.uint64),
        generation=near(rows.generation),
        group=near(CLASSES[rows.service] * ROLES + rows.role),
        widening=np.full(count, 2, np.int8),
        age=drawn_at,
        demand=shown,
        valid_age=drawn_at + numbers(0, 2, count),
        valid_demand=shown + numbers(0, 2, count, metrics),
        reported=numbers(0, 1, count) > 0,
    )
    return rows, draws, now


@NO_DEADLINE
@given(st.randoms(use_true_random=False), st.integers(0, 12), st.integers(1, 2))
def test_rows_need_draws_for_another_replica_or_beyond_the_drawn_traces(random, count, metrics) -> None:
    """They are found in order; draws for another replica, a later time, more demand or a reset report are removed."""
    rows, draws, now = rows_and_draws(random, count, metrics)
    age, expired, reported = np.full(count, -1.0), np.full(count, -1), draws.reported.copy()
    found = find_expired(rows, draws, np.arange(count), CLASSES, now, age, expired)
    others, stale = [], []
    for row in np.flatnonzero(rows.used & ~rows.leaving).tolist():
        assert age[row] == max(0.0, now - rows.created[row])
        key = (rows.key[row], rows.generation[row], CLASSES[rows.service[row]] * ROLES + rows.role[row])
        drawn = (draws.key[row], draws.generation[row], draws.group[row])
        is_earlier = age[row] < draws.age[row] or (rows.largest_demand[row] < draws.demand[row]).any()
        is_reset = reported[row] and not rows.reported[row]
        assert draws.reported[row] == (reported[row] or rows.reported[row])
        if key != drawn or is_earlier or is_reset:
            others.append(row)
        if age[row] > draws.valid_age[row] or (rows.largest_demand[row] > draws.valid_demand[row]).any():
            stale.append(row)
    assert expired[:found].tolist() == sorted({*others, *stale})
    assert np.flatnonzero(draws.widening == NONE).tolist() == others
    assert (draws.widening[draws.widening != NONE] == 2).all()


@NO_DEADLINE
@given(histories(), st.randoms(use_true_random=False), st.integers(0, 12), st.integers(0, 2**64 - 1))
def test_samples_are_those_of_the_present_age_and_demand(history, random, count, seed) -> None:
    """All rows in use have them at any time, though only the expired ones are sampled; then none is expired."""
    rows, draws, now = rows_and_draws(random, count, len(METRICS))
    draws = draws._replace(generation=np.full(count, -1))  # of none of these replicas
    names = "bronze", "gold", None
    classes = np.array([history.class_code(name) for name in names])
    age, trace = np.full(count, -1.0), np.full((count, 4), -1, np.int32)
    used = np.flatnonzero(rows.used & ~rows.leaving)

    def expired_rows() -> np.ndarray:
        expired = np.full(count, -1)
        return expired[: find_expired(rows, draws, np.arange(count), classes, now, age, expired)]

    for _ in range(4):
        with np.errstate(over="ignore"):
            columns, demand = np.arange(len(METRICS)), np.zeros(len(METRICS))
            scratch = np.empty(len(history), np.int32)
            of_history = columns, trace_table(history), demand, scratch
            sample_again(np.uint64(seed), rows, draws, expired_rows(), classes, age, *of_history, trace)
        for row in used.tolist():
            replica = names[rows.service[row]], rows.role[row], age[row], rows.largest_demand[row]
            right = draw(history, replica, key=int(rows.key[row]), k=4, seed=seed)
            assert trace[row].tolist() == right.trace.tolist()
            assert draws.widening[row] == right.widening
        assert not len(expired_rows())
        now += random.choice([0, 1, 5, 500, 5000])
        rows.reported[:] ^= np.array([random.randint(0, 3) == 0 for _ in range(count)], np.bool_)
        for largest in rows.largest_demand:
            largest += [random.choice([0, 0, 1, 9]) for _ in METRICS]
