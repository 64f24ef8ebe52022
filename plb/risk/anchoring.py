"""Sampled traces anchored at what a replica has shown.

[1] section 5.1 lets a replica follow an eligible trace as recorded. Eligibility bounds the trace's maxima from below
only, so a replica that has long stopped growing is expected to reach the mean of all larger maxima. Here the trace
gives the later demand, and the reports of the replica the start:

- a metric with trend grows from the largest demand so far by the later growth of the trace at this age;
- a metric without trend keeps the trace's level in proportion to the largest demand seen. Maxima of a bursty metric
  take a day to show, so until then the weight of this is the share of the day that has passed; the recorded level has
  the rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from plb.array_types import Float, Float32, Int, Int32
from plb.compiler import by_pointer, kernel
from plb.risk.demand_history import LARGEST_LEVEL, RECORD_SECONDS
from plb.risk.sample_expiry import Rows

# Positions in curves
LEVEL, INITIAL, GROWTH, MAXIMUM = range(4)
GROWTH_SECONDS = 600.0
"""Steps of age in which growth is evaluated: the granularity of the paper's traces ([1] section 8.1)."""


@by_pointer
class Anchors(NamedTuple):
    """At what the peaks of M rows were last filled in."""

    age: Float
    """(M,) seconds; -1 if they are not anchored."""
    demand: Float
    """(M, R) largest demand, user units; -1 if they are not anchored."""
    settled_age: Float
    """(M, R) seconds, after which the peaks of a metric no longer depend on age; infinite if they are not anchored."""


@kernel
def recorded_peaks(peak: Int32, peak_ceiling: Int, rows: Int, trace: Int32, level: Int32) -> None:
    """Fill in the peaks of `rows` as their traces were recorded; `level` has shape (T, R), in quanta.

    The other parameters are those of `anchor_peaks`.
    """
    for row in rows:
        for metric in range(peak.shape[1]):
            highest = 0
            for k in range(peak.shape[2]):
                quanta = level[trace[row, k], metric]
                peak[row, metric, k] = quanta
                highest = max(highest, quanta)
            peak_ceiling[row, metric] = highest


@kernel
def anchor_peaks(
    peak: Int32,
    peak_ceiling: Int,
    anchors: Anchors,
    rows: Int,
    trace: Int32,
    age: Float,
    largest_demand: Float,
    curves: Float32,
    trend: Int,
    quanta: Float,
) -> None:
    """Fill in the peaks of `rows` that have changed since they were last filled in.

    Parameters
    ----------
    peak, peak_ceiling
        (M+1, R, K) and (M+1, R) quanta; changed.
    anchors
        At what the peaks were last filled in; changed.
    rows
        (m,) rows to update.
    trace
        (M, K) rows of the history.
    age, largest_demand
        (M,) seconds and (M, R) user units.
    curves
        (T, R, 4) level, initial, growth and maximum of the history, user units and seconds.
    trend, quanta
        (R,) 1 for a metric with trend, else 0; and user units per quantum.
    """
    for row in rows:
        before = anchors.age[row]
        any_changed = False
        for metric in range(peak.shape[1]):
            demand, anchored = largest_demand[row, metric], anchors.demand[row, metric]
            grows = before < min(age[row], anchors.settled_age[row, metric])
            if not (grows or age[row] < before or anchored != demand):
                continue
            any_changed = True
            only_aged = 0.0 <= before <= age[row] and anchored == demand
            anchors.demand[row, metric] = demand
            of_replica, quantum = peak[row, metric], quanta[metric]
            if trend[metric] and only_aged:
                settled = anchors.settled_age[row, metric]
                highest = age_growing(of_replica, trace[row], curves, metric, age[row], demand, quantum)
            elif trend[metric]:
                highest, settled = anchor_growing(of_replica, trace[row], curves, metric, age[row], demand, quantum)
            else:
                highest, settled = anchor_level(of_replica, trace[row], curves, metric, age[row], demand, quantum)
            peak_ceiling[row, metric] = highest
            anchors.settled_age[row, metric] = settled
        if any_changed:
            anchors.age[row] = age[row]


@kernel
def find_grown(candidates: Int, rows: Rows, age: Float, growth_age: Float, anchors: Anchors, found: Int) -> int:
    """Return how many of some rows have peaks that `anchor_peaks` would change.

    Parameters
    ----------
    candidates
        (m,) the rows; only those with a report, in use and not leaving, are anchored.
    rows
        The present data.
    age
        (M,) seconds since each row was created.
    growth_age
        (M,) the age up to which growth is evaluated; filled in for the rows that are anchored.
    anchors
        At what the peaks were last filled in.
    found
        (m,) those rows, in their order, in its first entries; modified. The others are those of `anchor_peaks`.
    """
    count = 0
    for row in candidates:
        if not (rows.used[row] and rows.reported[row]) or rows.leaving[row]:
            continue
        growth_age[row] = math.floor(age[row] / GROWTH_SECONDS) * GROWTH_SECONDS
        before = anchors.age[row]
        changed = growth_age[row] < before
        for metric in range(anchors.settled_age.shape[1]):
            changed |= before < min(growth_age[row], anchors.settled_age[row, metric])
            changed |= anchors.demand[row, metric] != rows.largest_demand[row, metric]
        if changed:
            found[count] = row
            count += 1
    return count


@kernel
def next_growth(age: float, settled_age: Float) -> float:
    """Return the age at which the peaks of a row grow next; infinite if they no longer depend on age.

    Parameters
    ----------
    age
        Age at which they were last filled in, in seconds.
    settled_age
        (R,) as in `anchor_peaks`.
    """
    for settled in settled_age:
        if age < settled:
            return (math.floor(age / GROWTH_SECONDS) + 1.0) * GROWTH_SECONDS
    return math.inf


@kernel
def anchor_growing(
    peak: Int32, trace: Int32, curves: Float32, metric: int, age: float, demand: float, quantum: float
) -> tuple[int, float]:
    """Fill in the peaks of a metric with trend, ``LBMax + M − demand(age)`` (`plb.risk.demand_history`).

    Parameters
    ----------
    peak, trace
        (K,) quanta, changed, and rows of the history.
    age, demand
        Of the replica: seconds, and largest demand in user units.
    quantum
        User units.

    Returns
    -------
    tuple
        The largest peak, and the age after which the peaks no longer depend on age.
    """
    highest = 0
    settled = 0.0
    for k in range(peak.shape[0]):
        settled = max(settled, float(curves[trace[k], metric, GROWTH]))
        peak[k] = growing_peak(curves, trace[k], metric, age, demand, quantum)
        highest = max(highest, peak[k])
    return highest, settled


@kernel
def age_growing(
    peak: Int32, trace: Int32, curves: Float32, metric: int, age: float, demand: float, quantum: float
) -> int:
    """Update peaks of a lesser age, for the same demand and traces, to this age; return the largest.

    The later growth of a trace only decreases, so a peak that equals the demand does not change and its trace is
    not evaluated. Parameters as in `anchor_growing`.
    """
    least = peak_in_quanta(demand, quantum)
    highest = least
    for k in range(peak.shape[0]):
        if peak[k] != least:
            peak[k] = growing_peak(curves, trace[k], metric, age, demand, quantum)
            highest = max(highest, peak[k])
    return highest


@kernel
def growing_peak(curves: Float32, at: int, metric: int, age: float, demand: float, quantum: float) -> int:
    """Return the peak in quanta of a metric with trend, if trace `at` continues from `demand` at `age`."""
    duration = float(curves[at, metric, GROWTH])
    left = float(curves[at, metric, LEVEL]) - curves[at, metric, INITIAL]
    left *= 1.0 - age / duration if age < duration else 0.0
    return peak_in_quanta(demand + left, quantum)


@kernel
def peak_in_quanta(peak: float, quantum: float) -> int:
    """Return a peak in whole quanta, rounded up, up to the largest counted value."""
    return min(math.ceil(peak / quantum), LARGEST_LEVEL)


@kernel
def anchor_level(
    peak: Int32, trace: Int32, curves: Float32, metric: int, age: float, demand: float, quantum: float
) -> tuple[int, float]:
    """Fill in the peaks of a metric without trend; parameters and result as in `anchor_growing`.

    ``peak = w·U90·LBMax/max + (1 − w)·U90``, w the share of `RECORD_SECONDS` that has passed.
    """
    highest = 0
    settled = 0.0
    known = min(1.0, age / RECORD_SECONDS)
    for k in range(peak.shape[0]):
        at = trace[k]
        expected = float(curves[at, metric, LEVEL])
        maximum = curves[at, metric, MAXIMUM]
        if maximum > 0.0:
            settled = RECORD_SECONDS
            expected *= 1.0 - known + known * demand / maximum
        peak[k] = peak_in_quanta(expected, quantum)
        highest = max(highest, peak[k])
    return highest, settled
