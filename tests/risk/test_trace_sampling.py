from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.model import Role
from plb.risk import DemandHistory, TraceDraws, TraceSampler, eligible_traces, replica_key

from .strategies import METRICS, NO_DEADLINE, histories, random_history

MASK = 2**64 - 1
LARGE = random_history(4000, seed=5, classes=3)
NOTHING_SEEN = np.zeros(3)


def draw_one(
    history: DemandHistory, age: float, demand: Any, *, key: int = 9, code: int = 0, k: int = 50
) -> TraceDraws:
    """Return the draws for one replica in the role of a primary."""
    return TraceSampler(history, repetitions=k, seed=11).draw([key], [code], [Role.PRIMARY], [age], [demand])


def replicas(count: int, *, seed: int, history: DemandHistory = LARGE) -> tuple[Any, ...]:
    """Return arguments of `draw` for some replicas, known and unknown, young and old."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**64, count, dtype=np.uint64)
    codes, roles = rng.integers(-1, len(history.classes), count), rng.integers(0, 3, count)
    demands = rng.lognormal(0.5, 1.0, (count, len(history.metrics)))
    return keys, codes, roles, rng.exponential(10 * 86400.0, count), demands


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
    for draw in range(64):
        row = low + (((mixed((words + (draw + 1) * golden) & MASK) >> 32) * (high - low)) >> 32)
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
    _, rows = eligible_traces(LARGE, tenant_class="class0", role=Role.PRIMARY, age=age, largest_demand=NOTHING_SEEN)
    draws = draw_one(LARGE, age, NOTHING_SEEN, key=2**63 + 5, k=40)
    eligible = set(rows.tolist())
    expected = [plain_trace(11, 2**63 + 5, k, int(low), int(high), eligible) for k in range(40)]
    assert draws.trace[0].tolist() == expected


@pytest.mark.kernels
@NO_DEADLINE
@given(histories(), st.integers(0, MASK), st.floats(0, 14), st.tuples(st.floats(0, 10), st.floats(0, 10)))
def test_every_drawn_trace_is_eligible(
    history: DemandHistory, key: int, age: float, demand: tuple[float, float]
) -> None:
    """Draws come from the eligible set of the reported widening, for any criteria."""
    level, rows = eligible_traces(
        history, tenant_class=history.classes[0], role=Role.PRIMARY, age=age, largest_demand=demand
    )
    draws = draw_one(history, age, demand, key=key)
    assert draws.widening[0] == level
    assert set(draws.trace[0].tolist()) <= set(rows.tolist())


@pytest.mark.parametrize("eligible", [500, 100, 20, 5, 2], ids=lambda n: f"{n} of 2000 eligible")
def test_draws_are_uniform_over_the_eligible_set_as_it_shrinks(eligible: int) -> None:
    """Chi-square tests at each size, from plain draws to the least hash (5 and 2 of 2000: 64 draws mostly miss).

    The draws of one replica use the same random numbers at every size; each size must be uniform alone.
    """
    traces = 2000
    history = lifetimes_in_order(traces)
    draws = draw_one(history, float(traces - eligible), [0.0], k=200 * eligible)
    counts = np.bincount(draws.trace[0], minlength=traces)
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


@pytest.mark.parametrize("eligible", [30, 3], ids=["drawn", "by least hash"])
def test_redrawn_traces_are_uniform(eligible: int) -> None:
    """Repetitions that lose their trace are uniform over the remaining set; so are the kept ones."""
    history, k = lifetimes_in_order(600), 60_000
    before = draw_one(history, 600.0 - 2 * eligible, [0.0], k=k).trace[0]
    after = draw_one(history, 600.0 - eligible, [0.0], k=k).trace[0]
    redrawn = before < 600 - eligible
    for part in (after[redrawn], after[~redrawn]):
        assert len(part) > k / 3
        assert stats.chisquare(np.bincount(part - (600 - eligible), minlength=eligible)).pvalue > 1e-3


@pytest.mark.parametrize("other", ["key", "repetition"])
def test_draws_of_different_replicas_and_repetitions_are_independent(other: str) -> None:
    """A contingency table of pairs of draws shows no association (chi-square, fixed seeds)."""
    history = lifetimes_in_order(8)
    sampler = TraceSampler(history, repetitions=20_000, seed=3)
    trace = sampler.draw([1, 2], [0, 0], [0, 0], [0, 0], [[0.0], [0.0]]).trace
    pair = (trace[0], trace[1]) if other == "key" else (trace[0, :-1], trace[0, 1:])
    table = np.histogram2d(*pair, bins=8)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


@NO_DEADLINE
@given(histories(), st.integers(0, MASK), st.lists(st.floats(0, 12), min_size=2, max_size=2), st.data())
def test_eligible_draws_are_kept(history: DemandHistory, key: int, ages: list[float], data: st.DataObject) -> None:
    """Age and largest demand grow; within one widening only traces that are no longer eligible are replaced."""
    first = np.array(data.draw(st.tuples(*[st.floats(0, 6)] * len(METRICS))))
    second = first + np.array(data.draw(st.tuples(*[st.floats(0, 3)] * len(METRICS))))
    before, after = draw_one(history, min(ages), first, key=key), draw_one(history, max(ages), second, key=key)
    if before.widening[0] != after.widening[0]:
        return
    _, rows = eligible_traces(
        history, tenant_class=history.classes[0], role=Role.PRIMARY, age=max(ages), largest_demand=second
    )
    still = np.isin(before.trace[0], rows)
    assert (after.trace[0][still] == before.trace[0][still]).all()


@pytest.mark.kernels
@NO_DEADLINE
@given(histories(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 10), st.integers(0, 10)), min_size=2))
def test_earlier_samples_do_not_change_the_result(history: DemandHistory, seen: list[tuple[int, int, int]]) -> None:
    """Earlier draws save work and do not change the result, for any growth of age and demand."""
    sampler = TraceSampler(history, repetitions=30, seed=11)
    replica = ([7, 8], [0, -1], [Role.PRIMARY, Role.SECONDARY])
    before = None
    for age, *demand in np.maximum.accumulate(np.array(seen, np.float64)):
        from_scratch = sampler.draw(*replica, [age, age], [demand, demand])
        continued = sampler.draw(*replica, [age, age], [demand, demand], before=before)
        assert same(continued, from_scratch)
        before = continued


def test_kept_draws_survive_a_shrink_by_least_hash() -> None:
    """If 64 draws miss, the row of least hash stays as long as it is eligible."""
    history = lifetimes_in_order(5000)
    before, after = (draw_one(history, age, [0.0], k=400).trace[0] for age in (4990.0, 4995.0))
    still = before >= 4995
    assert 100 < still.sum() < 300
    assert (after[still] == before[still]).all()


@NO_DEADLINE
@given(histories(), st.integers(0, MASK), st.integers(0, 14), st.tuples(st.integers(0, 10), st.integers(0, 10)))
def test_horizon_of_validity_is_exact(history: DemandHistory, key: int, age: int, demand: tuple[int, int]) -> None:
    """Up to the horizon nothing changes; the next number beyond it changes a draw or the widening."""
    draws = draw_one(history, float(age), demand, key=key)
    limits = [draws.valid_age[0], *draws.valid_demand[0]]
    assert all(limit >= now for limit, now in zip(limits, (age, *demand), strict=True) if draws.widening[0] == 0)
    at = [min(limit, 1e9) for limit in limits]
    assert same(draws, draw_one(history, at[0], at[1:], key=key))
    for i, limit in enumerate(limits):
        if math.isfinite(limit):
            beyond = [float(age), *demand]
            beyond[i] = math.nextafter(limit, math.inf)
            assert not same(draws, draw_one(history, beyond[0], beyond[1:], key=key))


def same(one: TraceDraws, other: TraceDraws) -> bool:
    """Return whether two draws have the same traces at the same widening."""
    return bool((one.trace == other.trace).all() and (one.widening == other.widening).all())


def test_horizon_is_infinite_if_a_criterion_does_not_apply() -> None:
    """Without the criterion of lifetime or maxima, no age or demand ends the validity of the draws."""
    history = lifetimes_in_order(10)
    older = draw_one(history, 50.0, [0.5])
    assert math.isinf(older.valid_age[0])
    assert older.valid_demand[0].tolist() == [1.0]
    larger = draw_one(history, 5.0, [2.0])
    assert larger.valid_age[0] == larger.trace[0].min()
    assert np.isinf(larger.valid_demand).all()


def test_draws_do_not_depend_on_order_and_split_of_a_batch() -> None:
    """The draws of a replica depend only on it: shuffled, split and single draws agree with the batch."""
    given = replicas(60, seed=1)
    sampler = TraceSampler(LARGE, repetitions=30, seed=2)
    whole = sampler.draw(*given)
    order = np.random.default_rng(0).permutation(60)
    shuffled = sampler.draw(*(column[order] for column in given))
    assert (shuffled.trace == whole.trace[order]).all()
    assert (shuffled.valid_demand == whole.valid_demand[order]).all()
    parts = [sampler.draw(*(column[part] for column in given)) for part in (slice(0, 1), slice(1, 17), slice(17, 60))]
    assert (np.concatenate([part.trace for part in parts]) == whole.trace).all()
    assert (np.concatenate([part.valid_age for part in parts]) == whole.valid_age).all()


def test_more_repetitions_keep_the_first_ones() -> None:
    """Repetition k does not depend on K, so a finer estimate extends a coarser one."""
    given = replicas(20, seed=3)
    few, many = (TraceSampler(LARGE, repetitions=k).draw(*given) for k in (10, 40))
    assert (many.trace[:, :10] == few.trace).all()


def test_seed_and_key_both_change_the_draws() -> None:
    """Another seed or another key gives other traces."""
    given = [[0], [Role.PRIMARY], [0.0], [NOTHING_SEEN]]
    base = TraceSampler(LARGE, seed=0).draw([1], *given).trace
    assert (TraceSampler(LARGE, seed=1).draw([1], *given).trace != base).mean() > 0.9
    assert (TraceSampler(LARGE, seed=0).draw([2], *given).trace != base).mean() > 0.9


def test_keys_are_stable_and_distinguish_partitions_and_slots() -> None:
    """The key comes from the bytes of the name, not from Python's salted hash; the value is fixed."""
    assert replica_key("orders/0", 0) == PINNED_KEY
    keys = {replica_key(f"p{i}", slot) for i in range(2000) for slot in range(3)}
    assert len(keys) == 6000
    assert replica_key("1/p", 2) != replica_key("p", 21)
    with pytest.raises(InvalidValueError, match="partition orders: slot = -1"):
        replica_key("orders", -1)


PINNED_KEY = 18351571326815898494


def test_empty_batch_needs_no_draw() -> None:
    """An empty batch gives empty arrays of the right shapes."""
    draws = TraceSampler(LARGE, repetitions=7).draw([], [], [], [], np.zeros((0, 3)))
    assert draws.trace.shape == (0, 7)
    assert draws.valid_demand.shape == (0, 3)


GOOD = {"key": [1, 2], "tenant_class": [0, -1], "role": [0, 1], "age": [0.0, 5.0], "largest_demand": np.zeros((2, 3))}
REFUSED = {
    "an unknown class": ({"tenant_class": [0, 3]}, InvalidValueError, "replica 1: tenant_class = 3.*>= -1 and <= 2"),
    "an unknown role": ({"role": [3, 0]}, InvalidValueError, "replica 0: role = 3.*<= 2"),
    "a negative age": ({"age": [0.0, -1.0]}, InvalidValueError, "replica 1: age = -1.0.*>= 0"),
    "an age that is no number": ({"age": [np.nan, 0.0]}, InvalidValueError, "replica 0: age = nan"),
    "a negative demand": (
        {"largest_demand": [[0, 0, 0], [0, -2, 0]]},
        InvalidValueError,
        r"replica 1: largest_demand\[memory\] = -2.0",
    ),
    "another number of metrics": (
        {"largest_demand": np.zeros((2, 2))},
        ConflictError,
        r"largest_demand has shape \(2, 2\), expected \(2, 3\)",
    ),
    "another number of replicas": ({"age": [0.0]}, ConflictError, r"age has shape \(1,\), expected \(2,\)"),
}


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_replicas_are_refused_by_position_field_and_range(
    changes: dict[str, Any], kind: type[PlbError], message: str
) -> None:
    """No trace is drawn for invalid values."""
    with pytest.raises(kind, match=message):
        TraceSampler(LARGE).draw(**(GOOD | changes))


def test_seeds_of_any_size_draw_traces_of_their_own() -> None:
    """Seeds that do not fit into 64 bits are no others modulo 2^64."""
    drawn = [TraceSampler(LARGE, seed=seed).draw(**GOOD).trace for seed in (0, 2**64 - 1, 2**64, 2**64 + 1, 10**40)]
    assert len({trace.tobytes() for trace in drawn}) == len(drawn)


@pytest.mark.parametrize(("field", "value"), [("repetitions", 0), ("seed", -1), ("seed", 0.5)])
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    """K is at least 1, and the seed a whole number of at least 0."""
    with pytest.raises(InvalidValueError, match=f"trace sampler: {field} = {value}"):
        TraceSampler(LARGE, **{field: value})
