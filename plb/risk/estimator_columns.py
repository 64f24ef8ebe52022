"""The columns that estimators sum over the replicas of a node, in whole quanta; `plb.risk.node_violations` reads them.

A sample is the load of a replica at one time. The newest samples of all replicas are simultaneous, the previous ones
are, and so on. A replica is warm once it has as many samples as the estimator needs; until then
it counts at its limit.

If the past of a node is needed and a warm replica has fewer samples than are kept, its samples are repeated.

m replicas, R metrics, H samples kept, C columns.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import Float, Int
from plb.compiler import kernel
from plb.risk.estimators import Gaussian, samples_needed
from plb.risk.peak_estimators import GAUSSIAN, N_SIGMA, NO_CAP, PERCENTILE, POINT
from plb.risk.peaks.predictor_settings import (
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


@attrs.frozen(eq=False)
class Shown:
    """The samples of some replicas.

    Parameters
    ----------
    samples
        (m, R, H) quanta: the newest first; beyond `seen` they mean nothing.
    seen
        (m,) how many there have been; H at most are there.
    limit
        (m, R) quanta.
    """

    samples: Int
    seen: Int
    limit: Int

    def within(self, history: int, *, cap: bool) -> tuple[Int, Int]:
        """Return the newest samples, at most `history`, capped on request, and their number: (m, R, h), (m,)."""
        samples = self.samples[:, :, :history]
        if cap:
            samples = np.minimum(samples, self.limit[:, :, np.newaxis])
        return samples, np.minimum(self.seen, samples.shape[2])


def columns_of(estimator: Gaussian | Predictor, shown: Shown, variance_unit: Float) -> Int:
    """Return the columns of replicas, (m, R, C): quanta, and variances in `variance_unit`, (R,) squared quanta."""
    if isinstance(estimator, Gaussian):
        return moments(estimator, shown, variance_unit)
    return np.concatenate([_columns_of_one(one, shown) for one in members(estimator)], axis=2)


def estimator_rows(estimator: Gaussian | Predictor) -> list[list[float]]:
    """Return the estimators of `plb.risk.node_violations`, (J, 5), the columns of one after those of the other."""
    if isinstance(estimator, Gaussian):
        return [[GAUSSIAN, 0, 2, 0.0, NO_CAP]]
    found: list[list[float]] = []
    first = 0
    for one in members(estimator):
        layout = _layout_of(one)
        last = first + layout.width
        found.append([layout.kind, first, last, layout.parameter, last if layout.capped else NO_CAP])
        first = last + layout.capped
    return found


class _Layout(NamedTuple):
    """What the columns of a predictor are."""

    kind: int
    width: int
    parameter: float
    capped: bool
    """Whether a column with the limits follows."""


def _layout_of(predictor: Single) -> _Layout:
    if isinstance(predictor, NSigma):
        return _Layout(N_SIGMA, predictor.history, predictor.n, predictor.form is Form.RELEASED)
    if isinstance(predictor, MachinePercentile):
        return _Layout(PERCENTILE, predictor.history, predictor.percentile / 100.0, capped=True)
    return _Layout(POINT, 1, 0.0, capped=False)


def _columns_of_one(predictor: Single, shown: Shown) -> Int:
    """Return the columns of one predictor, (m, R, c) quanta."""
    limit = shown.limit[:, :, np.newaxis]
    if isinstance(predictor, BorgDefault):
        return np.asarray(np.ceil(predictor.phi * limit), np.int64)
    samples, seen = shown.within(predictor.history, cap=predictor.cap)
    if isinstance(predictor, RcLike):
        known = np.ceil(percentiles(samples, seen, predictor.percentile)).astype(np.int64)[:, :, np.newaxis]
    else:
        known = _repeated(samples, seen, predictor.history)
    cold = (shown.seen < least_seen(predictor))[:, np.newaxis, np.newaxis]
    columns = np.where(cold, limit, known)
    return np.concatenate([columns, limit], axis=2) if _layout_of(predictor).capped else columns


def variance_units(largest: Int, digits: int) -> Float:
    """Return units of variances, squared quanta, in which that of `largest` quanta, squared, has at most 4^digits."""
    return np.asarray(4.0 ** np.maximum(np.ceil(np.log2(np.maximum(largest, 1))) - digits, 0.0))


def moments(estimator: Gaussian, shown: Shown, variance_unit: Float) -> Int:
    """Return mean in quanta and variance in its units, (m, R, 2), rounded up."""
    samples, seen = shown.within(estimator.history, cap=estimator.cap)
    there = (np.arange(samples.shape[2]) < seen[:, np.newaxis])[:, np.newaxis, :]
    count = np.maximum(seen, 1)[:, np.newaxis]
    mean = (samples * there).sum(axis=2) / count
    variance = (np.square(samples - mean[:, :, np.newaxis]) * there).sum(axis=2) / count
    cold = (shown.seen < samples_needed(estimator))[:, np.newaxis]
    columns = [np.where(cold, shown.limit, np.ceil(mean)), np.where(cold, 0, np.ceil(variance / variance_unit))]
    return np.asarray(np.stack(columns, axis=2), np.int64)


def percentiles(samples: Int, seen: Int, percentile: float) -> Float:
    """Return a percentile of the first ``seen[i]`` samples of each row, (m, R), as NumPy interpolates; of none: 0."""
    found = np.zeros(samples.shape[:2])
    _find_percentiles(np.ascontiguousarray(samples), seen, percentile, np.empty(samples.shape[2]), found)
    return found


@kernel
def _find_percentiles(samples: Int, seen: Int, percentile: float, window: Float, found: Float) -> None:
    """Write the percentiles of (m, R, h) samples to `found`, (m, R); `window` has room for h."""
    for row in range(samples.shape[0]):
        for metric in range(samples.shape[1]):
            for place in range(seen[row]):
                window[place] = samples[row, metric, place]
            if seen[row] > 0:
                found[row, metric] = percentile_of(window, seen[row], percentile)


def _repeated(samples: Int, seen: Int, history: int) -> Int:
    """Return a number of samples of each row, (m, R, history), repeated if it has fewer."""
    at = np.arange(history) % np.maximum(seen, 1)[:, np.newaxis]
    return np.take_along_axis(samples, at[:, np.newaxis, :], axis=2)
