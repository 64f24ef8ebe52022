from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plb.errors import InvalidValueError
from plb.model import Role
from plb.risk import DemandHistory, replica_key

from .oracles import Drawn, draw, plain_eligible
from .strategies import METRICS, NO_DEADLINE, histories, random_history

MASK = 2**64 - 1
LARGE = random_history(4000, seed=5, classes=3)
NOTHING_SEEN = np.zeros(3)


def draw_one(history: DemandHistory, age: float, demand: Any, **settings: Any) -> Drawn:
    """Return the draws for a primary of the first class."""
    return draw(history, (history.classes[0], Role.PRIMARY, age, demand), **settings)


def mixed(word: int) -> int:
    """Return SplitMix64's finaliser in plain integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def plain_trace(seed: int, key: int, repetition: int, low: int, high: int, eligible: set[int]) -> int:
    """Return one trace by the rule in plain Python: the first eligible of 64 draws, else the least hash."""
    golden = 0x9E3779B97F4A7C15
    stream = mixed(mixed((seed + golden) & MASK) ^ key)
    words = mixed((stream + (repetition + 1) * golden) & MASK)
    for number in range(64):
        row = low + (((mixed((words + (number + 1) * golden) & MASK) >> 32) * (high - low)) >> 32)
        if row in eligible:
            return row
    salted = mixed(words ^ 0xD6E8FEB86659FD93)
    return min(eligible, key=lambda row: mixed((salted + row * golden) & MASK))


@pytest.mark.kernels
@pytest.mark.parametrize("share", [0.5, 0.05, 0.004], ids=["most draws hit", "few draws hit", "mostly least hash"])
def test_draws_follow_the_documented_rule_bit_for_bit(share: float) -> None:
    """The kernel equals an independent implementation in plain integers, so draws are the same on every machine."""
    low, high = LARGE.group_start[0], LARGE.group_start[1]
    age = float(np.quantile(LARGE.lifetime[low:high], 1 - share))
    _, rows = plain_eligible(LARGE, "class0", Role.PRIMARY, age, NOTHING_SEEN)
    draws = draw_one(LARGE, age, NOTHING_SEEN, key=2**63 + 5, k=40)
    eligible = set(rows)
    expected = [plain_trace(11, 2**63 + 5, k, int(low), int(high), eligible) for k in range(40)]
    assert draws.trace.tolist() == expected


@pytest.mark.parametrize("eligible", [500, 100, 20, 5, 2], ids=lambda n: f"{n} of 2000 eligible")
def test_draws_are_uniform_over_the_eligible_set_as_it_shrinks(eligible: int) -> None:
    """Chi-square tests at each size, from plain draws to the least hash (5 and 2 of 2000: 64 draws mostly miss).

    The draws of one replica use the same random numbers at every size; each size must be uniform alone.
    """
    traces = 2000
    history = lifetimes_in_order(traces)
    draws = draw_one(history, float(traces - eligible), [0.0], k=200 * eligible)
    counts = np.bincount(draws.trace, minlength=traces)
    assert counts[: traces - eligible].sum() == 0
    assert stats.chisquare(counts[traces - eligible :]).pvalue > 1e-3


def lifetimes_in_order(traces: int) -> DemandHistory:
    """Return traces of one class with lifetimes 0, 1, 2 and so on: age a leaves the last traces - a."""
    one = np.ones((traces, 1))
    return DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"] * traces,
        role=np.zeros(traces, int),
        lifetime=np.arange(traces),
        level=one,
        initial=one,
        growth=0 * one,
        maximum=one,
    )


@pytest.mark.parametrize("other", ["key", "repetition"])
def test_draws_of_different_replicas_and_repetitions_are_independent(other: str) -> None:
    """A contingency table of pairs of draws shows no association (chi-square, fixed seeds)."""
    history = lifetimes_in_order(8)
    trace = [draw_one(history, 0.0, [0.0], key=key, k=20_000, seed=3).trace for key in (1, 2)]
    pair = (trace[0], trace[1]) if other == "key" else (trace[0][:-1], trace[0][1:])
    table = np.histogram2d(*pair, bins=8)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


@NO_DEADLINE
@given(histories(), st.integers(0, MASK), st.lists(st.floats(0, 12), min_size=2, max_size=2), st.data())
def test_eligible_draws_are_kept(history: DemandHistory, key: int, ages: list[float], data: st.DataObject) -> None:
    """Age and largest demand grow; within one widening only traces that are no longer eligible are replaced."""
    first = np.array(data.draw(st.tuples(*[st.floats(0, 6)] * len(METRICS))))
    second = first + np.array(data.draw(st.tuples(*[st.floats(0, 3)] * len(METRICS))))
    before, after = draw_one(history, min(ages), first, key=key), draw_one(history, max(ages), second, key=key)
    if before.widening != after.widening:
        return
    _, rows = plain_eligible(history, history.classes[0], Role.PRIMARY, max(ages), second.tolist())
    still = np.isin(before.trace, rows)
    assert (after.trace[still] == before.trace[still]).all()


@NO_DEADLINE
@given(histories(), st.integers(0, MASK), st.integers(0, 14), st.tuples(st.integers(0, 10), st.integers(0, 10)))
def test_horizon_of_validity_is_exact(history: DemandHistory, key: int, age: int, demand: tuple[int, int]) -> None:
    draws = draw_one(history, float(age), demand, key=key)
    limits = [draws.valid_age, *draws.valid_demand]
    assert all(limit >= now for limit, now in zip(limits, (age, *demand), strict=True) if draws.widening == 0)
    at = [min(limit, 1e9) for limit in limits]
    assert same(draws, draw_one(history, at[0], at[1:], key=key))
    for i, limit in enumerate(limits):
        if math.isfinite(limit):
            beyond = [float(age), *demand]
            beyond[i] = math.nextafter(limit, math.inf)
            assert not same(draws, draw_one(history, beyond[0], beyond[1:], key=key))


def same(draws: Drawn, others: Drawn) -> bool:
    return bool((draws.trace == others.trace).all() and draws.widening == others.widening)


def test_horizon_is_infinite_if_a_criterion_does_not_apply() -> None:
    history = lifetimes_in_order(10)
    older = draw_one(history, 50.0, [0.5])
    assert math.isinf(older.valid_age)
    assert older.valid_demand == [1.0]
    larger = draw_one(history, 5.0, [2.0])
    assert larger.valid_age == larger.trace.min()
    assert np.isinf(larger.valid_demand).all()


def test_seed_and_key_both_change_the_draws() -> None:
    """Seeds that do not fit into 64 bits are no others modulo 2^64."""
    seeds = [(seed, 1) for seed in (0, 1, 2**64 - 1, 2**64, 2**64 + 1, 10**40)]
    drawn = [draw_one(LARGE, 0.0, NOTHING_SEEN, seed=seed, key=key).trace for seed, key in [*seeds, (0, 2)]]
    for trace, other in itertools.combinations(drawn, 2):
        assert (trace != other).mean() > 0.9


def test_keys_are_stable_and_distinguish_partitions_and_slots() -> None:
    """The key comes from the bytes of the name, not from Python's salted hash; the value is fixed."""
    assert replica_key("orders/0", 0) == PINNED_KEY
    keys = {replica_key(f"p{i}", slot) for i in range(2000) for slot in range(3)}
    assert len(keys) == 6000
    assert replica_key("1/p", 2) != replica_key("p", 21)
    with pytest.raises(InvalidValueError, match="partition orders: slot = -1"):
        replica_key("orders", -1)


PINNED_KEY = 18351571326815898494
