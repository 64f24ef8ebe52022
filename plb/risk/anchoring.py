"""Sampled traces anchored at what a replica has shown.

[1] section 5.1 lets a replica follow an eligible trace as recorded. Eligibility bounds the trace's maxima from below
only, so a replica that has long stopped growing is expected to reach the mean of all larger maxima. Here the trace
tells how demand goes on, and the replica's own record from where:

- a metric with trend grows from the largest demand seen by what the trace still grows after this age;
- a metric without trend keeps the trace's level in proportion to the largest demand seen. Maxima of a bursty metric
  take a day to show, so until then this weighs as much as the share of the day that has passed, the recorded level the
  rest.
"""

from __future__ import annotations

import math

from plb.arrays import Float, Float32, Int, Int32
from plb.kernel import kernel
from plb.risk.demand import LARGEST_LEVEL

# Positions in curves
LEVEL, INITIAL, GROWTH, MAXIMUM = range(4)
RECORD_SECONDS = 86_400.0
"""Seconds after which the largest demand of a metric without trend has shown itself: a day."""


@kernel
def recorded_peaks(peak: Int32, peak_ceiling: Int, rows: Int, trace: Int32, level: Int32) -> None:
    """Fill in the peaks of `rows` as their traces were recorded; `level` has shape (T, R), in steps.

    The other parameters are those of `anchor_peaks`.
    """
    for row in rows:
        for metric in range(peak.shape[1]):
            highest = 0
            for k in range(peak.shape[2]):
                steps_up = level[trace[row, k], metric]
                peak[row, metric, k] = steps_up
                highest = max(highest, steps_up)
            peak_ceiling[row, metric] = highest


@kernel
def anchor_peaks(
    peak: Int32,
    peak_ceiling: Int,
    settled_age: Float,
    rows: Int,
    trace: Int32,
    age: Float,
    largest_demand: Float,
    curves: Float32,
    trend: Int,
    steps: Float,
) -> None:
    """Fill in the peaks of `rows`.

    With trend ``peak = LBMax + M − demand(age)``, with the curve of `plb.risk.demand`; without trend
    ``peak = w·U90·LBMax/max + (1 − w)·U90``, w the share of `RECORD_SECONDS` that has passed.

    Parameters
    ----------
    peak, peak_ceiling
        (M+1, R, K) and (M+1, R) steps; changed.
    settled_age
        (M,) age in seconds after which the peaks of a row no longer change by themselves; changed.
    rows
        (m,) rows to fill in.
    trace
        (M, K) rows of the history.
    age, largest_demand
        (M,) seconds and (M, R) user units.
    curves
        (T, R, 4) level, initial, growth and maximum of the history, user units and seconds.
    trend
        (R,) 1 for a metric with trend, else 0.
    steps
        (R,) user units a step.
    """
    for row in rows:
        settled_age[row] = 0.0
        for metric in range(peak.shape[1]):
            highest = 0
            for k in range(peak.shape[2]):
                at = trace[row, k]
                expected = float(curves[at, metric, LEVEL])
                if trend[metric]:
                    left = expected - curves[at, metric, INITIAL]
                    duration = float(curves[at, metric, GROWTH])
                    settled_age[row] = max(settled_age[row], duration)
                    left *= 1.0 - age[row] / duration if age[row] < duration else 0.0
                    expected = largest_demand[row, metric] + left
                elif curves[at, metric, MAXIMUM] > 0.0:
                    settled_age[row] = max(settled_age[row], RECORD_SECONDS)
                    known = min(1.0, age[row] / RECORD_SECONDS)
                    expected *= 1.0 - known + known * largest_demand[row, metric] / curves[at, metric, MAXIMUM]
                steps_up = min(math.ceil(expected / steps[metric]), LARGEST_LEVEL)
                peak[row, metric, k] = steps_up
                highest = max(highest, steps_up)
            peak_ceiling[row, metric] = highest
