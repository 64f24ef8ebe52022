"""The expected demand of each replica from its reports, and the choice of the source of expected demand.

**Columns of an estimator** (`plb.risk.estimator_columns`). A sample is the load of a replica after a report: hosts that
report all loads at each metering have the newest of all replicas at one time. A replica with too few samples counts at
the limit of its service (`plb.Service.limits`), or, for a metric without one, at the maximum of its demand so far and
its present load.

**Slots of the recent past** (`plb.risk.historical_simulation`). A slot is entered by the first plan in it: the loads
that were reported until then are the loads of the slot. In between the columns of a replica change only with its first
report and, until its first slot, with its load.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int, Int32
from plb.compiler import uninterrupted
from plb.errors import InvalidValueError
from plb.model.quanta import UNLIMITED
from plb.risk.demand_history import LARGEST_LEVEL, DemandHistory
from plb.risk.estimator_columns import CAP, CERTAIN, LAST, Shown, columns_of, estimator_rows, variance_units
from plb.risk.estimators import Evaluation, Gaussian, HistoricalSimulation, MonteCarlo, estimator_of, samples_needed
from plb.risk.historical_simulation import MISSING, OLDEST, fill_columns, shares_from_now, smoothed
from plb.risk.peaks import Predictor
from plb.settings.config import PlbConfig, Replay
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import EACH_COLUMN, DemandForecast, Forecast
from plb.state.replica_table import LARGEST_SAMPLE, EnteredSlot, RowTable, merged

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

        `changed`: (n,) rows that may have changed, None: all. `now` is not used: demand is assumed to continue.
        """
        del now
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
        """Return the promised maxima of `rows`, (m,), as (m, R) quanta; `UNLIMITED` without a promise."""
        limit = np.ceil(state.service_table.limit[state.rows.service[rows]] / state.quanta.quanta)
        return np.where(limit < UNLIMITED, limit, UNLIMITED).astype(np.int64)

    def _changed_rows(self, state: ClusterState, candidates: Int | None) -> Int:
        """Return the rows among `candidates`, (n,), None: all, whose columns have changed since they were computed.

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
        """Compute the columns of replicas `rows`, (m,), from scratch, and note what they follow from."""
        table = state.rows
        columns = self._columns_of(state, rows)
        self._seen[rows], self._generation[rows] = table.seen[rows], table.generation[rows]
        self._vacant[rows], self._load[rows] = table.vacant[rows], table.load[rows]
        self.peak[rows] = columns
        self.peak_ceiling[rows] = columns.max(axis=2, initial=0)

    def _columns_of(self, state: ClusterState, rows: Int) -> Int32:
        """Return the columns of `rows`, (m,), as (m, R, C) quanta; values above the largest node are cut to 1 above."""
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


NOT_FILLED = -1
"""Generation of a row whose columns were not computed yet."""
SECONDS_OF_A_MINUTE = 60


class HistoricalForecast(Forecast):
    """The demand of every row in each slot of the past, in a ring; replicas without a report take sampled traces."""

    def __init__(
        self, config: PlbConfig, estimator: HistoricalSimulation, history: DemandHistory | None, seed: int
    ) -> None:
        self._estimator = estimator
        self._metrics = len(config.metrics)
        self._day = min(estimator.slots_of_a_day, estimator.slots)
        days = -(-estimator.slots // self._day)
        recorded = attrs.evolve(config, repetitions=days, replay=Replay.AS_RECORDED, evaluation=Evaluation.PEAK)
        self._sampled = DemandForecast(recorded, MonteCarlo(), history, seed)
        self.history, self.seed = self._sampled.history, seed
        self.units = estimator.windows
        self.windows: Int = np.array([estimator.horizon, 0], np.int64)
        self.estimator_rows, self.variance_unit = np.zeros((0, 5)), np.ones(self._metrics)
        self._scratch: Int = np.zeros((2, estimator.slots), np.int64)
        self._entered: EnteredSlot | None = None
        self._newest: int | None = None
        """The newest slot in the columns."""
        self._services_version = 0
        self._is_under_way = False
        """Whether `find_due` found rows that `renew` has not computed; if an error left it set, all rows are due."""
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        """Make empty columns for a table with `capacity` rows; all its rows are due."""
        self.peak: Int32 = np.zeros((capacity + 1, self._metrics, self._estimator.slots), np.int32)
        self.peak_ceiling: Int = np.zeros((capacity + 1, self._metrics), np.int64)
        self._due: Int = np.zeros(0, np.int64)
        self._quanta: Float = np.zeros(0)
        # what each row was when its columns were last computed
        self._generation: Int = np.full(capacity, NOT_FILLED, np.int64)
        self._reported: Bool = np.zeros(capacity, np.bool_)
        self._has_slots: Bool = np.zeros(capacity, np.bool_)
        self._vacant: Bool = np.zeros(capacity, np.bool_)
        self._load: Int = np.zeros((capacity, self._metrics), np.int64)

    @uninterrupted
    def enter(self, table: RowTable, now: float, rows: Int | None = None) -> bool:
        """Enter the slot of the time `now`, in seconds, and return whether it is a new one.

        `rows`: (m,) the rows whose loads are entered, also in a slot that is kept; None: all that are placed and
        reported.
        """
        slot = int(now // (SECONDS_OF_A_MINUTE * self._estimator.slot_minutes))
        counted = table.used & table.reported & ~table.dropped
        counted &= table.node != NOWHERE if rows is None else np.isin(np.arange(table.capacity), rows)
        self._entered = table.past.enter(slot, table.load[:-1], counted)
        if self._entered is None and rows is not None:
            table.past.add(slot, table.load[:-1], rows)
            self._newest = None
        self._turn(table)
        if self._entered is not None:
            table.changes.note_many(np.flatnonzero(table.used), loads_only=True)
        return self._entered is not None or rows is not None

    @uninterrupted
    def leave(self, table: RowTable) -> None:
        """Undo the last entry of a slot, after an error of the plan."""
        if self._entered is not None:
            table.past.leave(self._entered)
            self._turn(table)
            table.changes.note_many(np.flatnonzero(table.used), loads_only=True)
            self._newest, self._entered = None, None

    def _turn(self, table: RowTable) -> None:
        """Set the column at which the windows begin to the one of the oldest slot in `table`."""
        self.windows[OLDEST] = (table.past.newest + 1) % table.past.slots

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows whose columns have to be computed again, ascending.

        `now`: seconds; `changed`: (n,) rows that may have changed, None: all.
        """
        table, past = state.rows, state.rows.past
        is_current, self._is_under_way = not self._is_under_way and len(self.peak) == table.capacity + 1, True
        is_current &= np.array_equal(self._quanta, state.quanta.quanta)
        if not is_current:
            self._allocate(table.capacity)
            self._quanta = state.quanta.quanta
        is_new_slot = self._newest != past.newest
        self._newest = past.newest
        self._turn(table)
        rows = np.flatnonzero(table.used) if changed is None or is_new_slot or not is_current else changed
        rows = rows[table.used[rows] & ~table.leaving[rows]]
        sampled = self._sampled.find_due(state, now, changed)
        self._sampled.renew(state)
        by_traces = sampled[~table.reported[sampled] & table.used[sampled] & ~table.leaving[sampled]]
        self._due = merged(rows if is_new_slot else self._changed_rows(state, rows), by_traces)
        self._services_version = state.services_version
        self._is_under_way = bool(len(self._due))
        return self._due

    def renew(self, state: ClusterState) -> None:
        """Compute the columns of the rows that `find_due` returned last."""
        rows, table = self._due, state.rows
        past = table.past
        fill_columns(
            self.peak,
            self.peak_ceiling,
            rows,
            past.values,
            table.load,
            table.reported,
            self._sampled.peak,
            past.newest % past.slots,
            self._day,
            self._scratch,
        )
        counted = state.service_table.has_metric[table.service[rows]] & ~table.vacant[rows, np.newaxis]
        if not counted.all():
            self.peak[rows] *= counted[:, :, np.newaxis]
            self.peak_ceiling[rows] *= counted
        self._generation[rows], self._reported[rows] = table.generation[rows], table.reported[rows]
        self._vacant[rows], self._load[rows] = table.vacant[rows], table.load[rows]
        self._has_slots[rows] = ~_are_without_slots(table, rows)
        self._is_under_way = False

    def probabilities(
        self, state: ClusterState, problem: Problem, solution: Solution, row: int, within: float | None
    ) -> Float:
        """Return the probability of a violation of each node within `within` seconds, given its present demand, (N,).

        `row`: a row without a node, which each node is to hold beside its replicas, or NOWHERE. Nodes that do not
        count, or hold no replica, have 0. The shares of the others are smoothed towards the mean share of the nodes
        without `row`.
        """
        horizon = self._horizon_of(within)
        sums = solution.aggregate.astype(np.int64)
        used = problem.counted & (np.bincount(solution.node[_standing(problem, solution)], minlength=len(sums)) > 0)
        demand = self._present_demand(state, problem, solution)
        share = self._shares(sums, demand, problem, used, horizon)
        mean = float(share[used].mean()) if used.any() else 0.0
        if row != NOWHERE:
            used = problem.counted
            sums += problem.peak[row]
            demand += self._present_of(state, np.array([row]))[0]
            share = self._shares(sums, demand, problem, used, horizon)
        return np.where(used, smoothed(self._estimator, share, mean, horizon), 0.0)

    def _horizon_of(self, within: float | None) -> int:
        """Return the number of slots in `within` seconds, rounded up; None: the horizon of the estimator."""
        estimator = self._estimator
        if within is None:
            return estimator.horizon
        seconds = SECONDS_OF_A_MINUTE * estimator.slot_minutes
        if within > estimator.slots * seconds:
            raise InvalidValueError("engine", "within", within, f"at most {estimator.slots * seconds} seconds")
        return max(1, math.ceil(within / seconds))

    def _shares(self, sums: Int, demand: Int, problem: Problem, used: Bool, horizon: int) -> Float:
        """Return the share of the windows of `horizon` slots in which a node is in violation, (N,); 0 if not `used`.

        `sums`: (N, R, K) quanta in each slot; `demand`: (N, R) quanta at present; `used`: (N,).
        """
        share, oldest = np.zeros(len(sums)), int(self.windows[OLDEST])
        share[used] = shares_from_now(
            self._estimator, sums[used], demand[used], problem.threshold[used], oldest, horizon
        )
        return share

    def _present_demand(self, state: ClusterState, problem: Problem, solution: Solution) -> Int:
        """Return the summed present demand of the replicas on each node, (N, R) quanta."""
        rows = _standing(problem, solution)
        demand = np.zeros(problem.threshold.shape, np.int64)
        np.add.at(demand, solution.node[rows], self._present_of(state, rows))
        return demand

    def _present_of(self, state: ClusterState, rows: Int) -> Int:
        """Return the present demand of `rows`, (m,), as (m, R) quanta: the reported load, or else the newest slot's."""
        table, newest = state.rows, state.rows.past.newest % state.rows.past.slots
        load = np.minimum(table.load[rows], LARGEST_LEVEL) * ~table.vacant[rows, np.newaxis]
        return np.where(table.reported[rows, np.newaxis], load, self.peak[rows, :, newest]).astype(np.int64)

    def _changed_rows(self, state: ClusterState, rows: Int) -> Int:
        """Return the replicas of `rows`, (n,), whose columns have changed since they were computed.

        The replica is another one, was reported for the first time, has lost its slots, has no slot and another load,
        or its service has changed.
        """
        table = state.rows
        is_due = (self._generation[rows] != table.generation[rows]) | (self._vacant[rows] != table.vacant[rows])
        is_due |= self._reported[rows] != table.reported[rows]
        is_due |= state.service_table.changed_at[table.service[rows]] > self._services_version
        without_slots = _are_without_slots(table, rows)
        is_due |= without_slots & (self._has_slots[rows] | (table.load[rows] != self._load[rows]).any(axis=1))
        due: Int = rows[is_due]
        return due


def _are_without_slots(table: RowTable, rows: Int) -> Bool:
    """Return whether each replica of `rows`, (m,), has no load in any slot of the past, (m,)."""
    return np.asarray((table.past.values[rows, 0] == MISSING).all(axis=1))


def _standing(problem: Problem, solution: Solution) -> Int:
    """Return the rows that have a node and do not leave it."""
    return np.flatnonzero((solution.node != NOWHERE) & ~problem.leaving)


def demand_forecast_of(config: PlbConfig, history: DemandHistory | None, seed: int) -> Forecast:
    """Return the source of the expected demand of replicas; `history`: past tenants for sampling, with `seed`."""
    estimator = estimator_of(config.estimator)
    if isinstance(estimator, MonteCarlo):
        return DemandForecast(config, estimator, history, seed)
    if not config.reads_probabilities:
        return DemandForecast(config, MonteCarlo(), history, seed)
    if isinstance(estimator, HistoricalSimulation):
        return HistoricalForecast(config, estimator, history, seed)
    return ObservedDemandForecast(config, estimator)


def settings_of_forecast(config: PlbConfig) -> tuple[object, ...]:
    """Return the settings that a source depends on; where they change, another one is needed."""
    trends = tuple(metric.trend for metric in config.metrics)
    return config.estimator, config.repetitions, config.replay, config.reads_probabilities, trends
