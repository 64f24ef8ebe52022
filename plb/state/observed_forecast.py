"""The expected demand of each replica from its reports: the columns of an estimator (`plb.risk.estimator_columns`).

A sample is the load of a replica after a report: hosts that report all loads at each metering have the newest of all
replicas at one time. A replica with too few samples counts at the limit of its service (`plb.Service.limits`), or, for
a metric without one, at the maximum of its demand so far and its present load.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.model.quanta import UNLIMITED
from plb.risk.estimator_columns import CAP, CERTAIN, LAST, Shown, columns_of, estimator_rows, variance_units
from plb.risk.estimators import Gaussian, samples_needed
from plb.risk.peaks import Predictor
from plb.settings.config import PlbConfig
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import EACH_COLUMN, Forecast
from plb.state.replica_table import LARGEST_SAMPLE

NEVER = -1
"""Number of samples of a row whose columns were not computed yet."""
UPDATED_TOGETHER = 2**14
"""Number of rows whose columns are computed together: more would only need more memory."""
VARIANCE_DIGITS = 12
"""A standard deviation of the largest node has a variance of 2^24 units, so that sums stay within 32 bits."""


class ObservedDemandForecast(Forecast):
    """The columns of every row of a `ClusterState`; no past tenants are used."""

    history = None

    def __init__(self, config: PlbConfig, estimator: Gaussian | Predictor) -> None:
        self._estimator = estimator
        self._metrics = len(config.metrics)
        self.estimator_rows = np.array(estimator_rows(estimator), np.float64)
        self.units = CERTAIN if isinstance(estimator, Gaussian) else 1
        self.windows = EACH_COLUMN
        self._columns = int(max(self.estimator_rows[:, LAST].max(), self.estimator_rows[:, CAP].max() + 1))
        self._needed = max(1, samples_needed(estimator))
        self.variance_unit: Float = np.ones(self._metrics)
        self._largest_node: Int = np.zeros(self._metrics, np.int64)
        """(R,) quanta: 1 more than the largest bounded capacity of a node; 0 without one."""
        self._quanta: Float = np.zeros(0)
        self._services_version = 0
        self._is_under_way = False
        """Whether `find_due` found rows that `renew` has not computed; if an error left it set, all rows are due."""
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        """Make empty columns for a table with `capacity` rows; all its rows are due."""
        self.peak: Int32 = np.zeros((capacity + 1, self._metrics, self._columns), np.int32)
        self.peak_ceiling: Int = np.zeros((capacity + 1, self._metrics), np.int64)
        self._due: Int = np.zeros(0, np.int64)
        # what each row was when its columns were last computed
        self._seen: Int = np.full(capacity, NEVER, np.int64)
        self._generation: Int = np.zeros(capacity, np.int64)
        self._vacant: Bool = np.zeros(capacity, np.bool_)
        self._load: Int = np.zeros((capacity, self._metrics), np.int64)

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows whose columns have to be computed again, ascending.

        `changed`: rows that may have changed, None: all.
        """
        del now  # demand is assumed to continue
        table = state.rows
        is_current, self._is_under_way = not self._is_under_way and len(self.peak) == table.capacity + 1, True
        if not is_current:
            self._allocate(table.capacity)
            changed = None
        is_same = self._note_largest_node(state) & self._note_quanta(state)
        self._due = self._changed_rows(state, changed if is_same else None)
        self._services_version = state.services_version
        self._is_under_way = bool(len(self._due))
        return self._due

    def renew(self, state: ClusterState) -> None:
        """Compute the columns of the rows that `find_due` returned last."""
        for first in range(0, len(self._due), UPDATED_TOGETHER):
            self._update(self._due[first : first + UPDATED_TOGETHER], state)
        self._is_under_way = False

    def _note_largest_node(self, state: ClusterState) -> bool:
        """Record the largest node, which determines the unit of variances; return whether it is the same."""
        bounded = state.capacity < UNLIMITED
        largest = np.where(bounded, state.capacity, 0).max(axis=0, initial=0) + bounded.any(axis=0)
        largest = np.minimum(largest, LARGEST_SAMPLE)
        if not np.array_equal(largest, self._largest_node):
            self.variance_unit = variance_units(largest, VARIANCE_DIGITS)
            self._largest_node = largest
            self._seen[:] = NEVER
            return False
        return True

    def _note_quanta(self, state: ClusterState) -> bool:
        """Record the quanta, in which limits are counted; return whether they are the same."""
        quanta = state.quanta.quanta
        if np.array_equal(self._quanta, quanta):
            return True
        self._quanta = quanta
        self._seen[:] = NEVER
        return False

    def _limit_of(self, state: ClusterState, rows: Int) -> Int:
        """Return the promised maximum of rows, (m, R) quanta; `UNLIMITED` without a promise."""
        limit = np.ceil(state.service_table.limit[state.rows.service[rows]] / state.quanta.quanta)
        return np.where(limit < UNLIMITED, limit, UNLIMITED).astype(np.int64)

    def _changed_rows(self, state: ClusterState, candidates: Int | None) -> Int:
        """Return the rows among `candidates`, None: all, whose columns have changed since they were computed.

        They have new samples, or too few samples and another load, or their service has changed.
        """
        table = state.rows
        rows = np.flatnonzero(table.used & ~table.leaving) if candidates is None else candidates
        seen = table.seen[rows]
        is_due = (seen != self._seen[rows]) | (table.generation[rows] != self._generation[rows])
        is_due |= table.vacant[rows] != self._vacant[rows]
        is_due |= state.service_table.changed_at[table.service[rows]] > self._services_version
        is_due |= (seen < self._needed) & (table.load[rows] != self._load[rows]).any(axis=1)
        due: Int = rows[table.used[rows] & ~table.leaving[rows] & is_due]
        return due

    def _update(self, rows: Int, state: ClusterState) -> None:
        """Compute the columns of `rows` from scratch, and note what they follow from."""
        table = state.rows
        columns = self._columns_of(state, rows)
        self._seen[rows], self._generation[rows] = table.seen[rows], table.generation[rows]
        self._vacant[rows], self._load[rows] = table.vacant[rows], table.load[rows]
        self.peak[rows] = columns
        self.peak_ceiling[rows] = columns.max(axis=2, initial=0)

    def _columns_of(self, state: ClusterState, rows: Int) -> Int32:
        """Return the columns of rows, (m, R, C) quanta; values above the largest node are cut to 1 more than it."""
        table = state.rows
        samples, seen = table.shown(rows)
        demanded = np.ceil(table.largest_demand[rows] / state.quanta.quanta).astype(np.int64)
        limit = self._limit_of(state, rows)
        limit = np.where(limit < UNLIMITED, limit, np.maximum(demanded, table.load[rows]))
        shown = Shown(
            np.minimum(samples, self._largest_node[:, np.newaxis]), seen, np.minimum(limit, self._largest_node)
        )
        columns = columns_of(self._estimator, shown, self.variance_unit)
        counted = state.service_table.has_metric[table.service[rows]] & ~table.vacant[rows, np.newaxis]
        return (columns * counted[:, :, np.newaxis]).astype(np.int32)
