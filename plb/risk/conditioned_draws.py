"""Draws of past tenants from the eligible ones by weight: how well they match what the replica has shown.

`plb.risk.trace_weights` defines the weights.

**The rule.** Repetition k has the same list of 64 rows as in `plb.risk.eligible_draws`. An eligible one is taken with a
probability equal to its weight, decided by another hash, ``(seed, key, k, d)``. If none of the 64 is taken, each
eligible row has a random time, exponential with its weight as rate, from the hash ``(seed, key, k, row)``, and the row
of the least time is taken. If no eligible row has a weight, the draws are those of `plb.risk.eligible_draws`.

**Proportional.** Each draw is uniform and its acceptance is independent of all else, so the first one that is taken has
a probability in proportion to its weight (rejection sampling). So has the row of the least time, as the times are
independent of the draws. With weights of 1 the rows are those of `plb.risk.eligible_draws`.

**Stable.** A small change of the weights changes few acceptances and few least times. While the weights are the same, a
trace that was taken stays, as in `plb.risk.eligible_draws`; with other weights it is taken again or not, because the
weight of an earlier draw may have risen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plb.array_types import Float, Int32
from plb.compiler import kernel
from plb.risk.counter_based_random import (
    chance_stream,
    exponential,
    fraction,
    repetition_stream,
    row_hash,
    row_stream,
    uniform_index,
    word_of_draw,
)
from plb.risk.eligibility import TraceTable, is_eligible
from plb.risk.eligible_draws import DRAWS, NONE, draw_at_level
from plb.risk.trace_weights import (
    FARTHEST,
    Likeness,
    begin_comparison,
    demand_step_end,
    share_of_metric,
    squared_distance,
    step_of_age,
)


@kernel
def conditioned_age_horizon(age: float, horizon: float) -> float:
    """Return until which age weighed draws are unchanged; `horizon`: until which their traces are eligible."""
    return min(horizon, step_of_age(age)[1])


@kernel
def conditioned_demand_horizon(
    level: int, code: int, age: float, demand: float, horizon: float, metric: int, likeness: Likeness
) -> float:
    """Return until which largest demand of a metric weighed draws are unchanged, in user units.

    Parameters
    ----------
    level, code
        Of widening, and the class of the replica.
    age, demand
        Those of the draws: seconds and user units.
    horizon
        Until which the traces are eligible.
    """
    if share_of_metric(likeness.kind[metric], step_of_age(age)[0]) > 0.0:
        return min(horizon, demand_step_end(level, code, metric, demand, likeness))
    return horizon


@kernel
def draw_conditioned(
    stream: np.uint64,
    level: int,
    low: int,
    high: int,
    code: int,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    likeness: Likeness,
    scratch: Int32,
    trace: Int32,
    kept: bool,
) -> bool:
    """Fill `trace` (K,) from the eligible rows of [low, high) by weight; return False if none is eligible.

    With `kept`, rows of `trace` that are still eligible stay: they were drawn by the present weights.

    Parameters
    ----------
    code
        Class of the replica in the history, -1 where unknown.
    age, largest_demand
        Of the replica: seconds, and (R,) user units.
    scratch
        (T,) as in `plb.risk.eligible_draws.draw_at_level`.
    """
    if low == high:
        return False
    start = step_of_age(age)[0]
    begin_comparison(level, code, start, largest_demand, likeness)
    collected = NONE
    for repetition in range(len(trace)):
        if kept and is_eligible(trace[repetition], level, age, largest_demand, table):
            continue
        words = repetition_stream(stream, repetition)
        if collected == NONE:
            row = first_taken(words, level, low, high, start, age, largest_demand, table, likeness)
            if row == NONE:
                collected = collect_distances(level, low, high, start, age, largest_demand, table, likeness, scratch)
        else:
            row = first_of_collected(words, low, high, likeness)
        if row == NONE:
            if collected == 0:  # nor has another repetition taken one: the class decides
                return draw_at_level(stream, level, low, high, age, largest_demand, table, scratch, trace, False)
            row = least_time(words, scratch, likeness.weight, collected)
        trace[repetition] = row
    return True


@kernel
def first_taken(
    words: np.uint64,
    level: int,
    low: int,
    high: int,
    start: float,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    likeness: Likeness,
) -> int:
    """Return the first row that is taken among a repetition's draws, or NONE.

    A row is taken with the probability exp(−d²/2): if d²/2 is at most an exponential number.
    """
    chances = chance_stream(words)
    for draw in range(DRAWS):
        row = low + uniform_index(words, draw, high - low)
        if is_eligible(row, level, age, largest_demand, table):
            most = min(FARTHEST * FARTHEST, 2.0 * exponential(fraction(word_of_draw(chances, draw))))
            if squared_distance(row, start, most, likeness) <= most:
                return row
    return NONE


@kernel
def first_of_collected(words: np.uint64, low: int, high: int, likeness: Likeness) -> int:
    """Return what `first_taken` does, from the distances of `collect_distances`."""
    chances = chance_stream(words)
    for draw in range(DRAWS):
        row = low + uniform_index(words, draw, high - low)
        squared = likeness.squared[row]
        if squared <= FARTHEST * FARTHEST and squared <= 2.0 * exponential(fraction(word_of_draw(chances, draw))):
            return row
    return NONE


@kernel
def collect_distances(
    level: int,
    low: int,
    high: int,
    start: float,
    age: float,
    largest_demand: Float,
    table: TraceTable,
    likeness: Likeness,
    scratch: Int32,
) -> int:
    """Fill in `likeness.squared` of [low, high), infinite without a weight; return how many have one.

    These rows are written to the front of `scratch`, their weights to that of `likeness.weight`.
    """
    found, most = 0, FARTHEST * FARTHEST
    for row in range(low, high):
        likeness.squared[row] = math.inf
        if is_eligible(row, level, age, largest_demand, table):
            squared = squared_distance(row, start, most, likeness)
            if squared <= most:
                likeness.squared[row] = squared
                scratch[found], likeness.weight[found] = row, math.exp(-0.5 * squared)
                found += 1
    return found


@kernel
def least_time(words: np.uint64, rows: Int32, weight: Float, count: int) -> Any:
    """Return the one of the first `count` rows, `count` at least 1, that has the least exponential time."""
    stream = row_stream(words)
    best, least = rows[0], math.inf
    for i in range(count):
        uniform = fraction(row_hash(stream, rows[i]))
        if uniform < least * weight[i]:  # else the time is not less: this saves most logarithms
            time = exponential(uniform) / weight[i]
            if time < least:
                best, least = rows[i], time
    return best
