"""The expected demand of each replica: K sampled traces for each row, sampled again if they are no longer eligible."""

from __future__ import annotations

from typing import Any

import numpy as np

from plb.array_types import Bool, Float, Float32, Int, Int32
from plb.compiler import kernel
from plb.errors import UnknownNameError
from plb.model import Role
from plb.risk.anchoring import GROWTH_SECONDS, anchor_peaks, find_grown, next_growth, recorded_peaks
from plb.risk.demand_history import DemandHistory
from plb.risk.monte_carlo import Evaluation
from plb.risk.sample_expiry import Draws, Rows, find_expired
from plb.risk.trace_sampling import NONE, TraceSampler
from plb.settings.config import PlbConfig, Replay
from plb.state.cluster_state import ClusterState
from plb.state.due_queue import NEVER, DueQueue, empty_queue, set_due, take_due
from plb.state.replica_table import RowTable, merged

SAMPLED_TOGETHER = 2**14
"""Rows whose traces are sampled together: more would only need more memory."""


NO_FUTURES: dict[str, Any] = {
    "trace": np.zeros((0, 0), np.int32),
    "age": np.zeros(0),
    "anchored": np.zeros(0, np.bool_),
    "largest_demand": np.zeros((0, 0)),
    "lifetime": np.zeros(0, np.float32),
    "curves": np.zeros((0, 0, 0), np.float32),
    "grows": np.zeros(0, np.bool_),
    "unit": np.zeros(0),
}
"""Replaces the demand of replicas if the energy does not depend on it."""


class DemandForecast:
    """The sampled demand of every row of a `ClusterState`.

    Without history, or where ``w_failovers`` and ``w_overload`` are 0, it has no repetitions and costs nothing.

    Attributes
    ----------
    peak
        (M+1, R, K) quanta: the largest demand that each sampled trace lets expect ([1] section 7,
        `plb.settings.config.Replay`); the last row is zero.
    peak_ceiling
        (M+1, R) quanta: the largest over the repetitions.
    trace
        (M, K) row of the history; undefined if none is sampled.
    estimator_rows, variance_unit
        As in `plb.state.arrays.Problem`: without any, violations are a share of the repetitions.
    units
        K, or 0 without repetitions.
    seed
        With which the traces are sampled. What is sampled for a row is a function of the seed and of the key, class,
        role, age and largest demand of the row, whatever was sampled before.
    """

    def __init__(self, config: PlbConfig, history: DemandHistory | None, seed: int) -> None:
        columns = [] if history is None else [_column(history, name) for name in config.metric_names]
        self.history = history if config.reads_probabilities else None
        self.seed = seed
        self._metrics = len(config.metrics)
        self._columns = columns
        self.units = self.repetitions = 0 if self.history is None else config.repetitions
        self.estimator_rows, self.variance_unit = np.zeros((0, 5)), np.ones(self._metrics)
        self._anchored = config.replay is Replay.ANCHORED
        self._lifetime: Float32 = np.zeros(0, np.float32) if history is None else history.lifetime.copy()
        self._trend = np.array([metric.trend for metric in config.metrics], np.int64)
        self._sampler: TraceSampler | None = None
        if self.history is not None:
            self._sampler = TraceSampler(self.history, repetitions=config.repetitions, seed=seed)
            curves = (self.history.level, self.history.initial, self.history.growth, self.history.maximum)
            # one layout for all columns, because kernels would be compiled again for another
            self._curves = np.ascontiguousarray(np.stack([curve[:, columns] for curve in curves], axis=2))
        self._quanta: Float = np.zeros(0)
        self._level: Int32 = np.zeros((0, self._metrics), np.int32)
        self._classes: Int = np.zeros(0, np.int64)
        self._classes_version = -1
        self._now = -np.inf
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        self.peak: Int32 = np.zeros((capacity + 1, self._metrics, self.repetitions), np.int32)
        self.peak_ceiling: Int = np.zeros((capacity + 1, self._metrics), np.int64)
        self.trace: Int32 = np.zeros((capacity, self.repetitions), np.int32)
        self._draws = Draws(
            key=np.zeros(capacity, np.uint64),
            generation=np.zeros(capacity, np.int64),
            group=np.full(capacity, -1, np.int64),
            widening=np.full(capacity, NONE, np.int8),
            age=np.zeros(capacity),
            demand=np.zeros((capacity, self._metrics)),
            valid_age=np.full(capacity, -1.0),
            valid_demand=np.full((capacity, self._metrics), -1.0),
        )
        self._age: Float = np.zeros(capacity)
        self._growth_age: Float = np.zeros(capacity)
        self._queue = empty_queue(capacity)
        self._expired: Int = np.zeros(0, np.int64)
        self._grown: Int = np.zeros(0, np.int64)
        self._settled_age: Float = np.full((capacity, self._metrics), np.inf)
        self._anchored_age: Float = np.full(capacity, -1.0)
        self._anchored_demand: Float = np.full((capacity, self._metrics), -1.0)

    def find_due(self, state: ClusterState, now: float, changed: Int | None = None) -> Int:
        """Return the rows whose peaks have to be renewed, ascending.

        They have no traces, or traces that are no longer eligible, or reports and traces that have grown since.

        Parameters
        ----------
        changed
            The rows that the host has changed since the last call; None: all rows may have changed.
        """
        table = state.rows
        self._expired = self._grown = np.zeros(0, np.int64)
        if self._sampler is None or self.history is None:
            if len(self.peak) != table.capacity + 1:
                self._allocate(table.capacity)
            return self._expired
        if len(self.trace) != table.capacity or not np.array_equal(self._quanta, state.quanta.quanta):
            self._allocate(table.capacity)
            self._quanta = state.quanta.quanta
            self._level = np.ascontiguousarray(self._levels())
            changed = None
        if self._classes_version != state.services_version or now < self._now:
            changed = None
        self._now = now
        classes = self._classes_of(state, self.history)
        candidates = self._candidates_of(table, now, changed)
        found = np.zeros(len(candidates), np.int64)
        count = find_expired(_rows(table), self._draws, candidates, classes, len(Role), now, self._age, found)
        self._expired = found[:count].copy()
        self._growth_age[candidates] = np.floor(self._age[candidates] / GROWTH_SECONDS) * GROWTH_SECONDS
        if self._anchored:
            count = find_grown(
                candidates,
                table.used,
                table.reported,
                table.leaving,
                self._growth_age,
                table.largest_demand,
                self._settled_age,
                self._anchored_age,
                self._anchored_demand,
                found,
            )
            self._grown = found[:count].copy()
        self._schedule(table, candidates)
        return merged(self._expired, self._grown)

    def _candidates_of(self, table: RowTable, now: float, changed: Int | None) -> Int:
        """Return the rows that may be due, ascending: those that changed, and those whose time has come."""
        if changed is None:
            return np.flatnonzero(table.used & ~table.leaving)
        found = np.empty(int(self._queue.size[0]), np.int64)
        count = take_due(self._queue, now, found)
        return merged(changed, found[:count])

    def renew(self, state: ClusterState) -> None:
        """Renew the peaks of the rows that were found last: sample traces, and anchor them at what was reported."""
        if self.history is None:
            return
        table, classes = state.rows, self._classes_of(state, self.history)
        for first in range(0, len(self._expired), SAMPLED_TOGETHER):
            self._sample(self._expired[first : first + SAMPLED_TOGETHER], state, classes)
        if self._anchored:
            sampled = self._expired[table.reported[self._expired]]
            self._anchor(state, merged(sampled, self._grown))
        self._schedule(table, merged(self._expired, self._grown))

    def _schedule(self, table: RowTable, rows: Int) -> None:
        """Set when each of these rows is due next."""
        schedule(
            self._queue,
            rows,
            table.used,
            table.leaving,
            table.created,
            self._draws.valid_age,
            self._anchored_age,
            self._settled_age,
            self._now,
        )

    def futures(self, state: ClusterState) -> dict[str, Any]:
        """Return the fields of `Problem` on growth and departures of replicas; for `timeline` evaluation only."""
        table = state.rows
        if self.history is None or state.config.evaluation is not Evaluation.TIMELINE:
            return {"timeline": False, **NO_FUTURES}
        return {
            "timeline": True,
            "trace": self.trace,
            "age": np.maximum(0.0, self._now - table.created),
            "anchored": table.reported & self._anchored,
            "largest_demand": table.largest_demand,
            "lifetime": self._lifetime,
            "curves": self._curves,
            "grows": self._trend.astype(np.bool_),
            "unit": self._quanta,
        }

    def _anchor(self, state: ClusterState, rows: Int) -> None:
        """Anchor the peaks of rows with reports, if demand or traces have changed or the traces still grow."""
        table = state.rows
        anchor_peaks(
            self.peak,
            self.peak_ceiling,
            self._settled_age,
            self._anchored_age,
            self._anchored_demand,
            rows,
            self.trace,
            self._growth_age,
            table.largest_demand,
            self._curves,
            self._trend,
            self._quanta,
        )

    def _sample(self, rows: Int, state: ClusterState, classes: Int) -> None:
        assert self._sampler is not None
        table, draws = state.rows, self._draws
        key, code, role = table.key[rows], classes[table.service[rows]], table.role[rows]
        age, largest = self._age[rows], table.largest_demand[rows]
        demand = np.zeros((len(rows), len(self._sampler.history.metrics)))
        demand[:, self._columns] = largest
        drawn = self._sampler.draw_checked(self.trace[rows], draws.widening[rows], key, code, role, age, demand)
        self.trace[rows], draws.widening[rows] = drawn.trace, drawn.widening
        draws.key[rows], draws.generation[rows] = key, table.generation[rows]
        draws.group[rows] = code * len(Role) + role
        draws.age[rows], draws.demand[rows] = age, largest
        draws.valid_age[rows], draws.valid_demand[rows] = drawn.valid_age, drawn.valid_demand[:, self._columns]
        self._settled_age[rows], self._anchored_age[rows] = np.inf, -1.0
        recorded = rows[~table.reported[rows]] if self._anchored else rows  # the others are anchored next
        recorded_peaks(self.peak, self.peak_ceiling, recorded, self.trace, self._level)

    def _classes_of(self, state: ClusterState, history: DemandHistory) -> Int:
        """Return the class of every service in the history, (S,); computed again only if a service changes."""
        if self._classes_version != state.services_version:
            codes = [_class_code(history, service.tenant_class) for service in state.services]
            self._classes, self._classes_version = np.array(codes or [-1]), state.services_version
        return self._classes

    def _levels(self) -> Int32:
        """Return the level of every trace in quanta, (T, R) in the order of the engine's metrics."""
        assert self.history is not None
        quanta = np.ones(len(self.history.metrics))
        quanta[self._columns] = self._quanta
        return self.history.in_quanta(quanta)[:, self._columns]


def _rows(table: RowTable) -> Rows:
    """Return the data of the rows on which the eligibility of their traces depends."""
    return Rows(
        table.used,
        table.leaving,
        table.key,
        table.generation,
        table.service,
        table.role,
        table.created,
        table.largest_demand,
    )


def _column(history: DemandHistory, metric: str) -> int:
    if metric not in history.metrics:
        raise UnknownNameError("metric", metric, history.metrics, context="demand history")
    return history.metrics.index(metric)


def _class_code(history: DemandHistory, tenant_class: str | None) -> int:
    return -1 if tenant_class is None else history.class_code(tenant_class)


@kernel
def schedule(
    queue: DueQueue,
    rows: Int,
    used: Bool,
    leaving: Bool,
    created: Float,
    valid_age: Float,
    anchored_age: Float,
    settled_age: Float,
    now: float,
) -> None:
    """Set when each of `rows` is due next: its traces are no longer eligible, or they grow.

    Parameters
    ----------
    used, leaving
        (M,) whether the row is in use, and is only the departing end of a move; such a row is never due.
    created, valid_age, anchored_age, settled_age
        (M,) and (M, R) seconds, of all rows.
    """
    for row in rows:
        time = NEVER
        if used[row] and not leaving[row]:
            time = created[row] + valid_age[row]
            if anchored_age[row] >= 0.0:
                time = min(time, created[row] + next_growth(anchored_age[row], settled_age[row]))
            if time <= now:  # times are rounded: the next call sees whether it has come
                time = np.nextafter(now, NEVER)
        set_due(queue, row, time)
