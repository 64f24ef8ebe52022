"""Sampling past tenants for replicas: K traces each, uniform over the eligible ones and stable as these become fewer.

**The rule.** Repetition k of a replica has a fixed list of rows: ``low + index(seed, key, k, d)`` for d = 0 .. 63, each
uniform over the rows [low, high) of the widening level. The first eligible one is taken. If none of the 64 is eligible,
the eligible row with the least hash ``(seed, key, k, row)`` is taken.

**Uniform**, whatever the criteria: each draw is uniform over [low, high) and independent of the others, so the first
that falls into a subset is uniform over that subset; and so is the row of least hash, whether draws missed or not, as
the hashes are independent of the draws. Nothing depends on what was eligible before, so this holds for every set of
criteria on its own, also after the criteria have widened.

**Stable.** Age and largest demand only grow, so within a level the eligible set only shrinks. The draws before the one
taken stay ineligible, hence it is taken again while it is eligible; the same holds for the least hash. Only repetitions
whose trace has dropped out get another: common random numbers at little cost.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Int8, Int32
from plb.compiler import kernel
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.risk.counter_based_random import repetition_stream, replica_stream, row_hash, row_stream, uniform_index
from plb.risk.demand_history import DemandHistory
from plb.risk.eligibility import (
    CRITERIA,
    LIFETIME,
    MAXIMA,
    UNKNOWN_CLASS_START,
    TraceTable,
    is_eligible,
    row_range,
    trace_table,
)
from plb.validation import check_count

Array = npt.NDArray[Any]

DRAWS = 64
"""Draws of a repetition before the least hash decides."""
NONE = -1


@attrs.frozen(eq=False)
class TraceDraws:
    """The sampled traces of m replicas, and how long they stay as they are.

    Parameters
    ----------
    trace
        Row of the history for each replica and repetition, shape (m, K), int32.
    widening
        `Widening` of each replica, shape (m,), int8.
    valid_age
        The draws are unchanged while the age is at most this, in seconds, shape (m,); infinite where the lifetime is
        no criterion.
    valid_demand
        ... and while the largest demand is at most this for every metric, in user units, shape (m, R); infinite where
        the maxima are no criterion.
    """

    trace: Int32
    widening: Int8
    valid_age: Float
    valid_demand: Float


class TraceSampler:
    """Draws traces for replicas, as a pure function of the seed, each replica's key and what is known of it.

    Parameters
    ----------
    history
        The past tenants.
    repetitions
        K, the number of traces for each replica; at least 1. The first traces do not depend on K.
    seed
        A whole number in [0, 2^64).
    """

    def __init__(self, history: DemandHistory, *, repetitions: int = 100, seed: int = 0) -> None:
        self.history = history
        self.repetitions = check_count("trace sampler", "repetitions", repetitions, low=1)
        self.seed = check_count("trace sampler", "seed", seed)
        if self.seed >= 2**64:
            raise InvalidValueError("trace sampler", "seed", seed, "a whole number >= 0 and < 2^64")
        self.table = trace_table(history)
        self.scratch = np.empty(len(history), np.int32)

    def draw(
        self,
        key: npt.ArrayLike,
        tenant_class: npt.ArrayLike,
        role: npt.ArrayLike,
        age: npt.ArrayLike,
        largest_demand: npt.ArrayLike,
        *,
        before: TraceDraws | None = None,
    ) -> TraceDraws:
        """Draw K traces for each of m replicas.

        Parameters
        ----------
        key
            Stable key of each replica (`replica_key`), shape (m,), uint64.
        tenant_class
            Class code in the history, -1 where unknown, shape (m,).
        role
            Value of `Role`, shape (m,).
        age
            Seconds since creation, at least 0, shape (m,).
        largest_demand
            Largest demand seen so far (LBMax), user units, at least 0, shape (m, R).
        before
            What this sampler drew for the same replicas when their age and largest demand were at most these; a
            widening of -1 where it drew nothing. It saves time and changes no result.

        Raises
        ------
        InvalidValueError
            A value is outside its range; the message names the replica by its position.
        ConflictError
            An array has another shape.
        """
        keys = np.ascontiguousarray(key, np.uint64)
        known = self._checked(len(keys), tenant_class, role, age, largest_demand)
        trace = np.empty((len(keys), self.repetitions), np.int32) if before is None else before.trace.copy()
        widening = np.full(len(keys), NONE, np.int8) if before is None else before.widening.copy()
        valid_age, valid_demand = np.empty_like(known[2]), np.empty_like(known[3])
        with np.errstate(over="ignore"):
            draw_batch(
                np.uint64(self.seed), keys, *known, self.table, self.scratch, trace, widening, valid_age, valid_demand
            )
        return TraceDraws(trace, widening, valid_age, valid_demand)

    def _checked(self, replicas: int, *given: npt.ArrayLike) -> tuple[Array, Array, Float, Float]:
        """Return class, role, age and largest demand as arrays of one type if all values are within range."""
        metrics, classes = self.history.metrics, len(self.history.classes)
        code = _within("tenant_class", given[0], (replicas,), np.int64, -1, classes - 1)
        role = _within("role", given[1], (replicas,), np.int64, 0, len(Role) - 1)
        age = _within("age", given[2], (replicas,), np.float64, 0, np.inf)
        demand = _within("largest_demand", given[3], (replicas, len(metrics)), np.float64, 0, np.inf, metrics)
        return code, role, age, demand


def _within(
    field: str,
    values: npt.ArrayLike,
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    low: float,
    high: float,
    metrics: tuple[str, ...] = (),
) -> Array:
    array = np.ascontiguousarray(values, dtype)
    if array.shape != shape:
        raise ConflictError(f"trace sampler: {field} has shape {array.shape}, expected {shape}")
    refused = ~((array >= low) & (array <= high) & np.isfinite(array))
    if refused.any():
        at = tuple(int(i) for i in np.argwhere(refused)[0])
        name = f"{field}[{metrics[at[1]]}]" if metrics else field
        allowed = f"a finite number >= {low:g}" + (f" and <= {high:g}" if np.isfinite(high) else "")
        raise InvalidValueError(f"replica {at[0]}", name, array[at].item(), allowed)
    return array


@kernel
def draw_batch(
    seed: np.uint64,
    keys: Array,
    codes: Array,
    roles: Array,
    ages: Float,
    largest_demands: Float,
    table: TraceTable,
    scratch: Int32,
    trace: Int32,
    widening: Array,
    valid_age: Float,
    valid_demand: Float,
) -> None:
    """Fill `trace` (m, K), `widening` and `valid_age` (m,) and `valid_demand` (m, R), as `TraceDraws` has them.

    They follow from `keys`, `codes`, `roles`, `ages` (m,) and `largest_demands` (m, R). Where `widening` is not NONE at
    first, `trace` holds what was drawn at that level before. `scratch` is that of `draw_replica`.
    """
    for i in range(len(keys)):
        demand = largest_demands[i]
        widening[i] = draw_replica(
            seed, keys[i], codes[i], roles[i], ages[i], demand, table, scratch, trace[i], widening[i]
        )
        valid_age[i] = age_horizon(trace[i], widening[i], table)
        for metric in range(len(demand)):
            valid_demand[i, metric] = demand_horizon(trace[i], widening[i], metric, table)


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
    known: int,
) -> int:
    """Fill `trace` (K,) and return the level of widening.

    Parameters
    ----------
    largest_demand
        (R,) user units.
    scratch
        (T,) holds the eligible rows where they had to be collected.
    known
        The level at which `trace` was drawn before, or NONE.
    """
    stream = replica_stream(seed, key)
    level = known if known != NONE else (0 if code >= 0 else UNKNOWN_CLASS_START)
    while True:
        low, high = row_range(level, code, role, table.group_start)
        if draw_at_level(stream, level, low, high, age, largest_demand, table, scratch, trace, level == known):
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
    """Fill `trace` (K,) from the eligible rows of [low, high) and return True, or return False if there are none.

    With `kept`, rows of `trace` that are still eligible stay. The range is scanned once at the most, at the first
    repetition whose draws all miss.
    """
    if low == high:
        return False
    collected = NONE
    for repetition in range(len(trace)):
        if kept and is_eligible(trace[repetition], level, age, largest_demand, table):
            continue
        words = repetition_stream(stream, repetition)
        row = first_eligible(words, level, low, high, age, largest_demand, table)
        if row == NONE:
            if collected == NONE:
                collected = collect_eligible(level, low, high, age, largest_demand, table, scratch)
            if collected == 0:
                return False
            row = least_hash(words, scratch, collected)
        trace[repetition] = row
    return True


@kernel
def first_eligible(
    words: np.uint64, level: int, low: int, high: int, age: float, largest_demand: Float, table: TraceTable
) -> int:
    """Return the first eligible row among a repetition's draws, or NONE; `largest_demand` has shape (R,)."""
    for draw in range(DRAWS):
        row = low + uniform_index(words, draw, high - low)
        if is_eligible(row, level, age, largest_demand, table):
            return row
    return NONE


@kernel
def collect_eligible(
    level: int, low: int, high: int, age: float, largest_demand: Float, table: TraceTable, scratch: Int32
) -> int:
    """Write the eligible rows of [low, high) to the front of `scratch` (T,) and return their number."""
    found = 0
    for row in range(low, high):
        if is_eligible(row, level, age, largest_demand, table):
            scratch[found] = row
            found += 1
    return found


@kernel
def least_hash(words: np.uint64, rows: Int32, count: int) -> Any:
    """Return the one of the first `count` rows, `count` at least 1, that has the least hash."""
    stream = row_stream(words)
    best, least = rows[0], row_hash(stream, rows[0])
    for i in range(1, count):
        value = row_hash(stream, rows[i])
        if value < least:
            best, least = rows[i], value
    return best


@kernel
def age_horizon(trace: Int32, level: int, table: TraceTable) -> float:
    """Return the least lifetime among `trace` (K,), in seconds; infinite where the lifetime is no criterion."""
    least = np.inf
    if CRITERIA[level, LIFETIME]:
        for row in trace:
            least = min(least, table.lifetime[row])
    return least


@kernel
def demand_horizon(trace: Int32, level: int, metric: int, table: TraceTable) -> float:
    """Return the least maximum of a metric among `trace` (K,), in user units; infinite where it is no criterion."""
    least = np.inf
    if CRITERIA[level, MAXIMA]:
        for row in trace:
            least = min(least, table.maximum[row, metric])
    return least
