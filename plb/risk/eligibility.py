"""Eligibility: which past tenants may stand for a replica, D(db) of [1] section 5.1, and in what order it widens.

The traces of the replica's class and role that lived at least as long as it has and whose maxima reach the largest
demand it has shown. Where none is left, the criteria are dropped one after another in the order of `Widening`; the last
holds the whole history, so there is always something to draw from. `plb.risk.sampling` draws.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plb.array_types import Float, Float32, Int
from plb.compiler import kernel
from plb.errors import ConflictError
from plb.model import Role
from plb.risk.demand import DemandHistory


class Widening(IntEnum):
    """What a replica's traces must have in common with it; the first that leaves any trace is used.

    A replica whose class is unknown starts at `ALL_AGE_DEMAND`.
    """

    CLASS_ROLE_AGE_DEMAND = 0
    """Same class and role, lifetime at least the age, maxima at least the largest demand: D(db) as in [1]."""
    CLASS_AGE_DEMAND = 1
    """Same class in any role, lifetime, maxima."""
    CLASS_DEMAND = 2
    """Same class, maxima: the replica has outlived all who grew as large."""
    CLASS_AGE = 3
    """Same class, lifetime: the replica has outgrown its whole class."""
    CLASS = 4
    """Same class."""
    ALL_AGE_DEMAND = 5
    """Any class, lifetime, maxima."""
    ALL = 6
    """The whole history."""


ROLES = len(Role)
UNKNOWN_CLASS_START = int(Widening.ALL_AGE_DEMAND)
SCOPE, LIFETIME, MAXIMA = 0, 1, 2
ONE_ROLE, ONE_CLASS, WHOLE = 0, 1, 2
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


def eligible_traces(
    history: DemandHistory, *, tenant_class: str | None, role: Role, age: float, largest_demand: npt.ArrayLike
) -> tuple[Widening, Int]:
    """Return the rows that may stand for a replica, and how far the criteria had to widen to find any.

    Parameters
    ----------
    history
        The past tenants.
    tenant_class, role
        Of the replica; None or an unknown name is a class without traces.
    age
        Seconds since the replica was created.
    largest_demand
        Largest demand seen so far (LBMax) in user units, shape (R,).

    Raises
    ------
    ConflictError
        `largest_demand` has another shape.
    """
    table, demand = trace_table(history), np.asarray(largest_demand, np.float64)
    if demand.shape != (len(history.metrics),):
        raise ConflictError(f"eligible traces: largest_demand has shape {demand.shape}, expected one for each metric")
    code = history.class_code(tenant_class)
    for level in Widening if code >= 0 else (Widening.ALL_AGE_DEMAND, Widening.ALL):
        low, high = row_range(int(level), code, int(role), table.group_start)
        fits = np.ones(high - low, np.bool_)
        if CRITERIA[level, LIFETIME]:
            fits &= table.lifetime[low:high] >= np.float64(age)
        if CRITERIA[level, MAXIMA]:
            fits &= (table.maximum[low:high] >= demand).all(axis=1)
        if fits.any():
            return level, low + np.flatnonzero(fits)
    raise AssertionError("a history holds at least one trace")


@kernel
def row_range(level: int, code: int, role: int, group_start: Any) -> tuple[int, int]:
    """Return the rows [low, high) that a widening level looks at; `group_start` has shape (3C + 1,)."""
    scope = CRITERIA[level, SCOPE]
    if scope == ONE_ROLE:
        return group_start[ROLES * code + role], group_start[ROLES * code + role + 1]
    if scope == ONE_CLASS:
        return group_start[ROLES * code], group_start[ROLES * (code + 1)]
    return group_start[0], group_start[len(group_start) - 1]


@kernel
def is_eligible(row: int, level: int, age: float, largest_demand: Float, table: TraceTable) -> bool:
    """Return whether a row within the level's range meets its criteria; `largest_demand` has shape (R,).

    All metrics are looked at although the first may settle it: which one does is random, and a processor that guesses
    wrong loses more time than the comparisons take.
    """
    fits = True
    if CRITERIA[level, LIFETIME]:
        fits = table.lifetime[row] >= age
    if CRITERIA[level, MAXIMA]:
        for metric in range(len(largest_demand)):
            fits &= table.maximum[row, metric] >= largest_demand[metric]
    return bool(fits)
