"""The peaks of replicas with a report: computed anew in plain Python from the sampled traces."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.risk import DemandHistory
from plb.risk.counter_based_random import replica_key
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

HOUR, DAY = 3600.0, 86_400.0
METRICS = ("cpu", "memory")
NAMES = ("large", "small", "unlimited")
WORD = 2**64


def mixed(word: int) -> int:
    """Return the finaliser of SplitMix64 of a word."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def share_of(seed: int, key: int, repetition: int, metric: int) -> float:
    """Return the share of a dip that has ended in a repetition, in [0, 1)."""
    golden = 0x9E3779B97F4A7C15
    stream = mixed(mixed((seed + golden) % WORD) ^ key)
    stream = mixed((stream + (repetition + 1) * golden) % WORD)
    word = mixed((mixed(stream ^ 0xA0761D6478BD642F) + (metric + 1) * golden) % WORD)
    return (word >> 11) / 2**53


@attrs.frozen
class Case:
    """An engine with replicas whose loads rise and fall, and what was reported of each last and at most."""

    engine: PlacementAndLoadBalancing
    history: DemandHistory
    seed: int
    horizon: float
    maximum_from: float
    last: dict[str, dict[str, int]]
    largest: dict[str, dict[str, int]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw engines with several reports of some replicas, at times up to two days."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    traces, seed = 12, draw(st.integers(0, 2**40))
    level = random.integers(1, 40, (traces, 2)).astype(float)
    history = DemandHistory.from_columns(
        METRICS,
        tenant_class=["a"] * traces,
        role=[Role.INSTANCE] * traces,
        lifetime=random.integers(1, 100, traces) * HOUR,
        level=level,
        initial=np.stack([level[:, 0], level[:, 1] * random.integers(0, 5, traces) / 4], axis=1),
        growth=np.stack([np.zeros(traces), random.choice([0, 12, 48, 96], traces) * HOUR], axis=1),
        maximum=level * [[2.0, 1.0]],
    )
    horizon, maximum_from = draw(st.sampled_from([0.0, 1.0, 24.0])), draw(st.sampled_from([0.0, 0.5]))
    config = PlbConfig(
        metrics=[Metric("cpu", trend=False), Metric("memory")],
        replay=draw(st.sampled_from(["anchored", "from_present"])),
        estimator=f"monte-carlo:horizon={horizon},maximum_from={maximum_from}",
        repetitions=6,
    )
    engine = PlacementAndLoadBalancing(config, seed=seed, history=history)
    engine.update_node(Node("n0", capacities={"cpu": 100, "memory": 100}))
    engine.update_node(Node("n1", capacities={"cpu": 60, "memory": 200}))
    promises = dict(zip(NAMES, ({"cpu": 50}, {"cpu": 49, "memory": 100}, {}), strict=True))
    last: dict[str, dict[str, int]] = {}
    largest: dict[str, dict[str, int]] = {}
    for name, limits in promises.items():
        engine.update_service(Service(name, stateful=False, tenant_class="a", limits=limits))
        engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, "n0")], created=0.0))
    now = 0.0
    for _ in range(draw(st.integers(1, 4))):
        now += draw(st.integers(0, 86_400))
        for name in promises:
            if draw(st.booleans()):
                load = last[name] = {metric: draw(st.integers(0, 20)) for metric in METRICS}
                before = largest.setdefault(name, dict.fromkeys(METRICS, 0))
                largest[name] = {metric: max(before[metric], load[metric]) for metric in METRICS}
                engine.report_load(name, "n0", load)
        engine.refresh(now)
    return Case(engine, history, seed, horizon, maximum_from, last, largest)


def peak_by_hand(case: Case, name: str, trace: int, key: int, repetition: int, now: float, metric: int) -> float:
    """Return the expected peak of a replica in a repetition, in user units, before it is rounded up to quanta."""
    history, column = case.history, METRICS[metric]
    level, initial, growth, maximum = (
        float(values[trace, metric]) for values in (history.level, history.initial, history.growth, history.maximum)
    )
    if metric == 0 and name == "large" and case.maximum_from:
        level = maximum
    if name not in case.last:
        return level
    age, largest = math.floor(now / 600.0) * 600.0, float(case.largest[name][column])
    if metric == 0:
        known = min(1.0, age / DAY)
        return level * (1.0 - known + known * largest / maximum)
    start = largest
    if case.engine.config.replay.value == "from_present":
        present = float(case.last[name][column])
        start = present + share_of(case.seed, key, repetition, metric) * (largest - present)
    end = age + case.horizon * HOUR if case.horizon else math.inf
    return start + (level - initial) * (min(end, growth) - age) / growth if age < growth else start


@examples(100)
@given(cases())
def test_peaks_after_any_reports_are_those_of_plain_python(case: Case) -> None:
    """They start in a dip or at the largest demand, grow within the horizon, and reach maxima if replicas are large."""
    table, quanta = case.engine._state.rows, case.engine._state.quanta.quanta
    forecast = case.engine._planner.demand_forecast
    names = {replica_key(name, 0): name for name in NAMES}
    rows = np.flatnonzero(table.used).tolist()
    assert len(rows) == len(NAMES)
    for row in rows:
        key = int(table.key[row])
        for metric, quantum in enumerate(quanta.tolist()):
            for k, trace in enumerate(forecast.trace[row].tolist()):
                expected = peak_by_hand(case, names[key], trace, key, k, forecast._now, metric) / quantum
                assert expected - 1e-6 <= forecast.peak[row, metric, k] < expected + 1.0 + 1e-6
            assert forecast.peak_ceiling[row, metric] == forecast.peak[row, metric].max()


def past_tenant(metric: str, *, level: float, initial: float, growth: float, maximum: float) -> DemandHistory:
    return DemandHistory.from_columns(
        [metric],
        tenant_class=["a"],
        role=[Role.INSTANCE],
        lifetime=[100 * DAY],
        level=[[level]],
        initial=[[initial]],
        growth=[[growth]],
        maximum=[[maximum]],
    )


def falling(replay: str, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with ten replicas that demanded 8 of 75 each, and demand 5 now."""
    history = past_tenant("memory", level=8.0, initial=8.0, growth=0.0, maximum=8.0)
    config = PlbConfig(metrics=[Metric("memory")], replay=replay, repetitions=200, **settings)
    engine = PlacementAndLoadBalancing(config, history=history)
    engine.update_node(Node("n0", capacities={"memory": 68 / 0.95}))
    engine.update_service(Service("s", stateful=False, tenant_class="a"))
    for index in range(10):
        engine.update_partition(Partition(f"p{index}", service="s", replicas=[Replica(Role.INSTANCE, "n0")]))
        for load in (8, 5):
            engine.report_load(f"p{index}", "n0", {"memory": load})
    return engine


def test_repetitions_agree_if_growth_starts_at_the_largest_demand():
    """Ten replicas of 8 exceed the threshold of 68 in each repetition, although they demand 50 now."""
    assert falling("anchored").violation_probabilities(0.0) == {"n0": 1.0}


def test_dips_that_end_in_part_give_a_probability_between_0_and_1():
    """The sum is 50 and thirty times a uniform share: Irwin and Hall's distribution of ten has 0.15 above 18 of 30."""
    probability = falling("from_present").violation_probabilities(0.0)["n0"]
    assert 0.05 < probability < 0.25


def test_a_replica_that_is_promised_half_a_node_reaches_the_maxima_of_its_traces():
    """It is a violation by itself; its 90th percentile is not."""
    probabilities = []
    for maximum_from in (0.0, 0.5):
        history = past_tenant("cpu", level=10.0, initial=10.0, growth=0.0, maximum=78.0)
        config = PlbConfig(
            metrics=[Metric("cpu", trend=False)], estimator=f"monte-carlo:maximum_from={maximum_from}", repetitions=4
        )
        engine = PlacementAndLoadBalancing(config, history=history)
        engine.update_node(Node("n0", capacities={"cpu": 80}))
        engine.update_service(Service("s", stateful=False, tenant_class="a", limits={"cpu": 80}))
        engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.INSTANCE, "n0")]))
        probabilities.append(engine.violation_probabilities(0.0)["n0"])
        engine.update_service(Service("s", stateful=False, tenant_class="a", limits={"cpu": 39}))
        assert engine.violation_probabilities(0.0)["n0"] == 0.0
    assert probabilities == [0.0, 1.0]


@pytest.mark.parametrize(("horizon", "expected"), [(0, 1.0), (48, 1.0), (12, 0.0)])
@pytest.mark.parametrize("evaluation", ["peak", "timeline"])
def test_growth_after_the_horizon_does_not_count(horizon, expected, evaluation):
    """A replica grows from 0 to 80 in four days; at the age of a day it may grow by 40 within two days."""
    history = past_tenant("memory", level=80.0, initial=0.0, growth=4 * DAY, maximum=80.0)
    config = PlbConfig(
        metrics=[Metric("memory")],
        estimator=f"monte-carlo:horizon={horizon}",
        evaluation=evaluation,
        repetitions=2,
    )
    engine = PlacementAndLoadBalancing(config, history=history)
    engine.update_node(Node("n0", capacities={"memory": 60}))
    engine.update_service(Service("s", stateful=False, tenant_class="a"))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.INSTANCE, "n0")], created=0.0))
    engine.report_load("p", "n0", {"memory": 20})
    assert engine.violation_probabilities(DAY)["n0"] == expected
