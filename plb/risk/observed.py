"""Risk by what replicas have demanded so far: the Gaussian of [2] and the peak predictors of [5] as risk models.

Demand is counted in whole steps, rounded up, as `plb.risk.monte_carlo` does it. An engine that one of them drives
(`plb.PlbConfig.estimator`) keeps the same columns and the same judges, and mends their sums from move to move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from plb.arrays import Float, Int
from plb.errors import InvalidValueError
from plb.risk.columns import Shown, columns_of, judges_of
from plb.risk.estimators import Estimator, Gaussian, MonteCarlo, estimator_of, samples_kept
from plb.risk.interface import ReplicaOutlook
from plb.risk.judges import CERTAIN, judge_sums, predicted_peaks
from plb.risk.thresholds import refuse_unknown, thresholds_in_steps
from plb.validation import check_number

ITEM = "observed risk"
MOST = 2.0**40
"""More steps than that count as so many."""
VARIANCE_DIGITS = 20
"""A standard deviation as large as the largest value has a variance of 2^40 units: sums stay whole and exact."""


class ObservedRisk:
    """Probability of violation by what replicas have shown: a `plb.risk.RiskModel`.

    A replica that the estimator does not know yet counts at its limit; for a metric without one, at the most that it
    has demanded. Tenant class, role, age and key do not matter, nor does the present time: demand goes on as it was.

    Parameters
    ----------
    estimator
        `plb.risk.estimators.Gaussian` or a predictor of `plb.risk.peaks`, or its text, such as
        ``"n-sigma:n=5,warmup=12,history=60"``.
    steps
        Step in which demand is counted, by metric in user units: all metrics that are looked at.

    Raises
    ------
    InvalidValueError
        The estimator is Monte Carlo, which goes by past tenants (`plb.risk.MonteCarloRisk`), or looks into the future.
    """

    def __init__(self, estimator: Estimator | str, *, steps: Mapping[str, float]) -> None:
        found = estimator_of(estimator) if isinstance(estimator, str) else estimator
        if isinstance(found, MonteCarlo) or not isinstance(found, Estimator):
            raise InvalidValueError(ITEM, "estimator", estimator, "a Gaussian, or a predictor that looks at the past")
        self.estimator = found
        self.metrics = tuple(steps)
        given = [check_number(ITEM, f"steps[{name}]", steps[name], low_open=True) for name in self.metrics]
        self.steps: Float = np.array(given, np.float64)
        self._judges: Float = np.array(judges_of(found), np.float64)

    def probability_of_violation(
        self, replicas: Sequence[ReplicaOutlook], *, thresholds: Mapping[str, float], now: float
    ) -> float:
        """Return the probability that the summed demand of the replicas reaches a threshold; of predictors, 0 or 1.

        Parameters
        ----------
        replicas
            The replicas that stand, or would stand, on the node.
        thresholds
            Demand from which on the node is in violation, f·c, by metric in user units; a missing metric is unlimited.
        now
            Present time in seconds.

        Raises
        ------
        UnknownNameError
            A metric has no step.
        InvalidValueError
            A threshold is negative or not finite.
        """
        limits = thresholds_in_steps(ITEM, thresholds, self.metrics, self.steps)
        check_number(ITEM, "now", now, low=-math.inf)
        sums, variance_unit = self._sums(replicas)
        violations = judge_sums(self._judges, variance_unit, sums, limits) if replicas else 0
        return violations / CERTAIN if isinstance(self.estimator, Gaussian) else float(violations)

    def predicted_peaks(self, replicas: Sequence[ReplicaOutlook]) -> dict[str, float]:
        """Return the predicted peak of the summed demand of the replicas, by metric in user units.

        Raises
        ------
        InvalidValueError
            The estimator is a Gaussian, which predicts no peak.
        """
        if isinstance(self.estimator, Gaussian):
            raise InvalidValueError(ITEM, "estimator", self.estimator, "a peak predictor")
        peaks = predicted_peaks(self._judges, self._sums(replicas)[0]) * self.steps
        return dict(zip(self.metrics, peaks.tolist(), strict=True))

    def _sums(self, replicas: Sequence[ReplicaOutlook]) -> tuple[Int, Float]:
        """Return the sums of the columns, (R, C), and the unit of variances, (R,) squared steps."""
        shown = self._shown(replicas)
        largest = np.maximum(shown.limit.max(axis=0, initial=1), shown.samples.max(axis=(0, 2), initial=1))
        variance_unit = 4.0 ** np.maximum(np.ceil(np.log2(largest)) - VARIANCE_DIGITS, 0.0)
        return columns_of(self.estimator, shown, variance_unit).sum(axis=0), variance_unit

    def _shown(self, replicas: Sequence[ReplicaOutlook]) -> Shown:
        """Return what the replicas have shown, in steps."""
        metrics, kept = self.metrics, samples_kept(self.estimator)
        samples = np.zeros((len(replicas), len(metrics), kept))
        seen = np.zeros(len(replicas), np.int64)
        limit = np.zeros((len(replicas), len(metrics)))
        for number, replica in enumerate(replicas):
            for field in ("largest_demand", "samples", "limits"):
                refuse_unknown(ITEM, field, getattr(replica, field), metrics)
            seen[number] = max(map(len, replica.samples.values()), default=0)
            for place, name in enumerate(metrics):
                newest_first = replica.samples.get(name, ())[: -kept - 1 : -1]
                samples[number, place, : len(newest_first)] = newest_first
                most = max((replica.largest_demand.get(name, 0.0), *newest_first[:1]))
                limit[number, place] = replica.limits.get(name, most)
        return Shown(self._in_steps(samples, self.steps[:, np.newaxis]), seen, self._in_steps(limit, self.steps))

    @staticmethod
    def _in_steps(values: Float, steps: Float) -> Int:
        return np.asarray(np.minimum(np.ceil(values / steps), MOST), np.int64)
