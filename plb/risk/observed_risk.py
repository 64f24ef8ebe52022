"""Risk by what replicas have demanded so far: the Gaussian of [2] and the peak predictors of [5] as risk models.

Demand is counted in whole quanta, rounded up, as in `plb.risk.monte_carlo`. An engine with one of these estimators
(`plb.PlbConfig.estimator`) keeps the same columns, and updates their sums with each move; there, values above the
largest node are limited to just more than that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from plb.array_types import Float, Int
from plb.errors import ConflictError, InvalidValueError
from plb.model.quanta import LARGEST_VALUE
from plb.risk.estimator_columns import Shown, columns_of, estimator_rows, variance_units
from plb.risk.estimators import Gaussian, estimator_of, is_for_nodes, samples_kept, samples_needed
from plb.risk.node_violations import CERTAIN, violations_of_sums
from plb.risk.peak_estimators import predicted_peaks
from plb.risk.peaks import HistoricalPeak, Predictor
from plb.risk.risk_model import ReplicaForecast
from plb.risk.thresholds import checked_quanta, thresholds_in_quanta
from plb.validation import check_items, check_metrics, check_number

ITEM = "observed risk"
VARIANCE_DIGITS = 20
"""A standard deviation as large as the largest sample has a variance of 2^40 units: sums stay whole and exact."""


class ObservedRisk:
    """Probability of violation by what replicas have shown: a `plb.risk.RiskModel`.

    A replica that the estimator does not know yet counts at its limit, and so does a metric without samples; without a
    limit, at its largest known demand. Tenant class, role, age and key are not used, nor is the present
    time: demand is assumed to continue.

    Parameters
    ----------
    estimator
        `plb.risk.estimators.Gaussian` or a predictor of `plb.risk.peaks`, or its text, such as
        ``"n-sigma:n=5,warmup=12,history=60"``. Probabilities of a Gaussian are whole multiples of 2^-20.
    quanta
        Quantum in which demand is counted, by metric in user units: a power of two each, for every metric of the
        replicas. All demand is rounded up to it, so it should be small relative to demand.

    Raises
    ------
    InvalidValueError
        The estimator is Monte Carlo, which uses past tenants (`plb.risk.MonteCarloRisk`), or uses the future, or is
        `plb.risk.peaks.HistoricalPeak`, alone or in a maximum, or a value of it is out of range. A quantum is not a
        power of two.
    UnknownNameError
        The estimator or a parameter is unknown.
    """

    def __init__(self, estimator: Gaussian | Predictor | str, *, quanta: Mapping[str, float]) -> None:
        found = estimator_of(estimator, ITEM) if isinstance(estimator, str) else estimator
        if not isinstance(found, Gaussian | Predictor):
            raise InvalidValueError(ITEM, "estimator", estimator, "a Gaussian, or a predictor that uses the past")
        if isinstance(found, Predictor) and not is_for_nodes(found):
            raise InvalidValueError(ITEM, "estimator", estimator, f"a predictor other than {HistoricalPeak.kind}")
        self.estimator = found
        given = checked_quanta(ITEM, quanta)
        self.metrics = tuple(given)
        self.quanta: Float = np.array(list(given.values()), np.float64)
        self._estimator_rows: Float = np.array(estimator_rows(found), np.float64)

    def probability_of_violation(
        self, replicas: Sequence[ReplicaForecast], *, thresholds: Mapping[str, float], now: float
    ) -> float:
        """Return the probability that the summed demand of the replicas reaches a threshold; of predictors, 0 or 1.

        Parameters
        ----------
        replicas, thresholds, now
            As in `plb.risk.RiskModel`.

        Raises
        ------
        UnknownNameError
            A metric has no quantum.
        InvalidValueError
            A threshold is negative or not finite, or a demand more than 2^31 quanta.
        ConflictError
            A replica shows fewer of its samples than the estimator keeps.
        """
        limits = thresholds_in_quanta(ITEM, thresholds, self.metrics, self.quanta)
        check_number(ITEM, "now", now, low=-math.inf)
        given = check_items(ITEM, "replicas", replicas, ReplicaForecast)
        sums, variance_unit = self._sums(given)
        violations = violations_of_sums(self._estimator_rows, variance_unit, sums, limits) if given else 0
        return violations / CERTAIN if isinstance(self.estimator, Gaussian) else float(violations)

    def predicted_peaks(self, replicas: Sequence[ReplicaForecast]) -> dict[str, float]:
        """Return the predicted peak of the summed demand of the replicas, by metric in user units.

        Raises
        ------
        UnknownNameError
            A metric has no quantum.
        InvalidValueError
            The estimator is a Gaussian, which predicts no peak, or a demand is more than 2^31 quanta.
        ConflictError
            A replica shows fewer of its samples than the estimator keeps.
        """
        if isinstance(self.estimator, Gaussian):
            raise InvalidValueError(ITEM, "estimator", self.estimator, "a peak predictor")
        sums, _ = self._sums(check_items(ITEM, "replicas", replicas, ReplicaForecast))
        peaks = predicted_peaks(self._estimator_rows, sums) * self.quanta
        return dict(zip(self.metrics, peaks.tolist(), strict=True))

    def _sums(self, replicas: Sequence[ReplicaForecast]) -> tuple[Int, Float]:
        """Return the sums of the columns, (R, C), and the unit of variances, (R,) squared quanta."""
        shown = self._shown(replicas)
        known = shown.samples[shown.seen >= samples_needed(self.estimator)]
        variance_unit = variance_units(known.max(axis=(0, 2), initial=1), VARIANCE_DIGITS)
        return columns_of(self.estimator, shown, variance_unit).sum(axis=0), variance_unit

    def _shown(self, replicas: Sequence[ReplicaForecast]) -> Shown:
        """Return what the replicas have shown, in quanta."""
        kept = samples_kept(self.estimator)
        samples = np.zeros((len(replicas), len(self.metrics), kept), np.int64)
        limits = np.zeros((len(replicas), len(self.metrics)), np.int64)
        for number, replica in enumerate(replicas):
            for field in ("largest_demand", "samples", "limits"):
                check_metrics(ITEM, field, getattr(replica, field), self.metrics)
            _check_enough(replica, kept)
            for place, name in enumerate(self.metrics):
                demanded = replica.samples.get(name, ())
                most = max((replica.largest_demand.get(name, 0.0), *demanded))
                limit = replica.limits.get(name, most)
                limits[number, place] = self._in_quanta(f"limits[{name}]", [limit], place)[0]
                newest_first = self._in_quanta(f"samples[{name}]", demanded[: -kept - 1 : -1] or [limit] * kept, place)
                samples[number, place, : len(newest_first)] = newest_first
        return Shown(samples, np.array([replica.seen for replica in replicas], np.int64), limits)

    def _in_quanta(self, field: str, values: Sequence[float], place: int) -> Int:
        quantum = float(self.quanta[place])
        most = LARGEST_VALUE * quantum
        for value in values:
            if value > most:
                allowed = f"at most {most:g} (2^31 quanta of {quantum:g}); give the metric a coarser quantum"
                raise InvalidValueError(ITEM, field, value, allowed)
        return np.ceil(np.array(values) / quantum).astype(np.int64)


def _check_enough(replica: ReplicaForecast, kept: int) -> None:
    """Refuse a replica with fewer samples than it was seen and the estimator keeps."""
    given = max(map(len, replica.samples.values()), default=0)
    requested = min(replica.seen or 0, kept)
    if given < requested:
        raise ConflictError(
            f"{ITEM}: a replica shows {given} of {replica.seen} samples; expected the newest {requested}"
        )
