"""Estimates of violations from reports, which are not a share of repetitions.

Each estimator sums columns over the replicas of a node, for each metric: means and variances, samples of the past,
percentiles. These are its *columns* (`plb.risk.estimator_columns`). An estimator reads the sums of its columns:

- ``GAUSSIAN``: the first column is the mean, the second the variance; the probability that a Gaussian total reaches the
  threshold of some metric ([2] section 4), metrics taken as independent;
- ``POINT``: a single column is the predicted peak ([5] section 4, borg-default and RC-like);
- ``N_SIGMA``: the columns are samples of the past, the newest first; the predicted peak is their mean and n sample
  deviations ([5] section 4);
- ``PERCENTILE``: the predicted peak is a percentile of such samples, interpolated linearly.

A predicted peak is a violation if it reaches the threshold of a metric, and of several estimators if one reaches it
([5] section 4, the maximum over predictors). If `CAP` names a column, the peak is at most its sum.
"""

from __future__ import annotations

import math

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.risk.peak_estimators import GAUSSIAN, KIND, predicted_peaks, predicts_violation

CERTAIN = 2**20
"""A probability of 1 in the whole units in which violations of a node are kept, where the estimator is Gaussian."""

_SQRT_2 = math.sqrt(2.0)


@kernel
def node_violations(
    estimator_rows: Float, variance_unit: Float, aggregate: Int32, threshold: Int32, incoming: Int32, outgoing: Int32
) -> int:
    """Return the violations of a node in units.

    Parameters
    ----------
    estimator_rows
        (J, 5) see `KIND`; a Gaussian is always alone.
    variance_unit
        (R,) squared quanta of a variance of 1.
    aggregate, incoming, outgoing
        (R, C) sums of columns on the node, and columns of the replica that is added and of the one that is removed.
    threshold
        (R,) quanta.
    """
    if estimator_rows[0, KIND] == GAUSSIAN:
        within = 1.0
        for metric in range(aggregate.shape[0]):
            mean = float(aggregate[metric, 0] + incoming[metric, 0] - outgoing[metric, 0])
            variance = float(aggregate[metric, 1] + incoming[metric, 1] - outgoing[metric, 1]) * variance_unit[metric]
            within *= 1.0 - gaussian_excess(mean, variance, float(threshold[metric]))
        return int(CERTAIN * (1.0 - within) + 0.5)
    for estimator in range(estimator_rows.shape[0]):
        for metric in range(aggregate.shape[0]):
            if predicts_violation(
                estimator_rows[estimator],
                aggregate[metric],
                incoming[metric],
                outgoing[metric],
                float(threshold[metric]),
            ):
                return 1
    return 0


@kernel
def gaussian_excess(mean: float, variance: float, threshold: float) -> float:
    """Return the probability that a Gaussian total reaches a threshold; 0 or 1 without variance."""
    if variance <= 0.0:
        return 1.0 if mean >= threshold else 0.0
    return 0.5 * math.erfc((threshold - mean) / (math.sqrt(variance) * _SQRT_2))


def violations_of_sums(estimator_rows: Float, variance_unit: Float, sums: Int, threshold: Int | Int32) -> int:
    """Return the violations of a node in units as `node_violations` does, from its sums (R, C), in plain NumPy."""
    if estimator_rows[0, KIND] == GAUSSIAN:
        variances = sums[:, 1] * variance_unit
        pairs = zip(sums[:, 0].tolist(), variances.tolist(), threshold.tolist(), strict=True)
        within = math.prod(1.0 - gaussian_excess.py_func(mean, variance, bound) for mean, variance, bound in pairs)
        return int(CERTAIN * (1.0 - within) + 0.5)
    return int((predicted_peaks(estimator_rows, sums) >= threshold).any())
