"""Estimates of violations from reports: columns that are summed over the replicas of a node, and what is read of them.

A sample is the load of a replica at one time. The newest samples of all replicas are simultaneous, the previous ones
are, and so on. A replica is warm once it has as many samples as the estimator needs; until then it counts at its limit.
If the past of a node is needed and a warm replica has fewer samples than are kept, its samples are repeated. Columns
are whole quanta: means and variances, samples of the past, percentiles. An estimator reads the sums of its columns:

- ``GAUSSIAN``: the first column is the mean, the second the variance; the probability that a Gaussian total reaches the
  threshold of some metric ([2] section 4), metrics taken as independent;
- ``POINT``: a single column is the predicted peak ([5] section 4, borg-default and RC-like);
- ``N_SIGMA``: the columns are samples of the past, the newest first; the predicted peak is their mean and n sample
  deviations ([5] section 4);
- ``PERCENTILE``: the predicted peak is a percentile of such samples, interpolated linearly.

A predicted peak is a violation if it reaches the threshold of a metric, and of several estimators if one reaches it
([5] section 4, the maximum over predictors). If `CAP` names a column, the peak is at most its sum.

m replicas, R metrics, H samples kept, C columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Float, Int, Int32
from plb.compiler import kernel
from plb.risk.estimators import Gaussian, samples_needed
from plb.risk.peaks.predictors import (
    BorgDefault,
    Form,
    MachinePercentile,
    NSigma,
    Predictor,
    RcLike,
    Single,
    least_seen,
    members,
)
from plb.risk.peaks.windows import percentile_of

GAUSSIAN, POINT, N_SIGMA, PERCENTILE = range(4)
KIND, FIRST, LAST, PARAMETER, CAP = range(5)
"""Positions in an estimator: its kind; its first column and the one after its last; n, or the percentile as a share;
the column of the cap, or `NO_CAP`."""
NO_CAP = -1.0
"""`CAP` of an estimator without a cap."""


@kernel
def predicts_violation(estimator: Float, sums: Int32, incoming: Int32, outgoing: Int32, threshold: float) -> bool:
    """Return whether the peak that an estimator predicts for a node and a metric reaches a threshold in quanta.

    `estimator`: (5,) see `KIND`; `sums`, `incoming`, `outgoing`: (C,) columns of the node, of a replica that joins and
    of one that leaves.
    """
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
    """Return the mean of the columns from `first` up to `last` plus n sample deviations.

    `sums`, `incoming`, `outgoing`: (C,) columns of the node, of a replica that joins and of one that leaves.
    """
    total = np.int64(0)
    for column in range(first, last):
        total += sums[column] + incoming[column] - outgoing[column]
    mean = total / (last - first)
    squares = 0.0
    for column in range(first, last):
        difference = sums[column] + incoming[column] - outgoing[column] - mean
        squares += difference * difference
    return mean + n * math.sqrt(squares / (last - first - 1))


@kernel
def _percentile_reaches(
    share: float, first: int, last: int, sums: Int32, incoming: Int32, outgoing: Int32, threshold: float
) -> bool:
    """Return whether a percentile, given as a `share`, of the columns from `first` up to `last` reaches a threshold.

    Arrays as in `predicts_violation`. One pass, without sorting: the percentile of C columns lies between the two order
    statistics around ``share·(C − 1)``. It is enough to know how many columns reach the threshold and, where it lies
    between the two, the largest below it and the smallest that reaches it.
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
    """Return the predicted peak of each metric on a node, (R,) quanta: the largest of all estimators.

    `estimator_rows`: (J, 5) without a Gaussian; `sums`: (R, C) columns of the node.
    """
    return np.asarray(np.max([_predicted(estimator, sums) for estimator in estimator_rows], axis=0))


def _predicted(estimator: Float, sums: Int) -> Float:
    """Return the peak of each metric, (R,) quanta, that one `estimator`, (5,), predicts from `sums`, (R, C)."""
    past = sums[:, int(estimator[FIRST]) : int(estimator[LAST])].astype(np.float64)
    if estimator[KIND] == POINT:
        predicted = past[:, 0]
    elif estimator[KIND] == N_SIGMA:
        predicted = past.mean(axis=1) + estimator[PARAMETER] * past.std(axis=1, ddof=1)
    else:
        predicted = np.percentile(past, 100.0 * estimator[PARAMETER], axis=1)
    return predicted if estimator[CAP] == NO_CAP else np.minimum(predicted, sums[:, int(estimator[CAP])])


@attrs.frozen(eq=False)
class Shown:
    """The samples of m replicas."""

    samples: Int
    """(m, R, H) quanta: the newest first; entries beyond the first `seen` are undefined."""
    seen: Int
    """(m,) number of samples so far, of which at most H are kept."""
    limit: Int
    """(m, R) quanta: promised maximum, or what stands for it."""

    def within(self, history: int, *, cap: bool) -> tuple[Int, Int]:
        """Return the newest samples of each replica, (m, R, h), at most `history`, and their number, (m,).

        `cap`: whether a sample above the limit counts as the limit.
        """
        samples = self.samples[:, :, :history]
        if cap:
            samples = np.minimum(samples, self.limit[:, :, np.newaxis])
        return samples, np.minimum(self.seen, samples.shape[2])


def columns_of(estimator: Gaussian | Predictor, shown: Shown, variance_unit: Float) -> Int:
    """Return what `estimator` sums over a node, (m, R, C) of m replicas: quanta, and variances in `variance_unit`.

    `variance_unit`: (R,) squared quanta.
    """
    if isinstance(estimator, Gaussian):
        return moments(estimator, shown, variance_unit)
    return np.concatenate([_columns_of_predictor(predictor, shown) for predictor in members(estimator)], axis=2)


def estimator_rows(estimator: Gaussian | Predictor) -> list[list[float]]:
    """Return the estimators that read the columns of `columns_of`, (J, 5), see `KIND`; predictor after predictor."""
    if isinstance(estimator, Gaussian):
        return [[GAUSSIAN, 0, 2, 0.0, NO_CAP]]
    rows: list[list[float]] = []
    first = 0
    for predictor in members(estimator):
        layout = _layout_of(predictor)
        last = first + layout.width
        rows.append([layout.kind, first, last, layout.parameter, last if layout.capped else NO_CAP])
        first = last + layout.capped
    return rows


class _Layout(NamedTuple):
    """What the columns of a predictor are."""

    kind: int
    """`POINT`, `N_SIGMA` or `PERCENTILE`."""
    width: int
    """Number of columns."""
    parameter: float
    """n, or the percentile as a share."""
    capped: bool
    """Whether a column with the limits follows."""


def _layout_of(predictor: Single) -> _Layout:
    """Return how many columns a predictor has, and how they are read."""
    if isinstance(predictor, NSigma):
        return _Layout(N_SIGMA, predictor.history, predictor.n, predictor.form is Form.RELEASED)
    if isinstance(predictor, MachinePercentile):
        return _Layout(PERCENTILE, predictor.history, predictor.percentile / 100.0, capped=True)
    return _Layout(POINT, 1, 0.0, capped=False)


def _columns_of_predictor(predictor: Single, shown: Shown) -> Int:
    """Return the columns of one predictor for m replicas, (m, R, c) quanta; a cold replica counts at its limit."""
    limit = shown.limit[:, :, np.newaxis]
    if isinstance(predictor, BorgDefault):
        return np.asarray(np.ceil(predictor.phi * limit), np.int64)
    samples, seen = shown.within(predictor.history, cap=predictor.cap)
    if isinstance(predictor, RcLike):
        warm = np.ceil(percentiles(samples, seen, predictor.percentile)).astype(np.int64)[:, :, np.newaxis]
    else:
        warm = _repeated(samples, seen, predictor.history)
    cold = (shown.seen < least_seen(predictor))[:, np.newaxis, np.newaxis]
    columns = np.where(cold, limit, warm)
    return np.concatenate([columns, limit], axis=2) if _layout_of(predictor).capped else columns


def variance_units(largest: Int, digits: int) -> Float:
    """Return units of variances, (R,) squared quanta, in which the square of `largest`, (R,) quanta, is <= 4^digits."""
    return np.asarray(4.0 ** np.maximum(np.ceil(np.log2(np.maximum(largest, 1))) - digits, 0.0))


def moments(estimator: Gaussian, shown: Shown, variance_unit: Float) -> Int:
    """Return mean in quanta and variance in `variance_unit`, (R,) squared quanta, of each replica, (m, R, 2).

    Both are rounded up; a replica that is not warm has its limit and no variance.
    """
    samples, seen = shown.within(estimator.history, cap=estimator.cap)
    is_sample = (np.arange(samples.shape[2]) < seen[:, np.newaxis])[:, np.newaxis, :]
    count = np.maximum(seen, 1)[:, np.newaxis]
    mean = (samples * is_sample).sum(axis=2) / count
    variance = (np.square(samples - mean[:, :, np.newaxis]) * is_sample).sum(axis=2) / count
    cold = (shown.seen < samples_needed(estimator))[:, np.newaxis]
    columns = [np.where(cold, shown.limit, np.ceil(mean)), np.where(cold, 0, np.ceil(variance / variance_unit))]
    return np.asarray(np.stack(columns, axis=2), np.int64)


def percentiles(samples: Int, seen: Int, percentile: float) -> Float:
    """Return a percentile of the samples of each replica, (m, R), as NumPy interpolates; 0 without samples.

    `samples`: (m, R, h), of which the first ``seen[i]`` of replica i count.
    """
    values = np.zeros(samples.shape[:2])
    _find_percentiles(np.ascontiguousarray(samples), seen, percentile, np.empty(samples.shape[2]), values)
    return values


@kernel
def _find_percentiles(samples: Int, seen: Int, percentile: float, window: Float, values: Float) -> None:
    """Write a percentile of the first ``seen[i]`` samples, (m, R, h), of replica i to `values`, (m, R), if any.

    `window`: (h,) scratch.
    """
    for row in range(samples.shape[0]):
        for metric in range(samples.shape[1]):
            for index in range(seen[row]):
                window[index] = samples[row, metric, index]
            if seen[row] > 0:
                values[row, metric] = percentile_of(window, seen[row], percentile)


def _repeated(samples: Int, seen: Int, history: int) -> Int:
    """Return `history` samples of each replica, (m, R, history): the first ``seen[i]`` of replica i, repeated."""
    index = np.arange(history) % np.maximum(seen, 1)[:, np.newaxis]
    return np.take_along_axis(samples, index[:, np.newaxis, :], axis=2)


CERTAIN = 2**20
"""A probability of 1 in the whole units in which violations of a node are kept, where the estimator is Gaussian."""

_SQRT_2 = math.sqrt(2.0)


@kernel
def node_violations(
    estimator_rows: Float, variance_unit: Float, aggregate: Int32, threshold: Int32, incoming: Int32, outgoing: Int32
) -> int:
    """Return the violations of a node: the probability in units of 1/`CERTAIN` if Gaussian, else 1 or 0.

    `estimator_rows` (J, 5), see `KIND`; a Gaussian is always alone. `variance_unit` (R,) is the squared quanta of a
    variance of 1. `aggregate`, `incoming` and `outgoing` (R, C) are the sums of the columns on the node, and the
    columns of a replica that joins and of one that leaves; `threshold` (R,) is in quanta.
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
    """Return the probability that a Gaussian of this mean and variance reaches a threshold; 0 or 1 without variance."""
    if variance <= 0.0:
        return 1.0 if mean >= threshold else 0.0
    return 0.5 * math.erfc((threshold - mean) / (math.sqrt(variance) * _SQRT_2))


def violations_of_sums(estimator_rows: Float, variance_unit: Float, sums: Int, threshold: Int | Int32) -> int:
    """Return the result of `node_violations` for a node with these `sums` of columns, (R, C), in plain NumPy.

    `estimator_rows`: (J, 5); `variance_unit`: (R,) squared quanta; `threshold`: (R,) quanta.
    """
    if estimator_rows[0, KIND] == GAUSSIAN:
        variances = sums[:, 1] * variance_unit
        pairs = zip(sums[:, 0].tolist(), variances.tolist(), threshold.tolist(), strict=True)
        within = math.prod(1.0 - gaussian_excess.py_func(mean, variance, bound) for mean, variance, bound in pairs)
        return int(CERTAIN * (1.0 - within) + 0.5)
    return int((predicted_peaks(estimator_rows, sums) >= threshold).any())
