"""Predicted peaks of a node from the sums of its columns ([5] section 4): a fixed prediction, N-sigma, a percentile."""

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
    """Return whether a percentile of the columns reaches a threshold, in one pass and without sorting.

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
