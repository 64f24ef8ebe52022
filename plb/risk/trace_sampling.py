"""Sampling past tenants for replicas: K traces each, uniform over the eligible ones.

`plb.risk.replica_draws` samples for one replica; here are arrays of them, and the checks of arguments.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array, Float, Int8, Int32
from plb.compiler import kernel
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.risk.counter_based_random import seed_word
from plb.risk.demand_history import DemandHistory
from plb.risk.eligibility import TraceTable, trace_table
from plb.risk.eligible_draws import NONE
from plb.risk.replica_draws import age_horizon, demand_horizon, draw_replica
from plb.validation import check_count


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
        A whole number of at least 0.

    Raises
    ------
    InvalidValueError
        A number is out of range.
    """

    def __init__(
        self,
        history: DemandHistory,
        *,
        repetitions: int = 100,
        seed: int = 0,
    ) -> None:
        self.history = history
        self.repetitions = check_count("trace sampler", "repetitions", repetitions, low=1)
        self.seed = check_count("trace sampler", "seed", seed)
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
        trace = np.empty((len(keys), self.repetitions), np.int32) if before is None else before.trace.copy()
        widening = np.full(len(keys), NONE, np.int8) if before is None else before.widening.copy()
        valid_age, valid_demand = np.empty_like(known[2]), np.empty_like(known[3])
        with np.errstate(over="ignore"):
            draw_batch(
                seed_word(self.seed),
                keys,
                *known,
                self.table,
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

    They follow from `keys`, `codes`, `roles`, `ages` (m,) and `largest_demands` (m, R). Where `widening` is
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
            table,
            scratch,
            trace[i],
            widening[i],
        )
        valid_age[i] = age_horizon(trace[i], widening[i], table)
        for metric in range(len(demand)):
            valid_demand[i, metric] = demand_horizon(trace[i], widening[i], metric, table)
