"""The draws of one replica, their widening, and how long they are unchanged.

`plb.risk.eligible_draws` has the draws of [1], `plb.risk.conditioned_draws` those by weight.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Float, Int32
from plb.compiler import kernel
from plb.risk.conditioned_draws import conditioned_age_horizon, conditioned_demand_horizon, draw_conditioned
from plb.risk.counter_based_random import replica_stream
from plb.risk.eligibility import CRITERIA, LIFETIME, MAXIMA, UNKNOWN_CLASS_START, TraceTable, row_range
from plb.risk.eligible_draws import NONE, draw_at_level
from plb.risk.trace_weights import Likeness


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
    same_weights: bool,
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
    same_weights
        Whether it was drawn by the present weights; only then is a trace that was drawn by weight kept.
    """
    stream = replica_stream(seed, key)
    level = known if known != NONE else (0 if code >= 0 else UNKNOWN_CLASS_START)
    while True:
        low, high = row_range(level, code, role, table.group_start)
        kept = level == known
        if is_weighed(reported, likeness):
            kept &= same_weights
            drawn = draw_conditioned(
                stream, level, low, high, code, age, largest_demand, table, likeness, scratch, trace, kept
            )
        else:
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
    code: int,
    age: float,
    demand: float,
    reported: bool,
    table: TraceTable,
    likeness: Likeness,
) -> float:
    """Return until which demand of a metric the draws are unchanged, in user units: the least maximum among `trace`.

    It is infinite where the maximum is no criterion. Draws by weight hold until the step of `demand`, that of the
    draws, ends at the most, if the weights depend on the metric.
    """
    least = np.inf
    if CRITERIA[level, MAXIMA]:
        for row in trace:
            least = min(least, table.maximum[row, metric])
    if is_weighed(reported, likeness):
        return conditioned_demand_horizon(level, code, age, demand, least, metric, likeness)
    return least
