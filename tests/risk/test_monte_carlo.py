"""The engine's share of violating repetitions estimates that of all combinations of eligible traces."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.extensions.configuration import Configuration
from plb.risk import DemandHistory
from plb.testing import configuration_of

from .oracles import plain_eligible, plain_peak, plain_timeline
from .strategies import METRICS

NOW, REPLICAS, REPETITIONS = 10, 3, 20_000


def small_engine(seed: int, **settings: object) -> tuple[PlacementAndLoadBalancing, DemandHistory, list[int]]:
    """Return an engine with some replicas on a node, a history of whole numbers of their class, and their ages."""
    rng = np.random.default_rng(seed)
    level = rng.integers(1, 9, (30, 2))
    history = DemandHistory.from_columns(
        METRICS,
        tenant_class=["gold"] * 30,
        role=rng.choice([Role.PRIMARY, Role.INSTANCE], 30),
        lifetime=rng.integers(NOW, 3 * NOW, 30),
        level=level,
        initial=level // 3,
        growth=2.0 ** rng.integers(0, 6, (30, 2)),
        maximum=level,
    )
    metrics = [Metric(name, quantum=1.0, violation_threshold=1.0) for name in METRICS]
    config = PlbConfig(metrics=metrics, replay="as_recorded", w_failovers=1.0, **settings)  # type: ignore[arg-type]
    engine = PlacementAndLoadBalancing(config, seed=seed, history=history)
    limits = {"cpu": float(rng.integers(9, 19)), "disk": float(rng.integers(12, 22))}
    engine.update_node(Node("n0", capacities=limits))
    ages = rng.integers(1, NOW, REPLICAS).tolist()
    for index, age in enumerate(ages):
        role = [Role.PRIMARY, Role.INSTANCE][index % 2]
        engine.update_service(Service(f"s{index}", stateful=role is Role.PRIMARY, tenant_class="gold"))
        placed = [Replica(role, "n0")]
        partition = Partition(f"p{index}", service=f"s{index}", replicas=placed, created=float(NOW - age))
        engine.update_partition(partition)
        engine.report_load(f"p{index}", "n0", {"cpu": float(rng.integers(0, 5))})
    return engine, history, ages


def configured(engine: PlacementAndLoadBalancing) -> tuple[Configuration, list[int]]:
    """Return the configuration at the time of the tests, and the limits of the node."""
    configuration = configuration_of(engine, float(NOW))
    return configuration, configuration.problem.threshold[0].tolist()


@pytest.mark.parametrize("seed", range(12))
def test_both_evaluations_agree_with_exhaustive_enumeration_within_the_binomial_error(seed: int) -> None:
    """K repetitions estimate the share of violating combinations to sqrt(p(1 − p)/K); five such errors are allowed."""
    estimates, exact = [], []
    for evaluation in ("peak", "timeline"):
        engine, history, ages = small_engine(seed, evaluation=evaluation, repetitions=REPETITIONS)
        configuration, limits = configured(engine)
        estimates.append(configuration.violation_probabilities[0])
        forecasts = [configuration.forecast_of(row) for row in configuration.rows_on(0).tolist()]
        known = [(one.tenant_class, one.role, NOW - one.created, [*one.largest_demand.values()]) for one in forecasts]
        combinations = list(itertools.product(*(plain_eligible(history, *replica)[1] for replica in known)))
        if evaluation == "peak":
            exact.append(np.mean([plain_peak(history, rows, limits) for rows in combinations]))
        else:
            ages = [int(NOW - one.created) for one in forecasts]
            exact.append(np.mean([plain_timeline(history, rows, ages, limits) for rows in combinations]))
    for estimate, p in zip(estimates, exact, strict=True):
        assert abs(estimate - p) <= 5 * math.sqrt(p * (1 - p) / REPETITIONS)
    assert estimates[1] <= estimates[0]
    if seed == 0:
        assert 0.0 < exact[1] < exact[0] < 1.0


@pytest.mark.parametrize("within", [3, 11, 100, math.inf])
@pytest.mark.parametrize("seed", range(6))
def test_only_demand_within_the_horizon_counts(seed: int, within: float) -> None:
    hours = 0.0 if within == math.inf else within / 3600.0
    engine, history, _ = small_engine(seed, evaluation="timeline", estimator=f"monte-carlo:horizon={hours}")
    configuration, limits = configured(engine)
    rows = configuration.rows_on(0)
    ages = configuration.problem.age[rows].astype(int).tolist()
    traces = configuration.problem.trace[rows].T.tolist()
    expected = sum(plain_timeline(history, of_repetition, ages, limits, last=within) for of_repetition in traces)
    assert configuration.solution.violating[0] == expected
