from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError, UnknownNameError
from plb.model import Role
from plb.model.quanta import UNLIMITED
from plb.risk import (
    DemandHistory,
    Evaluation,
    MonteCarloRisk,
    ReplicaForecast,
    RiskModel,
    repetitions_in_violation_peak,
    repetitions_in_violation_timeline,
    replica_key,
)
from plb.risk.monte_carlo import curves_in_quanta, departures
from plb.risk.thresholds import thresholds_in_quanta

from .strategies import METRICS, NO_DEADLINE, histories, random_history, replica_forecasts
from .test_eligibility import plain_eligible

NOW = 10
ONE_QUANTUM = dict.fromkeys(METRICS, 1.0)
CPU_ONLY = {"cpu": 1.0}


# Equation (1) by an independent implementation in whole numbers, over every point in time instead of departures only.


def plain_demand(history: DemandHistory, row: int, metric: int, age: int) -> int:
    """Return the demand of a trace at a whole age, rounded up to whole units."""
    low, high = int(history.initial[row, metric]), int(history.level[row, metric])
    growth = int(history.growth[row, metric])
    return high if age >= growth else -((-(low * growth + (high - low) * age)) // growth)


def plain_timeline(
    history: DemandHistory,
    rows: Sequence[int],
    created: Sequence[int],
    limits: Sequence[int],
    last: float = math.inf,
) -> bool:
    """Return whether demand reaches a limit at any whole time from NOW to the last departure, or to `last`."""
    ends = [start + int(history.lifetime[row]) for row, start in zip(rows, created, strict=True)]
    times = range(NOW, int(min(max(ends, default=NOW), last)) + 1)
    for time, metric in itertools.product(times, range(len(limits))):
        present = [i for i in range(len(rows)) if created[i] <= time <= ends[i]]
        if sum(plain_demand(history, rows[i], metric, time - created[i]) for i in present) >= limits[metric]:
            return True
    return False


def plain_peak(history: DemandHistory, rows: Sequence[int], limits: Sequence[int]) -> bool:
    """Return whether the sum of the levels reaches a limit."""
    return any(sum(int(history.level[row, r]) for row in rows) >= limit for r, limit in enumerate(limits))


def kernel_peak(history: DemandHistory, traces: np.ndarray, limits: Sequence[int]) -> int:
    """Run the kernel on explicit traces (S, K)."""
    levels = history.in_quanta(np.ones(len(history.metrics)))
    return repetitions_in_violation_peak(levels, traces.astype(np.int32), np.array(limits))


def kernel_timeline(
    history: DemandHistory, traces: np.ndarray, created: Sequence[float], limits: Sequence[int], now: float = NOW
) -> int:
    """Run the kernel on explicit traces (S, K) with the departures of the traces."""
    starts, rows = np.array(created, np.float64), traces.astype(np.int32)
    departure = starts[:, np.newaxis] + history.lifetime[rows].astype(np.float64)
    curves = curves_in_quanta(history, np.ones(len(history.metrics)))
    return repetitions_in_violation_timeline(curves, rows, starts, departure, float(now), np.array(limits))


limits_in_quanta = st.tuples(st.integers(1, 20), st.one_of(st.integers(1, 20), st.just(UNLIMITED)))


@pytest.mark.kernels
@NO_DEADLINE
@given(histories(max_traces=4), st.lists(st.integers(0, NOW + 3), min_size=1, max_size=3), limits_in_quanta)
def test_both_kernels_agree_with_enumeration_of_equation_1(
    history: DemandHistory, created: list[int], limits: tuple[int, int]
) -> None:
    """They agree for each combination of traces and for all together; `timeline` evaluates departures only."""
    combinations = list(itertools.product(range(len(history)), repeat=len(created)))
    for rows in combinations:
        one = np.array(rows)[:, np.newaxis]
        assert kernel_peak(history, one, limits) == plain_peak(history, rows, limits)
        assert kernel_timeline(history, one, created, limits) == plain_timeline(history, rows, created, limits)
    together = np.array(combinations).T.copy()
    assert kernel_peak(history, together, limits) == sum(plain_peak(history, rows, limits) for rows in combinations)
    in_time = sum(plain_timeline(history, rows, created, limits) for rows in combinations)
    assert kernel_timeline(history, together, created, limits) == in_time


def combinations_of(history: DemandHistory, replicas: Sequence[ReplicaForecast]) -> Iterator[tuple[int, ...]]:
    """Return all combinations of eligible traces."""
    return itertools.product(*(plain_eligible(history, one, NOW - one.created)[1] for one in replicas))


def small_case(seed: int) -> tuple[DemandHistory, list[ReplicaForecast], dict[str, float]]:
    """Return a history of whole numbers, three replicas of its class, and thresholds."""
    rng = np.random.default_rng(seed)
    level = rng.integers(1, 9, (30, 2))
    history = DemandHistory.from_columns(
        METRICS,
        tenant_class=["gold"] * 30,
        role=rng.integers(0, 2, 30),
        lifetime=rng.integers(NOW, 3 * NOW, 30),
        level=level,
        initial=level // 3,
        growth=2.0 ** rng.integers(0, 6, (30, 2)),
        maximum=level,
    )
    replicas = [
        ReplicaForecast("gold", Role(i % 2), float(rng.integers(0, NOW)), {"cpu": float(rng.integers(0, 5))}, int(key))
        for i, key in enumerate(rng.integers(0, 2**63, 3))
    ]
    return history, replicas, {"cpu": float(rng.integers(9, 19)), "disk": float(rng.integers(12, 22))}


@pytest.mark.parametrize("seed", range(12))
def test_both_estimates_agree_with_exhaustive_enumeration_within_the_binomial_error(seed: int) -> None:
    """K repetitions estimate the share of violating combinations to sqrt(p(1 − p)/K); five such errors are allowed."""
    history, replicas, thresholds = small_case(seed)
    limits, created = [int(limit) for limit in thresholds.values()], [int(one.created) for one in replicas]
    rows = list(combinations_of(history, replicas))
    exact = {
        Evaluation.PEAK: sum(plain_peak(history, one, limits) for one in rows) / len(rows),
        Evaluation.TIMELINE: sum(plain_timeline(history, one, created, limits) for one in rows) / len(rows),
    }
    repetitions = 20_000
    risk = MonteCarloRisk(history, repetitions=repetitions, seed=seed, quanta=ONE_QUANTUM)
    for evaluation, p in exact.items():
        estimate = risk.probability_of_violation(replicas, thresholds=thresholds, now=NOW, evaluation=evaluation)
        assert abs(estimate - p) <= 5 * math.sqrt(p * (1 - p) / repetitions)


def test_enumerated_cases_are_not_trivial() -> None:
    """The exact probabilities of the cases above cover the unit interval, and the two evaluations differ."""
    peaks, timelines = [], []
    for seed in range(12):
        history, replicas, thresholds = small_case(seed)
        limits, created = [int(limit) for limit in thresholds.values()], [int(one.created) for one in replicas]
        rows = list(combinations_of(history, replicas))
        peaks.append(np.mean([plain_peak(history, one, limits) for one in rows]))
        timelines.append(np.mean([plain_timeline(history, one, created, limits) for one in rows]))
    assert sum(0.05 < p < 0.95 for p in peaks) >= 6
    assert sum(t < p for t, p in zip(timelines, peaks, strict=True)) >= 6


@NO_DEADLINE
@given(
    st.integers(0, 1000),
    st.lists(st.floats(0, 5 * 86400), min_size=1, max_size=8),
    st.floats(1, 60),
    st.sampled_from([2.0**-10, 0.25, 1.0]),
)
def test_peak_is_never_below_timeline_in_any_repetition(
    seed: int, created: list[float], threshold: float, quantum: float
) -> None:
    """With any demand, growth and quanta, a repetition in violation in time is in violation at its peaks."""
    history = random_history(50, seed=seed)
    traces = np.random.default_rng(seed).integers(0, 50, (len(created), 40)).astype(np.int32)
    curves, starts = curves_in_quanta(history, np.full(3, quantum)), np.array(created)
    limits = np.full(3, math.ceil(threshold / quantum))
    departure = departures(history, starts, traces, 0.0)
    for k in range(40):
        one, ends = traces[:, k : k + 1].copy(), departure[:, k : k + 1].copy()
        in_time = repetitions_in_violation_timeline(curves, one, starts, ends, 0.0, limits)
        assert in_time <= repetitions_in_violation_peak(curves.level, one, limits)


@NO_DEADLINE
@given(histories(), st.lists(replica_forecasts(), max_size=5), st.integers(1, 20), st.randoms(use_true_random=False))
def test_order_of_replicas_does_not_matter(
    history: DemandHistory, replicas: list[ReplicaForecast], limit: int, random: object
) -> None:
    """Draws belong to keys and sums are exact, so any order gives the same probability; PEAK bounds TIMELINE."""
    risk = MonteCarloRisk(history, repetitions=20, quanta=ONE_QUANTUM)
    shuffled = list(replicas)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = {}
    for evaluation in Evaluation:
        found[evaluation] = risk.probability_of_violation(
            replicas, thresholds={"cpu": limit}, now=NOW, evaluation=evaluation
        )
        again = risk.probability_of_violation(shuffled, thresholds={"cpu": limit}, now=NOW, evaluation=evaluation)
        assert again == found[evaluation]
    assert 0 <= found[Evaluation.TIMELINE] <= found[Evaluation.PEAK] <= 1


def cpu_history(*traces: tuple[float, float, float, float]) -> DemandHistory:
    """Return primaries of class gold with one metric from (lifetime, initial, level, growth)."""
    lifetime, initial, level, growth = (list(column) for column in zip(*traces, strict=True))
    matrices = {"initial": initial, "level": level, "growth": growth, "maximum": level}
    return DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"] * len(traces),
        role=[Role.PRIMARY] * len(traces),
        lifetime=lifetime,
        **{name: [[value] for value in values] for name, values in matrices.items()},
    )


STEADY = (10.0, 4.0, 4.0, 0.0)
GROWING = (10.0, 0.0, 8.0, 16.0)
TIMELINE_CASES = {
    "a departing replica still counts at its own departure": ([STEADY, STEADY], [0, 10], 0, 8, 1),
    "a replica that arrives after a departure does not count": ([STEADY, STEADY], [0, 10.5], 0, 8, 0),
    "peaks at different times are no violation": ([STEADY, STEADY], [0, 20], 0, 8, 0),
    "a violation before now does not count": ([STEADY, STEADY], [0, 0], 11, 8, 0),
    "a departure at now counts": ([STEADY, STEADY], [0, 0], 10, 8, 1),
    "demand counts at the departure, not at its peak": ([GROWING, STEADY], [0, 0], 0, 10, 0),
    "demand at the departure is 8·10/16 = 5, plus 4": ([GROWING, STEADY], [0, 0], 0, 9, 1),
    "a level without growth (G = 0) counts from the start": ([STEADY, (0.0, 4.0, 4.0, 0.0)], [0, 5], 0, 8, 1),
    "rounding up applies to each replica": ([(9.0, 0.0, 8.0, 16.0)] * 2, [0, 0], 0, 10, 1),
    "demand equal to the threshold is a violation": ([STEADY], [0], 0, 4, 1),
    "demand one quantum below the threshold is none": ([STEADY], [0], 0, 5, 0),
}


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("traces", "created", "now", "limit", "violations"), TIMELINE_CASES.values(), ids=TIMELINE_CASES.keys()
)
def test_timeline_tests_the_departures_from_now_on(
    traces: list[tuple[float, float, float, float]], created: list[float], now: float, limit: int, violations: int
) -> None:
    """There are at most two replicas, each with its own trace."""
    rows = np.arange(len(traces))[:, np.newaxis]
    history = cpu_history(*traces)
    assert kernel_timeline(history, rows, created, [limit], now) == violations


def gold(created: float, key: int = 1) -> ReplicaForecast:
    """Return a primary of class gold."""
    return ReplicaForecast("gold", Role.PRIMARY, created, {}, key)


@pytest.mark.parametrize("evaluation", Evaluation)
def test_replica_older_than_every_trace_counts(evaluation: Evaluation) -> None:
    """Eligibility widens beyond the lifetime; a present replica cannot have departed before now."""
    risk = MonteCarloRisk(cpu_history(STEADY), repetitions=4, quanta=CPU_ONLY)
    assert risk.probability_of_violation([gold(0)], thresholds={"cpu": 4}, now=1000, evaluation=evaluation) == 1


@pytest.mark.parametrize("evaluation", Evaluation)
def test_empty_node_and_unlimited_metric_are_never_in_violation(evaluation: Evaluation) -> None:
    """Without a replica or a threshold the probability is 0, even at a threshold of 0."""
    risk = MonteCarloRisk(cpu_history(STEADY), quanta=CPU_ONLY)
    assert risk.probability_of_violation([], thresholds={"cpu": 0}, now=0, evaluation=evaluation) == 0
    assert risk.probability_of_violation([gold(0)], thresholds={}, now=0, evaluation=evaluation) == 0


def test_thresholds_round_up_exactly_and_are_at_least_one_quantum() -> None:
    """They are ceil(f·c / quantum), without floating-point error at the limits."""
    just_above = math.nextafter(3.0, 4.0)
    expected = {0.0: 1, 2.0**-30: 1, 3.0: 3 * 2**20, just_above: 3 * 2**20 + 1, 1e300: UNLIMITED}
    quanta = np.array([2.0**-20])
    assert {at: int(thresholds_in_quanta("risk", {"cpu": at}, ["cpu"], quanta)[0]) for at in expected} == expected


@pytest.mark.parametrize("within", [0, 3, 11, 100])
@pytest.mark.parametrize("seed", range(6))
def test_only_demand_within_the_horizon_counts(seed: int, within: int) -> None:
    """Each repetition is enumerated at all whole times of the horizon."""
    history, replicas, thresholds = small_case(seed)
    limits, created = [int(limit) for limit in thresholds.values()], [int(one.created) for one in replicas]
    risk = MonteCarloRisk(history, repetitions=200, seed=seed, quanta=ONE_QUANTUM)
    traces = risk.draws(replicas, now=NOW).trace.T.tolist()
    expected = sum(plain_timeline(history, rows, created, limits, NOW + within) for rows in traces) / 200
    given = {"thresholds": thresholds, "now": NOW, "evaluation": Evaluation.TIMELINE}
    assert risk.probability_of_violation(replicas, within=within, **given) == expected


def test_probability_depends_on_the_seed_only() -> None:
    """The estimate is a function of seed and inputs."""
    history = random_history(2000, seed=8)
    replicas = [ReplicaForecast("class0", Role.PRIMARY, 0.0, {}, replica_key(f"p{i}", 0)) for i in range(20)]
    quanta = dict.fromkeys(history.metrics, 2.0**-10)

    def estimate(seed: int) -> float:
        risk = MonteCarloRisk(history, repetitions=1000, seed=seed, quanta=quanta)
        return risk.probability_of_violation(replicas, thresholds={"cpu": 90.0}, now=10.0)

    assert 0 < estimate(1) == estimate(1) != estimate(2) < 1


def test_monte_carlo_model_is_a_risk_model() -> None:
    """It has the same interface as the other predictors."""
    assert isinstance(MonteCarloRisk(cpu_history(STEADY), quanta=CPU_ONLY), RiskModel)


def test_unknown_metrics_are_refused_with_the_nearest_name() -> None:
    """A typing error must not silently remove a limit."""
    risk = MonteCarloRisk(cpu_history(STEADY), quanta=CPU_ONLY)
    with pytest.raises(UnknownNameError, match="thresholds: unknown metric 'cpus'; did you mean 'cpu'"):
        risk.probability_of_violation([gold(0)], thresholds={"cpus": 1.0}, now=0)
    with pytest.raises(UnknownNameError, match="largest_demand: unknown metric 'dsk'"):
        risk.probability_of_violation([attrs.evolve(gold(0), largest_demand={"dsk": 1})], thresholds={}, now=0)
    with pytest.raises(UnknownNameError, match="quanta: unknown metric 'disk'"):
        MonteCarloRisk(cpu_history(STEADY), quanta={"cpu": 1, "disk": 1})


def test_bad_settings_and_values_are_refused_by_name_and_range() -> None:
    """Quanta are missing, thresholds are negative, a time is NaN, or an evaluation is unknown."""
    with pytest.raises(ConflictError, match="quanta has no metric cpu"):
        MonteCarloRisk(cpu_history(STEADY), quanta={})
    risk = MonteCarloRisk(cpu_history(STEADY), quanta=CPU_ONLY)
    with pytest.raises(InvalidValueError, match=r"thresholds\[cpu\] = -1.*>= 0"):
        risk.probability_of_violation([], thresholds={"cpu": -1}, now=0)
    with pytest.raises(InvalidValueError, match="now = nan"):
        risk.probability_of_violation([], thresholds={}, now=math.nan)
    with pytest.raises(InvalidValueError, match=r"evaluation = 'exact'.*one of peak, timeline"):
        risk.probability_of_violation([], thresholds={}, now=0, evaluation="exact")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match="within = -1"):
        risk.probability_of_violation([], thresholds={}, now=0, evaluation=Evaluation.TIMELINE, within=-1)
    with pytest.raises(ConflictError, match="within is 60, but evaluation peak has no time"):
        risk.probability_of_violation([], thresholds={}, now=0, within=60)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": -1}, "key = -1"),
        ({"key": 2**64}, r"key.*< 2\^64"),
        ({"created": math.inf}, "created = inf"),
        ({"largest_demand": {"cpu": -1.0}}, r"largest_demand\[cpu\] = -1.0"),
        ({"role": 5}, "role = 5.*primary"),
    ],
)
def test_forecasts_are_checked_when_they_are_created(changes: dict[str, object], message: str) -> None:
    """The error names the replica, the field and the range."""
    with pytest.raises(InvalidValueError, match=f"replica of class gold: {message}"):
        attrs.evolve(gold(0), **changes)


def test_import_of_the_package_does_not_load_numba() -> None:
    """Kernels compile at their first call, so `import plb.risk` stays light."""
    script = "import sys, plb.risk; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("quanta", "message"),
    [
        (None, "quanta = None.*a mapping of metrics to quanta"),
        ({"cpu": "1"}, r"quanta\[cpu\] = '1'.*a power of two"),
        ({"cpu": True}, r"quanta\[cpu\] = True.*a power of two"),
        ({"cpu": 3.0}, r"quanta\[cpu\] = 3.0.*a power of two"),
    ],
)
def test_quanta_are_checked_when_the_model_is_created(quanta: object, message: str) -> None:
    """The check is the same as for models from observed samples."""
    with pytest.raises(InvalidValueError, match=f"Monte Carlo risk: {message}"):
        MonteCarloRisk(cpu_history(STEADY), quanta=quanta)  # type: ignore[arg-type]
