"""Historical simulation: a repetition is a moment of the past, the same for all replicas.

Time is cut into slots. In the column of a slot each replica contributes its load at one moment of the slot, so that the
sum over the replicas of a node is what they demanded together, whatever their correlation. The probability of a
violation within the horizon is the share of the windows of that many neighbouring slots in which a sum reaches a
threshold. The name is that of the method in the measurement of financial risk.

The search, the energy and the policies compare nodes by this share. A probability that is told to a user also follows
from the present demand: in a window that begins now, demand differs from that in a past window by what is left of the
present difference, which falls by the same share each hour. In finance this is filtered historical simulation. A few
windows say little of rare events, so the share is smoothed towards the mean over all nodes.

A replica did not live through the slots before it was created. Its own slots stand for them: a later one at the same
time of the day, and if there is none, its slots are repeated. Before its first slot, its present load stands for all.
Before its first report, it follows sampled traces of past tenants, one for each day, at their levels.

M rows of replicas, R metrics, K slots, D days of the slots, rounded up.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Float, Int, Int32, UInt8
from plb.compiler import kernel
from plb.risk.estimators import HistoricalSimulation

MISSING = -1
"""Value of a slot that a row has not lived through."""
HORIZON, OLDEST = range(2)
"""Positions in windows: the length of a window in slots, and the column of the oldest slot."""


@kernel
def bad_windows(hit: UInt8, windows: Int) -> int:
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
def fill_column(column: Int32, values: Int32, load: int, newest: int, day: int, ages: Int) -> None:
    """Write the demand of a row in each slot to `column`, (K,) quanta; see `fill_columns`."""
    slots, lived = column.shape[0], 0
    for age in range(slots):
        if values[(newest - age) % slots] != MISSING:
            ages[lived] = age
            lived += 1
    for age in range(slots):
        place = (newest - age) % slots
        same = age
        while same >= 0 and values[(newest - same) % slots] == MISSING:
            same -= day
        if same >= 0:
            column[place] = values[(newest - same) % slots]
        elif lived > 0:
            column[place] = values[(newest - ages[age % lived]) % slots]
        else:
            column[place] = load


@kernel
def fill_columns(
    peak: Int32,
    peak_ceiling: Int,
    rows: Int,
    values: Int32,
    load: Int,
    reported: Bool,
    sampled: Int32,
    most: Int,
    newest: int,
    day: int,
    ages: Int,
) -> None:
    """Fill in the demand of rows in each slot, in quanta, and its maximum over the slots.

    Parameters
    ----------
    peak, peak_ceiling
        (M+1, R, K) and (M+1, R) quanta; modified.
    rows
        (m,) the rows.
    values
        (M, R, K) quanta, or `MISSING`: what each row demanded in the slots.
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
        by_traces = sampled.shape[2] > 0 and not reported[row]
        for metric in range(peak.shape[1]):
            column, present = peak[row, metric], min(load[row, metric], most[metric])
            if by_traces:
                for age in range(slots):
                    column[(newest - age) % slots] = sampled[row, metric, min(age // day, sampled.shape[2] - 1)]
            else:
                fill_column(column, values[row, metric], present, newest, day, ages)
            highest = 0
            for slot in range(slots):
                column[slot] = min(column[slot], most[metric])
                highest = max(highest, column[slot])
            peak_ceiling[row, metric] = highest


@kernel
def count_from_now(sums: Int32, threshold: Int32, decay: Float, oldest: int) -> int:
    """Return the number of windows in which a node is in violation if they begin with the demand of the newest slot.

    Parameters
    ----------
    sums
        (R, K) quanta: demand of the node in each slot, a ring.
    threshold
        (R,) quanta.
    decay
        (h,) share of the present difference that is left in each slot of a window.
    oldest
        Column of the oldest slot.
    """
    slots, horizon = sums.shape[1], decay.shape[0]
    newest = (oldest - 1) % slots
    bad = 0
    for first in range(slots - horizon + 1):
        before = (oldest + first - 1) % slots
        is_bad = False
        for metric in range(sums.shape[0]):
            apart = float(sums[metric, newest] - sums[metric, before]) if first > 0 else 0.0
            for later in range(horizon):
                demand = sums[metric, (oldest + first + later) % slots] + decay[later] * apart
                is_bad |= demand >= threshold[metric]
        bad += is_bad
    return bad


def told_probabilities(
    estimator: HistoricalSimulation, sums: Int32, threshold: Int32, counted: Bool, oldest: int, horizon: int
) -> Float:
    """Return the probability of a violation of each node within a horizon, given its present demand, (N,).

    With s of w windows bad and n = K / horizon of them independent, it is (n·s/w + a·p) / (n + a); p is the mean of s/w
    over all nodes with replicas, and a the smoothing. It is 0 on nodes that are not counted or have no replicas.

    Parameters
    ----------
    sums
        (N, R, K) quanta.
    threshold
        (N, R) quanta.
    counted
        (N,) whether violations of the node count.
    horizon
        Slots.
    """
    slots = sums.shape[2]
    hours = estimator.slot_minutes / 60.0 * np.arange(1, horizon + 1)
    decay = np.asarray(estimator.persistence**hours, np.float64)
    used = counted & (sums > 0).any(axis=(1, 2))
    share = np.zeros(len(sums))
    for node in np.flatnonzero(used).tolist():
        share[node] = count_from_now(sums[node], threshold[node], decay, oldest) / (slots - horizon + 1)
    if not used.any():
        return share
    independent = slots / horizon
    smoothed = (independent * share + estimator.smoothing * share[used].mean()) / (independent + estimator.smoothing)
    return np.asarray(np.where(used, smoothed, 0.0), np.float64)
