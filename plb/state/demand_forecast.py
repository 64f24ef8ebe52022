"""The expected demand of each replica: K sampled traces a row, sampled again once they are due or not eligible."""

from __future__ import annotations

import math
from operator import is_
from typing import Any, NamedTuple, Protocol

import numpy as np

from plb.array_types import NOWHERE, Float, Float32, Int, Int32
from plb.compiler import by_pointer, kernel
from plb.model.quanta import UNLIMITED
from plb.risk.anchoring import Anchoring, Anchors, anchor_peaks, find_grown, next_growth, recorded_peaks
from plb.risk.counter_based_random import seed_word
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import Evaluation, MonteCarlo
from plb.risk.trace_sampling import NONE, KeptDraws, Rows, find_expired, sample_again, trace_table
from plb.settings.config import PlbConfig, Replay
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.replica_table import RowTable, merged
from plb.validation import check_known

NEVER = math.inf
"""Time at which a row is due that is in no queue."""


@by_pointer
class DueQueue(NamedTuple):
    """Rows in the order of the times at which they are due, a binary heap."""

    time: Float
    """(M,) when each row is due; `NEVER`: it is not in the queue."""
    heap: Int
    """(M,) the rows in the queue, each due no earlier than the row above it: position p is above 2p + 1 and 2p + 2."""
    position: Int
    """(M,) position of each row in `heap`, or NOWHERE."""
    size: Int
    """(1,) number of rows in the queue."""


def empty_queue(rows: int) -> DueQueue:
    """Return a queue for `rows` rows, none of which is ever due."""
    return DueQueue(
        np.full(rows, NEVER), np.zeros(rows, np.int64), np.full(rows, NOWHERE, np.int64), np.zeros(1, np.int64)
    )


@kernel
def set_due(queue: DueQueue, row: int, time: float) -> None:
    """Set the time at which a row is due; `NEVER` takes it out of the queue."""
    if queue.position[row] == NOWHERE:
        if time == NEVER:
            return
        _put(queue, queue.size[0], row)
        queue.size[0] += 1
    queue.time[row] = time
    _rise(queue, queue.position[row])
    _sink(queue, queue.position[row])
    if time == NEVER:  # all rows that never are due are at the end
        queue.size[0] -= 1
        last = queue.heap[queue.size[0]]
        position = queue.position[row]
        queue.position[row] = NOWHERE
        if last != row:
            _put(queue, position, last)
            _rise(queue, position)
            _sink(queue, queue.position[last])


@kernel
def take_due(queue: DueQueue, now: float, due: Int) -> int:
    """Take the rows that are due at `now` out of the queue, write them to `due`, (n,), and return how many."""
    count = 0
    while queue.size[0] > 0 and queue.time[queue.heap[0]] <= now:
        row = queue.heap[0]
        due[count] = row
        count += 1
        set_due(queue, row, NEVER)
    return count


@kernel
def _put(queue: DueQueue, position: int, row: int) -> None:
    """Put a row at a position of the heap."""
    queue.heap[position] = row
    queue.position[row] = position


@kernel
def _rise(queue: DueQueue, position: int) -> None:
    """Move the row at a position of the heap up while it is due before the row above it."""
    row = queue.heap[position]
    while position > 0:
        above = (position - 1) // 2
        if queue.time[queue.heap[above]] <= queue.time[row]:
            break
        _put(queue, position, queue.heap[above])
        position = above
    _put(queue, position, row)


@kernel
def _sink(queue: DueQueue, position: int) -> None:
    """Move the row at a position of the heap down while a row below is due before it."""
    row = queue.heap[position]
    while True:
        below = 2 * position + 1
        if below >= queue.size[0]:
            break
        if below + 1 < queue.size[0] and queue.time[queue.heap[below + 1]] < queue.time[queue.heap[below]]:
            below += 1
        if queue.time[queue.heap[below]] >= queue.time[row]:
            break
        _put(queue, position, queue.heap[below])
        position = below
    _put(queue, position, row)


NO_FUTURES: dict[str, Any] = {
    "trace": np.zeros((0, 0), np.int32),
    "age": np.zeros(0),
    "anchored": np.zeros(0, np.bool_),
    "horizon": np.inf,
    "lifetime": np.zeros(0, np.float32),
    "curves": np.zeros((0, 0, 0), np.float32),
    "grows": np.zeros(0, np.bool_),
    "unit": np.zeros(0),
}
"""The fields of `Problem` on growth and departures where `timeline` is off."""


SECONDS_OF_AN_HOUR = 3600.0
NEVER_MADE = -1
"""Version at which a service was made that is not living."""
EACH_COLUMN: Int = np.array([1, 0], np.int64)
"""`Problem.windows` where violations are counted by column."""


class Forecast(Protocol):
    """A source of the expected demand of every row of a `ClusterState`."""

    peak: Int32
    """(M+1, R, K) quanta: see `plb.state.arrays.Problem`; the last row is zero."""
    peak_ceiling: Int
    """(M+1, R) quanta: the largest over the repetitions, slots or columns."""
    estimator_rows: Float
    """As in `plb.state.arrays.Problem`: without any, violations are a share of the repetitions."""
    variance_unit: Float
    """As in `plb.state.arrays.Problem`."""
    windows: Int
    """As in `plb.state.arrays.Problem`; changed in position."""
    units: int
    """Count of a certain violation of a node; 0 without repetitions."""
    history: DemandHistory | None
    """The past tenants; None: none are used."""

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows whose peaks have to be renewed at `now`, in seconds, ascending.

        `changed`: (n,) rows that may have changed, None: all.
        """
        ...

    def renew(self, state: ClusterState) -> None:
        """Renew the peaks of the rows that `find_due` returned last."""
        ...

    def futures(self, state: ClusterState) -> dict[str, Any]:
        """Return by name the fields of `Problem` on growth and departures, from `timeline` to `unit`."""
        del state
        return {"timeline": False, **NO_FUTURES}

    def enter(self, table: RowTable, now: float, rows: Int | None = None) -> bool:
        """Enter the slot of `now`, seconds, with the loads of `rows`, (m,), None: of all; return whether it is new.

        Only `HistoricalForecast` has slots.
        """
        del table, now, rows
        return False

    def leave(self, table: RowTable) -> None:
        """Undo the last entry of a slot, after an error of the plan."""
        del table

    def probabilities(
        self, state: ClusterState, problem: Problem, solution: Solution, row: int, within: float | None
    ) -> Float | None:
        """Return the probability of a violation of each node from now on, (N,); None: it is the one in the energy.

        `row`: a row without a node, which each node is to hold beside its replicas, or NOWHERE; `within`: seconds in
        which the violation occurs, None: the horizon of the estimator.
        """
        del state, problem, solution, row, within
        return None


class DemandForecast(Forecast):
    """The sampled demand of every row: the largest that each sampled trace lets expect ([1] section 7).

    Without history, or where ``w_failovers`` and ``w_overload`` are 0, it has no repetitions and costs nothing. What is
    sampled for a row is a function of the seed and of the key, class, role, age and largest demand of the row, whatever
    was sampled before.
    """

    def __init__(self, config: PlbConfig, estimator: MonteCarlo, history: DemandHistory | None, seed: int) -> None:
        columns = [] if history is None else [_history_metric(history, name) for name in config.metric_names]
        self.history = history if config.reads_probabilities else None
        self.seed = seed
        self._estimator = estimator
        self._metrics = len(config.metrics)
        self._columns = np.array(columns, np.int64)
        """(R,) index of each metric in the history."""
        self.units = self.repetitions = 0 if self.history is None else config.repetitions
        self.estimator_rows, self.variance_unit = np.zeros((0, 5)), np.ones(self._metrics)
        self.windows = EACH_COLUMN
        self._anchored = config.replay is not Replay.AS_RECORDED
        self._horizon = estimator.horizon * SECONDS_OF_AN_HOUR if estimator.horizon > 0.0 else np.inf
        self._lifetime: Float32 = np.zeros(0, np.float32) if history is None else history.lifetime.copy()
        self._trend = np.array([metric.trend for metric in config.metrics])
        self._anchoring = Anchoring(
            curves=np.zeros((0, self._metrics, 4), np.float32),
            trend=self._trend,
            dips=self._trend & (config.replay is Replay.FROM_PRESENT),
            quanta=np.ones(self._metrics),
            large=np.zeros((0, self._metrics), np.bool_),
            horizon=np.array([self._horizon]),
            seed=np.array([seed_word(seed)]),
        )
        self._made_at: Int = np.zeros(0, np.int64)
        """(S,) version of the services at which each was made, or `NEVER_MADE`."""
        if self.history is not None:
            self._traces = trace_table(self.history)
            self._scratch: Int32 = np.empty(len(self.history), np.int32)
            curves = (self.history.level, self.history.initial, self.history.growth, self.history.maximum)
            # one layout for all columns, because kernels would be compiled again for another
            recorded = np.ascontiguousarray(np.stack([curve[:, columns] for curve in curves], axis=2))
            self._anchoring = self._anchoring._replace(curves=recorded)
            self._demand: Float = np.zeros(len(self.history.metrics))
        self._rows: Rows | None = None
        self._quanta: Float = np.zeros(0)
        self._recorded: Int32 = np.zeros((0, self._metrics, 2), np.int32)
        """(T, R, 2) quanta: level and maximum of each past tenant."""
        self._classes: Int = np.zeros(0, np.int64)
        """(S,) code of each service's class in the history, or -1."""
        self._classes_version = 0
        """Version of the services for which `_classes` holds."""
        self._now = -np.inf
        """Time of the last call, in seconds."""
        self._is_under_way = False
        """Whether `find_due` found rows that were not renewed; if an error left it set, all are sampled again."""
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        """Make empty arrays for a table with `capacity` rows; all its rows are due."""
        self.peak: Int32 = np.zeros((capacity + 1, self._metrics, self.repetitions), np.int32)
        self.peak_ceiling: Int = np.zeros((capacity + 1, self._metrics), np.int64)
        self.trace: Int32 = np.zeros((capacity, self.repetitions), np.int32)
        """(M, K) past tenant of each repetition; undefined for a row for which none is sampled."""
        self._draws = KeptDraws(
            key=np.zeros(capacity, np.uint64),
            generation=np.zeros(capacity, np.int64),
            group=np.full(capacity, -1, np.int64),
            widening=np.full(capacity, NONE, np.int8),
            age=np.zeros(capacity),
            demand=np.zeros((capacity, self._metrics)),
            valid_age=np.full(capacity, -1.0),
            valid_demand=np.full((capacity, self._metrics), -1.0),
            reported=np.zeros(capacity, np.bool_),
        )
        self._age: Float = np.zeros(capacity)
        self._growth_age: Float = np.zeros(capacity)
        self._queue = empty_queue(capacity)
        self._candidates = self._expired = self._grown = np.zeros(0, np.int64)
        self._anchors = Anchors(
            age=np.full(capacity, -1.0),
            demand=np.full((capacity, self._metrics), -1.0),
            low=np.full((capacity, self._metrics), -1.0),
            settled_age=np.full((capacity, self._metrics), np.inf),
        )

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows without traces, with some that are no longer eligible, or with growth since the last call.

        `now`: seconds; `changed`: (n,) rows that may have changed, None: all.
        """
        table = state.rows
        self._expired = self._grown = np.zeros(0, np.int64)
        if self.history is None:
            if len(self.peak) != table.capacity + 1:
                self._allocate(table.capacity)
            return self._expired
        is_current = len(self.trace) == table.capacity and np.array_equal(self._quanta, state.quanta.quanta)
        is_current &= self._note_large(state)
        is_current, self._is_under_way = is_current and not self._is_under_way, True
        if not is_current:
            self._allocate(table.capacity)
            self._take_quanta(self.history, state.quanta.quanta)
            changed = None
        if now < self._now:
            changed = None
        self._now = now
        classes = self._classes_of(state, self.history)
        rows, candidates = self._rows_of(table), self._candidates_of(table, now, changed)
        selected = np.zeros(len(candidates), np.int64)
        count = find_expired(rows, self._draws, candidates, classes, now, self._age, selected)
        self._expired = selected[:count].copy()
        if self._anchored:
            count = find_grown(candidates, rows, self._age, self._growth_age, self._anchors, self._anchoring, selected)
            self._grown = selected[:count].copy()
        self._candidates = candidates
        due = merged(self._expired, self._grown)
        if not len(due):
            self._schedule(table)  # else `renew` does it
            self._is_under_way = False
        return due

    def _candidates_of(self, table: RowTable, now: float, changed: Int | None) -> Int:
        """Return the rows that may be due, ascending: `changed`, (n,), None: all, and rows due at `now`, seconds."""
        if changed is None:
            return np.flatnonzero(table.used & ~table.leaving)
        due = np.empty(int(self._queue.size[0]), np.int64)
        count = take_due(self._queue, now, due)
        return merged(changed, due[:count])

    def renew(self, state: ClusterState) -> None:
        """Renew the peaks of the rows that `find_due` returned last: sample traces, and anchor them at the reports."""
        if self.history is None:
            return
        table, classes = state.rows, self._classes_of(state, self.history)
        if len(self._expired):
            self._sample(self._expired, table, classes)
        if self._anchored:
            sampled = self._expired[table.reported[self._expired]]
            self._anchor(merged(sampled, self._grown), table)
        self._schedule(table)
        self._is_under_way = False

    def _schedule(self, table: RowTable) -> None:
        """Set when each of the rows that `find_due` examined last is due next."""
        schedule(self._queue, self._candidates, self._rows_of(table), self._draws, self._anchors, self._now)

    def _rows_of(self, table: RowTable) -> Rows:
        """Return the arrays of the table that kernels read; a new tuple, whose pointer is slow, only for new arrays."""
        arrays = [getattr(table, name) for name in Rows._fields]
        if self._rows is None or not all(map(is_, arrays, self._rows)):
            self._rows = Rows(*arrays)
        return self._rows

    def futures(self, state: ClusterState) -> dict[str, Any]:
        """Return by name the fields of `Problem` on growth and departures; none unless evaluation is by timeline."""
        table = state.rows
        if self.history is None or state.config.evaluation is not Evaluation.TIMELINE:
            return super().futures(state)
        return {
            "timeline": True,
            "trace": self.trace,
            "age": np.maximum(0.0, self._now - table.created),
            "anchored": table.reported & self._anchored,
            "horizon": self._horizon,
            "lifetime": self._lifetime,
            "curves": self._anchoring.curves,
            "grows": self._trend,
            "unit": self._quanta,
        }

    def _note_large(self, state: ClusterState) -> bool:
        """Record which services' replicas reach the maxima of their traces (`Anchoring.large`).

        Return whether it is the same for all services that were there before.
        """
        services, before = state.service_table, self._anchoring.large
        if self._estimator.maximum_from == 0.0:
            if len(before) != services.capacity:
                large = np.zeros((services.capacity, self._metrics), np.bool_)
                self._anchoring = self._anchoring._replace(large=large)
            return True
        bounded = np.where(state.capacity < UNLIMITED, state.capacity, 0).max(axis=0, initial=0)
        least = self._estimator.maximum_from * bounded * state.quanta.quanta
        large = (services.limit >= least) & (services.limit < np.inf) & (bounded > 0) & ~self._trend
        made_at, services_before = np.where(services.living, services.made_at, NEVER_MADE), len(self._made_at)
        if np.array_equal(large, before) and np.array_equal(made_at, self._made_at):
            return True
        kept = (self._made_at == made_at[:services_before]) & (self._made_at != NEVER_MADE)
        is_same = bool((before[:services_before] == large[:services_before])[kept].all())
        self._made_at = made_at
        self._anchoring = self._anchoring._replace(large=large)
        return is_same

    def _take_quanta(self, history: DemandHistory, quanta: Float) -> None:
        """Note the `quanta`, (R,) user units, of the metrics, and the levels and maxima of the traces in quanta."""
        self._quanta = quanta
        history_quanta = np.ones(len(history.metrics))
        history_quanta[self._columns] = quanta
        levels, maxima = history.in_quanta(history_quanta), history.maxima_in_quanta(history_quanta)
        recorded = [levels[:, self._columns], maxima[:, self._columns]]
        self._recorded = np.ascontiguousarray(np.stack(recorded, axis=2))
        self._anchoring = self._anchoring._replace(quanta=quanta)

    def _anchor(self, rows: Int, table: RowTable) -> None:
        """Anchor the peaks of `rows`, (m,), with reports, where demand or traces have changed or traces still grow."""
        with np.errstate(over="ignore"):
            anchor_peaks(
                self.peak,
                self.peak_ceiling,
                self._anchors,
                rows,
                self._rows_of(table),
                self.trace,
                self._growth_age,
                self._anchoring,
            )

    def _sample(self, rows: Int, table: RowTable, classes: Int) -> None:
        """Sample the traces of replicas `rows`, (m,), again, and set the peaks of rows that are not anchored.

        `classes`: (S,) code of each service's class.
        """
        with np.errstate(over="ignore"):
            sample_again(
                self._anchoring.seed[0],
                self._rows_of(table),
                self._draws,
                rows,
                classes,
                self._age,
                self._columns,
                self._traces,
                self._demand,
                self._scratch,
                self.trace,
            )
        self._anchors.settled_age[rows], self._anchors.age[rows] = np.inf, -1.0
        recorded = rows[~table.reported[rows]] if self._anchored else rows  # reported rows are anchored next
        recorded_peaks(
            self.peak,
            self.peak_ceiling,
            recorded,
            self._rows_of(table),
            self.trace,
            self._recorded,
            self._anchoring.large,
        )

    def _classes_of(self, state: ClusterState, history: DemandHistory) -> Int:
        """Return the code of every service's class in the history, (S,), or -1."""
        if self._classes_version == state.services_version:
            return self._classes
        table = state.service_table
        changed = table.changed_since(self._classes_version)
        if len(self._classes) != table.capacity:
            self._classes = np.append(self._classes, np.full(table.capacity - len(self._classes), -1))
        for index in changed.tolist():
            self._classes[index] = _class_code(history, state.services[index].tenant_class)
        self._classes_version = state.services_version
        return self._classes


def _history_metric(history: DemandHistory, metric: str) -> int:
    """Return the index of a metric in a history."""
    check_known("metric", metric, history.metrics, "demand history")
    return history.metrics.index(metric)


def _class_code(history: DemandHistory, tenant_class: str | None) -> int:
    """Return the code of `tenant_class` in a history; -1 for None and for a class that the history lacks."""
    return -1 if tenant_class is None else history.class_code(tenant_class)


@kernel
def schedule(queue: DueQueue, selected: Int, rows: Rows, draws: KeptDraws, anchors: Anchors, now: float) -> None:
    """Set when each of the `selected` rows, (m,), is due next: its traces are no longer eligible, or they grow.

    `now`: seconds; no row is set due before it.
    """
    for row in selected:
        time = NEVER
        if rows.used[row] and not rows.leaving[row]:
            time = rows.created[row] + draws.valid_age[row]
            if anchors.age[row] >= 0.0:
                time = min(time, rows.created[row] + next_growth(anchors.age[row], anchors.settled_age[row]))
            if time <= now:  # times are rounded: the next call sees whether it has come
                time = np.nextafter(now, NEVER)
        set_due(queue, row, time)
