"""Traces are taken in proportion to how well they match what the replica has shown, else as eligible traces are."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.risk import (
    Conditioning,
    DemandHistory,
    MonteCarloRisk,
    ReplicaForecast,
    TraceDraws,
    TraceSampler,
    Widening,
    eligible_traces,
)
from plb.risk.trace_weights import step_of_age, step_of_demand

from .strategies import METRICS, NO_DEADLINE, conditionings, histories, random_history
from .test_trace_sampling import MASK, mixed, replicas, same

LARGE = random_history(4000, seed=5, classes=3)
DAY = 86_400.0
TREND = {"cpu": False, "memory": True, "disk": True}
SEED = 11


def plain_step(age: float) -> float:
    """Return the start of the step of an age: 0, or four steps between 600 s and each of its doublings."""
    bounds = [0.0, *(600.0 * 2.0**doubling * (1 + part / 4) for doubling in range(40) for part in range(4))]
    return max(bound for bound in bounds if bound < age or bound == 0.0)


def plain_weights(
    history: DemandHistory,
    conditioning: Conditioning,
    code: int,
    role: Role,
    age: float,
    demand: Any,
) -> tuple[Widening, dict[int, float]]:
    """Return the level of widening and the weight of each eligible row, in plain NumPy."""
    name = history.classes[code] if code >= 0 else None
    level, rows = eligible_traces(history, tenant_class=name, role=role, age=age, largest_demand=demand)
    start = plain_step(age)
    shown_at_age, squared = history.demand(start, rows), np.zeros(len(rows))
    for name, trend in conditioning.trend.items():
        metric = history.metrics.index(name)
        of_class = [history.maximum[history.tenant_class == one, metric].max() for one in range(len(history.classes))]
        floor = np.array([0.01 * float(largest) or 1.0 for largest in of_class])[history.tenant_class[rows]]
        recorded = shown_at_age[:, metric] if trend else history.maximum[rows, metric].astype(np.float64)
        share = 1.0 if trend else min(1.0, start / DAY)
        step = min(1.0, conditioning.bandwidth) / 8
        shown = (np.floor(np.log(demand[metric] + floor) / step) + 0.5) * step
        squared += share * ((np.log(recorded + floor) - shown) / conditioning.bandwidth) ** 2
    weights = np.where(squared <= 16.0, np.exp(-squared / 2), 0.0)
    if not weights.any():
        weights[:] = 1.0
    return level, dict(zip(rows.tolist(), weights.tolist(), strict=True))


def draw_one(
    history: DemandHistory, conditioning: Conditioning | None, age: float, demand: Any, *, code: int = 0, k: int = 50
) -> TraceDraws:
    """Return the draws for one primary with a report."""
    sampler = TraceSampler(history, repetitions=k, seed=SEED, conditioning=conditioning)
    return sampler.draw([9], [code], [Role.PRIMARY], [age], [demand])


def plain_trace(key: int, repetition: int, low: int, high: int, weights: dict[int, float]) -> int:
    """Return one trace by the rule in plain Python: the first of 64 draws that is taken, else the least time."""
    golden = 0x9E3779B97F4A7C15

    def exponential(word: int) -> float:
        return -math.log1p(-(word >> 11) / 2.0**53)

    stream = mixed(mixed((SEED + golden) & MASK) ^ key)
    words = mixed((stream + (repetition + 1) * golden) & MASK)
    chances = mixed(words ^ 0xE7037ED1A0B428DB)
    for draw in range(1, 65):
        row = low + (((mixed((words + draw * golden) & MASK) >> 32) * (high - low)) >> 32)
        weight = weights.get(row, 0.0)
        if weight > 0.0 and -math.log(weight) <= exponential(mixed((chances + draw * golden) & MASK)):
            return row
    salted = mixed(words ^ 0xD6E8FEB86659FD93)
    times = {row: exponential(mixed((salted + row * golden) & MASK)) / w for row, w in weights.items() if w > 0.0}
    return min(times, key=times.__getitem__)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("bandwidth", "age"), [(3.0, 700.0), (0.5, DAY / 2), (0.02, 0.0)], ids=["most are taken", "few", "mostly by time"]
)
def test_draws_follow_the_documented_rule(bandwidth: float, age: float) -> None:
    """The kernels equal an independent implementation in plain Python."""
    low, high = LARGE.group_start[0], LARGE.group_start[1]
    conditioning, demand = Conditioning(trend=TREND, bandwidth=bandwidth), [1.5, 1.0, 0.5]
    level, weights = plain_weights(LARGE, conditioning, 0, Role.PRIMARY, age, demand)
    assert level == Widening.CLASS_ROLE_AGE_DEMAND
    draws = draw_one(LARGE, conditioning, age, demand, k=40)
    assert draws.trace[0].tolist() == [plain_trace(9, k, int(low), int(high), weights) for k in range(40)]


def steady_history(traces: int) -> DemandHistory:
    """Return traces of one class with levels from 1 to 10 and lifetimes that rise with them."""
    level = np.linspace(1.0, 10.0, traces)[:, np.newaxis]
    return DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"] * traces,
        role=np.zeros(traces, int),
        lifetime=np.arange(1, traces + 1) * 1000.0,
        level=level,
        initial=level / 2,
        growth=np.full((traces, 1), 5000.0),
        maximum=level,
    )


CASES = {
    "most draws are taken": (20, 2.0, True, 700.0, 2.0),
    "few draws are taken": (200, 0.1, True, 3000.0, 3.0),
    "mostly by least time": (2000, 0.02, True, 1_900_000.0, 9.8),
    "without a trend, after half a day": (40, 0.3, False, DAY / 2, 5.0),
    "without a trend, in the first ten minutes": (20, 0.3, False, 600.0, 2.0),
    "no trace is near": (20, 0.002, True, 100.0, 3.0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_traces_are_drawn_in_proportion_to_their_weights(case: tuple[int, float, bool, float, float]) -> None:
    """Chi-square tests against the weights by enumeration; the rarest traces are counted together."""
    traces, bandwidth, trend, age, demand = case
    history, conditioning = steady_history(traces), Conditioning(trend={"cpu": trend}, bandwidth=bandwidth)
    _, weights = plain_weights(history, conditioning, 0, Role.PRIMARY, age, [demand])
    expected = np.zeros(traces)
    expected[list(weights)] = list(weights.values())
    k = 40_000
    expected *= k / expected.sum()
    counts = np.bincount(draw_one(history, conditioning, age, [demand], k=k).trace[0], minlength=traces)
    assert not counts[expected == 0.0].any()
    often = expected >= 10.0
    assert often.any()
    rare = [expected[~often].sum(), counts[~often].sum()]
    compared = [np.append(expected[often], rare[0]), np.append(counts[often], rare[1])]
    if rare[0] < 10.0:
        compared = [np.append(part[:-2], part[-2] + part[-1]) for part in compared]
    assert stats.chisquare(compared[1], compared[0]).pvalue > 1e-3


@pytest.mark.kernels
@NO_DEADLINE
@given(
    histories(),
    conditionings(),
    st.integers(-1, 1),
    st.integers(0, 100_000),
    st.tuples(st.floats(0, 10), st.floats(0, 10)),
)
def test_every_drawn_trace_has_a_weight(
    history: DemandHistory, conditioning: Conditioning, code: int, age: int, demand: tuple[float, float]
) -> None:
    """Draws come from the level of widening of eligible draws, and from the traces with a weight there."""
    code = min(code, len(history.classes) - 1)
    level, weights = plain_weights(history, conditioning, code, Role.PRIMARY, float(age), demand)
    draws = draw_one(history, conditioning, float(age), demand, code=code)
    assert draws.widening[0] == level
    assert set(draws.trace[0].tolist()) <= {row for row, weight in weights.items() if weight > 0.0}


@pytest.mark.kernels
@pytest.mark.parametrize("bandwidth", [math.inf, 1e9])
def test_without_bound_for_differences_draws_are_those_of_eligible_traces(bandwidth: float) -> None:
    """The limit case is the paper's: row for row the same traces, with weights that are all 1."""
    given = replicas(60, seed=1)
    conditioning = Conditioning(trend=TREND, bandwidth=bandwidth)
    weighed = TraceSampler(LARGE, repetitions=40, seed=SEED, conditioning=conditioning).draw(*given)
    assert same(weighed, TraceSampler(LARGE, repetitions=40, seed=SEED).draw(*given))


def test_an_infinite_bandwidth_has_the_expiry_of_eligible_traces() -> None:
    """Nothing but eligibility ends such draws."""
    given = replicas(60, seed=1)
    conditioning = Conditioning(trend=TREND, bandwidth=math.inf)
    weighed = TraceSampler(LARGE, repetitions=40, seed=SEED, conditioning=conditioning).draw(*given)
    plain = TraceSampler(LARGE, repetitions=40, seed=SEED).draw(*given)
    assert np.array_equal(weighed.valid_age, plain.valid_age)
    assert np.array_equal(weighed.valid_demand, plain.valid_demand)


def test_replicas_without_a_report_have_the_draws_of_eligible_traces() -> None:
    """Only those with a report have other ones."""
    given, conditioning = replicas(60, seed=1), Conditioning(trend=TREND)
    reported = np.arange(60) % 2 == 0
    weighed = TraceSampler(LARGE, seed=SEED, conditioning=conditioning).draw(*given, reported=reported)
    plain = TraceSampler(LARGE, seed=SEED).draw(*given)
    assert (weighed.trace[~reported] == plain.trace[~reported]).all()
    assert (weighed.valid_age[~reported] == plain.valid_age[~reported]).all()
    assert (weighed.trace[reported] != plain.trace[reported]).mean() > 0.2


@pytest.mark.kernels
@NO_DEADLINE
@given(
    histories(),
    conditionings(),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 10), st.integers(0, 10), st.booleans()), min_size=2),
)
def test_earlier_samples_do_not_change_weighed_draws(
    history: DemandHistory, conditioning: Conditioning, seen: list[tuple[int, int, int, bool]]
) -> None:
    """Earlier draws change no result, for any growth of age and demand, and before and after the first report."""
    sampler = TraceSampler(history, repetitions=30, seed=SEED, conditioning=conditioning)
    replica = ([7, 8], [0, -1], [Role.PRIMARY, Role.SECONDARY])
    before = None
    for age, *demand, reported in np.maximum.accumulate(np.array(seen, np.float64)):
        given: dict[str, Any] = {"age": [age, age * 1000], "largest_demand": [demand, demand]}
        given["reported"] = [bool(reported), True]
        from_scratch = sampler.draw(*replica, **given)
        continued = sampler.draw(*replica, **given, before=before)
        assert same(continued, from_scratch)
        before = continued


@NO_DEADLINE
@given(
    histories(),
    conditionings(),
    st.integers(0, 200_000),
    st.tuples(st.integers(0, 10), st.integers(0, 10)),
    st.booleans(),
)
def test_weighed_draws_do_not_change_before_they_expire(
    history: DemandHistory, conditioning: Conditioning, age: int, demand: tuple[int, int], reported: bool
) -> None:
    """Up to the ages and demands to which they are valid, draws from scratch are the same."""
    sampler = TraceSampler(history, repetitions=30, seed=SEED, conditioning=conditioning)

    def draw(age: float, demand: Any) -> TraceDraws:
        return sampler.draw([9], [0], [Role.PRIMARY], [age], [demand], reported=[reported])

    draws = draw(float(age), demand)
    oldest, largest = min(draws.valid_age[0], 1e9), np.minimum(draws.valid_demand[0], 1e9)
    for later, more in ((oldest, demand), (float(age), largest), (oldest, largest), ((age + oldest) / 2, largest)):
        assert same(draws, draw(max(later, float(age)), np.maximum(more, demand)))


@pytest.mark.kernels
@NO_DEADLINE
@given(st.floats(0.0, 1e9) | st.integers(0, 4000).map(lambda number: 150.0 * number))
def test_steps_of_age_follow_each_other(age: float) -> None:
    """An age is above the start of its step and not above the end, and the end is the start of the next one."""
    start, end = step_of_age(age)
    assert start == plain_step(age)
    assert start < age <= end or (start, end) == (0.0, 600.0)
    assert step_of_age(math.nextafter(end, math.inf))[0] == end


@pytest.mark.kernels
@NO_DEADLINE
@given(st.floats(0.0, 1e308), st.floats(1e-6, 1e6), st.sampled_from([1e-9, 0.0125, 0.125]), st.floats(0.0, 1.0))
def test_steps_of_demand_hold_up_to_their_end(demand: float, floor: float, step: float, part: float) -> None:
    """All demand up to the end has the same logarithm, at most half a step off; a little beyond it has the next one."""
    middle, end = step_of_demand(demand, floor, step)
    assert abs(middle - math.log(demand + floor)) <= step / 2 * (1 + 1e-6)
    assert step_of_demand(demand + part * (end - demand), floor, step) == (middle, end)
    if end < 1e300:
        beyond = step_of_demand((end + floor) * (1 + 1e-11) - floor, floor, step)[0]
        assert beyond == pytest.approx(middle + step)
        assert beyond > middle


def test_few_draws_change_with_a_little_more_demand() -> None:
    """Common random numbers: five percent more demand gives most repetitions the same trace."""
    conditioning = Conditioning(trend=TREND)
    one, other = (draw_one(LARGE, conditioning, DAY, np.array([2.0, 1.0, 1.0]) * more, k=1000) for more in (1.0, 1.05))
    assert 0.75 < (one.trace == other.trace).mean() < 1.0


def test_draws_resemble_what_was_shown() -> None:
    """Of two kinds of tenants, a replica that has shown little has mostly those that had shown little at its age."""
    small, large = np.full(50, 2.0), np.full(50, 40.0)
    level = np.concatenate([small, large])[:, np.newaxis]
    history = DemandHistory.from_columns(
        ["disk"],
        tenant_class=["gold"] * 100,
        role=np.zeros(100, int),
        lifetime=np.full(100, 1e6),
        level=level,
        initial=level / 2,
        growth=np.full((100, 1), DAY),
        maximum=level,
    )
    draws = draw_one(history, Conditioning(trend={"disk": True}), 3600.0, [1.1], k=400)
    assert (history.level[draws.trace[0], 0] == 2.0).all()
    assert 0.4 < (history.level[draw_one(history, None, 3600.0, [1.1], k=400).trace[0], 0] == 2.0).mean() < 0.6


def test_metrics_that_are_not_compared_do_not_count() -> None:
    """Their demand changes nothing but eligibility, and does not end the draws."""
    conditioning = Conditioning(trend={"disk": True})
    one, other = (draw_one(LARGE, conditioning, 0.0, [cpu, 0.01, 1.0]) for cpu in (0.01, 0.02))
    assert same(one, other)
    assert 1.0 < one.valid_demand[0, 2] < 1.07
    assert one.valid_demand[0, 0] == LARGE.maximum[one.trace[0], 0].min() > 0.02


def test_risk_weighs_traces_for_replicas_that_have_shown_demand() -> None:
    """A sample of zero is shown demand; a replica without any has the draws of eligible traces."""
    quanta = dict.fromkeys(LARGE.metrics, 0.25)
    plain = MonteCarloRisk(LARGE, quanta=quanta)
    weighed = MonteCarloRisk(LARGE, quanta=quanta, conditioning=Conditioning(trend=TREND))
    nothing = dict.fromkeys(LARGE.metrics, 0.0)
    new = ReplicaForecast("class0", Role.PRIMARY, 0.0, nothing, 1)
    idle = attrs.evolve(new, samples={name: [0.0] for name in LARGE.metrics}, seen=1)
    busy = attrs.evolve(new, largest_demand=nothing | {"disk": 0.5})
    changed = [
        (weighed.draws([one], now=DAY).trace != plain.draws([one], now=DAY).trace).any() for one in (new, idle, busy)
    ]
    assert changed == [False, True, True]


def engine_with(estimator: str) -> PlacementAndLoadBalancing:
    """Return an engine with two replicas, of which one has reported, and a history with one more metric."""
    metrics = [Metric("cpu", trend=False), Metric("disk")]
    config = PlbConfig(metrics=metrics, estimator=estimator, repetitions=50)
    engine = PlacementAndLoadBalancing(config, seed=3, history=LARGE)
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 100, "disk": 100}))
    engine.update_service(Service("db", tenant_class="class1", target_replicas=2))
    ends = (Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1"))
    engine.update_partition(Partition("db/0", service="db", replicas=ends))
    engine.report_load("db/0", "n0", {"cpu": 1.0, "disk": 0.5})
    engine.refresh(DAY / 2)
    return engine


@pytest.mark.kernels
def test_engine_has_the_draws_of_the_risk_model() -> None:
    """The same traces for its replicas, with its metrics and their trends; with a huge bandwidth those of [1]."""

    def traces_of(estimator: str) -> np.ndarray:
        engine = engine_with(estimator)
        return engine._planner.demand_forecast.trace[[one.index for one in engine.replicas("db/0")]]

    engine = engine_with("monte-carlo")
    keys = engine._state.rows.key[[one.index for one in engine.replicas("db/0")]]
    conditioning = Conditioning(trend={"cpu": False, "disk": True}, bandwidth=0.25)
    sampler = TraceSampler(LARGE, repetitions=50, seed=3, conditioning=conditioning)
    demand, roles = [[1.0, 0.0, 0.5], [0.0] * 3], [Role.PRIMARY, Role.SECONDARY]
    right = sampler.draw(keys, [1, 1], roles, [DAY / 2] * 2, demand, reported=[True, False])
    assert np.array_equal(traces_of("monte-carlo:draws=conditioned,bandwidth=0.25"), right.trace)
    plain = traces_of("monte-carlo")
    assert np.array_equal(traces_of("monte-carlo:draws=conditioned,bandwidth=1e9"), plain)
    assert not np.array_equal(plain, right.trace)


REFUSED = {
    "no bandwidth": ({"trend": {}, "bandwidth": 0.0}, "conditioned draws: bandwidth = 0.0.*> 0"),
    "a negative bandwidth": ({"trend": {}, "bandwidth": -math.inf}, "bandwidth = -inf"),
    "a bandwidth that is no number": ({"trend": {}, "bandwidth": math.nan}, "bandwidth = nan"),
    "names of metrics": ({"trend": ["cpu"]}, "trend = .*True or False by metric"),
    "a number for a metric": ({"trend": {"cpu": 1}}, r"trend\[cpu\] = 1.*True or False"),
}


@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_conditioning_is_refused(settings: dict[str, Any], message: str) -> None:
    """The message names the field and what is allowed."""
    with pytest.raises(InvalidValueError, match=message):
        Conditioning(**settings)


def test_samplers_refuse_metrics_that_are_not_in_the_history_and_reports_of_another_shape() -> None:
    """The messages name what is expected."""
    with pytest.raises(UnknownNameError, match="conditioned draws: trend"):
        TraceSampler(LARGE, conditioning=Conditioning(trend={"network": True}))
    sampler, given = TraceSampler(LARGE), replicas(3, seed=1)
    with pytest.raises(ConflictError, match=r"reported has shape \(2,\), expected \(3,\)"):
        sampler.draw(*given, reported=[True, False])
    with pytest.raises(InvalidValueError, match=r"reported.*True or False for each replica"):
        sampler.draw(*given, reported=[1, 0, 1])


def test_zero_maxima_have_a_floor() -> None:
    """A metric that no trace has used compares as equal."""
    zeros = np.zeros((5, 1))
    history = DemandHistory.from_columns(
        [METRICS[0]],
        tenant_class=["gold"] * 5,
        role=[0] * 5,
        lifetime=[1e6] * 5,
        level=zeros,
        initial=zeros,
        growth=zeros,
        maximum=zeros,
    )
    draws = draw_one(history, Conditioning(trend={METRICS[0]: True}), 0.0, [0.0])
    assert same(draws, draw_one(history, None, 0.0, [0.0]))
