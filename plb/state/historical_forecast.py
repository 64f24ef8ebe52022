"""The expected demand of each replica in the slots of the recent past (`plb.risk.historical_simulation`).

A slot is entered when the engine is first told a time in it: the loads that were reported until then are those of the
slot. In between the columns of a replica change only with its first report and, until its first slot, with its load.
"""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int32
from plb.errors import InvalidValueError
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import HistoricalSimulation
from plb.risk.historical_simulation import MISSING, OLDEST, fill_columns, told_probabilities
from plb.risk.monte_carlo import Evaluation
from plb.settings.config import PlbConfig, Replay
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import NO_FUTURES, DemandForecast
from plb.state.observed_forecast import largest_of_nodes
from plb.state.replica_table import RowTable, merged
from plb.validation import check_number

NOT_FILLED = -1
"""Generation of a row whose columns were not computed yet."""
SECONDS_OF_A_MINUTE = 60


class HistoricalForecast:
    """The columns of every row of a `ClusterState`; it has the interface of `plb.state.demand_forecast.DemandForecast`.

    Attributes
    ----------
    peak
        (M+1, R, K) quanta: the demand in each slot of the past, in a ring; the last row is zero.
    peak_ceiling, estimator_rows, variance_unit
        As in `plb.state.arrays.Problem`.
    windows
        As in `plb.state.arrays.Problem`; changed in place.
    units
        Number of windows.
    history
        The past tenants, of which replicas without a report and without donors take sampled traces; None: without any.
    """

    def __init__(
        self, config: PlbConfig, estimator: HistoricalSimulation, history: DemandHistory | None, seed: int
    ) -> None:
        self._estimator = estimator
        self._metrics = len(config.metrics)
        self._day = min(estimator.slots_of_a_day, estimator.slots)
        days = -(-estimator.slots // self._day)
        recorded = attrs.evolve(config, repetitions=days, replay=Replay.AS_RECORDED, evaluation=Evaluation.PEAK)
        self._sampled = DemandForecast(recorded, history, seed)
        self.history, self.seed = self._sampled.history, seed
        self.units = estimator.windows
        self.windows: Int = np.array([estimator.horizon, 0], np.int64)
        self.estimator_rows, self.variance_unit = np.zeros((0, 5)), np.ones(self._metrics)
        self._ages: Int = np.zeros(estimator.slots, np.int64)
        self._services_version = 0
        self._is_under_way = False
        """Whether rows were found whose columns are not computed; after an error those of all rows are."""
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        self.peak: Int32 = np.zeros((capacity + 1, self._metrics, self._estimator.slots), np.int32)
        self.peak_ceiling: Int = np.zeros((capacity + 1, self._metrics), np.int64)
        self._due: Int = np.zeros(0, np.int64)
        self._quanta: Float = np.zeros(0)
        self._most: Int = np.zeros(self._metrics, np.int64)
        # of the last update of each row
        self._generation: Int = np.full(capacity, NOT_FILLED, np.int64)
        self._reported: Bool = np.zeros(capacity, np.bool_)
        self._vacant: Bool = np.zeros(capacity, np.bool_)
        self._load: Int = np.zeros((capacity, self._metrics), np.int64)

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows whose columns have to be computed again, ascending; enter the slot of `now` if it is new.

        Parameters
        ----------
        changed
            The rows that the host has changed since the last call; None: all rows may have changed.
        """
        table = state.rows
        is_same, self._is_under_way = not self._is_under_way and len(self.peak) == table.capacity + 1, True
        if not is_same:
            self._allocate(table.capacity)
        is_same &= self._measure(state)
        is_new_slot = self._enter_slot(table, now)
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
            self._most,
            past.newest % past.slots,
            self._day,
            self._ages,
        )
        counted = state.service_table.has_metric[table.service[rows]] & ~table.vacant[rows, np.newaxis]
        if not counted.all():
            self.peak[rows] *= counted[:, :, np.newaxis]
            self.peak_ceiling[rows] *= counted
        self._generation[rows], self._reported[rows] = table.generation[rows], table.reported[rows]
        self._vacant[rows], self._load[rows] = table.vacant[rows], table.load[rows]
        self._is_under_way = False

    def futures(self, state: ClusterState) -> dict[str, Any]:
        """Return the fields of `plb.state.arrays.Problem` on growth and departures of replicas, which are empty."""
        del state
        return {"timeline": False, **NO_FUTURES}

    def probabilities(self, problem: Problem, sums: Int32, within: float | None) -> Float:
        """Return the probability of a violation of each node, given its present demand, (N,).

        Parameters
        ----------
        sums
            (N, R, K) quanta: the demand on each node in each slot.
        within
            Seconds within which a violation counts; None: the horizon of the estimator.

        Raises
        ------
        InvalidValueError
            The slots that are kept are no longer than `within`.
        """
        estimator, horizon = self._estimator, self._estimator.horizon
        if within is not None:
            seconds = SECONDS_OF_A_MINUTE * estimator.slot_minutes
            horizon = max(1, math.ceil(check_number("engine", "within", within, low_open=True) / seconds))
            if horizon > estimator.slots:
                raise InvalidValueError("engine", "within", within, f"at most {estimator.slots * seconds} seconds")
        oldest = int(self.windows[OLDEST])
        return told_probabilities(estimator, sums, problem.threshold, problem.counted, oldest, horizon)

    def _measure(self, state: ClusterState) -> bool:
        """Record the quanta, and the largest node, to which demand is limited; return whether they are the same."""
        quanta, most = state.quanta.quanta, largest_of_nodes(state)
        is_same = np.array_equal(self._quanta, quanta) and np.array_equal(self._most, most)
        if not is_same:
            self._quanta, self._most = quanta, most
            self._generation[:] = NOT_FILLED
        return is_same

    def _enter_slot(self, table: RowTable, now: float) -> bool:
        """Enter the slot of a time, in seconds, and return whether it is a new one."""
        past = table.past
        slot = int(now // (SECONDS_OF_A_MINUTE * self._estimator.slot_minutes))
        is_new = past.enter(slot, table.load[:-1], table.used & table.reported & ~table.dropped)
        self.windows[OLDEST] = (past.newest + 1) % past.slots
        return is_new

    def _changed_rows(self, state: ClusterState, rows: Int) -> Int:
        """Return those of some rows whose columns have changed.

        They are others, were reported for the first time, have a load that stands for all slots, or another service.
        """
        table = state.rows
        new = (self._generation[rows] != table.generation[rows]) | (self._vacant[rows] != table.vacant[rows])
        new |= self._reported[rows] != table.reported[rows]
        new |= state.service_table.changed_at[table.service[rows]] > self._services_version
        without_slots = (table.past.values[rows, 0] == MISSING).all(axis=1)
        new |= without_slots & (table.load[rows] != self._load[rows]).any(axis=1)
        found: Int = rows[new]
        return found
