"""Gaussian and peak predictors as risk models; the engine says the same (tests/risk/test_estimators.py)."""

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
from plb.risk.peaks import MachinePeak, parse
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
# what varies against the others steadies the total, and what varies by itself may save one that is lost on average
TestGaussian = machine(f"gaussian:{WINDOW}", Invariant.MORE_REPLICAS)
TestNSigma = machine(f"n-sigma:n=2,{WINDOW}", Invariant.MORE_REPLICAS)
TestMaximum = machine(f"max(n-sigma:n=2,{WINDOW};borg-default)", Invariant.MORE_REPLICAS)


def replica(cpu: list[float], **given: object) -> ReplicaForecast:
    """Return a replica that has shown this of one metric, and nothing of the other."""
    given = {"limits": {"cpu": 50.0}, "largest_demand": {"cpu": max(cpu, default=0.0)}, **given}
    return ReplicaForecast(None, Role.INSTANCE, 0.0, key=1, samples={"cpu": cpu}, **given)  # type: ignore[arg-type]


LOADS = st.lists(st.lists(st.integers(0, 50).map(float), min_size=6, max_size=6), min_size=1, max_size=5)


@settings(deadline=None)
@given(loads=LOADS)
def test_gaussian_is_that_of_the_package(loads: list[list[float]]) -> None:
    """Of independent tasks with mean and variance of what they have shown."""
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
def test_peaks_are_those_of_a_machine_whose_tasks_came_together(spec: str, loads: list[list[float]]) -> None:
    """An agent on the machine, fed the same samples step by step, predicts the same, but for rounding up to quanta."""
    machine = MachinePeak(parse(spec))
    for step in range(6):
        said = machine.update(range(len(loads)), [own[step] for own in loads], [50.0] * len(loads))
    found = risk_of(spec).predicted_peaks([replica(own) for own in loads])
    assert math.isclose(found["cpu"], said.peak, abs_tol=len(loads) * QUANTA["cpu"])
    assert found["disk"] == 0.0


@pytest.mark.parametrize("spec", ["rc-like:warmup=9,history=20", "borg-default:phi=1"])
def test_replica_without_limit_that_is_not_known_counts_at_the_most_it_has_demanded(spec: str) -> None:
    """Whether a sample says so or somebody else."""
    model = risk_of(spec)
    shown = [3.0, 7.0, 5.0]
    assert model.predicted_peaks([replica(shown, limits={}, largest_demand={"cpu": 9.0})])["cpu"] == 9.0
    assert model.predicted_peaks([replica(shown, limits={}, largest_demand={})])["cpu"] == 7.0
    assert model.predicted_peaks([replica(shown)])["cpu"] == 50.0


@pytest.mark.parametrize("spec", ["rc-like", "n-sigma", "n-sigma:form=paper", "per-machine-percentile"])
def test_metric_without_samples_counts_at_its_limit_also_where_others_have_some(spec: str) -> None:
    """Nothing was shown of it, so nothing is known."""
    model = risk_of(f"{spec}{',' if ':' in spec else ':'}warmup=2,history=3")
    peaks = model.predicted_peaks([replica([3.0, 3.0, 3.0], limits={"cpu": 8.0, "disk": 9.0})])
    assert peaks == {"cpu": 3.0, "disk": 9.0}


def test_replica_that_has_shown_more_than_is_kept_is_known() -> None:
    """`seen` counts, also where the warm-up is longer than the history; what the estimator keeps has to be there."""
    model = risk_of("rc-like:percentile=50,warmup=6,history=3")
    assert model.predicted_peaks([replica([5.0] * 3, seen=8)])["cpu"] == 5.0
    assert model.predicted_peaks([replica([5.0] * 3)])["cpu"] == 50.0
    with pytest.raises(ConflictError, match="shows 2 of 8 samples; expected the newest 3"):
        model.predicted_peaks([replica([5.0] * 2, seen=8)])


@pytest.mark.parametrize("limit", [2.0, 1e3, 2.0**21])
def test_limit_of_a_known_replica_does_not_change_the_gaussian(limit: float) -> None:
    """However large it is: its variance is kept as finely."""
    steady = [replica([1.0, 1.1] * 3, limits={"cpu": limit})] * 3
    model = risk_of("gaussian:warmup=2,history=6")
    assert model.probability_of_violation(steady, thresholds={"cpu": 5.0}, now=0.0) == 0.0
    assert model.probability_of_violation(steady, thresholds={"cpu": 3.15}, now=0.0) == pytest.approx(0.5, abs=0.02)


@settings(deadline=None)
@given(quanta=st.integers(1, 4000), power=st.integers(-12, 3))
def test_demand_equal_to_the_threshold_is_a_violation(quanta: int, power: int) -> None:
    """Exactly, whatever the quantum."""
    value = quanta * 2.0**power
    model = ObservedRisk("borg-default:phi=1", quanta={"cpu": 2.0**power})
    there = [replica([], limits={"cpu": value})]
    assert model.probability_of_violation(there, thresholds={"cpu": value}, now=0.0) == 1.0
    above = {"cpu": math.nextafter(value, math.inf)}
    assert model.probability_of_violation(there, thresholds=above, now=0.0) == 0.0


def test_what_is_no_estimator_of_the_past_is_refused() -> None:
    """And metrics without a quantum, and a peak where none is predicted."""
    assert isinstance(risk_of("gaussian"), RiskModel)
    for given_one in (MonteCarlo(), "monte-carlo", "oracle:horizon=3", 7):
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


def test_what_cannot_be_asked_is_refused() -> None:
    """Replicas that are none, thresholds without a metric, and demand that the quanta cannot hold."""
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


def test_samples_are_checked_at_the_door() -> None:
    """With metric and place; equally many of each metric."""
    with pytest.raises(InvalidValueError, match=r"samples\[cpu\]\[1\] = -1"):
        replica([1.0, -1.0])
    with pytest.raises(InvalidValueError, match=r"samples\[cpu\]\[0\] = .*nan"):
        ReplicaForecast(None, Role.INSTANCE, 0.0, {}, 1, samples={"cpu": np.array([math.nan])})  # type: ignore[dict-item]
    with pytest.raises(InvalidValueError, match=r"seen = 1 .*>= 2"):
        replica([1.0, 2.0], seen=1)
    with pytest.raises(ConflictError, match="2 of cpu, 1 of disk"):
        ReplicaForecast(None, Role.INSTANCE, 0.0, {}, 1, samples={"cpu": [1.0, 2.0], "disk": [1.0]})
