"""Estimates of violations from reports, which are not a share of repetitions.

Each estimator sums columns over the replicas of a node, for each metric: means and variances, samples of the past,
percentiles. These are its *columns* (`plb.risk.columns`). An estimator reads the sums of its columns:

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

import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel

GAUSSIAN, POINT, N_SIGMA, PERCENTILE = range(4)
KIND, FIRST, LAST, PARAMETER, CAP = range(5)
"""Positions in an estimator: its kind; its first column and the one after its last; n, or the percentile as a share;
the column of the cap, or `NO_CAP`."""
NO_CAP = -1.0
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


@kernel
def predicts_violation(estimator: Float, sums: Int32, incoming: Int32, outgoing: Int32, threshold: float) -> bool:
    """Return whether a predicted peak reaches a threshold in quanta; `estimator` is (5,), the others (C,) quanta."""
    first, last = int(estimator[FIRST]), int(estimator[LAST])
    if estimator[CAP] >= 0.0:
        cap = int(estimator[CAP])
        if float(sums[cap] + incoming[cap] - outgoing[cap]) < threshold:
            return False
    if estimator[KIND] == POINT:
        return bool(float(sums[first] + incoming[first] - outgoing[first]) >= threshold)
    if estimator[KIND] == N_SIGMA:
        return bool(_mean_and_deviations(estimator[PARAMETER], first, last, sums, incoming, outgoing) >= threshold)
    return _percentile_reaches(estimator[PARAMETER], first, last, sums, incoming, outgoing, threshold)


@kernel
def _mean_and_deviations(n: float, first: int, last: int, sums: Int32, incoming: Int32, outgoing: Int32) -> float:
    """Return the mean of the columns and n sample deviations."""
    total = np.int64(0)
    for column in range(first, last):
        total += sums[column] + incoming[column] - outgoing[column]
    mean = total / (last - first)
    squares = 0.0
    for column in range(first, last):
        apart = sums[column] + incoming[column] - outgoing[column] - mean
        squares += apart * apart
    return mean + n * math.sqrt(squares / (last - first - 1))


@kernel
def _percentile_reaches(
    share: float, first: int, last: int, sums: Int32, incoming: Int32, outgoing: Int32, threshold: float
) -> bool:
    """Tell whether a percentile of the columns reaches a threshold, in one pass and without sorting.

    The percentile lies between the two order statistics around ``share·(C − 1)``. It is enough to know how many columns
    reach the threshold and, where it lies between the two, the largest below and the smallest that does.
    """
    position = share * (last - first - 1)
    lower = math.floor(position)
    below, above, reaching = -1.0, math.inf, 0
    for column in range(first, last):
        value = float(sums[column] + incoming[column] - outgoing[column])
        if value >= threshold:
            reaching += 1
            above = min(above, value)
        else:
            below = max(below, value)
    smaller = last - first - reaching
    if lower >= smaller:
        return True
    if lower + 1 < smaller or math.isinf(above):
        return False
    return bool(below + (position - lower) * (above - below) >= threshold)


def violations_of_sums(estimator_rows: Float, variance_unit: Float, sums: Int, threshold: Int | Int32) -> int:
    """Return the violations of a node in units as `node_violations` does, from its sums (R, C), in plain NumPy."""
    if estimator_rows[0, KIND] == GAUSSIAN:
        variances = sums[:, 1] * variance_unit
        pairs = zip(sums[:, 0].tolist(), variances.tolist(), threshold.tolist(), strict=True)
        within = math.prod(1.0 - gaussian_excess.py_func(mean, variance, bound) for mean, variance, bound in pairs)
        return int(CERTAIN * (1.0 - within) + 0.5)
    return int((predicted_peaks(estimator_rows, sums) >= threshold).any())


def predicted_peaks(estimator_rows: Float, sums: Int) -> Float:
    """Return the predicted peak of each metric, (R,) quanta: the largest of all estimators; none is Gaussian."""
    return np.asarray(np.max([_predicted(estimator, sums) for estimator in estimator_rows], axis=0))


def _predicted(estimator: Float, sums: Int) -> Float:
    """Return the predicted peak of each metric, (R,) quanta."""
    past = sums[:, int(estimator[FIRST]) : int(estimator[LAST])].astype(np.float64)
    if estimator[KIND] == POINT:
        predicted = past[:, 0]
    elif estimator[KIND] == N_SIGMA:
        predicted = past.mean(axis=1) + estimator[PARAMETER] * past.std(axis=1, ddof=1)
    else:
        predicted = np.percentile(past, 100.0 * estimator[PARAMETER], axis=1)
    return predicted if estimator[CAP] == NO_CAP else np.minimum(predicted, sums[:, int(estimator[CAP])])
