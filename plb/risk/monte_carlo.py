"""Monte Carlo probability of violation ([1] sections 5.1 and 5.3, Algorithm 1).

Each repetition replaces every replica by a past tenant and tests the node for a violation. There are two
tests: `peak` sums every trace at its level, as in the engine of [1] section 7; `timeline` is the exact
test at the departure times of section 5.3. Demand is in whole quanta, rounded up and never above the rounded level, so
`timeline` is never above `peak`, repetition by repetition. S replicas, K repetitions, T traces, R metrics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.errors import ConflictError
from plb.risk.demand_history import DemandHistory
from plb.risk.risk_model import ReplicaForecast
from plb.risk.thresholds import checked_quanta, thresholds_in_quanta
from plb.risk.trace_sampling import TraceDraws, TraceSampler
from plb.validation import check_member, check_metrics, check_number

ITEM = "Monte Carlo risk"


class Evaluation(StrEnum):
    """How a repetition is tested for a violation."""

    PEAK = "peak"
    """Every replica at its level, all at the same time: an upper estimate, cheap to update."""
    TIMELINE = "timeline"
    """At each departure, the replicas that are there at their demand of that time: equation (1) of [1]."""


class Curves(NamedTuple):
    """Demand curves in quanta. Growth runs in floating point and is then rounded up to whole quanta."""

    initial: Float
    """(T, R) quanta, not rounded."""
    rise: Float
    """(T, R) level − initial in quanta, not rounded."""
    growth: Float32
    """(T, R) seconds."""
    level: Int32
    """(T, R) whole quanta."""


def curves_in_quanta(history: DemandHistory, quanta: Float) -> Curves:
    """Return the demand curves of `history` in units of `quanta`, shape (R,), powers of two."""
    level = history.in_quanta(quanta)
    initial = history.initial.astype(np.float64) / quanta
    return Curves(initial, history.level.astype(np.float64) / quanta - initial, history.growth, level)


class MonteCarloRisk:
    """Probability of violation by replay of past tenants: a `RiskModel`.

    The same replicas give the same result in any order, and replicas keep their samples on all nodes
    and in all calls while these are eligible, so that similar placements are compared with common random
    numbers. The standard error of a probability p is sqrt(p(1 − p)/K).

    Parameters
    ----------
    history
        The past tenants.
    repetitions
        K, at least 1.
    seed
        A whole number in [0, 2^64).
    quanta
        Quantum in which demand is counted, by metric in user units: a power of two each, for every metric of `history`.

    Raises
    ------
    InvalidValueError
        A value is out of range, a quantum is not a power of two, or a level of the history is more than 2^30 quanta.
    UnknownNameError
        A quantum is of no metric of the history.
    ConflictError
        A metric of the history has no quantum.
    """

    def __init__(
        self,
        history: DemandHistory,
        *,
        repetitions: int = 100,
        seed: int = 0,
        quanta: Mapping[str, float],
    ) -> None:
        self.history = history
        self.sampler = TraceSampler(history, repetitions=repetitions, seed=seed)
        given = checked_quanta(ITEM, quanta)
        check_metrics(ITEM, "quanta", given, history.metrics)
        missing = [name for name in history.metrics if name not in given]
        if missing:
            raise ConflictError(f"{ITEM}: quanta has no metric {missing[0]}; the history needs one")
        self.quanta = np.array([given[name] for name in history.metrics], np.float64)
        self._curves = curves_in_quanta(history, self.quanta)

    def probability_of_violation(
        self,
        replicas: Sequence[ReplicaForecast],
        *,
        thresholds: Mapping[str, float],
        now: float,
        evaluation: Evaluation = Evaluation.PEAK,
        within: float | None = None,
    ) -> float:
        """Return the share of repetitions in which the replicas' summed demand reaches a threshold.

        Parameters
        ----------
        replicas, thresholds, now
            As in `plb.risk.RiskModel`. Only departures from now on are tested.
        evaluation
            How a repetition is tested.
        within
            Seconds within which a violation counts, for the test at departures; None: at any time.

        Raises
        ------
        ConflictError
            `within` is given for the test by peaks, which have no time.
        UnknownNameError
            A metric is not in the history.
        InvalidValueError
            A threshold or `within` is negative or not finite.
        """
        kind = check_member(ITEM, "evaluation", evaluation, Evaluation)
        limits = thresholds_in_quanta(ITEM, thresholds, self.history.metrics, self.quanta)
        check_number(ITEM, "now", now, low=-math.inf)
        horizon = math.inf if within is None else check_number(ITEM, "within", within)
        if kind is Evaluation.PEAK and within is not None:
            raise ConflictError(f"{ITEM}: within is {within:g}, but evaluation peak has no time; use timeline")
        if not replicas:
            return 0.0
        draws = self.draws(replicas, now=now)
        if kind is Evaluation.PEAK:
            count = repetitions_in_violation_peak(self._curves.level, draws.trace, limits)
        else:
            created = np.array([replica.created for replica in replicas], np.float64)
            departure = np.minimum(departures(self.history, created, draws.trace, now), now + horizon)
            count = repetitions_in_violation_timeline(self._curves, draws.trace, created, departure, now, limits)
        return count / self.sampler.repetitions

    def draws(self, replicas: Sequence[ReplicaForecast], *, now: float) -> TraceDraws:
        """Return the sampled traces of replicas at a time, in seconds."""
        metrics = self.history.metrics
        for replica in replicas:
            check_metrics(ITEM, "largest_demand", replica.largest_demand, metrics)
        return self.sampler.draw(
            np.array([replica.key for replica in replicas], np.uint64),
            [self.history.class_code(replica.tenant_class) for replica in replicas],
            [replica.role.value for replica in replicas],
            [max(0.0, now - replica.created) for replica in replicas],
            np.array([[replica.largest_demand.get(name, 0.0) for name in metrics] for replica in replicas]),
        )


def departures(history: DemandHistory, created: Float, trace: Int32, now: float) -> Float:
    """Return the departure of each replica in each repetition, shape (S, K), in seconds.

    A present replica does not depart before now. That matters only if eligibility was widened beyond the
    lifetime: a replica older than all its models still counts with its demand.
    """
    departure: Float = np.maximum(created[:, np.newaxis] + history.lifetime[trace].astype(np.float64), now)
    return departure


@kernel
def repetitions_in_violation_peak(level_quanta: Int32, traces: Int32, thresholds: Int) -> int:
    """Return in how many repetitions the summed levels reach a threshold.

    `level_quanta` (T, R) and `thresholds` (R,) in quanta, `traces` (S, K) rows.
    """
    count = 0
    for repetition in range(traces.shape[1]):
        for metric in range(len(thresholds)):
            if level_sum(level_quanta, traces, repetition, metric) >= thresholds[metric]:
                count += 1
                break
    return count


@kernel
def level_sum(level_quanta: Int32, traces: Int32, repetition: int, metric: int) -> int:
    """Return Σ over the replicas of their traces' level in quanta; shapes as in `repetitions_in_violation_peak`."""
    total = 0
    for replica in range(len(traces)):
        total += int(level_quanta[traces[replica, repetition], metric])
    return total


@kernel
def repetitions_in_violation_timeline(
    curves: Curves, traces: Int32, created: Float, departure: Float, now: float, thresholds: Int
) -> int:
    """Return in how many repetitions the demand reaches a threshold at a departure that is not before `now`.

    `traces` (S, K) rows, `created` (S,) and `departure` (S, K) in seconds, `thresholds` (R,) in quanta. Monotone curves
    make the departures sufficient ([1] section 5.3); metrics whose summed levels are below are skipped.
    """
    count = 0
    for repetition in range(traces.shape[1]):
        for metric in range(len(thresholds)):
            if level_sum(curves.level, traces, repetition, metric) >= thresholds[metric] and reaches_threshold(
                curves, traces, created, departure, now, repetition, metric, thresholds[metric]
            ):
                count += 1
                break
    return count


@kernel
def reaches_threshold(
    curves: Curves,
    traces: Int32,
    created: Float,
    departure: Float,
    now: float,
    repetition: int,
    metric: int,
    threshold: int,
) -> bool:
    """Return whether one metric reaches its threshold at one of the departures of a repetition."""
    for departing in range(len(traces)):
        time = departure[departing, repetition]
        if time >= now and demand_at(curves, traces, created, departure, time, repetition, metric) >= threshold:
            return True
    return False


@kernel
def demand_at(
    curves: Curves, traces: Int32, created: Float, departure: Float, time: float, repetition: int, metric: int
) -> int:
    """Return the quanta of the replicas that are there at `time`, those that depart at that moment included."""
    total = 0
    for replica in range(len(traces)):
        if created[replica] <= time <= departure[replica, repetition]:
            total += demand_quanta(curves, traces[replica, repetition], metric, time - created[replica])
    return total


@kernel
def demand_quanta(curves: Curves, row: int, metric: int, age: float) -> int:
    """Return a trace's demand at an age, in whole quanta: rounded up, at most the rounded level."""
    if age >= curves.growth[row, metric]:
        return int(curves.level[row, metric])
    demand = curves.initial[row, metric] + curves.rise[row, metric] * (age / curves.growth[row, metric])
    whole: int = min(math.ceil(demand), int(curves.level[row, metric]))
    return whole
