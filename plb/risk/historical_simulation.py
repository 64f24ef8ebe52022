"""Historical simulation: a repetition is a moment of the past, the same for all replicas.

Time is cut into slots. In the column of a slot each replica contributes its load at one moment of the slot, so that the
sum over the replicas of a node is what they demanded together, whatever their correlation. The probability of a
violation within the horizon is the share of the windows of that many neighbouring slots in which a sum reaches a
threshold. The name is that of the method in the measurement of financial risk.

A replica did not live through the slots before it was created. For each day of them a donor is drawn: a replica of the
same class and role that has lived for a day at least. The slots of the day contribute what the donor demanded then, as
multiples of the donor's level, times the level of the replica. Of several candidates the one is taken whose level, and
after a day whose variation, match best. Without donors, the replica's own slots are repeated, at the same time of the
day if possible. A replica without a report contributes the loads of its donors; without donors, the levels of sampled
traces of past tenants, one for each day.

M rows of replicas, R metrics, K slots, D days of the slots, rounded up.
"""

from __future__ import annotations

import math

import numpy as np

from plb.array_types import NOWHERE, Bool, Int, Int8, Int32
from plb.compiler import kernel
from plb.risk.counter_based_random import repetition_stream, replica_stream, uniform_index

UNKNOWN, LOADS, RATIOS = range(3)
"""What the slots hold that a row has not lived through: nothing, loads of donors, or multiples of the level."""
OWN = -1
"""Value of a slot that is filled from slots of the row itself."""
RATIO_UNIT = 1024
"""Parts of a level in which a multiple is stored, rounded up."""
LARGEST_RATIO = 2**20 * RATIO_UNIT
CANDIDATES = 4
"""Number of donors that are drawn for a day, of which the best match is taken."""
HORIZON, OLDEST = range(2)
"""Positions in windows: the length of a window in slots, and the column of the oldest slot."""


@kernel
def bad_windows(hit: np.ndarray, windows: Int) -> int:
    """Return the number of windows with a slot that is marked in `hit`, (K,).

    Parameters
    ----------
    windows
        (2,) length of a window, and the column of the oldest slot; the columns are a ring.
    """
    slots, horizon, oldest = hit.shape[0], windows[HORIZON], windows[OLDEST]
    bad, since = 0, horizon
    for age in range(slots):
        place = oldest + age
        if place >= slots:
            place -= slots
        since = 0 if hit[place] else since + 1
        if since < horizon and age >= horizon - 1:
            bad += 1
    return bad


@kernel
def level_of(values: Int32, lived: Bool, load: int) -> float:
    """Return the mean of the slots of a row that it has lived through, or else its present load, in quanta.

    Parameters
    ----------
    values, lived
        (K,) a metric of the row, and whether it has lived through the slot.
    """
    total, count = 0, 0
    for slot in range(values.shape[0]):
        if lived[slot]:
            total += int(values[slot])
            count += 1
    return total / count if count > 0 else float(load)


@kernel
def variation_of(values: Int32, lived: Bool, level: float) -> float:
    """Return the standard deviation of the slots that a row has lived through, as a share of their mean."""
    squares, count = 0.0, 0
    for slot in range(values.shape[0]):
        if lived[slot]:
            squares += (values[slot] - level) ** 2
            count += 1
    return math.sqrt(squares / count) / level if count > 0 and level > 0.0 else 0.0


@kernel
def list_lived(lived: Bool, newest: int, ages: Int) -> int:
    """Write the ages of the slots that a row has lived through to `ages`, (K,), ascending; return their number."""
    count = 0
    for age in range(lived.shape[0]):
        if lived[(newest - age) % lived.shape[0]]:
            ages[count] = age
            count += 1
    return count


@kernel
def own_slot(lived: Bool, newest: int, day: int, age: int, ages: Int, count: int) -> int:
    """Return the column of the row itself that stands for a slot of an age; `count`, at least 1, of `ages` are lived.

    It is a later slot at the same time of the day; without one, the slots of the row are repeated.
    """
    slots = lived.shape[0]
    same = age - day
    while same >= 0:
        place = (newest - same) % slots
        if lived[place]:
            return int(place)
        same -= day
    return int((newest - ages[age % count]) % slots)


@kernel
def fill_column(
    column: Int32, values: Int32, lived: Bool, source: int, load: int, newest: int, day: int, ages: Int
) -> None:
    """Write the demand of a row in each slot to `column`, (K,) quanta; see `fill_columns`."""
    slots = column.shape[0]
    count = list_lived(lived, newest, ages)
    level = level_of(values, lived, load)
    for age in range(slots):
        place = (newest - age) % slots
        if lived[place] or (source == LOADS and values[place] != OWN):
            column[place] = values[place]
        elif source == RATIOS and values[place] != OWN:
            column[place] = min(math.ceil(values[place] * level / RATIO_UNIT), LARGEST_RATIO)
        elif count > 0:
            column[place] = values[own_slot(lived, newest, day, age, ages, count)]
        else:
            column[place] = load


@kernel
def fill_columns(
    peak: Int32,
    peak_ceiling: Int,
    rows: Int,
    values: Int32,
    lived: Bool,
    source: Int8,
    load: Int,
    reported: Bool,
    sampled: Int32,
    most: Int,
    newest: int,
    day: int,
    ages: Int,
) -> None:
    """Fill in the demand of rows in each slot, rounded up to quanta, and its maximum over the slots.

    Parameters
    ----------
    peak, peak_ceiling
        (M+1, R, K) and (M+1, R) quanta; modified.
    rows
        (m,) the rows.
    values, lived, source
        (M, R, K), (M, K) and (M,): `plb.state.past_loads.PastLoads`.
    load, reported
        (M+1, R) quanta and (M,): the present loads, and whether they were reported.
    sampled
        (M+1, R, D) quanta: levels of sampled traces; D = 0: none are sampled.
    most
        (R,) quanta: larger demand counts as this.
    newest
        Column of the newest slot.
    day
        Slots of a day.
    ages
        (K,) scratch.
    """
    slots = peak.shape[2]
    for row in rows:
        by_traces = sampled.shape[2] > 0 and source[row] == UNKNOWN and not reported[row]
        for metric in range(peak.shape[1]):
            column, present = peak[row, metric], min(load[row, metric], most[metric])
            if by_traces:
                for age in range(slots):
                    column[(newest - age) % slots] = sampled[row, metric, min(age // day, sampled.shape[2] - 1)]
            else:
                fill_column(column, values[row, metric], lived[row], source[row], present, newest, day, ages)
            highest = 0
            for slot in range(slots):
                column[slot] = min(column[slot], most[metric])
                highest = max(highest, column[slot])
            peak_ceiling[row, metric] = highest


@kernel
def mismatch(values: Int32, lived: Bool, count: Int, load: Int, row: int, donor: int, day: int) -> float:
    """Return how far the level of a donor is from that of a row and, after a day of the row, how far the variation is.

    Levels differ by the logarithm of their ratio; both differences are summed over the metrics.
    """
    apart = 0.0
    for metric in range(values.shape[1]):
        here = level_of(values[row, metric], lived[row], load[row, metric])
        there = level_of(values[donor, metric], lived[donor], load[donor, metric])
        apart += abs(math.log((there + 1.0) / (here + 1.0)))
        if count[row] >= day:
            variation = variation_of(values[row, metric], lived[row], here)
            apart += abs(variation_of(values[donor, metric], lived[donor], there) - variation)
    return apart


@kernel
def draw_donor(
    stream: np.uint64,
    donors: Int,
    values: Int32,
    lived: Bool,
    count: Int,
    load: Int,
    row: int,
    day: int,
    matched: bool,
) -> int:
    """Return the best match, or the first, of the candidates from `donors`, (d,); NOWHERE if none can give a day."""
    best, found = math.inf, NOWHERE
    for draw in range(CANDIDATES):
        donor = donors[uniform_index(stream, draw, len(donors))]
        if donor == row or count[donor] < day:
            continue  # it has left since the list was made
        if not matched:
            return int(donor)
        apart = mismatch(values, lived, count, load, row, donor, day)
        if apart < best:
            best, found = apart, int(donor)
    return found


@kernel
def borrow(
    seed: np.uint64,
    key: np.uint64,
    row: int,
    donors: Int,
    values: Int32,
    lived: Bool,
    source: Int8,
    count: Int,
    load: Int,
    newest: int,
    day: int,
    matched: bool,
    ages: Int,
    column: Int32,
) -> None:
    """Fill the slots that a row has not lived through with what donors demanded, a donor for each day.

    Parameters
    ----------
    seed, key
        Of the engine and of the replica: they determine the draws.
    donors
        (d,) rows that may be drawn, at least one.
    values, source
        As in `fill_columns`; those of the row are modified.
    count
        (M,) number of slots that each row has lived through.
    matched
        Whether the level of the row is known: donors are matched, and their demand is stored as multiples of the level.
    ages, column
        (K,) scratch.
    """
    slots = values.shape[2]
    replica = replica_stream(seed, key)
    for first in range(0, slots, day):
        stream = repetition_stream(replica, first // day)
        donor = draw_donor(stream, donors, values, lived, count, load, row, day, matched)
        for metric in range(values.shape[1]):
            if donor != NOWHERE:
                of_donor, is_lived = values[donor, metric], lived[donor]
                fill_column(column, of_donor, is_lived, source[donor], 0, newest, day, ages)
                level = level_of(of_donor, is_lived, 0) if matched else float(RATIO_UNIT)
            for age in range(first, min(first + day, slots)):
                place = (newest - age) % slots
                if lived[row, place]:
                    continue
                if donor == NOWHERE:
                    values[row, metric, place] = OWN
                elif level > 0.0:
                    values[row, metric, place] = min(math.ceil(column[place] * RATIO_UNIT / level), LARGEST_RATIO)
                else:
                    values[row, metric, place] = RATIO_UNIT
    source[row] = RATIOS if matched else LOADS
