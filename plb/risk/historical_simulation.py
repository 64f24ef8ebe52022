"""Historical simulation: a repetition is a moment of the past, the same for all replicas.

Time is cut into slots. In the column of a slot each replica contributes its load at one moment of the slot, so that the
sum over the replicas of a node is what they demanded together, whatever their correlation. The probability of a
violation within the horizon is the share of the windows of that many neighbouring slots in which a sum reaches a
threshold. The name comes from the measurement of financial risk.

The search, the energy and the policies compare nodes by this share. The probability that a user receives also follows
from the present demand: in a window that begins now, demand differs from that in a past window by what is left of the
present difference, which falls by the same share each hour. In finance this is filtered historical simulation. A few
windows say little of rare events, so the share is smoothed towards the mean over all nodes.

A replica did not live through the slots before it was created. Its own slots stand for them: a later one at the same
time of the day, and if there is none, its slots are repeated. Before its first slot, its present load stands for all.
Before its first report, it takes the levels of sampled past tenants, one for each day.

M rows of replicas, R metrics, K slots, D days of the slots, rounded up.
"""

from __future__ import annotations

import numpy as np

from plb.array_types import Bool, Float, Int, Int32, UInt8
from plb.compiler import kernel
from plb.risk.demand_history import LARGEST_LEVEL
from plb.risk.estimators import HistoricalSimulation

MISSING = -1
"""Value of a slot that a row has not lived through."""
HORIZON, OLDEST = range(2)
"""Positions in windows: the length of a window in slots, and the column of the oldest slot."""


@kernel
def bad_windows(hit: UInt8, windows: Int) -> int:
    """Return the number of `windows` with a slot that is marked in `hit`, (K,), a ring (see `HORIZON`, `OLDEST`)."""
    slots, horizon, oldest = hit.shape[0], windows[HORIZON], windows[OLDEST]
    bad, since_hit = 0, horizon
    for step in range(slots):
        column = oldest + step
        if column >= slots:
            column -= slots
        since_hit = 0 if hit[column] else since_hit + 1
        if since_hit < horizon and step >= horizon - 1:
            bad += 1
    return bad


@kernel
def fill_column(column: Int32, values: Int32, load: int, newest: int, day: int, scratch: Int) -> None:
    """Write the demand of a row in each slot to `column`, (K,) quanta, a ring with the newest slot at `newest`.

    `values`: (K,) its recorded demand, or `MISSING`; `load`: its present one, in quanta; `day`: number of slots of a
    day; `scratch`: (2, K).
    """
    slots, lived = column.shape[0], 0
    ages, from_day = scratch[0], scratch[1]
    for age in range(slots):
        index = (newest - age) % slots
        column[index] = values[index]
        from_day[age] = values[index] != MISSING
        if from_day[age]:
            ages[lived] = age
            lived += 1
        elif age >= day and from_day[age - day]:
            column[index] = column[(newest - age + day) % slots]
            from_day[age] = 1
        elif lived == 0:
            column[index] = load
    for age in range(slots):
        if lived > 0 and not from_day[age]:
            column[(newest - age) % slots] = values[(newest - ages[age % lived]) % slots]


@kernel
def fill_columns(
    peak: Int32,
    peak_ceiling: Int,
    rows: Int,
    values: Int32,
    load: Int,
    reported: Bool,
    sampled: Int32,
    newest: int,
    day: int,
    scratch: Int,
) -> None:
    """Fill in the demand of rows, (m,), in each slot, in quanta, and its maximum over the slots.

    `peak` (M+1, R, K) and `peak_ceiling` (M+1, R) are modified. `values` (M, R, K) is what each row demanded in the
    slots, or `MISSING`; `load` (M+1, R) and `reported` (M,) are the present loads, and whether they were reported.
    `sampled` (M+1, R, D) has levels of sampled traces; D = 0: none are sampled. `newest` is the column of the newest
    slot, `day` the number of slots of a day; `scratch`: (2, K).
    """
    slots = peak.shape[2]
    for row in rows:
        by_traces = sampled.shape[2] > 0 and not reported[row]
        for metric in range(peak.shape[1]):
            column = peak[row, metric]
            if by_traces:
                for age in range(slots):
                    column[(newest - age) % slots] = sampled[row, metric, min(age // day, sampled.shape[2] - 1)]
            else:
                present = min(load[row, metric], LARGEST_LEVEL)
                fill_column(column, values[row, metric], present, newest, day, scratch)
            highest = 0
            for slot in range(slots):
                highest = max(highest, column[slot])
            peak_ceiling[row, metric] = highest


@kernel
def count_from_now(sums: Int, present: Int, threshold: Int32, decay: Float, oldest: int) -> int:
    """Return the number of windows in which a node is in violation if they begin with the present demand.

    The demand before the window of the oldest slots is not known, so this window counts as it was. `sums` (R, K), a
    ring with the oldest slot at `oldest`, `present` (R,) and `threshold` (R,) are in quanta; `decay` (h,) is the share
    of the present difference that is left in each slot of a window.
    """
    slots, horizon = sums.shape[1], decay.shape[0]
    bad = 0
    for first in range(slots - horizon + 1):
        for metric in range(sums.shape[0]):
            before = sums[metric, (oldest + first - 1) % slots] if first > 0 else present[metric]
            if _reaches(sums[metric], float(present[metric] - before), threshold[metric], decay, oldest + first):
                bad += 1
                break
    return bad


@kernel
def _reaches(sums: Int, difference: float, threshold: int, decay: Float, start: int) -> bool:
    """Return whether the demand of a metric reaches a threshold in the window that begins at `start`.

    `sums`: (K,) a ring; `difference`: of the present demand from the demand before the window, all in quanta; `decay`:
    (h,) share of the difference that is left in each slot.
    """
    for later in range(decay.shape[0]):
        if sums[(start + later) % sums.shape[0]] + decay[later] * difference >= threshold:
            return True
    return False


def shares_from_now(
    estimator: HistoricalSimulation, sums: Int, present: Int, threshold: Int32, oldest: int, horizon: int
) -> Float:
    """Return the share of the windows in which each node is in violation, given its present demand, (N,).

    `sums` (N, R, K), a ring with the oldest slot at `oldest`, `present` (N, R) and `threshold` (N, R) are in quanta;
    `horizon` is the number of slots of a window.
    """
    hours = estimator.slot_minutes / 60.0 * np.arange(1, horizon + 1)
    decay = np.asarray(estimator.persistence**hours, np.float64)
    nodes = zip(sums, present, threshold, strict=True)
    counts = [count_from_now(*node_arrays, decay, oldest) for node_arrays in nodes]
    return np.asarray(np.array(counts, np.float64) / (sums.shape[2] - horizon + 1), np.float64)


def smoothed(estimator: HistoricalSimulation, share: Float, mean: float, horizon: int) -> Float:
    """Return shares of windows of `horizon` slots, (N,), smoothed towards a mean.

    Of the windows of K slots n = K / horizon are independent. With the smoothing a of the estimator, the result is
    (n · share + a · mean) / (n + a).
    """
    independent = estimator.slots / horizon
    return np.asarray((independent * share + estimator.smoothing * mean) / (independent + estimator.smoothing))
