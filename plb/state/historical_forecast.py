"""The expected demand of each replica in the slots of the recent past (`plb.risk.historical_simulation`).

A slot is entered when the engine is first told a time in it: the loads that were reported until then are those of the
slot. A replica borrows slots from donors when it is new, when its first load has been reported, and when it has lived
for a day; in between only the slots that it has lived through change. The rows that may be donors are listed when a
slot is entered.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int, Int8, Int32
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import HistoricalSimulation
from plb.risk.historical_simulation import RATIOS, UNKNOWN, borrow, fill_columns
from plb.risk.monte_carlo import Evaluation
from plb.settings.config import PlbConfig, Replay
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import NO_FUTURES, DemandForecast
from plb.state.observed_forecast import largest_of_nodes
from plb.state.past_loads import PastLoads
from plb.state.replica_table import RowTable, merged

NOT_FILLED = -1
"""Source of a row whose columns were not computed yet."""
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
        self._column: Int32 = np.zeros(estimator.slots, np.int32)
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
        self._source: Int8 = np.full(capacity, NOT_FILLED, np.int8)
        self._generation: Int = np.zeros(capacity, np.int64)
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
        is_new_slot = self._enter_slot(state, now)
        rows = np.flatnonzero(table.used) if changed is None or is_new_slot or not is_same else changed
        rows = rows[table.used[rows] & ~table.leaving[rows]]
        self._borrow(state, rows, is_new_slot=is_new_slot)
        sampled = self._sampled.find_due(state, now, changed)
        self._sampled.renew(state)
        by_traces = sampled[(table.past.source[sampled] == UNKNOWN) & ~table.reported[sampled]]
        own = rows if is_new_slot else self._changed_rows(state, rows)
        self._due = merged(own, by_traces[table.used[by_traces] & ~table.leaving[by_traces]])
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
            past.lived,
            past.source,
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
        self._source[rows], self._generation[rows] = past.source[rows], table.generation[rows]
        self._vacant[rows], self._load[rows] = table.vacant[rows], table.load[rows]
        self._is_under_way = False

    def futures(self, state: ClusterState) -> dict[str, Any]:
        """Return the fields of `plb.state.arrays.Problem` on growth and departures of replicas, which are empty."""
        del state
        return {"timeline": False, **NO_FUTURES}

    def _measure(self, state: ClusterState) -> bool:
        """Record the quanta, and the largest node, to which demand is limited; return whether they are the same."""
        quanta, most = state.quanta.quanta, largest_of_nodes(state)
        is_same = np.array_equal(self._quanta, quanta) and np.array_equal(self._most, most)
        if not is_same:
            self._quanta, self._most = quanta, most
            self._source[:] = NOT_FILLED
        return is_same

    def _enter_slot(self, state: ClusterState, now: float) -> bool:
        """Enter the slot of a time, in seconds, and return whether it is a new one."""
        table = state.rows
        slot = int(now // (self._estimator.slot_minutes * SECONDS_OF_A_MINUTE))
        if not table.past.enter(slot, table.load[:-1], table.used & table.reported & ~table.dropped):
            self.windows[1] = (table.past.newest + 1) % table.past.slots
            return False
        self.windows[1] = (slot + 1) % table.past.slots
        may_give = np.flatnonzero(table.used & ~table.leaving & (table.past.count >= self._day))
        classes = [state.services[service].tenant_class for service in table.service[may_give].tolist()]
        table.past.list_donors(may_give, classes, table.role[may_give])
        return True

    def _borrow(self, state: ClusterState, rows: Int, *, is_new_slot: bool) -> None:
        """Borrow slots for those of some rows that are new, reported for the first time, or a day old."""
        table, past = state.rows, state.rows.past
        source, count, reported = past.source[rows], past.count[rows], table.reported[rows]
        is_known = reported & ((source != RATIOS) | (is_new_slot & (count == self._day)))
        is_new = ~reported & (source == UNKNOWN)
        for row in rows[is_known | is_new].tolist():
            tenant_class = state.services[table.service[row]].tenant_class
            donors = past.donors_for(tenant_class, int(table.role[row]))
            if len(donors):
                self._borrow_from(donors, row, table)

    def _borrow_from(self, donors: Int, row: int, table: RowTable) -> None:
        past: PastLoads = table.past
        with np.errstate(over="ignore"):
            borrow(
                np.uint64(self.seed),
                table.key[row],
                row,
                donors,
                past.values,
                past.lived,
                past.source,
                past.count,
                table.load,
                past.newest % past.slots,
                self._day,
                bool(table.reported[row]),
                self._ages,
                self._column,
            )

    def _changed_rows(self, state: ClusterState, rows: Int) -> Int:
        """Return those of some rows whose columns have changed.

        They are others, borrow from others, have a load that stands for all slots, or their service has changed.
        """
        table, past = state.rows, state.rows.past
        new = (self._source[rows] != past.source[rows]) | (self._generation[rows] != table.generation[rows])
        new |= table.vacant[rows] != self._vacant[rows]
        new |= state.service_table.changed_at[table.service[rows]] > self._services_version
        new |= (past.count[rows] == 0) & (table.load[rows] != self._load[rows]).any(axis=1)
        found: Int = rows[new]
        return found
