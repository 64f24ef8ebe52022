"""What the engine expects of each replica from what it has shown: the columns of an estimator (`plb.energy.judges`).

A sample is what a replica carries after a report. The newest samples of all replicas count as of one time, the ones
before them as of one time, and so on: hosts that report all loads at each metering have it so. A replica is warm once
it has shown as many samples as the estimator wants; until then it counts at the limit of its service
(`plb.Service.limits`), or, for a metric without one, at the most that it has demanded and now carries.

Where the past of a node is asked for and a warm replica has fewer samples than are kept, its own are repeated.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import numpy as np

from plb.arrays import Bool, Float, Int, Int32
from plb.config import PlbConfig
from plb.energy.judges import CAP, CERTAIN, GAUSSIAN, LAST, N_SIGMA, NO_CAP, PERCENTILE, POINT
from plb.outlook import DRAWN_TOGETHER, NO_FUTURES
from plb.risk.estimators import Estimator, Gaussian, MonteCarlo, samples_needed
from plb.risk.peaks.predictors import (
    BorgDefault,
    Form,
    MachinePercentile,
    Maximum,
    NSigma,
    Predictor,
    RcLike,
    least_seen,
)
from plb.rows import LARGEST_SAMPLE, RowTable
from plb.state import ClusterState
from plb.steps import UNLIMITED

Single: TypeAlias = BorgDefault | RcLike | MachinePercentile | NSigma
"""A predictor that is no maximum of others."""
NEVER = -1
"""Samples of a row that was not looked at yet."""
VARIANCE_BITS = 12
"""A standard deviation as large as the largest node has a variance of 2^24 units, so that sums stay within 32 bits."""


@attrs.frozen(eq=False)
class Shown:
    """What is known of some replicas.

    Parameters
    ----------
    samples
        (m, R, H) steps: the newest first; beyond `seen` they mean nothing.
    seen
        (m,) how many there have been; H at most are there.
    limit
        (m, R) steps.
    """

    samples: Int
    seen: Int
    limit: Int

    def within(self, history: int, *, cap: bool) -> tuple[Int, Int]:
        """Return the newest samples, at most `history`, capped if asked for, and their number: (m, R, h), (m,)."""
        samples = self.samples[:, :, :history]
        if cap:
            samples = np.minimum(samples, self.limit[:, :, np.newaxis])
        return samples, np.minimum(self.seen, samples.shape[2])


class ObservedOutlook:
    """The columns of every row of a `ClusterState`; it stands where `plb.outlook.Outlook` does.

    Attributes
    ----------
    peak, peak_ceiling, judges, variance_unit
        As in `plb.arrays.Problem`.
    units
        What a certain violation of a node counts.
    history
        None: no past tenants are asked.
    """

    history = None

    def __init__(self, config: PlbConfig, estimator: Estimator) -> None:
        assert not isinstance(estimator, MonteCarlo)
        self._estimator = estimator
        self._metrics = len(config.metrics)
        self.judges = np.array(judges_of(estimator), np.float64)
        self.units = CERTAIN if isinstance(estimator, Gaussian) else 1
        self._columns = int(max(self.judges[:, LAST].max(), self.judges[:, CAP].max() + 1))
        self._needed = max(1, samples_needed(estimator))
        self.variance_unit: Float = np.ones(self._metrics)
        self._most: Int = np.zeros(self._metrics, np.int64)
        self._limits: Int = np.zeros((0, self._metrics), np.int64)
        self._carried: Bool = np.zeros((0, self._metrics), np.bool_)
        self._services_version: object = None
        self._allocate(0)

    def _allocate(self, room: int) -> None:
        self.peak: Int32 = np.zeros((room + 1, self._metrics, self._columns), np.int32)
        self.peak_ceiling: Int = np.zeros((room + 1, self._metrics), np.int64)
        self._changed: Bool = np.zeros(room, np.bool_)
        # of the last look at each row
        self._seen: Int = np.full(room, NEVER, np.int64)
        self._generation: Int = np.zeros(room, np.int64)
        self._vacant: Bool = np.zeros(room, np.bool_)
        self._load: Int = np.zeros((room, self._metrics), np.int64)

    def update(self, state: ClusterState, now: float) -> int:
        """Bring the columns up to date with what was reported; return how many rows changed."""
        del now  # demand is taken to go on as it was
        table = state.rows
        if len(self.peak) != table.room + 1:
            self._allocate(table.room)
        self._measure(state)
        self._note_services(state)
        rows = self._rows_to_look_at(table)
        for first in range(0, len(rows), DRAWN_TOGETHER):
            self._look_at(rows[first : first + DRAWN_TOGETHER], state)
        return len(rows)

    def futures(self, state: ClusterState) -> dict[str, Any]:
        """Return what `plb.arrays.Problem` says of when replicas grow and depart: nothing."""
        del state
        return {"timeline": False, **NO_FUTURES}

    def take_changed(self) -> Bool:
        """Return the rows whose columns have changed since the last call, (M,)."""
        changed, self._changed = self._changed, np.zeros_like(self._changed)
        return changed

    def _measure(self, state: ClusterState) -> None:
        """Note the largest node; by it the unit of variances is chosen."""
        bounded = state.capacity < UNLIMITED
        most = np.where(bounded, state.capacity, 0).max(axis=0, initial=0) + bounded.any(axis=0)
        most = np.minimum(most, LARGEST_SAMPLE)
        if not np.array_equal(most, self._most):
            digits = np.ceil(np.log2(np.maximum(most, 1)))
            self.variance_unit = 4.0 ** np.maximum(digits - VARIANCE_BITS, 0.0)
            self._most = most
            self._seen[:], self._changed[:] = NEVER, True

    def _note_services(self, state: ClusterState) -> None:
        """Note limits and metrics of the services; rows of those that changed are looked at again."""
        version = (state.services_version, state.steps.steps.tobytes())
        if self._services_version == version:
            return
        self._services_version = version
        promised = np.full((len(state.services), self._metrics), np.inf)
        for service, given in enumerate(state.services):
            for name, value in given.limits.items():
                promised[service, state.steps.index[name]] = value
        whole = np.ceil(promised / state.steps.steps)
        limits = np.where(whole < UNLIMITED, whole, UNLIMITED).astype(np.int64)
        carried = state.carries().copy()
        changed, known = np.ones(len(limits), np.bool_), len(self._limits)
        changed[:known] = (limits[:known] != self._limits).any(axis=1) | (carried[:known] != self._carried).any(axis=1)
        self._limits, self._carried = limits, carried
        if len(limits):
            self._seen[changed[state.rows.service]] = NEVER

    def _rows_to_look_at(self, table: RowTable) -> Int:
        """Return the rows that have shown something since the last look, or go by limits and carry something else."""
        new = (table.seen != self._seen) | (table.generation != self._generation) | (table.vacant != self._vacant)
        new |= (table.seen < self._needed) & (table.load[:-1] != self._load).any(axis=1)
        return np.flatnonzero(table.used & ~table.leaving & new)

    def _look_at(self, rows: Int, state: ClusterState) -> None:
        """Form the columns of rows anew."""
        table = state.rows
        columns = self._columns_of(state, rows)
        self._seen[rows], self._generation[rows] = table.seen[rows], table.generation[rows]
        self._vacant[rows], self._load[rows] = table.vacant[rows], table.load[rows]
        different = (columns != self.peak[rows]).any(axis=(1, 2))
        rows, columns = rows[different], columns[different]
        self.peak[rows] = columns
        self.peak_ceiling[rows] = columns.max(axis=2, initial=0)
        self._changed[rows] = True

    def _columns_of(self, state: ClusterState, rows: Int) -> Int32:
        """Return the columns of rows, (m, R, C); more than the largest node has counts as just more than that."""
        table = state.rows
        seen, kept = table.seen[rows], table.samples.shape[2]
        newest_first = (seen[:, np.newaxis] - 1 - np.arange(kept)) % max(1, kept)
        samples = np.take_along_axis(table.samples[rows], newest_first[:, np.newaxis, :], axis=2).astype(np.int64)
        demanded = np.ceil(table.largest_demand[rows] / state.steps.steps).astype(np.int64)
        limit = self._limits[table.service[rows]]
        limit = np.where(limit < UNLIMITED, limit, np.maximum(demanded, table.load[rows]))
        shown = Shown(np.minimum(samples, self._most[:, np.newaxis]), seen, np.minimum(limit, self._most))
        if isinstance(self._estimator, Gaussian):
            columns = moments(self._estimator, shown, self.variance_unit)
        else:
            columns = np.concatenate([columns_of(one, shown) for one in members(self._estimator)], axis=2)
        counted = self._carried[table.service[rows]] & ~table.vacant[rows, np.newaxis]
        return (columns * counted[:, :, np.newaxis]).astype(np.int32)


def members(predictor: Predictor) -> list[Single]:
    """Return the predictors of which one is the maximum, also of maxima, or the one itself."""
    if not isinstance(predictor, Maximum):
        return [predictor]
    return [inner for one in predictor.of for inner in members(one)]


def judges_of(estimator: Gaussian | Predictor) -> list[list[float]]:
    """Return the rows of `Problem.judges`, the columns of one after those of the other."""
    if isinstance(estimator, Gaussian):
        return [[GAUSSIAN, 0, 2, 0.0, NO_CAP]]
    found: list[list[float]] = []
    first = 0
    for one in members(estimator):
        if isinstance(one, NSigma):
            capped = one.form is Form.RELEASED
            last = first + one.history
            found.append([N_SIGMA, first, last, one.n, last if capped else NO_CAP])
            first = last + capped
        elif isinstance(one, MachinePercentile):
            last = first + one.history
            found.append([PERCENTILE, first, last, one.percentile / 100.0, last])
            first = last + 1
        else:
            found.append([POINT, first, first + 1, 0.0, NO_CAP])
            first += 1
    return found


def columns_of(predictor: Single, shown: Shown) -> Int:
    """Return the columns of one predictor, (m, R, c) steps, as `judges_of` names them."""
    limit = shown.limit[:, :, np.newaxis]
    if isinstance(predictor, BorgDefault):
        return np.asarray(np.ceil(predictor.phi * limit), np.int64)
    samples, seen = shown.within(predictor.history, cap=predictor.cap)
    cold = (shown.seen < least_seen(predictor))[:, np.newaxis, np.newaxis]
    if isinstance(predictor, MachinePercentile):
        return np.concatenate([np.where(cold, limit, _repeated(samples, seen, predictor.history)), limit], axis=2)
    if isinstance(predictor, RcLike):
        percentile = percentiles(samples, seen, predictor.percentile)[:, :, np.newaxis]
        return np.asarray(np.where(cold, limit, np.ceil(percentile)), np.int64)
    past = np.where(cold, limit, _repeated(samples, seen, predictor.history))
    return np.concatenate([past, limit], axis=2) if predictor.form is Form.RELEASED else past


def moments(estimator: Gaussian, shown: Shown, variance_unit: Float) -> Int:
    """Return mean in steps and variance in its units, (m, R, 2), rounded up."""
    samples, seen = shown.within(estimator.history, cap=estimator.cap)
    there = (np.arange(samples.shape[2]) < seen[:, np.newaxis])[:, np.newaxis, :]
    count = np.maximum(seen, 1)[:, np.newaxis]
    mean = (samples * there).sum(axis=2) / count
    variance = (np.square(samples - mean[:, :, np.newaxis]) * there).sum(axis=2) / count
    cold = (shown.seen < samples_needed(estimator))[:, np.newaxis]
    columns = [np.where(cold, shown.limit, np.ceil(mean)), np.where(cold, 0, np.ceil(variance / variance_unit))]
    return np.asarray(np.stack(columns, axis=2), np.int64)


def percentiles(samples: Int, seen: Int, percentile: float) -> Float:
    """Return a percentile of the first ``seen[i]`` samples of each row, (m, R), interpolated as NumPy does."""
    there = (np.arange(samples.shape[2]) < seen[:, np.newaxis])[:, np.newaxis, :]
    ordered = np.sort(np.where(there, samples.astype(np.float64), np.inf), axis=2)
    position = percentile / 100.0 * np.maximum(seen - 1, 0)
    lower = np.floor(position).astype(np.int64)[:, np.newaxis, np.newaxis]
    upper = np.minimum(lower + 1, np.maximum(seen - 1, 0)[:, np.newaxis, np.newaxis])
    share = (position - np.floor(position))[:, np.newaxis]
    low, high = (_picked(ordered, at) for at in (lower, upper))
    return np.asarray(np.where(seen[:, np.newaxis] > 0, low + share * (high - low), 0.0))


def _picked(ordered: Float, at: Int) -> Float:
    picked = np.take_along_axis(ordered, np.broadcast_to(at, (*ordered.shape[:2], 1)), axis=2)[:, :, 0]
    return np.where(np.isfinite(picked), picked, 0.0)


def _repeated(samples: Int, seen: Int, history: int) -> Int:
    """Return so many samples of each row, (m, R, history), its own repeated where it has fewer."""
    at = np.arange(history) % np.maximum(seen, 1)[:, np.newaxis]
    return np.take_along_axis(samples, at[:, np.newaxis, :], axis=2)
