"""Eligibility: the past tenants that may represent a replica, D(db) of [1] section 5.1, and its widening.

They are the traces of the class and role of the replica with a lifetime of at least its age and maxima of at least its
largest demand. If there is none, the criteria are dropped one after another in the order of `Widening`; the last
level has the whole history, so there is always a trace. `plb.risk.trace_sampling` samples them.
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
    """Same class, lifetime: the demand of the replica exceeds that of its whole class."""
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
    """Return the rows that may represent a replica, and the level of widening with the first of them.

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
    """Return the rows [low, high) of a level of widening; `group_start` has shape (3C + 1,)."""
    scope = CRITERIA[level, SCOPE]
    if scope == ONE_ROLE:
        return group_start[ROLES * code + role], group_start[ROLES * code + role + 1]
    if scope == ONE_CLASS:
        return group_start[ROLES * code], group_start[ROLES * (code + 1)]
    return group_start[0], group_start[len(group_start) - 1]


@kernel
def is_eligible(row: int, level: int, age: float, largest_demand: Float, table: TraceTable) -> bool:
    """Return whether a row within the level's range meets its criteria; `largest_demand` has shape (R,).

    All metrics are compared although the first may decide: which one does is random, and a wrong branch prediction
    takes more time than the comparisons.
    """
    fits = True
    if CRITERIA[level, LIFETIME]:
        fits = table.lifetime[row] >= age
    if CRITERIA[level, MAXIMA]:
        for metric in range(len(largest_demand)):
            fits &= table.maximum[row, metric] >= largest_demand[metric]
    return bool(fits)
