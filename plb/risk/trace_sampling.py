"""Sampling past tenants for replicas: K traces each, uniform over the eligible ones or by how well they match.

`plb.risk.eligible_draws` has the draws of [1], `plb.risk.conditioned_draws` those by weight; here are their widening
and how long they are unchanged.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Int8, Int32
from plb.compiler import kernel
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.risk.conditioned_draws import (
    Conditioning,
    Likeness,
    conditioned_age_horizon,
    conditioned_demand_horizon,
    draw_conditioned,
    likeness_of,
)
from plb.risk.counter_based_random import replica_stream
from plb.risk.demand_history import DemandHistory
from plb.risk.eligibility import (
    CRITERIA,
    LIFETIME,
    MAXIMA,
    UNKNOWN_CLASS_START,
    TraceTable,
    row_range,
    trace_table,
)
from plb.risk.eligible_draws import NONE, draw_at_level
from plb.validation import check_count

Array = npt.NDArray[Any]


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
        no criterion and the draws are not by weight.
    valid_demand
        ... and while the largest demand is at most this for every metric, in user units, shape (m, R); infinite where
        the maxima are no criterion and no weight depends on the metric.
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
    conditioning
        By what eligible traces are weighed; None: each is as likely as the others, as in [1].

    Raises
    ------
    InvalidValueError
        A number is out of range.
    UnknownNameError
        A metric of `conditioning` is not in the history.
    """

    def __init__(
        self,
        history: DemandHistory,
        *,
        repetitions: int = 100,
        seed: int = 0,
        conditioning: Conditioning | None = None,
    ) -> None:
        self.history = history
        self.repetitions = check_count("trace sampler", "repetitions", repetitions, low=1)
        self.seed = check_count("trace sampler", "seed", seed)
        if self.seed >= 2**64:
            raise InvalidValueError("trace sampler", "seed", seed, "a whole number >= 0 and < 2^64")
        self.table = trace_table(history)
        self.likeness = likeness_of(history, conditioning)
        self.scratch = np.empty(len(history), np.int32)

    def draw(
        self,
        key: npt.ArrayLike,
        tenant_class: npt.ArrayLike,
        role: npt.ArrayLike,
        age: npt.ArrayLike,
        largest_demand: npt.ArrayLike,
        *,
        reported: npt.ArrayLike | None = None,
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
        reported
            Whether each replica has reported demand, shape (m,); None: each has. Without a report no trace is weighed.
        before
            What this sampler drew for the same replicas when their age and largest demand were at most these, and not
            before a report that they have lost; a widening of -1 where it drew nothing. It saves time and changes no
            result.

        Raises
        ------
        InvalidValueError
            A value is outside its range; the message names the replica by its position.
        ConflictError
            An array has another shape.
        """
        keys = np.ascontiguousarray(key, np.uint64)
        known = self._checked(len(keys), tenant_class, role, age, largest_demand)
        has_report = _switches("reported", np.ones(len(keys), np.bool_) if reported is None else reported, len(keys))
        trace = np.empty((len(keys), self.repetitions), np.int32) if before is None else before.trace.copy()
        widening = np.full(len(keys), NONE, np.int8) if before is None else before.widening.copy()
        valid_age, valid_demand = np.empty_like(known[2]), np.empty_like(known[3])
        with np.errstate(over="ignore"):
            draw_batch(
                np.uint64(self.seed),
                keys,
                *known,
                has_report,
                self.table,
                self.likeness,
                self.scratch,
                trace,
                widening,
                valid_age,
                valid_demand,
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


def _switches(field: str, values: npt.ArrayLike, count: int) -> Bool:
    array = np.ascontiguousarray(values)
    if array.shape != (count,):
        raise ConflictError(f"trace sampler: {field} has shape {array.shape}, expected {(count,)}")
    if array.dtype != np.bool_:
        raise InvalidValueError("trace sampler", field, values, "True or False for each replica")
    return array


@kernel
def draw_batch(
    seed: np.uint64,
    keys: Array,
    codes: Array,
    roles: Array,
    ages: Float,
    largest_demands: Float,
    reported: Bool,
    table: TraceTable,
    likeness: Likeness,
    scratch: Int32,
    trace: Int32,
    widening: Array,
    valid_age: Float,
    valid_demand: Float,
) -> None:
    """Fill `trace` (m, K), `widening` and `valid_age` (m,) and `valid_demand` (m, R), as `TraceDraws` has them.

    They follow from `keys`, `codes`, `roles`, `ages`, `reported` (m,) and `largest_demands` (m, R). Where `widening` is
    not NONE at first, `trace` holds what was drawn at that level before. The others are those of `draw_replica`.
    """
    for i in range(len(keys)):
        age, demand = ages[i], largest_demands[i]
        widening[i] = draw_replica(
            seed,
            keys[i],
            codes[i],
            roles[i],
            age,
            demand,
            reported[i],
            table,
            likeness,
            scratch,
            trace[i],
            widening[i],
        )
        valid_age[i] = age_horizon(trace[i], widening[i], age, reported[i], table, likeness)
        for metric in range(len(demand)):
            valid_demand[i, metric] = demand_horizon(
                trace[i], widening[i], metric, age, demand[metric], reported[i], table, likeness
            )


@kernel
def draw_replica(
    seed: np.uint64,
    key: np.uint64,
    code: int,
    role: int,
    age: float,
    largest_demand: Float,
    reported: bool,
    table: TraceTable,
    likeness: Likeness,
    scratch: Int32,
    trace: Int32,
    known: int,
) -> int:
    """Fill `trace` (K,) and return the level of widening.

    Parameters
    ----------
    largest_demand
        (R,) user units.
    reported
        Whether the replica has reported demand.
    scratch
        (T,) holds the eligible rows where they had to be collected.
    known
        The level at which `trace` was drawn before, or NONE.
    """
    stream = replica_stream(seed, key)
    level = known if known != NONE else (0 if code >= 0 else UNKNOWN_CLASS_START)
    while True:
        low, high = row_range(level, code, role, table.group_start)
        if is_weighed(reported, likeness):
            drawn = draw_conditioned(
                stream, level, low, high, code, age, largest_demand, table, likeness, scratch, trace
            )
        else:
            kept = level == known
            drawn = draw_at_level(stream, level, low, high, age, largest_demand, table, scratch, trace, kept)
        if drawn:
            return level
        level += 1


@kernel
def is_weighed(reported: bool, likeness: Likeness) -> bool:
    """Return whether traces of a replica are weighed; it needs a report."""
    return reported and likeness.per_bandwidth > 0.0


@kernel
def age_horizon(trace: Int32, level: int, age: float, reported: bool, table: TraceTable, likeness: Likeness) -> float:
    """Return until which age the draws are unchanged, in seconds: the least lifetime among `trace` (K,), if it counts.

    It may be infinite. Draws by weight hold until the step of `age`, that of the draws, ends at the most.
    """
    least = np.inf
    if CRITERIA[level, LIFETIME]:
        for row in trace:
            least = min(least, table.lifetime[row])
    if is_weighed(reported, likeness):
        return conditioned_age_horizon(age, least)
    return least


@kernel
def demand_horizon(
    trace: Int32,
    level: int,
    metric: int,
    age: float,
    demand: float,
    reported: bool,
    table: TraceTable,
    likeness: Likeness,
) -> float:
    """Return until which demand of a metric the draws are unchanged, in user units: the least maximum among `trace`.

    It is infinite where the maximum is no criterion. Draws by weight hold for no more than `demand`, that of the draws,
    if the weights depend on the metric.
    """
    least = np.inf
    if CRITERIA[level, MAXIMA]:
        for row in trace:
            least = min(least, table.maximum[row, metric])
    if is_weighed(reported, likeness):
        return conditioned_demand_horizon(age, demand, least, metric, likeness)
    return least
