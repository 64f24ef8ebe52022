"""The draws of one replica, their widening, and how long they are unchanged."""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int32
from plb.compiler import kernel
from plb.risk.counter_based_random import replica_stream
from plb.risk.eligibility import CRITERIA, LIFETIME, MAXIMA, UNKNOWN_CLASS_START, TraceTable, row_range
from plb.risk.eligible_draws import NONE, draw_at_level


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
def age_horizon(trace: Int32, level: int, table: TraceTable) -> float:
    """Return until which age the draws are unchanged, in seconds: the least lifetime among `trace` (K,), if it counts.

    It may be infinite.
    """
    least = np.inf
    if CRITERIA[level, LIFETIME]:
        for row in trace:
            least = min(least, table.lifetime[row])
    return least


@kernel
def demand_horizon(trace: Int32, level: int, metric: int, table: TraceTable) -> float:
    """Return until which demand of a metric the draws are unchanged, in user units: the least maximum among `trace`.

    It is infinite where the maximum is no criterion.
    """
    least = np.inf
    if CRITERIA[level, MAXIMA]:
        for row in trace:
            least = min(least, table.maximum[row, metric])
    return least
