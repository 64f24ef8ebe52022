"""Draws of past tenants from the eligible ones, each as likely as the others ([1] section 5.1).

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

import numpy as np

from plb.array_types import Float, Int32
from plb.compiler import kernel
from plb.risk.counter_based_random import repetition_stream, row_hash, row_stream, uniform_index
from plb.risk.eligibility import TraceTable, is_eligible

DRAWS = 64
"""Draws of a repetition before the least hash decides."""
NONE = -1


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
