"""The expected demand of each replica in the slots of the recent past (`plb.risk.historical_simulation`).

A slot is entered by the first plan in it: the loads that were reported until then are those of the slot. In between
the columns of a replica change only with its first report and, until its first slot, with its load.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int, Int32
from plb.compiler import uninterrupted
from plb.errors import InvalidValueError
from plb.risk.demand_history import LARGEST_LEVEL, DemandHistory
from plb.risk.estimators import Evaluation, HistoricalSimulation, MonteCarlo
from plb.risk.historical_simulation import MISSING, OLDEST, fill_columns, shares_from_now, smoothed
from plb.settings.config import PlbConfig, Replay
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import DemandForecast, Forecast
from plb.state.replica_table import EnteredSlot, RowTable, merged

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
        """Whether rows were found whose columns are not computed; after an error those of all rows are."""
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        self.peak: Int32 = np.zeros((capacity + 1, self._metrics, self._estimator.slots), np.int32)
        self.peak_ceiling: Int = np.zeros((capacity + 1, self._metrics), np.int64)
        self._due: Int = np.zeros(0, np.int64)
        self._quanta: Float = np.zeros(0)
        # of the last update of each row
        self._generation: Int = np.full(capacity, NOT_FILLED, np.int64)
        self._reported: Bool = np.zeros(capacity, np.bool_)
        self._lived: Bool = np.zeros(capacity, np.bool_)
        self._vacant: Bool = np.zeros(capacity, np.bool_)
        self._load: Int = np.zeros((capacity, self._metrics), np.int64)

    @uninterrupted
    def enter(self, table: RowTable, now: float, rows: Int | None = None) -> bool:
        """Enter the slot of a time, in seconds, and return whether it is a new one.

        `rows`: with the loads of these rows alone; None: of all that are placed and reported.
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
        """Let the windows begin with the oldest slot."""
        self.windows[OLDEST] = (table.past.newest + 1) % table.past.slots

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows whose columns have to be computed again, ascending."""
        table, past = state.rows, state.rows.past
        is_same, self._is_under_way = not self._is_under_way and len(self.peak) == table.capacity + 1, True
        is_same &= np.array_equal(self._quanta, state.quanta.quanta)
        if not is_same:
            self._allocate(table.capacity)
            self._quanta = state.quanta.quanta
        is_new_slot = self._newest != past.newest
        self._newest = past.newest
        self._turn(table)
        rows = np.flatnonzero(table.used) if changed is None or is_new_slot or not is_same else changed
        rows = rows[table.used[rows] & ~table.leaving[rows]]
        sampled = self._sampled.find_due(state, now, changed)
        self._sampled.renew(state)
        by_traces = sampled[~table.reported[sampled] & table.used[sampled] & ~table.leaving[sampled]]
        self._due = merged(rows if is_new_slot else self._changed_rows(state, rows), by_traces)
        self._services_version = state.services_version
        self._is_under_way = bool(len(self._due))
        return self._due

    def renew(self, state: ClusterState) -> None:
        """Compute the columns of the rows that were found last."""
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
        self._lived[rows] = ~_are_without_slots(table, rows)
        self._is_under_way = False

    def probabilities(
        self, state: ClusterState, problem: Problem, solution: Solution, row: int, within: float | None
    ) -> Float:
        """Return the probability of a violation of each node, given its present demand, (N,).

        Nodes that do not count, or hold no replica, have 0. The mean to which others are smoothed is that of the nodes
        as they are.
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
        """Return the slots of a time in seconds, rounded up; None: the horizon of the estimator."""
        estimator = self._estimator
        if within is None:
            return estimator.horizon
        seconds = SECONDS_OF_A_MINUTE * estimator.slot_minutes
        if within > estimator.slots * seconds:
            raise InvalidValueError("engine", "within", within, f"at most {estimator.slots * seconds} seconds")
        return max(1, math.ceil(within / seconds))

    def _shares(self, sums: Int, demand: Int, problem: Problem, used: Bool, horizon: int) -> Float:
        """Return the share of the windows in which each used node is in violation, (N,)."""
        share, oldest = np.zeros(len(sums)), int(self.windows[OLDEST])
        of_used = sums[used], demand[used], problem.threshold[used]
        share[used] = shares_from_now(self._estimator, *of_used, oldest, horizon)
        return share

    def _present_demand(self, state: ClusterState, problem: Problem, solution: Solution) -> Int:
        """Return the present demand on each node, (N, R) quanta."""
        rows = _standing(problem, solution)
        demand = np.zeros(problem.threshold.shape, np.int64)
        np.add.at(demand, solution.node[rows], self._present_of(state, rows))
        return demand

    def _present_of(self, state: ClusterState, rows: Int) -> Int:
        """Return the present demand of rows, (m, R) quanta: the reported load, or else that in the newest slot."""
        table, newest = state.rows, state.rows.past.newest % state.rows.past.slots
        load = np.minimum(table.load[rows], LARGEST_LEVEL) * ~table.vacant[rows, np.newaxis]
        return np.where(table.reported[rows, np.newaxis], load, self.peak[rows, :, newest]).astype(np.int64)

    def _changed_rows(self, state: ClusterState, rows: Int) -> Int:
        """Return those of some rows whose columns have changed.

        They are others, were reported for the first time, have lost their slots, have a load that stands for all slots,
        or another service.
        """
        table = state.rows
        new = (self._generation[rows] != table.generation[rows]) | (self._vacant[rows] != table.vacant[rows])
        new |= self._reported[rows] != table.reported[rows]
        new |= state.service_table.changed_at[table.service[rows]] > self._services_version
        without_slots = _are_without_slots(table, rows)
        new |= without_slots & (self._lived[rows] | (table.load[rows] != self._load[rows]).any(axis=1))
        changed: Int = rows[new]
        return changed


def _are_without_slots(table: RowTable, rows: Int) -> Bool:
    """Return whether each of some rows has lived through no slot, (m,)."""
    return np.asarray((table.past.values[rows, 0] == MISSING).all(axis=1))


def _standing(problem: Problem, solution: Solution) -> Int:
    """Return the rows that have a node and do not leave it."""
    return np.flatnonzero((solution.node != NOWHERE) & ~problem.leaving)
