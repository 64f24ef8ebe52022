"""Sampling past tenants for replicas: K traces for each one, uniform over the eligible ones ([1] section 5.1).

**Eligible**, D(db) of [1], are the traces of the class and role of the replica with a lifetime of at least its age and
maxima of at least its largest demand. If there is none, the criteria are dropped one after another in the order of
`Widening`; the last level has the whole history, so there is always a trace.

**The rule.** Repetition k of a replica has a fixed list of rows: ``low + index(seed, key, k, d)`` for d = 0 .. 63, each
uniform over the rows [low, high) of the widening level. The first eligible one is taken. If none of the 64 is eligible,
the eligible row with the least hash ``(seed, key, k, row)`` is taken.

**Uniform**, whatever the criteria: each draw is uniform over [low, high) and independent of the others, so the first
that falls into a subset is uniform over that subset; and so is the row of least hash, whether draws missed or not, as
the hashes are independent of the draws. Nothing depends on what was eligible before, so this holds for every set of
criteria on its own, also after the criteria have widened.

**Stable.** Age and largest demand only grow, so within a level the eligible set only shrinks. The draws before the one
taken stay ineligible, hence it is taken again while it is eligible; the same holds for the least hash. Only repetitions
whose trace has dropped out get another: common random numbers at little cost. So each sample has a time of expiry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from plb.array_types import Array, Bool, Float, Float32, Int, Int32
from plb.compiler import by_pointer, kernel
from plb.model import Role
from plb.risk.counter_based_random import replica_stream, row_hash, row_stream, uniform_index, word_of_draw
from plb.risk.demand_history import DemandHistory


class Widening(IntEnum):
    """The criteria of the traces of a replica; the first level with any trace is used.

    A replica with an unknown class starts at `ALL_AGE_DEMAND`.
    """

    CLASS_ROLE_AGE_DEMAND = 0
    """Same class and role, lifetime at least the age, maxima at least the largest demand: D(db) as in [1]."""
    CLASS_AGE_DEMAND = 1
    """Same class in any role, lifetime, maxima."""
    CLASS_DEMAND = 2
    """Same class, maxima: the replica is older than all tenants with as large maxima."""
    CLASS_AGE = 3
    """Same class, lifetime: the demand of the replica exceeds the demand of its whole class."""
    CLASS = 4
    """Same class."""
    ALL_AGE_DEMAND = 5
    """Any class, lifetime, maxima."""
    ALL = 6
    """The whole history."""


NONE = -1
"""No row, or no level of widening: nothing is sampled."""
DRAWS = 64
"""Draws of a repetition before the least hash decides."""
ROLES = len(Role)
UNKNOWN_CLASS_START = int(Widening.ALL_AGE_DEMAND)
SCOPE, LIFETIME, MAXIMA = 0, 1, 2
"""Columns of `CRITERIA`: the range of rows, and whether lifetime and maxima are criteria."""
ONE_ROLE, ONE_CLASS, WHOLE = 0, 1, 2
"""Ranges of rows: of one class and role, of one class, of the whole history."""
CRITERIA = np.array(
    [  # scope, lifetime, maxima: one row for each `Widening`
        [ONE_ROLE, 1, 1],
        [ONE_CLASS, 1, 1],
        [ONE_CLASS, 0, 1],
        [ONE_CLASS, 1, 0],
        [ONE_CLASS, 0, 0],
        [WHOLE, 1, 1],
        [WHOLE, 0, 0],
    ],
    np.int64,
)


class TraceTable(NamedTuple):
    """What eligibility reads of a history. Comparisons are made in float64 on the stored float32 values."""

    lifetime: Float32
    """(T,) seconds."""
    maximum: Float32
    """(T, R) user units."""
    group_start: Int
    """(3C + 1,) first row of each class and role."""


def trace_table(history: DemandHistory) -> TraceTable:
    """Return the columns of `history` that eligibility reads."""
    return TraceTable(history.lifetime, history.maximum, history.group_start)


@by_pointer
class Rows(NamedTuple):
    """The present data of M rows, arrays of `plb.state.replica_table.RowTable`; (M,) unless stated otherwise."""

    used: Bool
    """Whether the row belongs to a partition."""
    leaving: Bool
    """Whether the row is only the departing end of a move."""
    key: Array
    """As uint64, see `plb.risk.counter_based_random.replica_key`."""
    generation: Int
    """Rises each time the row is taken into use."""
    service: Int
    """Index of the service."""
    role: Int
    """Value of `Role`."""
    created: Float
    """Seconds."""
    largest_demand: Float
    """(M, R) user units."""
    load: Int
    """(M, R) quanta."""
    reported: Bool
    """Whether the replica has reported its load."""
    vacant: Bool
    """Whether the replica was dropped, and the row keeps its place."""


@by_pointer
class KeptDraws(NamedTuple):
    """The replicas for which the traces of M rows were sampled, and the expiry of the samples; (M,) each."""

    key: Array
    """`Rows.key` when sampled."""
    generation: Int
    """`Rows.generation` when sampled."""
    group: Int
    """Number of the class and role in the history when sampled."""
    widening: Array
    """As int8: value of `Widening` at which the traces were sampled; NONE if nothing is sampled."""
    age: Float
    """Seconds, when sampled."""
    demand: Float
    """(M, R) largest demand in user units, when sampled."""
    valid_age: Float
    """Seconds up to which the samples stay; infinite where the lifetime is no criterion."""
    valid_demand: Float
    """(M, R) user units up to which the samples stay; infinite where the maxima are no criterion."""
    reported: Bool
    """Whether the replica has reported, which changes only what its samples mean."""


@kernel
def find_expired(
    rows: Rows, draws: KeptDraws, candidates: Int, classes: Int, now: float, age: Float, expired: Int
) -> int:
    """Return how many of the rows `candidates`, (m,), have to be sampled again.

    They are written to the front of `expired`, (m,), in their order. Samples for another replica, for a greater age or
    demand than the present one, or for a replica whose report was reset, are removed: `KeptDraws.widening` is NONE.
    `classes` (S,): code of each service's class; `now`: seconds; `age` (M,): set, in seconds, for candidates in use.
    """
    count = 0
    for row in candidates:
        if not rows.used[row] or rows.leaving[row]:
            continue
        age[row] = max(0.0, now - rows.created[row])
        is_invalid = rows.key[row] != draws.key[row] or rows.generation[row] != draws.generation[row]
        is_invalid |= (
            classes[rows.service[row]] * ROLES + rows.role[row] != draws.group[row] or age[row] < draws.age[row]
        )
        is_invalid |= draws.reported[row] and not rows.reported[row]
        draws.reported[row] |= rows.reported[row]
        is_outdated = age[row] > draws.valid_age[row]
        for metric in range(rows.largest_demand.shape[1]):
            is_invalid |= draws.demand[row, metric] > rows.largest_demand[row, metric]
            is_outdated |= rows.largest_demand[row, metric] > draws.valid_demand[row, metric]
        if is_invalid:
            draws.widening[row] = NONE
        if is_invalid or is_outdated:
            expired[count] = row
            count += 1
    return count


@kernel
def sample_again(
    seed: np.uint64,
    rows: Rows,
    draws: KeptDraws,
    expired: Int,
    classes: Int,
    age: Float,
    columns: Int,
    table: TraceTable,
    demand: Float,
    scratch: Int32,
    trace: Int32,
) -> None:
    """Sample the traces of the rows `expired`, (m,), and note in `draws` for which replica and until when.

    `classes` and `age`: of `find_expired`; `columns` (R,): position of each metric in the history; `trace` (M, K):
    receives rows of the history; `seed`: `seed_word` of the engine's seed. Working space: `demand`, a number for each
    metric of the history, zero where the rows have no such metric, and `scratch`, (T,).
    """
    for row in expired:
        code, role = classes[rows.service[row]], rows.role[row]
        for metric in range(len(columns)):
            demand[columns[metric]] = rows.largest_demand[row, metric]
        level = draw_replica(
            seed, rows.key[row], code, role, age[row], demand, table, scratch, trace[row], draws.widening[row]
        )
        draws.group[row], draws.widening[row] = code * ROLES + role, level
        note_validity(row, rows, draws, age[row], columns, table, trace[row])


@kernel
def note_validity(
    row: int, rows: Rows, draws: KeptDraws, age: float, columns: Int, table: TraceTable, trace: Int32
) -> None:
    """Note in `draws` for which replica the `trace`, (K,), of a row was sampled, and until when it stays.

    `age`: of the replica in seconds; `columns`: (R,) position of each metric in the history.
    """
    level = draws.widening[row]
    draws.key[row], draws.generation[row] = rows.key[row], rows.generation[row]
    draws.reported[row] = rows.reported[row]
    draws.age[row] = age
    draws.valid_age[row] = age_horizon(trace, level, table)
    for metric in range(len(columns)):
        draws.demand[row, metric] = rows.largest_demand[row, metric]
        draws.valid_demand[row, metric] = demand_horizon(trace, level, columns[metric], table)


@kernel
def age_horizon(trace: Int32, level: int, table: TraceTable) -> float:
    """Return the age in seconds up to which a `trace`, (K,), sampled at a `level` of `Widening` stays eligible.

    It is the least lifetime of its rows, infinite where the lifetime is no criterion.
    """
    least = np.inf
    if CRITERIA[level, LIFETIME]:
        for row in trace:
            least = min(least, table.lifetime[row])
    return least


@kernel
def demand_horizon(trace: Int32, level: int, metric: int, table: TraceTable) -> float:
    """Return the demand up to which a `trace`, (K,), sampled at a `level` of `Widening` stays eligible, in user units.

    It is the least maximum of its rows in column `metric` of the history, infinite where maxima are no criterion.
    """
    least = np.inf
    if CRITERIA[level, MAXIMA]:
        for row in trace:
            least = min(least, table.maximum[row, metric])
    return least


@kernel
def draw_replica(
    seed: np.uint64,
    key: np.uint64,
    code: int,
    role: int,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    scratch: Int32,
    trace: Int32,
    drawn_level: int,
) -> int:
    """Sample `trace`, (K,) rows of the history, for a replica, and return the level of `Widening` that was needed.

    `code` is its class in the history, -1 where unknown; `age` is in seconds, `largest_demand`, (R,), in user units.
    `scratch` (T,) holds the eligible rows where they had to be collected. `drawn_level`: level at which `trace` was
    sampled before, or NONE.
    """
    stream = replica_stream(seed, key)
    level = drawn_level if drawn_level != NONE else (0 if code >= 0 else UNKNOWN_CLASS_START)
    while True:
        low, high = row_range(level, code, role, table.group_start)
        kept = level == drawn_level
        if draw_at_level(stream, level, low, high, age, largest_demand, table, scratch, trace, kept):
            return level
        level += 1


@kernel
def draw_at_level(
    stream: np.uint64,
    level: int,
    low: int,
    high: int,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    scratch: Int32,
    trace: Int32,
    kept: bool,
) -> bool:
    """Sample `trace`, (K,), from the rows of [low, high) that are eligible at a `level` of `Widening`.

    Return whether there are any. With `kept`, rows of `trace` that are still eligible stay. The range is scanned once
    at the most, at the first repetition whose draws all miss. `stream`: of the replica; `age` in seconds and
    `largest_demand`, (R,) user units: criteria; `scratch`: (T,).
    """
    if low == high:
        return False
    collected = NONE
    for repetition in range(len(trace)):
        if kept and is_eligible(trace[repetition], level, age, largest_demand, table):
            continue
        repetition_stream = word_of_draw(stream, repetition)
        row = first_eligible(repetition_stream, level, low, high, age, largest_demand, table)
        if row == NONE:
            if collected == NONE:
                collected = collect_eligible(level, low, high, age, largest_demand, table, scratch)
            if collected == 0:
                return False
            row = least_hash(repetition_stream, scratch, collected)
        trace[repetition] = row
    return True


@kernel
def first_eligible(
    stream: np.uint64, level: int, low: int, high: int, age: float, largest_demand: Float, table: TraceTable
) -> int:
    """Return the first eligible row among the draws from [low, high) of a repetition's `stream`, or NONE.

    `level`: of `Widening`; `age`, seconds, and `largest_demand`, (R,) user units: of the replica.
    """
    for draw in range(DRAWS):
        row = low + uniform_index(stream, draw, high - low)
        if is_eligible(row, level, age, largest_demand, table):
            return row
    return NONE


@kernel
def collect_eligible(
    level: int, low: int, high: int, age: float, largest_demand: Float, table: TraceTable, scratch: Int32
) -> int:
    """Write the eligible rows of [low, high) to the front of `scratch`, (T,), and return their number.

    `level`: of `Widening`; `age`, seconds, and `largest_demand`, (R,) user units: of the replica.
    """
    count = 0
    for row in range(low, high):
        if is_eligible(row, level, age, largest_demand, table):
            scratch[count] = row
            count += 1
    return count


@kernel
def least_hash(stream: np.uint64, rows: Int32, count: int) -> Any:
    """Return the one of the first `count` > 0 of `rows`, (n,), with the least hash for a repetition's `stream`."""
    hash_stream = row_stream(stream)
    best, least = rows[0], row_hash(hash_stream, rows[0])
    for index in range(1, count):
        value = row_hash(hash_stream, rows[index])
        if value < least:
            best, least = rows[index], value
    return best


@kernel
def row_range(level: int, code: int, role: int, group_start: Any) -> tuple[int, int]:
    """Return the rows [low, high) of the history in the range of a `level` of `Widening` for a class and role.

    `code`: of the class; `group_start`: of `TraceTable`.
    """
    scope = CRITERIA[level, SCOPE]
    if scope == ONE_ROLE:
        return group_start[ROLES * code + role], group_start[ROLES * code + role + 1]
    if scope == ONE_CLASS:
        return group_start[ROLES * code], group_start[ROLES * (code + 1)]
    return group_start[0], group_start[len(group_start) - 1]


@kernel
def is_eligible(row: int, level: int, age: float, largest_demand: Float, table: TraceTable) -> bool:
    """Return whether a row of the history, in the range of a `level` of `Widening`, meets the criteria of the level.

    `age` in seconds and `largest_demand`, (R,) user units: of the replica. All metrics are compared although the first
    may decide: which one does is random, and a wrong branch prediction takes more time than the comparisons.
    """
    fits = True
    if CRITERIA[level, LIFETIME]:
        fits = table.lifetime[row] >= age
    if CRITERIA[level, MAXIMA]:
        for metric in range(len(largest_demand)):
            fits &= table.maximum[row, metric] >= largest_demand[metric]
    return bool(fits)
