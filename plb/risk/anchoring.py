"""Sampled traces anchored at what a replica has shown.

[1] section 5.1 lets a replica follow an eligible trace as recorded. Eligibility bounds the trace's maxima from below
only, so a replica that has long stopped growing is expected to reach the mean of all larger maxima. Here the trace
gives the later demand, and the reports of the replica the start:

- a metric with trend grows from the largest demand so far by the later growth of the trace at this age;
- a metric without trend keeps the trace's level in proportion to the largest demand seen. Maxima of a bursty metric
  take a day to show, so until then the weight of this is the share of the day that has passed; the recorded level has
  the rest.

Demand falls at times and comes back. With dips, growth starts between the present load and the largest demand, at a
place that is drawn uniformly for each replica, repetition and metric; else at the largest demand, as if every dip ended
at once. With a horizon, only the growth within it counts.

The level of a metric without trend is the 90th percentile of the trace, which suits many replicas together. A replica
that takes a node for itself reaches its maximum there, so for replicas of this size the level is the trace's maximum.
It too is in proportion to the largest demand seen: after a day it is this demand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from plb.array_types import Array, Bool, Float, Float32, Int, Int32
from plb.compiler import by_pointer, kernel
from plb.risk.counter_based_random import dip_stream, fraction, replica_stream, word_of_draw
from plb.risk.demand_history import LARGEST_LEVEL, RECORD_SECONDS
from plb.risk.trace_sampling import Rows

LEVEL, INITIAL, GROWTH, MAXIMUM = range(4)
"""Positions in `Anchoring.curves`: level and initial demand, duration of growth, maximum."""
GROWTH_SECONDS = 600.0
"""Steps of age in which growth is evaluated: the granularity of the paper's traces ([1] section 8.1)."""


@by_pointer
class Anchoring(NamedTuple):
    """How traces are anchored. T traces, R metrics, C services."""

    curves: Float32
    """(T, R, 4) level, initial, growth and maximum of the history, user units and seconds."""
    trend: Bool
    """(R,) whether the metric has a trend."""
    dips: Bool
    """(R,) whether growth starts between present load and largest demand; only with a trend."""
    quanta: Float
    """(R,) size of a quantum in user units."""
    large: Bool
    """(C, R) whether replicas of a service reach the maxima of their traces; only without a trend."""
    horizon: Float
    """(1,) seconds within which growth counts; infinite: all later growth."""
    seed: Array
    """(1,) uint64: seed of the draws."""


@by_pointer
class Anchors(NamedTuple):
    """The data for which the peaks of M rows were last filled in."""

    age: Float
    """(M,) seconds; -1 if they are not anchored."""
    demand: Float
    """(M, R) largest demand, user units; -1 if they are not anchored."""
    low: Float
    """(M, R) lowest start of growth, user units; -1 if they are not anchored."""
    settled_age: Float
    """(M, R) seconds, after which the peaks of a metric no longer depend on age; infinite if they are not anchored."""


class Start(NamedTuple):
    """Where the later growth of a row in a metric starts."""

    demand: float
    """Largest demand so far, user units."""
    low: float
    """Lowest demand at which growth may start, user units."""
    key: np.uint64
    """Stable key of the row, from which its draws derive."""


@kernel
def recorded_peaks(
    peak: Int32, peak_ceiling: Int, selected: Int, rows: Rows, trace: Int32, recorded: Int32, large: Bool
) -> None:
    """Fill in `peak` and `peak_ceiling` of the `selected` rows, (m,), as their traces were recorded.

    `recorded`: (T, R, 2) quanta, level and maximum; `trace`: (M, K) rows of the history; `large`: of `Anchoring`.
    """
    for row in selected:
        for metric in range(peak.shape[1]):
            column = int(large[rows.service[row], metric])
            highest = 0
            for k in range(peak.shape[2]):
                quanta = recorded[trace[row, k], metric, column]
                peak[row, metric, k] = quanta
                highest = max(highest, quanta)
            peak_ceiling[row, metric] = highest


@kernel
def anchor_peaks(
    peak: Int32,
    peak_ceiling: Int,
    anchors: Anchors,
    selected: Int,
    rows: Rows,
    trace: Int32,
    age: Float,
    anchoring: Anchoring,
) -> None:
    """Fill in the peaks of the `selected` rows, (m,), whose data differ from `anchors`, and update `anchors`.

    `peak` (M+1, R, K) and `peak_ceiling` (M+1, R) are in quanta and modified; `rows`: present data; `trace` (M, K):
    rows of the history; `age` (M,): seconds up to which growth is evaluated.
    """
    for row in selected:
        before = anchors.age[row]
        any_changed = False
        for metric in range(peak.shape[1]):
            start = start_of(rows, row, metric, anchoring)
            is_same = anchors.demand[row, metric] == start.demand and anchors.low[row, metric] == start.low
            grows = before < min(age[row], anchors.settled_age[row, metric])
            if is_same and not grows and age[row] >= before:
                continue
            any_changed = True
            only_aged = 0.0 <= before <= age[row] and is_same
            anchors.demand[row, metric], anchors.low[row, metric] = start.demand, start.low
            row_peak = peak[row, metric]
            if anchoring.trend[metric] and only_aged:
                settled = anchors.settled_age[row, metric]
                highest = age_growing(row_peak, trace[row], metric, age[row], start, anchoring)
            elif anchoring.trend[metric]:
                highest, settled = anchor_growing(row_peak, trace[row], metric, age[row], start, anchoring)
            else:
                level = MAXIMUM if anchoring.large[rows.service[row], metric] else LEVEL
                highest, settled = anchor_level(row_peak, trace[row], metric, level, age[row], start.demand, anchoring)
            peak_ceiling[row, metric] = highest
            anchors.settled_age[row, metric] = settled
        if any_changed:
            anchors.age[row] = age[row]


@kernel
def start_of(rows: Rows, row: int, metric: int, anchoring: Anchoring) -> Start:
    """Return the demand from which a row grows in a metric: the largest so far and, after a dip, the present load."""
    demand = rows.largest_demand[row, metric]
    low = demand
    if anchoring.dips[metric] and not rows.vacant[row]:
        low = min(demand, rows.load[row, metric] * anchoring.quanta[metric])
    return Start(demand, low, rows.key[row])


@kernel
def start_in(start: Start, metric: int, k: int, anchoring: Anchoring) -> float:
    """Return the demand from which a row with a `start` grows in a metric in repetition `k`, in user units."""
    if start.low == start.demand:
        return start.demand
    stream = dip_stream(word_of_draw(replica_stream(anchoring.seed[0], start.key), k))
    share = fraction(word_of_draw(stream, metric))
    return float(start.low + share * (start.demand - start.low))


@kernel
def find_grown(
    candidates: Int, rows: Rows, age: Float, growth_age: Float, anchors: Anchors, anchoring: Anchoring, grown: Int
) -> int:
    """Return how many `candidates`, (m,) rows, have peaks that `anchor_peaks` would change.

    They are written to the front of `grown`, (m,), in the order of the candidates. Only rows with a report, in use and
    not leaving, are anchored; for these `growth_age`, (M,), is set to `growth_age_of` their `age`, (M,), in seconds.
    """
    count = 0
    for row in candidates:
        if not (rows.used[row] and rows.reported[row]) or rows.leaving[row]:
            continue
        growth_age[row] = growth_age_of(age[row])
        before = anchors.age[row]
        changed = growth_age[row] < before
        for metric in range(anchors.settled_age.shape[1]):
            start = start_of(rows, row, metric, anchoring)
            changed |= before < min(growth_age[row], anchors.settled_age[row, metric])
            changed |= anchors.demand[row, metric] != start.demand or anchors.low[row, metric] != start.low
        if changed:
            grown[count] = row
            count += 1
    return count


@kernel
def growth_age_of(age: float) -> float:
    """Return the age, in seconds, up to which growth is evaluated for a row of this `age`: whole `GROWTH_SECONDS`."""
    return math.floor(age / GROWTH_SECONDS) * GROWTH_SECONDS


@kernel
def next_growth(age: float, settled_age: Float) -> float:
    """Return the age at which the peaks of a row grow next; infinite if they no longer depend on age.

    `age`: at which they were filled in; `settled_age`: (R,) of the row in `Anchors`; all in seconds.
    """
    for settled in settled_age:
        if age < settled:
            return growth_age_of(age) + GROWTH_SECONDS
    return math.inf


@kernel
def anchor_growing(
    peak: Int32, trace: Int32, metric: int, age: float, start: Start, anchoring: Anchoring
) -> tuple[int, float]:
    """Fill in the peaks of a row in a metric with trend, ``start + M − demand(age)`` (`plb.risk.demand_history`).

    `peak`, (K,) quanta, receives them; `trace`, (K,), has rows of the history; `age` is in seconds. Return the largest
    peak in quanta, and the age in seconds after which the peaks no longer depend on age.
    """
    highest = 0
    settled = 0.0
    for k in range(peak.shape[0]):
        settled = max(settled, float(anchoring.curves[trace[k], metric, GROWTH]))
        peak[k] = growing_peak(trace[k], metric, age, start_in(start, metric, k, anchoring), anchoring)
        highest = max(highest, peak[k])
    return highest, settled


@kernel
def age_growing(peak: Int32, trace: Int32, metric: int, age: float, start: Start, anchoring: Anchoring) -> int:
    """Update the peaks of a row in `metric` to a greater `age`, for the same start and traces; return the largest.

    The later growth of a trace only decreases, so a peak that equals its start does not change and its trace is not
    evaluated. `peak`: (K,) quanta; `trace`: (K,) rows of the history; `age`: seconds.
    """
    highest = 0
    for k in range(peak.shape[0]):
        demand = start_in(start, metric, k, anchoring)
        if peak[k] != peak_in_quanta(demand, anchoring.quanta[metric]):
            peak[k] = growing_peak(trace[k], metric, age, demand, anchoring)
        highest = max(highest, peak[k])
    return highest


@kernel
def growing_peak(trace: int, metric: int, age: float, demand: float, anchoring: Anchoring) -> int:
    """Return the peak in quanta of a metric with trend, if row `trace` of the history continues from `demand` at `age`.

    `demand` is in user units, `age` in seconds.
    """
    curves = anchoring.curves
    rise = float(curves[trace, metric, LEVEL]) - curves[trace, metric, INITIAL]
    growth = rise * growth_share(float(curves[trace, metric, GROWTH]), age, anchoring.horizon[0])
    return peak_in_quanta(demand + growth, anchoring.quanta[metric])


@kernel
def growth_share(duration: float, age: float, horizon: float) -> float:
    """Return the share of a trace's growth that a replica of this `age` has yet to show within the `horizon`.

    `duration`: of the whole growth; all in seconds.
    """
    if age >= duration:
        return 0.0
    return min(1.0 - age / duration, horizon / duration)


@kernel
def peak_in_quanta(peak: float, quantum: float) -> int:
    """Return a peak in whole quanta of a size `quantum`, rounded up, at most `LARGEST_LEVEL`; both in user units."""
    return min(math.ceil(peak / quantum), LARGEST_LEVEL)


@kernel
def anchor_level(
    peak: Int32, trace: Int32, metric: int, level: int, age: float, demand: float, anchoring: Anchoring
) -> tuple[int, float]:
    """Fill in `peak`, (K,) quanta, in a metric without trend; return the largest, and the age from which all stay.

    ``peak = w·U·LBMax/max + (1 − w)·U``, with w the share of `RECORD_SECONDS` that has passed, LBMax the `demand` in
    user units, and U at the position `level` of a curve: the 90th percentile, or the maximum. `trace`: (K,) rows of the
    history.
    """
    highest = 0
    settled = 0.0
    seen_share = min(1.0, age / RECORD_SECONDS)
    for k in range(peak.shape[0]):
        expected = float(anchoring.curves[trace[k], metric, level])
        maximum = anchoring.curves[trace[k], metric, MAXIMUM]
        if maximum > 0.0:
            settled = RECORD_SECONDS
            expected *= 1.0 - seen_share + seen_share * demand / maximum
        peak[k] = peak_in_quanta(expected, anchoring.quanta[metric])
        highest = max(highest, peak[k])
    return highest, settled
