"""Gaussian and peak predictors as risk models; the engine says the same (tests/engine/test_estimators.py)."""

from __future__ import annotations

import math
import unittest
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import ConflictError, InvalidValueError, Role, UnknownNameError
from plb.risk import ObservedRisk, ReplicaOutlook, RiskModel
from plb.risk.estimators import MonteCarlo
from plb.risk.gaussian import Total
from plb.risk.peaks import MachinePeak, parse
from plb.testing import Invariant, machine_of

STEPS = {"cpu": 2.0**-10, "disk": 2.0**-10}
WINDOW = "warmup=2,history=3"


def risk_of(spec: str) -> ObservedRisk:
    """Return the model of an estimator."""
    return ObservedRisk(spec, steps=STEPS)


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


def replica(cpu: list[float], **given: object) -> ReplicaOutlook:
    """Return a replica that has shown this of one metric, and nothing of the other."""
    given = {"limits": {"cpu": 50.0}, "largest_demand": {"cpu": max(cpu, default=0.0)}, **given}
    return ReplicaOutlook(None, Role.INSTANCE, 0.0, key=1, samples={"cpu": cpu}, **given)  # type: ignore[arg-type]


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
    """An agent on the machine, fed the same samples step by step, predicts the same, but for rounding up to steps."""
    machine = MachinePeak(parse(spec))
    for step in range(6):
        said = machine.update(range(len(loads)), [own[step] for own in loads], [50.0] * len(loads))
    found = risk_of(spec).predicted_peaks([replica(own) for own in loads])
    assert math.isclose(found["cpu"], said.peak, abs_tol=len(loads) * STEPS["cpu"])
    assert found["disk"] == 0.0


def test_replica_without_limit_that_is_not_known_counts_at_the_most_it_has_demanded() -> None:
    """Or at its newest sample, if nobody says what the largest was."""
    model = risk_of("rc-like:warmup=9,history=20")
    shown = [3.0, 7.0, 5.0]
    assert model.predicted_peaks([replica(shown, limits={})])["cpu"] == 7.0
    assert model.predicted_peaks([replica(shown, limits={}, largest_demand={})])["cpu"] == 5.0
    assert model.predicted_peaks([replica(shown)])["cpu"] == 50.0


def test_numbers_beyond_all_machines_neither_overflow_nor_save_a_node() -> None:
    """A limit of 1e300 is certain to reach any threshold that is told apart from none."""
    huge = [replica([], limits={"cpu": 1e300})] * 3
    for spec in ("gaussian", "borg-default", f"n-sigma:n=5,{WINDOW}"):
        assert risk_of(spec).probability_of_violation(huge, thresholds={"cpu": 1e6}, now=0.0) == 1.0
    wild = [replica([0.0, 1e300] * 3)] * 3
    model = ObservedRisk("gaussian:warmup=2,history=6", steps=STEPS)
    assert 0.4 < model.probability_of_violation(wild, thresholds={"cpu": 1e6}, now=0.0) <= 1.0


def test_what_is_no_estimator_of_the_past_is_refused() -> None:
    """And metrics without a step, and a peak where none is predicted."""
    assert isinstance(risk_of("gaussian"), RiskModel)
    for given_one in (MonteCarlo(), "monte-carlo", "oracle:horizon=3", 7):
        with pytest.raises(InvalidValueError, match="estimator"):
            ObservedRisk(given_one, steps=STEPS)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"steps\[cpu\]"):
        ObservedRisk("gaussian", steps={"cpu": 0.0})
    with pytest.raises(UnknownNameError, match="samples"):
        ObservedRisk("gaussian", steps={"disk": 1.0}).probability_of_violation(
            [replica([1.0], limits={}, largest_demand={})], thresholds={}, now=0.0
        )
    with pytest.raises(InvalidValueError, match="peak predictor"):
        risk_of("gaussian").predicted_peaks([replica([1.0])])


def test_samples_are_checked_at_the_door() -> None:
    """With metric and place; equally many of each metric."""
    with pytest.raises(InvalidValueError, match=r"samples\[cpu\]\[1\] = -1"):
        replica([1.0, -1.0])
    with pytest.raises(ConflictError, match="2 of cpu, 1 of disk"):
        ReplicaOutlook(None, Role.INSTANCE, 0.0, {}, 1, samples={"cpu": [1.0, 2.0], "disk": [1.0]})
