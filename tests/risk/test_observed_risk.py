"""Gaussian and peak predictors as risk models; the engine gives the same (tests/risk/test_estimators.py)."""

from __future__ import annotations

import math
import unittest
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import ConflictError, InvalidValueError, Role, UnknownNameError
from plb.risk import ObservedRisk, ReplicaForecast, RiskModel
from plb.risk.estimators import MonteCarlo
from plb.risk.gaussian import Total
from plb.risk.peaks import HistoricalPeak, MachinePeak, Maximum, RcLike, parse
from plb.testing import Invariant, machine_of

pytestmark = pytest.mark.kernels

QUANTA = {"cpu": 2.0**-10, "disk": 2.0**-10}
WINDOW = "warmup=2,history=3"


def risk_of(spec: str) -> ObservedRisk:
    """Return the model of an estimator."""
    return ObservedRisk(spec, quanta=QUANTA)


def machine(spec: str, *without: Invariant) -> type[unittest.TestCase]:
    """Return a short test by the state machine for risk models."""
    case: Any = machine_of(risk_of(spec), without=without)
    case.settings = settings(case.settings, max_examples=20, stateful_step_count=20)
    return case  # type: ignore[no-any-return]


TestBorgDefault = machine("borg-default:phi=0.8")
TestRcLike = machine(f"rc-like:percentile=75,{WINDOW}")
TestPercentile = machine(f"per-machine-percentile:percentile=60,{WINDOW}")
# a replica that varies against the others reduces the variance, and one with large variance may lower the probability
TestGaussian = machine(f"gaussian:{WINDOW}", Invariant.MORE_REPLICAS)
TestNSigma = machine(f"n-sigma:n=2,{WINDOW}", Invariant.MORE_REPLICAS)
TestMaximum = machine(f"max(n-sigma:n=2,{WINDOW};borg-default)", Invariant.MORE_REPLICAS)


def replica(cpu: list[float], **given: object) -> ReplicaForecast:
    """Return a replica with these samples of one metric, and none of the other."""
    given = {"limits": {"cpu": 50.0}, "largest_demand": {"cpu": max(cpu, default=0.0)}, **given}
    return ReplicaForecast(None, Role.INSTANCE, 0.0, key=1, samples={"cpu": cpu}, **given)  # type: ignore[arg-type]


LOADS = st.lists(st.lists(st.integers(0, 50).map(float), min_size=6, max_size=6), min_size=1, max_size=5)


@settings(deadline=None)
@given(loads=LOADS)
def test_gaussian_equals_that_of_the_package(loads: list[list[float]]) -> None:
    """It is the total of independent tasks with the mean and variance of their samples."""
    shown = np.array(loads)
    total = Total.of_independent(shown.mean(axis=1), shown.var(axis=1))
    found = risk_of("gaussian:warmup=2,history=6").probability_of_violation(
        [replica(own) for own in loads], thresholds={"cpu": 60.1}, now=0.0
    )
    assert math.isclose(found, float(total.probability_of_reaching(60.1)), abs_tol=2e-3)


@pytest.mark.parametrize(
    "spec", ["rc-like:percentile=80,warmup=2,history=4", "n-sigma:n=1,warmup=2,history=4", "borg-default:phi=0.7"]
)
@settings(deadline=None)
@given(loads=LOADS)
def test_peaks_equal_those_of_a_machine_with_simultaneous_tasks(spec: str, loads: list[list[float]]) -> None:
    """A `MachinePeak` with the same samples step by step predicts the same, except for rounding up to quanta."""
    machine = MachinePeak(parse(spec))
    for step in range(6):
        predicted = machine.update(range(len(loads)), [own[step] for own in loads], [50.0] * len(loads))
    found = risk_of(spec).predicted_peaks([replica(own) for own in loads])
    assert math.isclose(found["cpu"], predicted.peak, abs_tol=len(loads) * QUANTA["cpu"])
    assert found["disk"] == 0.0


@pytest.mark.parametrize("spec", ["rc-like:warmup=9,history=20", "borg-default:phi=1"])
def test_unknown_replica_without_limit_counts_with_its_largest_demand(spec: str) -> None:
    """The largest demand may be a sample or a given number."""
    model = risk_of(spec)
    shown = [3.0, 7.0, 5.0]
    assert model.predicted_peaks([replica(shown, limits={}, largest_demand={"cpu": 9.0})])["cpu"] == 9.0
    assert model.predicted_peaks([replica(shown, limits={}, largest_demand={})])["cpu"] == 7.0
    assert model.predicted_peaks([replica(shown)])["cpu"] == 50.0


@pytest.mark.parametrize("spec", ["rc-like", "n-sigma", "n-sigma:form=paper", "per-machine-percentile"])
def test_metric_without_samples_counts_with_its_limit(spec: str) -> None:
    """Such a metric has no known demand."""
    model = risk_of(f"{spec}{',' if ':' in spec else ':'}warmup=2,history=3")
    peaks = model.predicted_peaks([replica([3.0, 3.0, 3.0], limits={"cpu": 8.0, "disk": 9.0})])
    assert peaks == {"cpu": 3.0, "disk": 9.0}


def test_replica_with_more_samples_than_are_kept_is_known() -> None:
    """`seen` counts even if the warm-up is longer than the history; the kept samples must be given."""
    model = risk_of("rc-like:percentile=50,warmup=6,history=3")
    assert model.predicted_peaks([replica([5.0] * 3, seen=8)])["cpu"] == 5.0
    assert model.predicted_peaks([replica([5.0] * 3)])["cpu"] == 50.0
    with pytest.raises(ConflictError, match="shows 2 of 8 samples; expected the newest 3"):
        model.predicted_peaks([replica([5.0] * 2, seen=8)])


@pytest.mark.parametrize("limit", [2.0, 1e3, 2.0**21])
def test_limit_of_a_known_replica_does_not_change_the_gaussian(limit: float) -> None:
    """The limit may have any size: the precision of the variance does not depend on it."""
    steady = [replica([1.0, 1.1] * 3, limits={"cpu": limit})] * 3
    model = risk_of("gaussian:warmup=2,history=6")
    assert model.probability_of_violation(steady, thresholds={"cpu": 5.0}, now=0.0) == 0.0
    assert model.probability_of_violation(steady, thresholds={"cpu": 3.15}, now=0.0) == pytest.approx(0.5, abs=0.02)


@settings(deadline=None)
@given(quanta=st.integers(1, 4000), power=st.integers(-12, 3))
def test_demand_equal_to_the_threshold_is_a_violation(quanta: int, power: int) -> None:
    """The comparison is exact for any quantum."""
    value = quanta * 2.0**power
    model = ObservedRisk("borg-default:phi=1", quanta={"cpu": 2.0**power})
    there = [replica([], limits={"cpu": value})]
    assert model.probability_of_violation(there, thresholds={"cpu": value}, now=0.0) == 1.0
    above = {"cpu": math.nextafter(value, math.inf)}
    assert model.probability_of_violation(there, thresholds=above, now=0.0) == 0.0


def test_estimators_of_the_future_are_refused() -> None:
    """So are those of machines, metrics without a quantum, and a peak from a model without peaks."""
    assert isinstance(risk_of("gaussian"), RiskModel)
    of_machines = HistoricalPeak(), Maximum((RcLike(), Maximum((HistoricalPeak(),))))
    for given_one in (MonteCarlo(), "monte-carlo", "oracle:horizon=3", "historical-simulation", *of_machines, 7):
        with pytest.raises(InvalidValueError, match="estimator"):
            ObservedRisk(given_one, quanta=QUANTA)  # type: ignore[arg-type]
    for step in (0.0, 0.1, math.nan):
        with pytest.raises(InvalidValueError, match=r"observed risk: quanta\[cpu\] = .*a power of two"):
            ObservedRisk("gaussian", quanta={"cpu": step})
    for given_quanta in (None, ["cpu"], "cpu"):
        with pytest.raises(InvalidValueError, match="observed risk: quanta"):
            ObservedRisk("gaussian", quanta=given_quanta)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="samples"):
        ObservedRisk("gaussian", quanta={"disk": 1.0}).probability_of_violation(
            [replica([1.0], limits={}, largest_demand={})], thresholds={}, now=0.0
        )
    with pytest.raises(InvalidValueError, match="peak predictor"):
        risk_of("gaussian").predicted_peaks([replica([1.0])])


def test_invalid_arguments_are_refused() -> None:
    """Replicas are invalid, thresholds have no metric, or demand exceeds the range of the quanta."""
    model = risk_of("borg-default")
    for replicas in (None, replica([]), [1]):
        with pytest.raises(InvalidValueError, match="observed risk: replicas"):
            model.probability_of_violation(replicas, thresholds={}, now=0.0)  # type: ignore[arg-type]
    for thresholds in (None, ["cpu"]):
        with pytest.raises(InvalidValueError, match="observed risk: thresholds"):
            model.probability_of_violation([], thresholds=thresholds, now=0.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"limits\[cpu\] = 1e\+300 .*2\^31 quanta"):
        model.predicted_peaks([replica([], limits={"cpu": 1e300})])
    with pytest.raises(InvalidValueError, match=r"samples\[cpu\] = 1e\+300 .*2\^31 quanta"):
        risk_of("gaussian").probability_of_violation([replica([1.0, 1e300])], thresholds={}, now=0.0)


def test_invalid_samples_are_refused() -> None:
    """The error has metric and index; each metric has the same number of samples."""
    with pytest.raises(InvalidValueError, match=r"samples\[cpu\]\[1\] = -1"):
        replica([1.0, -1.0])
    with pytest.raises(InvalidValueError, match=r"samples\[cpu\]\[0\] = .*nan"):
        ReplicaForecast(None, Role.INSTANCE, 0.0, {}, 1, samples={"cpu": np.array([math.nan])})  # type: ignore[dict-item]
    with pytest.raises(InvalidValueError, match=r"seen = 1 .*>= 2"):
        replica([1.0, 2.0], seen=1)
    with pytest.raises(ConflictError, match="2 of cpu, 1 of disk"):
        ReplicaForecast(None, Role.INSTANCE, 0.0, {}, 1, samples={"cpu": [1.0, 2.0], "disk": [1.0]})
